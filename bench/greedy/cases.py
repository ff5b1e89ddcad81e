"""What a greedy client asks for: every route and method, each at its largest."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from bench.greedy.chain import FULL_BLOCK_TXS, PAYER, SENDERS, Filled
from cairn.api.chain_view import ChainView
from cairn.api.events.messages import COMMANDS
from cairn.api.rpc.methods import make_methods
from cairn.core.gateway import CoreGateway
from cairn.domain.genesis import DEV_CHAIN_ID, DEV_KEYS, GWEI
from cairn.domain.transactions import encode_tx, sign_draft
from cairn.domain.types import TRANSFER_GAS, Draft

WALLET = "0x" + SENDERS[0].hex()
OTHER = "0x" + SENDERS[1].hex()
STRANGER = "0x" + "77" * 20
BODY_BYTES = 128 * 1024
BATCH_BODY_BYTES = 2 * 1024 * 1024
SIMULATED = 250
FOLLOWED = 330
"""Addresses in one message."""

CONTROLS = ("evm_", "anvil_", "hardhat_", "cairn_setMiningMode")
"""Controls of a dev chain are not measured: whoever may call them may revert the chain, and stop its blocks."""


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    requests: Sequence[bytes]
    """Each connection repeats them."""
    status: int | None = 200
    """The answer's status; None for a WebSocket."""
    opening: bytes = b""
    """The handshake of a WebSocket."""
    ends_with: bytes = b""
    """On a WebSocket: what the last message of an answer contains."""
    refusal: int = 503
    """Another status that is right: not every body of megabytes finds room."""


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def post(path: str, body: bytes) -> bytes:
    headers = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"POST {path} HTTP/1.1\r\n{headers}\r\n\r\n".encode() + body


def rpc_message(method: str, *params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def rpc(method: str, *params: object) -> bytes:
    return post("/rpc", json.dumps(rpc_message(method, *params)).encode())


def batch(*messages: dict[str, object]) -> bytes:
    return post("/rpc", json.dumps(messages).encode())


def frame(message: object) -> bytes:
    """A masked text frame; a mask of zeros changes nothing."""
    text = json.dumps(message).encode()
    length = bytes((0x80 | len(text),)) if len(text) < 126 else b"\xfe" + len(text).to_bytes(2, "big")
    return b"\x81" + length + bytes(4) + text


def handshake(path: str) -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ).encode()


def every_method() -> set[str]:
    """The method table of JSON-RPC. Building it asks neither the core nor the store."""
    return set(make_methods(cast(CoreGateway, None), ChainView(Path())))


def is_control(method: str) -> bool:
    return method.startswith(CONTROLS)


def rest_cases(filled: Filled) -> list[Case]:
    account = f"/account/{WALLET}"
    old_txs = f"{account}/txs?limit=1000&after={filled.full_heights[0]}-0"
    blocks = [f"/block/{each}" for each in filled.block_hashes]
    return [
        *(Case(f"GET {path}", [get(path)]) for path in ("/health", "/startup", "/ready")),
        *(
            Case(f"GET {path}", [get(path)])
            for path in ("/chain", "/genesis", "/docs", "/openapi.json", "/asyncapi.json", "/")
        ),
        Case("GET /docs/{folder}/{asset}", [get("/docs/reference/request.js")]),
        Case("GET /explorer/{asset}", [get("/explorer/api.js")]),
        Case("GET /explorer/views/{asset}", [get("/explorer/views/overview.js")]),
        Case("GET /tx/{hash}", [get(f"/tx/{each}") for each in filled.tx_hashes]),
        Case("GET /tx/{hash} amounts=string", [get(f"/tx/{each}?amounts=string") for each in filled.tx_hashes]),
        Case("GET /tx/{hash}/proof", [get(f"/tx/{each}/proof") for each in filled.tx_hashes[::50]]),
        Case("GET /mempool", [get("/mempool?limit=1000")]),
        Case("GET /mempool amounts=string", [get("/mempool?limit=1000&amounts=string")]),
        Case("GET /mempool of a sender", [get(f"/mempool?limit=1000&from={WALLET}")]),
        Case("GET /block/{hash}", [get(path) for path in blocks]),
        Case("GET /block/{hash} amounts=string", [get(f"{path}?amounts=string") for path in blocks]),
        Case("GET /block/{hash} transactions=full", [get(f"{path}?transactions=full") for path in blocks]),
        Case("GET /blocks", [get("/blocks?limit=1000")]),
        Case("GET /blocks amounts=string", [get("/blocks?limit=1000&amounts=string")]),
        Case("GET /account/{address}", [get(account)]),
        Case("GET /account/{address} time=", [get(f"{account}?time=1")], 404),
        Case("POST /accounts", [post("/accounts", json.dumps({"addresses": [STRANGER, WALLET] * 500}).encode())]),
        Case("GET /account/{address}/txs", [get(f"{account}/txs?limit=1000")]),
        Case("GET /account/{address}/txs of 1,000 blocks", [get(old_txs)]),
        Case("GET /account/{address}/txs oldest first", [get(f"{account}/txs?limit=1000&order=asc")]),
        Case(
            "GET /account/{address}/txs of two busy accounts", [get(f"{account}/txs?limit=1000&counterparty={OTHER}")]
        ),
        Case("GET /tx/{hash}/receipt", [get(f"/tx/{each}/receipt") for each in filled.tx_hashes[::50]]),
        Case("GET /block/{hash}/finality", [get(f"{path}/finality") for path in blocks]),
        Case("GET /history/proof", [get("/history/proof?from=1")]),
        Case("GET /account/{address}/proof", [get(f"{account}/proof")]),
        Case(
            "GET /account/{address}/proof height=",
            [get(f"{account}/proof?height={each - 1}") for each in filled.full_heights],
        ),
        Case("GET /account/{address}/statement", [get(f"{account}/statement")]),
        Case("GET /validators", [get("/validators")], 404),
        Case("POST /validators", [post("/validators", b"{}")], 404),
        Case("POST /faucet", [post("/faucet", json.dumps({"address": STRANGER, "amount": -1}).encode())], 400),
        Case("POST /tx", [post("/tx", json.dumps(each).encode()) for each in forged_txs(50)], 422),
        Case("POST /tx of 128 KB", [post("/tx", numbers(BODY_BYTES))], 400),
        Case("POST /txs", [post("/txs", json.dumps(forged_txs(100)).encode())]),
        Case("POST /txs of valid ones", [post("/txs", json.dumps(pending_txs(filled, 100)).encode())]),
        Case("POST /txs of 2 MB", [post("/txs", numbers(BATCH_BODY_BYTES))], 400),
        Case("POST /txs of 2 MB with NaN", [post("/txs", numbers(BATCH_BODY_BYTES)[:-1] + b",NaN]")], 400),
        Case("POST /rpc", [post("/rpc", numbers(BODY_BYTES))]),
        Case("POST /rpc of many ids", [post("/rpc", b"[" + b'{"id":1},' * (BODY_BYTES // 9 - 20) + b"{}]")]),
    ]


def numbers(size: int) -> bytes:
    return b"[" + b"1," * (size // 2 - 20) + b"1]"


def forged_txs(count: int) -> list[dict[str, object]]:
    """Complete, but signed by another."""
    drafts = [Draft(SENDERS[2], PAYER, 1 + nonce, TRANSFER_GAS, GWEI, nonce) for nonce in range(count)]
    return [signed_tx(draft, DEV_KEYS[2][1]) | {"from": "0x" + SENDERS[1].hex()} for draft in drafts]


def pending_txs(filled: Filled, count: int) -> list[dict[str, object]]:
    """Those that the mempool was filled with, once more: the node checks all of it, and accepts them."""
    txs = []
    for number in range(count):
        turn, index = divmod(number, len(SENDERS))
        sender, key = DEV_KEYS[index]
        txs.append(signed_tx(Draft(sender, PAYER, 1, TRANSFER_GAS, GWEI, filled.nonces[sender] + turn), key))
    return txs


def signed_tx(draft: Draft, key: bytes) -> dict[str, object]:
    tx = sign_draft(draft, key, DEV_CHAIN_ID)
    return {
        "from": "0x" + tx.sender.hex(),
        "to": "0x" + tx.to.hex(),
        "value": tx.value,
        "gas": tx.gas,
        "nonce": tx.nonce,
        "signature": "0x" + tx.signature.hex(),
    }


def rpc_cases(filled: Filled) -> list[Case]:
    height, block_hash, tx_hash = hex(filled.full_heights[0]), filled.block_hashes[0], filled.tx_hashes[0]
    heights = [hex(each) for each in filled.full_heights]
    used = sign_draft(Draft(SENDERS[3], PAYER, 1, TRANSFER_GAS, GWEI, 0), DEV_KEYS[3][1], DEV_CHAIN_ID)
    raw = "0x" + encode_tx(used, DEV_CHAIN_ID).hex()
    transfer = {"from": WALLET, "to": STRANGER, "value": "0x1"}
    rpc_data = "0x" + "00" * (BODY_BYTES // 2 - 200)
    typed = typed_data()
    one_call: dict[str, tuple[object, ...]] = {
        "eth_chainId": (), "eth_syncing": (), "net_version": (), "net_listening": (), "net_peerCount": (),
        "web3_clientVersion": (), "web3_sha3": (rpc_data,), "eth_coinbase": (), "rpc_modules": (), "cairn_dataSize": (),
        "eth_getBalance": (WALLET, "latest"), "eth_getTransactionCount": (WALLET, "pending"),
        "eth_getCode": (WALLET, "latest"), "eth_getStorageAt": (WALLET, "0x0", "latest"),
        "eth_call": (transfer, "latest"),
        "eth_estimateGas": (transfer,), "eth_getProof": (WALLET, [], "latest"),
        "eth_gasPrice": (), "eth_maxPriorityFeePerGas": (), "eth_blobBaseFee": (),
        "eth_feeHistory": ("0x40", "latest", list(range(100))),
        "eth_blockNumber": (), "eth_getBlockByNumber": (height, True), "eth_getBlockByHash": (block_hash, True),
        "eth_getBlockReceipts": (height,), "eth_getBlockTransactionCountByNumber": ("pending",),
        "eth_getBlockTransactionCountByHash": (block_hash,), "eth_getUncleCountByBlockNumber": (height,),
        "eth_getUncleCountByBlockHash": (block_hash,), "eth_getTransactionByHash": (tx_hash,),
        "eth_getTransactionByBlockNumberAndIndex": ("pending", "0x1"),
        "eth_getTransactionByBlockHashAndIndex": (block_hash, "0x10"), "eth_getTransactionReceipt": (tx_hash,),
        "debug_getRawHeader": (height,), "debug_getRawBlock": (height,), "eth_getRawTransactionByHash": (tx_hash,),
        "debug_getRawTransaction": (tx_hash,), "eth_getRawTransactionByBlockNumberAndIndex": ("pending", "0x1"),
        "eth_getRawTransactionByBlockHashAndIndex": (block_hash, "0x10"), "eth_accounts": (),
        "eth_sendRawTransaction": (raw,), "eth_sendRawTransactionSync": (raw, 1),
        "eth_sendTransaction": (transfer | {"gas": "0x1"},),
        "eth_getLogs": ({"fromBlock": "0x0", "toBlock": "latest"},), "eth_newFilter": ({},), "eth_newBlockFilter": (),
        "eth_newPendingTransactionFilter": (), "eth_getFilterChanges": ("0x1",), "eth_getFilterLogs": ("0x1",),
        "eth_uninstallFilter": ("0x1",), "eth_simulateV1": (simulation(), "latest"), "txpool_status": (),
        "txpool_content": (), "txpool_contentFrom": (WALLET,), "txpool_inspect": (), "eth_sign": (WALLET, rpc_data),
        "personal_sign": (rpc_data, WALLET), "eth_signTypedData": (WALLET, typed),
        "eth_signTypedData_v4": (WALLET, typed),
        "eth_signTransaction": (transfer,), "eth_subscribe": ("newHeads",), "eth_unsubscribe": ("0x1",),
        "cairn_getMiningMode": (),
    }  # fmt: skip
    full_blocks = [rpc("eth_getBlockByNumber", each, True) for each in heights]
    return [
        *(Case(method, [rpc(method, *params)]) for method, params in one_call.items()),
        Case("eth_getBlockByNumber, hashes", [rpc("eth_getBlockByNumber", each, False) for each in heights]),
        Case("eth_getBlockByNumber, pending", [rpc("eth_getBlockByNumber", "pending", True)]),
        Case("eth_getBlockByNumber, every full block", full_blocks),
        Case(
            "batch of 1000 eth_feeHistory", [batch(*[rpc_message("eth_feeHistory", "0x40", "latest", [1, 50])] * 1000)]
        ),
        Case("batch of 1000 full blocks", [batch(*[rpc_message("eth_getBlockByNumber", height, True)] * 1000)]),
        Case("batch of 1000 eth_newBlockFilter", [batch(*[rpc_message("eth_newBlockFilter")] * 1000)]),
        Case("batch of 1000 eth_getBalance", [batch(*[rpc_message("eth_getBalance", WALLET)] * 1000)]),
    ]


def simulation() -> dict[str, object]:
    calls = [{"from": WALLET, "to": STRANGER, "value": "0x1"}] * SIMULATED
    return {"blockStateCalls": [{"calls": calls}], "traceTransfers": True, "returnFullTransactions": True}


def typed_data() -> dict[str, object]:
    """As much as the node accepts, about."""
    items = [{"to": STRANGER, "value": index} for index in range(900)]
    types = {
        "EIP712Domain": [{"name": "name", "type": "string"}],
        "Item": [{"name": "to", "type": "address"}, {"name": "value", "type": "uint256"}],
        "List": [{"name": "items", "type": "Item[]"}],
    }
    return {"types": types, "primaryType": "List", "domain": {"name": "greedy"}, "message": {"items": items}}


def socket_cases(filled: Filled) -> list[Case]:
    follow = [{"event": "txConfirmed", "txHash": each} for each in filled.tx_hashes[:50]]
    following = b"".join(frame({"action": action} | each) for each in follow for action in ("subscribe", "unsubscribe"))
    events, calls = handshake("/events"), handshake("/rpc")
    replay = frame({"action": "subscribe", "event": "newBlock", "fromHeight": 0})
    leave = frame({"action": "unsubscribe", "event": "newBlock"})
    unfollow = frame({"action": "unsubscribe"} | follow[0]) * 50
    full_block = frame(rpc_message("eth_getBlockByNumber", hex(filled.full_heights[0]), True))
    last_block = b'"blockHeight":%d,' % filled.height
    last_answer = b'"event":"unsubscribed","subscription":"txConfirmed","txHash":"%b' % filled.tx_hashes[49].encode()
    addresses = [WALLET, *(f"0x{number:040x}" for number in range(FOLLOWED))]
    follow_all = {"action": "subscribe", "event": "payment", "addresses": addresses}
    # The first sender has the last transaction of a full block.
    pay = frame(follow_all | {"fromHeight": filled.full_heights[-1]})
    last_payment = b'"blockHeight":%d,"transactionIndex":%d,' % (filled.full_heights[-1], FULL_BLOCK_TXS - 1)
    unpay = frame(follow_all) + frame({"action": "unsubscribe", "event": "payment"})
    return [
        Case("WS /events subscribe payment", [pay], None, events, last_payment),
        Case("WS /events unsubscribe payment", [unpay], None, events, b"unsubscribed"),
        Case("WS /events subscribe newBlock", [replay], None, events, last_block),
        Case("WS /events unsubscribe newBlock", [leave], None, events, b"unsubscribed"),
        Case("WS /events subscribe txConfirmed", [following], None, events, last_answer),
        Case("WS /events unsubscribe txConfirmed", [unfollow], None, events, b"unsubscribed"),
        Case("WS /rpc eth_getBlockByNumber", [full_block], None, calls, b'"uncles":[]}'),
        Case("WS /rpc eth_subscribe", [frame(rpc_message("eth_subscribe", "newHeads"))], None, calls, b'"jsonrpc"'),
    ]


def every_case(filled: Filled) -> list[Case]:
    return [*rest_cases(filled), *rpc_cases(filled), *socket_cases(filled)]


def missing_cases(names: set[str], operations: set[str]) -> set[str]:
    """Routes, methods and WebSocket actions that have no case. `operations` are those of the OpenAPI document."""
    actions = {f"WS /events {action} {event}" for action, event in COMMANDS}
    wanted = operations | {method for method in every_method() if not is_control(method)} | actions
    return {each for each in wanted if each not in names}
