"""An event socket outlives the core: killed and started again, it is told on without a hole."""

from tests.support.node_process import NodeProcess
from tests.support.public import PublicNode, receive, receive_until
from tests.support.wallet import dev_account, sign_transfer

RECIPIENT = "0x" + "33" * 20


def test_a_socket_goes_on_after_the_core_was_killed() -> None:
    sender = dev_account(0)
    with NodeProcess.start_dev("--block-time", "0", "--workers", "1") as process:
        node = PublicNode(process.url)
        transfers = [sign_transfer(sender, RECIPIENT, 1, nonce) for nonce in range(3)]
        follow = "&".join(f"txConfirmed={transfer.tx_hash}" for transfer in transfers)
        with node.events(f"?newBlock&fromHeight=0&{follow}") as socket:
            assert [receive(socket)["event"] for _ in range(5)] == ["subscribed"] * 4 + ["newBlock"]
            for transfer in transfers:
                node.submit(transfer)
                block, confirmed = receive_until(socket, "txConfirmed")
                assert confirmed["txHash"] == transfer.tx_hash
                assert block["blockHeight"] == confirmed["blockHeight"] == transfers.index(transfer) + 1
                process.replace_core()
        node.close()
