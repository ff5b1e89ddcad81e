"""Proof files of a dev chain that is reverted: only what the chain holds now can be proven."""

from cairn.domain.genesis import parse_genesis
from cairn.domain.proof_checks import ProvenPayment, Trust
from cairn.domain.proof_files import read_file
from cairn.domain.statement_checks import Proven, ProvenStatement, check_file
from tests.support.node_process import NodeProcess
from tests.support.public import PublicNode, assert_problem
from tests.support.rpc import rpc
from tests.support.wallet import dev_account, new_account, sign_transfer


def proven(node: PublicNode, path: str) -> Proven:
    answer = node.http.get(path)
    assert answer.status_code == 200, answer.text
    return check_file(read_file(answer.content), Trust(parse_genesis(node.get("/genesis").content)))


def test_after_a_revert_the_new_blocks_are_proven_and_the_old_ones_are_not() -> None:
    with NodeProcess.start_dev("--block-time", "0", "--workers", "2") as process:
        node, rich, shop = PublicNode(process.url), dev_account(0), new_account().address
        snapshot = rpc(node.url, "evm_snapshot")
        void, kept = (sign_transfer(rich, shop, value, 0) for value in (5, 7))
        node.await_confirmed(node.submit(void))
        assert isinstance(proven(node, f"/tx/{void.tx_hash}/receipt"), ProvenPayment)
        assert rpc(node.url, "evm_revert", snapshot)
        assert_problem(node.get(f"/tx/{void.tx_hash}/receipt"), 404, "TX_NOT_FOUND")
        node.await_confirmed(node.submit(kept))
        for _ in range(6):
            # By either worker.
            receipt = proven(node, f"/tx/{kept.tx_hash}/receipt")
            assert isinstance(receipt, ProvenPayment)
            assert receipt.tx.value == 7
            statement = proven(node, f"/account/{shop}/statement")
            assert isinstance(statement, ProvenStatement)
            assert statement.closing.balance == 7
        node.close()
