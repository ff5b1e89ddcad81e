"""What the network engine tells its parts when CometBFT connects, commits a block, or starts from a snapshot."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cairn.core.service import Core
from cairn.engine.network.engine import NetworkEngine
from cairn.engine.network.watch import FUTILE_STARTS
from cairn.mempool.order import HERE
from tests.support.core_fixtures import ACCOUNTS, signed
from tests.support.member_core import decide, opened_member
from tests.support.signing import commit_signed

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[Core]:
    """The core of a node in a network."""
    async with opened_member(tmp_path / "data") as core:
        yield core


@pytest.fixture
def engine(core: Core) -> NetworkEngine:
    assert isinstance(core.engine, NetworkEngine)
    return core.engine


async def test_a_cometbft_that_connects_has_an_empty_mempool(core: Core, engine: NetworkEngine) -> None:
    await core.submit(signed(0))
    entry = core._pool.find(signed(0).hash)
    assert entry is not None
    entry.send(0.0)
    engine._overlay.add(signed(0))
    core._pool.admit(signed(0, sender=1), 0, local=False)
    foreign = core._pool.find(signed(0, sender=1).hash)
    assert foreign is not None
    foreign.send(0.0)
    engine._connected()
    assert not engine._overlay.holds(signed(0))
    assert not engine._overlay.held_before(signed(0))
    assert entry.delivery is HERE
    # Also those that only other nodes answer for are sent to it again.
    assert foreign.delivery is HERE


async def test_a_cometbft_that_connects_again_and_again_without_a_block_is_named(
    core: Core, engine: NetworkEngine
) -> None:
    for _ in range(FUTILE_STARTS):
        assert "handshake" not in engine.condition()
        engine._connected()
    assert "it ends at its handshake" in engine.condition()
    await decide(core)
    assert "handshake" not in engine.condition()


async def test_a_committed_block_ends_the_outbox_wait(core: Core, engine: NetworkEngine) -> None:
    engine.deciding()
    assert engine._outbox._is_deciding
    await decide(core)
    assert not engine._outbox._is_deciding


async def test_after_a_jump_to_a_snapshot_nothing_counts_as_held_by_cometbft(core: Core, engine: NetworkEngine) -> None:
    engine._overlay.add(signed(0))
    commit_signed(core._chain, engine._blocks.build([], 0, ACCOUNTS[9]))
    for _ in range(FUTILE_STARTS):
        engine._watch.restarted()
    engine._restored()
    await asyncio.sleep(0)
    assert not engine._overlay.holds(signed(0))
    assert not engine._overlay.held_before(signed(0))
    assert "handshake" not in engine.condition()


async def test_a_transaction_of_another_node_submitted_here_becomes_local(core: Core, engine: NetworkEngine) -> None:
    core._pool.admit(signed(0), 0, local=False)
    await core.submit(signed(0))
    entry = core._pool.find(signed(0).hash)
    assert entry is not None
    assert entry.local
    assert not engine.adopt(signed(0).hash)


async def test_only_a_node_that_is_no_validator_reports_stale_transactions(core: Core, engine: NetworkEngine) -> None:
    await core.submit(signed(0))
    entry = core._pool.find(signed(0).hash)
    assert entry is not None
    entry.send(float("-inf"))
    engine._watch.is_validator = True
    assert not engine.is_any_stale([signed(0)])
    engine._watch.is_validator = False
    assert engine.is_any_stale([signed(0)])
