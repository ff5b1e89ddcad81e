"""A node of a toy chain that answers and proves, and lies as a test tells it to."""

import copy
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from eth_utils.crypto import keccak

from tests.support.json_server import Answer
from tests.support.proof_chain import COIN, Block, Json, Paid, ProofChain, hexed, root, wallet
from tests.support.toy_node import ToyNode, problem

ALICE, BOB, CAROL = wallet("alice"), wallet("bob"), wallet("carol")
VALIDATORS = {"a": 10, "b": 10, "c": 10, "d": 10}

Alter = Callable[[Any], Any]


def payments_chain(seed: str = "payments", *, values: tuple[int, ...] = (1, 2, 3, 4, 5, 6), **more: Any) -> ProofChain:
    """A block for each payment of Alice to Bob, and other validators from block 4 on."""
    balances = {ALICE.address: 100 * COIN, BOB.address: COIN, CAROL.address: COIN}
    chain = ProofChain(seed, VALIDATORS, balances=balances, **more)
    for nonce, value in enumerate(values):
        chain.add([chain.pay(ALICE, BOB.address, value * COIN, nonce, data=f"invoice {nonce}".encode())])
    chain.change_validators({"b": 10, "c": 10, "d": 10}, 5)
    return chain


def transaction_json(chain: ProofChain, block: Block, index: int) -> Json:
    paid: Paid = block.paid[index]
    return {
        "txHash": hexed(keccak(paid.raw)),
        "status": "confirmed",
        "from": hexed(paid.sender),
        "to": hexed(paid.to),
        "value": paid.value,
        "nonce": paid.nonce,
        "gas": 30_000,
        "gasPrice": chain.gas_price,
        "data": hexed(paid.data),
        "reference": paid.data.decode(),
        "blockHeight": block.height,
        "blockHash": hexed(block.hash),
        "transactionIndex": index,
        "fee": paid.fee,
    }


def block_json(chain: ProofChain, block: Block) -> Json:
    hashes = [keccak(paid.raw) for paid in block.paid]
    return {
        "blockHeight": block.height,
        "hash": hexed(block.hash),
        "previousHash": hexed(block.history[-1]) if block.history else "0x" + "00" * 32,
        "timestamp": block.time,
        "transactionsRoot": hexed(root(hashes)),
        "receiptsRoot": hexed(root(block.changes)),
        "stateRoot": hexed(root(block.state)),
        "mixHash": hexed(root(block.history)),
        "transactionCount": len(hashes),
        "gasUsed": sum(21_000 + sum(16 if byte else 4 for byte in paid.data) for paid in block.paid),
        "proposer": hexed(block.proposer),
        "chainId": chain.chain_id,
        "gasLimit": 30_000_000,
        "baseFeePerGas": chain.gas_price,
        "transactions": [hexed(tx_hash) for tx_hash in hashes],
    }


class ProvingNode(ToyNode):
    """`alter` changes the JSON of each answer to a path that ends with `altered`."""

    def __init__(self, chain: ProofChain, head: int | None = None) -> None:
        super().__init__(chain, head)
        self.altered = ""
        self.alter: Alter = lambda answer: None
        self.asked: list[str] = []
        """The path and query of every request."""
        self.unsigned_files = 0
        """How many files it does not give at first, because nothing is signed yet."""
        self.latest: int | None = None
        """Height of the latest block, if that is above the signed one."""
        self.hidden: int | None = None
        """Which payment its lists leave out, the oldest first."""
        self.oldest = 0
        """Height of the oldest block that it keeps."""
        self.swapped: dict[str, str] = {}
        """What it answers to a request with the answer to another one, both with their queries."""

    def lie(self, ending: str, alter: Alter) -> None:
        """`alter` changes the answer in place, or returns another one."""
        self.altered, self.alter = ending, alter

    def get(self, target: str) -> Answer:
        self.asked.append(target)
        target = self.swapped.get(target, target)
        self.headers = {"X-Block-Height": str(self.height)}
        self._query = {name: values[0] for name, values in parse_qs(urlsplit(target).query).items()}
        is_file = target.partition("?")[0].endswith(("/finality", "/receipt", "/proof", "/statement"))
        if self.unsigned_files and is_file:
            self.unsigned_files -= 1
            return problem(404, "NOT_SIGNED_YET")
        status, body = super().get(target)
        if status == 200 and self.altered and urlsplit(target).path.endswith(self.altered):
            answer = copy.deepcopy(_decoded(body))
            altered = self.alter(answer)
            return status, answer if altered is None else altered
        return status, body

    @property
    def height(self) -> int:
        return self.head if self.latest is None else self.latest

    def _chain(self) -> Json:
        block = self.chain.blocks[self.height]
        return {
            "version": "0",
            "engine": "cometbft",
            "chainId": self.chain.chain_id,
            "gasPrice": self.chain.gas_price,
            "blockGasLimit": 30_000_000,
            "blockTime": 1.0,
            "maxDataBytes": 256,
            "head": {"blockHeight": self.height, "hash": hexed(block.hash), "timestamp": block.time},
            "mempool": {"pending": 0, "queued": 0, "limit": 1},
        }

    def _answer(self, path: list[str], query: dict[str, int]) -> Answer:
        chain, blocks = self.chain, self.chain.blocks[: self.head + 1]
        match path:
            case ["block", name, "finality"] if name == "latest" or name.startswith("0x"):
                return super()._answer(["block", str(self._block(name).height), "finality"], query)
            case ["block", name] if self._block(name).height < self.oldest:
                return problem(404, "BLOCK_NOT_KEPT")
            case ["block", name]:
                return 200, block_json(chain, self._block(name))
            case ["tx", tx_hash]:
                return 200, next(tx for tx in self._transactions() if tx["txHash"] == tx_hash)
            case ["account", address, "txs"]:
                return 200, self._page([tx for tx in self._transactions() if address in (tx["from"], tx["to"])])
            case ["history", "proof"] if query["to"] > self.head:
                return problem(404, "BLOCK_NOT_FOUND")
            case ["history", "proof"] if "known" in self._query:
                return 200, chain.history(query["from"], query["to"], max(self.head, query["to"])) | {"first": "0x"}
            case ["history", "proof"] if query["from"] < self.oldest:
                return problem(404, "BLOCK_NOT_KEPT")
            case ["account", _, "statement"] if "from" not in query:
                return super()._answer(path, query | {"from": self.oldest})
            case ["account", address]:
                height = query.get("height")
                if "time" in query:
                    height = [block.height for block in blocks if block.time <= query["time"]][-1]
                held = blocks[self.head if height is None else height].held[bytes.fromhex(address[2:])]
                state: Json = {"address": address, "balance": held.balance, "nonce": held.nonce}
                state["pendingNonce"] = held.nonce
                return 200, state | ({} if height is None else {"blockHeight": height})
            case ["chain"]:
                return 200, self._chain()
            case ["blocks"]:
                listed = chain.blocks[self.oldest : self.height + 1][::-1][: int(self._query["limit"])]
                return 200, [block_json(chain, block) for block in listed]
        return super()._answer(path, query)

    def _page(self, found: list[Json]) -> list[Json]:
        if self.hidden is not None:
            del found[self.hidden]
        listed = found if self._query.get("order") == "asc" else found[::-1]
        start = int(self._query.get("after", 0))
        end = start + int(self._query["limit"])
        if end < len(listed):
            self.headers["Link"] = f'</txs?after={end}>; rel="next"'
        return listed[start:end]

    def _block(self, name: str) -> Block:
        if name == "latest":
            return self.chain.blocks[self.head]
        return next(block for block in self.chain.blocks if name in (str(block.height), hexed(block.hash)))

    def _transactions(self) -> list[Json]:
        blocks = self.chain.blocks[self.oldest : self.head + 1]
        return [transaction_json(self.chain, block, index) for block in blocks for index in range(len(block.paid))]


def _decoded(body: Any) -> Any:
    return json.loads(body) if isinstance(body, bytes) else body
