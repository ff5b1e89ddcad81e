"""A verification of whole and damaged data directories, of stopped nodes and beside one that writes."""

import shutil
from collections import defaultdict
from pathlib import Path

import pytest

from cairn.domain.errors import WrongGenesis
from cairn.domain.genesis import dev_genesis
from cairn.domain.transition import build_block
from cairn.domain.types import ZERO_ADDRESS, Address
from cairn.store import keys
from cairn.store.chain import ChainStore
from cairn.store.directory import chain_path, journal_path, watermark_path
from cairn.store.rocks import Database, WriteBatch
from cairn.store.verification import verification
from cairn.store.verification.families import Range, check_steps_of
from cairn.store.verification.findings import Findings
from cairn.store.verification.verification import verify_directory
from cairn.store.watermark import NOTHING_YET, Watermark
from tests.support.audit import audit
from tests.support.core_fixtures import signed
from tests.support.damaged_homes import make_blocks
from tests.support.disk import bounds_of, database_of
from tests.support.signing import commit_signed
from tests.support.verified_homes import (
    VerifiedHome,
    lone_home,
    network_home,
    pruned_home,
    restored_home,
    verified_homes,
)


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, VerifiedHome]:
    return dict(verified_homes(tmp_path_factory.mktemp("homes")))


@pytest.mark.parametrize("name", ["lone", "pruned", "network", "restored"])
def test_a_whole_home_has_no_findings_and_the_naive_audit_agrees(homes: dict[str, VerifiedHome], name: str) -> None:
    home = homes[name]
    verdict = verify_directory(home.directory, home.genesis)
    assert verdict.findings == []
    chain = ChainStore.open(home.directory, home.genesis)
    assert audit(chain) == verdict.oldest == verdict.first
    assert (verdict.head, verdict.head_hash, verdict.executed) == (chain.visible, chain.head_hash, chain.visible)
    chain.close()


def test_two_processes_find_the_same_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = lone_home(tmp_path / "data")
    corrupt(home, keys.TX_INDEX, signed(8, data=b"the last one with data").hash, bytes(12))
    monkeypatch.setattr(verification, "FEW_CHUNKS", 0)
    alone, both = (verify_directory(home.directory, home.genesis, processes=count) for count in (1, 2))
    assert alone.finding_count == both.finding_count == 1
    assert alone.findings == both.findings
    assert (alone.transactions, alone.accounts) == (both.transactions, both.accounts)


def test_a_verification_from_a_later_block_leaves_out_what_is_before_it(tmp_path: Path) -> None:
    home = lone_home(tmp_path / "data")
    corrupt(home, keys.BLOCK_INDEX, block_hash(home, 2), bytes(8))
    assert verify_directory(home.directory, home.genesis, first=3).findings == []
    [finding] = verify_directory(home.directory, home.genesis, first=2).findings
    assert (finding.part, finding.height) == (keys.BLOCK_INDEX, 2)


def test_blocks_behind_a_damaged_one_are_executed_all_the_same(tmp_path: Path) -> None:
    home = lone_home(tmp_path / "data")
    chunk = keys.encode_location(3, 0)
    record = bytearray(entry(home, keys.TXS, chunk))
    record[150] ^= 1
    corrupt(home, keys.TXS, chunk, bytes(record))
    later = keys.version_key(signed(0, sender=5).sender, 6)
    corrupt(home, keys.ACCOUNTS, later, bytes(len(entry(home, keys.ACCOUNTS, later))))
    verdict = verify_directory(home.directory, home.genesis)
    assert verdict.executed == verdict.head
    assert {(finding.part, finding.height) for finding in verdict.findings} >= {(keys.TXS, 3), (keys.ACCOUNTS, 6)}
    assert {finding.height for finding in verdict.findings} == {3, 6}


def test_an_account_that_got_a_new_one_behind_it_is_verified_when_it_is_touched_again(tmp_path: Path) -> None:
    chain = ChainStore.open(tmp_path, dev_genesis())
    one, behind = Address(bytes(19) + b"\x01"), Address(bytes(19) + b"\x02")
    for balances in ({one: 1}, {behind: 1}, {one: 2}):
        header, rules = chain.head_header, chain.genesis.rules
        made = build_block(
            header, chain.head_hash, chain, [], header.timestamp + 1, ZERO_ADDRESS, rules, balances=balances
        )
        commit_signed(chain, made)
    chain.close()
    verdict = verify_directory(tmp_path, dev_genesis())
    assert (verdict.findings, verdict.executed) == ([], 3)


@pytest.mark.parametrize("family", [keys.TX_INDEX, keys.ACCOUNTS])
def test_entries_of_a_block_that_changed_places_are_found_and_named(tmp_path: Path, family: str) -> None:
    home = lone_home(tmp_path / "data")
    height, (one, other) = two_of_a_block(home, family)
    corrupt(home, family, one, entry(home, family, other))
    findings = verify_directory(home.directory, home.genesis).findings
    assert [(finding.part, finding.height) for finding in findings] == [(family, height)]
    assert one[:20].hex() in findings[0].detail


@pytest.mark.parametrize("family", [keys.TX_INDEX, keys.ACCOUNTS])
def test_an_entry_too_many_of_a_block_is_found(tmp_path: Path, family: str) -> None:
    home = lone_home(tmp_path / "data")
    _, (one, _) = two_of_a_block(home, family)
    corrupt(home, family, b"another one" + one[11:], entry(home, family, one))
    [finding] = verify_directory(home.directory, home.genesis).findings
    assert finding.part == family
    assert "follow from the blocks" in finding.detail


def test_another_chain_s_genesis_is_refused(tmp_path: Path) -> None:
    home = lone_home(tmp_path / "data")
    with pytest.raises(WrongGenesis, match="belongs to genesis"):
        verify_directory(home.directory, dev_genesis(chain_id=7))


def test_beside_a_writer_the_blocks_at_its_beginning_are_verified(tmp_path: Path) -> None:
    chain = ChainStore.open(tmp_path, dev_genesis())
    make_blocks(chain, 0, 5)

    def go_on(done: int, total: int) -> None:
        make_blocks(chain, chain.visible, 1)

    verdict = verify_directory(tmp_path, dev_genesis(), report=go_on)
    assert verdict.findings == []
    assert verdict.is_running
    assert verdict.head == 5 < chain.visible
    again = verify_directory(tmp_path, dev_genesis())
    assert (again.findings, again.head) == ([], chain.visible)
    chain.close()
    assert not verify_directory(tmp_path, dev_genesis()).is_running


def test_a_block_that_was_written_but_not_announced_before_a_kill_is_verified_too(tmp_path: Path) -> None:
    home = lone_home(tmp_path / "data")
    whole = verify_directory(home.directory, home.genesis)
    Watermark.create(watermark_path(home.directory), NOTHING_YET._replace(height=whole.head - 1))
    shutil.rmtree(journal_path(home.directory))
    verdict = verify_directory(home.directory, home.genesis)
    assert (verdict.findings, verdict.head, verdict.head_hash) == ([], whole.head, whole.head_hash)
    ChainStore.open(home.directory, home.genesis).close()


def test_a_watermark_that_a_power_loss_left_behind_the_pruning_is_no_damage(tmp_path: Path) -> None:
    home = pruned_home(tmp_path / "data")
    Watermark.create(watermark_path(home.directory), bounds_of(home.directory)._replace(oldest=0))
    verdict = verify_directory(home.directory, home.genesis)
    assert (verdict.findings, verdict.oldest) == ([], 4)


@pytest.mark.parametrize("height", range(1, 9))
def test_a_chain_that_began_with_a_snapshot_of_any_height_is_whole(tmp_path: Path, height: int) -> None:
    home = restored_home(tmp_path / "data", height)
    assert verify_directory(home.directory, home.genesis).findings == []


def test_a_change_of_validators_by_a_block_that_was_made_meanwhile_is_passed_over(tmp_path: Path) -> None:
    home = network_home(tmp_path / "data")
    chain = ChainStore.open(home.directory, home.genesis)
    [(_, first), (changed, second)] = chain.governance_from(1)
    steps = chain.steps()
    assert len(steps) == 2
    for last, governance, expected in ((changed - 1, first, steps[:1]), (changed, second, steps)):
        found, blocks = Findings(), Range(0, last, 0, is_running=True, is_restoring=False)
        assert check_steps_of(database_of(chain), home.genesis, blocks, governance, found) == expected
        assert found.kept == []
    chain.close()


def two_of_a_block(home: VerifiedHome, family: str) -> tuple[int, list[bytes]]:
    """The height of the newest block that has several entries, and the keys of two of these."""
    by_height = defaultdict(list)
    database = Database.open_read_only(chain_path(home.directory), strict=True)
    for key, value in database.walk(family):
        at = keys.decode_version_key(key)[1] if family == keys.ACCOUNTS else keys.decode_location(value)[0]
        by_height[at].append(key)
    database.close()
    height = max(height for height, found in by_height.items() if len(found) > 1)
    return height, by_height[height][:2]


def entry(home: VerifiedHome, family: str, key: bytes) -> bytes:
    database = Database.open_read_only(chain_path(home.directory), strict=True)
    value = database.get(family, key)
    database.close()
    assert value is not None
    return value


def block_hash(home: VerifiedHome, height: int) -> bytes:
    return entry(home, keys.HEADERS, keys.encode_height(height))[:32]


def corrupt(home: VerifiedHome, family: str, key: bytes, value: bytes) -> None:
    database = Database.open_primary(chain_path(home.directory), strict=True)
    batch = WriteBatch(database)
    batch.put(family, key, value)
    database.write(batch)
    database.close()
