"""A network of real nodes on this machine: homes that `cairn testnet` made, each node in its own process group."""

import base64
import hashlib
import http.client
import json
import re
import signal
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from cairn.cli.network.homes import engine_genesis
from cairn.cometbft import TomlValue, edit_toml
from cairn.domain.crypto import checksum_address
from cairn.domain.genesis import DEV_KEYS, Genesis, encode_genesis, parse_genesis
from tests.support.abci_grammar import Call, check_run, read_runs
from tests.support.commands import run_here
from tests.support.links import Links, State
from tests.support.node_process import NodeProcess, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.ports import free_ports
from tests.support.public import PublicNode
from tests.support.wallet import DEV_CHAIN_ID

DEV_COINS = 10_000
LAST_WORDS = 2_000

QUICK: dict[str, TomlValue] = {
    "consensus.timeout_propose": "600ms",
    "consensus.timeout_propose_delta": "300ms",
    "consensus.timeout_prevote": "200ms",
    "consensus.timeout_precommit": "200ms",
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
        self.environment: Mapping[str, str] = {}
        """What the next start gets besides our own."""
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
        self.process = NodeProcess(self._args, self.environment, program)

    def start(self, program: Sequence[str] | None = None) -> None:
        """Start it and wait until it is ready."""
        self.launch(program)
        self.await_ready()

    def await_ready(self) -> None:
        assert self.process is not None
        self._await(lambda: self.readiness()[0] == 200 or not self._runs, "ready")
        assert self._runs, f"node {self.index} ended: {self.process.stderr}"

    @property
    def _runs(self) -> bool:
        return self.process is not None and self.process.is_running

    def await_not_ready(self) -> str:
        """Return what it says once it answers 503."""
        self._await(lambda: self.readiness()[0] == 503, "not ready")
        return self.readiness()[1]

    def await_reason(self, reason: str) -> None:
        """Return once it is not ready for that reason."""
        self._await(lambda: reason in self.readiness()[1], f"not ready: {reason}")

    def await_silence(self, seconds: int) -> None:
        """Return once it says itself that it has had no block for so long."""
        self._await(lambda: self._silent_s() >= seconds, f"without a block for {seconds} s")

    def _silent_s(self) -> int:
        found = re.search(r"no block for (\d+) s", self.readiness()[1])
        return int(found[1]) if found else 0

    def _await(self, condition: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
        try:
            wait_until(condition, timeout_s, f"node {self.index} to be {what}")
        except TimeoutError as late:
            late.add_note(self.last_words())
            raise

    def await_gone(self) -> None:
        """Return once it has ended by itself."""
        assert self.process is not None
        self.process.wait_exit(PATIENCE_S)
        self._forget()

    def stop(self) -> None:
        """As a service manager does."""
        assert self.process is not None
        code = self.process.stop(PATIENCE_S)
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
            with Asker(self.url) as asker:
                status, body = asker.get("/ready")
        except (OSError, http.client.HTTPException) as error:
            return None, f"{error!r}: {self.process.stderr if self.process else 'not started'}"
        return status, body.decode()

    def height(self) -> int:
        """The height of the newest block that it shows."""
        with Asker(self.url) as asker:
            return int(asker.read("/chain")["head"]["blockHeight"])

    def block(self, height: int) -> dict[str, Any]:
        [block] = self.blocks(height, height)
        return block

    def blocks(self, first: int, last: int) -> list[dict[str, Any]]:
        """From `first` to `last`, both included."""
        with Asker(self.url) as asker:
            return [asker.read(f"/block/{height}") for height in range(first, last + 1)]

    def await_height(self, height: int, timeout_s: float = PATIENCE_S) -> None:
        self._await(lambda: self.height() >= height, f"at block {height}", timeout_s)


class Asker:
    """Asks a node over one connection. Tests ask so often that a client which can do more would slow the nodes down."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE_S)

    def get(self, path: str) -> tuple[int, bytes]:
        self._connection.request("GET", path)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def read(self, path: str) -> Any:
        """The JSON of a 200."""
        status, body = self.get(path)
        assert status == 200, body
        return json.loads(body)

    def __enter__(self) -> "Asker":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


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
                    "instrumentation.prometheus": False,
                }
            )
        # Other networks of the tests have the same ports for these.
        self.set(metrics_port=0)

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
        """Give all nodes and their CometBFTs another genesis, before the first start."""
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

    def split(self, side: Collection[int], state: State = "cut", after_bytes: int = 0) -> None:
        """Part these nodes from the rest; after so many bytes, where they are held."""
        assert self._links is not None
        self._links.split(side, state, after_bytes)

    def heal(self) -> None:
        for node in self.nodes:
            self.split([node.index], "up")

    def is_paused(self) -> bool:
        """Whether a process of any node is stopped."""
        return is_any_stopped([node.process.process.pid for node in self.nodes if node.process is not None])

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
    run_here(["testnet", str(directory), f"--validators={validators}", f"--chain-id={DEV_CHAIN_ID}", *alloc, *args])


def is_any_stopped(groups: Collection[int]) -> bool:
    """Whether a process of one of these process groups is stopped, as by SIGSTOP."""
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                state, _, group = (directory / "stat").read_text().rpartition(")")[2].split()[:3]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if state == "T" and int(group) in groups:
                return True
    return False
