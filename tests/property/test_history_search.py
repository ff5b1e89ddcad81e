"""Searches of an account's history against a plain filter over all transactions."""

import tempfile
from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from cairn.domain.types import Address, Tx
from cairn.store.chain import ChainStore
from cairn.store.history import Search, count_sent, search_history
from cairn.store.keys import EITHER, RECEIVED, SENT, Location
from cairn.store.reader import ChainReader
from tests.support.blocks import extend, store_genesis
from tests.support.transfers import address, transfer

PEOPLE = 5

DATA = (b"", b"", b"a", b"ab", b"\x00")

payments = st.tuples(st.integers(1, PEOPLE), st.integers(1, PEOPLE + 1), st.sampled_from(DATA))
blocks = st.lists(
    st.tuples(st.one_of(st.just([]), st.lists(payments, max_size=4)), st.integers(1, PEOPLE + 1)), max_size=30
)
heights = st.integers(0, 33)
searches = st.builds(
    Search,
    address=st.integers(1, PEOPLE + 1).map(address),
    how=st.sampled_from((SENT, RECEIVED, EITHER)),
    counterparty=st.one_of(st.none(), st.integers(1, PEOPLE + 2).map(address)),
    first=st.one_of(st.just(0), heights),
    last=st.one_of(st.just(99), heights),
    is_ascending=st.booleans(),
    data=st.one_of(st.none(), st.none(), st.sampled_from((b"a", b"ab", b"b"))),
)


def store_blocks(chain: ChainStore, drawn: Sequence[tuple[list[tuple[int, int, bytes]], int]]) -> dict[Location, Tx]:
    """All transactions by where they are."""
    nonces = dict.fromkeys(range(1, PEOPLE + 1), 0)
    stored: dict[Location, Tx] = {}
    for height, (pairs, proposer) in enumerate(drawn, 1):
        txs = []
        for sender, to, data in pairs:
            txs.append(transfer(sender, nonces[sender], to=to, value=1, data=data))
            nonces[sender] += 1
        extend(chain, txs, address(proposer))
        stored |= {(height, position): tx for position, tx in enumerate(txs)}
    return stored


def is_meant(search: Search, location: Location, tx: Tx) -> bool:
    def between(sender: Address, to: Address) -> bool:
        return (tx.sender, tx.to) == (sender, to)

    me, other = search.address, search.counterparty
    sends = bool(search.how & SENT) and (tx.sender == me if other is None else between(me, other))
    receives = bool(search.how & RECEIVED) and (tx.to == me if other is None else between(other, me))
    has_data = search.data in (None, tx.data)
    return search.first <= location[0] <= search.last and has_data and (sends or receives)


def expected(search: Search, stored: dict[Location, Tx], base: int = 0) -> list[Location]:
    found = [where for where, tx in sorted(stored.items()) if where[0] >= base and is_meant(search, where, tx)]
    return found if search.is_ascending else found[::-1]


def pages(reader: ChainReader, search: Search, after: Location | None, steps: int) -> list[Location]:
    """All of it, in searches of so many steps, each from where the one before has come."""
    found = []
    while taken := list(islice(search_history(reader, search, after), steps)):
        found += [step.location for step in taken if step.is_found]
        assert after is None or (taken[-1].location > after if search.is_ascending else taken[-1].location < after)
        after = taken[-1].location
    return found


@given(drawn=blocks, asked=st.lists(searches, min_size=10, max_size=20), steps=st.integers(1, 5), data=st.data())
@settings(max_examples=25)
def test_any_search_finds_what_a_filter_over_all_transactions_finds(
    drawn: list[tuple[list[tuple[int, int, bytes]], int]], asked: list[Search], steps: int, data: st.DataObject
) -> None:
    with (
        tempfile.TemporaryDirectory() as directory,
        closing(ChainStore.open(Path(directory) / "data", store_genesis())) as chain,
    ):
        stored = store_blocks(chain, drawn)
        base = data.draw(st.integers(0, chain.visible))
        for search in asked:
            check(chain, search, expected(search, stored), steps)
        chain.prune(base, lambda: None)
        for search in asked:
            check(chain, search, expected(search, stored, base), steps)


def check(reader: ChainReader, search: Search, found: list[Location], steps: int) -> None:
    assert pages(reader, search, None, steps) == found
    for middle in found[1:-1]:
        index = found.index(middle)
        assert pages(reader, search, middle, steps) == found[index + 1 :]
        assert pages(reader, search.reversed(), middle, steps) == found[:index][::-1]
    if search.how == SENT and search.counterparty is None and search.data is None:
        assert count_sent(reader, search) == len(found)
