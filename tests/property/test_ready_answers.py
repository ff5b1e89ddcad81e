"""Answers that are ready are those of the ordinary path, byte for byte, whatever has become of the chain meanwhile.

One worker has answers ready, goes by the board, and serves on hot routes. The other one reads and asks for everything
anew, in the application.
"""

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from cairn.api.chain_reads import ChainReads
from cairn.api.rpc.ready_answers import ReadyAnswers
from cairn.board import Board
from cairn.domain.types import DYNAMIC_FEE, Account, Address
from tests.support.core_fixtures import ACCOUNTS, GWEI, settings, signed
from tests.support.rest_node import hash_of
from tests.support.rpc_messages import READING, messages_of
from tests.support.rpc_node import raw
from tests.support.two_workers import Asked, Differs, PlainView, TwoWorkers, message, two_workers

STEPS = 50
ASKED_AFTER_EACH = 12
RETAINED = 8
IDS: list[object] = [1, 0, -7, 2**70, "a", 'é"\\', "", 1.5, 1e300, None]

WORDS = [b'"', b"\\", b"null", b"[", b"]", b"{", b"}", b",", b":", b"2.0", b'"id":2,', b'"x":1,', b"1e9", b"\xff"]

KINDS: list[dict[str, Any]] = [
    {},
    {"data": b"invoice"},
    {"kind": DYNAMIC_FEE, "gas_price": GWEI + 5, "max_fee": 3 * GWEI, "max_tip": 5},
]

Ask = Callable[[Asked], Any]


class Walk:
    """A chain that goes on, and back, at random; and whatever a client may ask about it."""

    def __init__(self, workers: TwoWorkers, seed: int) -> None:
        self._workers = workers
        self._random = random.Random(seed)
        self._hashes = ["0x" + "00" * 32]
        """Of transactions and blocks that there are, or were before a revert."""
        self._snapshots: list[str] = []
        self._top = 0

    async def take(self, steps: int) -> None:
        for _ in range(steps):
            await self._random.choice([self.submit, self.submit, self.replace, self.mine, self.mine, self.go_back])()
            await self.ask()

    async def go_on(self, steps: int) -> None:
        """Only forward, while old blocks are removed. REST may go on with what it has of those."""
        for _ in range(steps):
            await self.submit()
            await self.mine()
            await self._workers.agree_on_oldest()
            for _ in range(ASKED_AFTER_EACH):
                await self._workers.compare(partial(Asked.post, body=self.call()))

    async def ask(self) -> None:
        for _ in range(ASKED_AFTER_EACH):
            await self._workers.compare(self.any_request())

    # What happens to the chain, on either worker.

    def _either(self) -> Asked:
        return self._random.choice([self._workers.ready, self._workers.plain])

    async def _send(self, nonce: int, **fields: Any) -> None:
        tx = signed(nonce, **fields)
        self._hashes.append(hash_of(tx))
        # Some are refused, such as a replacement that pays no more.
        await self._either().post(message("eth_sendRawTransaction", raw(tx)))

    async def _next_nonce(self, sender: int) -> int:
        return int(await self._workers.plain.call("eth_getTransactionCount", text_of(sender), "pending"), 16)

    async def submit(self) -> None:
        sender, gap = self._random.randrange(4), self._random.choice([0, 0, 0, 2])
        await self._send(await self._next_nonce(sender) + gap, sender=sender, **self._random.choice(KINDS))

    async def replace(self) -> None:
        sender = self._random.randrange(4)
        nonce = max(0, await self._next_nonce(sender) - 1)
        await self._send(nonce, sender=sender, gas_price=self._random.choice([2, 3, 4]) * GWEI, value=2)

    async def mine(self) -> None:
        await self._either().call("evm_mine")
        await self.look()

    async def look(self) -> None:
        """Learn of the latest block."""
        self._top = int(await self._workers.plain.call("eth_blockNumber"), 16)
        block = await self._workers.plain.call("eth_getBlockByNumber", "latest", False)
        self._hashes.append(block["hash"])

    async def go_back(self) -> None:
        if not self._snapshots or self._random.random() < 0.3:
            self._snapshots.append(await self._either().call("evm_snapshot"))
            return
        at = self._random.randrange(len(self._snapshots))
        await self._either().call("evm_revert", self._snapshots[at])
        del self._snapshots[at:]
        await self._workers.settled()

    # What is asked.

    def any_request(self) -> Ask:
        one = self._random.random()
        if one < 0.25:
            path = self.path()
            return lambda worker: worker.get(path)
        if one < 0.35:
            batch = b"[" + b",".join(self.call() for _ in range(self._random.choice([1, 3, 20]))) + b"]"
            return lambda worker: worker.post(batch)
        call = self.call()
        if one < 0.5 and b'"id"' in call:
            return lambda worker: worker.call_on_socket(call)
        return lambda worker: worker.post(call)

    def path(self) -> str:
        address, tx_hash = text_of(self._random.randrange(5)), self._random.choice(self._hashes)
        height = self._random.randrange(self._top + 3)
        return self._random.choice(
            [
                f"/tx/{tx_hash}",
                f"/tx/{tx_hash}?amounts=string",
                f"/account/{address}",
                f"/account/{address}?amounts=string",
                f"/account/{address}?height={height}",
                f"/block/{height}",
                "/block/latest",
                "/mempool",
                f"/mempool?from={address}",
                "/blocks?limit=3",
                "/chain",
            ]
        )

    def call(self) -> bytes:
        pick = self._random.choice
        address, named = text_of(self._random.randrange(5)), self.block()
        by_hash = [pick(self._hashes)]
        methods: list[tuple[str, list[Any]]] = [
            ("eth_getTransactionByHash", by_hash),
            ("eth_getTransactionReceipt", by_hash),
            ("eth_getRawTransactionByHash", by_hash),
            ("eth_getBlockByHash", [*by_hash, pick([False, True])]),
            ("eth_getBlockByNumber", [named, pick([False, True])]),
            ("eth_getBlockTransactionCountByNumber", [named]),
            ("eth_getTransactionByBlockNumberAndIndex", [named, "0x0"]),
            ("eth_getUncleCountByBlockHash", by_hash),
            ("eth_getBlockReceipts", [named]),
            ("eth_getBalance", [address, named]),
            ("eth_getBalance", [address, {"blockHash": by_hash[0]}]),
            ("eth_getTransactionCount", [address, named]),
            ("eth_getTransactionCount", [address, "pending"]),
            ("eth_getCode", [address, named]),
            ("eth_getStorageAt", [address, "0x0", named]),
            ("eth_blockNumber", []),
            ("eth_chainId", []),
            ("eth_gasPrice", []),
            ("eth_coinbase", []),
            ("net_version", []),
            ("txpool_status", []),
            ("eth_getLogs", [{"fromBlock": "0x0", "toBlock": named}]),
            ("eth_feeHistory", ["0x3", named]),
            ("eth_noSuchMethod", []),
            ("eth_getBalance", [address + "0"]),
            ("eth_chainId", ["too many"]),
        ]
        method, params = pick(methods)
        more = {} if self._random.random() < 0.1 else {"id": pick(IDS)}
        call = message(method, *params, **more)
        return call if more else call.replace(b'"id":1,', b"")

    def block(self) -> str:
        named = ["latest", "earliest", "pending", "safe", "finalized"]
        return self._random.choice([*named, *(hex(self._random.randrange(self._top + 2)) for _ in range(5))])


def text_of(sender: int) -> str:
    return "0x" + ACCOUNTS[sender].hex()


@pytest.mark.uvloop
@pytest.mark.parametrize("seed", [1, 2])
async def test_a_ready_answer_is_the_ordinary_one_whatever_became_of_the_chain(tmp_path: Path, seed: int) -> None:
    async with two_workers(tmp_path, settings()) as workers:
        await Walk(workers, seed).take(STEPS)


@pytest.mark.uvloop
async def test_a_ready_answer_is_the_ordinary_one_while_blocks_are_made(tmp_path: Path) -> None:
    async with two_workers(tmp_path, settings(block_time_s=0.05)) as workers:
        walk = Walk(workers, 3)
        for _ in range(STEPS):
            await walk.submit()
            await walk.look()
            await walk.ask()


@pytest.mark.uvloop
async def test_a_ready_answer_is_the_ordinary_one_once_blocks_are_removed(tmp_path: Path) -> None:
    async with two_workers(tmp_path, settings(retain_blocks=RETAINED)) as workers:
        await Walk(workers, 4).go_on(STEPS)


# The comparison itself: each of these faults must be found.


def remember_reverted(self: ReadyAnswers) -> None:
    self._reverts = self._view.reverts


def remember_account(self: ChainReads, address: Address, height: int) -> Account:
    kept = self._accounts.get(address)
    if kept is None:
        kept = height, self.reader_at(height).account_at(address, height)
        self._accounts.keep(address, kept)
    return kept[1]


def remember_pruned(self: ReadyAnswers, key: bytes) -> msgspec.Raw | None:
    kept = self._kept.get(key)
    return None if kept is None or isinstance(self._view, PlainView) else msgspec.Raw(kept[1])


@pytest.mark.uvloop
@pytest.mark.parametrize(
    ("place", "name", "fault"),
    [
        (ReadyAnswers, "_forget", remember_reverted),
        (ChainReads, "account_at", remember_account),
        (Board, "holds", lambda board, sender: False),
        (Board, "head", property(lambda board: 0)),
    ],
    ids=["answers survive a revert", "accounts survive a block", "the mempool seems empty", "the head seems old"],
)
async def test_a_fault_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: type, name: str, fault: object
) -> None:
    async with two_workers(tmp_path, settings()) as workers:
        monkeypatch.setattr(place, name, fault)
        with pytest.raises(Differs):
            await Walk(workers, 1).take(5 * STEPS)


@pytest.mark.uvloop
async def test_an_answer_that_survives_its_block_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with two_workers(tmp_path, settings(retain_blocks=RETAINED)) as workers:
        monkeypatch.setattr(ReadyAnswers, "find", remember_pruned)
        with pytest.raises(Differs):
            await Walk(workers, 1).go_on(5 * STEPS)


class OpenWorkers:
    """They stay open over all examples, on a loop of their own, and nothing changes any more."""

    def __init__(self, directory: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._opening = two_workers(directory, settings())
        self._workers: TwoWorkers = self._loop.run_until_complete(self._opening.__aenter__())
        self._loop.run_until_complete(Walk(self._workers, 4).take(20))

    def close(self) -> None:
        self._loop.run_until_complete(self._opening.__aexit__(None, None, None))
        self._loop.close()

    def compare(self, body: bytes) -> None:
        self._loop.run_until_complete(self._workers.compare(lambda worker: worker.post(body)))


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenWorkers]:
    opened = OpenWorkers(tmp_path_factory.mktemp("node"))
    yield opened
    opened.close()


@hypothesis_settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(content=messages_of(READING))
def test_any_message_gets_the_ordinary_answer(still: OpenWorkers, content: object) -> None:
    still.compare(json.dumps(content).encode())


@hypothesis_settings(max_examples=200)
@given(data=st.data())
def test_any_bytes_get_the_ordinary_answer(still: OpenWorkers, data: st.DataObject) -> None:
    call = bytearray(message("eth_getBalance", text_of(1), "latest"))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(call) - 1))
        call[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3) | st.sampled_from(WORDS))
    still.compare(bytes(call))
