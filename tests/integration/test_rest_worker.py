"""A worker in its own process: before there is a core, at a stop, and when nobody watches over it any more."""

import signal
import socket
import time

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from cairn.domain.types import Tx
from tests.support.core_fixtures import signed
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S, Pace
from tests.support.public import assert_problem
from tests.support.rest_node import body_of, hash_of
from tests.support.rest_server import get
from tests.support.worker_process import WorkerProcess

STOP_LIMIT_S = 5


def test_a_worker_answers_before_there_is_a_core() -> None:
    with WorkerProcess(with_core=False) as process, Pace() as pace:
        assert process.wait_for("/health", 200).headers["x-chain-id"] == "1337"
        assert process.wait_for("/startup", 503).json() == {"status": "starting"}
        assert process.wait_for("/ready", 503).json()["status"] == "starting"
        assert_problem(process.http.post("/tx", json=body_of(signed(0))), 503, "STARTING")
        assert_problem(process.http.get("/chain"), 503, "STARTING")
        began = time.monotonic()
        process.terminate()
        assert process.worker.wait(PATIENCE_S) == 0
        assert time.monotonic() - began < pace.stretch(STOP_LIMIT_S)


def test_sigint_does_not_stop_a_worker() -> None:
    with WorkerProcess(with_core=False) as process:
        process.wait_for("/health", 200)
        process.worker.send_signal(signal.SIGINT)
        # A signal comes before whatever is read after it.
        process.wait_for("/health", 200)
        assert process.worker.poll() is None


def test_a_worker_without_a_supervisor_ends() -> None:
    with WorkerProcess(with_core=False) as process:
        process.wait_for("/health", 200)
        process.orphan()
        assert process.worker.wait(PATIENCE_S) == 0


def begin_to_wait(process: WorkerProcess, client: socket.socket, tx: Tx) -> None:
    """Ask for a pending transaction until it is confirmed; returns once the worker waits for that."""
    # In one piece: once the first is answered, the second has been read.
    client.sendall(get("/health") + get(f"/tx/{hash_of(tx)}?wait=60"))
    received = b""
    while not received.endswith(b'{"status":"alive"}'):
        received += client.recv(4096)
    # The core answers in order, so it has told the one who waits that the transaction is pending.
    assert process.http.get(f"/tx/{hash_of(tx)}").json()["status"] == "pending"


def test_a_stop_answers_who_waits_and_closes_sockets_with_1001() -> None:
    with WorkerProcess(with_core=True, block_time_s=3600) as process, Pace() as pace:
        process.wait_for("/ready", 200)
        tx = signed(0)
        assert process.http.post("/tx", json=body_of(tx)).json()["txHash"] == hash_of(tx)
        events = connect(f"ws://127.0.0.1:{process.port}/events", open_timeout=PATIENCE_S, ping_interval=None)
        with socket.create_connection(("127.0.0.1", process.port), PATIENCE_S) as waiting, events as events_socket:
            begin_to_wait(process, waiting, tx)
            began = time.monotonic()
            process.terminate()
            with pytest.raises(ConnectionClosed) as closed:
                events_socket.recv(PATIENCE_S)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1001
            answer = b"".join(iter(lambda: waiting.recv(4096), b""))
            assert b'"status":"pending"' in answer
        assert process.worker.wait(PATIENCE_S) == 0
        assert time.monotonic() - began < pace.stretch(STOP_LIMIT_S)


def test_a_stop_answers_who_waits_also_without_a_core() -> None:
    with WorkerProcess(with_core=True, block_time_s=3600) as process:
        process.wait_for("/ready", 200)
        tx = signed(0)
        process.http.post("/tx", json=body_of(tx))
        with socket.create_connection(("127.0.0.1", process.port), PATIENCE_S) as waiting:
            begin_to_wait(process, waiting, tx)
            assert process.core is not None
            process.core.send_signal(signal.SIGSTOP)
            process.terminate()
            answer = b"".join(iter(lambda: waiting.recv(4096), b""))
        assert b'"status":"pending"' in answer
        assert process.worker.wait(PATIENCE_S) == 0


def test_when_the_core_is_gone_health_stays_and_ready_does_not() -> None:
    with WorkerProcess(with_core=True, silence_s=1.0) as process:
        process.wait_for("/ready", 200)
        tx = signed(0)

        def is_submitted() -> bool:
            return process.http.post("/tx", json=body_of(tx)).status_code == 200

        wait_until(is_submitted, PATIENCE_S, "a core that answers in time")
        confirmed = process.wait_for(f"/tx/{hash_of(tx)}?wait=20", 200, having='"confirmed"').json()
        assert process.core is not None
        process.core.send_signal(signal.SIGSTOP)
        process.wait_for("/ready", 503, having="did not answer")
        for path in ("/chain", "/mempool"):
            assert_problem(process.http.get(path), 503, "STORE_UNAVAILABLE")
        assert process.http.get("/block/latest").json()["blockHeight"] == confirmed["blockHeight"]
        process.core.kill()
        process.core.wait()
        gone = process.wait_for("/ready", 503, having="is gone").json()
        assert gone["checks"]["store"]
        process.wait_for("/health", 200)
        assert_problem(process.http.post("/tx", json=body_of(signed(1))), 503, "STORE_UNAVAILABLE")
        assert process.http.get(f"/tx/{hash_of(tx)}").json() == confirmed, "what is confirmed can be read"
        assert process.http.get("/block/latest").json()["blockHeight"] == confirmed["blockHeight"]
