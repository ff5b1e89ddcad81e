"""Data of each format that a version has written is opened today, or there is a way: with the same head hash."""

import json
import zipfile
from pathlib import Path

import pytest

from cairn.build import DATA_FORMAT
from cairn.domain.errors import WrongFormat
from cairn.domain.genesis import parse_genesis
from cairn.store.chain import ChainStore
from cairn.store.chain_import import ExportReader, import_chain
from cairn.store.directory import check_format
from cairn.store.verification.verification import verify_directory
from tests.support.format_samples import KINDS, make_sample, sample_numbers, sample_path

SAMPLES = [(number, kind) for number in sample_numbers() for kind in KINDS]


def unpacked(number: int, kind: str, directory: Path) -> Path:
    with zipfile.ZipFile(sample_path(number)) as sample:
        sample.extractall(directory)
    return directory / kind


def test_todays_format_has_a_sample() -> None:
    assert DATA_FORMAT in sample_numbers(), "run `python -m tests.support.format_samples` in the commit of a format"


@pytest.mark.parametrize(("number", "kind"), SAMPLES)
def test_a_directory_is_opened_or_refused_with_the_way_on(number: int, kind: str, tmp_path: Path) -> None:
    home = unpacked(number, kind, tmp_path)
    if number != DATA_FORMAT:
        with pytest.raises(WrongFormat, match="cairn export"):
            check_format(home / "data")
        return
    expected = json.loads((home / "expected.json").read_bytes())
    genesis = parse_genesis((home / "genesis.json").read_bytes())
    chain = ChainStore.open(home / "data", genesis)
    assert (chain.visible, chain.head_hash.hex()) == (expected["height"], expected["hash"])
    chain.close()
    verdict = verify_directory(home / "data", genesis)
    assert (verdict.findings, verdict.pending) == ([], expected["pending"])


@pytest.mark.parametrize(("number", "kind"), SAMPLES)
def test_an_export_is_imported_with_the_same_head(number: int, kind: str, tmp_path: Path) -> None:
    home = unpacked(number, kind, tmp_path)
    expected = json.loads((home / "expected.json").read_bytes())
    with (home / "chain.ndjson").open("rb") as lines:
        reader = ExportReader(lines)
        done = import_chain(reader, tmp_path / "data")
    assert (done.head, done.head_hash.hex(), done.pending) == (
        expected["height"],
        expected["hash"],
        expected["pending"],
    )
    assert verify_directory(tmp_path / "data", reader.genesis).findings == []


def test_a_sample_that_is_there_is_not_made_anew() -> None:
    with pytest.raises(FileExistsError):
        make_sample(sample_path(DATA_FORMAT))
