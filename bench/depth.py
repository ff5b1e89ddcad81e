"""What a read and a write cost on a chain with few transfers stored, and on one with many.

A row of `make bench-peers`. Every key is asked for once, so no cache of answers helps: not on the large chain, and not
on the small one either, which would fit into any. All figures are CPU time of the node's processes, in turns on the
chains, so that a slow minute of the machine hits both. What is measured is in the kernel's page cache, as on a machine
that has the memory for it. Ten million transfers take 7 GB of disk for the time of the run, and some minutes.
"""

import shutil
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bench.deep_chain import DeepChain
from bench.load import Request, run_load
from bench.node import BenchNode, copy_home, make_home
from bench.phases import CONNECTIONS, DATA_DIR, measure_load
from bench.workload import CHAIN_ID, GAS_PRICE, Submission, account, lookup, submission_of
from cairn.domain.transactions import sign_draft
from cairn.domain.types import TRANSFER_GAS, Address, Draft

READ_ROUNDS = 5
READS = 1_000
"""Of each kind in a round: a small chain must have enough for all rounds, each once."""
PAYMENTS_EACH = 4
WRITE = "POST /tx, accounts in use"
FIRST_WRITE = "POST /tx, accounts at random"

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class DepthRow:
    """One kind of request: microseconds of CPU in each round, by the number of stored transfers, fewest first."""

    what: str
    is_write: bool
    cpu_us: dict[int, list[float]]

    def median_us(self, stored: int) -> float:
        return statistics.median(self.cpu_us[stored])

    @property
    def ratio(self) -> float:
        """The largest chain against the smallest: the median over rounds, each measured in neighbouring seconds."""
        least, *_, most = self.cpu_us.values()
        return statistics.median(b / a for a, b in zip(least, most, strict=True))


def measure_depth(scratch: Path, stored: Sequence[int], tell: Tell, write_rounds: int) -> list[DepthRow]:
    """Each kind of request on chains with so many transfers; those that `scratch` does not have are made there."""
    homes = {DeepChain(count): scratch / f"deep-{count}" for count in sorted(stored)}
    for chain, home in homes.items():
        if not home.exists():
            tell(f"storing {chain.stored:,} transfers between {chain.accounts:,} accounts")
            _fill_home(home, chain)
    return [*_measure_reads(homes, tell), *_measure_writes(homes, tell, write_rounds)]


def depth_figures(rows: Sequence[DepthRow]) -> dict[str, float]:
    """The rows of two chains as named figures: what each kind costs, and the worst ratios of reads and of writes."""
    figures: dict[str, float] = {}
    for row in rows:
        few, many = row.cpu_us
        figures |= {
            f"{row.what} few": row.median_us(few),
            f"{row.what} many": row.median_us(many),
            f"{row.what} ratio": row.ratio,
        }
    figures["depth_read_ratio"] = max(row.ratio for row in rows if not row.is_write)
    figures["depth_write_ratio"] = max(row.ratio for row in rows if row.is_write)
    return figures


def _fill_home(home: Path, chain: DeepChain) -> None:
    unfinished = home.with_name(home.name + ".unfinished")
    make_home(unfinished, chain.genesis)
    chain.fill(unfinished / DATA_DIR)
    # Let the node finish what background work the filling left, so that nothing measured pays for it.
    with BenchNode(unfinished) as node:
        node.await_quiet()
    unfinished.rename(home)


def _measure_reads(homes: dict[DeepChain, Path], tell: Tell) -> Iterator[DepthRow]:
    with ExitStack() as stack:
        nodes = {chain: stack.enter_context(BenchNode(home)) for chain, home in homes.items()}
        for node in nodes.values():
            node.await_quiet()
        reads = {chain: _reads_of(chain) for chain in homes}
        for what in next(iter(reads.values())):
            tell(f"{what}, {READ_ROUNDS} rounds on each chain")
            costs: dict[int, list[float]] = defaultdict(list)
            for home in homes.values():
                _warm(home)
            for number in range(READ_ROUNDS):
                for chain, node in nodes.items():
                    requests = reads[chain][what]
                    size = len(requests) // READ_ROUNDS
                    costs[chain.stored].append(_cost_us(node, requests[number * size : (number + 1) * size]))
            yield DepthRow(what, False, costs)
        for chain, node in nodes.items():
            tell(f"memory with {chain.stored:,} stored: {node.memory().pss_mb:.0f} MB (PSS)")


def _cost_us(node: BenchNode, requests: Sequence[Request]) -> float:
    before_s = node.run_time_s()
    run_load(node.port, requests, CONNECTIONS)
    return (node.run_time_s() - before_s) / len(requests) * 1e6


def _reads_of(chain: DeepChain) -> dict[str, list[Request]]:
    """Requests for random keys of all, none of them twice."""
    random = Random(chain.stored)
    count = READ_ROUNDS * READS
    txs = [chain.tx_hash(index) for index in random.sample(range(chain.stored), min(chain.stored, 2 * count))]
    addresses = random.sample(chain.addresses, min(chain.accounts, 2 * count))
    blocks = random.sample(range(1, chain.blocks + 1), min(chain.blocks, count))
    half = len(txs) // 2
    return {
        "GET /tx": [(lookup(tx_hash), b'"confirmed"') for tx_hash in txs[:half]],
        "eth_getTransactionByHash": [_call("eth_getTransactionByHash", f'"0x{tx.hex()}"') for tx in txs[half:]],
        "GET /account": [
            _get(f"/account/0x{address.hex()}", b'"balance"') for address in addresses[: len(addresses) // 2]
        ],
        "eth_getBalance": [
            _call("eth_getBalance", f'"0x{address.hex()}","latest"') for address in addresses[len(addresses) // 2 :]
        ],
        "eth_getBlockByNumber": [_call("eth_getBlockByNumber", f'"{height:#x}",false') for height in blocks],
    }


def _get(path: str, expected: bytes) -> Request:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(), expected


def _call(method: str, params: str) -> Request:
    body = f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":[{params}]}}'
    head = "POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
    expected = b'"result":"0x' if method == "eth_getBalance" else b'"result":{'
    return f"{head}{len(body)}\r\n\r\n{body}".encode(), expected


def _measure_writes(homes: dict[DeepChain, Path], tell: Tell, rounds: int) -> Iterator[DepthRow]:
    loads = {
        # Each account is named some eight times, so most were read from the store before.
        WRITE: {chain: _payments(chain, chain.addresses[: chain.signers], PAYMENTS_EACH) for chain in homes},
        # Each sender pays once, and hardly any account is named twice: all of them must be read.
        FIRST_WRITE: {chain: _payments(chain, chain.addresses, 1) for chain in homes},
    }
    for what, submissions in loads.items():
        costs: dict[int, list[float]] = {chain.stored: [] for chain in homes}
        for number in range(rounds):
            for chain, home in homes.items():
                tell(f"{what}: on {chain.stored:,}, round {number + 1} of {rounds}")
                costs[chain.stored].append(_cost_on_copy_us(home, submissions[chain]))
        yield DepthRow(what, True, costs)


def _cost_on_copy_us(home: Path, submissions: Sequence[Submission]) -> float:
    copy = home.with_name("measured")
    copy_home(home, copy)
    try:
        with BenchNode(copy) as node:
            node.await_quiet()
            _warm(copy)
            return measure_load(node, submissions).cpu_us
    finally:
        shutil.rmtree(copy)


def _payments(chain: DeepChain, recipients: Sequence[Address], each: int) -> list[Submission]:
    random = Random(chain.stored)
    payments = []
    for index in range(each * chain.signers):
        sender, key = account(index % chain.signers)
        draft = Draft(sender, random.choice(recipients), index + 1, TRANSFER_GAS, GAS_PRICE, index // chain.signers)
        payments.append(submission_of(sign_draft(draft, key, CHAIN_ID)))
    return payments


def _warm(home: Path) -> None:
    """Have the kernel read the tables into its cache."""
    for table in (home / DATA_DIR).rglob("*.sst"):
        with table.open("rb", buffering=0) as file:
            while file.read(1 << 20):
                pass
