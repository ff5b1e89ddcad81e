"""verify.py decides each vector as its author meant, and the vectors are what their generator writes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cairn.domain.genesis import encode_genesis, parse_genesis
from tests.proofs.vectors import PLACE, Case, read_vectors
from tests.proofs.verifiers import report_of
from tests.vectors.proofs.chains import lone
from tests.vectors.proofs.generate import all_vectors, write
from verify import verify as verifier

CASES = read_vectors()
COMMAND = (sys.executable, "-I", str(verifier.__file__))
"""Isolated: without the packages that are installed here."""
FIRST_LINES = {
    "receipt of a legacy payment, signed by one node": "PROVEN",
    "dev chain, receipt": "VALID, BUT NO PROOF: everybody has the key of one who signs",
    "balance raised by a dev chain": (
        "VALID, BUT NO PROOF: everybody has the key of one who signs; balances were set by hand"
    ),
    "balance raised by a dev chain, trusted block": "VALID, BUT NO PROOF: balances were set by hand",
}
"""What every verifier prints first, by vector."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_verify_decides_a_vector_as_meant(case: Case) -> None:
    if case.valid:
        signed = report_of(case).get("signed", {})
        assert ("everybody has the key" in signed) == case.is_public
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


def test_command_prints_what_is_proven_and_ends_with_0(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "trusted block is a descendant")
    code, printed = run(case, tmp_path, "--at", str(case.at))
    first, told = printed.split("\n", 1)
    assert (code, json.loads(told)) == (0, report_of(case))
    assert first == "PROVEN by the block that you trust: no validator's signature was looked at"


def test_statement_names_the_blocks_at_its_ends() -> None:
    said = {case.name: report_of(case) for case in CASES if case.valid and case.name.startswith("ends of 4 to 6")}
    heights = {name: [block["height"] for block in report["ends"]] for name, report in said.items()}
    assert heights["ends of 4 to 6: 3, 4, 6, 7"] == [3, 4, 6, 7]
    assert heights["ends of 4 to 6: none"] == []
    times = [block["time"] for block in said["ends of 4 to 6: 3, 4, 6, 7"]["ends"]]
    assert times == [lone().blocks[height].time for height in (3, 4, 6, 7)]


def test_first_line_says_that_a_dev_chain_proves_nothing(tmp_path: Path) -> None:
    for name, said in FIRST_LINES.items():
        case = next(case for case in CASES if case.name == name)
        options = ["--at", case.at] if case.at else []
        code, printed = run(case, tmp_path, *options)
        assert (code, printed.split("\n")[0]) == (0, said)


def test_command_prints_why_nothing_is_proven_and_ends_with_1(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "payment of another amount")
    assert run(case, tmp_path) == (1, "NOT PROVEN: the payment is not in the tree\n")


def test_command_for_a_file_that_is_not_there_ends_with_1(tmp_path: Path) -> None:
    done = subprocess.run([*COMMAND, tmp_path / "none", tmp_path / "none"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("NOT PROVEN: ")


@pytest.mark.parametrize(("name", "code"), [("trusted block is a descendant", 0), ("payment of another amount", 1)])
def test_command_whose_reader_went_away_says_by_its_code_alone_what_is_proven(
    name: str, code: int, tmp_path: Path
) -> None:
    case = next(case for case in CASES if case.name == name)
    genesis, file = saved(case, tmp_path)
    reader, writer = os.pipe()
    os.close(reader)
    options = ["--at", case.at] if case.at else []
    done = subprocess.run([*COMMAND, genesis, file, *options], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (code, b"")


def test_command_with_an_empty_witness_or_trusted_block_proves_nothing(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.valid and case.at is None and case.witness is None)
    code, printed = run(case, tmp_path, "--witness", "")
    assert (code, printed) == (1, "NOT PROVEN: the witness did not sign a block of the file\n")
    assert run(case, tmp_path, "--at", "") == (1, "NOT PROVEN: the trusted block is not in the file\n")


def saved(case: Case, directory: Path) -> tuple[Path, Path]:
    genesis, file = directory / "genesis.json", directory / "file.json"
    genesis.write_bytes(case.genesis)
    file.write_bytes(case.file)
    return genesis, file


def run(case: Case, directory: Path, *options: str) -> tuple[int, str]:
    genesis, file = saved(case, directory)
    done = subprocess.run([*COMMAND, genesis, file, *options], capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.returncode, done.stdout
