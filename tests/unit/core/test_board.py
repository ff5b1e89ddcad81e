"""What a core shows on the board, and a worker that goes by it: whatever happens to either."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cairn.api.chain_view import ChainView
from cairn.board import Board
from cairn.core import opening
from cairn.core.service import Core
from cairn.domain.errors import MempoolFull, StoreUnavailable
from cairn.domain.types import Address
from cairn.store.journal import Journal
from cairn.store.watermark import Watermark
from tests.support.core_fixtures import ACCOUNTS, GWEI, make_block, opened_core, settings, signed

pytestmark = pytest.mark.virtual_time


@pytest.fixture
def board() -> Board:
    return Board()


@pytest.fixture
def view(tmp_path: Path, board: Board) -> Iterator[ChainView]:
    (tmp_path / "scratch").mkdir()
    view = ChainView(tmp_path / "scratch", board=board)
    yield view
    view.close()


def connect(core: Core, view: ChainView) -> None:
    view.on_info(core.info())
    view.on_commit(core.head)
    view.on_phase("ready", "")


def empty_watermark(directory: Path) -> None:
    [watermark] = directory.rglob("watermark")
    os.truncate(watermark, 0)


# The head.


async def test_with_a_core_the_head_is_read_from_the_board_and_else_from_the_watermark(
    tmp_path: Path, board: Board, view: ChainView
) -> None:
    async with opened_core(tmp_path / "data", board=board) as core:
        connect(core, view)
        make_block(core)
        assert (board.head, view.height) == (1, 0)
        assert view.is_at_head()
        assert view.height == 1, "it has caught up by itself"
        empty_watermark(tmp_path)
        assert await view.reach_head() == 1, "nobody looks at it"
        view.on_phase("unavailable", "the core process is gone")
        assert not view.is_at_head()


async def test_the_board_shows_a_block_before_the_watermark_does(
    tmp_path: Path, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, advance = list[tuple[int, int]](), Watermark.advance

    def note(watermark: Watermark, height: int) -> None:
        shown.append((board.head, height))
        advance(watermark, height)

    monkeypatch.setattr(Watermark, "advance", note)
    async with opened_core(tmp_path / "data", board=board) as core:
        make_block(core)
    async with opened_core(tmp_path / "data", board=board):
        pass
    assert shown == [(0, 0), (1, 1), (1, 1)]


async def test_a_core_killed_between_board_and_watermark_shows_the_block_once_the_next_one_runs(
    tmp_path: Path, board: Board, view: ChainView, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise StoreUnavailable("killed")

    async with opened_core(tmp_path / "data", board=board) as core:
        connect(core, view)
        with monkeypatch.context() as patched:
            patched.setattr(Watermark, "advance", killed)
            with pytest.raises(StoreUnavailable):
                make_block(core)
        assert board.head == 1
        assert not view.is_at_head(), "it cannot show the block, so it must not answer at once"
        assert view.height == 0
        view.on_phase("unavailable", "the core process is gone")
        assert await view.reach_head() == 0
    async with opened_core(tmp_path / "data", board=board) as core:
        assert core.head == board.head == 1
        assert not view.is_at_head(), "it has not met this core"
        connect(core, view)
        assert view.is_at_head()
        assert view.height == 1


async def test_a_worker_that_has_not_noticed_another_core_does_not_go_by_its_board(
    tmp_path: Path, board: Board, view: ChainView
) -> None:
    async with opened_core(tmp_path / "data", board=board) as core:
        connect(core, view)
        await core.submit(signed(0))
        assert view.is_at_head()
    assert not view.is_at_head(), "that core is closed"
    async with opened_core(tmp_path / "data", board=board):
        assert board.holds(ACCOUNTS[0]), "restored from the journal"
        assert not view.is_at_head()


async def test_what_a_core_shows_while_it_opens_the_chain_is_not_gone_by(
    tmp_path: Path, board: Board, view: ChainView, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened_core(tmp_path / "data", board=board) as core:
        connect(core, view)
        await core.submit(signed(0))
    # As after a kill: the last core has not closed it.
    board._words[0] -= 1
    assert view.is_at_head()
    seen, restore = list[tuple[bool, bool]](), opening.restore

    def look(*args: object) -> None:
        seen.append((board.holds(ACCOUNTS[0]), view.is_at_head()))
        restore(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(opening, "restore", look)
    async with opened_core(tmp_path / "data", board=board):
        pass
    assert seen == [(False, False)]


async def test_a_worker_without_the_core_s_board_asks_for_everything(tmp_path: Path, board: Board) -> None:
    (tmp_path / "scratch").mkdir()
    view = ChainView(tmp_path / "scratch")
    async with opened_core(tmp_path / "data", board=board) as core:
        connect(core, view)
        assert not view.is_live
        make_block(core)
        assert await view.reach_head() == 1
    view.close()


async def test_a_worker_that_starts_later_finds_the_same_board(tmp_path: Path, board: Board, view: ChainView) -> None:
    async with opened_core(tmp_path / "data", board=board) as core:
        await core.submit(signed(0))
        make_block(core)
        await core.submit(signed(1))
        assert not view.is_at_head()
        connect(core, view)
        assert view.is_at_head()
        assert (view.height, board.holds(ACCOUNTS[0])) == (1, True)


async def test_after_a_revert_nothing_of_the_old_chain_is_gone_by(
    tmp_path: Path, board: Board, view: ChainView
) -> None:
    async with opened_core(tmp_path / "data", board=board) as core:
        connect(core, view)
        snapshot = await core.snapshot()
        await core.mine(3)
        await core.submit(signed(0))
        assert view.is_at_head()
        await core.revert(snapshot)
        assert not view.is_at_head(), "before the worker has heard of it"
        view.on_info(core.info())
        view.on_phase("ready", "")
        assert not view.is_at_head(), "the board is closed"
    async with opened_core(tmp_path / "data", board=board) as core:
        assert (board.head, board.holds(ACCOUNTS[0]), board.counts) == (0, False, (0, 0))
        connect(core, view)
        assert view.is_at_head()
        assert view.height == 0


async def test_a_failed_core_closes_the_board_at_once(
    tmp_path: Path, board: Board, view: ChainView, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(journal: Journal) -> None:
        raise StoreUnavailable("no space left")

    async with opened_core(tmp_path / "data", board=board) as core:
        connect(core, view)
        monkeypatch.setattr(Journal, "sync", full)
        with pytest.raises(StoreUnavailable):
            await core.submit(signed(0))
        assert not view.is_at_head()
        assert not board.holds(ACCOUNTS[0]), "it is not known whether it is on disk"


async def test_pruned_blocks_change_nothing_about_the_head(tmp_path: Path, board: Board, view: ChainView) -> None:
    async with opened_core(tmp_path / "data", board=board) as core:
        connect(core, view)
        await core.mine(4)
        core._chain.prune(3, lambda: None)
        make_block(core)
        assert view.is_at_head()
        assert (view.height, view.base) == (5, 3)


# The mempool.


async def test_a_transaction_is_held_before_it_is_answered_and_until_its_block_is_shown(
    tmp_path: Path, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = ACCOUNTS[0]
    seen, show = list[bool](), Board.show_head

    def look(shown: Board, height: int) -> None:
        seen.append(shown.holds(sender))
        show(shown, height)

    async with opened_core(tmp_path / "data", board=board) as core:
        submitting = core.submit(signed(0))
        assert (submitting.done(), board.holds(sender), board.counts) == (False, True, (1, 0))
        await submitting
        monkeypatch.setattr(Board, "show_head", look)
        make_block(core)
        assert seen == [True]
        assert (board.holds(sender), board.counts, board.head) == (False, (0, 0), 1)


class Followed:
    """The numbers that one sender has had."""

    def __init__(self, board: Board, sender: Address) -> None:
        self._board = board
        self._sender = sender
        self._seen: set[int] = set()
        self.has_changed()

    def has_changed(self) -> bool:
        """Whether the number is one that was never there before."""
        changes = self._board.changes_of(self._sender)
        is_new = changes not in self._seen
        self._seen.add(changes)
        return is_new


async def test_whatever_happens_to_a_sender_s_transactions_has_a_new_number(tmp_path: Path, board: Board) -> None:
    async with opened_core(tmp_path / "data", settings(mempool_size=3, mempool_lifetime_s=10), board=board) as core:
        one, pool = Followed(board, ACCOUNTS[0]), core._pool
        await core.submit(signed(0))
        assert one.has_changed(), "admitted"
        await core.submit(signed(0, gas_price=2 * GWEI))
        assert one.has_changed(), "replaced"
        await core.submit(signed(2))
        assert (one.has_changed(), board.counts) == (True, (1, 1)), "queued"
        await core.submit(signed(0, sender=1))
        assert not one.has_changed(), "another sender's"
        await core.submit(signed(1, sender=1))
        assert (one.has_changed(), board.counts) == (True, (3, 0)), "evicted"
        with pytest.raises(MempoolFull):
            await core.submit(signed(4, sender=1))
        assert (one.has_changed(), board.counts) == (False, (3, 0)), "refused"
        make_block(core)
        assert (one.has_changed(), board.counts) == (True, (0, 0)), "confirmed"
        await core.submit(signed(4))
        assert one.has_changed()
        pool.up_s += 11
        pool.expire()
        assert (one.has_changed(), board.holds(ACCOUNTS[0])) == (True, False), "expired"
        await core.submit(signed(1))
        pool.remove(signed(1).hash)
        assert one.has_changed(), "removed"
        await core.submit(signed(1, value=2))
        pool.forget(signed(1, value=2).hash)
        assert (one.has_changed(), board.holds(ACCOUNTS[0]), board.counts) == (True, False, (0, 0)), "forgotten"
        await core.submit(signed(1, value=3))
        await core.set_balance(ACCOUNTS[0], 0)
        assert (one.has_changed(), board.holds(ACCOUNTS[0]), board.counts) == (True, False, (0, 0)), "unpaid"


async def test_a_restarted_core_holds_what_its_journal_has(tmp_path: Path, board: Board) -> None:
    async with opened_core(tmp_path / "data", board=board) as core:
        await asyncio.gather(core.submit(signed(0)), core.submit(signed(2)), core.submit(signed(0, sender=1)))
        before = board.counts
        one = Followed(board, ACCOUNTS[0])
    async with opened_core(tmp_path / "data", board=board):
        assert board.counts == before == (2, 1)
        assert (one.has_changed(), board.holds(ACCOUNTS[0]), board.holds(ACCOUNTS[1])) == (True, True, True)
