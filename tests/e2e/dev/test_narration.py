"""What `cairn dev` prints while it runs."""

import json

from tests.support.node_process import LISTENING, NodeProcess, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.public import PublicNode
from tests.support.rpc import rpc
from tests.support.wallet import dev_account, sign_transfer


def await_printed(node: NodeProcess, text: str) -> None:
    wait_until(lambda: text in node.stdout, PATIENCE_S, f"{text!r} in {node.stdout!r}")


def test_it_tells_of_blocks_transfers_and_reverts_after_the_banner() -> None:
    with NodeProcess.start_dev("--block-time", "0") as node:
        public = PublicNode(node.url)
        snapshot = rpc(node.url, "evm_snapshot")
        tx_hash = public.submit(sign_transfer(dev_account(0), dev_account(1).address, 7, 0))
        await_printed(node, f"  dev0 → dev1  7 wei  {tx_hash}\n")
        rpc(node.url, "evm_revert", snapshot)
        await_printed(node, "reverted to block 0\n")
        public.close()
        _, told = node.stdout.split(LISTENING)
        assert [line[10:] for line in told.splitlines()[1:]] == [
            "block 1  1 transaction",
            f"  dev0 → dev1  7 wei  {tx_hash}",
            "reverted to block 0",
        ]
        assert "\x1b" not in node.stdout


def test_for_programs_every_line_is_json() -> None:
    # `start_dev` looks for the line that people read.
    with NodeProcess.start(("dev", "--port", "0", "--log-format", "json")) as node:
        await_printed(node, "\n")
        started = json.loads(node.stdout)
        assert (started["event"], started["chainId"], len(started["accounts"])) == ("listening", 1337, 10)
        rpc(started["url"], "evm_mine")
        await_printed(node, '"newBlock"')
        await_printed(node, "}\n")
        assert [json.loads(line)["event"] for line in node.stdout.splitlines()] == ["listening", "newBlock"]


def test_it_can_be_quiet() -> None:
    with NodeProcess.start_dev("-q", "--block-time", "0") as node:
        rpc(node.url, "evm_mine")
        assert node.stop() == 0
        assert node.stdout == f"{LISTENING}{node.url}\n"
