"""Going back: a snapshot takes the place of the chain and of its mempool, wholly or not at all."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cairn.domain.errors import Corrupt, StoreUnavailable
from cairn.domain.genesis import dev_genesis
from cairn.domain.transactions import encode_record
from cairn.domain.transition import build_block
from cairn.domain.types import ZERO_ADDRESS, Tx, TxHash
from cairn.store import dev_snapshots as rewind
from cairn.store.chain import ChainStore
from cairn.store.dev_snapshots import DevDirectory, DevSnapshot, DevState, finish_revert
from cairn.store.directory import journal_path
from cairn.store.journal import Journal, JournalEntry
from tests.support import revert_process
from tests.support.audit import audit
from tests.support.core_fixtures import signed
from tests.support.journals import open_journal
from tests.support.signing import commit_signed

WAITING, LATER = signed(1), signed(2)
MOST_CHANGES = 100


@pytest.fixture
def chain(directory: Path) -> Iterator[ChainStore]:
    store = ChainStore.open(directory, dev_genesis())
    yield store
    store.close()


def commit(chain: ChainStore, *txs: Tx) -> None:
    header = chain.head_header
    rules = chain.genesis.rules
    made = build_block(header, chain.head_hash, chain, txs, header.timestamp + 1, ZERO_ADDRESS, rules)
    commit_signed(chain, made)


def write_journal(directory: Path, *txs: Tx) -> None:
    journal = open_journal(journal_path(directory))
    for tx in txs:
        journal.append_add(7, tx, encode_record(tx))
    journal.sync()
    journal.close()


def pending_in(directory: Path) -> list[TxHash]:
    journal = open_journal(journal_path(directory))
    found = [entry.tx.hash for entry in journal.recovered]
    journal.close()
    return found


def prepared(directory: Path) -> None:
    """A chain of two blocks with a pending transaction; its snapshot 1 is of one block with another one pending."""
    chain = ChainStore.open(directory, dev_genesis())
    commit(chain, signed(0))
    kept = DevDirectory(directory)
    kept.set_offset(60)
    assert kept.take_snapshot(chain.checkpoint, chain.visible, [JournalEntry(7, WAITING)]) == 1
    kept.set_offset(3_600)
    commit(chain, WAITING)
    assert kept.take_snapshot(chain.checkpoint, chain.visible, []) == 2
    chain.close()
    write_journal(directory, LATER)


def found(directory: Path) -> tuple[int, list[TxHash], int, int]:
    """Head, what is pending, the clock's lead and how often it was reverted, after a whole check of the chain."""
    chain = ChainStore.open(directory, dev_genesis())
    audit(chain)
    head = chain.visible
    chain.close()
    state = DevDirectory(directory).state
    return head, pending_in(directory), state.offset_s, state.reverts


BEFORE = (2, [LATER.hash], 3_600, 0)
AFTER = (1, [WAITING.hash], 60, 1)


def test_a_revert_is_done_by_the_next_opening(directory: Path) -> None:
    prepared(directory)
    assert DevDirectory(directory).decide_revert(1)
    assert found(directory) == AFTER
    state = DevDirectory(directory).state
    assert state == DevState(next_id=3, reverts=1, reverted_to=1, offset_s=60)
    assert [entry.name for entry in (directory / "dev").iterdir()] == ["state"], "it and later ones are used up"


def test_a_revert_keeps_the_earlier_snapshots(directory: Path) -> None:
    prepared(directory)
    assert DevDirectory(directory).decide_revert(2)
    assert found(directory) == (2, [], 3_600, 1)
    assert DevDirectory(directory).state.snapshots == {1: DevSnapshot(height=1, offset_s=60)}
    assert DevDirectory(directory).decide_revert(1)
    assert found(directory) == (1, [WAITING.hash], 60, 2)


def test_an_unknown_snapshot_changes_nothing(directory: Path) -> None:
    prepared(directory)
    for unknown in (0, 3):
        assert not DevDirectory(directory).decide_revert(unknown)
    assert found(directory) == BEFORE


def test_without_a_decided_revert_nothing_is_moved(directory: Path) -> None:
    finish_revert(directory)
    assert not directory.exists()


def test_a_kill_at_any_moment_leaves_one_chain_or_the_other(directory: Path, tmp_path: Path) -> None:
    prepared(directory)
    outcomes = []
    command = [sys.executable, revert_process.__file__, "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reverting:
        assert reverting.stdin is not None
        assert reverting.stdout is not None
        for point in range(MOST_CHANGES):
            crashed = tmp_path / f"killed at {point}"
            shutil.copytree(directory, crashed)
            print(crashed, file=reverting.stdin, flush=True)
            ended = reverting.stdout.readline()
            outcomes.append(found(crashed))
            if ended == "0\n":
                break
            assert ended == f"{-signal.SIGKILL}\n"
    assert len(outcomes) > 12, "hardly any moment was tried"
    turn = outcomes.index(AFTER)
    assert outcomes[:turn] == [BEFORE] * turn, "the decision is one write of the state"
    assert turn >= 1
    assert outcomes[turn:] == [AFTER] * (len(outcomes) - turn), "from the decision on there is no way back"


def test_a_snapshot_that_was_never_finished_does_not_exist(
    directory: Path, chain: ChainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = DevDirectory(directory)

    def refuse(self: Journal) -> None:
        raise StoreUnavailable("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "sync", refuse)
        with pytest.raises(StoreUnavailable):
            kept.take_snapshot(chain.checkpoint, 0, [JournalEntry(7, WAITING)])
    assert not kept.decide_revert(1)
    assert kept.take_snapshot(chain.checkpoint, 0, []) == 1
    assert kept.state.snapshots.keys() == {1}


def test_only_so_many_snapshots_are_kept(directory: Path, chain: ChainStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewind, "KEPT_SNAPSHOTS", 2)
    kept = DevDirectory(directory)
    assert [kept.take_snapshot(chain.checkpoint, 0, []) for _ in range(4)] == [1, 2, 3, 4]
    assert kept.state.snapshots.keys() == {3, 4}
    assert not kept.decide_revert(2)


def test_a_state_that_is_damaged_stops_the_node(directory: Path) -> None:
    prepared(directory)
    (directory / "dev" / "state").write_bytes(b'{"next_id": "two"}')
    with pytest.raises(Corrupt, match="is not what was written"):
        ChainStore.open(directory, dev_genesis())


def test_a_disk_that_refuses_is_tried_again(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared(directory)
    assert DevDirectory(directory).decide_revert(1)

    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", refuse)
        patched.setattr(Path, "rename", refuse)
        with pytest.raises(StoreUnavailable, match="cannot revert"):
            ChainStore.open(directory, dev_genesis())
    assert found(directory) == AFTER
