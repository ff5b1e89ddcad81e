"""`cairn check`: one screen for people, JSON for scripts, and exit codes."""

import base64
import csv
import html
import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from eth_utils.crypto import keccak
from typer.testing import CliRunner, Result

from cairn.cli.main import app
from cairn.cli.proofs.statement_table import csv_field
from cairn.cli.screen import utc
from tests.support.proof_chain import COIN, ProofChain, Validator, encode, hexed, seeded
from tests.support.proven import ALICE, BOB, CAROL, toy_network
from tests.support.toy_node import WITNESS

HEAD = 10
VECTORS = Path(__file__).parents[3] / "vectors"
WIDE = {"COLUMNS": "200"}


@pytest.fixture
def chain() -> ProofChain:
    return toy_network()


@pytest.fixture
def genesis(tmp_path: Path, chain: ProofChain) -> Path:
    return written(tmp_path / "genesis.json", chain.genesis)


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def check(directory: Path, file: dict[str, Any], *args: str) -> Result:
    proof = written(directory / "proof.json", encode(file))
    options = () if "--genesis" in args else ("--genesis", str(directory / "genesis.json"))
    return CliRunner().invoke(app, ["check", str(proof), *options, *args], env=WIDE)


def test_a_receipt_is_a_screen_that_names_all_that_counts(tmp_path: Path, genesis: Path, chain: ProofChain) -> None:
    result = check(tmp_path, chain.receipt(2, 0, HEAD))
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "PROVEN: this payment was made, and it is final"
    shown = {line.split("  ")[0]: line.split("  ", 1)[1].strip() for line in lines[2:] if re.match(r"\w+  ", line)}
    assert shown["paid"] == f"2 coins ({2 * COIN} wei)"
    assert shown["from"].lower() == hexed(ALICE.address)
    assert shown["to"].lower() == hexed(BOB.address)
    assert shown["for"] == '"invoice 4711"'
    assert shown["when"].startswith("2025-01-01 00:0")
    assert shown["in"].endswith("transaction 1 of 3")
    assert shown["fee"] == "21,192 gwei, which the sender paid on top of the amount"
    assert shown["hash"].endswith(", the sender's nonce 0")
    assert shown["file"] == f"proof.json, SHA-256 {sha256((tmp_path / 'proof.json').read_bytes()).hexdigest()}"
    assert abs(moment(shown["checked"]) - time.time()) < 60
    assert shown["final"] == "signed by 3 of 3 validators with 45 of 45 of the power; more than two thirds are needed"
    assert "1 change of keys followed from genesis.json, each signed with those before it" in result.stdout
    assert "NOT PROVEN:" in lines
    first, *_, last = lines[lines.index("NOT PROVEN:") + 1 :]
    assert first.startswith(f"- that this genesis.json is the right one: compare its digest, {hexed(chain.digest)}, ")
    assert "the validators' signing keys, or earlier ones, since" in result.stdout
    assert "who owns an address" in result.stdout
    assert last == "- what happened after block 2"
    assert len(lines) <= 28


def moment(text: str) -> float:
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC).timestamp()


def test_validators_have_the_names_of_genesis_where_it_knows_them(
    tmp_path: Path, genesis: Path, chain: ProofChain
) -> None:
    before, after = check(tmp_path, chain.receipt(2, 0, 2)), check(tmp_path, chain.receipt(2, 0, HEAD))
    keys = {each["name"]: each["publicKey"] for each in json.loads(chain.genesis)["validators"]}
    assert {
        name: (key, base64.b64encode(bytes.fromhex(digits)).decode())
        for name, digits, key in re.findall(r"^ +(\w) 0x(\w{64}) \((\S+)\), power 10$", before.stdout, re.M)
    } == {name: (key, key) for name, key in keys.items()}
    assert len(re.findall(r", power ", before.stdout)) == 4
    assert "power 25" in after.stdout


def test_a_forged_receipt_is_refused_in_one_line(tmp_path: Path, genesis: Path, chain: ProofChain) -> None:
    file = chain.receipt(2, 0, HEAD)
    file["payment"]["index"] = 1
    result = check(tmp_path, file)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "cairn: not proven: the transaction is not at index 1 of block 2\n"
    for_script = check(tmp_path, file, "--json")
    assert json.loads(for_script.stderr)["code"] == "NOT_PROVEN"


@pytest.mark.parametrize(("content", "says"), [(b"", "is empty"), (b" \n", "is empty"), (None, "is a genesis.json")])
def test_a_file_that_is_no_proof_is_named_for_what_it_is(
    tmp_path: Path, genesis: Path, chain: ProofChain, content: bytes | None, says: str
) -> None:
    proof = written(tmp_path / "proof.json", chain.genesis if content is None else content)
    result = CliRunner().invoke(app, ["check", str(proof), "--genesis", str(genesis)], env=WIDE)
    assert (result.exit_code, f"not proven: {proof} {says}" in result.stderr) == (1, True)


def test_for_scripts_everything_is_json(tmp_path: Path, genesis: Path, chain: ProofChain) -> None:
    paid = json.loads(check(tmp_path, chain.receipt(2, 0, HEAD), "--json").stdout)
    assert (paid["proven"], paid["value"], paid["reference"]) == ("payment", 2 * COIN, "invoice 4711")
    assert paid["txHash"] == hexed(keccak(chain.blocks[2].paid[0].raw))
    assert paid["finality"]["power"] == paid["finality"]["totalPower"] == 45
    assert (paid["finality"]["everybodyHasTheKey"], paid["finality"]["changesOfValidators"]) == (False, 1)
    held = json.loads(check(tmp_path, chain.account(ALICE.address, 1, HEAD), "--json").stdout)
    assert (held["proven"], held["balance"], held["height"], held["lastTouch"]) == ("account", 100 * COIN, 1, 0)
    final = json.loads(check(tmp_path, chain.finality(3, HEAD), "--json").stdout)
    assert (final["proven"], final["block"]["hash"]) == ("block", hexed(chain.blocks[3].hash))
    appended = json.loads(check(tmp_path, chain.history(3, 5, HEAD), "--json").stdout)
    assert (appended["first"]["blockHeight"], appended["second"]["blockHeight"]) == (3, 5)
    stated = json.loads(check(tmp_path, chain.statement(CAROL.address, 2, 5, HEAD), "--json").stdout)
    assert [change["block"]["blockHeight"] for change in stated["changes"]] == [2, 3, 5]
    assert stated["closing"]["balance"] == chain.newest.held[CAROL.address].balance


@pytest.mark.parametrize("kind", ["account", "finality", "history"])
def test_the_other_proofs_are_shown_too(tmp_path: Path, genesis: Path, chain: ProofChain, kind: str) -> None:
    file = {
        "account": chain.account(CAROL.address, 1, HEAD),
        "finality": chain.finality(3, HEAD),
        "history": chain.history(3, 5, HEAD),
    }[kind]
    result = check(tmp_path, file)
    assert (result.exit_code, result.stdout.startswith("PROVEN: ")) == (0, True)
    last = {"account": 1, "finality": 3, "history": 5}[kind]
    assert result.stdout.endswith(f"- what happened after block {last}\n")
    assert kind != "account" or "never: the account did not exist" in result.stdout


def test_a_dev_chain_proves_nothing_and_says_so_first(tmp_path: Path) -> None:
    chain = ProofChain("dev", is_dev=True, balances={ALICE.address: COIN})
    chain.add([chain.pay(ALICE, BOB.address, 1, 0)])
    written(tmp_path / "genesis.json", chain.genesis)
    result = check(tmp_path, chain.receipt(1, 0, 1))
    assert result.stdout.startswith("VALID, BUT NO PROOF (a dev chain: its key is public): this payment was made")
    assert "NOT PROVEN:\n- anything at all: this is a dev chain, and everybody has the key" in result.stdout


def test_a_chain_of_one_operator_is_told_from_one_with_a_witness(tmp_path: Path) -> None:
    chain = ProofChain("alone", balances={ALICE.address: COIN})
    chain.add([chain.pay(ALICE, BOB.address, 1, 0)])
    written(tmp_path / "genesis.json", chain.genesis)
    alone = check(tmp_path, chain.receipt(1, 0, 1))
    assert alone.stdout.startswith("PROVEN BY THE WORD OF ONE NODE: this payment was made")
    assert "signed by the node that makes the blocks alone" in alone.stdout
    assert "whoever has stolen or bought the node's signing key since can sign another past" in alone.stdout
    assert "validators" not in alone.stdout
    assert f"key {hexed(chain.signer.key)}" in alone.stdout
    assert "its operator shows everybody the same chain" in alone.stdout
    file = chain.receipt(1, 0, 1) | {"descendants": [chain.descendant(1, 1, [WITNESS])]}
    for key in (hexed(WITNESS.key), base64.b64encode(WITNESS.key).decode()):
        seen = check(tmp_path, file, "--witness", key)
        assert seen.stdout.startswith("PROVEN: this payment was made")
        assert f"witness  {hexed(WITNESS.key)} saw block 1 " in seen.stdout
        assert "its operator" not in seen.stdout
    assert check(tmp_path, chain.receipt(1, 0, 1), "--witness", hexed(WITNESS.key)).exit_code == 1


def test_a_key_that_nobody_named_is_no_witness(tmp_path: Path) -> None:
    """Its operator can make as many keys as it takes."""
    chain = ProofChain("alone", balances={ALICE.address: COIN})
    chain.add([chain.pay(ALICE, BOB.address, 1, 0)])
    written(tmp_path / "genesis.json", chain.genesis)
    own = Validator(seeded("the operator's second key"), 1)
    warning = "that its operator shows everybody the same chain"
    file = chain.statement(ALICE.address, 0, 1, 1) | {"descendants": [chain.descendant(1, 1, [own])]}
    page = tmp_path / "s.html"
    shown = check(tmp_path, file, "--html", str(page))
    for text in (shown.stdout, page.read_text()):
        assert f"a key that you did not name: {hexed(own.key)} saw block 1 " in text
        assert warning in text
    told = json.loads(check(tmp_path, file, "--json").stdout)
    assert [each["named"] for each in told["finality"]["witnesses"]] == [False]
    assert any(warning in text for text in told["notProven"])
    both = file | {"descendants": [chain.descendant(1, 1, [own, WITNESS])]}
    told = json.loads(check(tmp_path, both, "--json", "--witness", hexed(WITNESS.key)).stdout)
    assert [each["named"] for each in told["finality"]["witnesses"]] == [False, True]
    assert not any(warning in text for text in told["notProven"])


def test_a_trusted_block_needs_no_signature_and_is_named(tmp_path: Path, genesis: Path, chain: ProofChain) -> None:
    file = chain.receipt(2, 0, HEAD)
    file["certificate"] |= {"steps": [], "signed": {}}
    name = f"{HEAD}:{hexed(chain.blocks[HEAD].hash)}"
    result = check(tmp_path, file, "--at", name)
    assert result.exit_code == 0
    assert re.search(f"^final +by block {HEAD} {hexed(chain.blocks[HEAD].hash)}, which you trust$", result.stdout, re.M)
    assert "NOT PROVEN:\n- that the block which you trust is the right one" in result.stdout
    assert "stolen" not in result.stdout
    assert check(tmp_path, file, "--at", f"9:{hexed(chain.blocks[9].hash)}").exit_code == 1
    assert check(tmp_path, file).exit_code == 1


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--at", "7"], "--at: '7' is not HEIGHT:HASH"),
        (["--witness", "0x12"], "--witness: '0x12' is not a public key"),
        (["--genesis", "missing.json"], "cannot read missing.json: No such file"),
        (["--csv", "x.csv"], "--csv and --html are for statements"),
        (["--html", "nowhere/x.html"], "nowhere is not a directory"),
    ],
)
def test_wrong_options_exit_with_2(
    tmp_path: Path, genesis: Path, chain: ProofChain, args: list[str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = check(tmp_path, chain.receipt(2, 0, HEAD), *args)
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_genesis_that_is_none_exits_with_2(tmp_path: Path, chain: ProofChain) -> None:
    written(tmp_path / "genesis.json", b"{}")
    result = check(tmp_path, chain.receipt(2, 0, HEAD))
    assert result.exit_code == 2
    assert "genesis.json: " in result.stderr


@pytest.mark.parametrize(
    "rewrite",
    [lambda raw: raw.replace(b"\n", b"\r\n"), lambda raw: json.dumps(json.loads(raw)).encode(), lambda raw: raw[:-1]],
    ids=["CRLF", "compacted", "no line feed at the end"],
)
def test_a_genesis_that_is_written_otherwise_is_refused_with_the_digest_of_its_bytes(
    rewrite: Callable[[bytes], bytes], tmp_path: Path, chain: ProofChain
) -> None:
    content = rewrite(chain.genesis)
    written(tmp_path / "genesis.json", content)
    result = check(tmp_path, chain.receipt(2, 0, HEAD))
    assert result.exit_code == 2
    assert "genesis.json: " in result.stderr
    assert "".join(result.stderr.split()).count(keccak(content).hex()) == 1
    assert "".join(result.stderr.split()).count(chain.digest.hex()) == 1


# Statements.


def test_a_statement_shows_opening_closing_and_every_payment(tmp_path: Path, genesis: Path, chain: ProofChain) -> None:
    result = check(tmp_path, chain.statement(ALICE.address, 0, HEAD, HEAD))
    assert result.exit_code == 0
    assert "opening  0 wei, before block 0" in result.stdout
    assert f"({chain.newest.held[ALICE.address].balance} wei), after block 10" in result.stdout
    assert re.search(r"^changes  3, from 2025-01-01 00:00:00 UTC to .* UTC; none is left out$", result.stdout, re.M)
    assert re.search(r"^ +0 .* set by genesis.json +\+100 +100$", result.stdout, re.M)
    assert re.search(r'2 .* sent +−2 +−0.000021192 +([0-9.]+)? +0x\w{40} +"invoice 4711"', result.stdout)
    balances = re.findall(r" sent +−[0-9.]+ +−[0-9.]+ +([0-9.]+) +0x", result.stdout)
    assert Decimal(balances[-1]) * COIN == chain.newest.held[ALICE.address].balance


def test_references_are_escaped_wherever_they_are_shown(tmp_path: Path) -> None:
    chain = ProofChain("nasty", is_dev=True, balances={ALICE.address: COIN})
    nasty = b'=1+1"<script>\\  x'
    chain.add([chain.pay(ALICE, BOB.address, 1, 0, data=nasty), chain.pay(ALICE, BOB.address, 1, 1, data=b"\x1b[2J")])
    written(tmp_path / "genesis.json", chain.genesis)
    table, page = tmp_path / "s.csv", tmp_path / "s.html"
    result = check(tmp_path, chain.statement(BOB.address, 0, 1, 1), "--csv", str(table), "--html", str(page))
    assert result.exit_code == 0
    shown = r'"=1+1\"<script>\\\u0020\u0020x"'
    assert shown in result.stdout
    assert "0x1b5b324a" in result.stdout
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["reference"] for row in rows] == ["", "'" + nasty.decode(), "0x1b5b324a", ""]
    assert "<script>" not in page.read_text()
    assert "&lt;script&gt;" in page.read_text()


@pytest.mark.parametrize(("text", "field"), json.loads((VECTORS / "csv_fields.json").read_text()))
def test_a_text_of_others_is_no_formula_in_a_spreadsheet(text: str, field: str) -> None:
    assert csv_field(text) == field


def test_each_text_in_a_table_is_in_quotes_and_guarded(tmp_path: Path) -> None:
    chain = ProofChain("cells", balances={ALICE.address: COIN})
    chain.add([chain.pay(ALICE, BOB.address, 1, 0, data=b"a;+cmd|' /C calc'!A0")])
    written(tmp_path / "genesis.json", chain.genesis)
    table = tmp_path / "s.csv"
    assert check(tmp_path, chain.statement(BOB.address, 0, 1, 1), "--csv", str(table)).exit_code == 0
    lines = table.read_bytes().decode().split("\r\n")
    assert all(re.fullmatch(r'(-?\d+|"([^"]|"")*")(,(-?\d+|"([^"]|"")*"))*', line) for line in lines[:-1])
    _, row, _ = csv.DictReader(lines)
    assert row["reference"] == "a;'+cmd|' /C calc'!A0"
    assert re.fullmatch(r"2025-01-01T00:\d\d:\d\dZ", row["time"])


def test_the_screen_the_page_and_json_say_the_same(tmp_path: Path, genesis: Path, chain: ProofChain) -> None:
    page = tmp_path / "s.html"
    for address, last in ((ALICE.address, 5), (chain.proposer_named("a"), HEAD)):
        file = chain.statement(address, 1, last, HEAD)
        screen = check(tmp_path, file, "--html", str(page), "--force").stdout
        facts = json.loads(check(tmp_path, file, "--json").stdout)
        text = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", page.read_text())))
        assert facts["sha256"] in text
        for line in screen.splitlines():
            # The time of the check, and where one ends that is cut off in columns.
            said = re.sub(r"\s+", " ", line).strip().removeprefix("- ").strip()
            assert said.startswith(("checked", "NOT PROVEN")) or said in text, said
        assert f"- {facts['notProven'][0]}\n" in screen


@pytest.mark.parametrize(
    ("first", "last", "ends", "begin", "end"),
    [
        (0, HEAD, [], "of {0}", "of {10}, the newest block that is signed here"),
        (1, 4, [], ", whose time is not proven; the block before it is of {0}", ", whose time is not proven"),
        (2, 4, [1, 2, 4, 5], "of {2}; the block before it is of {1}", "of {4}; the block after it is of {5}"),
        (4, 4, [4], "of {4}", "of {4}"),
        (4, 4, [3, 4, 5], "of {4}; the block before it is of {3}", "of {4}; the block after it is of {5}"),
    ],
)  # fmt: skip
def test_a_statement_says_of_which_days_it_is_or_that_it_does_not_know(
    tmp_path: Path, genesis: Path, chain: ProofChain, first: int, last: int, ends: list[int], begin: str, end: str
) -> None:
    blocks = [chain.ancestor(height, HEAD) for height in ends]
    file = chain.statement(ALICE.address, first, last, HEAD) | ({"ends": blocks} if ends else {})
    shown = check(tmp_path, file).stdout
    times = [utc(block.time) for block in chain.blocks]
    assert re.search(rf"^first +block {first} ?{re.escape(begin.format(*times))}$", shown, re.M)
    assert re.search(rf"^last +block {last} ?{re.escape(end.format(*times))}$", shown, re.M)
    assert ("of which days it is" in shown) == ("not proven" in begin + end)
    assert shown.endswith(f"- what happened after block {last}\n")
    told = json.loads(check(tmp_path, file, "--json").stdout)["ends"]
    assert [each["blockHeight"] for each in told] == ends


@pytest.mark.parametrize("ends", [[3], [8], [5, 4], [4, 4], [6, 7, 8]])
def test_blocks_that_are_not_at_the_ends_refuse_the_statement(
    tmp_path: Path, genesis: Path, chain: ProofChain, ends: list[int]
) -> None:
    file = chain.statement(ALICE.address, 5, 6, HEAD) | {"ends": [chain.ancestor(height, HEAD) for height in ends]}
    result = check(tmp_path, file)
    assert (result.exit_code, "are not at the ends of 5 to 6" in result.stderr) == (1, True)


def test_a_forged_time_at_the_ends_refuses_the_statement(tmp_path: Path, genesis: Path, chain: ProofChain) -> None:
    other = ProofChain("other", balances={ALICE.address: 1})
    for _ in range(HEAD):
        other.add()
    file = chain.statement(ALICE.address, 5, 6, HEAD) | {"ends": [other.ancestor(5, HEAD)]}
    assert check(tmp_path, file).exit_code == 1


def test_balances_set_by_hand_are_in_the_first_line(tmp_path: Path) -> None:
    chain = ProofChain("by hand", is_dev=True, balances={ALICE.address: COIN})
    chain.set_balances({ALICE.address: 2 * COIN})
    written(tmp_path / "genesis.json", chain.genesis)
    first = check(tmp_path, chain.statement(ALICE.address, 0, 1, 1)).stdout.splitlines()[0]
    assert first.startswith("VALID, BUT NO PROOF (a dev chain: its key is public, and balances were set by hand): all ")


def test_a_page_has_one_unit_in_a_column_and_no_minus_zero(tmp_path: Path) -> None:
    chain = ProofChain("units", balances={ALICE.address: 3 * COIN})
    chain.add([chain.pay(ALICE, BOB.address, 0, 0), chain.pay(ALICE, BOB.address, 1, 1)])
    chain.add([chain.pay(ALICE, BOB.address, 2 * COIN, 2)])
    written(tmp_path / "genesis.json", chain.genesis)
    page = tmp_path / "s.html"
    assert check(tmp_path, chain.statement(ALICE.address, 1, 2, 2), "--html", str(page)).exit_code == 0
    cells = re.findall(r'<td class="amount"><bdi>(.*?)</bdi></td>', page.read_text())
    assert cells[0::3] == ["0", "−0.000000000000000001", "−2"]
    assert all(re.fullmatch(r"[+−]?[0-9.]*", cell) for cell in cells)


def test_the_table_adds_up_in_wei(tmp_path: Path, genesis: Path, chain: ProofChain) -> None:
    for address in (ALICE.address, CAROL.address, chain.proposer_named("a")):
        table = tmp_path / f"{address.hex()}.csv"
        assert check(tmp_path, chain.statement(address, 0, HEAD, HEAD), "--csv", str(table)).exit_code == 0
        opening, *rows, closing = csv.DictReader(table.read_text().splitlines())
        total = int(opening["balance_wei"]) + sum(int(row["amount_wei"]) + int(row["fee_wei"]) for row in rows)
        assert total == int(closing["balance_wei"]) == chain.newest.held[address].balance
        assert [int(row["balance_wei"]) for row in rows if row["balance_wei"]] == [
            chain.blocks[height].held[address].balance for height in chain.touches(address)
        ]


def test_the_page_stands_alone_and_says_how_to_check_it(tmp_path: Path, genesis: Path, chain: ProofChain) -> None:
    page = tmp_path / "s.html"
    assert check(tmp_path, chain.statement(ALICE.address, 0, HEAD, HEAD), "--html", str(page)).exit_code == 0
    text = page.read_text()
    assert not re.search(r"src=|href=|url\(|<script", text)
    assert "cairn check proof.json --genesis genesis.json" in text
    assert re.search(r"3, from 2025-01-01 00:00:00 UTC to 2025-01-01 00:\d\d:\d\d UTC; none is left out", text)
    assert "signed by 3 of 3 validators" in text
    assert f"({chain.newest.held[ALICE.address].balance} wei), after block 10" in text
    again = check(tmp_path, chain.statement(ALICE.address, 0, HEAD, HEAD), "--html", str(page))
    assert again.exit_code == 2
    assert "exists; pass --force" in again.stderr
    assert check(tmp_path, chain.statement(ALICE.address, 0, 1, HEAD), "--html", str(page), "--force").exit_code == 0
    assert page.read_text() != text
