"""What is asked of a chain, as ready HTTP requests with what the answer must have in it: by REST, and by JSON-RPC.

Every answer of a load is searched for the expected bytes. A sample is decoded too, and compared with what was sent.
"""

import json
from collections.abc import Sequence
from typing import Any, Protocol

from bench.load import Request
from bench.workload import CHAIN_ID, GAS_PRICE, Submission
from cairn.domain.transactions import encode_tx
from cairn.domain.types import TRANSFER_GAS, Address, Tx, TxHash

_HEADERS = b"Host: localhost\r\n"


class WrongAnswer(Exception):
    """An answer that is not what the chain must say."""


class Api(Protocol):
    """One way of asking. Each method makes a request; `read_*` takes the body of its answer apart."""

    events_path: str
    subscription: bytes
    """Asks for a message with each new block."""

    def submit(self, submission: Submission) -> Request: ...
    def tx(self, tx: Tx) -> Request: ...
    def receipt(self, tx: Tx) -> Request: ...
    def block(self, height: int, block_hash: str) -> Request: ...
    def balance(self, address: Address, balance: int | None) -> Request: ...
    def mempool(self, tx: Tx) -> Request: ...
    def read_tx(self, body: bytes) -> dict[str, object]: ...
    def read_receipt(self, body: bytes) -> dict[str, object] | None: ...
    def read_block(self, body: bytes) -> Sequence[str]: ...
    def read_balance(self, body: bytes) -> int: ...
    def read_mempool(self, body: bytes) -> set[str]: ...


def shown(tx_hash: TxHash) -> str:
    return f"0x{tx_hash.hex()}"


def tx_fields(tx: Tx) -> dict[str, object]:
    """What a chain must say of a transaction."""
    sender, to = f"0x{tx.sender.hex()}", f"0x{tx.to.hex()}"
    return {"hash": shown(tx.hash), "from": sender, "to": to, "value": tx.value, "nonce": tx.nonce}


def receipt_fields(tx: Tx) -> dict[str, object]:
    return {"hash": shown(tx.hash), "fee": TRANSFER_GAS * GAS_PRICE}


class RestApi:
    """Cairn's own."""

    events_path = "/events"
    subscription = b'{"action":"subscribe","event":"newBlock"}'

    def submit(self, submission: Submission) -> Request:
        return submission.request, b'"txHash":"%s"' % shown(submission.tx_hash).encode()

    def tx(self, tx: Tx) -> Request:
        text = shown(tx.hash).encode()
        return b"GET /tx/%s HTTP/1.1\r\n%s\r\n" % (text, _HEADERS), b'"txHash":"%s","status":"confirmed"' % text

    receipt = tx
    """The block, the place in it and the fee are in the same answer."""

    def block(self, height: int, block_hash: str) -> Request:
        return b"GET /block/%d HTTP/1.1\r\n%s\r\n" % (height, _HEADERS), b'"hash":"%s"' % block_hash.encode()

    def balance(self, address: Address, balance: int | None) -> Request:
        expected = b'"balance":' if balance is None else b'"balance":%d,' % balance
        return b"GET /account/0x%s HTTP/1.1\r\n%s\r\n" % (address.hex().encode(), _HEADERS), expected

    def mempool(self, tx: Tx) -> Request:
        return b"GET /mempool?limit=100 HTTP/1.1\r\n%s\r\n" % _HEADERS, shown(tx.hash).encode()

    def read_tx(self, body: bytes) -> dict[str, object]:
        found = json.loads(body)
        return {"hash": found["txHash"]} | {name: found[name] for name in ("from", "to", "value", "nonce")}

    def read_receipt(self, body: bytes) -> dict[str, object] | None:
        found = json.loads(body)
        return {"hash": found["txHash"], "fee": found["fee"]} if found["status"] == "confirmed" else None

    def read_block(self, body: bytes) -> Sequence[str]:
        hashes: list[str] = json.loads(body)["transactions"]
        return hashes

    def read_balance(self, body: bytes) -> int:
        return int(json.loads(body)["balance"])

    def read_mempool(self, body: bytes) -> set[str]:
        return {each["txHash"] for each in json.loads(body)}


class RpcApi:
    """Ethereum's JSON-RPC, which all of them have."""

    subscription = b'{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}'

    def __init__(self, path: str = "/") -> None:
        self.path = self.events_path = path

    def call(self, method: str, *params: object) -> bytes:
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        body = json.dumps(call, separators=(",", ":")).encode()
        head = b"POST %s HTTP/1.1\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        return head % (self.path.encode(), _HEADERS, len(body)) + body

    def submit(self, submission: Submission) -> Request:
        return self.submit_tx(submission.tx)

    def submit_tx(self, tx: Tx) -> Request:
        raw = f"0x{encode_tx(tx, CHAIN_ID).hex()}"
        return self.call("eth_sendRawTransaction", raw), b'"result":"%s"' % shown(tx.hash).encode()

    def tx(self, tx: Tx) -> Request:
        text = shown(tx.hash)
        return self.call("eth_getTransactionByHash", text), b'"hash":"%s"' % text.encode()

    def receipt(self, tx: Tx) -> Request:
        text = shown(tx.hash)
        return self.call("eth_getTransactionReceipt", text), b'"transactionHash":"%s"' % text.encode()

    def block(self, height: int, block_hash: str) -> Request:
        return self.call("eth_getBlockByNumber", hex(height), False), b'"hash":"%s"' % block_hash.encode()

    def full_block(self, height: int, block_hash: str) -> Request:
        return self.call("eth_getBlockByNumber", hex(height), True), b'"hash":"%s"' % block_hash.encode()

    def latest_block(self) -> bytes:
        return self.call("eth_getBlockByNumber", "latest", False)

    def balance(self, address: Address, balance: int | None) -> Request:
        expected = b'"result":"0x' if balance is None else b'"result":"0x%x"' % balance
        return self.call("eth_getBalance", f"0x{address.hex()}", "latest"), expected

    def mempool(self, tx: Tx) -> Request:
        return self.call("txpool_content"), shown(tx.hash).encode()

    def read(self, body: bytes) -> Any:
        """The result. Raises `WrongAnswer` on an error."""
        answer = json.loads(body)
        if "error" in answer:
            raise WrongAnswer(str(answer["error"])[:300])
        return answer["result"]

    def read_tx(self, body: bytes) -> dict[str, object]:
        found = self.read(body)
        texts: dict[str, object] = {name: found[name].lower() for name in ("hash", "from", "to")}
        return texts | {name: int(found[name], 16) for name in ("value", "nonce")}

    def read_receipt(self, body: bytes) -> dict[str, object] | None:
        found = self.read(body)
        if found is None:
            return None
        if int(found["status"], 16) != 1:
            raise WrongAnswer(f"a transfer failed: {found}")
        price = int(found["effectiveGasPrice"], 16)
        return {"hash": found["transactionHash"], "fee": int(found["gasUsed"], 16) * price}

    def read_block(self, body: bytes) -> Sequence[str]:
        txs = self.read(body)["transactions"]
        return [each if isinstance(each, str) else each["hash"] for each in txs]

    def read_balance(self, body: bytes) -> int:
        return int(self.read(body), 16)

    def read_mempool(self, body: bytes) -> set[str]:
        found = self.read(body)
        return {each["hash"] for kind in found.values() for txs in kind.values() for each in txs.values()}
