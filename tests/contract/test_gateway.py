"""What every `CoreGateway` does: the core asked in process, and the core asked over its socket."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from cairn.core.gateway import Admission, ConfirmedTx, CoreGateway, DroppedTx, PendingTx, TxStatus
from cairn.domain.answers import Checks
from cairn.domain.certificates import check_certificate
from cairn.domain.errors import (
    GasPriceTooLow,
    InsufficientFunds,
    InvalidField,
    InvalidQuery,
    NonceTooHigh,
    NonceTooLow,
    NotSignedYet,
    ReplacementUnderpriced,
)
from cairn.domain.genesis import dev_genesis
from cairn.domain.merkle import verify_inclusion
from cairn.domain.state_tree import read_state_leaf
from cairn.domain.types import Address, Draft, TxHash
from tests.support.core_fixtures import ACCOUNTS, GWEI, opened_core, settings, signed
from tests.support.linked_core import linked
from tests.support.pace import PATIENCE_S

AT_ONCE = 0.0
NEVER = 3_600.0

Opened = Callable[[float], AbstractAsyncContextManager[CoreGateway]]


@asynccontextmanager
async def in_process(directory: Path, block_time_s: float) -> AsyncIterator[CoreGateway]:
    async with opened_core(directory, settings(block_time_s=block_time_s)) as core:
        yield core


@asynccontextmanager
async def over_the_link(directory: Path, block_time_s: float) -> AsyncIterator[CoreGateway]:
    async with linked(directory, block_time_s=block_time_s) as (client, _, _core):
        yield client


@pytest.fixture(params=[in_process, over_the_link])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    """Opens one implementation on a fresh chain, with that block time."""
    return partial(request.param, tmp_path)


@pytest.fixture
async def core(opened: Opened) -> AsyncIterator[CoreGateway]:
    async with opened(NEVER) as core:
        yield core


async def standing_of(gateway: CoreGateway, tx_hash: TxHash, kind: type[TxStatus]) -> TxStatus:
    """Where the transaction stands, once that is of this kind."""
    async with asyncio.timeout(PATIENCE_S):
        while not isinstance(standing := await gateway.find_tx(tx_hash), kind):
            await asyncio.sleep(0.001)
    return standing


async def test_an_admitted_transaction_is_pending_counted_and_listed(core: CoreGateway) -> None:
    assert await core.submit(signed(0)) == Admission(signed(0).hash)
    standing = await core.find_tx(signed(0).hash)
    assert isinstance(standing, PendingTx)
    assert standing.tx == signed(0)
    assert await core.find_tx(signed(1).hash) is None
    status = await core.status()
    assert (status.phase, status.reason, status.head, status.pending, status.queued) == ("ready", "", 0, 1, 0)
    page = await core.list_pending(10, None, None)
    # In a list nobody is told of its sender's changes.
    assert (page.items, page.total, page.next) == ([replace(standing, changes=-1)], 1, None)


async def test_the_same_transaction_again_is_the_same_answer(core: CoreGateway) -> None:
    answers = await asyncio.gather(*(core.submit(signed(0)) for _ in range(3)))
    known = Admission(signed(0).hash, known=True)
    assert answers == [Admission(signed(0).hash), known, known]
    assert (await core.status()).pending == 1


async def test_a_confirmed_transaction_stays_confirmed(opened: Opened) -> None:
    async with opened(AT_ONCE) as core:
        await core.submit(signed(0))
        standing = await standing_of(core, signed(0).hash, ConfirmedTx)
        assert standing == ConfirmedTx(1)
        assert await core.submit(signed(0)) == Admission(signed(0).hash, confirmed=True)
        status = await core.status()
        assert (status.head, status.pending) == (1, 0)


async def test_each_refusal_is_of_its_kind_and_leaves_nothing(core: CoreGateway) -> None:
    await core.submit(signed(0))
    for refused, kind in (
        (signed(0, value=2), ReplacementUnderpriced),
        (signed(1, gas_price=GWEI - 1), GasPriceTooLow),
        (signed(1, value=10**24), InsufficientFunds),
        (signed(66), NonceTooHigh),
    ):
        with pytest.raises(kind):
            await core.submit(refused)
        assert await core.find_tx(refused.hash) is None
    assert (await core.status()).pending == 1


async def test_a_used_nonce_is_refused(opened: Opened) -> None:
    async with opened(AT_ONCE) as core:
        await core.submit(signed(0))
        await standing_of(core, signed(0).hash, ConfirmedTx)
        with pytest.raises(NonceTooLow):
            await core.submit(signed(0, value=2))


async def test_submissions_are_taken_in_the_order_in_which_they_are_made(core: CoreGateway) -> None:
    draft = Draft(ACCOUNTS[0], ACCOUNTS[1], 1, 21_000, GWEI, None)
    first = [core.submit(signed(nonce)) for nonce in range(3)]
    drafted = asyncio.create_task(core.submit_draft(draft))
    await asyncio.sleep(0)
    last = core.submit(signed(4))
    await asyncio.gather(*first, last)
    assert (await drafted).tx_hash == signed(3).hash
    assert await core.next_nonce(ACCOUNTS[0]) == 5


async def test_the_next_nonce_counts_what_can_be_mined(core: CoreGateway) -> None:
    assert await core.next_nonce(ACCOUNTS[0]) == 0
    await core.submit(signed(0))
    await core.submit(signed(2))
    assert await core.next_nonce(ACCOUNTS[0]) == 1
    assert (await core.status()).queued == 1
    await core.submit(signed(1))
    assert await core.next_nonce(ACCOUNTS[0]) == 3
    assert await core.next_nonce(Address(b"\x99" * 20)) == 0


async def waiting_for(core: CoreGateway, *nonces: int) -> list[int | None]:
    """The nonce that each waits for: as looked up, which must be as listed."""
    page = await core.list_pending(10, None, ACCOUNTS[0])
    listed = {item.tx.hash: item for item in page.items}
    found = [await core.find_tx(signed(nonce).hash) for nonce in nonces]
    pending = [each for each in found if isinstance(each, PendingTx)]
    # In a list nobody is told of its sender's changes.
    assert [replace(each, changes=-1) for each in pending] == [listed[signed(nonce).hash] for nonce in nonces]
    return [each.waits_for_nonce for each in pending]


async def test_a_queued_transaction_says_which_nonce_it_waits_for_until_that_comes(core: CoreGateway) -> None:
    assert await core.submit(signed(1)) == Admission(signed(1).hash, waits_for_nonce=0)
    assert await core.submit(signed(4)) == Admission(signed(4).hash, waits_for_nonce=0)
    assert await core.submit(signed(4)) == Admission(signed(4).hash, known=True, waits_for_nonce=0)
    assert await waiting_for(core, 1, 4) == [0, 0]
    assert await core.submit(signed(0)) == Admission(signed(0).hash)
    assert await waiting_for(core, 0, 1, 4) == [None, None, 2]
    assert await core.submit(signed(1)) == Admission(signed(1).hash, known=True)


async def test_a_gap_that_closes_before_the_sync_is_not_told(core: CoreGateway) -> None:
    answers = list(await asyncio.gather(core.submit(signed(1)), core.submit(signed(3)), core.submit(signed(0))))
    assert answers == [
        Admission(signed(1).hash),
        Admission(signed(3).hash, waits_for_nonce=2),
        Admission(signed(0).hash),
    ]


async def test_a_replaced_transaction_is_dropped_and_says_why(core: CoreGateway) -> None:
    replacement = signed(0, gas_price=2 * GWEI)
    await core.submit(signed(0))
    await core.submit(replacement)
    assert await core.find_tx(signed(0).hash) == DroppedTx("replaced")
    assert isinstance(await core.find_tx(replacement.hash), PendingTx)


async def test_a_draft_is_signed_with_a_key_that_the_node_holds_only(core: CoreGateway) -> None:
    draft = Draft(ACCOUNTS[3], ACCOUNTS[4], 1, 21_000, GWEI, 0)
    assert await core.submit_draft(draft) == Admission(signed(0, sender=3).hash)
    with pytest.raises(InvalidField, match="no key"):
        await core.submit_draft(replace(draft, sender=Address(b"\x99" * 20)))


async def test_pages_follow_each_other_and_can_be_of_one_sender(core: CoreGateway) -> None:
    submitted = [signed(nonce, sender=sender) for nonce in range(3) for sender in range(2)]
    await asyncio.gather(*map(core.submit, submitted))
    listed, after = [], None
    for _ in range(3):
        page = await core.list_pending(2, after, None)
        assert page.total == 6
        listed += [item.tx for item in page.items]
        after = page.next
    assert (listed, after) == (submitted, None)
    own = await core.list_pending(10, None, ACCOUNTS[1])
    assert [item.tx for item in own.items] == submitted[1::2]
    with pytest.raises(InvalidQuery):
        await core.list_pending(1, "rubbish", None)


async def test_a_healthy_core_passes_its_check(core: CoreGateway) -> None:
    assert await core.check() == Checks("ok", "ok")


async def test_an_account_is_proven_under_the_newest_signed_block(opened: Opened) -> None:
    async with opened(AT_ONCE) as core:
        with pytest.raises(NotSignedYet):
            await core.state_proof(ACCOUNTS[0])
        tx = signed(0, value=7)
        await core.submit(tx)
        await standing_of(core, tx.hash, ConfirmedTx)
        for address, is_there in ((ACCOUNTS[1], True), (Address(b"\x77" * 20), False)):
            proof = await core.state_proof(address)
            assert proof.certificate == await core.certificate(None)
            root = check_certificate(proof.certificate, dev_genesis()).header.state_root
            assert verify_inclusion(proof.leaf, proof.number, proof.size, proof.path, root)
            leaf = read_state_leaf(proof.leaf)
            assert (leaf.address == address) == is_there != leaf.skips(address)
