"""A node that a browser believes to see: the explorer's own files, and the answers of a toy chain, or lies about it.

Nothing listens: each request of the page is answered here. So a test can do what no real node does, such as show
another history, or a balance of yesterday.
"""

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import rlp  # type: ignore[import-untyped]
from eth_utils.crypto import keccak
from playwright.sync_api import Page, Route

from cairn.api.description.pages import MEDIA_TYPES, SECURITY_HEADERS
from cairn.explorer import STATIC_DIRECTORY
from tests.support.proof_chain import Block, Json, Paid, ProofChain, hexed

ORIGIN = "http://localhost:8000"
"""Browsers give WebCrypto to pages from there."""
NOT_FOUND = {"code": "NOT_FOUND", "detail": "there is no such thing", "status": 404}
NOT_KEPT = {"code": "BLOCK_NOT_KEPT", "detail": "the history before is not kept by this node", "status": 404}
NOT_SIGNED_YET = {"code": "NOT_SIGNED_YET", "detail": "the block is not signed yet", "status": 404}


class StagedNode:
    """Shows the blocks of `chain` up to `head`, all of them signed."""

    def __init__(self, chain: ProofChain, head: int | None = None) -> None:
        self.chain = chain
        self.head = chain.height if head is None else head
        self.unsigned = 0
        """So many of the latest blocks have no signature yet."""
        self.base = 0
        """The oldest block that it still has."""
        self.lies: dict[str, Callable[[Any], Any]] = {}
        """By path: what becomes of the answer."""
        self.asked: list[str] = []

    def show_to(self, page: Page) -> None:
        page.route("**/*", self._fulfil)
        page.route_web_socket("**/events", lambda socket: None)

    def _fulfil(self, route: Route) -> None:
        address = urlsplit(route.request.url)
        path = address.path
        if path == "/" or path.startswith("/explorer/"):
            file = STATIC_DIRECTORY / (path.removeprefix("/explorer/") if path != "/" else "index.html")
            headers = SECURITY_HEADERS | {"content-type": MEDIA_TYPES[file.suffix]}
            return route.fulfill(body=file.read_bytes(), headers=headers)
        self.asked.append(path)
        if path == "/genesis":
            return route.fulfill(body=self.chain.genesis, content_type="application/json")
        if path == "/rpc":
            calls = json.loads(route.request.post_data or "[]")
            answers = [{"id": call["id"], "result": None} for call in calls]
            return route.fulfill(body=json.dumps(answers), content_type="application/json")
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        answer = self.answer(path, query)
        if path in self.lies:
            answer = self.lies[path](answer)
        status = answer.get("status", 200) if isinstance(answer, dict) and "code" in answer else 200
        return route.fulfill(status=status, body=json.dumps(answer), content_type="application/json")

    def answer(self, path: str, query: dict[str, str]) -> Any:
        match path.strip("/").split("/"):
            case ["chain"]:
                return self._chain()
            case ["blocks"]:
                return [header_json(block, self.chain) for block in self.chain.blocks[self.head :: -1]]
            case ["openapi.json"]:
                return {"info": {"version": "1"}, "components": {"schemas": {"Submission": {"x-signs-for": []}}}}
            case ["tx", tx_hash, *receipt]:
                place = self._find_place(tx_hash)
                if place is None:
                    return NOT_FOUND
                height, index = place
                return self._signed(height, "receipt", index) if receipt else tx_json(self.chain, height, index)
            case ["block", name, *finality]:
                found = self._find_height(name)
                if found is None:
                    return NOT_FOUND
                return self._signed(found, "finality") if finality else block_json(self.chain, found)
            case ["account", address]:
                return self._account(bytes.fromhex(address[2:]))
            case ["account", address, "proof"]:
                return self.chain.account(bytes.fromhex(address[2:]), self._newest_signed, self._newest_signed)
            case ["account", address, "statement"]:
                first, last = int(query.get("from", 0)), int(query.get("to", self._newest_signed))
                return self.chain.statement(bytes.fromhex(address[2:]), first, last, self._newest_signed)
            case ["history", "proof"]:
                first, second = int(query["from"]), int(query["to"])
                if second > self._newest_signed:
                    return NOT_SIGNED_YET
                return self._history(self.chain, first, second, query.get("known") == "true")
            case ["validators"]:
                return {"validators": [], "evidence": []}
        return []

    def _history(self, chain: ProofChain, first: int, second: int, is_known: bool) -> Json:
        if is_known:
            return chain.history(first, second, second) | {"first": "0x"}
        return chain.history(first, second, second) if first >= self.base else NOT_KEPT

    @property
    def _newest_signed(self) -> int:
        return self.head - self.unsigned

    def _signed(self, height: int, kind: str, *place: int) -> Json:
        if height > self._newest_signed:
            return NOT_SIGNED_YET
        file: Json = getattr(self.chain, kind)(height, *place, height)
        return file

    def _chain(self) -> Json:
        head = header_json(self.chain.blocks[self.head], self.chain)
        return {
            "chainId": self.chain.chain_id,
            "gasPrice": self.chain.gas_price,
            "blockGasLimit": 30_000_000,
            "blockTime": 1.0,
            "maxDataBytes": 256,
            "engine": "embedded",
            "version": "0",
            "head": {name: head[name] for name in ("blockHeight", "hash", "timestamp")},
            "mempool": {"pending": 0, "queued": 0, "limit": 1},
        }

    def _account(self, address: bytes) -> Json:
        held = self.chain.blocks[self.head].held.get(address)
        balance, nonce = (held.balance, held.nonce) if held else (0, 0)
        return {"address": hexed(address), "balance": balance, "nonce": nonce, "pendingNonce": nonce}

    def _find_height(self, name: str) -> int | None:
        if name == "latest":
            return self._newest_signed
        if re.fullmatch(r"\d+", name):
            return int(name)
        return next((block.height for block in self.chain.blocks if hexed(block.hash) == name), None)

    def _find_place(self, tx_hash: str) -> tuple[int, int] | None:
        places = (
            (block.height, index)
            for block in self.chain.blocks
            for index, paid in enumerate(block.paid)
            if hexed(keccak(paid.raw)) == tx_hash
        )
        return next(places, None)


def tx_hash_of(chain: ProofChain, height: int, index: int) -> str:
    return hexed(keccak(chain.blocks[height].paid[index].raw))


def header_json(block: Block, chain: ProofChain) -> Json:
    fields = rlp.decode(block.header)
    height, gas_limit, gas_used, timestamp = (int.from_bytes(field, "big") for field in fields[8:12])
    return {
        "blockHeight": height,
        "hash": hexed(block.hash),
        "previousHash": hexed(fields[0]),
        "timestamp": timestamp,
        "transactionsRoot": hexed(fields[4]),
        "receiptsRoot": hexed(fields[5]),
        "stateRoot": hexed(fields[3]),
        "mixHash": hexed(fields[13]),
        "transactionCount": len(block.paid),
        "gasUsed": gas_used,
        "proposer": hexed(fields[2]),
        "chainId": chain.chain_id,
        "gasLimit": gas_limit,
        "baseFeePerGas": int.from_bytes(fields[15], "big"),
    }


def block_json(chain: ProofChain, height: int) -> Json:
    block = chain.blocks[height]
    return header_json(block, chain) | {"transactions": [hexed(keccak(paid.raw)) for paid in block.paid]}


def tx_json(chain: ProofChain, height: int, index: int) -> Json:
    block = chain.blocks[height]
    paid: Paid = block.paid[index]
    kind = paid.raw[0] if paid.raw[0] < 3 else 0
    fields = rlp.decode(paid.raw[1:] if kind else paid.raw)
    body = fields[1:] if kind else fields
    numbers = [int.from_bytes(field, "big") for field in body[1:4]]
    typed: Json = {"type": kind} if kind else {}
    if kind == 2:
        typed |= {"maxPriorityFeePerGas": numbers[0], "maxFeePerGas": numbers[1]}
    gas = 21_000 + sum(16 if byte else 4 for byte in paid.data)
    return {
        "status": "confirmed",
        "txHash": hexed(keccak(paid.raw)),
        "from": hexed(paid.sender),
        "to": hexed(paid.to),
        "value": paid.value,
        "nonce": paid.nonce,
        "gas": numbers[2] if kind == 2 else numbers[1],
        "gasPrice": paid.fee // gas,
        **typed,
        **({"data": hexed(paid.data)} if paid.data else {}),
        "blockHeight": height,
        "blockHash": hexed(block.hash),
        "transactionIndex": index,
        "fee": paid.fee,
    }
