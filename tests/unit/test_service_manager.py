"""What a service manager is told, as it is written to its socket."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from cairn.service_manager import ServiceManager
from tests.support.pace import PATIENCE_S


class Manager:
    """A socket that takes what is told, and a clock that a test sets."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address.replace("@", "\0", 1))
        self._socket.settimeout(PATIENCE_S)
        self.now = 1_000.0
        self.environment = {"NOTIFY_SOCKET": address, "HOME": "/"}

    def close(self) -> None:
        self._socket.close()

    def service(self, **environment: str) -> ServiceManager:
        self.environment |= environment
        return ServiceManager(self.environment, lambda: self.now)

    def told(self) -> list[str]:
        """The lines of all messages so far: a datagram to this machine has arrived once it is sent."""
        self._socket.setblocking(False)
        lines: list[str] = []
        try:
            while True:
                lines += self._socket.recv(4_096).decode().split("\n")
        except BlockingIOError:
            return lines


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    manager = Manager(str(tmp_path / "notify"))
    yield manager
    manager.close()


def test_the_variables_are_not_left_to_programs_that_the_node_starts(manager: Manager) -> None:
    assert manager.service(WATCHDOG_USEC="1000000", WATCHDOG_PID=str(os.getpid())).listens
    assert manager.environment == {"HOME": "/"}


def test_without_a_manager_nothing_happens() -> None:
    service = ServiceManager({})
    assert not service.listens
    service.alive()
    service.ready()
    service.stopping(1.0)


def test_a_manager_that_is_gone_hinders_nobody(manager: Manager) -> None:
    service = manager.service()
    manager.close()
    service.ready()


def test_an_abstract_socket_is_reached() -> None:
    manager = Manager(f"@cairn-test-{os.getpid()}")
    manager.service().ready()
    assert manager.told() == ["READY=1"]
    manager.close()


def test_a_node_that_starts_asks_for_more_time_and_one_that_is_ready_does_not(manager: Manager) -> None:
    service = manager.service()
    service.alive()
    assert manager.told() == ["WATCHDOG=1", "EXTEND_TIMEOUT_USEC=60000000"]
    service.ready()
    manager.now += 60
    service.alive()
    assert manager.told() == ["READY=1", "WATCHDOG=1"]


@pytest.mark.parametrize(
    ("limit_us", "pid", "pings"), [("3000000", "", 10), ("3000000", "1", 1), ("", "", 1), ("90000000", "", 1)]
)
def test_it_is_told_three_times_within_its_limit_and_not_more_often(
    manager: Manager, limit_us: str, pid: str, pings: int
) -> None:
    service = manager.service(WATCHDOG_USEC=limit_us, WATCHDOG_PID=pid)
    service.ready()
    for _ in range(20):
        service.alive()
        manager.now += 0.5
    assert manager.told().count("WATCHDOG=1") == pings


def test_a_status_is_one_line_and_is_told_once(manager: Manager) -> None:
    service = manager.service()
    for text in ("two\nREADY=1", "two\nREADY=1", "another"):
        service.status(text)
    assert manager.told() == ["STATUS=two READY=1", "STATUS=another"]


def test_a_reload_ends_with_ready_again(manager: Manager) -> None:
    service = manager.service()
    service.reloading()
    service.reloaded()
    assert manager.told() == [], "it was not ready yet"
    service.ready()
    service.reloading()
    service.reloaded()
    begun, since, ended = manager.told()[1:]
    assert (begun, ended) == ("RELOADING=1", "READY=1")
    assert since.startswith("MONOTONIC_USEC=")


def test_a_stop_says_how_long_it_may_take(manager: Manager) -> None:
    manager.service().stopping(within_s=14.5)
    assert manager.told() == ["STOPPING=1", "EXTEND_TIMEOUT_USEC=14500000", "STATUS=Stopping"]
