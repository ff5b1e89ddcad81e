"""What metrics and logs cost: the instructions of a worker and a core with them and without.

`python -m bench.metrics_cost`, with valgrind. Worker and core are in one process, without sockets. Valgrind counts all
instructions of the process, in C and in Python, and none of the kernel: so the shares are larger here than in a node,
whose time `bench.metrics_turns` takes. This needs no quiet machine. Between two runs of it a submission differs by some
0.2 %, a read by up to 1 %.
"""

import argparse
import asyncio
import gc
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from bench.without_counting import SOURCE, copy_without
from cairn.board import Board
from cairn.domain.transactions import encode_tx
from cairn.log import configure_logging
from tests.support.core_fixtures import ACCOUNTS, CHAIN_ID, opened_core, settings, signed
from tests.support.direct_worker import CurrentCore, DirectWorker, get

AT_A_TIME = 16
MARK = "getsid"
"""A function of the C library that nothing else calls: valgrind writes down what it has counted up to then."""


def post(path: str, fields: object) -> bytes:
    body = msgspec.json.encode(fields)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


def call(method: str, *params: object) -> bytes:
    return post("/rpc", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


async def take_all(requests: int) -> list[str]:
    """Ask for everything `requests` times, with a mark before and after each kind; returns the kinds."""
    with tempfile.TemporaryDirectory(prefix="cairn-bench-") as scratch:
        board = Board()
        async with opened_core(Path(scratch) / "data", board=board) as core:
            worker = DirectWorker(CurrentCore(core), Path(scratch) / "worker", settings(rate_limit_per_s=0.0), board)
            worker.meet(core)
            # Valgrind makes a program some fifty times as slow: an answer of 20 µs would count as one of a millisecond.
            worker.stop_clock()
            account = "0x" + ACCOUNTS[0].hex()
            reads = {
                "GET /account/{address}": get(f"/account/{account}"),
                "GET /block/{hash}": get("/block/0"),
                "GET /chain": get("/chain"),
                "eth_getBalance": call("eth_getBalance", account, "latest"),
            }
            txs = [encode_tx(signed(nonce), CHAIN_ID) for nonce in range(2 * requests)]
            submissions = [call("eth_sendRawTransaction", "0x" + tx.hex()) for tx in txs]
            gc.disable()
            for request in reads.values():
                # The first ones fill caches, and Python adapts its code to them.
                for _ in range(requests):
                    assert worker.at_once(request) is not None, "it is not answered at once"
                os.getsid(0)
                for _ in range(requests):
                    worker.at_once(request)
                os.getsid(0)
            await submit(worker, submissions[:requests])
            os.getsid(0)
            await submit(worker, submissions[requests:])
            os.getsid(0)
            worker.close()
    return [*reads, "eth_sendRawTransaction, to the journal"]


async def submit(worker: DirectWorker, submissions: list[bytes]) -> None:
    """Each connection sends one at a time, as under load: those of all of them share a sync."""
    connections = [worker.connect() for _ in range(AT_A_TIME)]
    for start in range(0, len(submissions), AT_A_TIME):
        group = submissions[start : start + AT_A_TIME]
        for connection, submission in zip(connections, group, strict=False):
            assert connection.at_once(submission) is None
        for connection, _ in zip(connections, group, strict=False):
            assert b"result" in (await connection.answer()).body


def count_instructions(package: Path, requests: int, scratch: Path) -> dict[str, float]:
    """By kind of request: the instructions of one."""
    dumps = scratch / "callgrind"
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", f"--dump-before={MARK}", f"--callgrind-out-file={dumps}", sys.executable]
        + ["-m", "bench.metrics_cost", "--alone", "--requests", str(requests)],
        env=os.environ | {"PYTHONPATH": str(package), "PYTHONHASHSEED": "0"}, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    # Those with even numbers are what is done between one kind and the next.
    numbered = {kind: scratch / f"callgrind.{2 * at + 2}" for at, kind in enumerate(msgspec.json.decode(done.stdout))}
    return {kind: total_of(path.read_text()) / requests for kind, path in numbered.items()}


def total_of(dump: str) -> int:
    [total] = [line.partition(": ")[2] for line in dump.splitlines() if line.startswith("totals: ")]
    return int(total)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--requests", type=int, default=256, help="of each kind; whole groups of a tally")
    options.add_argument("--alone", action="store_true", help="use the package that Python finds, say what was asked")
    asked = options.parse_args()
    if asked.alone:
        configure_logging("info", "text")
        print(msgspec.json.encode(asyncio.run(take_all(asked.requests))).decode())
        return
    with tempfile.TemporaryDirectory(prefix="cairn-bench-") as scratch:
        packages = {"with": SOURCE.parent, "without": Path(scratch) / "less"}
        copy_without(packages["without"])
        counts: dict[str, dict[str, float]] = {}
        for name, package in packages.items():
            dumps = Path(scratch) / name
            dumps.mkdir()
            counts[name] = count_instructions(package, asked.requests, dumps)
    for kind, without in counts["without"].items():
        more = counts["with"][kind] - without
        print(f"{kind}: {without:,.0f} instructions, with metrics and logs {more:+,.0f}, {100 * more / without:+.2f} %")


if __name__ == "__main__":
    main()
