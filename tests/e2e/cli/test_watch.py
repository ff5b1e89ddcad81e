"""`cairn watch`: alive at a terminal, lines in a pipe, and patient with a node that goes away."""

import json
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import pytest

from cairn.domain.crypto import checksum_address
from cairn.domain.genesis import DEV_KEYS
from tests.e2e.cli.conftest import User
from tests.support.node_process import NodeProcess, command
from tests.support.pace import PATIENCE_S
from tests.support.ports import free_ports
from tests.support.public import get_anew, post_anew
from tests.support.rpc import rpc

FIRST, SECOND = (checksum_address(address) for address, _ in DEV_KEYS[:2])


def pay(url: str, value: int = 1) -> int:
    """The height of the block that holds it."""
    tx_hash = post_anew(f"{url}/tx", {"from": FIRST, "to": SECOND, "value": value, "gas": 21000}).json()["txHash"]
    height: int = get_anew(f"{url}/tx/{tx_hash}", wait=60).json()["blockHeight"]
    return height


@pytest.fixture
def port() -> int:
    """For a node that comes back to it."""
    return free_ports(1)[0]


def started(port: int, *args: str) -> NodeProcess:
    return NodeProcess.start_dev("--port", str(port), "--block-time", "0.01", "--workers", "1", *args)


class Lines:
    """What a command in a pipe prints, line by line."""

    def __init__(self, user: User, *args: str) -> None:
        self.process = subprocess.Popen(
            command(["watch", *args]), env=user.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._out: Queue[str] = Queue()
        self._err: Queue[str] = Queue()
        self._threads = [
            Thread(target=_pass_on, args=(self.process.stdout, self._out)),
            Thread(target=_pass_on, args=(self.process.stderr, self._err)),
        ]
        for thread in self._threads:
            thread.start()

    def out(self) -> str:
        return self._out.get(timeout=PATIENCE_S)

    def wait_for_note(self, text: str) -> None:
        while text not in self._err.get(timeout=PATIENCE_S):
            pass

    def end(self, number: signal.Signals = signal.SIGKILL) -> int:
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_S)
        for thread in self._threads:
            thread.join()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        return code


def _pass_on(lines: Iterable[str], queue: "Queue[str]") -> None:
    for line in lines:
        queue.put(line)


def test_the_live_view_survives_its_node(tmp_path: Path, port: int) -> None:
    data = tmp_path / "data"
    with started(port, "--data-dir", str(data)) as node:
        user = User(tmp_path, node.url)
        height = pay(user.url)
        terminal = user.at_terminal("watch")
        with terminal:
            terminal.expect(f"● {user.url}  chain 1337, embedded")
            terminal.expect("0 pending, 0 queued, room for 100,000")
            terminal.expect(get_anew(f"{user.url}/block/{height}").json()["hash"])
            node.stop()
            terminal.expect(f"○ {user.url} does not answer; waiting for it")
            with started(port, "--data-dir", str(data)):
                terminal.expect(f"● {user.url}")
                height = pay(user.url)
                terminal.expect(get_anew(f"{user.url}/block/{height}").json()["hash"])
                terminal.press_ctrl_c()
                assert terminal.wait() == 0
            assert "Traceback" not in terminal.text
            # The cursor is shown again.
            assert terminal.raw.rindex("\x1b[?25h") > terminal.raw.rindex("\x1b[?25l")


def test_a_pipe_gets_each_block_once_over_a_restart(tmp_path: Path, port: int) -> None:
    data = tmp_path / "data"
    with started(port, "--data-dir", str(data)) as node:
        user = User(tmp_path, node.url)
        pay(user.url)
        watching = Lines(user, "--json", "--from-height", "0")
        try:
            blocks: list[Any] = [json.loads(watching.out()) for _ in range(2)]
            assert blocks == [get_anew(f"{user.url}/block/{height}").json() for height in (0, 1)]
            node.kill_group()
            watching.wait_for_note("does not answer")
            with started(port, "--data-dir", str(data)):
                watching.wait_for_note("cairn: the node is back\n")
                pay(user.url)
                assert json.loads(watching.out())["blockHeight"] == 2
            assert watching.end(signal.SIGTERM) == 0
        finally:
            watching.end()


def test_a_chain_that_was_started_anew_is_told_and_followed(tmp_path: Path, port: int) -> None:
    with started(port) as node:
        user = User(tmp_path, node.url)
        pay(user.url)
        watching = Lines(user)
        try:
            assert watching.out().startswith("block 1 ")
            node.kill_group()
            watching.wait_for_note("does not answer")
            with started(port):
                watching.wait_for_note("cairn: the node is back\n")
                # Another payment: of the same one, within the same second, the same block would be made.
                pay(user.url, value=2)
                watching.wait_for_note("cairn: another chain: ")
                assert watching.out().startswith("block 0 ")
                assert watching.out().startswith("block 1 ")
            assert watching.end(signal.SIGINT) == 0
        finally:
            watching.end()


def test_a_chain_that_went_back_is_told_and_followed(tmp_path: Path) -> None:
    """In a pipe and on the screen: the blocks that are gone are gone, and others come in their place."""
    with NodeProcess.start_dev("--block-time", "0.01", "--workers", "1") as node:
        user = User(tmp_path, node.url)
        pay(user.url)
        snapshot = rpc(user.url, "evm_snapshot")
        pay(user.url)
        watching = Lines(user)
        terminal = user.at_terminal("watch")
        try:
            with terminal:
                assert watching.out().startswith("block 2 ")
                terminal.expect(get_anew(f"{user.url}/block/2").json()["hash"])
                assert rpc(user.url, "evm_revert", snapshot) is True
                watching.wait_for_note("cairn: the chain was reverted to block 1: ")
                terminal.expect("The chain was reverted to block 1.")
                # With another time it is another block.
                rpc(user.url, "evm_increaseTime", 60)
                pay(user.url)
                replacing = get_anew(f"{user.url}/block/2").json()["hash"]
                assert replacing in watching.out()
                terminal.expect(replacing)
                terminal.press_ctrl_c()
                assert terminal.wait() == 0
                assert "Traceback" not in terminal.text
            assert watching.end(signal.SIGTERM) == 0
        finally:
            watching.end()


def test_payments_of_accounts_are_printed_once_over_a_restart(tmp_path: Path, port: int) -> None:
    data = tmp_path / "data"
    with started(port, "--data-dir", str(data)) as node:
        user = User(tmp_path, node.url)
        pay(user.url)
        accounts = ("--account", "dev1", "--account", SECOND.lower())
        watching = Lines(user, *accounts, "--from-height", "0")
        as_json = Lines(user, *accounts, "--from-height", "0", "--json")
        try:
            assert watching.out().startswith("block 1  dev0 → dev1  1 wei  0x")
            assert json.loads(as_json.out())["to"] == SECOND.lower()
            node.kill_group()
            watching.wait_for_note("does not answer")
            with started(port, "--data-dir", str(data)):
                reference = {"from": SECOND, "to": FIRST, "value": 3, "gas": 30_000, "reference": "invoice 4711"}
                tx_hash = post_anew(f"{user.url}/tx", reference).json()["txHash"]
                assert watching.out() == f'block 2  dev1 → dev0  3 wei  {tx_hash}  "invoice 4711"\n'
                payment = json.loads(as_json.out())
                assert (payment["event"], payment["txHash"], payment["value"]) == ("payment", tx_hash, 3)
            assert watching.end(signal.SIGTERM) == 0
        finally:
            watching.end()
            as_json.end()


def test_watch_ends_when_the_pipe_is_closed(user: User) -> None:
    script = f"{command(['watch'])[0]} watch --from-height 0 | head -n 1; exit ${{PIPESTATUS[0]}}"
    watching = subprocess.Popen(
        ["bash", "-c", script], env=user.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while watching.poll() is None:
        # That nobody reads shows when there is something to write.
        pay(user.url)
    out, err = watching.communicate(timeout=PATIENCE_S)
    assert (watching.returncode, err) == (0, "")
    assert out.startswith("block 0 ")


def test_watch_without_a_node_exits_with_5(tmp_path: Path) -> None:
    result = User(tmp_path, "http://127.0.0.1:1").run("watch")
    assert (result.returncode, result.stdout) == (5, "")
    assert "`cairn dev` starts a node" in result.stderr
