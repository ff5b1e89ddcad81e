"""The journal against a list, whatever is appended, settled, torn or killed."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from cairn.domain.transactions import encode_record
from cairn.domain.types import Tx, TxHash
from cairn.store.segment import list_segments, segment_path
from tests.support.journals import open_journal
from tests.support.transfers import transfer
from tests.support.tx_data import data_fields

SEGMENT = 2048


class JournalMachine(RuleBasedStateMachine):
    """`synced` is what the disk must give back, `appended` what it may, in the order of acceptance."""

    @initialize()
    def start(self) -> None:
        self.path = Path(tempfile.mkdtemp())
        self.journal = open_journal(self.path, SEGMENT, 3)
        self.next_nonce = 0
        self.synced: dict[TxHash, Tx] = {}
        self.appended: dict[TxHash, Tx] = {}
        self.settled: set[TxHash] = set()
        self.synced_drops: set[TxHash] = set()
        self.drops: set[TxHash] = set()
        self.synced_left: set[TxHash] = set()
        self.left: set[TxHash] = set()

    @rule(drawn=st.lists(data_fields, min_size=1, max_size=12))
    def add(self, drawn: list[bytes]) -> None:
        for data in drawn:
            tx = transfer(1, self.next_nonce, data=data)
            self.next_nonce += 1
            self.journal.append_add(tx.nonce, tx, encode_record(tx))
            self.appended[tx.hash] = tx

    @rule()
    def sync(self) -> None:
        self.journal.sync()
        self.synced, self.synced_drops, self.synced_left = dict(self.appended), set(self.drops), set(self.left)

    @precondition(lambda self: self.appended.keys() - self.settled)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        tx_hash = data.draw(st.sampled_from(sorted(self.appended.keys() - self.settled)))
        self.journal.append_drop(tx_hash, "expired")
        self.journal.settle(tx_hash)
        del self.appended[tx_hash]
        self.drops.add(tx_hash)

    @precondition(lambda self: self.appended.keys() - self.settled)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        tx_hash = data.draw(st.sampled_from(sorted(self.appended.keys() - self.settled)))
        self.journal.append_leave(tx_hash, "evicted")
        self.left.add(tx_hash)

    @precondition(lambda self: self.left & self.appended.keys() - self.settled)
    @rule(data=st.data())
    def add_again(self, data: st.DataObject) -> None:
        tx_hash = data.draw(st.sampled_from(sorted(self.left & self.appended.keys() - self.settled)))
        tx = self.appended.pop(tx_hash)
        self.journal.append_add(tx.nonce, tx, encode_record(tx))
        self.appended[tx_hash] = tx
        self.left.remove(tx_hash)

    @precondition(lambda self: self.synced.keys() & self.appended.keys())
    @rule(data=st.data())
    def confirm(self, data: st.DataObject) -> None:
        alive = sorted(self.synced.keys() & self.appended.keys())
        for tx_hash in data.draw(st.lists(st.sampled_from(alive), unique=True)):
            self.journal.settle(tx_hash)
            self.settled.add(tx_hash)

    @rule()
    def kill(self) -> None:
        """End without a word: what was not synced may be gone, and here it is."""
        self.journal.close()
        self.reopen(self.path)

    @precondition(lambda self: len(self.appended) > len(self.synced) or self.drops != self.synced_drops)
    @rule(data=st.data())
    def tear(self, data: st.DataObject) -> None:
        """The power goes while a frame is written: the segment has the first bytes of it, and zeros behind."""
        before = {number: segment_path(self.path, number).read_bytes() for number in list_segments(self.path)}
        synced, synced_drops = self.synced, self.synced_drops
        self.sync()
        last = list_segments(self.path)[-1]
        after = segment_path(self.path, last).read_bytes()
        old = before.get(last, after[:32] + bytes(len(after) - 32))
        start = next(index for index, (one, other) in enumerate(zip(old, after, strict=True)) if one != other)
        end = len(after.rstrip(b"\0"))
        cut = data.draw(st.integers(start, end))
        torn = Path(tempfile.mkdtemp())
        # Whatever the sync removed, it removed after the frame was whole: a torn frame has all of it beside it.
        now = {number: segment_path(self.path, number).read_bytes() for number in list_segments(self.path)}
        for number, content in (before | now).items():
            segment_path(torn, number).write_bytes(content)
        segment_path(torn, last).write_bytes(after[:cut] + old[cut:])
        journal = open_journal(torn, SEGMENT, 3)
        found = {entry.tx.hash for entry in journal.recovered}
        journal.close()
        shutil.rmtree(torn)
        assert found in (
            self.possible(found, synced, synced_drops),
            self.possible(found, self.synced, self.synced_drops),
        )

    def possible(self, found: set[TxHash], synced: dict[TxHash, Tx], drops: set[TxHash]) -> set[TxHash]:
        """What must come back, and of what may come back (settled, but still in a segment) that which does."""
        alive = {tx_hash for tx_hash in synced if tx_hash not in self.settled and tx_hash not in drops}
        return alive | (found & self.settled - drops)

    def reopen(self, path: Path) -> None:
        self.journal = open_journal(path, SEGMENT, 3)
        found = [entry.tx for entry in self.journal.recovered]
        hashes = {tx.hash for tx in found}
        assert all(tx == self.synced[tx.hash] for tx in found)
        assert hashes == self.possible(hashes, self.synced, self.synced_drops)
        order = list(self.synced)
        assert [tx.hash for tx in found] == sorted(hashes, key=order.index)
        assert [entry.received_at for entry in self.journal.recovered] == [tx.nonce for tx in found]
        for entry in self.journal.recovered:
            assert entry.left == ("evicted" if entry.tx.hash in self.synced_left else None)
        for tx in found:
            if tx.hash in self.settled:
                self.journal.settle(tx.hash)
        self.synced = {tx.hash: tx for tx in found}
        self.appended = dict(self.synced)
        self.drops, self.left = set(self.synced_drops), set(self.synced_left)

    def teardown(self) -> None:
        if hasattr(self, "journal"):
            self.journal.close()
            shutil.rmtree(self.path)


TestJournal = JournalMachine.TestCase
TestJournal.settings = settings(max_examples=30, stateful_step_count=25)


def test_a_crash_at_every_byte_of_the_last_frame(tmp_path: Path) -> None:
    first, second = transfer(1, 0), transfer(1, 1)
    journal = open_journal(tmp_path / "journal", SEGMENT)
    journal.append_add(0, first, encode_record(first))
    journal.sync()
    [number] = list_segments(tmp_path / "journal")
    old = segment_path(tmp_path / "journal", number).read_bytes()
    journal.append_add(0, second, encode_record(second))
    journal.append_drop(first.hash, "replaced")
    journal.sync()
    new = segment_path(tmp_path / "journal", number).read_bytes()
    journal.close()
    start, end = len(old.rstrip(b"\0")), len(new.rstrip(b"\0"))
    outcomes = []
    for cut in range(start, end + 1):
        torn = tmp_path / str(cut)
        torn.mkdir()
        segment_path(torn, number).write_bytes(new[:cut] + old[cut:])
        journal = open_journal(torn, SEGMENT)
        journal.close()
        outcomes.append([entry.tx for entry in journal.recovered])
    # The replaced one until the frame is whole, its successor from then on: never both, never neither.
    turn = outcomes.index([second])
    assert outcomes == [[first]] * turn + [[second]] * (len(outcomes) - turn)
    assert len(outcomes) - turn <= 32
