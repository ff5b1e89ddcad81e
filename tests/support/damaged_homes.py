"""Data directories of every kind, what is in them, and what a disk or a hand can do to their files."""

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cairn.domain.errors import Fatal
from cairn.domain.genesis import Genesis, dev_genesis
from cairn.domain.transactions import encode_record
from cairn.domain.transition import build_block
from cairn.domain.types import ZERO_ADDRESS
from cairn.store.chain import ChainStore
from cairn.store.dev_snapshots import DevDirectory
from cairn.store.directory import journal_path
from cairn.store.journal import Journal, JournalEntry
from cairn.store.keys import FAMILIES, META, PROBE_KEY
from tests.support.core_fixtures import signed
from tests.support.disk import database_of, flush
from tests.support.signing import commit_signed
from tests.support.snapshots import grow_signed, network_genesis, open_chain, restore_snapshot, take_snapshot
from tests.support.tx_data import data_by_number

SEGMENT_BYTES = 4_096
"""Small, so that hundreds of directories are copied and compared in seconds."""
NOT_DATA = ("cairn.lock", "running.json", "rocksdict-config.json")
"""What a refused start may write: the id of its process, that it runs, and settings of RocksDB's Python binding."""

Content = dict[str, list[tuple[bytes, bytes]]]


@dataclass(frozen=True, slots=True)
class Found:
    """All that a node has after a start."""

    chain: Content
    pending: list[JournalEntry]
    dev: object


@dataclass(frozen=True, slots=True)
class DamagedHome:
    """A directory to be copied and damaged; `whole` is what a start must find in it."""

    directory: Path
    genesis: Genesis
    whole: Found

    @classmethod
    def of(cls, directory: Path, genesis: Genesis) -> "DamagedHome":
        trial = directory.with_name(directory.name + "-trial")
        shutil.copytree(directory, trial)
        return cls(directory, genesis, start(trial, genesis))

    def files(self) -> list[str]:
        """Its files, and the directories that hold some of them, by their relative paths.

        Without dev/ as a whole: who removes it gives its snapshots up, and leaves the chain as it is.
        """
        paths = (str(path.relative_to(self.directory)) for path in self.directory.rglob("*"))
        return sorted(name for name in paths if name not in ("cairn.lock", "dev"))


def start(directory: Path, genesis: Genesis) -> Found:
    """Open everything as a core does, read all of it, and stop."""
    chain = ChainStore.open(directory, genesis)
    try:
        journal = Journal.open(journal_path(directory), chain.watermark, SEGMENT_BYTES)
        try:
            content = {family: list(database_of(chain).scan(family)) for family in FAMILIES}
            content[META] = [entry for entry in content[META] if entry[0] != PROBE_KEY]
            return Found(content, journal.recovered, DevDirectory(directory).state)
        finally:
            journal.close()
    finally:
        chain.close()


def tree(directory: Path) -> dict[str, bytes | None]:
    """Every path below `directory` with its content; None for a directory."""
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in directory.rglob("*")
        if path.name not in NOT_DATA
    }


# Homes.


def make_blocks(chain: ChainStore, first: int, count: int) -> None:
    for nonce in range(first, first + count):
        header, rules = chain.head_header, chain.genesis.rules
        txs, time = [signed(nonce, data=data_by_number(nonce))], header.timestamp + 1
        made = build_block(header, chain.head_hash, chain, txs, time, ZERO_ADDRESS, rules)
        commit_signed(chain, made)


def _accept(journal: Journal, *nonces: int) -> None:
    """Each in a frame of its own."""
    for nonce in nonces:
        tx = signed(nonce, data=data_by_number(nonce))
        journal.append_add(7, tx, encode_record(tx))
        journal.sync()


def make_running(directory: Path, image: Path) -> None:
    """Blocks in tables and in the log, and what is pending; `image` is what a kill then leaves, `directory` a stop."""
    chain = ChainStore.open(directory, dev_genesis())
    journal = Journal.open(journal_path(directory), chain.watermark, SEGMENT_BYTES)
    make_blocks(chain, 0, 3)
    flush(database_of(chain))
    chain.save_tree()
    make_blocks(chain, 3, 3)
    _accept(journal, *range(7, 30))
    shutil.copytree(directory, image)
    chain.save_tree()
    journal.close()
    chain.close()


def make_reverting(directory: Path) -> None:
    """A dev chain that is to be reverted at the next start, with a second snapshot."""
    chain = ChainStore.open(directory, dev_genesis())
    kept = DevDirectory(directory)
    make_blocks(chain, 0, 2)
    assert kept.take_snapshot(chain.checkpoint, chain.visible, []) == 1
    make_blocks(chain, 2, 1)
    assert kept.take_snapshot(chain.checkpoint, chain.visible, [JournalEntry(7, signed(3))]) == 2
    make_blocks(chain, 3, 1)
    journal = Journal.open(journal_path(directory), chain.watermark, SEGMENT_BYTES)
    _accept(journal, 5)
    journal.close()
    assert kept.decide_revert(2)
    chain.close()


def make_restoring(directory: Path, given: Path, *, is_finished: bool) -> None:
    """A node of a network that starts from a snapshot: in the middle of that, or after it and a few blocks."""
    giving = open_chain(given)
    grow_signed(giving, 4)
    parcel = take_snapshot(giving)
    giving.close()
    chain = open_chain(directory)
    Journal.open(journal_path(directory), chain.watermark, SEGMENT_BYTES).close()
    if is_finished:
        restore_snapshot(chain, parcel)
        chain.save_tree()
        grow_signed(chain, 2)
    else:
        restore = chain.begin_restore(parcel.manifest, parcel.trusted)
        for index, chunk in enumerate(parcel.chunks):
            restore.add_chunk(index, chunk)
        shutil.copytree(directory, directory.with_name("image"))
    chain.close()
    if not is_finished:
        shutil.rmtree(directory)
        directory.with_name("image").rename(directory)


def make_homes(root: Path) -> Iterator[tuple[str, DamagedHome]]:
    dev, network = dev_genesis(), network_genesis()
    make_running(root / "stopped" / "data", root / "killed" / "data")
    make_reverting(root / "reverting" / "data")
    for name in ("restoring", "restored"):
        make_restoring(root / name / "data", root / name / "given", is_finished=name == "restored")
    for name in HOMES:
        yield name, DamagedHome.of(root / name / "data", network if name.startswith("resto") else dev)


HOMES = ("stopped", "killed", "reverting", "restoring", "restored")


# Damage.

Harm = Callable[[Path, random.Random], None]


def remove(path: Path, rng: random.Random) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def empty(path: Path, rng: random.Random) -> None:
    if path.is_dir():
        shutil.rmtree(path)
        path.mkdir()
    elif path.exists():
        path.write_bytes(b"")


def truncate(path: Path, rng: random.Random) -> None:
    if path.is_file():
        path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size + 1)])


def flip(path: Path, rng: random.Random) -> None:
    if path.is_file() and path.stat().st_size:
        content = bytearray(path.read_bytes())
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(content)


def zero(path: Path, rng: random.Random) -> None:
    """A stretch of it, as of sectors that were never written."""
    if path.is_file() and path.stat().st_size:
        content = bytearray(path.read_bytes())
        start = rng.randrange(len(content))
        length = min(rng.choice((1, 512, len(content))), len(content) - start)
        content[start : start + length] = bytes(length)
        path.write_bytes(content)


HARMS: tuple[Harm, ...] = (remove, empty, truncate, flip, zero)


def check_starts(home: DamagedHome, directory: Path, damage: Callable[[Path], None]) -> str:
    """Damage a copy of the home in `directory`, start it three times, and put back what was damaged.

    Either each start has everything, or it is refused by name and leaves every file as it was. Damage within a table
    may show at a read only; it then ends the node by name, and costs nothing beside the damaged bytes.
    Returns how it went.
    """
    shutil.copytree(home.directory, directory)
    intact = tree(directory)
    damage(directory)
    damaged = tree(directory)
    outcome = "opened"
    for _ in range(3):
        refusal = _try_to_start(home, directory)
        if refusal is None:
            continue
        assert str(directory) in refusal.detail, f"which file? {refusal.detail}"
        changed = _difference(damaged, tree(directory))
        assert not changed or _is_within_a_table(damaged, intact), f"{refusal.detail}: but changed: {changed}"
        outcome = "found at a read" if changed else "refused"
    if outcome != "opened":
        _repair(directory, damaged, intact)
        assert start(directory, home.genesis) == home.whole, "putting the files back does not bring everything back"
    return outcome


def _try_to_start(home: DamagedHome, directory: Path) -> Fatal | None:
    try:
        found = start(directory, home.genesis)
    except Fatal as refusal:
        return refusal
    assert found == home.whole, "opened, but something is gone"
    return None


def _is_within_a_table(damaged: dict[str, bytes | None], intact: dict[str, bytes | None]) -> bool:
    return any(name.endswith(".sst") and damaged.get(name) != intact[name] and damaged.get(name) for name in intact)


def _repair(directory: Path, damaged: dict[str, bytes | None], intact: dict[str, bytes | None]) -> None:
    for name, content in sorted(intact.items()):
        if name not in damaged or damaged[name] != content:
            if content is None:
                (directory / name).mkdir(exist_ok=True)
            else:
                (directory / name).write_bytes(content)


def _difference(before: dict[str, bytes | None], after: dict[str, bytes | None]) -> list[str]:
    return [name for name in sorted(before.keys() | after.keys()) if before.get(name, 0) != after.get(name, 0)]
