"""What the machine that runs the tests says about itself, and control groups as the kernel writes them."""

import os
import resource
import socket
from pathlib import Path

import pytest

from cairn.cli.operate.machine import Machine
from cairn.cli.operate.processes import processes_of
from tests.support.ports import free_ports

MACHINE = Machine()


def test_the_kernel_says_whether_the_clock_is_kept() -> None:
    assert MACHINE.clock_is_kept() in (True, False, None)


def test_a_disk_has_space_and_syncs_without_leaving_a_file(tmp_path: Path) -> None:
    assert MACHINE.space(tmp_path).free_bytes > 0
    assert MACHINE.sync_seconds(tmp_path) > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC])
def test_the_limits_of_a_process_are_those_that_it_has_itself(kind: int) -> None:
    assert MACHINE.hard_limit(kind, os.getpid()) == MACHINE.hard_limit(kind, None)


def test_the_limits_of_a_process_that_is_gone_are_ours() -> None:
    assert MACHINE.hard_limit(resource.RLIMIT_NOFILE, 2**22 + 1) == MACHINE.hard_limit(resource.RLIMIT_NOFILE, None)


@pytest.mark.parametrize(
    ("written", "allowed"),
    [({"memory.max": "max\n"}, None), ({"memory.max": "1000\n"}, 1_000), ({"memory/memory.limit_in_bytes": "7\n"}, 7)],
)
def test_a_container_limits_the_memory(tmp_path: Path, written: dict[str, str], allowed: int | None) -> None:
    for name, text in written.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    unlimited = MACHINE.memory_bytes(None, tmp_path / "none")
    assert MACHINE.memory_bytes(None, tmp_path) == (allowed or unlimited)


def test_who_listens_on_a_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert str(MACHINE.listener_of(port)).endswith(f"(process {os.getpid()})")
        assert MACHINE.reaches("127.0.0.1", port) is None


def test_nobody_listens_on_a_free_port() -> None:
    [port] = free_ports(1)
    assert MACHINE.listener_of(port) is None
    assert MACHINE.reaches("127.0.0.1", port) == "Connection refused"


def test_a_process_is_shown_with_its_state_and_memory() -> None:
    found = {process.pid: process for process in processes_of(os.getpid())}
    own = found[os.getpid()]
    assert own.name == "cairn"
    assert own.state in "RSD"
    assert own.resident_bytes > 1 << 20
