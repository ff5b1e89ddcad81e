"""SIGHUP to a service: settings and certificates are read again, and nobody is disconnected."""

import hashlib
import re
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cairn.api.server.certificates import RECHECK_S
from tests.support.certificates import make_certificate
from tests.support.node_process import NodeProcess, clean_environment, command, wait_until
from tests.support.pace import PATIENCE_S, Pace
from tests.support.pauses import is_any_child_paused
from tests.support.terminal import Terminal

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Service:
    """A node with a home of its own, a certificate and two workers."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.certificate, self.key = make_certificate(home)
        with NodeProcess.start(("init", str(home / "node"))) as made:
            assert made.wait_exit() == 0, made.stderr
        self.configure('log_level = "warning"')
        self.node = NodeProcess.start(("run", "--home", str(home / "node")))
        self.node.wait_ready()

    def configure(self, *lines: str) -> None:
        tls = f'tls_cert = "{self.certificate}"\ntls_key = "{self.key}"\n'
        (self._home / "node" / "cairn.toml").write_text("port = 0\nworkers = 2\n" + tls + "\n".join(lines) + "\n")

    def renew(self) -> None:
        make_certificate(self._home)

    def reload(self) -> None:
        self.node.process.send_signal(signal.SIGHUP)

    def await_logged(self, text: str, times: int = 1) -> None:
        wait_until(lambda: self.node.stderr.count(text) >= times, PATIENCE_S, f"{text!r} in {self.node.stderr}")

    def connect(self) -> ssl.SSLSocket:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        port = int(self.node.url.rpartition(":")[2])
        return context.wrap_socket(socket.create_connection(("127.0.0.1", port), PATIENCE_S))

    def served(self) -> str:
        """What names the certificate of a new connection."""
        with self.connect() as connection:
            return fingerprint(connection)


def fingerprint(connection: ssl.SSLSocket) -> str:
    return hashlib.sha256(connection.getpeercert(binary_form=True) or b"").hexdigest()


def ask(connection: ssl.SSLSocket) -> bytes:
    """The status line of the answer."""
    connection.sendall(HEALTH)
    answer = b""
    while not answer.endswith(b"}"):
        answer += connection.recv(65_536)
    return answer.partition(b"\r\n")[0]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path)
    try:
        yield service
    finally:
        service.node.close()


def test_a_renewed_certificate_serves_new_connections_and_old_ones_go_on(service: Service) -> None:
    processes, before = service.node.pids(), service.served()
    with service.connect() as kept:
        assert ask(kept) == b"HTTP/1.1 200 OK"
        service.renew()
        with Pace(is_any_child_paused) as pace:
            began = time.monotonic()
            service.reload()
            # Both workers: a dozen connections reach each of them.
            wait_until(lambda: before not in {service.served() for _ in range(12)}, PATIENCE_S, "the new certificate")
            # Nobody waits for the minute after which the files are looked at anyway.
            assert time.monotonic() - began < pace.stretch(RECHECK_S / 2)
        assert ask(kept) == b"HTTP/1.1 200 OK"
        assert fingerprint(kept) == before
    assert service.node.pids() == processes


def test_wrong_settings_and_a_broken_pair_are_refused_by_name_and_the_old_ones_stay(service: Service) -> None:
    processes, before = service.node.pids(), service.served()
    service.configure("rate_limit_per_s = -1")
    service.reload()
    service.await_logged("the settings are left as they were")
    assert "rate_limit_per_s: expected 0 or more, got -1" in service.node.stderr
    service.configure()
    Path(service.key).write_text("half of a key")
    service.reload()
    service.await_logged("the settings are left as they were", times=2)
    assert "cannot use tls_cert" in service.node.stderr
    assert service.served() == before
    assert service.node.pids() == processes


def test_the_log_level_and_the_limits_change_and_what_cannot_is_named(service: Service) -> None:
    service.configure('log_level = "info"', "idle_timeout_s = 0.5", "mempool_size = 5")
    with service.connect() as idle:
        assert ask(idle) == b"HTTP/1.1 200 OK"
        service.reload()
        service.await_logged("the settings were read again")
        assert re.search(r"changed=\['idle_timeout_s', 'log_level'\]", service.node.stderr)
        service.await_logged("some settings change only when the node is started again")
        assert re.search(r"only when the node is started again.*mempool_size", service.node.stderr)
        # It is idle for longer than the new limit.
        assert idle.recv(1) == b""
    # A process that is started later has them, too.
    service.node.replace_core()
    assert service.node.stop() == 0
    assert "stopping" in service.node.stderr


def test_a_dev_chain_stops_with_its_terminal() -> None:
    with Terminal(command(("dev", "--port", "0", "-q")), clean_environment({})) as terminal:
        terminal.expect("Listening on")
        terminal.hang_up()
        assert terminal.process.wait(PATIENCE_S) == 0


def test_with_nohup_the_end_of_the_terminal_stops_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    shell = f'exec nohup "$@" >{out} 2>&1'
    with Terminal(["sh", "-c", shell, "sh", *command(("dev", "--port", "0", "-q"))], clean_environment({})) as terminal:
        wait_until(lambda: out.exists() and "Listening on" in out.read_text(), PATIENCE_S, "the start")
        terminal.hang_up()
        terminal.process.send_signal(signal.SIGHUP)
        with pytest.raises(TimeoutError):
            wait_until(lambda: terminal.process.poll() is not None, 2.0, "nothing")
        terminal.process.terminate()
        assert terminal.process.wait(PATIENCE_S) == 0
