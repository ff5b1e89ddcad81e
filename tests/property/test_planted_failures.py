"""Wherever the code behind a request raises what nobody expects, its client is told, and so are the log and metrics.

An exception is planted into each function, one after the other, that is called while a request is served.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from structlog.testing import capture_logs

import cairn.api
from cairn import metrics
from cairn.board import Board
from cairn.domain.transactions import encode_tx
from tests.support.core_fixtures import ACCOUNTS, CHAIN_ID, make_block, opened_core, settings, signed
from tests.support.direct_worker import Answer, CurrentCore, DirectWorker, Written, get
from tests.support.metrics import Scrape
from tests.support.pace import PATIENCE_S
from tests.support.rest_node import body_of, hash_of

API = str(Path(cairn.api.__file__).parent)
SCHEDULE = (
    "http_protocol.py", "request_reader.py", "known_heads.py", "exchange.py", "server_state.py", "client_budgets.py",
    "gathered_answers.py", "http_heads.py",
)  # fmt: skip
"""Reads bytes, decides whose turn it is, and writes: what is served runs inside of it."""
SERVES = {
    "http_protocol.py _parse_piece", "http_protocol.py _begin_hot", "http_protocol.py _flush", "exchange.py run",
    "time_shares.py _steps",
}  # fmt: skip
"""All that is done for a request is called by one of them."""
TELLS = {
    "http_protocol.py _refuse", "http_protocol.py fail", "hot_routes.py failed", "hot_heads.py failed",
    "dispatch.py refuse", "middleware.py send_problem", "submissions.py problem_of", "failures.py error_of",
}  # fmt: skip
"""What is called by one of them tells of a failure that there was already."""
BEHIND = get("/health")


class Planted(Exception):
    pass


class Ending(Written):
    """The transport of a connection that may end."""

    is_closed = False

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    write_eof = abort = close


def names_of(frame: FrameType | None) -> Iterator[str]:
    """The function that runs, and all that have called it."""
    while frame is not None:
        yield name_of(frame.f_code)
        frame = frame.f_back


@cache
def name_of(code: CodeType) -> str:
    return f"{Path(code.co_filename).name} {code.co_name}"


@contextmanager
def planted(tried: Collection[str]) -> Iterator[list[str]]:
    """Raise in the first function that is called and not among these. Yields its name in a list, if there was one."""
    found: list[str] = []
    begun: set[FrameType] = set()

    def trace(frame: FrameType, event: str, arg: object) -> None:
        file = frame.f_code.co_filename
        # A coroutine is called once, and goes on later.
        if event != "call" or not file.startswith(API) or file.endswith(SCHEDULE) or frame in begun:
            return
        begun.add(frame)
        name, *callers = names_of(frame)
        if name not in tried and not SERVES.isdisjoint(callers) and TELLS.isdisjoint((name, *callers)):
            sys.settrace(None)
            found.append(name)
            raise Planted(f"in {name}")

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield found
    finally:
        sys.settrace(before)


def post(path: str, body: Any, *headers: str) -> bytes:
    content = json.dumps(body).encode()
    lines = "".join(f"{line}\r\n" for line in ("Host: localhost", "Content-Type: application/json", *headers))
    return f"POST {path} HTTP/1.1\r\n{lines}Content-Length: {len(content)}\r\n\r\n".encode() + content


def call(method: str, *params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


RAW = "0x" + encode_tx(signed(0), CHAIN_ID).hex()
ACCOUNT = "/account/0x" + ACCOUNTS[0].hex()
REQUESTS = {
    "health": get("/health"),
    "chain": get("/chain"),
    "account": get(ACCOUNT),
    "account as strings": get(ACCOUNT + "?amounts=string"),
    "latest": get("/block/latest"),
    "block": get("/block/1"),
    "confirmed": get(f"/tx/{hash_of(signed(0, sender=1))}"),
    "pending": get(f"/tx/{hash_of(signed(0))}"),
    "unknown": get("/tx/0x" + "ab" * 32),
    "submitted": post("/tx", body_of(signed(0))),
    "refused": post("/tx", {"from": 1}),
    "list": post("/txs", [body_of(signed(0)), {"from": 1}]),
    "call": post("/rpc", call("eth_blockNumber")),
    "call that waits": post("/rpc", call("eth_sendRawTransaction", RAW)),
    "call of the core": post("/rpc", call("eth_getTransactionCount", "0x" + ACCOUNTS[0].hex(), "pending")),
    "refused call": post("/rpc", call("eth_getBalance", "x")),
    "batch": post("/rpc", [call("eth_blockNumber"), call("eth_sendRawTransaction", RAW)]),
    "history": get(ACCOUNT + "/txs"),
}


@pytest.fixture
async def worker(tmp_path: Path) -> AsyncIterator[DirectWorker]:
    board = Board()
    async with opened_core(tmp_path / "data", board=board) as core:
        worker = DirectWorker(CurrentCore(core), tmp_path / "scratch", settings(), board)
        worker.meet(core)
        core.feed.subscribe_blocks(worker.view.on_commit)
        await core.submit(signed(0, sender=1))
        make_block(core)
        await core.submit(signed(0))
        yield worker
        worker.close()


def counted() -> tuple[int, float]:
    """Failures by the code of the error, and answers with 500."""
    codes = [code for (code,) in metrics.HTTP_REFUSALS.keys]
    failures = metrics.PAGE.total_counts(metrics.HTTP_REFUSALS)[codes.index("INTERNAL")]
    return failures, Scrape(metrics.HTTP.rendered(metrics.PAGE)).total("cairn_http_requests_total", code="500")


async def check(worker: DirectWorker, request: bytes, tried: Collection[str]) -> str | None:
    """Serve the request with a failure in a function that was not tried yet, and return its name."""
    written = Ending()
    connection, (failures, with_500) = worker.connect(written), counted()
    answers: list[Answer] = []
    with capture_logs() as logged, planted(tried) as found:
        connection.send(request + BEHIND)
        async with asyncio.timeout(PATIENCE_S):
            while len(answers) < 2 and not (written.is_closed and not written.data):
                answer = written.take()
                if answer is None:
                    await asyncio.sleep(0)
                else:
                    answers.append(answer)
    if not found:
        assert not logged
        return None
    [failed] = found
    assert [repr(line["exc_info"]) for line in logged] == [f"Planted('in {failed}')"], failed
    telling = [answer for answer in answers if b"INTERNAL" in answer.body or b"internal error" in answer.body]
    assert len(telling) == 1, (failed, answers)
    assert counted() == (failures + 1, with_500 + (telling[0].status == b"HTTP/1.1 500 Internal Server Error")), failed
    assert b"Planted" not in telling[0].body, failed
    if len(answers) == 1:
        # The connection ends, and says so.
        assert b"connection: close" in answers[0].headers, failed
    else:
        assert (answers[1].body == b'{"status":"alive"}') is (answers[0] in telling), failed
    return failed


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", REQUESTS)
async def test_a_failure_anywhere_is_answered_counted_and_logged_once(worker: DirectWorker, kind: str) -> None:
    failed: list[str] = []
    while (name := await check(worker, REQUESTS[kind], failed)) is not None:
        failed.append(name)
    assert len(failed) >= 3
