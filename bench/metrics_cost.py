"""What metrics and logs cost: the instructions of a worker and a core with them and without.

`python -m bench.metrics_cost`, with valgrind. Without metrics means that every statement is taken out of the source
that only counts, so that not even the calls are left. Clocks that are read for the log, too, stay. Without logs means
a `log_level` of "error", with them "info", the default. Worker and core are in one process, without sockets. Valgrind
counts every instruction of the process, in C and in Python, and none of the kernel: so the shares are larger here than
in a node. Times would not do: between two runs of the very same program they differ by more than is to be measured.
Between two runs of this one a submission differs by some 0.2 %, a read by up to 1 %.
"""

import argparse
import ast
import asyncio
import gc
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from cairn.board import Board
from cairn.domain.transactions import encode_tx
from cairn.log import configure_logging
from tests.support.core_fixtures import ACCOUNTS, CHAIN_ID, opened_core, settings, signed
from tests.support.direct_worker import CurrentCore, DirectWorker, get

SOURCE = Path(__file__).parents[1] / "src" / "cairn"
COUNTING = frozenset(
    {"inc", "add", "set", "set_all", "observe", "change", "clear", "answered", "count", "end_fast_group"}
)
TALLIES = ("tally", "traffic", "self.traffic")
"""What the program calls them where it counts."""
AT_A_TIME = 16
MARK = "getsid"
"""A function of the C library that nothing else calls: valgrind writes down what it has counted up to then."""


class WithoutCounting(ast.NodeTransformer):
    """Takes out what is there only to count."""

    def __init__(self) -> None:
        self.removed = 0

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        called = node.value.func if isinstance(node.value, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr in COUNTING and _is_of_metrics(called.value):
            return self._nothing()
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        return self._nothing() if ast.unparse(node.targets[-1]) in TALLIES else node

    def visit_For(self, node: ast.For) -> ast.AST:
        return self._nothing() if ast.unparse(node.iter).endswith(".left_of_group") else self.generic_visit(node)

    def _nothing(self) -> ast.Pass:
        self.removed += 1
        return ast.Pass()


def _is_of_metrics(node: ast.expr) -> bool:
    text = ast.unparse(node)
    return text.startswith("metrics.") or text.endswith((".traffic", ".answered", *TALLIES)) or "traffic_of(" in text


def copy_without(target: Path) -> int:
    """Returns how many statements were taken out."""
    shutil.copytree(SOURCE, target / "cairn")
    removed = 0
    for path in (target / "cairn").rglob("*.py"):
        if path.name.startswith("metrics"):
            continue
        text = path.read_text()
        if "metrics" in text or "traffic" in text:
            without = WithoutCounting()
            path.write_text(ast.unparse(without.visit(ast.parse(text))))
            removed += without.removed
    return removed


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


def count_instructions(package: str, level: str, requests: int, scratch: Path) -> dict[str, float]:
    """By kind of request: the instructions of one."""
    dumps = scratch / "callgrind"
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", f"--dump-before={MARK}", f"--callgrind-out-file={dumps}", sys.executable]
        + ["-m", "bench.metrics_cost", "--alone", level, "--requests", str(requests)],
        env=os.environ | {"PYTHONPATH": package, "PYTHONHASHSEED": "0"}, stdout=subprocess.PIPE, check=True,
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
    options.add_argument("--alone", metavar="LEVEL", help="use the package that Python finds, and print what was asked")
    asked = options.parse_args()
    if asked.alone:
        configure_logging(asked.alone, "text")
        print(msgspec.json.encode(asyncio.run(take_all(asked.requests))).decode())
        return
    with tempfile.TemporaryDirectory(prefix="cairn-bench-") as scratch:
        print(f"{copy_without(Path(scratch))} statements taken out", flush=True)
        own = str(SOURCE.parent)
        variants = {"neither": (scratch, "error"), "metrics": (own, "error"), "metrics and logs": (own, "info")}
        counts: list[dict[str, float]] = []
        for package, level in variants.values():
            with tempfile.TemporaryDirectory(prefix="cairn-bench-") as dumps:
                counts.append(count_instructions(package, level, asked.requests, Path(dumps)))
    for kind, plain in counts[0].items():
        counting, logging = (each[kind] for each in counts[1:])
        print(
            f"{kind}: {plain:,.0f} instructions; with metrics {counting - plain:+,.0f}, "
            f"{100 * (counting / plain - 1):+.2f} %; with logs, too, {logging - plain:+,.0f}, "
            f"{100 * (logging / plain - 1):+.2f} %"
        )


if __name__ == "__main__":
    main()
