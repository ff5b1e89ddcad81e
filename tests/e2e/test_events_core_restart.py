"""An event socket outlives the core: killed and started again, it is told on without a hole."""

from tests.support.node_process import NodeProcess, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.public import PublicNode, receive, receive_until
from tests.support.wallet import Signed, dev_account, sign_transfer

RECIPIENT = "0x" + "33" * 20


def submit(node: PublicNode, transfer: Signed) -> None:
    """Again while the worker refuses: it may hear of the core before, and of the new one, a moment later than we."""
    wait_until(lambda: node.post(transfer.body).status_code == 200, PATIENCE_S, "a worker with a core")


def test_a_socket_goes_on_after_the_core_was_killed() -> None:
    sender = dev_account(0)
    with NodeProcess.start_dev("--block-time", "0", "--workers", "1") as process:
        node = PublicNode(process.url)
        transfers = [sign_transfer(sender, RECIPIENT, 1, nonce) for nonce in range(3)]
        follow = "&".join(f"txConfirmed={transfer.tx_hash}" for transfer in transfers)
        with node.events(f"?newBlock&fromHeight=0&{follow}&payment={RECIPIENT}") as socket:
            assert [receive(socket)["event"] for _ in range(6)] == ["subscribed"] * 5 + ["newBlock"]
            for height, transfer in enumerate(transfers, start=1):
                submit(node, transfer)
                block, confirmed, payment = receive_until(socket, "payment")
                assert confirmed["txHash"] == payment["txHash"] == transfer.tx_hash
                assert block["blockHeight"] == confirmed["blockHeight"] == payment["blockHeight"] == height
                process.replace_core()
        node.close()
