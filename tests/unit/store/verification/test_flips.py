"""A verification finds every record that was changed, of whatever kind: `FLIPS=1000` changes so many of each home.

`FLIPS_REPORT` names a file for what came of it.
"""

import os
import platform
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cairn.domain.errors import NodeError
from cairn.store import keys
from cairn.store.directory import chain_path, journal_path, watermark_path
from cairn.store.rocks import Database, WriteBatch
from cairn.store.segment import scan_segment
from cairn.store.tree_file import tree_path
from cairn.store.verification.findings import Finding
from cairn.store.verification.verification import verify_directory
from cairn.store.watermark import PAGE
from tests.support.verified_homes import VerifiedHome, lone_home, network_home, pruned_home, restored_home

FLIPS = int(os.environ.get("FLIPS", "4"))
SEED = os.environ.get("FLIPS_SEED", "1")
WRITTEN_PAGE_BYTES = 12
LINKS, INDEX_AT = range(40, 64), 68
"""Bytes of a version: the heights of versions before it, and where its index begins, which its uses follow."""

COLUMNS = ENTRY, UNUSED, REMOVED, BYTE = (
    "changed entries, found", "changed where nothing reads", "removed entries, found", "changed bytes of files, found"
)  # fmt: skip

MAKERS: dict[str, Callable[[Path], VerifiedHome]] = {
    "lone": lone_home,
    "pruned": pruned_home,
    "network": network_home,
    "restored": restored_home,
}


@pytest.fixture(scope="module")
def tally() -> Iterator[Counter[tuple[str, str]]]:
    """By kind of home and what was done to it: how often."""
    counted: Counter[tuple[str, str]] = Counter()
    yield counted
    if path := os.environ.get("FLIPS_REPORT"):
        Path(path).write_text(report(counted))


def report(counted: Counter[tuple[str, str]]) -> str:
    rows = [
        f"| {kind} | " + " | ".join(f"{counted[kind, what]:,}" for what in (*COLUMNS, "missed")) + " |"
        for kind in MAKERS
    ]
    return f"""# Changed records

`make flips FLIPS={FLIPS}`: in each of four kinds of data directories, a bit of a random entry of the store is changed
{FLIPS:,} times (in its key or its value, and in each column family as often as in any other), and a bit of a file
beside the store {FLIPS:,} times, one at a time. `cairn verify` must find each. Seed {SEED}, Python
{platform.python_version()}.

| data directory | {" | ".join(COLUMNS)} | missed |
|---|{"---|" * len(COLUMNS)}---|
{chr(10).join(rows)}

Which bytes nothing reads is said in [Check that the data is whole](../docs/verify.md#what-it-finds).
"""


@pytest.fixture(scope="module", params=MAKERS)
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> VerifiedHome:
    made = MAKERS[request.param](tmp_path_factory.mktemp(request.param) / "data")
    assert findings_of(made) == [], "it is whole at first"
    return made


def kind_of(home: VerifiedHome) -> str:
    """pytest makes a directory of its name and a number."""
    return home.directory.parent.name[:-1]


def findings_of(home: VerifiedHome) -> list[Finding]:
    try:
        return verify_directory(home.directory, home.genesis).findings
    except NodeError as refusal:
        return [Finding("opening", refusal.detail)]


def test_each_changed_entry_of_the_store_is_found(home: VerifiedHome, tally: Counter[tuple[str, str]]) -> None:
    kind = kind_of(home)
    rng = random.Random(f"{SEED} {kind}")
    entries, base = entries_of(home), base_of(home)
    missed = []
    for _ in range(FLIPS):
        family = rng.choice([name for name in keys.FAMILIES if entries[name]])
        key, value = rng.choice(entries[family])
        flipped = flip(rng, key, value)
        if is_unused(base, family, key, value, flipped):
            tally[kind, UNUSED] += 1
            continue
        put(home, family, delete=key, entry=flipped)
        is_found = bool(findings_of(home))
        tally[kind, ENTRY if is_found else "missed"] += 1
        if not is_found:
            missed.append((family, key.hex(), value.hex(), flipped[0].hex(), flipped[1].hex()))
        put(home, family, delete=flipped[0], entry=(key, value))
        if (other := dict(entries[family]).get(flipped[0])) is not None:
            # The flipped key was that of another entry.
            put(home, family, entry=(flipped[0], other))
    assert not missed
    assert findings_of(home) == [], "all is put back"


def test_each_removed_entry_of_the_store_is_found(home: VerifiedHome, tally: Counter[tuple[str, str]]) -> None:
    rng = random.Random(f"{SEED} removed")
    entries, base = entries_of(home), base_of(home)
    for family in keys.FAMILIES:
        for key, value in rng.sample(entries[family], min(1, len(entries[family]))):
            if is_unused(base, family, key, value, None):
                continue
            put(home, family, delete=key)
            assert findings_of(home), (family, key.hex())
            tally[kind_of(home), REMOVED] += 1
            put(home, family, entry=(key, value))


def test_each_changed_byte_of_a_file_beside_the_store_is_found(
    home: VerifiedHome, tally: Counter[tuple[str, str]]
) -> None:
    rng = random.Random(f"{SEED} files")
    for _ in range(FLIPS):
        path, offset = rng.choice(list(used_bytes(home, rng)))
        whole = path.read_bytes()
        path.write_bytes(whole[:offset] + bytes((whole[offset] ^ (1 << rng.randrange(8)),)) + whole[offset + 1 :])
        assert findings_of(home), (path.name, offset)
        tally[kind_of(home), BYTE] += 1
        path.write_bytes(whole)
    assert findings_of(home) == []


def used_bytes(home: VerifiedHome, rng: random.Random) -> Iterator[tuple[Path, int]]:
    """A byte of each file that is written: behind the journal's last frame, and behind a number, nothing is read."""
    for segment in journal_path(home.directory).glob("*.seg"):
        if frames := scan_segment(segment).frames:
            yield segment, rng.randrange(frames[-1].offset + len(frames[-1].payload))
        else:
            yield segment, rng.randrange(28)
    if (tree := tree_path(chain_path(home.directory))).exists():
        yield tree, rng.randrange(tree.stat().st_size)
    pages = watermark_path(home.directory).stat().st_size // PAGE
    yield watermark_path(home.directory), rng.randrange(pages) * PAGE + rng.randrange(WRITTEN_PAGE_BYTES)


def flip(rng: random.Random, key: bytes, value: bytes) -> tuple[bytes, bytes]:
    """The entry with another bit at a random place of the key or of the value."""
    changed = bytearray(key + value)
    at = rng.randrange(len(key)) if not value or rng.random() < 0.3 else rng.randrange(len(key), len(changed))
    changed[at] ^= 1 << rng.randrange(8)
    return bytes(changed[: len(key)]), bytes(changed[len(key) :])


def is_unused(base: int, family: str, key: bytes, value: bytes, flipped: tuple[bytes, bytes] | None) -> bool:
    """Whether nothing reads what was changed, or removed, or it is only done again.

    That is the number of a trial write; where the removal of old blocks is to go on, if that is earlier than it is; and
    of a block that is gone, or of the oldest one that is kept, the links to even older ones. The change of validators
    that is signed last is asked for again.
    """
    is_value = flipped is not None and flipped[0] == key
    if family == keys.META:
        if key == keys.CLEARED_KEY and is_value:
            assert flipped is not None
            return flipped[1] < value
        is_old = key[:-8] == keys.GOVERNANCE_KEY and keys.decode_height(key[-8:]) < base
        return key in (keys.PROBE_KEY, keys.CLEARED_KEY) and (is_value or flipped is None) or is_old
    if family == keys.ACCOUNTS and is_value:
        assert flipped is not None
        height = keys.decode_version_key(key)[1]
        at = next(at for at in range(len(value)) if value[at] != flipped[1][at])
        is_link = LINKS.start <= at < LINKS.stop
        return (height == base > 0 and is_link) or (height < base and (is_link or at >= INDEX_AT))
    return family == keys.STEPS and flipped is None


def entries_of(home: VerifiedHome) -> dict[str, list[tuple[bytes, bytes]]]:
    database = Database.open_primary(chain_path(home.directory), strict=True)
    try:
        return {family: list(database.walk(family)) for family in keys.FAMILIES}
    finally:
        database.close()


def base_of(home: VerifiedHome) -> int:
    return verify_directory(home.directory, home.genesis).oldest


def put(home: VerifiedHome, family: str, delete: bytes | None = None, entry: tuple[bytes, bytes] | None = None) -> None:
    database = Database.open_primary(chain_path(home.directory), strict=True)
    try:
        batch = WriteBatch(database)
        if delete is not None:
            batch.delete(family, delete)
        if entry is not None:
            batch.put(family, *entry)
        database.write(batch)
    finally:
        database.close()
