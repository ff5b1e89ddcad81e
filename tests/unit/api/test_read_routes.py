"""Reads that a worker answers at once: what they ask of the core, what they keep, and when they leave it to others."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import accumulate, chain, repeat
from pathlib import Path
from typing import Any

import pytest

from cairn import metrics
from cairn.api import next_nonces, read_routes
from cairn.api.server import access
from cairn.board import Board
from cairn.domain.lru_cache import LruCache
from cairn.domain.types import Address
from cairn.metrics_page import GROUP
from tests.support.core_fixtures import ACCOUNTS, GWEI, make_block, opened_core, settings, signed
from tests.support.direct_worker import Answer, CurrentCore, DirectWorker, get
from tests.support.metrics import Scrape
from tests.support.rest_node import body_of, hash_of

SENDER = "/account/0x" + ACCOUNTS[0].hex()


class Served:
    """A worker of a real core, and what the core was asked."""

    def __init__(self, gateway: CurrentCore, worker: DirectWorker) -> None:
        self.gateway = gateway
        self.core = gateway.core
        self.worker = worker

    async def read(self, target: str) -> tuple[Any, int]:
        """What is answered, and how many questions to the core it took."""
        before = self.gateway.asked
        answer = await self.worker.ask(get(target))
        return json.loads(answer.body), self.gateway.asked - before

    async def next_nonce(self, target: str = SENDER) -> tuple[int, int]:
        account, asked = await self.read(target)
        return account["pendingNonce"], asked


def post(fields: object) -> bytes:
    body = json.dumps(fields).encode()
    head = "POST /tx HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    board = Board()
    async with opened_core(tmp_path / "data", board=board) as core:
        gateway = CurrentCore(core)
        worker = DirectWorker(gateway, tmp_path / "scratch", settings(), board)
        worker.meet(core)
        core.feed.subscribe_blocks(worker.view.on_commit)
        yield Served(gateway, worker)
        worker.close()


async def test_the_core_is_asked_once_for_each_change_of_a_sender_that_has_transactions(served: Served) -> None:
    core = served.core
    assert await served.next_nonce() == (0, 0)
    await core.submit(signed(0))
    assert [await served.next_nonce() for _ in range(3)] == [(1, 1), (1, 0), (1, 0)]
    await core.submit(signed(0, sender=1))
    assert await served.next_nonce() == (1, 0), "another sender's"
    assert await served.next_nonce(SENDER + "?amounts=string") == (1, 0)
    await core.submit(signed(1))
    assert [await served.next_nonce() for _ in range(2)] == [(2, 1), (2, 0)]
    make_block(core)
    assert [await served.next_nonce() for _ in range(2)] == [(2, 0), (2, 0)]


async def test_a_block_of_others_does_not_make_it_ask_again(served: Served) -> None:
    core = served.core
    await core.submit(signed(1))
    assert await served.next_nonce() == (0, 1)
    await core.submit(signed(0, sender=9))
    make_block(core)
    # The account received something meanwhile.
    account, asked = await served.read(SENDER)
    assert (account["pendingNonce"], asked) == (0, 0)
    assert account["balance"] == core._chain.account(ACCOUNTS[0]).balance


async def test_what_the_core_answered_late_is_not_kept(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    core, ask = served.core, CurrentCore.perform
    await core.submit(signed(0))

    async def late(gateway: CurrentCore, *args: Any) -> Any:
        answer = await ask(gateway, *args)
        # While the answer is on its way.
        await core.submit(signed(1))
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(CurrentCore, "perform", late)
        assert await served.next_nonce() == (1, 1), "as of when it was asked"
    assert await served.next_nonce() == (2, 1)


async def test_a_submission_before_it_on_the_connection_counts(served: Served) -> None:
    served.worker.at_once(post(body_of(signed(0))) + get(SENDER) + get("/chain"))
    submitted, account, chain = [json.loads((await served.worker.answer()).body) for _ in range(3)]
    assert (submitted["status"], account["pendingNonce"], chain["mempool"]["pending"]) == ("pending", 1, 1)


async def test_the_latest_block_is_that_after_a_submission_before_it_on_the_connection(served: Served) -> None:
    assert (await served.read("/block/latest"))[0]["blockHeight"] == 0
    served.worker.at_once(post(body_of(signed(0))) + get("/block/latest") + get("/block/latest?amounts=string"))
    # As at a block time of 0: the block is there before the answer to the submission.
    make_block(served.core)
    submitted, *blocks = [json.loads((await served.worker.answer()).body) for _ in range(3)]
    assert [submitted["txHash"]] == blocks[0]["transactions"] == blocks[1]["transactions"]


async def test_a_pending_transaction_is_asked_for_once_until_its_sender_has_another(served: Served) -> None:
    tx, core = "/tx/" + hash_of(signed(1)), served.core
    await core.submit(signed(1))
    shown, _ = await served.read(tx)
    assert shown["queued"] is True
    assert await served.read(tx) == (shown, 0)
    assert (await served.read(tx + "?amounts=string"))[1] == 0
    await core.submit(signed(0, sender=1))
    assert await served.read(tx) == (shown, 0), "another sender's"
    await core.submit(signed(0))
    shown, asked = await served.read(tx)
    assert ("queued" in shown, asked) == (False, 1)
    make_block(core)
    shown, asked = await served.read(tx)
    assert (shown["status"], asked) == ("confirmed", 0)


async def test_a_replacement_before_it_on_the_connection_counts(served: Served) -> None:
    old, new = signed(0), signed(0, gas_price=2 * GWEI)
    await served.core.submit(old)
    lookup = "/tx/" + hash_of(old)
    assert [await served.read(lookup) for _ in range(2)][1][1] == 0
    served.worker.at_once(post(body_of(new)) + get(lookup))
    assert json.loads((await served.worker.answer()).body)["status"] == "pending"
    assert json.loads((await served.worker.answer()).body)["reason"] == "replaced"


async def test_what_another_core_said_of_a_pending_transaction_is_void(served: Served) -> None:
    view = served.worker.view
    await served.core.submit(signed(0))
    await served.read("/tx/" + hash_of(signed(0)))
    assert len(view.pending) == 1
    view.on_info(served.core.info())
    assert len(view.pending) == 0


async def test_while_the_core_is_away_the_application_says_so(served: Served) -> None:
    assert await served.next_nonce() == (0, 0)
    served.worker.view.on_phase("unavailable", "the core process is gone")
    _, asked = await served.read(SENDER)
    assert asked == 1
    _, asked = await served.read("/chain")
    assert asked == 1
    block, asked = await served.read("/block/0")
    assert (block["blockHeight"], asked) == (0, 0)


async def test_every_spelling_of_an_address_is_answered_as_the_application_does(served: Served) -> None:
    for spelling in (SENDER[9:], SENDER[9:].upper().replace("0X", "0x")):
        account, asked = await served.read("/account/" + spelling)
        assert (account["address"], asked) == ("0x" + ACCOUNTS[0].hex(), 0)
    refused, _ = await served.read("/account/" + SENDER[9:].replace("f", "F", 1))
    assert (refused["status"], refused["field"]) == (400, "address")


async def test_accounts_and_nonces_do_not_pile_up(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = list[LruCache[Any, Any]]()

    class Noted(LruCache[Any, Any]):
        def __init__(self, most: int) -> None:
            super().__init__(most)
            kept.append(self)

    monkeypatch.setattr(read_routes, "KEPT_ACCOUNTS", 5)
    monkeypatch.setattr(next_nonces, "KEPT_NONCES", 5)
    monkeypatch.setattr(read_routes, "LruCache", Noted)
    monkeypatch.setattr(next_nonces, "LruCache", Noted)
    worker = DirectWorker(
        served.gateway, served.worker.view._scratch_dir / "other", settings(), served.worker.view.board
    )
    worker.meet(served.core)
    await served.core.submit(signed(0))
    for number in range(20):
        # Each in the slot of a sender that has a transaction, so that the core is asked.
        neighbour = Address(bytes([number] * 18) + ACCOUNTS[0][18:])
        assert json.loads((await worker.ask(get(f"/account/0x{neighbour.hex()}"))).body)["pendingNonce"] == 0
    assert sorted(map(len, kept)) == [5, 5]
    worker.close()


async def test_each_read_counts_against_the_rate_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "is_local", lambda client: False)
    limited = replace(settings(), rate_limit_per_s=0.001, rate_limit_burst=4)
    board = Board()
    async with opened_core(tmp_path / "data", board=board) as core:
        worker = DirectWorker(CurrentCore(core), tmp_path / "scratch", limited, board)
        worker.meet(core)
        answers: list[Answer] = [
            await worker.ask(get(target)) for target in (SENDER, "/block/latest", "/chain", SENDER, SENDER, "/chain")
        ]
        assert [answer.status.split()[1] for answer in answers] == [b"200"] * 4 + [b"429"] * 2
        worker.close()


async def test_fast_answers_at_once_are_all_counted_and_their_time_is_estimated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In memory that nobody else writes to.
    metrics.PAGE.share(["test"])
    board = Board()
    # The clock is read when a request is parsed, when it begins and when it has ended.
    fast = 3 * GROUP
    steps_s = [0.00005] * (3 * fast) + [0.15] * 3

    async with opened_core(tmp_path / "data", board=board) as core:
        worker = DirectWorker(CurrentCore(core), tmp_path / "scratch", settings(), board)
        worker.meet(core)
        monkeypatch.setattr(worker._state.shares, "clock", accumulate(chain(steps_s, repeat(0.0))).__next__)
        for _ in range(fast + 1):
            assert worker.at_once(get("/chain")) is not None
        worker.close()
    page = Scrape(metrics.HTTP.rendered(metrics.PAGE))
    assert page.total("cairn_http_requests_total", route="GET /chain", code="200") == fast + 1
    name = "cairn_http_request_duration_seconds"
    assert page.total(f"{name}_bucket", route="GET /chain", le="0.001") == fast
    assert page.total(f"{name}_bucket", route="GET /chain", le="0.25") == fast
    assert page.total(f"{name}_bucket", route="GET /chain", le="0.5") == fast + 1
    assert page.total(f"{name}_sum", route="GET /chain") == pytest.approx(fast * 0.0001 + 0.3)
