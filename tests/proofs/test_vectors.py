"""verify.py decides each vector as its author meant, and the vectors are what their generator writes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cairn.domain.genesis import encode_genesis, parse_genesis
from tests.proofs.vectors import PLACE, Case, handed_over_by_a_dev_chain, read_vectors
from tests.vectors.proofs.generate import all_vectors, write
from verify import verify as verifier

CASES = read_vectors()
COMMAND = (sys.executable, "-I", str(verifier.__file__))
"""Isolated: without the packages that are installed here."""


def report_of(case: Case) -> dict[str, Any]:
    at = None
    if case.at is not None:
        height, block_hash = case.at.split(":")
        at = (int(height), bytes.fromhex(block_hash[2:]))
    witness = bytes.fromhex(case.witness[2:]) if case.witness is not None else None
    return verifier.verify(case.genesis, case.file, at, witness)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_verify_decides_a_vector_as_meant(case: Case) -> None:
    if case.valid:
        report_of(case)
        return
    with pytest.raises(verifier.NotProven):
        report_of(case)


def test_generator_writes_the_vectors_that_are_here(tmp_path: Path) -> None:
    write(all_vectors(), tmp_path)
    written = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*.json")}
    kept = {path.relative_to(PLACE): path.read_bytes() for path in PLACE.rglob("*.json")}
    assert written == kept


def test_vectors_are_valid_files_of_every_kind_and_more_than_fifty_invalid_ones() -> None:
    kinds = {report_of(case)["kind"] for case in CASES if case.valid}
    assert kinds == {"finality", "receipt", "account", "statement", "history"}
    assert sum(not case.valid for case in CASES) > 300


@pytest.mark.parametrize("genesis", sorted({case.genesis for case in CASES if case.valid}), ids=len)
def test_genesis_of_a_vector_is_as_cairn_init_writes_it(genesis: bytes) -> None:
    assert encode_genesis(parse_genesis(genesis)) == genesis


def test_report_says_that_everybody_has_the_key_also_after_it_handed_over() -> None:
    case = handed_over_by_a_dev_chain()
    assert report_of(case)["signed"]["everybody has the key"] is True


def test_command_prints_what_is_proven_and_ends_with_0(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "trusted block is a descendant")
    code, printed = run(case, tmp_path, "--at", str(case.at))
    assert (code, json.loads(printed)) == (0, report_of(case))


def test_command_prints_why_nothing_is_proven_and_ends_with_1(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "payment of another amount")
    assert run(case, tmp_path) == (1, "NOT PROVEN: the payment is not in the tree\n")


def test_command_for_a_file_that_is_not_there_ends_with_1(tmp_path: Path) -> None:
    done = subprocess.run([*COMMAND, tmp_path / "none", tmp_path / "none"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("NOT PROVEN: ")


def run(case: Case, directory: Path, *options: str) -> tuple[int, str]:
    genesis, file = directory / "genesis.json", directory / "file.json"
    genesis.write_bytes(case.genesis)
    file.write_bytes(case.file)
    done = subprocess.run([*COMMAND, genesis, file, *options], capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.returncode, done.stdout
