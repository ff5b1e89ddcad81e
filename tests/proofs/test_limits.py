"""Sizes: each verifier refuses what is too large before it does anything with it, and for that reason."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cairn.domain.errors import InvalidProof
from cairn.domain.genesis import parse_exact_genesis
from cairn.domain.proof_checks import Trust
from cairn.domain.proof_files import MAX_BYTES, read_file
from cairn.domain.statement_checks import check_file
from tests.proofs.test_verify_mjs import VERIFIER
from tests.support.proof_chain import Json, ProofChain, encode, hexed
from tests.vectors.proofs.chains import altered, lone
from verify import verify as verifier

MANY = 10_000_000


def large_leaf(file: Json) -> None:
    file["certificate"]["signed"]["header"][6] = hexed(bytes(MANY))


def large_header(file: Json) -> None:
    file["certificate"]["header"] = hexed(bytes(MANY))


def large_transaction(file: Json) -> None:
    file["payment"]["transaction"] = hexed(bytes(MANY))


@pytest.fixture(scope="module")
def chain() -> ProofChain:
    return lone()


@pytest.mark.parametrize("edit", [large_leaf, large_header, large_transaction])
def test_bytes_of_ten_million_are_refused_for_their_size(edit: object, chain: ProofChain, tmp_path: Path) -> None:
    content = encode(altered(chain.receipt(1, 0, 8), edit))  # type: ignore[arg-type]
    with pytest.raises(verifier.NotProven, match="1024"):
        verifier.verify(chain.genesis, content)
    with pytest.raises(InvalidProof, match="1,024 bytes"):
        check_file(read_file(content), Trust(parse_exact_genesis(chain.genesis)))
    assert "1024" in printed_by_javascript(chain, content, tmp_path)


def printed_by_javascript(chain: ProofChain, content: bytes, directory: Path) -> str:
    (directory / "genesis.json").write_bytes(chain.genesis)
    (directory / "file.json").write_bytes(content)
    command = ["node", str(VERIFIER), str(directory / "genesis.json"), str(directory / "file.json")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "")
    return done.stdout


def test_a_string_of_ten_million_signs_that_nobody_reads_is_taken(
    js_packages: Path, chain: ProofChain, tmp_path: Path
) -> None:
    content = json.dumps(chain.receipt(1, 0, 8) | {"note": "x" * MANY}).encode()
    assert verifier.verify(chain.genesis, content)["kind"] == "receipt"
    check_file(read_file(content), Trust(parse_exact_genesis(chain.genesis)))
    (tmp_path / "genesis.json").write_bytes(chain.genesis)
    (tmp_path / "file.json").write_bytes(content)
    command = ["node", str(VERIFIER), str(tmp_path / "genesis.json"), str(tmp_path / "file.json")]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_a_file_above_the_limit_is_refused_for_its_size(js_packages: Path, chain: ProofChain, tmp_path: Path) -> None:
    """It takes no room on the disk: there is nothing in it."""
    genesis, file = tmp_path / "genesis.json", tmp_path / "file.json"
    genesis.write_bytes(chain.genesis)
    with file.open("wb") as opened:
        opened.truncate(MAX_BYTES + 1)
    assert MAX_BYTES == verifier.MOST_FILE_BYTES
    for command in ([sys.executable, "-I", str(verifier.__file__)], ["node", str(VERIFIER)]):
        done = subprocess.run([*command, str(genesis), str(file)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (1, f"NOT PROVEN: the file has more than {MAX_BYTES} bytes\n")
    with pytest.raises(InvalidProof, match="more than 268,435,456 bytes"):
        read_file(file.read_bytes())
