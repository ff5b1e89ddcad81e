"""Proof files over the wire, checked offline with the node's genesis.json by the library and by `verify/verify.py`."""

from typing import Any

from cairn.domain.genesis import parse_genesis
from cairn.domain.proof_checks import FinalBlock, ProvenAccount, ProvenHistory, ProvenPayment, Trust
from cairn.domain.proof_files import read_file
from cairn.domain.statement_checks import ProvenStatement, check_file
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S
from tests.support.public import PublicNode, assert_problem
from tests.support.wallet import dev_account, new_account, sign_transfer
from verify import verify as verifier


def proven(node: PublicNode, path: str) -> Any:
    """What the file proves. On a network, its block is signed with the next one."""
    answer = node.http.get(path)

    def is_signed() -> bool:
        nonlocal answer
        answer = node.http.get(path)
        return answer.status_code == 200 or answer.json()["code"] != "NOT_SIGNED_YET"

    wait_until(is_signed, PATIENCE_S, f"a signature at {path}")
    assert answer.status_code == 200, answer.text
    genesis = node.get("/genesis").content
    verifier.verify(genesis, answer.content)
    return check_file(read_file(answer.content), Trust(parse_genesis(genesis)))


def test_a_payment_and_its_accounts_are_proven(node: PublicNode) -> None:
    payer, payee = dev_account(3), new_account().address
    sent = sign_transfer(payer, payee, 77, node.read(f"/account/{payer.address}")["pendingNonce"])
    height = node.await_confirmed(node.submit(sent))["blockHeight"]
    receipt = proven(node, f"/tx/{sent.tx_hash}/receipt")
    assert isinstance(receipt, ProvenPayment)
    assert ("0x" + receipt.tx.hash.hex(), receipt.tx.value, receipt.block.header.height) == (sent.tx_hash, 77, height)
    held = proven(node, f"/account/{payee}/proof?height={height}")
    assert isinstance(held, ProvenAccount)
    assert held.account.balance == 77
    before = proven(node, f"/account/{payee}/proof?height={height - 1}")
    assert (before.account.balance, before.last_touch) == (0, None)
    statement = proven(node, f"/account/{payee}/statement?to={height}")
    assert isinstance(statement, ProvenStatement)
    assert [payment.tx.value for entry in statement.entries for payment in entry.payments] == [77]


def test_blocks_and_history_are_proven(node: PublicNode) -> None:
    latest = proven(node, "/block/latest/finality")
    assert isinstance(latest, FinalBlock)
    height = latest.block.header.height
    assert node.read(f"/block/{height}")["hash"] == "0x" + latest.block.hash.hex()
    genesis = proven(node, "/block/0/finality")
    assert genesis.block.header.height == 0
    history = proven(node, f"/history/proof?from=0&to={height}")
    assert isinstance(history, ProvenHistory)
    assert (history.first.header.height, history.second.header.height) == (0, height)


def test_an_address_that_nobody_named_holds_nothing(node: PublicNode) -> None:
    nobody = new_account().address
    proven(node, "/block/latest/finality")
    found = proven(node, f"/account/{nobody}/proof")
    assert (found.account.balance, found.last_touch) == (0, None)
    assert proven(node, f"/account/{nobody}/statement").entries == ()


def test_what_does_not_exist_has_no_proof(node: PublicNode) -> None:
    beyond = node.read("/chain")["head"]["blockHeight"] + 1_000_000
    unknown, account = "0x" + "ab" * 32, new_account().address
    assert_problem(node.http.get(f"/tx/{unknown}/receipt"), 404, "TX_NOT_FOUND")
    assert_problem(node.http.get(f"/block/{unknown}/finality"), 404, "BLOCK_NOT_FOUND")
    assert_problem(node.http.get(f"/block/{beyond}/finality"), 404, "BLOCK_NOT_FOUND")
    assert_problem(node.http.get(f"/account/{account}/proof?height={beyond}"), 404, "BLOCK_NOT_FOUND")
    assert_problem(node.http.get(f"/account/{account}/statement?to={beyond}"), 404, "BLOCK_NOT_FOUND")
    assert_problem(node.http.get(f"/history/proof?to={beyond}"), 404, "BLOCK_NOT_FOUND")
    assert_problem(node.http.get(f"/account/{account}/statement?from=2&to=1"), 400, "INVALID_QUERY")
