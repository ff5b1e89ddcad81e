"""`cairn testnet` for real: four validators agree, lose processes and go on, and stop without a trace."""

import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.support.network import is_any_stopped
from tests.support.node_process import NodeProcess, clean_environment, command, is_alive, wait_until
from tests.support.pace import PATIENCE_S, Pace
from tests.support.ports import free_base_port
from tests.support.public import get_anew, post_anew
from tests.support.wallet import dev_account, sign_transfer

VALIDATORS = 4
STOP_LIMIT_S = 5
NETWORK_STOP_LIMIT_S = 8


def make(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(["testnet", str(directory), *options]), capture_output=True, text=True, env=clean_environment()
    )


@pytest.fixture(scope="module")
def directory(cometbft_tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("testnet") / "net"
    made = make(path, f"--validators={VALIDATORS}", f"--base-port={free_base_port(VALIDATORS)}")
    assert made.returncode == 0, made.stderr
    assert "the keys of the dev accounts are public" in made.stderr
    return path


@pytest.fixture(scope="module")
def nodes(directory: Path) -> Iterator[list[NodeProcess]]:
    started = [NodeProcess.start(["run", "--home", str(directory / f"node{index}")]) for index in range(VALIDATORS)]
    try:
        for node in started:
            wait_listening(node)
        yield started
    finally:
        for node in started:
            node.close()


def wait_listening(node: NodeProcess) -> None:
    wait_until(lambda: "Listening on" in node.stdout or not node.is_running, PATIENCE_S, node.stderr)
    assert node.is_running, node.stderr


def pid_of(node: NodeProcess, name: str) -> int:
    return next((pid for pid, called in node.children().items() if called == name), 0)


@contextmanager
def within(limit_s: float, groups: Collection[int]) -> Iterator[None]:
    """What happens in the `with` block takes no longer than that; `groups` are of the processes that do it."""
    with Pace(lambda: is_any_stopped(groups)) as pace:
        began = time.monotonic()
        yield
        took_s = time.monotonic() - began
    assert took_s < pace.stretch(limit_s)


def transfer_through(node: NodeProcess, nonce: int) -> str:
    transfer = sign_transfer(dev_account(3), dev_account(4).address, value=7, nonce=nonce)
    answer = post_anew(f"{node.url}/tx", transfer.body)
    assert answer.status_code == 200, answer.text
    return transfer.tx_hash


def blocks_with(tx_hash: str, nodes: list[NodeProcess]) -> set[str]:
    """The hash of the block that holds it, on each node, once all of them have it."""

    def block_on(node: NodeProcess) -> str | None:
        return str(get_anew(f"{node.url}/tx/{tx_hash}").json().get("blockHash", "")) or None

    wait_until(lambda: all(map(block_on, nodes)), PATIENCE_S, f"{tx_hash} on every node")
    return {block for block in map(block_on, nodes) if block}


def test_a_transfer_through_one_is_in_the_same_block_of_all(nodes: list[NodeProcess]) -> None:
    tx_hash = transfer_through(nodes[0], nonce=0)
    assert len(blocks_with(tx_hash, nodes)) == 1


def test_each_counts_the_others_as_its_peers(nodes: list[NodeProcess]) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "net_peerCount", "params": []}

    def is_connected(node: NodeProcess) -> bool:
        return bool(post_anew(f"{node.url}/rpc", call).json().get("result") == hex(VALIDATORS - 1))

    wait_until(lambda: all(map(is_connected, nodes)), PATIENCE_S, "every node to see all others")


def test_the_cometbft_of_each_has_metrics_on_loopback(nodes: list[NodeProcess]) -> None:
    def are_served(node: NodeProcess) -> bool:
        host, _, port = node.url.rpartition(":")
        try:
            return "cometbft_consensus_height" in get_anew(f"{host}:{int(port) + 4}/metrics").text
        except httpx.TransportError:
            # It begins to serve them beside all else that it starts.
            return False

    for node in nodes:
        wait_until(partial(are_served, node), PATIENCE_S, f"the metrics of CometBFT: {node.stderr}")


@pytest.mark.parametrize(("name", "index"), [("cometbft", 1), ("cairn-core", 2)])
def test_a_killed_process_comes_back_and_its_node_catches_up(nodes: list[NodeProcess], name: str, index: int) -> None:
    node = nodes[index]
    engine, killed = pid_of(node, "cometbft"), pid_of(node, name)
    os.kill(killed, signal.SIGKILL)
    # Without a core, CometBFT leaves or is made to: either way another one starts.
    wait_until(lambda: pid_of(node, "cometbft") not in (0, engine), PATIENCE_S, f"CometBFT: {node.stderr}")
    tx_hash = transfer_through(nodes[0], nonce=index)
    wait_until(lambda: node.probe("/ready") == 200, PATIENCE_S, f"/ready: {node.stderr}")
    assert len(blocks_with(tx_hash, nodes)) == 1


def test_no_process_outlives_a_killed_supervisor(nodes: list[NodeProcess], directory: Path) -> None:
    pids = nodes[3].pids()
    with within(STOP_LIMIT_S, [nodes[3].process.pid]):
        os.kill(nodes[3].process.pid, signal.SIGKILL)
        wait_until(lambda: not any(map(is_alive, pids)), PATIENCE_S, "the end of all")
    nodes[3].close()
    nodes[3] = NodeProcess.start(["run", "--home", str(directory / "node3")])
    wait_listening(nodes[3])


def test_a_stop_ends_every_process_of_every_node_within_5_s(nodes: list[NodeProcess]) -> None:
    """The last test: it stops what the others use."""
    pids = [pid for node in nodes for pid in node.pids()]
    assert len(pids) == VALIDATORS * 4
    with within(STOP_LIMIT_S, [node.process.pid for node in nodes]):
        for node in nodes:
            node.process.terminate()
        assert [node.wait_exit(PATIENCE_S) for node in nodes] == [0] * VALIDATORS
    assert [pid for pid in pids if is_alive(pid)] == []


def head_at(port: int) -> int:
    return int(get_anew(f"http://127.0.0.1:{port}/chain").json()["head"]["blockHeight"])


def test_run_starts_all_and_stops_them_when_told(cometbft_tools: Path, tmp_path: Path) -> None:
    base = free_base_port(2)
    options = ["--validators", "2", "--base-port", str(base), "--run"]
    with NodeProcess.start(["testnet", str(tmp_path / "net"), *options]) as network:
        wait_until(lambda: network.stdout.count(": ready") >= 2, PATIENCE_S, network.stdout + network.stderr)
        wait_until(lambda: head_at(base) >= 1, PATIENCE_S, "the first block")
        supervisors = sorted(network.children())
        assert len(supervisors) == 2
        with within(NETWORK_STOP_LIMIT_S, [network.process.pid, *supervisors]):
            network.process.send_signal(signal.SIGINT)
            assert network.wait_exit(PATIENCE_S) == 0
        assert not any(map(is_alive, supervisors))


def test_a_directory_in_use_is_left_alone(cometbft_tools: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    made = make(tmp_path)
    assert (made.returncode, made.stderr) == (2, f"cairn: {tmp_path} is not empty; nothing was written\n")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
