"""A worker in its own process: before there is a core, at a stop, and when nobody watches over it any more."""

import signal
import time
from socket import create_connection

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.support.core_fixtures import signed
from tests.support.rest_node import assert_problem, body_of, hash_of
from tests.support.rest_server import get
from tests.support.worker_process import WorkerProcess

STOP_LIMIT_S = 5


def test_a_worker_answers_before_there_is_a_core() -> None:
    with WorkerProcess(with_core=False) as process:
        assert process.wait_for("/health", 200).headers["x-chain-id"] == "1337"
        assert process.wait_for("/startup", 503).json() == {"status": "starting"}
        assert process.wait_for("/ready", 503).json()["status"] == "starting"
        assert_problem(httpx.post(process.url + "/tx", json=body_of(signed(0))), 503, "STARTING")
        assert_problem(httpx.get(process.url + "/chain"), 503, "STARTING")
        began = time.monotonic()
        process.terminate()
        assert process.worker.wait(10) == 0
        assert time.monotonic() - began < STOP_LIMIT_S


def test_ctrl_c_is_the_supervisors_business() -> None:
    with WorkerProcess(with_core=False) as process:
        process.wait_for("/health", 200)
        process.worker.send_signal(signal.SIGINT)
        time.sleep(0.1)
        process.wait_for("/health", 200)


def test_an_orphan_leaves() -> None:
    with WorkerProcess(with_core=False) as process:
        process.wait_for("/health", 200)
        process.orphan()
        assert process.worker.wait(10) == 0


def test_a_stop_answers_who_waits_and_closes_sockets_with_1001() -> None:
    with WorkerProcess(with_core=True, block_time_s=3600) as process:
        process.wait_for("/ready", 200)
        tx = signed(0)
        assert httpx.post(process.url + "/tx", json=body_of(tx)).json()["txHash"] == hash_of(tx)
        address = ("127.0.0.1", process.port)
        with create_connection(address, 10) as waiting, connect(f"ws://127.0.0.1:{process.port}/events") as socket:
            # In one piece: once the first is answered, the second has been read.
            waiting.sendall(get("/health") + get(f"/tx/{hash_of(tx)}?wait=60"))
            received = b""
            while not received.endswith(b'{"status":"alive"}'):
                received += waiting.recv(4096)
            began = time.monotonic()
            process.terminate()
            with pytest.raises(ConnectionClosed) as closed:
                socket.recv(10)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1001
            answer = b"".join(iter(lambda: waiting.recv(4096), b""))
            assert b'"status":"pending"' in answer
        assert process.worker.wait(10) == 0
        assert time.monotonic() - began < STOP_LIMIT_S


def test_when_the_core_is_gone_health_stays_and_ready_does_not() -> None:
    with WorkerProcess(with_core=True) as process:
        process.wait_for("/ready", 200)
        tx = signed(0)
        httpx.post(process.url + "/tx", json=body_of(tx))
        confirmed = httpx.get(f"{process.url}/tx/{hash_of(tx)}?wait=20", timeout=30).json()
        assert confirmed["status"] == "confirmed"
        assert process.core is not None
        process.core.send_signal(signal.SIGSTOP)
        stuck = process.wait_for("/ready", 503).json()
        assert "did not answer" in stuck["checks"]["store"]
        process.core.kill()
        process.core.wait()
        gone = process.wait_for("/ready", 503).json()
        assert gone["checks"]["store"]
        process.wait_for("/health", 200)
        assert_problem(httpx.post(process.url + "/tx", json=body_of(signed(1))), 503, "STORE_UNAVAILABLE")
        assert httpx.get(f"{process.url}/tx/{hash_of(tx)}").json() == confirmed, "what is confirmed can be read"
        assert_problem(httpx.get(process.url + "/block/latest"), 503, "STORE_UNAVAILABLE")
