"""The listing of the mempool, page by page."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cairn.domain.errors import InvalidQuery
from cairn.domain.types import MAX_UINT64, Address, Tx
from cairn.mempool.pool import Cursor, Listing, decode_cursor, encode_cursor
from tests.support.transfers import address, transfer
from tests.unit.mempool.pools import PoolWithState


def walk(pools: PoolWithState, limit: int, sender: Address | None = None) -> list[list[Tx]]:
    pages, after = [], None
    while True:
        page = pools.pool.page(limit, after, sender)
        pages.append([entry.tx for entry in page.entries])
        if page.next is None:
            return pages
        after = page.next


def some_pool() -> tuple[PoolWithState, list[Tx]]:
    pools = PoolWithState()
    late_waiting = transfer(1, 9)
    pools.admit(late_waiting)
    chain = pools.admit_chain(1, [10, 50, 30])
    early_waiting = transfer(2, 4)
    pools.admit(early_waiting)
    pools.admit(transfer(1, 7))
    (dear,) = pools.admit_chain(3, [90])
    return pools, [dear, *chain, transfer(1, 7), late_waiting, early_waiting]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7, 8])
def test_pages_follow_each_other_without_holes_or_repeats(limit: int) -> None:
    pools, listed = some_pool()
    assert walk(pools, limit) == [listed[start : start + limit] for start in range(0, len(listed), limit)]
    assert pools.pool.page(limit).total == 7


@pytest.mark.parametrize("limit", [1, 2, 5, 6])
def test_pages_of_one_sender(limit: int) -> None:
    pools, listed = some_pool()
    mine = [tx for tx in listed if tx.sender == address(1)]
    assert walk(pools, limit, address(1)) == [mine[start : start + limit] for start in range(0, 5, limit)]
    assert pools.pool.page(limit, None, address(1)).total == 5


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_of_a_sender_with_confirmed_transactions(limit: int) -> None:
    pools = PoolWithState()
    pools.state.put(address(1), 10**18, 5)
    run = pools.admit_chain(1, [10, 20, 20], first_nonce=5)
    waiting = pools.admit_chain(1, [10, 10, 10], first_nonce=9)
    listed = [*run, *waiting]
    assert walk(pools, limit) == [listed[start : start + limit] for start in range(0, 6, limit)]
    assert walk(pools, limit, address(1)) == walk(pools, limit)


def test_an_empty_mempool_has_one_empty_page() -> None:
    pools = PoolWithState()
    assert pools.pool.page(10) == pools.pool.page(10, None, address(1)) == ([], 0, None)


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_a_cursor_is_valid_after_its_transaction_is_mined(limit: int) -> None:
    pools = PoolWithState()
    txs = [transfer(sender, nonce, gas_price=50 - nonce) for nonce in range(3) for sender in (1, 2)]
    pools.admit(*txs)
    after = pools.pool.page(limit).next
    pools.commit(*txs[:limit])
    assert [entry.tx for entry in pools.pool.page(10, after).entries] == txs[limit:]


def test_a_cursor_of_one_sender_is_valid_after_its_transaction_is_mined() -> None:
    pools = PoolWithState()
    chain = pools.admit_chain(1, [10, 20, 30, 40])
    after = pools.pool.page(2, None, address(1)).next
    pools.commit(*chain[:3])
    assert [entry.tx for entry in pools.pool.page(10, after, address(1)).entries] == chain[3:]


def test_a_cursor_of_queued_transactions_is_valid_after_they_are_gone() -> None:
    pools = PoolWithState()
    waiting = [transfer(1, 2), transfer(1, 5), transfer(2, 3)]
    pools.admit(*waiting)
    after = pools.pool.page(1).next
    pools.admit(transfer(1, 0), transfer(1, 1))
    assert [entry.tx for entry in pools.pool.page(10, after).entries] == waiting[1:]


def test_a_cursor_within_a_run_continues_after_its_nonce() -> None:
    pools = PoolWithState()
    chain = pools.admit_chain(1, [10, 20, 30, 40])
    after = pools.pool.page(2).next
    pools.admit(transfer(1, 1, gas_price=99))
    assert [entry.tx for entry in pools.pool.page(10, after).entries] == chain[2:]


@pytest.mark.parametrize("after", ["", "x", "r1", "r-1", "q1-1", "r1-1 ", "R1-1", "r1-", "r" + "f" * 81 + "-1", "r١-1"])
def test_text_that_is_no_cursor_is_refused(after: str) -> None:
    pools, _ = some_pool()
    for sender in (None, address(1)):
        with pytest.raises(InvalidQuery, match="after: is not a cursor"):
            pools.pool.page(10, after, sender)


def test_a_cursor_of_the_other_listing_is_refused() -> None:
    pools, _ = some_pool()
    of_all, of_sender = pools.pool.page(1).next, pools.pool.page(1, None, address(1)).next
    with pytest.raises(InvalidQuery, match="of the listing of one sender"):
        pools.pool.page(1, of_sender)
    with pytest.raises(InvalidQuery, match="of the listing of all senders"):
        pools.pool.page(1, of_all, address(1))


@pytest.mark.parametrize(
    "after", ["r0-0", "r" + "f" * 80 + "-" + "f" * 16, "w0-0", "w" + "f" * 80 + "-ffffffffffffffff"]
)
def test_an_invented_cursor_gives_a_page(after: str) -> None:
    pools, listed = some_pool()
    shown = [entry.tx for entry in pools.pool.page(10, after).entries]
    assert shown == listed[len(listed) - len(shown) :]


LISTINGS: list[Listing] = ["pending", "queued", "sender"]


@given(st.sampled_from(LISTINGS), st.integers(0, 2**320 - 1), st.integers(0, MAX_UINT64))
def test_an_encoded_cursor_decodes_to_itself(listing: Listing, place: int, nonce: int) -> None:
    cursor = Cursor(listing, place, nonce)
    text = encode_cursor(cursor)
    assert decode_cursor(text) == cursor
    assert text.replace("-", "").isalnum(), "must need no quoting in a URL"


@given(st.text(alphabet="rwsx0189af-A \n", max_size=12))
def test_any_other_text_is_refused(text: str) -> None:
    try:
        cursor = decode_cursor(text)
    except InvalidQuery:
        return
    assert cursor == decode_cursor(encode_cursor(cursor))


def test_a_line_break_at_the_end_is_refused() -> None:
    with pytest.raises(InvalidQuery):
        decode_cursor("r1-1\n")
