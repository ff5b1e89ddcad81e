"""Transfers that are only tried, on a node in process."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import rlp  # type: ignore[import-untyped]
from eth_account import Account as Wallet
from eth_utils.crypto import keccak

from cairn.api import chain_view
from cairn.api.chain_view import ChainView
from cairn.api.server.websocket_session import EXTENSION
from cairn.config import Settings
from cairn.domain.types import Address
from tests.support.core_fixtures import ACCOUNTS, GWEI, opened_core, settings
from tests.support.recording_socket import RecordingSocket
from tests.support.rest_node import RestNode, rest_node
from tests.support.rpc_node import FEE, answer_of, call, refusal

ALICE, BOB = "0x" + ACCOUNTS[0].hex(), "0x" + ACCOUNTS[1].hex()
CAROL, DAVE = "0x" + "ca" * 20, "0x" + "da" * 20
PAYMENT = {"from": ALICE, "to": CAROL, "value": "0x7"}


def payload(*blocks: dict[str, Any], **flags: object) -> dict[str, Any]:
    return {"blockStateCalls": list(blocks), **flags}


def paid(*calls: dict[str, Any], **parts: object) -> dict[str, Any]:
    return {"calls": list(calls), **parts}


REFUSED = [
    ({}, -32602, "empty input"),
    (payload(), -32602, "empty input"),
    ({"blockStateCalls": {}}, -32602, "blockStateCalls: expected a list"),
    (payload({"call": []}), -32602, "block: 'call' is not a field of a block"),
    (payload({"calls": {}}), -32602, "calls: expected a list"),
    (payload({"calls": [5]}), -32602, "transaction: expected an object"),
    (payload(paid(), validation=1), -32602, "validation: expected true or false"),
    (payload(paid(), tracing=True), -32602, "simulation: 'tracing' is not a field of a simulation"),
    (payload(*[{}] * 17), -38026, "too many blocks"),
    (payload(paid(*[PAYMENT] * 250), paid(PAYMENT)), -38026, "too many transfers"),
    (payload(paid(*[PAYMENT] * 250, stateOverrides={BOB: {}})), -38026, "too many transfers or overridden accounts"),
    (payload(paid(blockOverrides={"time": hex(2**64 - 1)}), {}), -38021, "block timestamps must be in order"),
    (payload(paid(blockOverrides={"time": "0x1"})), -38021, "block timestamps must be in order: 1 <="),
    (payload(paid(blockOverrides={"number": "0x9"})), -32602, "block override: 'number' is not a field"),
    (payload(paid(stateOverrides={BOB: {"code": "0x"}})), -32602, "state override: 'code' is not a field"),
    (payload(paid(stateOverrides={"0x1": {}})), -32602, "state overrides: "),
    (payload(paid(PAYMENT, blockOverrides={"gasLimit": "0x5207"})), -38015, "block gas limit reached"),
    (payload(paid(PAYMENT | {"gas": hex(10**9)})), -38015, "exceeds block gas limit"),
    (payload(paid(PAYMENT | {"gas": "0x5207"})), -38013, "intrinsic gas too low"),
    (payload(paid(PAYMENT | {"nonce": "0x1"}), validation=True), -38011, "nonce too high"),
    (payload(paid(PAYMENT, PAYMENT | {"nonce": "0x0"}), validation=True), -38010, "nonce too low"),
    (payload(paid(PAYMENT | {"maxFeePerGas": "0x1"}), validation=True), -38012, "transaction underpriced: max fee"),
    (payload(paid(PAYMENT | {"data": "0x00", "gas": "0x520b"})), -38013, "intrinsic gas too low"),
    (payload(paid(PAYMENT | {"data": "0x" + "00" * 257})), -32000, "oversized data: the data has 257 bytes"),
    (payload(paid(PAYMENT | {"data": "0x00"}, blockOverrides={"gasLimit": "0x520b"})), -38015, "block gas limit"),
    (payload(paid(PAYMENT, PAYMENT, blockOverrides={"gasLimit": hex(41_999)})), -38015, "block gas limit reached"),
    (payload(paid({"from": ALICE})), -32000, "contract creation is not supported"),
    (payload(paid({"from": DAVE, "to": BOB, "value": "0x1"})), -38014, "insufficient funds"),
]


async def calls_of(node: RestNode, *asked: Any) -> list[Sequence[Any]]:
    """The results of the calls of each block."""
    return [block["calls"] for block in await call(node, "eth_simulateV1", *asked)]


async def test_a_simulated_transfer_changes_nothing(node: RestNode) -> None:
    head = await call(node, "eth_getBlockByNumber", "latest", False)
    (block,) = await call(node, "eth_simulateV1", payload(paid(PAYMENT), validation=True), "latest")
    (result,) = block["calls"]
    assert result == {
        "returnData": "0x", "logs": [], "gasUsed": "0x5208", "maxUsedGas": "0x5208", "status": "0x1",
    }  # fmt: skip
    assert (block["number"], block["parentHash"]) == ("0x1", head["hash"])
    assert int(block["timestamp"], 16) == int(head["timestamp"], 16) + 1
    assert (block["gasUsed"], block["baseFeePerGas"]) == ("0x5208", hex(GWEI))
    assert len(block["transactions"]) == 1
    # No block was made, nothing is pending, and nobody has paid.
    assert await call(node, "eth_blockNumber") == "0x0"
    assert await call(node, "eth_getBalance", CAROL, "pending") == "0x0"
    assert await call(node, "eth_getTransactionCount", ALICE, "pending") == "0x0"


async def test_a_simulated_reference_uses_gas_and_is_shown(node: RestNode) -> None:
    calls = paid(PAYMENT, PAYMENT | {"input": "0x00ff"})
    (block,) = await call(node, "eth_simulateV1", payload(calls, validation=True, returnFullTransactions=True))
    assert [result["gasUsed"] for result in block["calls"]] == [hex(21_000), hex(21_020)]
    assert [tx["input"] for tx in block["transactions"]] == ["0x", "0x00ff"]
    assert [tx["gas"] for tx in block["transactions"]] == [hex(21_000), hex(21_020)]
    assert block["gasUsed"] == hex(42_020)


async def test_a_simulated_transfer_can_spend_what_an_earlier_one_brought(node: RestNode) -> None:
    onward = {"from": CAROL, "to": DAVE, "value": "0x7"}
    results = await calls_of(node, payload(paid(PAYMENT, onward), paid({"from": DAVE, "to": BOB, "value": "0x7"})))
    assert [len(each) for each in results] == [2, 1]
    code, message = await refusal(node, "eth_simulateV1", payload(paid(PAYMENT, onward, onward)))
    assert code == -38014
    assert message.startswith("insufficient funds for gas * price + value: the transfer costs 7")
    # With validation the fee must be paid as well, of what came with the payment.
    enough = PAYMENT | {"value": hex(7 + FEE)}
    await calls_of(node, payload(paid(enough, onward), validation=True))
    short = PAYMENT | {"value": hex(6 + FEE)}
    assert (await refusal(node, "eth_simulateV1", payload(paid(short, onward), validation=True)))[0] == -38014


async def test_overrides_of_accounts_and_blocks_apply(node: RestNode) -> None:
    rich = {DAVE: {"balance": hex(9 + 2 * 21_000 * 10), "nonce": "0x5"}}
    named = {"baseFeePerGas": "0xa", "gasLimit": hex(42_000), "feeRecipient": CAROL, "time": hex(2**33)}
    pay = {"from": DAVE, "to": BOB, "value": "0x4", "maxFeePerGas": "0xa"}
    first = paid(pay, pay, stateOverrides=rich, blockOverrides=named)
    block, after = await call(
        node, "eth_simulateV1", payload(first, paid(), validation=True, returnFullTransactions=True)
    )
    assert [int(tx["nonce"], 16) for tx in block["transactions"]] == [5, 6]
    assert (block["baseFeePerGas"], block["gasLimit"], block["miner"]) == ("0xa", hex(42_000), CAROL)
    assert (block["timestamp"], after["timestamp"]) == (hex(2**33), hex(2**33 + 1))
    assert (after["parentHash"], after["baseFeePerGas"]) == (block["hash"], hex(GWEI))
    # One coin is left, and the fees are there for whom the block names.
    last = {"from": DAVE, "to": BOB, "value": "0x1"}
    fees = {"from": CAROL, "to": BOB, "value": hex(2 * 21_000 * 10)}
    free = paid(blockOverrides={"baseFeePerGas": "0x0"})
    await calls_of(node, payload(first, free | {"calls": [last, fees]}, validation=True))
    too_much = free | {"calls": [last, last]}
    assert (await refusal(node, "eth_simulateV1", payload(first, too_much, validation=True)))[0] == -38014


async def test_traced_transfers_are_logged_as_in_geth(node: RestNode) -> None:
    nothing = PAYMENT | {"value": "0x0"}
    (block,) = await call(
        node, "eth_simulateV1", payload(paid(PAYMENT, nothing, PAYMENT | {"to": DAVE}), traceTransfers=True)
    )
    first, none, second = (result["logs"] for result in block["calls"])
    assert none == []
    assert first[0] == {
        "address": "0x" + "ee" * 20,
        "topics": [
            "0x" + keccak(text="Transfer(address,address,uint256)").hex(),
            "0x" + "00" * 12 + ALICE[2:],
            "0x" + "00" * 12 + CAROL[2:],
        ],
        "data": "0x" + "00" * 31 + "07",
        "blockNumber": block["number"],
        "blockHash": block["hash"],
        "blockTimestamp": block["timestamp"],
        "transactionHash": block["transactions"][0],
        "transactionIndex": "0x0",
        "logIndex": "0x0",
        "removed": False,
    }
    assert (second[0]["logIndex"], second[0]["transactionIndex"]) == ("0x1", "0x2")


async def test_a_tried_transaction_is_the_one_that_would_be_signed(node: RestNode) -> None:
    tried = PAYMENT | {"maxFeePerGas": hex(2 * GWEI), "maxPriorityFeePerGas": hex(5), "gas": hex(30_000)}
    asked = payload(paid(tried), validation=True, returnFullTransactions=True)
    ((tx,),) = [block["transactions"] for block in await call(node, "eth_simulateV1", asked)]
    assert (tx["type"], tx["from"], tx["gasPrice"]) == ("0x2", ALICE, hex(GWEI + 5))
    unsigned = [1337, 0, 5, 2 * GWEI, 30_000, bytes.fromhex(CAROL[2:]), 7, b"", []]
    assert tx["hash"] == "0x" + keccak(b"\x02" + rlp.encode([*unsigned, 0, 0, 0])).hex()
    signed = Wallet.sign_transaction(
        {
            "chainId": 1337, "nonce": 0, "maxPriorityFeePerGas": 5, "maxFeePerGas": 2 * GWEI,
            "gas": 30_000, "to": bytes.fromhex(CAROL[2:]), "value": 7,
        },
        b"\x01" * 32,
    )  # fmt: skip
    assert rlp.decode(bytes(signed.raw_transaction)[1:])[:9] == rlp.decode(rlp.encode(unsigned))


async def test_a_simulation_starts_from_any_block(node: RestNode) -> None:
    await call(node, "eth_sendTransaction", PAYMENT | {"to": BOB})
    node.mine()
    for block, number, nonce in (("earliest", "0x1", "0x0"), ("latest", "0x2", "0x1")):
        asked = payload(paid(PAYMENT), validation=True, returnFullTransactions=True)
        (tried,) = await call(node, "eth_simulateV1", asked, block)
        assert (tried["number"], tried["transactions"][0]["nonce"]) == (number, nonce)
    assert (await refusal(node, "eth_simulateV1", payload(paid()), "0x9"))[1] == "header not found"


async def test_an_impossible_simulation_is_refused(node: RestNode) -> None:
    for asked, code, begins in REFUSED:
        found, message = await refusal(node, "eth_simulateV1", asked)
        assert (found, message[: len(begins)]) == (code, begins)


async def test_without_validation_a_nonce_is_ignored(node: RestNode) -> None:
    answer = await answer_of(node, "eth_simulateV1", payload(paid(PAYMENT | {"nonce": "0x9"})))
    assert answer["result"][0]["calls"][0]["status"] == "0x1"


async def test_each_transfer_and_override_counts_against_the_rate_limit(tmp_path: Path) -> None:
    """As the calls of a batch do."""
    async with rest_node(tmp_path, settings(rate_limit_per_s=0.001, rate_limit_burst=10)) as node:
        far = httpx.ASGITransport(node.app, client=("192.0.2.1", 5))
        async with httpx.AsyncClient(transport=far, base_url="http://localhost") as client:

            async def errors_of(*simulations: dict[str, Any]) -> list[Any]:
                """The errors of a batch; None for each simulation that was done."""
                call = {"jsonrpc": "2.0", "id": 1, "method": "eth_simulateV1"}
                answers = await client.post("/rpc", json=[call | {"params": [each]} for each in simulations])
                return [answer.get("error") for answer in answers.json()]

            # Ten requests may be made. One is counted for what is refused, and then nine are left.
            (refused,) = await errors_of(payload(paid(*[PAYMENT] * 250)))
            assert (refused["code"], refused["message"].split(";")[0]) == (
                -32005, "limit exceeded: this simulation counts as 250 calls",
            )  # fmt: skip
            four = payload(paid(PAYMENT, PAYMENT, stateOverrides={BOB: {}}), paid(PAYMENT))
            *done, last = await errors_of(four, four, payload({}), payload({}))
            assert (done, last["code"]) == ([None, None, None], -32005)
        # Loopback is never limited.
        assert len(await calls_of(node, payload(paid(*[PAYMENT] * 250)))) == 1


class FarSocket(RecordingSocket):
    """The connection of a client that sends `messages` and leaves."""

    refusal = None

    def __init__(self, messages: Sequence[object]) -> None:
        super().__init__()
        self.writable = asyncio.Event()
        self.writable.set()
        self._events: list[dict[str, Any]] = [{"type": "websocket.connect"}]
        self._events += ({"type": "websocket.receive", "text": json.dumps(each)} for each in messages)
        self._events.append({"type": "websocket.disconnect"})

    def limit(self, node_settings: Settings, max_message_bytes: int) -> None:
        pass

    def has_left(self) -> bool:
        return False

    async def receive(self) -> dict[str, Any]:
        return self._events.pop(0)

    async def send(self, event: object) -> None:
        pass


async def test_a_simulation_over_a_socket_counts_as_many_calls(tmp_path: Path) -> None:
    async with rest_node(tmp_path, settings(rate_limit_per_s=0.001, rate_limit_burst=10)) as node:
        nine = {"jsonrpc": "2.0", "id": 1, "method": "eth_simulateV1", "params": [payload(paid(*[PAYMENT] * 9))]}
        socket = FarSocket([nine, nine])
        scope = {
            "type": "websocket", "path": "/rpc", "headers": [(b"host", b"localhost")], "client": ("192.0.2.1", 5),
            "extensions": {EXTENSION: {"connection": socket}},
        }  # fmt: skip
        await node.app(scope, socket.receive, socket.send)
        # Ten requests may be made, and one of them was to connect.
        done, refused = socket.messages
        assert ("result" in done, refused["error"]["code"]) == (True, -32005)


class PausedTurns:
    """Like `in_slices`, but it pauses before the second item until `goes_on` is set."""

    def __init__(self) -> None:
        self.reached, self.goes_on = asyncio.Event(), asyncio.Event()

    async def __call__(self, items: Iterable[Any]) -> AsyncIterator[Any]:
        for number, item in enumerate(items):
            if number:
                self.reached.set()
                await self.goes_on.wait()
            yield item


DAVE_PAYS = {"from": DAVE, "to": BOB, "value": "0x1"}


@pytest.mark.parametrize("is_over", [False, True], ids=["while files are moved", "when another chain is open"])
@pytest.mark.parametrize(
    "tried",
    [
        payload(paid(PAYMENT), paid(DAVE_PAYS)),
        payload(paid(PAYMENT, DAVE_PAYS)),
        payload(paid(PAYMENT), paid(PAYMENT)),
    ],
    ids=["between blocks", "between transfers", "when every account was read"],
)
async def test_a_revert_meanwhile_ends_a_simulation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tried: dict[str, Any], is_over: bool
) -> None:
    """Dave has coins only in the block that the revert removes."""
    await check_revert_meanwhile(tmp_path, monkeypatch, is_over, "eth_simulateV1", tried)


@pytest.mark.parametrize("is_over", [False, True], ids=["while files are moved", "when another chain is open"])
@pytest.mark.parametrize("percentiles", [[], [50]])
async def test_a_revert_meanwhile_ends_a_fee_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_over: bool, percentiles: list[int]
) -> None:
    asked = ("eth_feeHistory", "0x2", "latest", percentiles)
    await check_revert_meanwhile(tmp_path, monkeypatch, is_over, *asked)


async def check_revert_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_over: bool, *asked: Any) -> None:
    (tmp_path / "scratch").mkdir()
    turns = PausedTurns()
    monkeypatch.setattr(chain_view, "in_slices", turns)
    view = ChainView(tmp_path / "scratch")
    async with opened_core(tmp_path / "data") as core:
        snapshot = await core.snapshot()
        await core.set_balance(Address(bytes.fromhex(DAVE[2:])), 10**18)
        view.on_info(core.info())
        view.on_phase("ready", "")
        node = RestNode(core, view, settings())
        answering = asyncio.ensure_future(refusal(node, *asked))
        await turns.reached.wait()
        await core.revert(snapshot)
        view.on_info(core.info())
    async with opened_core(tmp_path / "data") as core:
        if is_over:
            await core.mine()
            view.on_info(core.info())
            assert view.height == 1, "the height that it starts from exists again"
        turns.goes_on.set()
        assert await answering == (-32002, "resource unavailable: the chain was reverted meanwhile: ask again")
    view.close()
