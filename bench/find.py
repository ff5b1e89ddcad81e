"""An account with a million payments: how long the first page of each filter takes, and what streaming all of it holds.

The chain is written by the store's own code, without HTTP. Then a real node serves it. Written to reports/find.md.
"""

import argparse
import platform
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
from msgspec.structs import replace

from bench.greedy.chain import running_node
from bench.machine import memory, run_time_s
from bench.prefill import store_block, stored_tx
from cairn.domain.genesis import DEV_KEYS, dev_genesis
from cairn.domain.types import Address, Tx, intrinsic_gas
from cairn.store.chain import ChainStore
from tests.support.node_process import NodeProcess

REPORT = Path(__file__).parents[1] / "reports" / "find.md"
TXS_PER_BLOCK = 200
SHOP, RARE, BUSY = (DEV_KEYS[index][0] for index in range(3))
"""The shop is paid all the time. One customer pays it twice, and so does one that pays others in each block."""
PAYERS = [address for address, _ in DEV_KEYS[3:]]
STRANGER = Address(b"\x77" * 20)
PAID_OUT_EVERY = 50
"""Blocks between two payments of the shop."""
WITH_REFERENCE_EVERY = 10
"""One of so many payments says what it is for."""
ROUNDS = 7
BAR_S = 0.020


class Made:
    """Makes the transfers of the chain, one after the other."""

    def __init__(self) -> None:
        self._nonces: Counter[Address] = Counter()
        self._count = 0

    def transfer(self, sender: Address, to: Address, data: bytes = b"") -> Tx:
        tx = stored_tx(self._count, self._nonces[sender], sender)
        self._nonces[sender] += 1
        self._count += 1
        return replace(tx, to=to, value=1, data=data, gas=intrinsic_gas(data))


def block_count(payments: int) -> int:
    """Enough for so many payments to the shop: at most two transactions of a block are others, but for a few."""
    return payments // (TXS_PER_BLOCK - 2)


def blocks(payments: int) -> Iterator[list[Tx]]:
    made, paid = Made(), 0
    count = block_count(payments)
    for number in range(count):
        txs = [made.transfer(BUSY, STRANGER)]
        for sender in (RARE, BUSY):
            # In the first third, and at the very beginning: far from where a search newest first begins.
            if number in (0, count // 3):
                txs.append(made.transfer(sender, SHOP, b"rare"))
        if number % PAID_OUT_EVERY == 0:
            txs.append(made.transfer(SHOP, STRANGER))
        while len(txs) < TXS_PER_BLOCK:
            data = b"order %d" % paid if paid % WITH_REFERENCE_EVERY == 0 else b""
            txs.append(made.transfer(PAYERS[paid % len(PAYERS)], SHOP, data))
            paid += 1
        yield txs


def filters(payments: int) -> dict[str, str]:
    head = block_count(payments)
    middle = dev_genesis().timestamp + head // 2
    return {
        "none": "",
        "`order=asc`": "order=asc",
        "`direction=in`": "direction=in",
        "`direction=out`": "direction=out",
        "`direction=out&order=asc`": "direction=out&order=asc",
        "`counterparty=` of one that paid often": f"counterparty=0x{PAYERS[0].hex()}",
        "`counterparty=` of one that paid twice": f"counterparty=0x{RARE.hex()}",
        "the same, `order=asc`": f"counterparty=0x{RARE.hex()}&order=asc",
        "`counterparty=` of one that is busy, but with others": f"counterparty=0x{BUSY.hex()}",
        "`fromHeight=` and `toHeight=`": f"fromHeight={head // 2}&toHeight={head // 2 + 9}",
        "`fromTime=` and `toTime=`": f"fromTime={middle}&toTime={middle + 9}",
        "`reference=` of one payment": "reference=order+0",
        "`reference=` and `counterparty=`": f"reference=rare&counterparty=0x{RARE.hex()}",
        "`reference=` that nobody used": "reference=nothing",
        "`after=` in the middle": f"after={head // 2}-0",
        "`before=` in the middle": f"before={head // 2}-0",
    }


def measure(node: NodeProcess, payments: int) -> list[str]:
    path = f"{node.url}/account/0x{SHOP.hex()}/txs"
    rows = [
        "| filter | items | next page | first time ms | median ms | most ms | worker's processor ms |",
        "|---|---|---|---|---|---|---|",
    ]
    workers = node.worker_pids()
    late = []
    with httpx.Client(timeout=60) as http:
        http.get(f"{node.url}/chain").raise_for_status()
        for name, query in filters(payments).items():
            took = []
            used_s = run_time_s(workers)
            for _ in range(ROUNDS):
                began = time.perf_counter()
                answer = http.get(f"{path}?{query}")
                took.append(time.perf_counter() - began)
                answer.raise_for_status()
            used_s = (run_time_s(workers) - used_s) / ROUNDS
            if statistics.median(took) > BAR_S:
                late.append(name)
            first, middle, most = (f"{1000 * each:.1f}" for each in (took[0], statistics.median(took), max(took[1:])))
            following = "yes" if "next" in answer.links else "no"
            rows.append(
                f"| {name} | {len(answer.json())} | {following} | {first} | {middle} | {most} | {1000 * used_s:.1f} |"
            )
    if late:
        print("above the bar of 20 ms:", ", ".join(late))
    return rows


def stream(node: NodeProcess, order: str) -> str:
    """Read the whole history in lines, and look at the memory of all processes of the node meanwhile."""
    sizes, lines, received = [], 0, 0
    began = time.perf_counter()
    url = f"{node.url}/account/0x{SHOP.hex()}/txs?order={order}"
    with httpx.stream("GET", url, headers={"Accept": "application/x-ndjson"}, timeout=60) as answer:
        for number, piece in enumerate(answer.iter_raw(1 << 20)):
            lines += piece.count(b"\n")
            received += len(piece)
            if number % 20 == 0:
                sizes.append(memory(node.pids()).pss_mb)
    took_s = time.perf_counter() - began
    return (
        f"| `order={order}` | {lines:,} | {received / 1e6:,.0f} MB | {took_s:.0f} s | {sizes[0]:.0f} MB "
        f"| {max(sizes):.0f} MB | {sizes[-1]:.0f} MB |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--payments", type=int, default=1_000_000)
    payments = parser.parse_args().payments
    directory = Path(tempfile.mkdtemp(prefix="cairn-find-"))
    try:
        began = time.process_time()
        with closing(ChainStore.open(directory / "data", dev_genesis())) as chain:
            for number, txs in enumerate(blocks(payments)):
                store_block(chain, txs, chain.genesis.timestamp + 1 + number)
        print(f"{payments} payments stored in {time.process_time() - began:.0f} s of processor time")
        with running_node(directory / "data") as node:
            rows = measure(node, payments)
            streams = [stream(node, order) for order in ("asc", "desc")]
    finally:
        shutil.rmtree(directory)
    text = f"""# Finding payments

`make find`: an account that was paid {payments:,} times and some more, in blocks of {TXS_PER_BLOCK} transactions; one
of {WITH_REFERENCE_EVERY} payments has a reference. The first page of each filter, 100 items at most, over HTTP from one
client; {ROUNDS} requests each. Python {platform.python_version()} on {platform.system()}, {platform.machine()}.

{chr(10).join(rows)}

An account that is busy with others is the one search that may find nothing for long: its pages are short and lead on.

All of it as lines (`Accept: application/x-ndjson`), and the memory of all processes of the node meanwhile (PSS):

| | lines | size | time | memory at first | most | at the end |
|---|---|---|---|---|---|---|
{chr(10).join(streams)}
"""
    REPORT.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
