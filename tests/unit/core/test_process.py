"""A core process whose disk refuses, and one whose disk lies."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest

from cairn.core.gateway import PendingTx
from cairn.core.process import checks_after, run_core
from cairn.domain.errors import (
    Corrupt,
    InvalidField,
    JournalUnavailable,
    NodeError,
    StoreUnavailable,
)
from cairn.domain.genesis import dev_genesis
from cairn.domain.types import Address, Draft
from cairn.store import directory
from cairn.store.chain import ChainStore
from cairn.store.directory import SeenChain
from cairn.store.journal import Journal
from tests.support.core_fixtures import ACCOUNTS, GWEI, KEYS, opened_core, settings, signed
from tests.support.linked_core import linked
from tests.support.pace import PATIENCE_S

pytestmark = pytest.mark.virtual_time


def refuse(file: int) -> None:
    raise OSError(28, "No space left on device")


async def test_a_disk_that_refuses_closes_the_node_until_it_takes_writes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with linked(tmp_path) as (client, heard, _core):
        await client.submit(signed(0))
        monkeypatch.setattr(os, "fdatasync", refuse)
        with pytest.raises(StoreUnavailable, match="No space left"):
            await client.submit(signed(1))
        await heard.until("phase", "unavailable")
        with pytest.raises(StoreUnavailable, match="No space left"):
            await client.submit(signed(1))
        # What it has accepted it still knows; of what it could not write it does not say that it is pending.
        assert isinstance(await client.find_tx(signed(0).hash), PendingTx)
        for unsure in (signed(1).hash, signed(7).hash):
            with pytest.raises(StoreUnavailable):
                await client.find_tx(unsure)
        assert [item.tx for item in (await client.list_pending(10, None, None)).items] == [signed(0)]
        assert (await client.status()).pending == 1
        assert [await client.next_nonce(account) for account in ACCOUNTS[:2]] == [1, 0]
        checks = await client.check()
        assert "No space left" in checks.mempool
        assert "closed until" in checks.store
        assert (await client.status()).phase == "unavailable"
        monkeypatch.undo()
        heard.notices.clear()
        await heard.until("phase", "ready")
        assert isinstance(await client.find_tx(signed(0).hash), PendingTx)
        await client.submit(signed(1))
        assert (await client.check()).mempool == "ok"


async def test_a_check_that_fails_turns_the_node_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with linked(tmp_path) as (client, heard, _core):
        monkeypatch.setattr(os, "fdatasync", refuse)
        assert "No space left" in (await client.check()).mempool
        await heard.until("phase", "unavailable")
        monkeypatch.undo()
        heard.notices.clear()
        await heard.until("phase", "ready")


async def test_a_disk_about_to_be_full_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with linked(tmp_path) as (client, heard, _core):
        await client.submit(signed(0))
        monkeypatch.setattr(directory, "LEAST_FREE_BYTES", 1 << 62)
        assert "bytes left" in (await client.check()).store
        await heard.until("phase", "unavailable")
        assert "bytes left" in (await client.check()).store
        monkeypatch.undo()
        heard.notices.clear()
        await heard.until("phase", "ready")
        assert isinstance(await client.find_tx(signed(0).hash), PendingTx)


async def test_a_directory_that_vanishes_closes_the_node_until_it_is_back(tmp_path: Path) -> None:
    data_dir, aside = tmp_path / "data", tmp_path / "aside"
    async with linked(tmp_path) as (client, heard, _core):
        await client.submit(signed(0))
        height = await client.mine()
        await client.submit(signed(1))
        shutil.copytree(data_dir, aside)
        shutil.rmtree(data_dir)
        with pytest.raises(StoreUnavailable, match="was removed"):
            await client.submit(signed(2))
        await heard.until("phase", "unavailable")
        heard.notices.clear()
        # Said again, with the reason, when it is opened anew in vain.
        await heard.until("phase", "unavailable")
        assert "is gone" in (await client.status()).reason
        assert not data_dir.exists()
        aside.rename(data_dir)
        await heard.until("phase", "ready")
        assert (await client.status()).head == height
        assert isinstance(await client.find_tx(signed(1).hash), PendingTx)


def damaged(*_: object) -> None:
    raise Corrupt("block 7 is not what was written")


@pytest.mark.parametrize(("part", "method"), [(Journal, "sync"), (ChainStore, "account")])
async def test_damage_met_by_a_submission_ends_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: type, method: str
) -> None:
    with pytest.raises(Corrupt, match="block 7"):  # noqa: PT012
        async with linked(tmp_path) as (client, _, core):
            monkeypatch.setattr(part, method, damaged)
            with pytest.raises(NodeError):
                await client.submit(signed(0))
            await asyncio.wait([core], timeout=PATIENCE_S)
            assert core.done()


async def test_damage_met_by_a_question_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Corrupt, match="block 7"):  # noqa: PT012
        async with linked(tmp_path) as (client, _, core):
            monkeypatch.setattr(ChainStore, "find_location", damaged)
            with pytest.raises(NodeError, match="block 7"):
                await client.find_tx(signed(0).hash)
            await asyncio.wait([core], timeout=PATIENCE_S)
            assert core.done()


async def test_a_fault_of_ours_in_a_callback_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError):  # noqa: PT012
        async with linked(tmp_path) as (client, _, core):
            monkeypatch.setattr(Journal, "sync", broken)
            with pytest.raises(StoreUnavailable):
                await client.submit(signed(0))
            await asyncio.wait([core], timeout=PATIENCE_S)
            assert core.done()


async def test_refusals_of_the_callers_fault_end_nothing(tmp_path: Path) -> None:
    async with linked(tmp_path) as (client, _, core):
        with pytest.raises(InvalidField):
            await client.submit_draft(Draft(Address(bytes(20)), ACCOUNTS[0], 1, 21_000, GWEI, 0))
        await client.submit(signed(0))
        assert not core.done()


def test_the_failing_part_is_named() -> None:
    assert checks_after(JournalUnavailable("cannot write j")).mempool == "cannot write j"
    assert checks_after(StoreUnavailable("cannot write s")).store == "cannot write s"


def damage_journal(directory: Path) -> Path:
    """Change a byte of an accepted transaction. Returns the segment."""

    async def accept() -> None:
        async with opened_core(directory) as core:
            await core.submit(signed(3))
            await core.submit(signed(5))

    asyncio.run(accept())
    [segment] = sorted((directory / "journal").iterdir())
    content = bytearray(segment.read_bytes())
    at = content.index(signed(3).hash) + 40
    content[at] ^= 1
    segment.write_bytes(content)
    return segment


def exit_code_of_core(directory: Path) -> int:
    lifeline, keep = os.pipe()
    try:
        return run_core(
            dev_genesis(), directory, settings(), directory / "core.sock", KEYS, lifeline, None, SeenChain()
        )
    finally:
        os.close(lifeline)
        os.close(keep)


def test_a_damaged_journal_stops_the_node_with_its_place(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    segment = damage_journal(tmp_path)
    assert exit_code_of_core(tmp_path) == 3
    message = capfd.readouterr().err
    assert "Corrupt" in message
    assert segment.name in message


def test_a_damaged_journal_ends_it_also_when_nobody_reads_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damage_journal(tmp_path)
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", buffering=1) as unread:
        monkeypatch.setattr(sys, "stderr", unread)
        assert exit_code_of_core(tmp_path) == 3
        # What is left in its buffer can be written nowhere.
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), writer)
