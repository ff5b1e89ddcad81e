"""The composition root: its socket and directories, and a whole node of stand-in processes."""

import os
import select
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from cairn.board import Board
from cairn.build import described
from cairn.config import Settings
from cairn.domain.errors import AddressUnavailable, InvalidConfig
from cairn.domain.genesis import dev_genesis
from cairn.live_settings import LiveSettings
from cairn.node import Endpoint, Listeners, Node, check_tls, failed_checks, open_listener
from cairn.store.directory import SeenChain, Syncs
from tests.support.certificates import make_certificate
from tests.support.node_process import is_alive, wait_until
from tests.support.pace import PATIENCE_S

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []
    # Not where others have theirs: each node that starts removes what dead ones left. Pytest's path is too long.
    scratch = tempfile.TemporaryDirectory(prefix="cairn-test-")

    def start(*settings: str, ready: bool = True) -> subprocess.Popen[str]:
        if ready:
            (tmp_path / "ready").touch()
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.stand_in_node", str(tmp_path), "port=0", "workers=1", *settings],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"TMPDIR": scratch.name},
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    scratch.cleanup()


def read_url(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().removeprefix("Listening on ").strip()


def test_a_node_says_its_url_serves_and_leaves_nothing_behind(start: Start, tmp_path: Path) -> None:
    process = start()
    url = read_url(process)
    assert httpx.get(url, timeout=PATIENCE_S).status_code == 200
    runtime_dir = Path((tmp_path / "core.sock.path").read_text()).parent
    assert runtime_dir.stat().st_mode & 0o777 == 0o700
    process.terminate()
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    assert not runtime_dir.exists()


def test_the_files_of_a_killed_node_are_removed_by_the_next(start: Start, tmp_path: Path) -> None:
    killed = start()
    read_url(killed)
    left = Path((tmp_path / "core.sock.path").read_text()).parent
    os.killpg(killed.pid, signal.SIGKILL)
    # Ends with the last of its processes: each has the pipes open.
    killed.communicate(timeout=PATIENCE_S)
    assert left.is_dir()
    read_url(start())
    assert not left.exists()


def test_the_core_does_not_hold_the_listening_socket(start: Start, tmp_path: Path) -> None:
    read_url(start())
    assert (tmp_path / "core.sockets").read_text() == ""


def test_the_url_is_said_only_once_the_node_is_ready(start: Start, tmp_path: Path) -> None:
    process = start(ready=False)
    answers = tmp_path / "answers"
    wait_until(lambda: answers.exists() and answers.stat().st_size >= 3, PATIENCE_S, "the node to be asked")
    assert process.stdout is not None
    assert not select.select([process.stdout], [], [], 0)[0]
    (tmp_path / "ready").touch()
    assert read_url(process).startswith("http://127.0.0.1:")


def test_a_worker_that_died_starts_with_a_clean_scratch_directory(start: Start) -> None:
    url = read_url(start())
    first = httpx.get(url, timeout=PATIENCE_S).text
    assert "worker 0 lives 1 " in first
    pid = int(first.split()[-1])
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(pid), PATIENCE_S, "the end of the worker")
    second = httpx.get(url, timeout=PATIENCE_S).text
    assert "worker 0 lives 1 " in second
    assert second != first


def test_a_worker_that_finds_the_store_damaged_ends_the_node_with_one_line_after_the_first(start: Start) -> None:
    process = start()
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{read_url(process)}/corrupt", timeout=PATIENCE_S)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 3
    first, *others = errors.splitlines()
    assert "the node starts" in first
    assert described() in first
    [line] = [line for line in others if "[info" not in line]
    assert "the node cannot go on" in line
    assert "reason='Corrupt: a block is not what was written'" in line


def test_a_refused_address_is_an_error_before_anything_starts(start: Start, tmp_path: Path) -> None:
    with open_listener("127.0.0.1", 0) as taken:
        process = start(f"port={taken.getsockname()[1]}")
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert "AddressUnavailable: cannot listen on 127.0.0.1 port" in errors
    assert not (tmp_path / "core.sock.path").exists()


def test_readiness_is_seen_through_tls(start: Start, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    url = read_url(start(f"tls_cert={certificate}", f"tls_key={key}"))
    assert url.startswith("https://127.0.0.1:")


def test_a_worker_that_starts_without_a_usable_pair_serves_with_the_renewed_one(start: Start, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    url = httpx.URL(read_url(start(f"tls_cert={certificate}", f"tls_key={key}")))
    (tmp_path / "renewed").mkdir()
    renewed = make_certificate(tmp_path / "renewed")

    def is_served_after_a_loss() -> bool:
        for source, target in zip(renewed, (certificate, key), strict=True):
            shutil.copyfile(source, target)
        # The supervisor looks meanwhile; if it does not come to it, the next try gives it time again.
        time.sleep(0.2)
        Path(key).unlink()
        worker = int(httpx.get(url, verify=False, timeout=PATIENCE_S).text.split()[-1])
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: not is_alive(worker), PATIENCE_S, "the end of the worker")
        assert url.port is not None
        return ssl.get_server_certificate((url.host, url.port)) == Path(renewed[0]).read_text()

    wait_until(is_served_after_a_loss, PATIENCE_S, "a worker that has the renewed certificate")


def test_ipv6_is_listened_on_and_spelled_in_brackets(start: Start) -> None:
    assert read_url(start("host=::1")).startswith("http://[::1]:")


def test_a_port_in_use_is_named_with_a_way_out() -> None:
    with open_listener("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        expected = f"cannot listen on 127.0.0.1 port {port}: Address already in use; choose another with --port"
        with pytest.raises(AddressUnavailable, match=expected):
            open_listener("127.0.0.1", port)


@pytest.mark.parametrize("host", ["203.0.113.1", "no such host"])
def test_an_address_that_is_not_ours_is_named(host: str) -> None:
    with pytest.raises(AddressUnavailable, match=f"cannot listen on {host}"):
        open_listener(host, 0)


def test_a_socket_listens_at_once() -> None:
    with open_listener("localhost", 0) as listener:
        host, port, *_ = listener.getsockname()
        socket.create_connection((host, port), PATIENCE_S).close()


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        (Endpoint("127.0.0.1", 1, tls=False), "http://127.0.0.1:1"),
        (Endpoint("::1", 2, tls=True), "https://[::1]:2"),
        (Endpoint("node.example", 3, tls=False), "http://node.example:3"),
    ],
)
def test_urls(endpoint: Endpoint, url: str) -> None:
    assert endpoint.url == url


def test_a_node_that_does_not_answer_is_not_ready() -> None:
    with open_listener("0.0.0.0", 0) as listener:
        port = listener.getsockname()[1]
        assert Endpoint("0.0.0.0", port, tls=False).why_not_ready() == "no answer within 0.5 s"
    assert Endpoint("0.0.0.0", port, tls=False).why_not_ready() == "no answer: Connection refused"


def told_by(listener: socket.socket) -> list[str]:
    """The lines of the next message."""
    return listener.recv(4_096).decode().split("\n")


def test_a_service_manager_hears_when_the_node_is_ready_reloads_and_stops(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        process = start("drain_delay_s=0.5", ready=False)
        first = [told_by(manager) for _ in range(2)]
        assert ["WATCHDOG=1", "EXTEND_TIMEOUT_USEC=60000000"] in first
        assert any(line.startswith("STATUS=Not ready: ") for line, *_ in first)
        (tmp_path / "ready").touch()
        wait_until(lambda: told_by(manager) == ["READY=1"], PATIENCE_S, "READY=1")
        assert told_by(manager) == [f"STATUS=Ready: {read_url(process)}"]
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: told_by(manager)[0] == "RELOADING=1", PATIENCE_S, "RELOADING=1")
        assert told_by(manager) == ["READY=1"]
        process.terminate()
        wait_until(lambda: told_by(manager)[0] == "STOPPING=1", PATIENCE_S, "STOPPING=1")
        assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"status":"starting","checks":{"store":"opening","mempool":"opening"}}', "opening"),
        (b'{"status":"unavailable","checks":{"store":"no space","mempool":"ok"}}', "no space"),
        (b'{"status":"draining","checks":{"store":"ok","mempool":"ok"}}', "draining"),
        (b"<html>", "its answer cannot be read"),
    ],
)
def test_the_parts_that_fail_are_named(body: bytes, reason: str) -> None:
    assert failed_checks(body) == reason


def test_a_certificate_is_tried_before_the_start(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    check_tls(Settings())
    check_tls(Settings(tls_cert=certificate, tls_key=key))
    with pytest.raises(InvalidConfig, match="cannot use tls_cert .*missing.pem.* No such file"):
        check_tls(Settings(tls_cert=str(tmp_path / "missing.pem"), tls_key=key))
    Path(key).write_text("rubbish")
    with pytest.raises(InvalidConfig, match="cannot use tls_cert"):
        check_tls(Settings(tls_cert=certificate, tls_key=key))


def test_the_limit_of_open_files_is_raised_as_far_as_it_goes() -> None:
    code = (
        "import resource, sys; from cairn.node import raise_file_limit;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, 5000));"
        "raise_file_limit(100); print(resource.getrlimit(resource.RLIMIT_NOFILE));"
        "raise_file_limit(10_000); print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    said = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert "(4196, 5000)" in said
    assert "(5000, 5000)" in said
    assert "open files is below max_connections" in said


@pytest.mark.parametrize("is_temporary", [False, True])
def test_the_core_leaves_out_syncs_exactly_on_a_temporary_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_temporary: bool
) -> None:
    monkeypatch.setattr(Syncs, "are_left_out", False)

    def core(*parts: object) -> int:
        return int(Syncs.are_left_out)

    node = Node(dev_genesis(), tmp_path, Settings(), {}, is_temporary=is_temporary, core=core)
    live = LiveSettings(Settings(), None, check_tls)
    assert node._run_core(Listeners(socket.socket(), None), tmp_path, live, SeenChain(), Board(), 0) == int(
        is_temporary
    )
