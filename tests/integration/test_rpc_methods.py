"""What the methods answer, on a node in process."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from eth_account import Account as Wallet
from eth_utils.address import to_checksum_address

from cairn import time_shares
from cairn.api.chain_view import ChainView
from cairn.api.rpc import node_methods
from cairn.api.rpc.block_methods import BlockMethods
from cairn.api.rpc.caller import MOST_OF_A_CLIENT
from cairn.api.rpc.values import MAX_SHOWN
from cairn.core.gateway import PendingPage
from cairn.domain.types import DYNAMIC_FEE, TRANSFER_GAS, BlockHash, BlockHeader, Tx
from tests.support.core_fixtures import ACCOUNTS, GWEI, KEYS, settings, signed
from tests.support.described import assert_described
from tests.support.public import assert_problem
from tests.support.rest_node import RestNode, rest_node
from tests.support.rpc_node import FEE, FULL, NOBODY, RECIPIENT, SENDER, answer_of, call, raw, refusal, send


def raw_ethereum(**changed: Any) -> str:
    """A signed legacy transaction, as wallets make them for any chain."""
    fields = {"to": ACCOUNTS[1], "value": 1, "gas": 90_000, "gasPrice": GWEI, "nonce": 0, "chainId": 1337} | changed
    given: Any = {name: value for name, value in fields.items() if value is not None}
    signed_by_wallet = Wallet.from_key(KEYS[ACCOUNTS[0]]).sign_transaction(given)
    return "0x" + bytes(signed_by_wallet.raw_transaction).hex()


async def test_chain_id_version_and_modules_are_answered(node: RestNode) -> None:
    assert await call(node, "eth_chainId") == "0x539"
    assert await call(node, "net_version") == "1337"
    assert await call(node, "net_listening") is True
    assert await call(node, "eth_syncing") is False
    assert (await call(node, "web3_clientVersion")).startswith("Cairn/v")
    empty = "0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
    assert await call(node, "web3_sha3", "0x") == empty


async def test_the_size_on_disk_is_answered(node: RestNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    size = int(await call(node, "cairn_dataSize"), 16)
    assert size > 0
    with (data / "large").open("wb") as file:
        file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())
    # Not measured again for a while: everybody may ask.
    assert int(await call(node, "cairn_dataSize"), 16) == size
    monkeypatch.setattr(node_methods, "SIZE_LIFETIME_S", 0.0)
    assert int(await call(node, "cairn_dataSize"), 16) >= size + (1 << 20)


async def test_a_chain_of_one_node_has_no_peers(node: RestNode) -> None:
    assert await call(node, "net_peerCount") == "0x0"


async def test_a_transaction_from_pending_to_mined(node: RestNode) -> None:
    tx_hash = await send(node, 0, value=7)
    pending = await call(node, "eth_getTransactionByHash", tx_hash)
    assert (pending["blockHash"], pending["value"], pending["from"]) == (None, "0x7", SENDER)
    assert await call(node, "eth_getTransactionReceipt", tx_hash) is None
    assert await call(node, "eth_getTransactionCount", SENDER, "pending") == "0x1"
    assert await call(node, "eth_getTransactionCount", SENDER, "latest") == "0x0"
    await send(node, 5)
    block = await call(node, "eth_getBlockByNumber", "pending", False)
    assert (block["number"], block["hash"], block["transactions"]) == ("0x1", None, [tx_hash])
    node.mine()
    mined = await call(node, "eth_getTransactionByHash", tx_hash)
    receipt = await call(node, "eth_getTransactionReceipt", tx_hash)
    block = await call(node, "eth_getBlockByNumber", "latest", True)
    assert block["transactions"] == [mined]
    assert receipt["blockHash"] == mined["blockHash"] == block["hash"]
    assert (receipt["status"], receipt["effectiveGasPrice"]) == ("0x1", hex(GWEI))
    assert await call(node, "eth_getBalance", SENDER) == hex(FULL - 7 - FEE)
    assert await call(node, "eth_getBlockByHash", block["hash"], True) == block
    assert (await node.read("/block/latest"))["hash"] == block["hash"]


async def test_transactions_are_found_by_block_and_index(node: RestNode) -> None:
    hashes = [await send(node, nonce) for nonce in range(3)]
    node.mine()
    block_hash = (await call(node, "eth_getBlockByNumber", "0x1", False))["hash"]
    for position, tx_hash in enumerate(hashes):
        expected = await call(node, "eth_getTransactionByHash", tx_hash)
        index = hex(position)
        assert await call(node, "eth_getTransactionByBlockNumberAndIndex", "0x1", index) == expected
        assert await call(node, "eth_getTransactionByBlockHashAndIndex", block_hash, index) == expected
    assert await call(node, "eth_getTransactionByBlockNumberAndIndex", "0x1", "0x3") is None
    assert await call(node, "eth_getTransactionByBlockNumberAndIndex", "0x9", "0x0") is None
    receipts = await call(node, "eth_getBlockReceipts", {"blockHash": block_hash})
    assert [receipt["cumulativeGasUsed"] for receipt in receipts] == ["0x5208", "0xa410", "0xf618"]
    assert receipts == [await call(node, "eth_getTransactionReceipt", tx_hash) for tx_hash in hashes]
    assert await call(node, "eth_getBlockTransactionCountByNumber", "latest") == "0x3"
    assert await call(node, "eth_getBlockTransactionCountByHash", block_hash) == "0x3"
    assert await call(node, "eth_getUncleCountByBlockNumber", "latest") == "0x0"
    assert await call(node, "eth_getUncleCountByBlockHash", block_hash) == "0x0"
    assert await call(node, "eth_getUncleCountByBlockNumber", "0x9") is None


async def test_the_pending_block_has_what_can_be_mined(node: RestNode) -> None:
    """In all that is asked about it: not what waits for a nonce, and not the newest block."""
    await send(node, 0)
    node.mine()
    ready = [await send(node, nonce) for nonce in (1, 2)]
    await send(node, 9)
    block = await call(node, "eth_getBlockByNumber", "pending", False)
    assert block["transactions"] == ready
    assert await call(node, "eth_getBlockTransactionCountByNumber", "pending") == "0x2"
    found = [
        await call(node, "eth_getTransactionByBlockNumberAndIndex", "pending", index) for index in ("0x0", "0x1", "0x2")
    ]
    assert [tx and tx["hash"] for tx in found] == [*ready, None]


async def test_a_queued_transaction_is_not_in_the_pending_block(
    node: RestNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block may come between the question for the time and the one for the transactions."""
    await send(node, 0)
    await send(node, 9)
    list_pending = node.core.list_pending

    async def mined_before(*question: Any) -> PendingPage:
        node.mine()
        return await list_pending(*question)

    monkeypatch.setattr(node.core, "list_pending", mined_before)
    block = await call(node, "eth_getBlockByNumber", "pending", False)
    assert block["transactions"] == []


async def test_balances_and_nonces_are_read_as_of_any_block(node: RestNode) -> None:
    for nonce in range(3):
        await send(node, nonce, value=1)
        node.mine()
    for height in range(4):
        block_hash = (await call(node, "eth_getBlockByNumber", hex(height), False))["hash"]
        for block in (hex(height), {"blockNumber": hex(height)}, {"blockHash": block_hash}, block_hash):
            assert await call(node, "eth_getBalance", SENDER, block) == hex(FULL - height * (1 + FEE))
            assert await call(node, "eth_getTransactionCount", SENDER, block) == hex(height)
    assert await refusal(node, "eth_getBalance", SENDER, "0x4") == (-32000, "header not found")
    unknown = {"blockHash": "0x" + "00" * 32, "requireCanonical": True}
    assert await refusal(node, "eth_getBalance", SENDER, unknown) == (-32000, "header for hash not found")


async def test_blocks_that_are_not_kept_are_null_and_their_state_an_error(node: RestNode) -> None:
    hashes = []
    for nonce in range(6):
        hashes.append(await send(node, nonce))
        if nonce == 5:
            node.mine_after_pruning(4)
        else:
            node.mine()
    code, message = await refusal(node, "eth_getBalance", SENDER, "0x2")
    assert code == -32000
    assert message.startswith("historical state is not available: block 2 is not kept")
    assert await call(node, "eth_getBlockByNumber", "0x2", False) is None
    assert await call(node, "eth_getTransactionReceipt", hashes[0]) is None
    assert (await call(node, "eth_getBlockByNumber", "earliest", False))["number"] == "0x4"
    assert (await call(node, "eth_feeHistory", "0x10", "latest"))["oldestBlock"] == "0x4"
    assert await call(node, "eth_getBalance", SENDER, "0x4") == hex(FULL - 4 * (1 + FEE))


async def test_the_pending_block_has_the_time_of_the_chains_clock(node: RestNode) -> None:
    newest = await call(node, "eth_getBlockByNumber", "latest", False)
    await call(node, "evm_increaseTime", 100_000)
    pending = await call(node, "eth_getBlockByNumber", "pending", False)
    assert int(pending["timestamp"], 16) >= int(newest["timestamp"], 16) + 100_000
    await call(node, "evm_setNextBlockTimestamp", 5_000_000_000)
    for _ in range(2):
        assert (await call(node, "eth_getBlockByNumber", "pending", False))["timestamp"] == hex(5_000_000_000)


async def test_a_raw_transaction_that_is_no_transfer_is_refused(node: RestNode) -> None:
    for number in (0, 3, 4, 127):
        code, message = await refusal(node, "eth_sendRawTransaction", f"0x{number:02x}c0")
        assert code == -32000
        assert message.startswith(f"transaction type not supported: type {number:#x}")
    for rubbish in ("0xc0", "0xf8", "0xff" + "00" * 300, raw(signed(0)) + "00", "0x01c0", "0x02c0"):
        code, message = await refusal(node, "eth_sendRawTransaction", rubbish)
        assert code == -32000
        assert message.startswith("rlp: ")
    _, message = await refusal(node, "eth_sendRawTransaction", raw_ethereum(to=""))
    assert message.startswith("contract creation is not supported")
    _, message = await refusal(node, "eth_sendRawTransaction", raw_ethereum(data="0x" + "01" * 257))
    assert message.startswith("oversized data: the data has 257 bytes")
    _, message = await refusal(node, "eth_sendRawTransaction", raw_ethereum(chainId=1))
    assert message == "invalid sender: invalid chain id for signer: have 1 want 1337"
    _, message = await refusal(node, "eth_sendRawTransaction", raw_ethereum(chainId=None))
    assert message.startswith("only replay-protected (EIP-155) transactions allowed over RPC")
    assert await refusal(node, "eth_sendRawTransaction", "0x") == (-32000, "typed transaction too short")
    assert (await refusal(node, "eth_sendRawTransaction", "0x1"))[0] == -32602
    assert (await node.read("/chain"))["mempool"]["pending"] == 0


async def test_a_transaction_sent_again_is_already_known(node: RestNode) -> None:
    tx_hash = await send(node, 0)
    for _ in range(2):
        answer = await answer_of(node, "eth_sendRawTransaction", raw(signed(0)))
        assert answer["error"] == {"code": -32000, "message": "already known", "data": {"txHash": tx_hash}}
        node.mine()


async def test_a_refusal_has_the_code_of_rest_in_its_data(node: RestNode) -> None:
    answer = await answer_of(node, "eth_sendRawTransaction", raw(signed(0, gas_price=1)))
    assert answer["error"]["message"].startswith("transaction underpriced: ")
    assert answer["error"]["data"] == {"code": "GAS_PRICE_TOO_LOW"}
    transfer = {"from": SENDER, "to": RECIPIENT, "value": "0x1"}
    for refused in (
        transfer | {"from": NOBODY},
        transfer | {"data": "0x01", "input": "0x02"},
        transfer | {"chainId": "0x1"},
        transfer | {"type": 3},
        {"from": SENDER},
    ):
        answer = await answer_of(node, "eth_sendTransaction", refused)
        assert answer["error"]["data"] == {"code": "INVALID_FIELD"}
    for refused_raw in ("0xc0", "0x", "0x02c0", raw_ethereum(to="")):
        answer = await answer_of(node, "eth_sendRawTransaction", refused_raw)
        assert answer["error"]["data"] == {"code": "INVALID_FIELD"}


async def test_the_node_signs_for_its_own_accounts(node: RestNode) -> None:
    assert await call(node, "eth_accounts") == ["0x" + address.hex() for address in ACCOUNTS]
    transfer = {"from": SENDER, "to": RECIPIENT, "value": "0x5"}
    first = await call(node, "eth_sendTransaction", transfer)
    second = await call(node, "eth_sendTransaction", transfer | {"gas": "0x6000", "type": "0x0", "nonce": "0x1"})
    third = await call(node, "eth_sendTransaction", transfer | {"type": 0})
    node.mine()
    for nonce, tx_hash in enumerate((first, second, third)):
        assert (await call(node, "eth_getTransactionByHash", tx_hash))["nonce"] == hex(nonce)
    assert await refusal(node, "eth_sendTransaction", transfer | {"from": NOBODY}) == (-32000, "unknown account")
    other = transfer | {"chainId": "0x1"}
    _, message = await refusal(node, "eth_sendTransaction", other)
    assert message == "chainId does not match node's (have=1, want=1337)"
    for rubbish in (True, -1, 1.5, "2"):
        assert (await refusal(node, "eth_sendTransaction", transfer | {"type": rubbish}))[0] == -32602
    misspelt = transfer | {"amount": "0x1"}
    assert (await refusal(node, "eth_sendTransaction", misspelt))[0] == -32602


async def test_the_gas_price_and_the_fee_history_have_the_base_fee(node: RestNode) -> None:
    assert await call(node, "eth_gasPrice") == hex(GWEI)
    assert await call(node, "eth_maxPriorityFeePerGas") == "0x0"
    for nonce, price in enumerate((GWEI, 2 * GWEI, 3 * GWEI)):
        await send(node, nonce, gas_price=price)
    node.mine()
    history = await call(node, "eth_feeHistory", "0x2", "latest", [0, 50, 100])
    assert history["reward"] == [["0x0"] * 3, ["0x0"] * 3]
    assert history["baseFeePerGas"] == [hex(GWEI)] * 3
    assert (await call(node, "eth_getBlockByNumber", "latest", False))["baseFeePerGas"] == hex(GWEI)
    assert (await call(node, "eth_feeHistory", 1, "latest"))["oldestBlock"] == "0x1"
    assert await call(node, "eth_feeHistory", "0x0", "latest") == {"oldestBlock": "0x0", "gasUsedRatio": []}
    code, message = await refusal(node, "eth_feeHistory", 10**4000, "latest")
    assert (code, len(message)) == (-32602, len(f"block count: {'1' * MAX_SHOWN} is not from 0 to 2^64-1"))
    assert "reward" not in await call(node, "eth_feeHistory", "0x1", "latest", [])
    message = "request beyond head block: requested 2, head 1"
    assert await refusal(node, "eth_feeHistory", "0x1", "0x2") == (-32000, message)
    for percentiles in ([101], [-1], [5, 4], [10.5, 10.5], [10**400], [-(10**400)]):
        assert "invalid reward percentile" in (await refusal(node, "eth_feeHistory", "0x1", "latest", percentiles))[1]
    assert (await refusal(node, "eth_feeHistory", "0x1", "latest", [True]))[0] == -32602


@pytest.mark.parametrize(("gas_left", "reward"), [(TRANSFER_GAS, 0), (TRANSFER_GAS - 1, 5)])
async def test_a_reward_is_the_least_tip_that_got_in_and_not_what_others_paid(
    node: RestNode, monkeypatch: pytest.MonkeyPatch, gas_left: int, reward: int
) -> None:
    """A block with room would have taken a transfer without a tip; a full one took none below its least."""
    get_header = ChainView.get_header

    def nearly_full(view: ChainView, height: int) -> tuple[BlockHash, BlockHeader]:
        block_hash, header = get_header(view, height)
        return block_hash, msgspec.structs.replace(header, gas_limit=header.gas_used + gas_left)

    for nonce, tip in enumerate((7, 5, 9)):
        await send(node, nonce, gas_price=GWEI + tip)
    node.mine()
    monkeypatch.setattr(ChainView, "get_header", nearly_full)
    for _ in range(2):
        history = await call(node, "eth_feeHistory", "0x1", "latest", [0, 50, 99.9])
        assert history["reward"] == [[hex(reward)] * 3]


async def test_a_reward_that_was_read_across_a_revert_is_neither_told_nor_kept(
    node: RestNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(node, 0, gas_price=GWEI + 7)
    node.mine()
    get_header, tx_records = ChainView.get_header, ChainView.tx_records

    def full(view: ChainView, height: int) -> tuple[BlockHash, BlockHeader]:
        block_hash, header = get_header(view, height)
        return block_hash, msgspec.structs.replace(header, gas_limit=header.gas_used)

    def reverted(view: ChainView, height: int) -> Iterator[bytes]:
        yield from tx_records(view, height)
        view.reverts += 1

    monkeypatch.setattr(ChainView, "get_header", full)
    with monkeypatch.context() as reverting:
        reverting.setattr(ChainView, "tx_records", reverted)
        assert "reverted" in (await refusal(node, "eth_feeHistory", "0x1", "latest", [50]))[1]
    assert (await call(node, "eth_feeHistory", "0x1", "latest", [50]))["reward"] == [["0x7"]]


async def test_txpool_methods_show_pending_and_queued_transactions(node: RestNode) -> None:
    hashes = {nonce: await send(node, nonce) for nonce in (0, 1, 5)}
    assert await call(node, "txpool_status") == {"pending": "0x2", "queued": "0x1"}
    content = await call(node, "txpool_content")
    (sender,) = content["pending"]
    assert sender.lower() == SENDER
    shown = {nonce: tx["hash"] for part in content.values() for nonce, tx in part[sender].items()}
    assert shown == {str(nonce): tx_hash for nonce, tx_hash in hashes.items()}
    assert list(content["queued"][sender]) == ["5"]
    of_sender = await call(node, "txpool_contentFrom", SENDER)
    assert of_sender == {part: content[part][sender] for part in content}
    assert await call(node, "txpool_contentFrom", NOBODY) == {"pending": {}, "queued": {}}
    summary = (await call(node, "txpool_inspect"))["pending"][sender]["0"]
    assert summary == f"{to_checksum_address(RECIPIENT)}: 1 wei + 21000 gas × {GWEI} wei"
    capped = signed(2, kind=DYNAMIC_FEE, gas_price=GWEI + 5, max_fee=3 * GWEI, max_tip=5)
    await call(node, "eth_sendRawTransaction", raw(capped))
    summary = (await call(node, "txpool_inspect"))["pending"][sender]["2"]
    assert summary.endswith(f": 1 wei + 21000 gas × {3 * GWEI} wei")


async def test_the_core_is_asked_for_its_mempool_again_after_every_change_and_only_then(
    node: RestNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_pending, asked = node.core.list_pending, 0

    async def counted(*question: Any) -> PendingPage:
        nonlocal asked
        asked += 1
        return await list_pending(*question)

    async def shown() -> dict[str, set[int]]:
        nonlocal asked
        asked = 0
        content, again = await call(node, "txpool_content"), await call(node, "txpool_content")
        assert again == content
        assert asked == 1
        return {part: {int(nonce) for txs in content[part].values() for nonce in txs} for part in content}

    monkeypatch.setattr(node.core, "list_pending", counted)
    assert await shown() == {"pending": set(), "queued": set()}
    await send(node, 0)
    assert await shown() == {"pending": {0}, "queued": set()}
    await send(node, 2)
    assert await shown() == {"pending": {0}, "queued": {2}}
    await call(node, "eth_sendRawTransaction", raw(signed(2, gas_price=2 * GWEI)))
    [[tx]] = [txs.values() for txs in (await call(node, "txpool_content"))["queued"].values()]
    assert tx["gasPrice"] == hex(2 * GWEI)
    node.mine()
    assert await shown() == {"pending": set(), "queued": {2}}
    await send(node, 1)
    node.mine()
    assert await shown() == {"pending": set(), "queued": set()}


async def test_a_worker_without_the_notice_shows_the_same_head(tmp_path: Path) -> None:
    async with rest_node(tmp_path, settings(), hears_late=True) as node:
        tx_hash = await send(node, 0)
        node.mine()
        assert await call(node, "eth_blockNumber") == "0x1"
        assert (await call(node, "eth_getTransactionReceipt", tx_hash))["blockNumber"] == "0x1"


UNREADABLE: list[tuple[str, list[Any], str]] = [
    ("eth_getBalance", [], "missing value for required argument 0"),
    ("eth_getBalance", [None], "missing value for required argument 0"),
    ("eth_getBalance", [SENDER, "latest", 1], "too many arguments, want at most 2"),
    ("eth_getBalance", ["0x12"], "address: an address is 0x and 40 hexadecimal digits"),
    ("eth_getBalance", [SENDER, "newest"], "block: hex string without 0x prefix"),
    ("eth_getBalance", [SENDER, "0x01"], "block: hex number with leading zero digits"),
    ("eth_getBalance", [SENDER, {}], "block: give either blockNumber or blockHash"),
    ("eth_getBlockByNumber", ["latest", "yes"], "full: expected true or false"),
    ("eth_getTransactionByHash", ["0x1"], "transaction hash: expected a hash, 0x and 64 hexadecimal digits"),
    ("eth_getFilterChanges", [1], "invalid argument 0: expected the id of a filter"),
    ("web3_sha3", ["0x1"], "data: hex string of odd length"),
]


async def test_malformed_arguments_are_refused(node: RestNode) -> None:
    for method, params, message in UNREADABLE:
        assert await refusal(node, method, *params) == (-32602, message)


async def test_notifications_are_204_and_errors_of_http_are_problems(node: RestNode) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber"}
    notification = {"jsonrpc": "2.0", "method": "eth_blockNumber"}
    for body in (request, notification, [request, notification], [notification], {}, []):
        answer = await node.post(body, "/rpc")
        assert_described(answer)
        assert answer.status_code == (204 if body in (notification, [notification]) else 200)
    assert_problem(await node.http.post("/rpc", content=b"{}"), 415, "UNSUPPORTED_MEDIA_TYPE")
    long = [request] * 60_000
    assert_problem(await node.post(long, "/rpc"), 413, "BODY_TOO_LARGE")
    assert_problem(await node.get("/rpc"), 405, "METHOD_NOT_ALLOWED")


async def test_at_most_three_answers_of_whole_blocks_are_made_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made in turns, each would be in memory until the last one is done."""
    read_txs = BlockMethods.read_txs
    begun = most = 0

    async def counted(blocks: BlockMethods, height: int) -> AsyncIterator[tuple[int, Tx]]:
        nonlocal begun, most
        begun += 1
        most = max(most, begun)
        async for item in read_txs(blocks, height):
            yield item
        begun -= 1

    monkeypatch.setattr(BlockMethods, "read_txs", counted)
    monkeypatch.setattr(time_shares, "SLICE_S", 0.0)
    async with rest_node(tmp_path) as node:
        for nonce in range(3):
            await send(node, nonce)
        node.mine()
        wanted = ("eth_getBlockByNumber", "eth_getBlockReceipts", "debug_getRawBlock")
        calls = [call(node, method, "latest", *[True] * method.endswith("ByNumber")) for method in wanted * 4]
        blocks, receipts, *_ = await asyncio.gather(*calls)
        assert len(blocks["transactions"]) == len(receipts) == 3
        assert most == MOST_OF_A_CLIENT
