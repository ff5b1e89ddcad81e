"""The verifier in Go decides each vector of proof files as its author meant, and altered files as the others do."""

import random
import subprocess
from pathlib import Path

import pytest

from tests.interop.conftest import OFFLINE_GO, run
from tests.proofs.mutations import mutate, valid_files
from tests.proofs.vectors import Case, read_vectors
from tests.proofs.verifiers import VERIFY_GO, ask_go, ask_python, build_go, remember_signatures

CASES = read_vectors()
RUBBISH = (b"", b"{}", b"[]", b"null", b"7", b'"a"', b"[" * 100_000, b"\xff\xfe", b'{"certificate": []}')


@pytest.fixture(scope="module")
def program(go: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run([go, "vet", "."], VERIFY_GO, OFFLINE_GO)
    assert run([Path(go).with_name("gofmt"), "-l", "."], VERIFY_GO) == ""
    return build_go(go, tmp_path_factory.mktemp("verify"))


def test_verifier_decides_each_vector_as_meant(program: Path) -> None:
    said = ask_go(program, CASES)
    assert [case.name for case, is_valid in zip(CASES, said, strict=True) if case.valid != is_valid] == []


def test_what_is_no_proof_is_refused_and_never_fails(program: Path) -> None:
    cases = [CASES[0]._replace(file=text) for text in RUBBISH] + [CASES[0]._replace(genesis=text) for text in RUBBISH]
    assert ask_go(program, cases) == [False] * len(cases)


def test_verifier_decides_altered_files_as_the_one_in_python_does(program: Path) -> None:
    remember_signatures()
    rng, sources = random.Random(27), valid_files(CASES)
    cases = [mutate(rng, sources) for _ in range(1_000)]
    assert ask_go(program, cases) == ask_python(cases)


def test_command_prints_what_is_proven_and_ends_with_0(program: Path, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name.startswith("receipt of a type 1") and "three changes" in case.name)
    code, printed = command(program, case, tmp_path)
    assert (code, "invoice 4711" in printed, "signed by" in printed) == (0, True, True)
    case = next(case for case in CASES if case.name == "trusted block is a descendant")
    code, printed = command(program, case, tmp_path, "--at", str(case.at))
    assert (code, "signed by" in printed) == (0, False)


def test_command_says_exactly_where_it_must_that_everybody_has_the_key(program: Path, tmp_path: Path) -> None:
    for case in CASES:
        if case.valid and case.at is None and case.witness is None:
            code, printed = command(program, case, tmp_path)
            assert (code, "everybody has the key of one who signs" in printed) == (0, case.is_public), case.name


def test_command_prints_why_nothing_is_proven_and_ends_with_1(program: Path, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "payment of another amount")
    assert command(program, case, tmp_path) == (1, "NOT PROVEN: a payment: the path leads to another root\n")
    case = next(case for case in CASES if case.name == "no witness signed")
    code, printed = command(program, case, tmp_path, "--witness", str(case.witness))
    assert (code, printed) == (1, "NOT PROVEN: there is no valid signature by the witness\n")


def test_verifier_is_one_file_without_a_dependency() -> None:
    assert sorted(path.name for path in VERIFY_GO.iterdir()) == ["go.mod", "verify.go"]
    assert "require" not in (VERIFY_GO / "go.mod").read_text()


def command(program: Path, case: Case, directory: Path, *options: str) -> tuple[int, str]:
    genesis, file = directory / "genesis.json", directory / "file.json"
    genesis.write_bytes(case.genesis)
    file.write_bytes(case.file)
    done = subprocess.run([program, genesis, file, *options], capture_output=True, text=True)
    assert not done.stderr
    return done.returncode, done.stdout
