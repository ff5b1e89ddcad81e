"""Proofs from a node: checked before they are saved, and never saved when they do not hold."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from eth_utils.crypto import keccak
from typer.testing import CliRunner, Result

from cairn.cli.main import app
from cairn.cli.proofs import saving
from tests.support.json_server import Answer, JsonServer
from tests.support.proof_chain import COIN, ProofChain, hexed
from tests.support.proven import ALICE, BOB, CAROL, toy_network
from tests.support.toy_node import WITNESS, ToyNode, ToyWitness, problem

HEAD = 10
WIDE = {"COLUMNS": "200"}


@pytest.fixture
def chain() -> ProofChain:
    return toy_network()


@pytest.fixture
def proof(tmp_path: Path) -> Path:
    return tmp_path / "proof.json"


@pytest.fixture
def genesis(tmp_path: Path, chain: ProofChain) -> Path:
    path = tmp_path / "genesis.json"
    path.write_bytes(chain.genesis)
    return path


def cairn(node: JsonServer | None, *args: object) -> Result:
    where = [] if node is None else ["--node", node.url]
    return CliRunner().invoke(app, [*map(str, args), *where], env=WIDE)


def tx_hash(chain: ProofChain, height: int = 2, index: int = 0) -> str:
    return hexed(keccak(chain.blocks[height].paid[index].raw))


def checked(proof: Path, genesis: Path, *args: object) -> Any:
    result = cairn(None, "check", proof, "--genesis", genesis, "--json", *args)
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


def test_a_receipt_is_saved_and_can_be_checked_without_the_node(chain: ProofChain, proof: Path, genesis: Path) -> None:
    with ToyNode(chain) as node:
        result = cairn(node, "receipt", tx_hash(chain), "-o", proof, "--genesis", genesis)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "PROVEN: this payment was made" in result.stdout
    assert f"Saved {proof}." in result.stdout
    assert checked(proof, genesis)["txHash"] == tx_hash(chain)


def test_without_a_genesis_the_nodes_own_is_used_and_that_is_said(chain: ProofChain, proof: Path) -> None:
    with ToyNode(chain) as node:
        result = cairn(node, "receipt", tx_hash(chain), "-o", proof)
    assert result.exit_code == 0
    assert f"warning: checked with the genesis that {node.url} itself gave" in result.stderr
    assert proof.exists()


def test_a_receipt_that_does_not_hold_is_not_saved(chain: ProofChain, proof: Path, genesis: Path) -> None:
    with ToyNode(chain) as node:
        path = f"/tx/{tx_hash(chain)}/receipt"
        for lie in (chain.receipt(2, 1, HEAD), chain.finality(2, HEAD), chain.receipt(2, 0, HEAD) | {"block": {}}):
            node.lies[path] = lie
            result = cairn(node, "receipt", tx_hash(chain), "-o", proof, "--genesis", genesis)
            assert result.exit_code == 1
            assert "not proven: " in result.stderr
            assert not proof.exists()


def test_a_node_of_another_chain_is_refused_by_the_genesis_that_is_given(
    chain: ProofChain, proof: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.json"
    other.write_bytes(ProofChain("other", balances={ALICE.address: 1}).genesis)
    with ToyNode(chain) as node:
        result = cairn(node, "receipt", tx_hash(chain), "-o", proof, "--genesis", other)
    assert (result.exit_code, "another chain" in result.stderr) == (1, True)


def test_an_existing_file_is_kept_unless_force_is_given(chain: ProofChain, proof: Path, genesis: Path) -> None:
    proof.write_text("mine")
    with ToyNode(chain) as node:
        kept = cairn(node, "receipt", tx_hash(chain), "-o", proof, "--genesis", genesis)
        assert kept.exit_code == 2
        assert "exists; pass --force to overwrite it" in kept.stderr
        assert proof.read_text() == "mine"
        assert cairn(node, "receipt", tx_hash(chain), "-o", proof, "--genesis", genesis, "--force").exit_code == 0
    assert checked(proof, genesis)["proven"] == "payment"


def test_an_unknown_transaction_exits_with_4_and_a_wrong_hash_with_2(chain: ProofChain, proof: Path) -> None:
    with ToyNode(chain) as node:
        assert cairn(node, "receipt", "0x" + "00" * 32, "-o", proof).exit_code == 4
        assert cairn(node, "receipt", "0x12", "-o", proof).exit_code == 2
    assert cairn(node, "receipt", "0x" + "00" * 32, "-o", proof, "--wait", 0).exit_code == 5


def test_the_command_waits_for_signatures_but_not_for_ever(chain: ProofChain, proof: Path, genesis: Path) -> None:
    with ToyNode(chain) as node:
        node.unsigned = 2
        assert cairn(node, "receipt", tx_hash(chain), "-o", proof, "--genesis", genesis).exit_code == 0
        node.unsigned = 10**6
        late = cairn(node, "receipt", tx_hash(chain), "-o", proof, "--genesis", genesis, "--force", "--wait", 0.1)
    assert (late.exit_code, "no signature covers it within 0.1 s" in late.stderr) == (6, True)


# Witnesses.


@pytest.mark.parametrize("heads", [[5], [9], [3, 4, 7]])
def test_a_witness_is_waited_for_and_its_signature_added(
    chain: ProofChain, proof: Path, genesis: Path, heads: list[int]
) -> None:
    with ToyNode(chain, head=5) as node, ToyWitness(chain, list(heads)) as witness:
        args = ["receipt", tx_hash(chain), "-o", proof, "--genesis", genesis, "--witness", witness.url]
        result = cairn(node, *args)
    assert (result.exit_code, result.stderr) == (0, "")
    (seen,) = checked(proof, genesis, "--witness", hexed(WITNESS.key))["finality"]["witnesses"]
    assert seen["block"]["blockHeight"] == heads[-1]


def test_a_witness_that_saw_another_chain_is_reported(chain: ProofChain, proof: Path, genesis: Path) -> None:
    fork = toy_network.__wrapped__()
    fork.blocks = fork.blocks[:6]
    fork.add([fork.pay(BOB, ALICE.address, 1, 1)])
    with ToyNode(chain, head=5) as node, ToyWitness(fork, [6]) as witness:
        args = ["receipt", tx_hash(chain), "-o", proof, "--genesis", genesis, "--witness", witness.url]
        result = cairn(node, *args)
    assert (result.exit_code, proof.exists()) == (1, False)
    assert "saw another block 6 than this node has" in result.stderr


def test_a_witness_of_another_chain_is_refused(chain: ProofChain, proof: Path, genesis: Path) -> None:
    with ToyNode(chain, head=5) as node, ToyWitness(chain, [6], digest=bytes(32)) as witness:
        args = ["receipt", tx_hash(chain), "-o", proof, "--genesis", genesis, "--witness", witness.url]
        result = cairn(node, *args)
    assert (result.exit_code, proof.exists()) == (1, False)
    assert f"witness {hexed(WITNESS.key)} signed no block" in result.stderr


def test_a_witness_that_does_not_answer_or_is_behind_is_named(chain: ProofChain, proof: Path, genesis: Path) -> None:
    with ToyNode(chain, head=5) as node:
        args = ["receipt", tx_hash(chain), "-o", proof, "--genesis", genesis, "--wait", 0]
        with ToyWitness(chain, [4]) as witness:
            behind = cairn(node, *args, "--witness", witness.url)
        wrong = cairn(node, *args, "--witness", "witness")
    assert (behind.exit_code, "has not seen block 5" in behind.stderr) == (6, True)
    assert (wrong.exit_code, "--witness witness: expected a URL" in wrong.stderr) == (2, True)
    assert not proof.exists()


# Accounts.


def test_an_accounts_proof_is_saved_now_and_at_a_past_height(chain: ProofChain, proof: Path, genesis: Path) -> None:
    with ToyNode(chain) as node:
        args = ["account", hexed(ALICE.address), "--proof", "-o", proof, "--genesis", genesis]
        assert cairn(node, *args).exit_code == 0
        assert checked(proof, genesis)["balance"] == chain.newest.held[ALICE.address].balance
        assert cairn(node, *args, "--height", 1, "--force").exit_code == 0
        assert checked(proof, genesis)["balance"] == 100 * COIN
        node.lies[f"/account/{hexed(ALICE.address)}/proof"] = chain.account(ALICE.address, 1, HEAD)
        other_height = cairn(node, *args, "--height", 2, "--force")
        node.lies[f"/account/{hexed(ALICE.address)}/proof"] = chain.account(BOB.address, HEAD, HEAD)
        other_account = cairn(node, *args, "--force")
    assert (other_height.exit_code, other_account.exit_code) == (1, 1)
    assert "after block 1" in other_height.stderr
    assert checked(proof, genesis)["height"] == 1


def test_an_accounts_proof_is_shown_without_a_file_and_takes_a_witness(chain: ProofChain, genesis: Path) -> None:
    with ToyNode(chain, head=5) as node, ToyWitness(chain, [4, 6]) as witness:
        asked = ["account", hexed(ALICE.address), "--proof", "--genesis", genesis, "--witness", witness.url]
        behind = cairn(node, *asked, "--wait", 0)
        result = cairn(node, *asked, "--json")
    assert (behind.exit_code, "has not seen block 5" in behind.stderr) == (6, True)
    assert (result.exit_code, result.stderr) == (0, "")
    (seen,) = json.loads(result.stdout)["finality"]["witnesses"]
    assert (seen["publicKey"], seen["named"], seen["block"]["blockHeight"]) == (hexed(WITNESS.key), True, 6)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["-o", "x.json"], "--output, --genesis and --witness are for --proof"),
        (["--witness", "http://127.0.0.1:1"], "--output, --genesis and --witness are for --proof"),
        (["--proof", "--history"], "--proof: is for the balance; cairn statement proves a history"),
    ],
)
def test_options_of_a_proof_without_one_exit_with_2(chain: ProofChain, args: list[str], says: str) -> None:
    with ToyNode(chain) as node:
        result = cairn(node, "account", hexed(ALICE.address), *args)
    assert (result.exit_code, says in result.stderr) == (2, True)


def test_a_wait_for_signatures_is_told_with_what_the_node_says(
    chain: ProofChain, genesis: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "QUIET_S", 0.0)
    with ToyNode(chain) as node:
        node.unsigned = 2
        result = cairn(node, "account", hexed(ALICE.address), "--proof", "--height", 1, "--genesis", genesis)
    assert result.exit_code == 0
    assert result.stderr == "cairn: warning: not signed yet; waiting for up to 60 s: because\n"


# Statements.


def stated(chain: ProofChain, *args: object) -> Result:
    with ToyNode(chain) as node:
        return cairn(node, "statement", hexed(CAROL.address), *args)


def test_a_statement_is_saved_as_proof_table_and_page(chain: ProofChain, tmp_path: Path, genesis: Path) -> None:
    proof, table, page = (tmp_path / f"s.{end}" for end in ("json", "csv", "html"))
    options = ["-o", proof, "--csv", table, "--html", page, "--genesis", genesis]
    result = stated(chain, "--from", 3, "--to", 4, *options)
    assert (result.exit_code, result.stderr) == (0, "")
    assert re.search("^changes +1, from .* none is left out$", result.stdout, re.M)
    facts = checked(proof, genesis)
    assert (facts["from"], facts["to"], len(facts["changes"])) == (3, 4, 1)
    assert len(table.read_text().splitlines()) == 4
    assert page.read_text().startswith("<!doctype html>")


class Recording(ToyNode):
    """Remembers the paths that it was asked for."""

    def __init__(self, chain: ProofChain, head: int | None = None) -> None:
        self.asked: list[str] = []
        super().__init__(chain, head)

    def get(self, target: str) -> Answer:
        self.asked.append(target)
        return super().get(target)


@pytest.mark.parametrize(
    ("args", "query"),
    [
        ([], "from=0&to=10"),
        (["--from", 3], "from=3&to=10"),
        (["--to", 4], "from=0&to=4"),
        (["--from", 3, "--to", 4], "from=3&to=4"),
    ],
)
def test_the_account_and_the_blocks_are_what_the_node_is_asked_for(
    chain: ProofChain, tmp_path: Path, args: list[object], query: str
) -> None:
    (tmp_path / "carol.json").write_text(json.dumps({"address": CAROL.address.hex(), "crypto": {}, "version": 3}))
    for who in (hexed(CAROL.address), "carol"):
        with Recording(chain) as node:
            assert cairn(node, "statement", who, *args, "--keys", tmp_path).exit_code == 0
        assert f"/account/{hexed(CAROL.address)}/statement?{query}" in node.asked


def test_a_statement_takes_a_witness_a_genesis_and_a_wait(chain: ProofChain, tmp_path: Path, genesis: Path) -> None:
    other = tmp_path / "other.json"
    other.write_bytes(ProofChain("other", balances={ALICE.address: 1}).genesis)
    with Recording(chain, head=5) as node, ToyWitness(chain, [6]) as witness:
        asked = ["statement", hexed(CAROL.address), "--json"]
        seen = cairn(node, *asked, "--witness", witness.url, "--genesis", genesis)
        refused = cairn(node, *asked, "--genesis", other)
        node.unsigned = 10**6
        late = cairn(node, *asked, "--wait", 0.1)
    assert [each["named"] for each in json.loads(seen.stdout)["finality"]["witnesses"]] == [True]
    assert "/genesis" not in node.asked[: node.asked.index("/health", 1)]
    assert (refused.exit_code, late.exit_code) == (1, 6)


def test_a_statement_of_a_node_without_the_blocks_beside_it_says_so(chain: ProofChain, genesis: Path) -> None:
    class Pruned(ToyNode):
        def _answer(self, path: list[str], query: dict[str, int]) -> Answer:
            is_gone = path == ["history", "proof"] and query["from"] < 4
            return problem(404, "BLOCK_NOT_KEPT") if is_gone else super()._answer(path, query)

    with Pruned(chain) as node:
        asked = ["statement", hexed(ALICE.address), "--from", 1, "--to", 4, "--genesis", genesis]
        result = cairn(node, *asked)
    assert (result.exit_code, result.stderr) == (0, "")
    assert re.search("^first +block 1, whose time is not proven; the block before it is of ", result.stdout, re.M)
    assert "- of which days it is: the file does not have the time of block 1\n" in result.stdout


def test_a_node_that_gives_other_blocks_at_the_ends_is_refused(chain: ProofChain, genesis: Path) -> None:
    with ToyNode(chain) as node:
        asked = ["statement", hexed(CAROL.address), "--from", 3, "--to", 4, "--genesis", genesis]
        node.lies["/history/proof"] = chain.history(3, HEAD - 1, HEAD)
        under_another = cairn(node, *asked)
        node.lies["/history/proof"] = chain.history(7, HEAD, HEAD)
        elsewhere = cairn(node, *asked)
    assert (under_another.exit_code, "did not prove block 2 under block 10" in under_another.stderr) == (1, True)
    assert (elsewhere.exit_code, "are not at the ends of 3 to 4" in elsewhere.stderr) == (1, True)


def test_without_heights_a_statement_is_of_everything(chain: ProofChain, genesis: Path) -> None:
    result = stated(chain, "--genesis", genesis, "--json")
    assert (json.loads(result.stdout)["from"], json.loads(result.stdout)["to"]) == (0, HEAD)


def days() -> ProofChain:
    """A block every eight hours, from 2025-01-01 on: block 3 is the first of the second day."""
    chain = ProofChain("days", balances={ALICE.address: COIN})
    for nonce in range(9):
        chain.time += 8 * 3600 - 1
        chain.add([chain.pay(ALICE, CAROL.address, 1, nonce)])
    return chain


def test_dates_are_whole_days_in_utc() -> None:
    chain = days()
    times = [block.time for block in chain.blocks]
    start = 1_735_689_600
    for first, last, name in ((0, 0, "2025-01-01"), (1, 1, "2025-01-02"), (0, 2, "2025-01-01")):
        until = f"2025-01-0{last + 1}"
        result = stated(chain, "--from", name, "--to", until, "--json")
        facts = json.loads(result.stdout)
        inside = [h for h, time in enumerate(times) if start + first * 86_400 <= time < start + (last + 1) * 86_400]
        assert (facts["from"], facts["to"]) == (inside[0], inside[-1])
    future = stated(chain, "--to", "2999-01-01", "--json")
    assert json.loads(future.stdout)["to"] == chain.height
    assert f"the newest signed block, {chain.height}, is of 2025-01-04" in future.stderr
    early = stated(chain, "--from", "2024-01-01", "--to", "2024-12-31", "--json")
    assert (early.exit_code, json.loads(early.stderr)["detail"]) == (
        4, "--to 2024-12-31: the chain began later, at 2025-01-01 00:00:00 UTC",
    )  # fmt: skip


def test_the_page_names_the_days_and_the_file_that_was_saved(tmp_path: Path) -> None:
    page, proof, again = tmp_path / "s.html", tmp_path / "q1 <2025>.json", tmp_path / "again.html"
    asked = ["--from", "2025-01-02", "--html", page, "--force"]
    assert stated(days(), *asked, "--to", "2025-01-03", "-o", proof).exit_code == 0
    text = page.read_text()
    assert "block 3 of 2025-01-02 00:00:18 UTC; the block before it is of 2025-01-01 16:00:12 UTC" in text
    assert "block 8 of 2025-01-03 16:00:48 UTC; the block after it is of 2025-01-04 00:00:54 UTC" in text
    # Whoever checks the file gets the same page: it says nothing that the file does not show.
    genesis = tmp_path / "genesis.json"
    genesis.write_bytes(days().genesis)
    assert cairn(None, "check", proof, "--genesis", genesis, "--html", again).exit_code == 0
    checked_at = "<tr><th>checked</th>.*\n"
    assert re.sub(checked_at, "", again.read_text()) == re.sub(checked_at, "", text)
    assert "cairn check &#x27;q1 &lt;2025&gt;.json&#x27; --genesis genesis.json" in page.read_text()
    assert stated(days(), *asked).exit_code == 0
    assert "block 9 of 2025-01-04 00:00:54 UTC, the newest block that is signed here" in page.read_text()
    assert "that was not saved" in page.read_text()
    assert "cairn check" not in page.read_text()


def test_a_day_without_a_block_has_no_statement() -> None:
    chain = ProofChain("gap", balances={ALICE.address: COIN})
    for nonce in range(2):
        chain.add([chain.pay(ALICE, CAROL.address, 1, nonce)])
        chain.time += 5 * 86_400
    chain.add([chain.pay(ALICE, CAROL.address, 1, 2)])
    result = stated(chain, "--from", "2025-01-08", "--to", "2025-01-09")
    assert (result.exit_code, "block 2 is of before, 3 of after" in result.stderr) == (4, True)


@pytest.mark.parametrize("day", ["2025-01-05", "2999-01-01"])
def test_a_statement_from_a_day_after_the_last_block_is_not_one_of_everything(day: str) -> None:
    for args in ([], ["--to", "9"], ["--to", "2999-01-02"]):
        result = stated(days(), "--from", day, *args)
        assert (result.exit_code, result.stdout) == (4, "")
        assert f"--from {day}: there is nothing to show yet: the newest signed block, 9, is of 2025-01-04" in (
            result.stderr
        )


def test_a_statement_from_a_day_whose_blocks_are_not_kept_says_so() -> None:
    class Pruned(ToyNode):
        def _answer(self, path: list[str], query: dict[str, int]) -> Any:
            return problem(404, "BLOCK_NOT_KEPT") if "time" in query else super()._answer(path, query)

    with Pruned(days()) as node:
        result = cairn(node, "statement", hexed(CAROL.address), "--from", "2025-01-02", "--json")
    assert (result.exit_code, json.loads(result.stderr)["code"]) == (4, "BLOCK_NOT_KEPT")


def test_a_statement_ends_at_the_newest_signed_block_if_empty_ones_follow() -> None:
    chain = days()
    with ToyNode(chain, head=4) as node:
        node.empty = 2
        for end in ("latest", "2025-01-02"):
            result = cairn(node, "statement", hexed(CAROL.address), "--to", end, "--json")
            assert (result.exit_code, json.loads(result.stdout)["to"]) == (0, 4)


def test_a_node_that_moves_the_ends_of_a_statement_is_refused() -> None:
    class Liar(ToyNode):
        shift = 0

        def _answer(self, path: list[str], query: dict[str, int]) -> Any:
            status, body = super()._answer(path, query)
            return status, body | {"blockHeight": body["blockHeight"] + self.shift} if "time" in query else body

    with Liar(days()) as node:
        for option, name, moved in (("--from", "2025-01-02", "2025-01-02"), ("--to", "2025-01-02", "2025-01-03")):
            asked = ["statement", hexed(CAROL.address), option, name]
            node.shift = 0
            assert cairn(node, *asked).exit_code == 0
            for shift in (1, 4, 9):
                node.shift = shift
                assert f"is not before {moved}" in cairn(node, *asked).stderr
            for shift in (-1, -2):
                node.shift = shift
                assert f"is not the last before {moved}" in cairn(node, *asked).stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--from", "latest"], "--from: 'latest' is not a height or a date such as 2026-01-31"),
        (["--to", "2025-02-30"], "--to: '2025-02-30' is not a height, a date such as 2026-01-31, or latest"),
        (["--to", "9999-12-31"], "--to: '9999-12-31' is too late"),
        (["--from", "5", "--to", "4"], "--from is block 5, above --to, block 4"),
        (["-o", "nowhere/x"], "nowhere is not a directory"),
    ],
)
def test_wrong_ends_of_a_statement_exit_with_2(chain: ProofChain, args: list[str], says: str) -> None:
    result = stated(chain, *args)
    assert (result.exit_code, says in result.stderr) == (2, True)


def test_another_accounts_statement_is_refused(chain: ProofChain, genesis: Path) -> None:
    with ToyNode(chain) as node:
        node.lies[f"/account/{hexed(CAROL.address)}/statement"] = chain.statement(ALICE.address, 2, 5, HEAD)
        result = cairn(node, "statement", hexed(CAROL.address), "--from", 2, "--to", 5, "--genesis", genesis)
        node.lies[f"/account/{hexed(CAROL.address)}/statement"] = chain.statement(CAROL.address, 2, 3, HEAD)
        shorter = cairn(node, "statement", hexed(CAROL.address), "--from", 2, "--to", 5, "--genesis", genesis)
    assert (result.exit_code, "the statement of" in result.stderr) == (1, True)
    assert (shorter.exit_code, "from 2 to 3" in shorter.stderr) == (1, True)
