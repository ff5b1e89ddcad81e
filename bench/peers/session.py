"""One chain from its start to its end, and what is measured on it in between."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from bench.load import LoadResult, Request, run_load
from bench.peers.apis import WrongAnswer, receipt_fields, shown, tx_fields
from bench.peers.chains import Chain, Target
from bench.peers.connection import Connection
from bench.peers.ledger import Ledger
from bench.peers.sockets import Listeners
from bench.workload import CHAIN_ID, GAS_PRICE, Submission, account
from cairn.domain.transactions import sign_draft
from cairn.domain.types import TRANSFER_GAS, Draft, Tx

Figures = dict[str, float]
CONNECTIONS = 64
BLOCK_TXS = 200
BLOCK_ATTEMPTS = 5
WARM_UP_BLOCKS = 2
QUEUED = 100
NONCE_GAP = 5
CONFIRM_TIMEOUT_S = 300
SOCKET_WARM_UP = 2


@dataclass(frozen=True, slots=True)
class Sizes:
    accounts: int
    load: int
    slow_load: int
    warm_up: int
    slow_warm_up: int
    settle_s: float
    """After the last block, for what a chain does in the background: it is part of the cost."""
    read_s: float
    mixed_s: float
    mixed_writes: int
    instant: int
    sockets: int
    many_sockets: int
    notices: int
    idle_s: float
    sustained_s: float
    sustained_writes: int
    yardstick_s: float
    attempts: int
    """A disturbed run is repeated until there were so many."""


FULL = Sizes(
    accounts=1_000,
    load=40_000,
    slow_load=500,
    warm_up=1_000,
    slow_warm_up=100,
    settle_s=1.5,
    read_s=1.5,
    mixed_s=2.0,
    mixed_writes=8_000,
    instant=200,
    sockets=2_000,
    many_sockets=10_000,
    notices=8,
    idle_s=2.5,
    sustained_s=60.0,
    sustained_writes=420_000,
    yardstick_s=0.5,
    attempts=3,
)
SMOKE = Sizes(
    accounts=200,
    load=400,
    slow_load=200,
    warm_up=20,
    slow_warm_up=20,
    settle_s=0.1,
    read_s=0.1,
    mixed_s=0.3,
    mixed_writes=100,
    instant=5,
    sockets=20,
    many_sockets=40,
    notices=2,
    idle_s=0.3,
    sustained_s=0.6,
    sustained_writes=600,
    yardstick_s=0.1,
    attempts=1,
)


class Session:
    """A chain on which nobody has paid anything yet, and the transfers that it gets, one after the other."""

    def __init__(self, target: Target, chain: Chain, submissions: Sequence[Submission], sizes: Sizes) -> None:
        self._target = target
        self._api = target.api
        self._chain = chain
        self._submissions = submissions
        self._sizes = sizes
        self._next = 0
        self._ledger = Ledger()
        self._connection = Connection(chain.port)
        self._block = 0, "", list[Tx]()
        """Height and hash of the block with so many transactions, and these."""

    def close(self) -> None:
        self._connection.close()

    # Writes.

    def _take(self, count: int) -> Sequence[Submission]:
        taken = self._submissions[self._next : self._next + count]
        if len(taken) < count:
            raise RuntimeError(f"only {len(self._submissions)} transfers were signed ahead of time")
        self._next += count
        self._ledger.apply(each.tx for each in taken)
        return taken

    @property
    def _readable(self) -> Sequence[Submission]:
        """Those of the warm-up: they are in blocks of a few hundred. Out of a block of thousands, geth and anvil read
        a transaction many times as slowly."""
        return self._submissions[: self._warm_up]

    @property
    def _warm_up(self) -> int:
        return self._sizes.slow_warm_up if self._target.is_slow else self._sizes.warm_up

    def warm_up(self) -> None:
        for _ in range(WARM_UP_BLOCKS):
            self._submit_and_confirm(self._take(self._warm_up // WARM_UP_BLOCKS))

    def _submit_and_confirm(self, batch: Sequence[Submission]) -> None:
        height = self._height()
        run_load(self._chain.port, [self._api.submit(each) for each in batch], CONNECTIONS)
        self._await_confirmed(height, len(batch))

    def _height(self) -> int:
        return int(str(self._connection.call(self._target.rpc, "eth_blockNumber")), 16)

    def _await_confirmed(self, height: int, count: int) -> None:
        """Return once so many transactions are in the blocks above the height."""
        deadline = time.monotonic() + CONFIRM_TIMEOUT_S
        found = 0
        while found < count:
            for each in range(height + 1, self._height() + 1):
                answer = self._connection.call(self._target.rpc, "eth_getBlockTransactionCountByNumber", hex(each))
                if answer is None:
                    # ganache counts a block a moment before it can be read.
                    break
                found += int(str(answer), 16)
                height = each
            if time.monotonic() > deadline:
                raise TimeoutError(f"{found} of {count} are confirmed")
            if found < count:
                time.sleep(0.01)

    def measure_writes(self) -> Figures:
        batch = self._take(self._sizes.slow_load if self._target.is_slow else self._sizes.load)
        requests = [self._api.submit(each) for each in batch]
        height, cpu_before_s = self._height(), self._chain.cpu_seconds()
        began = time.perf_counter()
        result = run_load(self._chain.port, requests, CONNECTIONS)
        self._await_confirmed(height, len(batch))
        confirmed_s = time.perf_counter() - began
        time.sleep(self._sizes.settle_s)
        cpu_s = self._chain.cpu_seconds() - cpu_before_s
        return {
            "accepted_per_s": result.per_second,
            "confirmed_per_s": len(batch) / confirmed_s,
            "post_p50_ms": result.percentile_ms(50),
            "post_p99_ms": result.percentile_ms(99),
            "cpu_us": cpu_s / len(batch) * 1e6,
            **_client(result),
        }

    def measure_sustained(self) -> Figures:
        """Write for longer: does it stay as fast?"""
        left = self._submissions[self._next :]
        height = self._height()
        requests = [self._api.submit(each) for each in left]
        result = run_load(self._chain.port, requests, CONNECTIONS, self._sizes.sustained_s)
        sent = len(result.latencies_s)
        self._take(sent)
        self._await_confirmed(height, sent)
        third = result.seconds / 3
        return {
            "sustained_s": result.seconds,
            "sustained_per_s": result.per_second,
            "sustained_first_per_s": sum(at < third for at in result.ended_s) / third,
            "sustained_last_per_s": sum(at >= 2 * third for at in result.ended_s) / third,
            "sustained_p99_ms": result.percentile_ms(99),
            **_client(result),
        }

    # Reads.

    def measure_tx(self) -> Figures:
        asked = {self._api.tx(each.tx): tx_fields(each.tx) for each in self._readable}
        return self._reads("tx", asked, self._api.read_tx)

    def measure_receipt(self) -> Figures:
        asked = {self._api.receipt(each.tx): receipt_fields(each.tx) for each in self._readable}
        return self._reads("receipt", asked, self._api.read_receipt)

    def measure_balance(self) -> Figures:
        addresses = [account(index)[0] for index in range(self._sizes.accounts)]
        balances = {address: self._ledger.balance(address) for address in addresses}
        asked = {self._api.balance(address, balance): balance for address, balance in balances.items()}
        return self._reads("account", asked, self._api.read_balance)

    def measure_block(self) -> Figures:
        height, block_hash, hashes = self._known_block()
        return self._reads("block", {self._api.block(height, block_hash): hashes}, self._api.read_block)

    def measure_full_block(self) -> Figures:
        height, block_hash, hashes = self._known_block()
        rpc = self._target.rpc
        figures = self._reads("full_block", {rpc.full_block(height, block_hash): hashes}, rpc.read_block)
        answer = rpc.read(self._connection.ask(rpc.full_block(height, block_hash)[0]))
        _, _, txs = self._block
        shown_values = {each["hash"]: int(each["value"], 16) for each in answer["transactions"]}
        if shown_values != {shown(tx.hash): tx.value for tx in txs}:
            raise WrongAnswer("the full block has other transactions")
        return figures

    def _known_block(self) -> tuple[int, str, list[str]]:
        """Height, hash and the hashes in it, in the block's order, which is the chain's to choose."""
        if not self._block[0]:
            self._block = self._make_block()
        height, block_hash, txs = self._block
        body = self._connection.ask(self._target.rpc.block(height, block_hash)[0])
        hashes = list(self._target.rpc.read_block(body))
        if set(hashes) != {shown(tx.hash) for tx in txs}:
            raise WrongAnswer("the block has other transactions")
        return height, block_hash, hashes

    def _make_block(self) -> tuple[int, str, list[Tx]]:
        """A block with exactly so many transactions: they are sent right after another block."""
        rpc = self._target.rpc
        for _ in range(BLOCK_ATTEMPTS):
            self._submit_and_confirm(self._take(1))
            batch = self._take(BLOCK_TXS)
            self._submit_and_confirm(batch)
            for height in range(self._height(), 0, -1):
                found = rpc.read(self._connection.ask(rpc.call("eth_getBlockByNumber", hex(height), False)))
                if found["transactions"]:
                    break
            if len(found["transactions"]) == BLOCK_TXS:
                return height, found["hash"], [each.tx for each in batch]
        raise RuntimeError(f"no block with exactly {BLOCK_TXS} transactions in {BLOCK_ATTEMPTS} attempts")

    def _reads(self, name: str, asked: Mapping[Request, object], read: Callable[[bytes], object]) -> Figures:
        """Ask all at random, again and again, and compare a sample of the answers with what they must be."""
        requests = list(asked)
        Random(0).shuffle(requests)
        requests *= -(-CONNECTIONS // len(requests))
        result = run_load(self._chain.port, requests, CONNECTIONS, self._sizes.read_s, repeat=True)
        expected = {request: value for (request, _), value in asked.items()}
        for request, body in result.samples:
            if (found := read(body)) != expected[request]:
                raise WrongAnswer(difference(found, expected[request]))
        return {f"{name}_per_s": result.per_second, f"{name}_p99_ms": result.percentile_ms(99), **_client(result)}

    def measure_mixed(self) -> Figures:
        """Nine reads for each write: transactions, receipts and balances in turn."""
        known = [each.tx for each in self._readable]
        height = self._height()
        random = Random(0)
        requests: list[Request] = []
        for each in self._submissions[self._next : self._next + self._sizes.mixed_writes]:
            requests.append(self._api.submit(each))
            for tx in random.choices(known, k=3):
                requests += (self._api.tx(tx), self._api.receipt(tx), self._api.balance(tx.sender, None))
        result = run_load(self._chain.port, requests, CONNECTIONS, self._sizes.mixed_s)
        written = -(-len(result.latencies_s) // 10)
        self._take(written)
        self._await_confirmed(height, written)
        return {"mixed_per_s": result.per_second, "mixed_p99_ms": result.percentile_ms(99), **_client(result)}

    def measure_mempool(self) -> Figures:
        """The mempool while it holds transactions that wait for a missing nonce: they stay there."""
        txs = [self._queued_tx(index) for index in range(min(QUEUED, self._sizes.accounts))]
        for tx in txs:
            self._connection.ask(*self._target.rpc.submit_tx(tx))
        asked = {self._api.mempool(txs[-1]): {shown(tx.hash) for tx in txs}}
        return self._reads("mempool", asked, self._api.read_mempool)

    def _queued_tx(self, index: int) -> Tx:
        sender, key = account(index)
        draft = Draft(
            sender=sender,
            to=sender,
            value=1,
            gas=TRANSFER_GAS,
            gas_price=GAS_PRICE,
            nonce=self._ledger.next_nonce(sender) + NONCE_GAP,
        )
        return sign_draft(draft, key, CHAIN_ID)

    # Instant mode.

    def measure_instant(self) -> Figures:
        """One client sends a transfer, and asks for its receipt until it is there."""
        waits = []
        for each in self._take(self._sizes.instant):
            request, expected = self._api.submit(each)
            receipt, _ = self._api.receipt(each.tx)
            began = time.perf_counter()
            self._connection.ask(request, expected)
            while (found := self._api.read_receipt(self._connection.ask(receipt))) is None:
                pass
            waits.append(time.perf_counter() - began)
            if found != receipt_fields(each.tx):
                raise WrongAnswer(difference(found, receipt_fields(each.tx)))
        measured = sorted(waits[len(waits) // 10 :])
        return {
            "instant_p50_ms": 1_000 * statistics.median(measured),
            "instant_p99_ms": 1_000 * measured[int(0.99 * len(measured))],
        }

    def measure_temporary(self) -> Figures:
        return {f"dev_{name}": value for name, value in self.measure_instant().items()}

    def measure_sockets(self) -> Figures:
        return self._hear("sockets", self._sizes.sockets)

    def measure_many_sockets(self) -> Figures:
        return self._hear("many_sockets", self._sizes.many_sockets)

    def _hear(self, name: str, count: int) -> Figures:
        heard = []
        api, port = self._api, self._chain.ws_port
        with Listeners(port, self._chain.port, count, api.events_path, api.subscription) as listeners:
            for each in self._take(SOCKET_WARM_UP + self._sizes.notices):
                heard.append(listeners.all_hear(api.submit(each)[0]))
            latest = self._target.rpc.read(self._connection.ask(self._target.rpc.latest_block()))
            if latest["hash"].encode() not in heard[-1].last:
                raise WrongAnswer("the last event is not that of the latest block")
        counted = heard[SOCKET_WARM_UP:]
        return {
            f"{name}_ms": 1_000 * statistics.median(each.took_s for each in counted),
            f"{name}_client_ms": 1_000 * statistics.median(each.client_cpu_s for each in counted),
        }

    # At rest.

    def measure_start(self) -> Figures:
        time.sleep(self._sizes.settle_s)
        before_s = self._chain.cpu_seconds()
        time.sleep(self._sizes.idle_s)
        cpu_s = self._chain.cpu_seconds() - before_s
        return {
            "start_s": self._chain.ready_s,
            "idle_pss_mb": self._chain.memory().pss_mb,
            "idle_cpu_percent": 100 * cpu_s / self._sizes.idle_s,
        }


def _client(result: LoadResult) -> Figures:
    """What share of one core the load generator took: near 1, it would be what is measured."""
    return {"client_cores": result.cpu_s / result.seconds}


def difference(found: object, expected: object) -> str:
    """What is wrong with an answer, in words: it becomes a note on the page."""
    if isinstance(found, set) and isinstance(expected, set):
        missing, others = len(expected - found), len(found - expected)
        return f"the answer lacks {missing} of {len(expected)} transactions and has {others} that it should not"
    if isinstance(found, dict) and isinstance(expected, dict):
        return "wrong in the answer: " + ", ".join(name for name in expected if found.get(name) != expected[name])
    return f"the answer is {str(found)[:80]} instead of {str(expected)[:80]}"
