"""A dev chain driven over HTTP: blocks, time, money, and the way back, with two workers that never contradict."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from cairn.domain.genesis import COIN, dev_genesis
from cairn.store.chain import ChainStore
from tests.support.audit import audit
from tests.support.node_process import NodeProcess, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.public import PublicNode, assert_problem, connect_patiently, post_anew, receive
from tests.support.rpc import RpcRefused, rpc
from tests.support.wallet import dev_account, new_account, sign_transfer

ASKED_AT_ONCE = 10
"""Over connections of their own, so that both workers get some of them."""
METHOD_NOT_FOUND = -32601
CHAIN_REVERTED = 4205
WAIT_S = 30


@pytest.fixture(scope="module")
def process() -> Iterator[NodeProcess]:
    with NodeProcess.start_dev("--workers", "2", "--block-time", "0") as node:
        yield node


@pytest.fixture
def node(process: NodeProcess) -> Iterator[PublicNode]:
    public = PublicNode(process.url)
    yield public
    public.close()


def height_of(node: PublicNode) -> int:
    return int(node.read("/chain")["head"]["blockHeight"])


def pay(node: PublicNode, to: str, value: int) -> str:
    rich = dev_account(0)
    transfer = sign_transfer(rich, to, value, node.next_nonce(rich.address))
    return str(node.await_confirmed(node.submit(transfer))["txHash"])


def ask_all(read: Callable[[], Any]) -> list[Any]:
    with ThreadPoolExecutor(ASKED_AT_ONCE) as askers:
        return list(askers.map(lambda _: read(), range(ASKED_AT_ONCE)))


def everywhere(read: Callable[[], Any]) -> Any:
    """What every worker says, which is one thing."""
    answers = ask_all(read)
    assert all(answer == answers[0] for answer in answers), answers
    return answers[0]


def read_anew(url: str) -> Any:
    """The JSON of any answer, over a connection of its own; httpx would take longer to make one than the node."""
    host, _, path = url.removeprefix("http://").partition("/")
    with closing(HTTPConnection(host, timeout=PATIENCE_S)) as connection:
        connection.request("GET", f"/{path}")
        return json.loads(connection.getresponse().read())


def code_of(url: str) -> Any:
    """The problem's code, or the transaction's status."""
    body = read_anew(url)
    return body.get("code") or body["status"]


def test_blocks_are_made_when_asked_for(node: PublicNode) -> None:
    before = height_of(node)
    assert rpc(node.url, "evm_mine") == "0x0"
    assert rpc(node.url, "hardhat_mine", "0x3") is True
    assert rpc(node.url, "anvil_mine", 120) is True
    assert height_of(node) == before + 124
    assert int(rpc(node.url, "eth_blockNumber"), 16) == before + 124


def test_the_clock_can_be_set_ahead(node: PublicNode) -> None:
    def latest() -> int:
        return int(node.read("/block/latest")["timestamp"])

    rpc(node.url, "evm_mine")
    start = latest()
    rpc(node.url, "evm_increaseTime", 86_400)
    rpc(node.url, "evm_mine")
    assert start + 86_400 <= latest() <= start + 86_400 + 120
    rpc(node.url, "evm_mine", start + 100_000)
    assert latest() == start + 100_000
    rpc(node.url, "evm_setNextBlockTimestamp", start + 200_000)
    paid = pay(node, new_account().address, 1)
    assert node.read(f"/block/{node.read(f'/tx/{paid}')['blockHash']}")["timestamp"] == start + 200_000
    with pytest.raises(RpcRefused, match="timestamp"):
        rpc(node.url, "evm_mine", start)


def test_the_faucet_gives_coins(node: PublicNode) -> None:
    stranger = new_account().address
    answer = node.post({"address": stranger}, "/faucet")
    assert answer.status_code == 200
    node.await_confirmed(answer.json()["txHash"])
    assert node.balance(stranger) == 100 * COIN
    assert_problem(node.post({"address": stranger, "amount": 10**30}, "/faucet"), 400, "INVALID_FIELD")


class Story:
    """A snapshot, and what happened after it."""

    def __init__(self, node: PublicNode, account: int) -> None:
        rich, self.stranger = dev_account(account), new_account().address
        self._node = node
        # It waits for a nonce that never comes.
        gap = node.next_nonce(rich.address) + 1
        self.waiting = sign_transfer(rich, self.stranger, 1, gap).tx_hash
        node.submit(sign_transfer(rich, self.stranger, 1, gap))
        self.height = height_of(node)
        self.head = node.read("/block/latest")
        self.mempool = node.read("/mempool")
        self.snapshot = rpc(node.url, "evm_snapshot")

    def go_on(self) -> None:
        self.paid = pay(self._node, self.stranger, 5)
        self.block = self._node.read(f"/tx/{self.paid}")["blockHash"]
        rich = dev_account(4)
        late = sign_transfer(rich, self.stranger, 1, self._node.next_nonce(rich.address) + 1)
        self.late = self._node.submit(late)
        rpc(self._node.url, "hardhat_setBalance", self.stranger, hex(7 * COIN))
        assert self._node.balance(self.stranger) == 7 * COIN

    def is_everywhere(self) -> bool:
        return set(ask_all(lambda: code_of(f"{self._node.url}/tx/{self.paid}"))) == {"confirmed"}

    def check_undone(self) -> None:
        """By every worker, and at once: this is asked right after the revert was answered."""
        url = self._node.url
        assert everywhere(lambda: code_of(f"{url}/tx/{self.paid}")) == "TX_NOT_FOUND"
        assert everywhere(lambda: code_of(f"{url}/block/{self.block}")) == "BLOCK_NOT_FOUND"
        assert everywhere(lambda: code_of(f"{url}/tx/{self.late}")) == "TX_NOT_FOUND"
        assert everywhere(lambda: code_of(f"{url}/tx/{self.waiting}")) == "pending"
        assert everywhere(lambda: read_anew(f"{url}/block/latest")) == self.head
        assert everywhere(lambda: read_anew(f"{url}/account/{self.stranger}")["balance"]) == 0
        assert everywhere(lambda: read_anew(f"{url}/mempool")) == self.mempool
        assert rpc(url, "eth_getTransactionByHash", self.paid) is None


def test_a_revert_takes_everything_back(node: PublicNode) -> None:
    reverts = node.read("/chain").get("lastRevert", {"number": 0})["number"]
    for account in (1, 2):
        story = Story(node, account)
        story.go_on()
        later = rpc(node.url, "evm_snapshot")
        # Both workers have it ready, so that both must forget it.
        wait_until(story.is_everywhere, PATIENCE_S, "the payment at every worker")
        assert rpc(node.url, "evm_revert", story.snapshot) is True
        story.check_undone()
        reverts += 1
        assert node.read("/chain")["lastRevert"] == {"number": reverts, "blockHeight": story.height}
        for used_up in (story.snapshot, later, "0xffff"):
            assert rpc(node.url, "evm_revert", used_up) is False
        paid = pay(node, story.stranger, 1)
        assert node.read(f"/tx/{paid}")["blockHeight"] == story.height + 1


def closing_of(socket: ClientConnection) -> tuple[int, str]:
    try:
        while True:
            socket.recv(timeout=PATIENCE_S)
    except ConnectionClosed as closed:
        received = closed.rcvd
    assert received is not None
    return received.code, received.reason


def test_sockets_are_closed_and_told_where_to_resume(node: PublicNode) -> None:
    rpc(node.url, "evm_mine")
    height, snapshot = height_of(node), rpc(node.url, "evm_snapshot")
    with ExitStack() as opened:
        queries = [f"?newBlock&fromHeight={height}"] * 4 + ["?txConfirmed=0x" + "77" * 32]
        sockets = [opened.enter_context(node.events(query)) for query in queries]
        paid = pay(node, new_account().address, 1)
        gone = node.read("/block/latest")["hash"]
        assert rpc(node.url, "evm_revert", snapshot) is True
        for socket in sockets:
            assert closing_of(socket) == (CHAIN_REVERTED, f"the chain was reverted to block {height}")
    with node.events(f"?newBlock&fromHeight={height + 1}&txConfirmed={paid}") as resumed:
        assert [receive(resumed)["event"] for _ in range(2)] == ["subscribed", "subscribed"]
        rpc(node.url, "evm_mine")
        told = receive(resumed)
        assert (told["event"], told["blockHeight"]) == ("newBlock", height + 1)
        assert told["hash"] == node.read("/block/latest")["hash"] != gone


def test_new_heads_go_on_after_the_block_that_the_chain_went_back_to(node: PublicNode) -> None:
    rpc(node.url, "evm_mine")
    height, snapshot = height_of(node), rpc(node.url, "evm_snapshot")
    rpc(node.url, "hardhat_mine", 3)
    with ExitStack() as opened:
        # Both workers get some of them.
        sockets = [opened.enter_context(connect_patiently(node.url.replace("http", "ws") + "/rpc")) for _ in range(4)]
        for socket in sockets:
            socket.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["newHeads"]}))
            assert "result" in receive(socket)
        assert rpc(node.url, "evm_revert", snapshot) is True
        rpc(node.url, "hardhat_mine", 2)
        newest = node.read("/block/latest")["hash"]
        for socket in sockets:
            heads = [receive(socket)["params"]["result"]]
            # A worker that was a moment behind told of blocks before the revert too.
            while heads[-1]["hash"] != newest:
                heads.append(receive(socket)["params"]["result"])
            assert [int(head["number"], 16) for head in heads[-2:]] == [height + 1, height + 2]


def test_a_waiting_request_is_answered_at_a_revert(node: PublicNode) -> None:
    # A request that takes longer to arrive finds the transaction gone already, and waits for it.
    for pause_s in (0.2, 2.0, 10.0):
        if revert_while_one_waits(node, pause_s) < WAIT_S:
            return
    pytest.fail("each was answered only when its time was over")


def revert_while_one_waits(node: PublicNode, pause_s: float) -> float:
    """Revert so long after the request was sent. Returns how long the answer took."""
    snapshot = rpc(node.url, "evm_snapshot")
    rich = dev_account(3)
    waiting = node.submit(sign_transfer(rich, rich.address, 1, node.next_nonce(rich.address) + 1))
    with ThreadPoolExecutor(1) as asking:
        began = time.monotonic()
        answer = asking.submit(code_of, f"{node.url}/tx/{waiting}?wait={WAIT_S}")
        time.sleep(pause_s)
        assert rpc(node.url, "evm_revert", snapshot) is True
        # One that came while the chain was closed is told so.
        assert answer.result() in ("TX_NOT_FOUND", "STORE_UNAVAILABLE")
        return time.monotonic() - began


def test_set_balances_and_reverts_pass_the_audit_and_a_restart(tmp_path: Path) -> None:
    data_dir, stranger = tmp_path / "chain", new_account().address
    with NodeProcess.start_dev("--workers", "1", "--block-time", "0", data_dir=data_dir) as process:
        rpc(process.url, "anvil_setBalance", stranger, hex(3 * COIN))
        rpc(process.url, "evm_increaseTime", 1_000_000)
        snapshot = rpc(process.url, "evm_snapshot")
        rpc(process.url, "anvil_setBalance", stranger, "0x0")
        rpc(process.url, "hardhat_mine", 2)
        assert process.stop() == 0
    audit_directory(data_dir, expected_height=4)
    with NodeProcess.start_dev("--workers", "1", "--block-time", "0", data_dir=data_dir) as process:
        node = PublicNode(process.url)
        assert node.balance(stranger) == 0
        supply = node.read("/chain")["supply"]
        assert supply == sum(dev_genesis().alloc.values())
        assert rpc(process.url, "evm_revert", snapshot) is True
        assert node.balance(stranger) == 3 * COIN
        assert node.read("/chain")["supply"] == supply + 3 * COIN
        rpc(process.url, "evm_mine")
        assert node.read("/block/latest")["timestamp"] >= time.time() + 900_000
        node.close()
        assert process.stop() == 0
    audit_directory(data_dir, expected_height=2)


def audit_directory(data_dir: Path, expected_height: int) -> None:
    chain = ChainStore.open(data_dir, dev_genesis())
    assert audit(chain) == 0
    assert chain.visible == expected_height
    chain.close()


def test_only_dev_chains_have_the_dev_controls(tmp_path: Path) -> None:
    home, owner = tmp_path / "home", new_account().address
    made = NodeProcess.start(("init", str(home), "--alloc", f"{owner}=100coins", "--proposer", owner))
    with made:
        assert made.wait_exit() == 0
    with NodeProcess.start(("run", "--home", str(home), "--port", "0", "--workers", "1")) as process:
        process.wait_ready()
        answer = post_anew(f"{process.url}/faucet", {"address": owner})
        assert (answer.status_code, answer.json()["code"]) == (404, "NOT_A_DEV_CHAIN")
        for method in ("evm_mine", "evm_snapshot", "evm_revert", "hardhat_setBalance", "evm_increaseTime"):
            with pytest.raises(RpcRefused, match=f"the method {method} does not exist/is not available") as refused:
                rpc(process.url, method)
            assert refused.value.code == METHOD_NOT_FOUND
