"""Changes of validators in snapshots: every node gives the same bytes, and nobody believes forged or missing ones."""

import hashlib
import json
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest

from cairn.domain.certificates import Step, check_certificate, first_validators
from cairn.domain.errors import InvalidSnapshot
from cairn.domain.governance import Governance
from cairn.engine.network.certificates import Certificates
from cairn.engine.network.commits import signed_header
from cairn.engine.network.steps import NONE_MISSING, ValidatorSteps
from cairn.store import snapshot, snapshot_steps
from cairn.store.chain import ChainStore
from cairn.store.directory import snapshots_path
from cairn.store.snapshot_steps import RestoredSteps, cut_steps
from tests.support.core_fixtures import signed
from tests.support.signed_chain import FOUR, SignedChain
from tests.support.snapshots import Parcel, restore_snapshot, take_snapshot

CHANGES = [FOUR | {4: 10}, FOUR | {4: 30}, {1: 10, 2: 10, 3: 10, 4: 30}]


@pytest.fixture
async def chain(tmp_path: Path) -> AsyncIterator[SignedChain]:
    """Three changes of validators, and a payment in the block after the last."""
    chain = SignedChain(tmp_path / "data")
    for powers in CHANGES:
        chain.decide(powers=powers)
    chain.decide(signed(0))
    chain.decide()
    await chain.steps.collect()
    yield chain
    chain.store.close()


@pytest.fixture
def joining(tmp_path: Path, chain: SignedChain) -> ChainStore:
    return ChainStore.open(tmp_path / "joining", chain.genesis)


def lines_of(chain: SignedChain) -> list[bytes]:
    return list(chain.store.step_records(chain.store.visible))


def governance_of(chain: SignedChain) -> Governance:
    assert chain.store.governance is not None
    return chain.store.governance


async def test_a_node_that_starts_from_a_snapshot_proves_blocks_from_genesis(
    chain: SignedChain, joining: ChainStore
) -> None:
    parcel = take_snapshot(chain.store)
    assert parcel.manifest.steps_bytes == sum(len(line) + 1 for line in lines_of(chain))
    restore_snapshot(joining, parcel)
    steps = ValidatorSteps(joining, chain.rpc, lambda: None)
    assert steps.oldest_missing == NONE_MISSING
    chain.rpc.base = joining.visible + 1
    proven = check_certificate(await Certificates(joining, steps, chain.rpc).certificate(None), chain.genesis)
    assert (proven.header.height, proven.changes) == (joining.visible, 3)
    # It passes the same snapshot on.
    assert take_snapshot(joining) == parcel
    joining.close()


async def test_a_change_in_the_snapshots_own_block_comes_from_the_nodes_own_cometbft(tmp_path: Path) -> None:
    chain = SignedChain(tmp_path / "changing")
    for powers in CHANGES:
        changed = chain.decide(powers=powers)
    chain.decide()
    await chain.steps.collect()
    parcel = take_snapshot(chain.store, changed)
    chain.decide()
    await chain.steps.collect()
    # Also if the last step is stored before the snapshot is taken.
    shutil.rmtree(snapshots_path(chain.store.directory))
    assert take_snapshot(chain.store, changed) == parcel
    joining = ChainStore.open(tmp_path / "joining", chain.genesis)
    restore_snapshot(joining, parcel)
    steps = ValidatorSteps(joining, chain.rpc, lambda: None)
    assert (len(joining.steps()), steps.oldest_missing) == (2, changed)
    chain.rpc.base = changed + 1
    await steps.collect()
    assert joining.steps() == chain.store.steps()
    joining.close()
    chain.store.close()


@pytest.mark.parametrize("part_bytes", [1, 100, 3_000, 10**6])
async def test_steps_are_cut_into_full_parts_and_put_together_again(chain: SignedChain, part_bytes: int) -> None:
    parts = list(cut_steps(iter(lines_of(chain)), part_bytes))
    assert all(len(part) == part_bytes for part in parts[:-1])
    assert 0 < len(parts[-1]) <= part_bytes
    restored = RestoredSteps(chain.genesis, 5)
    for part in parts:
        restored.add(part)
    restored.finish(governance_of(chain))
    assert [record for _, record in restored.records] == lines_of(chain)


async def test_without_changes_there_is_no_part(tmp_path: Path) -> None:
    chain = SignedChain(tmp_path / "data")
    chain.decide(signed(0))
    parcel = take_snapshot(chain.store)
    assert parcel.manifest.steps_bytes == 0
    joining = ChainStore.open(tmp_path / "joining", chain.genesis)
    restore_snapshot(joining, parcel)
    assert joining.steps() == []
    joining.close()
    chain.store.close()


def altered(line: bytes, alter: Callable[[dict[str, object]], object]) -> bytes:
    fields = json.loads(line)
    alter(fields)
    return msgspec.json.encode(fields)


def drop_signatures(fields: dict[str, object]) -> None:
    fields["signed"]["signatures"][:2] = []  # type: ignore[index]


def raise_power(fields: dict[str, object]) -> None:
    fields["validators"][0]["power"] += 1  # type: ignore[index]


FORGED: dict[str, tuple[Callable[[list[bytes]], list[bytes]], str]] = {
    "the last left out": (lambda lines: lines[:-1], "up to its block there were"),
    "the first left out": (lambda lines: lines[1:], "not proven: a signed header of other validators"),
    "all left out": (lambda lines: [], "up to its block there were"),
    "one given twice": (lambda lines: [lines[0], lines[0], *lines[1:]], "not proven"),
    "two in another order": (lambda lines: [lines[1], lines[0], lines[2]], "not proven"),
    "too few signatures": (lambda lines: [altered(lines[0], drop_signatures), *lines[1:]], "more than two thirds"),
    "another power": (lambda lines: [altered(lines[0], raise_power), *lines[1:]], "not those that its header names"),
    "spaces": (lambda lines: [lines[0].replace(b":", b": ", 1), *lines[1:]], "one canonical form"),
    "one more key": (lambda lines: [b'{"x":1,' + lines[0][1:], *lines[1:]], "one canonical form"),
    "no JSON": (lambda lines: [b"x", *lines], "cannot be read"),
    "an empty line": (lambda lines: [*lines, b""], "cannot be read"),
}


@pytest.mark.parametrize("name", FORGED)
async def test_forged_steps_are_refused(chain: SignedChain, name: str) -> None:
    forge, why = FORGED[name]
    restored = RestoredSteps(chain.genesis, 5)
    with pytest.raises(InvalidSnapshot, match=why):
        take_in(restored, forge(lines_of(chain)), governance_of(chain))


def take_in(restored: RestoredSteps, lines: list[bytes], governance: Governance) -> None:
    for line in lines:
        restored.add(line + b"\n")
    restored.finish(governance)


async def test_a_line_without_its_end_is_refused(chain: SignedChain) -> None:
    *lines, last = lines_of(chain)
    restored = RestoredSteps(chain.genesis, 5)
    restored.add(b"".join(line + b"\n" for line in lines) + last)
    with pytest.raises(InvalidSnapshot, match="end in the middle of one"):
        restored.finish(governance_of(chain))


async def test_a_step_of_a_later_block_is_refused(chain: SignedChain) -> None:
    with pytest.raises(InvalidSnapshot, match="not in its place"):
        take_in(RestoredSteps(chain.genesis, 3), lines_of(chain), governance_of(chain))


async def test_a_line_without_end_takes_no_memory(chain: SignedChain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_steps, "LONGEST_STEP_BYTES", 100)
    restored = RestoredSteps(chain.genesis, 5)
    restored.add(b"x" * 100)
    with pytest.raises(InvalidSnapshot, match="more than 100 bytes"):
        restored.add(b"x")


async def test_a_snapshot_whose_steps_are_forged_leaves_nothing_behind(chain: SignedChain, joining: ChainStore) -> None:
    parcel = take_snapshot(chain.store)
    shorter = lines_of(chain)[0] + b"\n"
    with pytest.raises(InvalidSnapshot, match="has 1 changes of validators"):
        restore_snapshot(joining, with_steps(parcel, shorter))
    assert joining.steps() == []
    assert joining.visible == 0
    # The true one is taken after it.
    restore_snapshot(joining, parcel)
    assert joining.steps() == chain.store.steps()
    joining.close()


async def test_an_ordinary_header_in_the_place_of_a_change_is_refused_and_the_node_starts_from_another_snapshot(
    tmp_path: Path,
) -> None:
    chain = SignedChain(tmp_path / "data")
    chain.decide(signed(0))
    chain.decide(powers=CHANGES[0])
    for nonce in (1, 2):
        chain.decide(signed(nonce))
    await chain.steps.collect()
    commit = await chain.rpc.commit(2)
    assert commit is not None
    before = first_validators(chain.genesis)
    # As anybody has it who asks any node: those who sign say that they go on.
    unchanged = Step(await signed_header(commit, before, chain.engine_id), before)
    line = msgspec.json.encode(unchanged) + b"\n"
    parcel = take_snapshot(chain.store)
    joining = ChainStore.open(tmp_path / "joining", chain.genesis)
    with pytest.raises(InvalidSnapshot, match="changes nothing"):
        restore_snapshot(joining, with_steps(parcel, line))
    assert (joining.steps(), joining.visible) == ([], 0)
    restore_snapshot(joining, parcel)
    ValidatorSteps(joining, chain.rpc, lambda: None)
    assert joining.steps() == chain.store.steps()
    joining.close()
    chain.store.close()


async def test_changes_that_lead_to_other_validators_than_the_blocks_are_refused(chain: SignedChain) -> None:
    truth = governance_of(chain)
    other = msgspec.structs.replace(truth, validators=truth.validators[1:])
    with pytest.raises(InvalidSnapshot, match="do not lead to those of its block"):
        take_in(RestoredSteps(chain.genesis, 5), lines_of(chain), other)


async def test_a_part_of_another_size_than_the_manifest_says_is_refused(
    chain: SignedChain, joining: ChainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    parcel = take_snapshot(chain.store)
    manifest = msgspec.structs.replace(parcel.manifest, steps_bytes=parcel.manifest.steps_bytes + 1)
    with pytest.raises(InvalidSnapshot, match="by its manifest it has"):
        restore_snapshot(joining, with_manifest(parcel, manifest))
    for wrong in (-1, 2 * snapshot.CHUNK_BYTES):
        manifest = msgspec.structs.replace(parcel.manifest, steps_bytes=wrong)
        with pytest.raises(InvalidSnapshot, match="it must have|bytes of changes"):
            restore_snapshot(joining, with_manifest(parcel, manifest))
    joining.close()


def with_manifest(parcel: Parcel, manifest: snapshot.Manifest) -> Parcel:
    return Parcel(manifest, parcel.trusted, parcel.chunks)


def with_steps(parcel: Parcel, steps: bytes) -> Parcel:
    """With others in its last part, and a manifest that says so."""
    digests = (*parcel.manifest.chunks[:-1], hashlib.sha256(steps).digest())
    manifest = msgspec.structs.replace(parcel.manifest, steps_bytes=len(steps), chunks=digests)
    return Parcel(manifest, parcel.trusted, [*parcel.chunks[:-1], steps])
