"""Processes of a node that hang: the supervisor says which, and replaces it."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from cairn.domain.crypto import checksum_address
from cairn.domain.genesis import DEV_KEYS
from tests.chaos.shim import COMPILERS, DiskFault, Operation, Shim
from tests.e2e.test_pruning import fill
from tests.support.node_process import NodeProcess, is_alive, is_stopped, wait_until
from tests.support.pace import PATIENCE_S, Pace
from tests.support.programs import need_program
from tests.support.public import get_anew, post_anew

FIRST, SECOND = (checksum_address(address) for address, _ in DEV_KEYS[:2])
REPLACED_WITHIN_S = 15
GIVE_UP_S = 1.0
BUSY_LOOPS = 6
STARVED_S = 12.0
"""Longer than a process may be silent."""
UNTIL_IT_IS_ENDED_MS = 120_000
"""A sick disk is named after 10 s, or later by a supervisor that the machine puts off."""


@pytest.fixture
def node() -> Iterator[NodeProcess]:
    with NodeProcess.start_dev("--workers", "2", "--block-time", "1") as node:
        yield node


def submit(node: NodeProcess, value: int, timeout_s: float = PATIENCE_S) -> str | None:
    """The hash of a transfer that was answered 200; None if it was not accepted."""
    transfer = {"from": FIRST, "to": SECOND, "value": value, "gas": 21_000}
    try:
        answer = httpx.post(f"{node.url}/tx", json=transfer, timeout=timeout_s)
    except httpx.TimeoutException:
        return None
    return str(answer.json()["txHash"]) if answer.status_code == 200 else None


def await_confirmed(node: NodeProcess, tx_hash: str) -> None:
    url = f"{node.url}/tx/{tx_hash}"
    wait_until(lambda: get_anew(url, wait=10).json().get("status") == "confirmed", PATIENCE_S, f"{tx_hash} confirmed")


def time_to_replace(node: NodeProcess, pid: int, is_replaced: Callable[[], bool]) -> None:
    """Stop the process, and wait until it is replaced, within the time that is promised."""
    others = [other for other in node.pids() if other != pid]
    with Pace(lambda: any(is_stopped(other) for other in others)) as pace:
        began = time.monotonic()
        os.kill(pid, signal.SIGSTOP)
        wait_until(is_replaced, PATIENCE_S, f"another process in its place: {node.stderr}")
        assert time.monotonic() - began < pace.stretch(REPLACED_WITHIN_S)
    assert not is_alive(pid)


def test_a_core_that_stands_still_is_replaced_and_nothing_accepted_is_lost(node: NodeProcess) -> None:
    accepted = [submit(node, value) for value in range(1, 11)]
    assert None not in accepted
    core, workers = node.core_pid(), node.worker_pids()

    def is_replaced() -> bool:
        # Clients go on meanwhile: whatever is answered 200 counts. They give up soon while nobody can accept anything.
        is_gone = core not in node.children()
        accepted.append(submit(node, 100 + len(accepted), PATIENCE_S if is_gone else GIVE_UP_S))
        return is_gone and accepted[-1] is not None

    time_to_replace(node, core, is_replaced)
    for tx_hash in accepted:
        if tx_hash is not None:
            await_confirmed(node, tx_hash)
    assert node.worker_pids() == workers
    assert "a process hangs, it is killed and started again" in node.stderr
    assert "process=cairn-core" in node.stderr
    assert "how=stopped" in node.stderr


def test_a_worker_that_stands_still_is_replaced_while_others_serve(node: NodeProcess) -> None:
    stopped, _ = node.worker_pids()
    # The supervisor first, which would replace it, however long this takes here.
    for pid in (node.process.pid, stopped):
        os.kill(pid, signal.SIGSTOP)
    # One socket for all workers: a connection is never given to one that does not ask for it.
    for _ in range(10):
        assert node.probe("/health") == 200
    os.kill(node.process.pid, signal.SIGCONT)
    time_to_replace(node, stopped, lambda: stopped not in node.children() and len(node.worker_pids()) == 2)
    assert "process=cairn-api-" in node.stderr


@contextmanager
def starved_machine() -> Iterator[None]:
    # Each in a session of its own, as the node is: Linux shares the processors out by session.
    busy = ("sh", "-c", "while :; do :; done")
    loops = [subprocess.Popen(busy, start_new_session=True) for _ in range(BUSY_LOOPS)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def test_on_a_starved_machine_nobody_is_suspected(node: NodeProcess) -> None:
    processes = node.pids()
    with starved_machine():
        until = time.monotonic() + STARVED_S
        while time.monotonic() < until:
            transfer = {"from": FIRST, "to": SECOND, "value": 1, "gas": 21_000}
            assert post_anew(f"{node.url}/tx", transfer).status_code == 200
    assert_nobody_was_suspected(node, processes)


def assert_nobody_was_suspected(node: NodeProcess, processes: list[int]) -> None:
    assert node.pids() == processes
    # That a request or a sync took long is told too, and is true on such a machine.
    assert [line for line in node.stderr.splitlines() if "process" in line] == []


def test_a_pause_of_the_whole_node_ends_no_process(node: NodeProcess) -> None:
    processes = node.pids()
    node.signal_group(signal.SIGSTOP)
    time.sleep(REPLACED_WITHIN_S)
    node.signal_group(signal.SIGCONT)
    tx_hash = submit(node, 1)
    assert tx_hash is not None
    await_confirmed(node, tx_hash)
    assert_nobody_was_suspected(node, processes)


def test_a_core_that_waits_for_a_sick_disk_is_named_and_not_ended(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    shim = Shim(tmp_path, data_dir, need_program(*COMPILERS))
    with NodeProcess.start(("dev", "--port", "0", "--data-dir", str(data_dir)), shim.environment) as node:
        node.wait_ready()
        processes = node.pids()
        shim.begin(DiskFault(Operation.SYNC, last=1, delay_ms=UNTIL_IT_IS_ENDED_MS))
        # Not accepted in time: it is on no disk yet.
        assert submit(node, 1, GIVE_UP_S) is None
        wait_until(lambda: "a process takes long" in node.stderr, PATIENCE_S, f"the warning: {node.stderr}")
        assert "blocked while using the disk" in node.stderr
        assert shim.end() == 1
        node.wait_ready()
        tx_hash = submit(node, 2)
        assert tx_hash is not None
        await_confirmed(node, tx_hash)
        assert node.pids() == processes


def test_a_core_whose_pruning_waits_for_a_sick_disk_is_named_and_not_ended(tmp_path: Path) -> None:
    home, data_dir = tmp_path / "home", tmp_path / "home" / "data"
    fill(home)
    shim = Shim(tmp_path, data_dir, need_program(*COMPILERS))
    options = ("run", "--home", str(home), "--port", "0", "--workers", "1", "--retain-blocks", "10")
    # A start takes fewer writes than that, and the pruning four times as many: it is not over when the node is ready.
    shim.begin(DiskFault(Operation.WRITE, first=200, delay_ms=100))
    with NodeProcess.start(options, shim.environment) as node:
        node.wait_ready()
        processes = node.pids()
        # Nobody else writes: there is nothing to put into a block.
        shim.begin(DiskFault(Operation.WRITE, last=1, delay_ms=UNTIL_IT_IS_ENDED_MS))
        wait_until(lambda: "a process " in node.stderr, PATIENCE_S, f"a word of it: {node.stderr}")
        assert "a process takes long" in node.stderr
        # The loop's thread waits for the interpreter's lock, which the pruning thread holds in its write.
        assert "how='blocked while using the disk'" in node.stderr
        assert shim.end() == 1
        node.wait_ready()
        assert node.pids() == processes
