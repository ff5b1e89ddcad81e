"""Fixtures for pytest: an app is tested against a real dev chain, which every test finds as the first one did.

A `conftest.py` brings them in with `pytest_plugins = ["cairn.testing"]`. The node is started once for the whole
session; a snapshot before each test, and a revert after it, undo what the test did. It takes a `cairn` that can run
nodes: in the same environment (`cairn-node`), or on the PATH.
"""

import importlib.util
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

import httpx
import pytest

from cairn.client import Account, Client

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
ANSWER_TIMEOUT_S = 60.0

_held_pipes: set[IO[str]] = set()
"""The standard input of each node that runs. When nobody holds it any more, the node stops."""


class NodeNotStarted(Exception):
    """There is no program that runs a node, or it ended or hangs. The text has its output."""


class DevChain:
    """A dev chain that runs, and what a test may do to it."""

    def __init__(self, url: str, accounts: Sequence[Account]) -> None:
        self.url = url
        """Of the node, as `Client` and every other program takes it."""
        self.accounts = tuple(accounts)
        """Those that are funded; the node signs for them too."""

    def mine(self, blocks: int = 1) -> None:
        """Make blocks now, empty or not."""
        self.rpc("anvil_mine", blocks)

    def increase_time(self, seconds: int) -> None:
        """Set the chain's clock ahead, and make a block with that time."""
        self.rpc("evm_increaseTime", seconds)
        self.mine()

    def set_balance(self, address: str, wei: int) -> None:
        self.rpc("anvil_setBalance", address, hex(wei))

    def snapshot(self) -> str:
        """Remember the chain as it is; `revert` with what this returns goes back to it, once.

        When blocks are made (`evm_setAutomine`, `evm_setIntervalMining`) is not part of it.
        """
        return str(self.rpc("evm_snapshot"))

    def revert(self, snapshot: str) -> None:
        """Go back to a snapshot. Raises `ValueError` for one that is unknown or used up."""
        if not self.rpc("evm_revert", snapshot):
            raise ValueError(f"there is no snapshot {snapshot}, or it is used up")

    def rpc(self, method: str, *params: object) -> Any:
        """Call any method of JSON-RPC. Raises `ValueError` when the node refuses."""
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        # A proxy from the environment does not reach this machine's nodes, and to load the certificates that the
        # system trusts would take longer than the call.
        answer = httpx.post(
            f"{self.url}/rpc", json=call, timeout=ANSWER_TIMEOUT_S, trust_env=False, verify=False
        ).json()
        if "error" in answer:
            raise ValueError(f"{method}: {answer['error']['message']}")
        return answer["result"]


@contextmanager
def running_node(options: Sequence[str] = ()) -> Iterator[DevChain]:
    """Run `cairn dev` on a free port, with these options besides. Raises `NodeNotStarted`.

    Every submission is mined at once, unless the options say otherwise (`--block-time`). However this process ends, the
    node ends with it.
    """
    usual = ["dev", "--quiet", "--until-stdin-ends", "--log-format", "json", "--port", "0", "--block-time", "0"]
    command = [*find_program(), *usual, *options]
    with (
        tempfile.TemporaryFile("w+") as errors,
        # In a process group of its own: Ctrl-C is for the tests, which still need the node to clean up.
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, process_group=0
        ) as node,
    ):
        assert node.stdin is not None
        assert node.stdout is not None
        _held_pipes.add(node.stdin)
        try:
            in_time = select.select([node.stdout], [], [], START_TIMEOUT_S)[0]
            started = node.stdout.readline() if in_time else ""
            if not started:
                ending = _ending(node) if in_time else f"says nothing for {START_TIMEOUT_S:g} s"
                errors.seek(0)
                raise NodeNotStarted(f"`cairn dev` {ending}: {errors.read().strip()}")
            told = json.loads(started)
            yield DevChain(told["url"], [Account.from_key(each["privateKey"]) for each in told["accounts"]])
        finally:
            _held_pipes.discard(node.stdin)
            _stop(node)


def _let_go_of_pipes() -> None:
    """In a forked process, which may outlive the one that started the nodes."""
    for pipe in _held_pipes:
        pipe.close()


os.register_at_fork(after_in_child=_let_go_of_pipes)


def find_program() -> list[str]:
    """The command that runs nodes: this environment's own, or the one on the PATH. Raises `NodeNotStarted`."""
    if importlib.util.find_spec("cairn.cli") is not None:
        return [sys.executable, "-m", "cairn.cli"]
    found = shutil.which("cairn")
    if found is None:
        raise NodeNotStarted(
            "no `cairn` runs nodes here: install cairn-node instead of cairn-node-client, or install it with pipx"
        )
    return [found]


def _ending(node: subprocess.Popen[str]) -> str:
    """How a node ends that has closed its output."""
    try:
        return f"ended with exit code {node.wait(STOP_TIMEOUT_S)}"
    except subprocess.TimeoutExpired:
        return f"has closed its output, and still runs {STOP_TIMEOUT_S:g} s later"


def _stop(node: subprocess.Popen[str]) -> None:
    node.terminate()
    try:
        node.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        node.kill()


@pytest.fixture(scope="session")
def cairn_options() -> Sequence[str]:
    """More options of `cairn dev`; define it in a conftest.py of your own to choose some."""
    return ()


@pytest.fixture(scope="session")
def cairn_node(cairn_options: Sequence[str]) -> Iterator[DevChain]:
    """The node of the session. What a test changes through it is not undone."""
    with running_node(cairn_options) as chain:
        yield chain


@pytest.fixture
def cairn_chain(cairn_node: DevChain) -> Iterator[DevChain]:
    """The chain for one test, which leaves no trace in it."""
    mining_mode = cairn_node.rpc("cairn_getMiningMode")
    before = cairn_node.snapshot()
    yield cairn_node
    # Before the revert: an interval of the test would make blocks after it.
    cairn_node.rpc("cairn_setMiningMode", mining_mode)
    cairn_node.revert(before)


@pytest.fixture
def cairn_client(cairn_chain: DevChain) -> Iterator[Client]:
    """A client of `cairn_chain`."""
    with Client(cairn_chain.url) as client:
        yield client
