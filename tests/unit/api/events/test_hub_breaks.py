"""Where the chain does not go on as it was told: blocks that are not kept, jumps and reverts."""

import pytest

from cairn.api.events.messages import encode_frame
from cairn.domain.answers import Dropped
from cairn.domain.errors import BlockNotFound, BlockNotKept
from cairn.domain.types import TxHash
from tests.support.event_server import MemoryChain, tx_hash_of
from tests.support.recording_socket import RecordingSocket
from tests.unit.api.hub_bench import Bench, confirmed, new_block, settle

pytestmark = pytest.mark.virtual_time


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_blocks_that_are_not_kept_are_refused_by_name(bench: Bench) -> None:
    for _ in range(9):
        bench.commit()
    bench.chain.base = 5
    socket, subscriber = bench.join()
    with pytest.raises(BlockNotFound, match="block 4 is not kept by this node; events can be had from 5 on"):
        bench.hub.subscribe_blocks(subscriber, 4)
    assert bench.hub.subscribe_blocks(subscriber, 5) == 5
    await settle()
    assert socket.messages == [new_block(height) for height in range(5, bench.chain.height + 1)]


async def test_a_socket_whose_next_blocks_were_removed_is_closed_not_given_a_gap(bench: Bench) -> None:
    for _ in range(9):
        bench.commit()
    await settle()
    socket, subscriber = bench.join()
    socket.paused = True
    bench.hub.subscribe_blocks(subscriber, 2)
    await settle()
    bench.chain.base = 5
    socket.resume()
    await settle()
    assert socket.messages == []
    assert socket.closed == (1013, "block 2 is not kept: the oldest is 5")


async def test_after_a_jump_of_the_chain_those_who_were_promised_every_block_are_closed(bench: Bench) -> None:
    waiting, subscriber = bench.join()
    bench.hub.subscribe_blocks(subscriber, None)
    follower, other = bench.join()
    tx_hash = TxHash(b"t" * 32)
    bench.hub.follow(other, tx_hash)
    await settle()
    first = bench.chain.height + 1
    for _ in range(6):
        bench.chain.append()
    bench.chain.base = height = bench.chain.append([tx_hash])
    bench.hub.on_commit(height)
    await settle()
    assert waiting.closed == (1013, f"block {first} is not kept: the oldest is {height}")
    assert follower.messages == [confirmed(tx_hash, height)]


class LateChain(MemoryChain):
    """Shows what a worker does that finds out which blocks were removed when it catches up, and does so to read one."""

    removed_below = 0

    def tx_hashes(self, height: int) -> bytes:
        self.base = max(self.base, self.removed_below)
        if height < self.base:
            raise BlockNotKept(f"block {height} is not kept by this node; the oldest it has is {self.base}")
        return super().tx_hashes(height)


async def test_a_block_that_was_removed_when_it_is_read_is_passed_over_and_later_ones_are_told() -> None:
    chain = LateChain()
    bench = Bench(chain)
    waiting, subscriber = bench.join()
    bench.hub.subscribe_blocks(subscriber, None)
    follower, other = bench.join()
    tx_hash = TxHash(b"t" * 32)
    bench.hub.follow(other, tx_hash)
    await settle()
    chain.append()
    chain.removed_below = height = chain.append([tx_hash])
    bench.hub.on_commit(height)
    await settle()
    assert follower.messages == [confirmed(tx_hash, height)]
    assert waiting.closed == (1013, f"block 1 is not kept: the oldest is {height}")


class RevertedChain(MemoryChain):
    """Shows what a worker does that was reverted to block 3."""

    top = 3

    @property
    def height(self) -> int:
        return self.top


async def test_a_revert_closes_every_socket_and_names_the_block() -> None:
    chain = RevertedChain(5)
    bench = Bench(chain)
    reading, following = bench.join(), bench.join()
    bench.hub.subscribe_blocks(reading[1], 0)
    bench.hub.follow(following[1], tx_hash_of(1))
    await settle()
    bench.hub.on_reverted(3)
    for connection, subscriber in (reading, following):
        assert connection.closed == (4205, "the chain was reverted to block 3")
        bench.hub.detach(subscriber)
    # As a client does that has read the reason.
    again = bench.join()
    assert bench.hub.subscribe_blocks(again[1], None) == 4
    chain.top = 4
    bench.hub.on_commit(4)
    await settle()
    assert again[0].heights == [4]


async def test_a_json_rpc_socket_goes_on_at_the_block_after_a_revert() -> None:
    bench = Bench(MemoryChain(9))

    def told(height: int) -> bytes:
        return new_heads[height]

    new_heads = [encode_frame(Dropped("0x", "replaced")) for _ in range(20)]
    connection = RecordingSocket()
    subscriber = bench.hub.attach(connection, block_text=told, enclose=bytes)
    behind = bench.hub.attach(RecordingSocket(), block_text=told, enclose=bytes)
    silent = bench.hub.attach(RecordingSocket(), block_text=told, enclose=bytes)
    bench.hub.subscribe_blocks(subscriber, None)
    bench.hub.subscribe_blocks(behind, 2)
    bench.hub.on_reverted(3)
    assert (subscriber.next_height, behind.next_height, silent.next_height) == (4, 2, None)
    assert connection.closed is None
    bench.hub.on_commit(4)
    await settle()
    assert subscriber.next_height == 5
    assert len(connection.messages) == 1
