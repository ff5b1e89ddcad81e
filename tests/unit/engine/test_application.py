"""Finalizing computes, committing writes, and nobody hears of a block before it is on disk."""

import pytest

from cairn.domain.errors import InvalidBlock, StoreUnavailable
from cairn.domain.types import Account
from cairn.engine.application import Application, Feed
from cairn.store.chain import ChainStore
from tests.support.transfers import address, transfer
from tests.unit.engine.conftest import BALANCE, GENESIS_TIME

PROPOSER = address(50)


def test_finalize_writes_nothing(chain: ChainStore) -> None:
    feed, heard = Feed(), list[int]()
    feed.subscribe(heard.append)
    head = chain.head_hash
    tx = transfer(1, 0, value=5)
    outcome = Application(chain, feed).finalize([tx], GENESIS_TIME + 1, PROPOSER)
    assert outcome.block.txs == (tx,)
    assert outcome.block.header.previous_hash == head
    assert (chain.head_hash, chain.head_header.height, heard) == (head, 0, [])
    assert chain.account(address(1)) == Account(BALANCE, 0)


def test_finalizing_again_starts_over_from_the_head(chain: ChainStore) -> None:
    application = Application(chain, Feed())
    first = application.finalize([transfer(1, 0)], GENESIS_TIME + 1, PROPOSER)
    second = application.finalize([transfer(2, 0)], GENESIS_TIME + 1, PROPOSER)
    assert first.block.header.height == second.block.header.height == 1
    application.commit()
    assert chain.head_hash == second.block.hash


def test_commit_writes_then_tells(chain: ChainStore) -> None:
    feed, heard = Feed(), list[tuple[int, int]]()
    feed.subscribe(lambda height: heard.append((height, chain.head_header.height)))
    application = Application(chain, feed)
    tx = transfer(1, 0, value=5)
    outcome = application.finalize([tx], GENESIS_TIME + 1, PROPOSER)
    application.commit()
    assert heard == [(1, 1)]
    assert chain.head_hash == outcome.block.hash
    assert chain.find_location(tx.hash) == (1, 0)
    assert chain.account(address(1)) == Account(BALANCE - tx.cost, 1)
    assert chain.account(PROPOSER) == Account(tx.fee, 0)


def test_blocks_follow_each_other(chain: ChainStore) -> None:
    application = Application(chain, Feed())
    for nonce in range(3):
        previous = chain.head_hash
        outcome = application.finalize([transfer(1, nonce)], GENESIS_TIME + nonce, PROPOSER)
        application.commit()
        assert (outcome.block.header.height, outcome.block.header.previous_hash) == (nonce + 1, previous)


def test_there_is_nothing_to_commit_twice(chain: ChainStore) -> None:
    application = Application(chain, Feed())
    with pytest.raises(AssertionError, match="nothing was finalized"):
        application.commit()
    application.finalize([], GENESIS_TIME, PROPOSER)
    application.commit()
    with pytest.raises(AssertionError, match="nothing was finalized"):
        application.commit()


def test_an_invalid_block_never_gets_as_far_as_a_commit(chain: ChainStore) -> None:
    application = Application(chain, Feed())
    with pytest.raises(InvalidBlock, match="nonce"):
        application.finalize([transfer(1, 1)], GENESIS_TIME, PROPOSER)
    with pytest.raises(AssertionError, match="nothing was finalized"):
        application.commit()


def test_an_invalid_block_takes_the_one_finalized_before_it_along(chain: ChainStore) -> None:
    application = Application(chain, Feed())
    application.finalize([transfer(1, 0)], GENESIS_TIME, PROPOSER)
    with pytest.raises(InvalidBlock):
        application.finalize([transfer(1, 1)], GENESIS_TIME, PROPOSER)
    with pytest.raises(AssertionError, match="nothing was finalized"):
        application.commit()


def test_nobody_hears_of_a_block_that_the_disk_refused(chain: ChainStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(outcome: object, absent: object) -> None:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(chain, "commit", refuse)
    feed, heard = Feed(), list[int]()
    feed.subscribe(heard.append)
    application = Application(chain, feed)
    application.finalize([], GENESIS_TIME, PROPOSER)
    with pytest.raises(StoreUnavailable):
        application.commit()
    assert heard == []
