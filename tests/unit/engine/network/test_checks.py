"""Checks of what strangers send: they cost little to refuse, and blocks go first."""

import asyncio
import threading
from collections.abc import Awaitable, MutableMapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from cairn.domain.errors import InsufficientFunds, MempoolFull, NodeError, Rejected, StoreUnavailable
from cairn.domain.governance import Update, decode_update
from cairn.domain.types import Account, Address, Tx
from cairn.engine.abci import requests as m
from cairn.engine.network import checks
from cairn.engine.network import parsed_txs as reading
from cairn.engine.network.bundle import MOST, encode_bundle
from cairn.engine.network.checks import FIRST_PART, NOTICE_INTERVAL_S, NOTICED, READ_AT_ONCE, READ_PER_S, Refusals
from cairn.engine.network.parsed_txs import parse
from tests.support.abci_node import SECOND, Node, bundle, raw, update
from tests.support.core_fixtures import signed
from tests.support.forgery import Forger
from tests.support.pace import PATIENCE_S

BUSY = MempoolFull.abci_code
POOR = InsufficientFunds.abci_code
FAILURE = StoreUnavailable("the disk is gone")


@pytest.fixture
def forger() -> Forger:
    return Forger()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """All whose sender is recovered, as it happens."""
    done: list[bytes] = []

    def noted(raw: bytes, chain_id: int, base_fee: int) -> Tx | Update | Rejected:
        done.append(raw)
        return parse(raw, chain_id, base_fee)

    monkeypatch.setattr(reading, "parse", noted)
    return done


async def ask(node: Node, *raws: bytes, recheck: bool = False) -> list[int]:
    """The codes of checks that are asked for all at once."""
    answers = [node.app.check_tx(m.CheckTxRequest(raw, recheck)) for raw in raws]
    return [(await answer if isinstance(answer, Awaitable) else answer).code for answer in answers]


def check(node: Node, *raws: bytes, recheck: bool = False) -> list[int]:
    return asyncio.run(ask(node, *raws, recheck=recheck))


def exhaust(node: Node, forger: Forger) -> None:
    """Use the budget up."""
    check(node, *(forger.transfer() for _ in range(READ_AT_ONCE)))


# What is read of a bundle.


def test_a_bundle_that_nobody_signed_is_refused_by_its_first_transfers(
    node: Node, forger: Forger, read: list[bytes]
) -> None:
    assert check(node, forger.bundle()) == [POOR]
    assert len(read) == FIRST_PART


def test_transfers_that_pay_in_front_of_others_do_not_make_a_bundle_worth_reading(
    node: Node, forger: Forger, read: list[bytes]
) -> None:
    """The more of them are new the more is read; those that came before count for nothing."""
    good = [raw(nonce) for nonce in range(8)]
    assert check(node, encode_bundle([*good, *(forger.transfer() for _ in range(MOST - 8))])) == [POOR]
    assert len(read) < 10 * len(good)
    assert check(node, encode_bundle(good)) == [0]
    read.clear()
    assert check(node, encode_bundle([*good, *(forger.transfer() for _ in range(MOST - 8))])) == [POOR]
    assert len(read) == FIRST_PART


def test_old_transfers_are_not_all_read_again(node: Node, read: list[bytes]) -> None:
    node.finalize([bundle(*range(40))])
    node.app.commit()
    node.parsed_txs._known.clear()
    read.clear()
    assert check(node, bundle(*range(39, -1, -1))) == [NodeError.abci_code]
    assert len(read) == FIRST_PART


def test_a_long_bundle_that_can_be_mined_is_taken(node: Node, read: list[bytes]) -> None:
    together = bundle(*range(100))
    assert check(node, together) == [0]
    assert len(read) == 100
    assert node.pending_count() == 100
    # It is known from then on.
    node.finalize([])
    node.app.commit()
    assert check(node, together, recheck=True) == [0]
    assert len(read) == 100


def test_a_bundle_that_cometbft_holds_stays_for_its_last_transfers(node: Node) -> None:
    """Even when it has to be read again, and most in it was mined."""
    together = bundle(*range(20))
    assert check(node, together) == [0]
    node.finalize([bundle(*range(18))])
    node.app.commit()
    node.parsed_txs._known.clear()
    node.parsed_txs._bundles.clear()
    assert check(node, together, recheck=True) == [0]


def test_a_refused_transaction_is_not_cached(node: Node, forger: Forger) -> None:
    """Else anybody could push out what is checked again after every block."""
    forged = forger.transfer()
    assert check(node, forged, raw(7), encode_bundle([raw(8), raw(9)])) == [POOR, 8, 8]
    assert [node.parsed_txs.find(item) for item in (forged, raw(7), raw(8))] == [None] * 3


# The budget.


def test_over_budget_nothing_unknown_is_read_until_time_has_passed(
    node: Node, forger: Forger, read: list[bytes]
) -> None:
    exhaust(node, forger)
    assert len(read) == READ_AT_ONCE
    assert check(node, forger.transfer(), forger.bundle(), raw(0)) == [BUSY] * 3
    # What this node sends itself is known to it.
    node.parsed_txs.remember(raw(0), signed(0))
    assert check(node, raw(0)) == [0]
    assert len(read) == READ_AT_ONCE
    node.seconds += 2 / READ_PER_S
    assert check(node, raw(1)) == [0]


def test_an_update_that_this_node_hands_over_is_checked_whatever_the_budget(node: Node, forger: Forger) -> None:
    exhaust(node, forger)
    wanted = update(0, SECOND, 0, 1)
    assert check(node, wanted) == [BUSY]
    node.parsed_txs.remember(wanted, decode_update(wanted))
    assert check(node, wanted) == [0]


def test_an_accepted_transaction_uses_none_of_the_budget(node: Node, forger: Forger) -> None:
    exhaust(node, forger)
    node.seconds += 1 / READ_PER_S
    assert check(node, raw(0)) == [0]
    assert check(node, bundle(1, 2, 3)) == [0]
    assert check(node, forger.transfer()) == [POOR]
    assert check(node, raw(4)) == [BUSY]


def test_a_recheck_is_answered_over_budget(node: Node, forger: Forger) -> None:
    check(node, raw(0))
    exhaust(node, forger)
    node.parsed_txs._known.clear()
    node.finalize([])
    node.app.commit()
    assert check(node, raw(0), recheck=True) == [0]


def test_a_refused_recheck_uses_none_of_the_budget(node: Node, forger: Forger) -> None:
    check(node, *(forger.transfer() for _ in range(READ_AT_ONCE)), recheck=True)
    assert check(node, raw(0)) == [0]


def test_a_few_refusals_are_not_logged(node: Node, forger: Forger) -> None:
    with capture_logs() as logs:
        for _ in range(2 * NOTICED):
            check(node, forger.transfer())
            node.seconds += NOTICE_INTERVAL_S / 10
        assert logs == []
        # At the same time they are.
        check(node, *(forger.transfer() for _ in range(NOTICED)))
    assert len(logs) == 1


def test_many_refusals_are_logged_at_an_interval(node: Node, forger: Forger) -> None:
    with capture_logs() as logs:
        for _ in range(NOTICED - 1):
            check(node, forger.bundle(8))
        assert logs == []
        check(node, forger.bundle(8))
        for _ in range(2 * NOTICED):
            check(node, forger.transfer())
        assert len(logs) == 1
        node.seconds += NOTICE_INTERVAL_S
        check(node, forger.transfer())
    told = [{name: line[name] for name in ("refused", "signatures_read", "turned_away_unread")} for line in logs]
    assert told == [
        {"refused": NOTICED, "signatures_read": FIRST_PART * NOTICED, "turned_away_unread": 0},
        {"refused": 2 * NOTICED + 1, "signatures_read": 2 * NOTICED + 1, "turned_away_unread": 0},
    ]
    assert logs[0]["event"] == "peers send transactions that are refused"


# Blocks go first.


def test_checks_are_refused_unread_when_a_block_has_waited_for_its_commit(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However good it is: what others have sent they propose themselves, or send again."""
    monkeypatch.setattr(checks, "READ_BEFORE_COMMIT", 10)
    node.finalize([])
    assert check(node, bundle(*range(10))) == [0]
    assert check(node, raw(10), bundle(11, 12)) == [BUSY] * 2
    node.parsed_txs.remember(raw(10), signed(10))
    assert check(node, raw(10)) == [0]
    node.app.commit()
    assert check(node, raw(0, sender=1)) == [0]


def test_a_block_that_is_finalized_again_has_a_new_limit_of_checks(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """CometBFT died before the commit, and has the block made again."""
    monkeypatch.setattr(checks, "READ_BEFORE_COMMIT", 2)
    node.finalize([])
    assert check(node, bundle(0, 1), raw(2)) == [0, BUSY]
    node.finalize([])
    assert check(node, raw(2)) == [0]


async def test_nothing_is_read_for_checks_while_a_proposal_is_judged(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposed = [raw(nonce) for nonce in range(reading.FEW + 1)]
    block_goes_on = threading.Event()
    read: list[bytes] = []

    def held_up(item: bytes, chain_id: int, base_fee: int) -> Tx | Update | Rejected:
        assert item not in proposed or block_goes_on.wait(PATIENCE_S)
        read.append(item)
        return parse(item, chain_id, base_fee)

    monkeypatch.setattr(reading, "parse", held_up)
    judging = node.app.process_proposal(node.block(m.ProcessProposalRequest, proposed, 2e9))
    assert isinstance(judging, Awaitable)
    judged = asyncio.ensure_future(judging)
    await asyncio.sleep(0)
    checked = asyncio.ensure_future(ask(node, raw(0, sender=1)))
    for _ in range(100):
        await asyncio.sleep(0)
    assert read == []
    block_goes_on.set()
    assert await judged
    assert await checked == [0]


def test_checks_beyond_the_waiting_limit_are_refused_unread(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = [raw(nonce) for nonce in range(30)]
    monkeypatch.setattr(checks, "MOST_WAITING_BYTES", sum(map(len, waiting[10:])))
    assert check(node, *reversed(waiting)) == [BUSY] * 10 + [8] * 19 + [0]


# What fails.


async def test_closing_cancels_the_checks_that_wait(node: Node, forger: Forger) -> None:
    asked = [node.app.check_tx(m.CheckTxRequest(each, recheck=False)) for each in (forger.bundle(), raw(0))]
    node.app.close()
    assert [isinstance(answer, asyncio.Future) and answer.cancelled() for answer in asked] == [True, True]


async def test_a_disk_failure_during_a_bundle_is_raised(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """CometBFT would wait for ever for a check that is not answered, and for all behind it."""

    def fail(address: Address) -> Account:
        raise FAILURE

    with monkeypatch.context() as patches:
        patches.setattr(node.chain, "account", fail)
        first = node.app.check_tx(m.CheckTxRequest(bundle(0, 1, 2), recheck=False))
        second = node.app.check_tx(m.CheckTxRequest(bundle(3, 4, 5), recheck=False))
        assert isinstance(first, Awaitable)
        assert isinstance(second, Awaitable)
        async with asyncio.timeout(PATIENCE_S):
            told = await asyncio.gather(first, second, return_exceptions=True)
        assert [failure is FAILURE for failure in told] == [True, True]
    assert await ask(node, bundle(0, 1, 2)) == [0]


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def refusals(clock: Clock) -> Refusals:
    return Refusals(clock)


def test_the_budget_is_used_up_by_read_at_once_signatures(refusals: Refusals) -> None:
    refusals.add(READ_AT_ONCE - 1)
    assert not refusals.is_over_budget
    refusals.add(1)
    assert refusals.is_over_budget


def test_a_refusal_without_a_signature_costs_one(refusals: Refusals) -> None:
    refusals.add(READ_AT_ONCE - 1)
    refusals.add(0)
    assert refusals.is_over_budget


def test_a_refusal_unread_uses_none_of_the_budget(refusals: Refusals) -> None:
    refusals.add(READ_AT_ONCE - 1)
    refusals.add_unread()
    assert not refusals.is_over_budget


def test_the_budget_refills_with_time(refusals: Refusals, clock: Clock) -> None:
    refusals.add(READ_AT_ONCE + 2 * READ_PER_S)
    seen = []
    for _ in range(3):
        seen.append(refusals.is_over_budget)
        clock.now += 1
    assert seen == [True, True, True]
    assert not refusals.is_over_budget


def test_the_time_since_the_last_refusal_refills_the_budget_before_the_next(refusals: Refusals, clock: Clock) -> None:
    refusals.add(READ_AT_ONCE)
    clock.now += 1
    refusals.add(READ_PER_S - 1)
    assert not refusals.is_over_budget
    refusals.add(1)
    assert refusals.is_over_budget


def test_the_budget_refills_to_its_maximum_only(refusals: Refusals, clock: Clock) -> None:
    clock.now += 1_000
    refusals.add(READ_AT_ONCE)
    assert refusals.is_over_budget


def refuse(refusals: Refusals, count: int) -> list[MutableMapping[str, Any]]:
    with capture_logs() as lines:
        for _ in range(count):
            refusals.add(2)
    return lines


def test_each_log_line_counts_the_refusals_since_the_last(refusals: Refusals, clock: Clock) -> None:
    assert refuse(refusals, NOTICED - 1) == []
    with capture_logs() as lines:
        refusals.add_unread()
    assert [(line["refused"], line["signatures_read"], line["turned_away_unread"]) for line in lines] == [
        (NOTICED - 1, 2 * (NOTICED - 1), 1)
    ]
    assert refuse(refusals, NOTICED) == []
    clock.now += NOTICE_INTERVAL_S
    (line,) = refuse(refusals, 1)
    assert (line["refused"], line["turned_away_unread"]) == (NOTICED + 1, 0)


@pytest.mark.parametrize(("pause_s", "lines"), [(NOTICE_INTERVAL_S - 0.1, 1), (NOTICE_INTERVAL_S, 0)])
def test_only_many_refusals_within_the_interval_are_logged(
    refusals: Refusals, clock: Clock, pause_s: float, lines: int
) -> None:
    assert refuse(refusals, NOTICED - 1) == []
    clock.now += pause_s
    assert len(refuse(refusals, 1)) == lines
    assert len(refuse(refusals, NOTICED - 1)) == 1 - lines
