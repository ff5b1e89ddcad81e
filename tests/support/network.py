"""A network of real nodes on this machine: homes that `cairn testnet` made, each node in its own process group."""

import base64
import hashlib
import json
import signal
import subprocess
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from cairn.cli.network import engine_genesis
from cairn.cometbft import TomlValue, edit_toml
from cairn.domain.crypto import checksum_address
from cairn.domain.genesis import DEV_KEYS, Genesis, encode_genesis, parse_genesis
from tests.support.abci_grammar import Call, check_run, read_runs
from tests.support.links import Links, State
from tests.support.node_process import NodeProcess, clean_environment, command, wait_until
from tests.support.ports import free_ports
from tests.support.public import PublicNode
from tests.support.wallet import DEV_CHAIN_ID

DEV_COINS = 10_000
START_TIMEOUT_S = 90
"""Generous, as all limits here that nobody was promised: other tests, or other people, keep the machine busy."""
LAST_WORDS = 2_000

QUICK: dict[str, TomlValue] = {
    "consensus.timeout_propose": "1s",
    "consensus.timeout_propose_delta": "200ms",
    "consensus.timeout_prevote": "300ms",
    "consensus.timeout_precommit": "300ms",
    "consensus.timeout_commit": "100ms",
    "consensus.peer_gossip_sleep_duration": "10ms",
    "consensus.create_empty_blocks_interval": "2s",
    "p2p.flush_throttle_timeout": "5ms",
}
"""Rounds that a test can wait for."""


class NetworkNode:
    """One node of the network, over all its lives. Its URL stays the same."""

    def __init__(self, index: int, home: Path, port: int, p2p_port: int) -> None:
        self.index = index
        self.home = home
        self.p2p_port = p2p_port
        self.url = f"http://127.0.0.1:{port}"
        self.public = PublicNode(self.url)
        self.process: NodeProcess | None = None
        self._logs: list[str] = []
        """Of its lives before this one."""
        self._args = ("run", "--home", str(home), "--port", str(port), "--workers", "1")

    @property
    def cometbft_config(self) -> Path:
        return self.home / "cometbft" / "config"

    @property
    def peer_id(self) -> str:
        """What its CometBFT is called by the others: the hash of its public key."""
        key = json.loads((self.cometbft_config / "node_key.json").read_text())["priv_key"]["value"]
        return hashlib.sha256(base64.b64decode(key)[32:]).digest()[:20].hex()

    @property
    def rpc_address(self) -> str:
        """Where its CometBFT answers RPC, when that is a TCP port."""
        config = tomllib.loads((self.cometbft_config / "config.toml").read_text())
        return str(config["rpc"]["laddr"]).removeprefix("tcp://")

    def configure(self, changes: Mapping[str, TomlValue]) -> None:
        """Change the config.toml of its CometBFT."""
        file = self.cometbft_config / "config.toml"
        file.write_text(edit_toml(file.read_text(), changes))

    def set(self, **settings: object) -> None:
        """Change its own settings; the next start reads them."""
        file = self.home / "cairn.toml"
        kept = [line for line in file.read_text().splitlines() if line.partition(" =")[0] not in settings]
        chosen = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        file.write_text("\n".join(kept + chosen) + "\n")

    def last_words(self) -> str:
        """The end of its own log and of its CometBFT's."""
        own = self.process.stderr if self.process else "it does not run"
        log = self.home / "cometbft" / "cometbft.log"
        engine = log.read_text() if log.exists() else "it never ran"
        return f"node {self.index}: {self.readiness()}\n{own[-LAST_WORDS:]}\n{engine[-LAST_WORDS:]}"

    def launch(self, program: Sequence[str] | None = None) -> None:
        """Start it and return at once."""
        assert self.process is None, f"node {self.index} runs already"
        self.process = NodeProcess(self._args, program=program)

    def start(self, program: Sequence[str] | None = None) -> None:
        """Start it and wait until it is ready."""
        self.launch(program)
        self.await_ready()

    def await_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        try:
            wait_until(lambda: self.readiness()[0] == 200, timeout_s, f"node {self.index} to be ready")
        except TimeoutError as late:
            late.add_note(self.last_words())
            raise

    def await_not_ready(self, timeout_s: float) -> str:
        """Return what it says once it answers 503."""
        wait_until(lambda: self.readiness()[0] == 503, timeout_s, f"node {self.index} to be not ready")
        return self.readiness()[1]

    def await_reason(self, reason: str, timeout_s: float) -> None:
        """Return once it is not ready for that reason."""
        wait_until(lambda: reason in self.readiness()[1], timeout_s, f"node {self.index} to say: {reason}")

    def await_gone(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Return once it has ended by itself."""
        assert self.process is not None
        self.process.wait_exit(timeout_s)
        self._forget()

    def stop(self) -> None:
        """As a service manager does."""
        assert self.process is not None
        code = self.process.stop()
        assert code == 0, self.process.stderr
        self._forget()

    def kill(self) -> None:
        """SIGKILL for every process of the node at once, CometBFT too."""
        if self.process is not None:
            self.process.kill_group()
            self._forget()

    def abci_runs(self) -> list[list[Call]]:
        """What its CometBFT called, over all lives, in a traced network."""
        now = [] if self.process is None else [self.process.stderr]
        return read_runs("\n".join([*self._logs, *now]))

    def _forget(self) -> None:
        assert self.process is not None
        self._logs.append(self.process.stderr)
        self.process.close()
        self.process = None

    def freeze(self) -> None:
        assert self.process is not None
        self.process.signal_group(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        self.process.signal_group(signal.SIGCONT)

    def readiness(self) -> tuple[int | None, str]:
        """The status and the body of GET /ready; no status when there is no answer."""
        try:
            answer = httpx.get(f"{self.url}/ready", timeout=2)
        except httpx.TransportError as error:
            return None, f"{error!r}: {self.process.stderr if self.process else 'not started'}"
        return answer.status_code, answer.text

    def height(self) -> int:
        """Of the newest block that it shows."""
        return int(self.public.read("/chain")["head"]["blockHeight"])

    def block(self, height: int) -> dict[str, Any]:
        block: dict[str, Any] = self.public.read(f"/block/{height}")
        return block

    def await_height(self, height: int, timeout_s: float) -> None:
        wait_until(lambda: self.height() >= height, timeout_s, f"node {self.index} to have block {height}")


class Network:
    """Nodes 0 to `validators` - 1 make the blocks; the rest, if any, only follow. Leaving the `with` block ends all."""

    def __init__(
        self,
        directory: Path,
        validators: int = 4,
        config: Mapping[str, TomlValue] = QUICK,
        args: Sequence[str] = (),
        linked: bool = True,
        traced: bool = False,
    ) -> None:
        """Make the homes; nothing is started. `config` goes into every CometBFT's config.toml.

        With `linked`, nodes reach each other over links that can be cut, served by a thread of this process. With
        `traced`, leaving the `with` block holds all that CometBFT called on any node against the grammar of ABCI.
        """
        make_homes(directory, validators, args)
        homes = sorted(path.parent for path in directory.glob("*/cairn.toml"))
        ports = free_ports(2 * len(homes))
        self.nodes = [NetworkNode(index, home, *ports[2 * index : 2 * index + 2]) for index, home in enumerate(homes)]
        self._traced = traced
        if traced:
            self.set(log_level="debug", log_format="json")
        self._links = Links([node.p2p_port for node in self.nodes]) if linked else None
        for node in self.nodes:
            node.configure(
                {
                    **config,
                    "p2p.laddr": f"tcp://127.0.0.1:{node.p2p_port}",
                    "p2p.pex": False,
                    "p2p.persistent_peers": ",".join(self._peers(node)),
                    "rpc.laddr": f"unix://{node.home}/rpc.sock",
                }
            )

    def _peers(self, node: NetworkNode) -> Iterator[str]:
        for other in self.nodes:
            if other is not node:
                port = other.p2p_port if self._links is None else self._links.port(node.index, other.index)
                yield f"{other.peer_id}@127.0.0.1:{port}"

    @property
    def genesis(self) -> Genesis:
        return parse_genesis((self.nodes[0].home / "genesis.json").read_bytes())

    @genesis.setter
    def genesis(self, genesis: Genesis) -> None:
        """Of all nodes and of their CometBFTs, before the first start."""
        for node in self.nodes:
            (node.home / "genesis.json").write_bytes(encode_genesis(genesis))
            (node.cometbft_config / "genesis.json").write_text(json.dumps(engine_genesis(genesis)))

    def set(self, **settings: object) -> None:
        for node in self.nodes:
            node.set(**settings)

    def start(self) -> None:
        """Start all that do not run, and wait until each is ready."""
        for node in self.nodes:
            if node.process is None:
                node.launch()
        for node in self.nodes:
            node.await_ready()

    def split(self, side: Collection[int], state: State = "cut") -> None:
        """Part these nodes from the rest."""
        assert self._links is not None
        self._links.split(side, state)

    def heal(self) -> None:
        for node in self.nodes:
            self.split([node.index], "up")

    def close(self) -> None:
        for node in self.nodes:
            node.kill()
            node.public.close()
        if self._links is not None:
            self._links.close()

    def __enter__(self) -> "Network":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if self._traced and kind is None:
            for node in self.nodes:
                for run in node.abci_runs():
                    check_run(run)


def make_homes(directory: Path, validators: int, args: Sequence[str] = ()) -> None:
    """The homes of a network with the chain id and the accounts of a dev chain."""
    alloc = [f"--alloc={checksum_address(address)}={DEV_COINS}coins" for address, _ in DEV_KEYS]
    made = subprocess.run(
        command(["testnet", str(directory), f"--validators={validators}", f"--chain-id={DEV_CHAIN_ID}", *alloc, *args]),
        capture_output=True,
        text=True,
        env=clean_environment(),
    )
    assert made.returncode == 0, made.stderr
