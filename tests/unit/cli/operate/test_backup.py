"""Backups of a stopped node, restored: whole, checked, and never half."""

import hashlib
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from cairn.cli.main import app
from cairn.cli.node.home import Home
from cairn.cli.node.new_signing_key import make_successor
from cairn.cli.operate import backup
from cairn.cli.operate.backup import make_backup
from cairn.cli.operate.restore import find_backup, restore_home
from cairn.cli.report import ExitCode
from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import encode_genesis
from cairn.domain.steps import finish
from cairn.domain.transactions import encode_record
from cairn.domain.types import ZERO_ADDRESS
from cairn.engine.application import Application, Feed
from cairn.engine.signing import BlockSigner
from cairn.store.backups import backups_in, check_data, check_files, finish_backup, read_backup, readable_backups
from cairn.store.chain import ChainStore
from cairn.store.journal import Journal
from cairn.store.signing_key import SigningKey, SigningKeys
from cairn.store.watermark import Watermark
from tests.support.blocks import grow, next_transfers, store_genesis
from tests.support.crash_points import entries, killed_at_each_point
from tests.support.signing import KEY

cli = CliRunner()
BLOCKS, TXS_EACH, PENDING = 5, 20, 7


def grow_more(home: Home) -> None:
    chain = ChainStore.open(home.data_dir, store_genesis())
    grow(chain, 1, TXS_EACH)
    chain.close()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A stopped node with blocks, and with transactions that are accepted and in none of them."""
    made = Home(tmp_path / "home")
    made.directory.mkdir()
    made.genesis_file.write_bytes(encode_genesis(store_genesis()))
    made.config_file.write_text("port = 8645\n")
    KEY.save(made.key_files.current)
    chain = ChainStore.open(made.data_dir, store_genesis())
    grow(chain, BLOCKS, TXS_EACH)
    journal = Journal.open(made.data_dir / "journal", chain.watermark)
    for tx in next_transfers(chain, PENDING):
        journal.append_add(1, tx, encode_record(tx))
    journal.sync()
    journal.close()
    chain.close()
    return made


def run(*args: object, code: ExitCode = ExitCode.DONE) -> str:
    result = cli.invoke(app, [str(arg) for arg in args])
    assert result.exit_code == code, result.output
    return result.output


def tables(path: Path) -> dict[str, int]:
    """The inode of each table."""
    return {table.name: table.stat().st_ino for table in (path / "data" / "chain").glob("*.sst")}


def test_a_backup_is_restored_with_its_head_its_pending_and_its_files(home: Home, tmp_path: Path) -> None:
    made = json.loads(run("backup", "--home", home.directory, tmp_path / "backups", "--json"))
    path = Path(made["backup"])
    assert path.parent == tmp_path / "backups"
    assert (made["blockHeight"], made["pending"], made["nodeRan"], made["hasKeys"]) == (BLOCKS, PENDING, False, False)
    assert {file.name for file in path.iterdir()} == {
        "SHA256SUMS", "backup.json", "genesis.json", "cairn.toml", "data",
    }  # fmt: skip
    for file in path.rglob("*"):
        assert file.stat().st_mode & 0o077 == 0, f"others can read {file}"
    told = run("restore", path, tmp_path / "restored")
    assert f"Block    {BLOCKS}  {made['hash']}" in told
    assert "put your copy at" in told
    assert "a second signed history begins" in told
    restored = Home(tmp_path / "restored")
    assert restored.genesis_file.read_bytes() == home.genesis_file.read_bytes()
    assert restored.config_file.read_bytes() == home.config_file.read_bytes()
    assert restored.begun_file.exists()
    assert entries(restored.directory) == {"genesis.json", "cairn.toml", "chain-begun", "data"}
    found = check_data(restored.data_dir, store_genesis())
    assert (found.chain.head.height, found.pending) == (BLOCKS, PENDING)
    ChainStore.open(restored.data_dir, store_genesis()).close()


def test_the_sums_are_those_that_sha256sum_makes(home: Home, tmp_path: Path) -> None:
    run("backup", "--home", home.directory, tmp_path / "backups")
    (path,) = backups_in(tmp_path / "backups")
    for line in (path / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ", 1)
        assert hashlib.sha256((path / name).read_bytes()).hexdigest() == digest


def test_the_signing_key_is_in_a_backup_only_when_asked_for(home: Home, tmp_path: Path) -> None:
    told = run("backup", "--home", home.directory, tmp_path / "backups", "--with-keys")
    assert "keep this backup secret" in told
    told = run("restore", tmp_path / "backups", tmp_path / "restored")
    assert "put your copy at" not in told
    key = tmp_path / "restored" / "signing-key.json"
    assert (SigningKey.load(key).public_key, key.stat().st_mode & 0o777) == (KEY.public_key, 0o600)


def test_a_second_backup_copies_only_the_tables_that_are_new(home: Home, tmp_path: Path) -> None:
    target = tmp_path / "backups"
    first = Path(json.loads(run("backup", "--home", home.directory, target, "--json"))["backup"])
    grow_more(home)
    answer = json.loads(run("backup", "--home", home.directory, target, "--json"))
    second = Path(answer["backup"])
    shared = {name for name, inode in tables(second).items() if tables(first).get(name) == inode}
    assert shared
    assert shared < tables(second).keys(), "the new ones are copied"
    assert answer["sharedBytes"] == sum((second / "data" / "chain" / name).stat().st_size for name in shared)
    assert not set(tables(second).values()) & set(tables(home.directory).values()), "none is the node's own"
    # Each stands for itself.
    shutil.rmtree(first)
    check_files(read_backup(second), lambda size: None)
    assert check_data(second / "data", store_genesis()).chain.head.height == BLOCKS + 1


def test_a_table_that_an_earlier_backup_has_damaged_is_named_and_copied_anew(home: Home, tmp_path: Path) -> None:
    target = tmp_path / "backups"
    run("backup", "--home", home.directory, target)
    (first,) = backups_in(target)
    table = next((first / "data" / "chain").glob("*.sst"))
    flip(table, table.stat().st_size // 2)
    told = run("backup", "--home", home.directory, target)
    assert f"{table} of an earlier backup is damaged" in told
    second = read_backup(backups_in(target)[-1])
    check_files(second, lambda size: None)
    assert tables(second.path)[table.name] != table.stat().st_ino
    run("restore", target, tmp_path / "restored")


def test_only_the_latest_backups_of_the_chain_are_kept(home: Home, tmp_path: Path) -> None:
    target = tmp_path / "backups"
    for _ in range(3):
        run("backup", "--home", home.directory, target)
    others = target / "2020-01-01T000000Z"
    shutil.copytree(backups_in(target)[0], others)
    (others / "backup.json").write_text("{}")
    before = backups_in(target)
    answer = json.loads(run("backup", "--home", home.directory, target, "--keep", 2, "--json"))
    assert [Path(path) for path in answer["removed"]] == before[1:3]
    assert backups_in(target) == [others, before[3], Path(answer["backup"])]
    assert entries(target) == {path.name for path in backups_in(target)}


def test_a_backup_whose_name_is_ahead_of_time_is_older_than_those_made_after_it(home: Home, tmp_path: Path) -> None:
    target = tmp_path / "backups"
    run("backup", "--home", home.directory, target)
    ahead = target / "2099-01-01T000000Z"
    backups_in(target)[0].rename(ahead)
    grow_more(home)
    second = json.loads(run("backup", "--home", home.directory, target, "--json"))["backup"]
    assert find_backup(target).path == Path(second)
    assert backups_in(target)[-1] == ahead
    third = json.loads(run("backup", "--home", home.directory, target, "--keep", 2, "--json"))
    assert third["removed"] == [str(ahead)]
    assert [each.path for each in readable_backups(target)] == [Path(second), Path(third["backup"])]


def test_a_clock_that_was_ahead_at_the_last_backup_is_told(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "backups"
    monkeypatch.setattr(time, "time", lambda: 4_070_908_800.0)
    assert "the clock was ahead" not in run("backup", "--home", home.directory, target)
    monkeypatch.undo()
    assert "the clock was ahead when" in run("backup", "--home", home.directory, target)


def forget_number(path: Path) -> None:
    """Make it a backup of a version that did not count them."""
    backup = read_backup(path)
    (path / "SHA256SUMS").unlink()
    (path / "backup.json").unlink()
    finish_backup(path, msgspec.structs.replace(backup.facts, number=0), backup.sums)


def test_backups_of_a_version_that_did_not_count_them_have_the_place_of_their_time(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "backups"

    def made(at: int, *options: str) -> Path:
        monkeypatch.setattr(time, "time", lambda: float(at))
        return Path(json.loads(run("backup", "--home", home.directory, target, "--json", *options))["backup"])

    oldest, _, newest = (made(at) for at in (1_000, 2_000, 3_000))
    forget_number(oldest)
    forget_number(newest)
    assert find_backup(target).path == newest
    last = made(4_000, "--keep", "2")
    assert [each.path for each in readable_backups(target)] == [newest, last]


def test_the_latest_backup_with_keys_is_never_removed(home: Home, tmp_path: Path) -> None:
    target = tmp_path / "backups"

    def made(*options: str) -> Path:
        return Path(json.loads(run("backup", "--home", home.directory, target, "--json", *options))["backup"])

    made("--with-keys")
    keys = made("--with-keys")
    made()
    last = made("--keep", "1")
    assert [each.path for each in readable_backups(target)] == [keys, last]
    last = made("--keep", "2")
    assert keys.exists()
    newer_keys = made("--with-keys", "--keep", "1")
    assert backups_in(target) == [newer_keys]


@pytest.fixture
def signed_home(tmp_path: Path) -> Home:
    """A stopped node with a key of its own, which has made a block."""
    made, key = Home(tmp_path / "home"), SigningKey.new()
    made.create(msgspec.structs.replace(store_genesis(), signer=key.public_key), {}, key)
    sign_block_of(made)
    return made


def sign_block_of(home: Home) -> None:
    """Have the home's node make a block."""
    chain = ChainStore.open(home.data_dir, home.read_genesis())
    try:
        signer = BlockSigner(chain, SigningKeys(home.key_files))
        application = Application(chain, Feed(), signer)
        finish(application.write((), chain.head_header.timestamp + 1, ZERO_ADDRESS))
    finally:
        chain.close()


def test_a_backup_with_keys_that_lacks_the_key_is_not_made_and_removes_none(signed_home: Home, tmp_path: Path) -> None:
    target, home = tmp_path / "backups", signed_home
    whole = make_backup(home, target, with_keys=True, keep=1)
    key = home.key_files.current.read_bytes()
    home.key_files.current.unlink()
    for _ in ("it is missing", "it is another"):
        before = backups_in(target)
        told = run("backup", "--home", home.directory, target, "--with-keys", "--keep", 1, code=ExitCode.USAGE)
        assert "does not hold it" in told
        assert backups_in(target) == before
        # A backup without keys is no reason to remove it, either.
        run("backup", "--home", home.directory, target, "--keep", 1)
        assert Path(whole.backup) in backups_in(target)
        SigningKey.new().save(home.key_files.current)
    restore_home(read_backup(Path(whole.backup)), tmp_path / "restored")
    assert Home(tmp_path / "restored").key_files.current.read_bytes() == key
    sign_block_of(Home(tmp_path / "restored"))


def test_a_backup_that_only_says_that_it_has_the_key_is_not_kept_for_it(signed_home: Home, tmp_path: Path) -> None:
    target = tmp_path / "backups"
    whole = make_backup(signed_home, target, with_keys=True, keep=None)
    lying = make_backup(signed_home, target, with_keys=False, keep=None)
    found = read_backup(Path(lying.backup))
    finish_backup(found.path, msgspec.structs.replace(found.facts, has_keys=True), found.sums)
    last = make_backup(signed_home, target, with_keys=False, keep=1)
    assert backups_in(target) == [Path(whole.backup), Path(last.backup)]


def test_a_backup_without_a_key_does_not_say_that_it_has_one_nor_replaces_one_that_has(
    home: Home, tmp_path: Path
) -> None:
    """On a dev chain, whose key is public."""
    target = tmp_path / "backups"
    whole = make_backup(home, target, with_keys=True, keep=None)
    home.key_files.current.unlink()
    last = make_backup(home, target, with_keys=True, keep=1)
    assert (whole.has_keys, last.has_keys) == (True, False)
    assert backups_in(target) == [Path(whole.backup), Path(last.backup)]


@pytest.mark.parametrize("moment", ["before the copy", "before the keys", "after the step, before its file"])
def test_a_backup_beside_a_hand_over_has_the_key_that_its_own_chain_goes_on_with(
    signed_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    home, target = signed_home, tmp_path / "backups"
    old, new = make_successor(home)
    if moment == "before the copy":
        sign_block_of(home)
    elif moment == "after the step, before its file":
        monkeypatch.setattr(SigningKeys, "settle", lambda *_: None)
        sign_block_of(home)
    else:
        copied = make_backup(home, target, with_keys=True, keep=None)
        assert SigningKey.load(Path(copied.backup) / "signing-key.json").public_key == old.public_key
        assert SigningKey.load(Path(copied.backup) / "next-signing-key.json").public_key == new.public_key
        check = backup.checked_copy

        def hand_over_behind_it(*given: Any) -> Any:
            found = check(*given)
            sign_block_of(home)
            return found

        monkeypatch.setattr(backup, "checked_copy", hand_over_behind_it)
        with pytest.raises(InvalidConfig, match="try again"):
            make_backup(home, target, with_keys=True, keep=1)
        assert backups_in(target) == [Path(copied.backup)]
        monkeypatch.undo()
    made = make_backup(home, target, with_keys=True, keep=1)
    monkeypatch.undo()
    assert SigningKey.load(Path(made.backup) / "signing-key.json").public_key == new.public_key
    restore_home(read_backup(Path(made.backup)), tmp_path / "restored")
    sign_block_of(Home(tmp_path / "restored"))


def test_a_damaged_backup_that_may_be_the_latest_is_not_passed_over(home: Home, tmp_path: Path) -> None:
    target = tmp_path / "backups"
    for _ in range(3):
        run("backup", "--home", home.directory, target)
    first, second, third = backups_in(target)
    (first / "backup.json").write_text("{}")
    assert find_backup(target).path == third
    (third / "backup.json").write_text("{}")
    told = run("restore", target, tmp_path / "restored", code=ExitCode.DATA)
    assert str(third / "backup.json") in " ".join(told.split())
    run("restore", second, tmp_path / "restored")


def test_a_directory_with_backups_of_two_chains_has_no_latest_one(home: Home, tmp_path: Path) -> None:
    target = tmp_path / "backups"
    run("backup", "--home", home.directory, target)
    home.genesis_file.write_bytes(encode_genesis(msgspec.structs.replace(store_genesis(), timestamp=1)))
    shutil.rmtree(home.data_dir)
    ChainStore.open(home.data_dir, home.read_genesis()).close()
    Journal.open(home.data_dir / "journal", Watermark.open(home.data_dir / "watermark")).close()
    run("backup", "--home", home.directory, target)
    told = run("restore", target, tmp_path / "restored", code=ExitCode.USAGE)
    assert "has backups of several chains" in " ".join(told.split())
    run("restore", backups_in(target)[0], tmp_path / "restored")


def test_the_home_says_when_its_latest_backup_was_made(home: Home, tmp_path: Path) -> None:
    answer = json.loads(run("backup", "--home", home.directory, tmp_path / "backups", "--json"))
    noted = json.loads((home.directory / "last-backup.json").read_bytes())
    assert noted == {"backup": answer["backup"], "madeAt": answer["madeAt"], "height": BLOCKS}


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_a_flipped_bit_in_any_file_of_a_backup_is_found_and_named(home: Home, tmp_path: Path) -> None:
    run("backup", "--home", home.directory, tmp_path / "backups")
    (path,) = backups_in(tmp_path / "backups")
    files = [file for file in path.rglob("*") if file.is_file() and file.stat().st_size]
    assert len(files) > 10
    for file in files:
        intact = file.read_bytes()
        flip(file, len(intact) // 2)
        told = run("restore", path, tmp_path / "restored", code=ExitCode.DATA)
        assert "nothing was restored" in told
        if file.name != "SHA256SUMS":
            assert file.name in told
        assert entries(tmp_path / "restored") == set()
        file.write_bytes(intact)
    run("restore", path, tmp_path / "restored")


def test_a_backup_with_a_file_too_many_or_too_few_is_refused(home: Home, tmp_path: Path) -> None:
    run("backup", "--home", home.directory, tmp_path / "backups")
    (path,) = backups_in(tmp_path / "backups")
    (path / "priv_validator_state.json").write_text("{}")
    told = run("restore", path, tmp_path / "restored", code=ExitCode.DATA)
    assert "priv_validator_state.json is not in SHA256SUMS" in told
    (path / "priv_validator_state.json").unlink()
    (path / "cairn.toml").unlink()
    assert "cairn.toml" in run("restore", path, tmp_path / "restored", code=ExitCode.DATA)
    (path / "SHA256SUMS").write_text("0" * 64 + "  ../outside\n")
    assert "is not what was written" in run("restore", path, tmp_path / "restored", code=ExitCode.DATA)
    (path / "SHA256SUMS").unlink()
    told = run("restore", tmp_path / "backups", tmp_path / "restored", code=ExitCode.USAGE)
    assert "is not a whole backup" in told


def test_an_existing_home_is_never_overwritten(home: Home, tmp_path: Path) -> None:
    run("backup", "--home", home.directory, tmp_path / "backups")
    before = {path: path.stat().st_mtime_ns for path in home.directory.rglob("*")}
    told = run("restore", tmp_path / "backups", home.directory, code=ExitCode.USAGE)
    assert "is not empty; nothing was written" in told
    assert {path: path.stat().st_mtime_ns for path in home.directory.rglob("*")} == before


def test_what_cannot_be_backed_up_or_restored_says_why(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "backups"
    told = run("backup", "--home", tmp_path / "none", target, code=ExitCode.USAGE)
    assert "genesis.json is missing" in told
    told = run("restore", tmp_path, tmp_path / "restored", code=ExitCode.USAGE)
    assert "is neither a backup nor a directory with backups" in told
    (tmp_path / "file").touch()
    run("backup", "--home", home.directory, tmp_path / "file", code=ExitCode.USAGE)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    told = run("backup", "--home", home.directory, target, code=ExitCode.USAGE)
    assert "run the command as that user" in told
    monkeypatch.undo()
    shutil.rmtree(home.data_dir)
    told = run("backup", "--home", home.directory, target, code=ExitCode.USAGE)
    assert "the node has not run yet, or its disk is not mounted" in told
    home.data_dir.mkdir()
    told = json.loads(run("backup", "--home", home.directory, target, "--json", code=ExitCode.USAGE))
    assert told["detail"].endswith("holds no chain yet")
    assert backups_in(target) == []


def test_a_damaged_node_gives_no_backup(home: Home, tmp_path: Path) -> None:
    (segment,) = (home.data_dir / "journal").glob("*.seg")
    flip(segment, 200)
    told = run("backup", "--home", home.directory, tmp_path / "backups", code=ExitCode.DATA)
    assert "no backup was made" in told
    assert segment.name in told
    assert entries(tmp_path / "backups") == set()


def test_a_backup_that_is_killed_anywhere_leaves_only_whole_ones(home: Home, tmp_path: Path) -> None:
    target = tmp_path / "backups"
    make_backup(home, target, with_keys=False, keep=None)
    grow_more(home)
    points = 0
    for _ in killed_at_each_point(lambda: make_backup(home, target, with_keys=True, keep=1), every=5):
        points += 1
        paths = backups_in(target)
        assert paths, "the one before is kept until the next is whole"
        for path in paths:
            check_files(read_backup(path), lambda size: None)
    assert points > 10
    assert len(entries(target)) == 1, "what the killed ones left is removed"
    assert find_backup(target).facts.height == BLOCKS + 1


def test_a_restore_that_is_killed_anywhere_leaves_no_home_that_starts_or_a_whole_one(
    home: Home, tmp_path: Path
) -> None:
    make_backup(home, tmp_path / "backups", with_keys=True, keep=None)
    backup, place = find_backup(tmp_path / "backups"), Home(tmp_path / "restored")
    points = begun_anew = 0

    def work() -> None:
        restore_home(backup, place.directory)

    for _ in killed_at_each_point(work, every=5):
        points += 1
        if place.genesis_file.exists():
            assert check_data(place.data_dir, store_genesis()).pending == PENDING
            assert place.key_files.current.exists()
            assert place.begun_file.exists()
        else:
            with pytest.raises(InvalidConfig, match=r"genesis\.json is missing"):
                place.read_genesis()
        if entries(place.directory) <= {".restoring"}:
            begun_anew += 1
        else:
            # Somebody may have put something there since: it is not removed by us.
            shutil.rmtree(place.directory)
    assert points > 10
    assert begun_anew > 5, "a restore is begun anew after a kill"
    assert check_data(place.data_dir, store_genesis()).chain.head.height == BLOCKS
    assert ".restoring" not in entries(place.directory)


def test_an_export_leaves_alone_what_has_the_name_of_its_draft(home: Home, tmp_path: Path) -> None:
    other = tmp_path / "chain.part"
    other.write_text("precious")
    told = run("export", tmp_path / "chain", "--home", home.directory, code=ExitCode.USAGE)
    assert "chain.part exists" in " ".join(told.split())
    assert other.read_text() == "precious"
    assert not (tmp_path / "chain").exists()
