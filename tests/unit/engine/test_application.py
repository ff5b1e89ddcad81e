"""Finalizing computes, committing writes, and nobody hears of a block before it is on disk."""

import pytest

from cairn.domain.errors import InvalidBlock, StoreUnavailable
from cairn.domain.types import Account
from cairn.engine.application import Application, Feed
from cairn.engine.signing import BlockSigner
from cairn.store.chain import ChainStore
from cairn.store.signing_key import SigningKeys
from tests.support.transfers import address, transfer
from tests.unit.engine.conftest import BALANCE, GENESIS_TIME

PROPOSER = address(50)


def test_finalize_writes_nothing(chain: ChainStore) -> None:
    feed, heard = Feed(), list[int]()
    feed.subscribe(heard.append)
    head = chain.head_hash
    tx = transfer(1, 0, value=5)
    outcome = Application(chain, feed, BlockSigner(chain, SigningKeys())).finalize([tx], GENESIS_TIME + 1, PROPOSER)
    assert outcome.block.txs == (tx,)
    assert outcome.block.header.previous_hash == head
    assert (chain.head_hash, chain.head_header.height, heard) == (head, 0, [])
    assert chain.account(address(1)) == Account(BALANCE, 0)


def test_finalizing_again_starts_over_from_the_head(chain: ChainStore) -> None:
    application = Application(chain, Feed(), BlockSigner(chain, SigningKeys()))
    first = application.finalize([transfer(1, 0)], GENESIS_TIME + 1, PROPOSER)
    second = application.finalize([transfer(2, 0)], GENESIS_TIME + 1, PROPOSER)
    assert first.block.header.height == second.block.header.height == 1
    application.commit()
    assert chain.head_hash == second.block.hash


def test_commit_writes_before_it_announces(chain: ChainStore) -> None:
    feed, heard = Feed(), list[tuple[int, int]]()
    feed.subscribe(lambda height: heard.append((height, chain.head_header.height)))
    application = Application(chain, feed, BlockSigner(chain, SigningKeys()))
    tx = transfer(1, 0, value=5)
    outcome = application.finalize([tx], GENESIS_TIME + 1, PROPOSER)
    application.commit()
    assert heard == [(1, 1)]
    assert chain.head_hash == outcome.block.hash
    assert chain.find_location(tx.hash) == (1, 0)
    assert chain.account(address(1)) == Account(BALANCE - tx.cost, 1)
    assert chain.account(PROPOSER) == Account(tx.fee, 0)


def test_blocks_follow_each_other(chain: ChainStore) -> None:
    application = Application(chain, Feed(), BlockSigner(chain, SigningKeys()))
    for nonce in range(3):
        previous = chain.head_hash
        outcome = application.finalize([transfer(1, nonce)], GENESIS_TIME + nonce, PROPOSER)
        application.commit()
        assert (outcome.block.header.height, outcome.block.header.previous_hash) == (nonce + 1, previous)


def test_a_second_commit_without_a_block_fails(chain: ChainStore) -> None:
    application = Application(chain, Feed(), BlockSigner(chain, SigningKeys()))
    with pytest.raises(AssertionError, match="nothing was finalized"):
        application.commit()
    application.finalize([], GENESIS_TIME, PROPOSER)
    application.commit()
    with pytest.raises(AssertionError, match="nothing was finalized"):
        application.commit()


def test_an_invalid_block_cannot_be_committed(chain: ChainStore) -> None:
    application = Application(chain, Feed(), BlockSigner(chain, SigningKeys()))
    with pytest.raises(InvalidBlock, match="nonce"):
        application.finalize([transfer(1, 1)], GENESIS_TIME, PROPOSER)
    with pytest.raises(AssertionError, match="nothing was finalized"):
        application.commit()


def test_an_invalid_block_voids_the_one_finalized_before_it(chain: ChainStore) -> None:
    application = Application(chain, Feed(), BlockSigner(chain, SigningKeys()))
    application.finalize([transfer(1, 0)], GENESIS_TIME, PROPOSER)
    with pytest.raises(InvalidBlock):
        application.finalize([transfer(1, 1)], GENESIS_TIME, PROPOSER)
    with pytest.raises(AssertionError, match="nothing was finalized"):
        application.commit()


def test_a_block_that_the_disk_refused_is_not_announced(chain: ChainStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(chain, "commit", refuse)
    feed, heard = Feed(), list[int]()
    feed.subscribe(heard.append)
    application = Application(chain, feed, BlockSigner(chain, SigningKeys()))
    application.finalize([], GENESIS_TIME, PROPOSER)
    with pytest.raises(StoreUnavailable):
        application.commit()
    assert heard == []


def test_listeners_are_called_in_the_order_of_subscription() -> None:
    feed, heard = Feed(), list[tuple[str, int]]()
    feed.subscribe(lambda height: heard.append(("first", height)))
    feed.subscribe(lambda height: heard.append(("second", height)))
    feed.announce(7)
    feed.announce(8)
    assert heard == [("first", 7), ("second", 7), ("first", 8), ("second", 8)]


def test_a_late_listener_hears_only_later_heights() -> None:
    feed, heard = Feed(), list[int]()
    feed.announce(1)
    feed.subscribe(heard.append)
    feed.announce(2)
    assert heard == [2]


@pytest.mark.parametrize("height", [3, 4, 6])
def test_a_height_out_of_order_fails_an_assertion(height: int) -> None:
    feed, heard = Feed(), list[int]()
    feed.subscribe(heard.append)
    feed.announce(4)
    with pytest.raises(AssertionError, match=f"height {height} announced after 4"):
        feed.announce(height)
    assert heard == [4]


def test_a_jump_leaves_heights_out_and_never_goes_back() -> None:
    feed, heard = Feed(), list[int]()
    feed.subscribe(heard.append)
    feed.jump(40)
    feed.announce(41)
    feed.jump(90)
    with pytest.raises(AssertionError, match="a jump to height 90 from 90"):
        feed.jump(90)
    assert heard == [40, 41, 90]
