"""All verifiers of proof files behind one question: is this file valid? They must give the same answer."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from cairn.domain.errors import InvalidField, InvalidProof, MalformedJson
from cairn.domain.genesis import parse_exact_genesis
from cairn.domain.proof_checks import BlockName, Trust
from cairn.domain.proof_files import read_file
from cairn.domain.statement_checks import check_file
from cairn.domain.types import BlockHash
from tests.proofs.vectors import Case
from tests.support.cometbft import TOOLS
from verify import verify as verifier

VERIFY_GO = Path(__file__).parents[2] / "verify" / "go"
LINES = Path(__file__).parents[1] / "js" / "verify_lines.mjs"
REMEMBERED = 100_000

Verdicts = list[bool]


def report_of(case: Case) -> dict[str, Any]:
    """What verify.py says is proven. Raises `NotProven`, and nothing else."""
    return verifier.verify(case.genesis, case.file, case.at, case.witness)


def find_report(case: Case) -> dict[str, Any] | None:
    try:
        return report_of(case)
    except verifier.NotProven:
        return None


def remember_signatures() -> None:
    """Altered files share most of their hashes and signatures: without this they take far longer."""
    for name in ("keccak", "ed25519", "recover"):
        function = getattr(verifier, name)
        if not hasattr(function, "cache_info"):
            setattr(verifier, name, lru_cache(maxsize=REMEMBERED)(function))


def ask_python(cases: Sequence[Case]) -> Verdicts:
    return [find_report(case) is not None for case in cases]


def ask_node(cases: Sequence[Case]) -> Verdicts:
    """The check of `cairn check`."""
    return [_holds_for_node(case) for case in cases]


def _holds_for_node(case: Case) -> bool:
    at = None
    if case.at is not None:
        height, block_hash = case.at.split(":")
        at = BlockName(int(height), BlockHash(bytes.fromhex(block_hash[2:])))
    witnesses = () if case.witness is None else (bytes.fromhex(case.witness[2:]),)
    try:
        trust = Trust(_genesis(case.genesis), at, witnesses)
        check_file(read_file(case.file, without_signatures=at is not None), trust)
    except (InvalidProof, InvalidField, MalformedJson):
        return False
    return True


_genesis = lru_cache(maxsize=64)(parse_exact_genesis)


def ask_javascript(cases: Sequence[Case]) -> Verdicts:
    return _answers_of(["node", "--no-warnings", str(LINES)], cases)


def find_go() -> str | None:
    """The Go that `make interop` has noted, or the system's."""
    noted = TOOLS / "interop" / "go"
    return noted.read_text().strip() if noted.exists() else shutil.which("go")


def build_go(go: str, directory: Path) -> Path:
    """The verifier in Go, as a program there. It has no dependency, so nothing is fetched."""
    program = directory / "verify"
    alone = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly", "GOPROXY": "off", "CGO_ENABLED": "0"}
    subprocess.run([go, "build", "-o", program, "."], cwd=VERIFY_GO, env=os.environ | alone, check=True)
    return program


def ask_go(program: Path, cases: Sequence[Case]) -> Verdicts:
    return _answers_of([str(program), "--lines"], cases)


def _answers_of(command: list[str], cases: Sequence[Case]) -> Verdicts:
    """What a program says that reads a case a line, and answers each with a line."""
    rows = (
        {
            "genesis": case.genesis.decode("latin-1"),
            "file": case.file.decode("latin-1"),
            "at": case.at,
            "witness": case.witness,
        }
        for case in cases
    )
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line)["valid"] for line in done.stdout.splitlines()]


VERIFIERS: dict[str, Callable[[Sequence[Case]], Verdicts]] = {
    "verify.py": ask_python,
    "cairn check": ask_node,
    "verify.mjs": ask_javascript,
}
