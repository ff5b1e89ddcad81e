"""verify.mjs decides each vector as its author meant, alone and by its command."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from eth_utils.crypto import keccak

from tests.proofs.test_vectors import FIRST_LINES
from tests.proofs.vectors import Case, read_vectors
from tests.proofs.verifiers import report_of

CASES = read_vectors()
OLDER_NODES = Path(__file__).parents[1] / "js" / "nodes" / "node_modules"
VERIFIER = Path(__file__).parents[2] / "verify" / "verify.mjs"
RUBBISH = ("", "{}", "[]", "null", "7", '"a"', "[" * 100_000, '{"format": "cairn-receipt-1"}', '{"certificate": []}')


@pytest.fixture(scope="module")
def answers(js_packages: Path) -> list[dict[str, object]]:
    return answer([*CASES, *(CASES[0]._replace(file=text.encode()) for text in RUBBISH)], js_packages)


def answer(cases: list[Case], js_packages: Path, node: str = "node") -> list[dict[str, object]]:
    """What the verifier says of each, in one process."""
    rows = [
        {"genesis": case.genesis.decode("latin-1"), "file": case.file.decode("latin-1"), "at": case.at}
        | {"witness": case.witness}
        for case in cases
    ]
    done = subprocess.run(
        [node, "--no-warnings", js_packages.with_name("verify_lines.mjs")],
        input="".join(json.dumps(row) + "\n" for row in rows),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_verifier_decides_each_vector_as_meant(answers: list[dict[str, object]]) -> None:
    wrong = [
        (case.name, case.why, said.get("reason"))
        for case, said in zip(CASES, answers[: len(CASES)], strict=True)
        if case.valid != said["valid"]
    ]
    assert wrong == []


def test_verifier_decides_each_vector_as_meant_on_the_newest_node(js_packages: Path) -> None:
    # WebCrypto is the platform's, and what it says of a signature has changed between versions.
    newest = next(js_packages.glob("node-*/bin/node"), None)
    assert newest is not None, "no newest Node.js here: run `make js`"
    assert wrongly_decided(js_packages, newest) == []


@pytest.mark.skipif(sys.platform != "linux", reason="the older versions are pinned for Linux alone")
@pytest.mark.parametrize("version", [20, 22, 24])
def test_verifier_decides_each_vector_as_meant_on_older_node(js_packages: Path, version: int) -> None:
    older = next(OLDER_NODES.glob(f"node{version}-*/bin/node"), None)
    assert older is not None, "no older Node.js here: run `sh tools/js.sh tests/js/nodes`"
    assert wrongly_decided(js_packages, older) == []


def wrongly_decided(js_packages: Path, node: Path) -> list[tuple[str, str]]:
    """The vectors that the verifier decides otherwise than meant, on this Node.js, with the reason."""
    said = answer(CASES, js_packages, str(node))
    return [(case.name, case.why) for case, each in zip(CASES, said, strict=True) if case.valid != each["valid"]]


def test_verifier_hashes_messages_of_every_length_around_a_block_of_keccak(js_packages: Path) -> None:
    messages = [bytes(index % 251 for index in range(size)) for size in (*range(140), *range(269, 275), 20_000)]
    script = f"""import {{ keccak256 }} from {json.dumps(VERIFIER.as_uri())};
        console.log({json.dumps([message.hex() for message in messages])}.map(keccak256).join("\\n"));"""
    done = subprocess.run(["node", "--input-type=module"], input=script, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [keccak(message).hex() for message in messages]


def test_verifier_names_what_does_not_hold(answers: list[dict[str, object]]) -> None:
    said = {case.name: reply.get("reason") for case, reply in zip(CASES, answers, strict=False)}
    assert said["payment of another amount"] == "payment: the path does not lead to the root in the block"
    assert str(said["genesis of another network"]).startswith("signed for another chain, or another genesis.json than")
    assert said["66 of 100 signed"] == "only 66 of 100 of the voting power signed"


def test_what_is_in_a_list_or_is_no_list_is_mistyped(js_packages: Path) -> None:
    case = next(case for case in CASES if case.valid and b"cairn-receipt-1" in case.file)
    file = json.loads(case.file)
    files = [
        file | {"format": [file["format"]]},
        file | {"block": [file["block"]]},
        file | {"block": file["block"] | {"history": "0x" + 32 * "00"}},
        file | {"block": file["block"] | {"header": [file["block"]["header"]]}},
    ]
    said = answer([case._replace(file=json.dumps(altered).encode()) for altered in files], js_packages)
    assert [reply["valid"] for reply in said] == [False] * len(files)


def test_what_is_no_proof_is_refused_and_never_fails(answers: list[dict[str, object]]) -> None:
    assert [said["valid"] for said in answers[len(CASES) :]] == [False] * len(RUBBISH)


def test_command_prints_what_is_proven_and_ends_with_0(js_packages: Path, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "trusted block is a descendant")
    code, printed = run(case, tmp_path, "--at", str(case.at))
    report = json.loads(printed.split("\n", 1)[1])
    assert (code, report["signed"]) == (0, {"by": "not looked at: --at"})
    case = next(case for case in CASES if case.name.startswith("receipt of a type 1") and "three changes" in case.name)
    code, printed = run(case, tmp_path)
    report = json.loads(printed.split("\n", 1)[1])
    proven, signed = report_of(case), report["signed"]
    assert (code, report["kind"], signed["steps"], signed["everybodyHasTheKey"]) == (0, "receipt", 3, False)
    assert bytes.fromhex(report["payment"]["data"][2:]) == b"invoice 4711"
    same = ("from", "to", "value", "data", "fee", "nonce")
    assert {name: report["payment"][name] for name in same} == {name: proven[name] for name in same}
    assert {name: report["block"][name] for name in ("height", "time")} == {
        name: proven[name] for name in ("height", "time")
    }
    assert (signed["by"], signed["power"], signed["of"]) == tuple(
        proven["signed"][name] for name in ("by", "power", "of")
    )


def test_command_shows_a_block_by_its_name_and_never_by_its_header(js_packages: Path, tmp_path: Path) -> None:
    valid = [case for case in CASES if case.valid and case.at is None and case.witness is None]
    by_kind = {json.loads(case.file)["format"]: case for case in valid}
    assert len(by_kind) == 5
    for case in by_kind.values():
        code, printed = run(case, tmp_path)
        report = json.loads(printed.split("\n", 1)[1])
        blocks = [report[name] for name in ("head", "block", "first", "second") if name in report]
        assert (code, [list(block) for block in blocks]) == (0, [["height", "time", "hash"]] * len(blocks))
        assert all(re.fullmatch("0x[0-9a-f]{64}", block["hash"]) for block in blocks)


def test_command_names_the_blocks_at_the_ends_of_a_statement(js_packages: Path, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "ends of 4 to 6: 3, 4, 6, 7")
    code, printed = run(case, tmp_path)
    assert (code, json.loads(printed.split("\n", 1)[1])["ends"]) == (0, report_of(case)["ends"])


def test_first_line_says_that_a_dev_chain_proves_nothing(js_packages: Path, tmp_path: Path) -> None:
    for name, said in FIRST_LINES.items():
        case = next(case for case in CASES if case.name == name)
        options = ["--at", case.at] if case.at else []
        code, printed = run(case, tmp_path, *options)
        assert (code, printed.split("\n")[0]) == (0, said)


def test_command_is_silent_when_nobody_reads_on(js_packages: Path, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.valid and case.at is None and b"cairn-statement-1" in case.file)
    (tmp_path / "genesis.json").write_bytes(case.genesis)
    (tmp_path / "file.json").write_bytes(case.file)
    command = ["node", str(VERIFIER), "genesis.json", "file.json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_report_says_exactly_where_it_must_that_everybody_has_the_key(answers: list[dict[str, object]]) -> None:
    said = {case.name for case, reply in zip(CASES, answers, strict=False) if reply.get("everybodyHasTheKey")}
    assert said == {case.name for case in CASES if case.is_public}


def test_command_prints_why_nothing_is_proven_and_ends_with_1(js_packages: Path, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "payment of another amount")
    said = "NOT PROVEN: payment: the path does not lead to the root in the block\n"
    assert run(case, tmp_path) == (1, said)


def test_command_without_its_files_ends_with_1(js_packages: Path, tmp_path: Path) -> None:
    for arguments in ([], ["none"], ["none", "none"], ["--at"]):
        done = subprocess.run(["node", VERIFIER, *arguments], capture_output=True, text=True, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (1, "")
        assert done.stdout.startswith("NOT PROVEN: ")


def test_verifier_needs_no_package() -> None:
    source = VERIFIER.read_text()
    assert set(re.findall(r'import\("([^"]+)"\)|from "([^"]+)"', source)) == {("node:fs", ""), ("node:util", "")}


def run(case: Case, directory: Path, *options: str) -> tuple[int, str]:
    genesis, file = directory / "genesis.json", directory / "file.json"
    genesis.write_bytes(case.genesis)
    file.write_bytes(case.file)
    done = subprocess.run(["node", VERIFIER, genesis, file, *options], capture_output=True, text=True)
    assert not done.stderr
    return done.returncode, done.stdout
