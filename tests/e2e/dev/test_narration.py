"""What `cairn dev` prints while it runs."""

import json

import httpx
import pytest

from tests.support.node_process import LISTENING, NodeProcess, await_printed, command, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.ports import free_ports
from tests.support.public import PublicNode
from tests.support.rpc import rpc
from tests.support.wallet import dev_account, sign_transfer


def test_blocks_transfers_refusals_and_reverts_are_printed_after_the_banner() -> None:
    with NodeProcess.start_dev("--block-time", "0") as node:
        public = PublicNode(node.url)
        snapshot = rpc(node.url, "evm_snapshot")
        tx_hash = public.submit(sign_transfer(dev_account(0), dev_account(1).address, 7, 0))
        await_printed(node, f"  dev0 → dev1  7 wei  {tx_hash}\n")
        used, later = (sign_transfer(dev_account(0), dev_account(1).address, 8, nonce) for nonce in (0, 5))
        assert public.post(used.body).json()["code"] == "NONCE_TOO_LOW"
        await_printed(node, "refused: NONCE_TOO_LOW")
        public.submit(later)
        await_printed(node, "queued: waits for nonce 1  dev0 → dev1  8 wei")
        # A worker refuses it, and the core never sees it.
        assert public.post(used.with_fields(value=9)).json()["code"] == "INVALID_SIGNATURE"
        await_printed(node, "refused: INVALID_SIGNATURE")
        rpc(node.url, "evm_revert", snapshot)
        await_printed(node, "reverted to block 0\n")
        public.close()
        _, told = node.stdout.split(LISTENING)
        lines = [line[10:] for line in told.splitlines()[1:]]
        assert lines[:2] == ["block 1  1 transaction", f"  dev0 → dev1  7 wei  {tx_hash}"]
        assert [line.split()[0] for line in lines[2:5]] == ["refused:", "queued:", "refused:"]
        assert lines[5:] == ["reverted to block 0"]
        assert "\x1b" not in node.stdout


def test_with_log_format_json_every_line_is_json() -> None:
    # `start_dev` looks for the line that people read.
    with NodeProcess.start(("dev", "--port", "0", "--log-format", "json")) as node:
        await_printed(node, "\n")
        started = json.loads(node.stdout)
        assert (started["event"], started["chainId"], len(started["accounts"])) == ("listening", 1337, 10)
        rpc(started["url"], "evm_mine")
        await_printed(node, '"newBlock"')
        await_printed(node, "}\n")
        assert [json.loads(line)["event"] for line in node.stdout.splitlines()] == ["listening", "newBlock"]


def test_quiet_prints_only_the_listening_line() -> None:
    with NodeProcess.start_dev("-q", "--block-time", "0") as node:
        rpc(node.url, "evm_mine")
        assert node.stop() == 0
        assert node.stdout == f"{LISTENING}{node.url}\n"


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_node_runs_with_closed_standard_streams(closed: str) -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    without = ("sh", "-c", f'exec "$0" "$@" {closed}', *command(()))
    with NodeProcess(("dev", "--port", str(port), "--block-time", "0"), program=without) as node:
        wait_until(lambda: is_ready(url) or not node.is_running, PATIENCE_S, f"/ready: {node.stderr}")
        rpc(url, "evm_mine")
        if closed == "2>&-":
            await_printed(node, "block 1  0 transactions")
        assert node.stop() == 0, node.stderr
        assert ("Listening on" in node.stdout) is (closed == "2>&-")
        # A stop is all that a node without trouble says there; on a slow machine, what took long too.
        told = [line for line in node.stderr.splitlines() if "took long" not in line]
        assert ["stopping" in line for line in told] == ([True] if closed == ">&-" else [])


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/ready", timeout=PATIENCE_S).status_code == 200
    except httpx.TransportError:
        return False
