"""What metrics and logs cost: requests to the same worker and core with them and without, in turns.

`python -m bench.metrics_cost`. Without metrics means that every statement is taken out of the source that only counts,
so that not even the calls are left. Clocks that are read for the log, too, stay. Without logs means a `log_level` of
"error", with them "info", the default. Worker and core are in one process, without sockets: on a machine that others
use, what the system does for a request varies by more than is to be measured. So the shares are of what Python does,
and smaller in a node. Of all turns the least counts, since others can only add to it.
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
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from cairn.board import Board
from cairn.domain.transactions import encode_tx
from cairn.log import configure_logging
from tests.support.core_fixtures import ACCOUNTS, CHAIN_ID, opened_core, settings, signed
from tests.support.direct_worker import CurrentCore, DirectWorker, get

SOURCE = Path(__file__).parents[1] / "src" / "cairn"
COUNTING = frozenset({"inc", "add", "set", "set_all", "observe", "change", "clear", "answered", "answered_at_once"})
READS_AT_ONCE = 400
TURNS = 25
SUBMISSIONS = 200
"""Of each of a few turns: to sign them takes longer."""
TURNS_OF_SUBMISSIONS = 4


class WithoutCounting(ast.NodeTransformer):
    """Takes out what is there only to count."""

    def __init__(self) -> None:
        self.removed = 0

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        called = node.value.func if isinstance(node.value, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr in COUNTING and _is_of_metrics(called.value):
            return self._nothing()
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        return self._nothing() if "self._counted[" in ast.unparse(node.target) else node

    def _nothing(self) -> ast.Pass:
        self.removed += 1
        return ast.Pass()


def _is_of_metrics(node: ast.expr) -> bool:
    text = ast.unparse(node)
    return text.startswith("metrics.") or text.endswith(".traffic") or "traffic_of(" in text


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


async def measure() -> dict[str, float]:
    """Processor time for each request, in microseconds."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="cairn-bench-") as scratch:
        board = Board()
        async with opened_core(Path(scratch) / "data", board=board) as core:
            worker = DirectWorker(CurrentCore(core), Path(scratch) / "worker", settings(rate_limit_per_s=0.0), board)
            worker.meet(core)
            account = "0x" + ACCOUNTS[0].hex()
            reads = {
                "GET /account/{address}": get(f"/account/{account}"),
                "GET /block/{hash}": get("/block/0"),
                "GET /chain": get("/chain"),
                "eth_getBalance": call("eth_getBalance", account, "latest"),
            }
            for name, request in reads.items():
                found[name] = least_us(lambda request=request: worker.at_once(request))  # type: ignore[misc]
            found["eth_sendRawTransaction, to the journal"] = await submit_us(worker)
            worker.close()
    return found


def least_us(ask: Callable[[], object]) -> float:
    assert ask() is not None, "it is not answered at once"
    gc.disable()
    turns = []
    for _ in range(TURNS):
        began = time.thread_time()
        for _ in range(READS_AT_ONCE):
            ask()
        turns.append(time.thread_time() - began)
    gc.enable()
    return min(turns) / READS_AT_ONCE * 1e6


async def submit_us(worker: DirectWorker) -> float:
    """Each alone, which is the most that it can cost: under load, many share a sync."""
    turns = []
    for turn in range(TURNS_OF_SUBMISSIONS):
        txs = [signed(turn * SUBMISSIONS + nonce) for nonce in range(SUBMISSIONS)]
        requests = [call("eth_sendRawTransaction", "0x" + encode_tx(tx, CHAIN_ID).hex()) for tx in txs]
        began = time.thread_time()
        for request in requests:
            assert b"result" in (await worker.ask(request)).body
        turns.append(time.thread_time() - began)
    return min(turns) / SUBMISSIONS * 1e6


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--alone", metavar="LEVEL", help="measure the package that Python finds, and print JSON")
    asked = options.parse_args()
    if asked.alone:
        configure_logging(asked.alone, "text")
        print(msgspec.json.encode(asyncio.run(measure())).decode())
        return
    with tempfile.TemporaryDirectory(prefix="cairn-bench-") as scratch:
        print(f"{copy_without(Path(scratch))} statements taken out", flush=True)
        own = str(SOURCE.parent)
        variants = {"neither": (scratch, "error"), "metrics": (own, "error"), "metrics and logs": (own, "info")}
        costs: dict[str, list[dict[str, float]]] = {name: [] for name in variants}
        for _ in range(asked.rounds):
            for name, (package, level) in variants.items():
                done = subprocess.run(
                    [sys.executable, "-m", "bench.metrics_cost", "--alone", level],
                    env=os.environ | {"PYTHONPATH": package}, capture_output=True, check=True,
                )  # fmt: skip
                costs[name].append(msgspec.json.decode(done.stdout.splitlines()[-1], type=dict[str, float]))
    for what in costs["neither"][0]:
        plain, counting, logging = (min(each[what] for each in costs[name]) for name in variants)
        print(
            f"{what}: {plain:.2f} us; with metrics {1000 * (counting - plain):+.0f} ns, "
            f"{100 * (counting / plain - 1):+.1f} %; with logs, too, {1000 * (logging - plain):+.0f} ns, "
            f"{100 * (logging / plain - 1):+.1f} %"
        )


if __name__ == "__main__":
    main()
