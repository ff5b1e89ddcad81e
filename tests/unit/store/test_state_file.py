"""A dev chain in one file: all of it comes back, and nothing else is taken for one."""

import os
import random
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import dev_genesis
from cairn.store.chain import ChainStore
from cairn.store.dev_snapshots import DevDirectory
from cairn.store.directory import DirectoryLock, journal_path, watermark_path
from cairn.store.journal import Journal
from cairn.store.state_file import GENESIS_NAME, hold_state_file, load_state, save_state
from tests.support.blocks import extend, store_genesis
from tests.support.core_fixtures import signed
from tests.support.damaged_homes import remove
from tests.support.state_holder import held_by_another
from tests.support.transfers import transfer

GENESIS = store_genesis()


@pytest.fixture
def chain_dir(tmp_path: Path) -> Path:
    """A chain with two blocks, one pending transaction, a snapshot of its first block, and a clock that is ahead."""
    directory = tmp_path / "data"
    chain = ChainStore.open(directory, GENESIS)
    journal = Journal.open(journal_path(directory), chain.watermark)
    kept = DevDirectory(directory)
    extend(chain, [transfer(1, 0)])
    kept.take_snapshot(chain.checkpoint, 1, [])
    extend(chain, [transfer(1, 1)])
    kept.set_offset(3_600)
    journal.append_add(5, signed(0), b"\0" * 282)
    journal.sync()
    journal.close()
    chain.close()
    return directory


def heads(directory: Path) -> tuple[int, bytes]:
    chain = ChainStore.open(directory, GENESIS)
    try:
        return chain.head_header.height, chain.head_hash
    finally:
        chain.close()


def test_a_saved_chain_is_loaded_with_its_clock_and_without_snapshots(chain_dir: Path, tmp_path: Path) -> None:
    file, copy = tmp_path / "chain.zip", tmp_path / "copy"
    save_state(chain_dir, GENESIS, file)
    copy.mkdir()
    load_state(file, GENESIS, copy)
    assert heads(copy) == heads(chain_dir)
    state = DevDirectory(copy).state
    assert (state.offset_s, state.snapshots) == (3_600, {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chain.zip", "copy", "data"]
    assert file.stat().st_size < 1 << 20, "room that is not used takes none"


def test_a_link_leads_to_the_file_which_is_for_its_owner_alone(chain_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    link = tmp_path / "chain.zip"
    link.symlink_to(tmp_path / "files" / "kept.zip")
    save_state(chain_dir, GENESIS, link)
    assert link.is_symlink()
    [file] = (tmp_path / "files").iterdir()
    assert (file.name, file.stat().st_mode & 0o777) == ("kept.zip", 0o600)


def test_a_revert_that_was_decided_is_done_first(chain_dir: Path, tmp_path: Path) -> None:
    DevDirectory(chain_dir).decide_revert(1)
    # As a crash in the midst of it leaves them.
    (chain_dir / "dev" / "old").mkdir()
    journal_path(chain_dir).rename(chain_dir / "dev" / "old" / "journal")
    file, copy = tmp_path / "chain.zip", tmp_path / "copy"
    save_state(chain_dir, GENESIS, file)
    load_state(file, GENESIS, copy)
    assert heads(copy)[0] == 1
    assert DevDirectory(copy).state.reverts == 1


def test_a_chain_with_other_rules_is_refused(chain_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "chain.zip"
    save_state(chain_dir, GENESIS, file)
    for other in (dev_genesis(), msgspec.structs.replace(GENESIS, chain_id=GENESIS.chain_id + 1)):
        with pytest.raises(InvalidConfig, match="--chain-id"):
            load_state(file, other, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_file_that_is_not_a_saved_chain_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "chain.zip"
    with pytest.raises(InvalidConfig, match="cannot load the chain from .*: No such file"):
        load_state(file, GENESIS, tmp_path / "copy")
    file.write_text("{}")
    with pytest.raises(InvalidConfig, match="is no file that"):
        load_state(file, GENESIS, tmp_path / "copy")
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("else", "")
    with pytest.raises(InvalidConfig, match="is no file that"):
        load_state(file, GENESIS, tmp_path / "copy")


@pytest.mark.parametrize(
    ("offset", "value"),
    [(6, 1), (8, 99), (30 + len(GENESIS_NAME), 0xFF)],
    ids=["encrypted", "unknown method", "no deflated data"],
)
def test_a_damaged_file_is_refused(offset: int, value: int, chain_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "chain.zip"
    save_state(chain_dir, GENESIS, file)
    content = bytearray(file.read_bytes())
    content[offset] = value
    # The directory at the end repeats flags and method.
    if offset < 30:
        content[content.index(b"PK\x01\x02") + offset + 2] = value
    file.write_bytes(content)
    with pytest.raises(InvalidConfig, match="is no file that"):
        load_state(file, GENESIS, tmp_path / "copy")


def test_a_file_that_cannot_be_written_is_named(chain_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="cannot save the chain to .*nowhere"):
        save_state(chain_dir, GENESIS, tmp_path / "nowhere" / "chain.zip")


def test_a_directory_that_cannot_be_read_is_named_and_leaves_no_draft(chain_dir: Path, tmp_path: Path) -> None:
    lock = DirectoryLock.acquire(chain_dir)
    with pytest.raises(InvalidConfig, match="cannot save the chain to .* is in use by"):
        save_state(chain_dir, GENESIS, tmp_path / "chain.zip")
    lock.release()
    watermark_path(chain_dir).unlink()
    with pytest.raises(InvalidConfig, match="cannot save the chain to .*watermark is missing"):
        save_state(chain_dir, GENESIS, tmp_path / "chain.zip")
    assert list(tmp_path.iterdir()) == [chain_dir]


@pytest.mark.parametrize(
    "lost", ["FORMAT", "watermark", "chain", "chain/CURRENT", "chain/*.sst", "journal", "journal/*"]
)
def test_a_chain_that_lost_a_file_while_the_node_ran_does_not_take_the_place_of_the_saved_one(
    lost: str, chain_dir: Path, tmp_path: Path
) -> None:
    file = tmp_path / "chain.zip"
    save_state(chain_dir, GENESIS, file)
    saved = file.read_bytes()
    for path in chain_dir.glob(lost):
        remove(path, random.Random())
    with pytest.raises(InvalidConfig, match="cannot save the chain to "):
        save_state(chain_dir, GENESIS, file)
    assert file.read_bytes() == saved


def test_a_clock_that_was_wrong_is_no_hindrance(chain_dir: Path, tmp_path: Path) -> None:
    os.utime(watermark_path(chain_dir), (0, 0))
    save_state(chain_dir, GENESIS, tmp_path / "chain.zip")
    assert (tmp_path / "chain.zip").exists()


def test_without_a_chain_the_file_is_left_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "chain.zip"
    file.write_text("as it was")
    save_state(tmp_path, GENESIS, file)
    assert file.read_text() == "as it was"


def test_only_one_node_at_a_time_may_save_to_a_file(tmp_path: Path) -> None:
    file, link = tmp_path / "chain.zip", tmp_path / "link.zip"
    link.symlink_to(file)
    with held_by_another(file) as other:
        for path in (file, link):
            refusal = f"process id {other.pid} saves its chain to {path} when it stops"
            with pytest.raises(InvalidConfig, match=refusal), hold_state_file(path):
                pytest.fail("it was not refused")
        with hold_state_file(tmp_path / "other.zip"):
            pass
        other.communicate()
    with hold_state_file(file):
        pass
    assert list(tmp_path.iterdir()) == [link]


def test_a_node_that_was_killed_holds_nothing_even_while_its_processes_end(tmp_path: Path) -> None:
    file = tmp_path / "chain.zip"
    with held_by_another(file) as other:
        other.kill()
        other.wait()
        assert list(tmp_path.iterdir()) != []
        with hold_state_file(file):
            pass
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("as it was")
    (tmp_path / "chain.zip.cairn-lock").symlink_to(precious)
    with pytest.raises(InvalidConfig, match="cannot lock .*chain.zip with"), hold_state_file(tmp_path / "chain.zip"):
        pytest.fail("it was not refused")
    assert precious.read_text() == "as it was"


def test_a_lock_that_its_owner_has_just_removed_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / "chain.zip.cairn-lock"
    opened: list[int] = []

    def open_and_remove_once(*args: Any) -> int:
        file = original(*args)
        if not opened:
            lock.unlink()
        opened.append(file)
        return file

    original = os.open
    monkeypatch.setattr(os, "open", open_and_remove_once)
    with hold_state_file(tmp_path / "chain.zip"):
        monkeypatch.undo()
        assert len(opened) == 2
        assert lock.read_text() == f"{os.getpid()}\n"
