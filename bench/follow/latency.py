"""Payments and new blocks on thousands of sockets of one worker, in one run."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import httpx

from bench.follow.sockets import EventSocket, open_socket
from bench.machine import cpu_seconds, memory
from cairn.domain.genesis import DEV_KEYS
from cairn.domain.types import TRANSFER_GAS
from tests.support.node_process import NodeProcess

BLOCK_TIME_S = 0.5
BATCH = 50
BATCH_EVERY_S = 0.25
PATIENCE_S = 60


@dataclass(frozen=True, slots=True)
class Plan:
    large: int
    """Addresses on the one large socket."""
    small_sockets: int
    small: int
    """Addresses on each small one."""
    block_sockets: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Came:
    """How long after the first event of its block each event came."""

    name: str
    delays_ms: Sequence[float]

    def row(self) -> str:
        ordered = sorted(self.delays_ms)
        shares = (ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.9, 0.99, 1.0))
        return f"| {self.name} | {len(ordered):,} | " + " | ".join(f"{each:.1f}" for each in shares) + " |"


@dataclass(frozen=True, slots=True)
class LatencyFigures:
    came: Sequence[Came]
    blocks: int
    payments: int
    idle_mb: float
    connected_mb: float
    large_mb: float
    small_mb: float
    loaded_mb: float
    worker_cpu_percent: float


async def measure_latency(plan: Plan) -> LatencyFigures:
    with NodeProcess.start_dev("--workers", "1", "--block-time", str(BLOCK_TIME_S), "--quiet") as node:
        return await _measure(node, plan)


async def _measure(node: NodeProcess, plan: Plan) -> LatencyFigures:
    rng = random.Random(1)
    workers = node.worker_pids()
    idle_mb = memory(workers).pss_mb
    small = [await open_socket(node.url) for _ in range(plan.small_sockets)]
    blocks = [await open_socket(node.url) for _ in range(plan.block_sockets)]
    large = await open_socket(node.url)
    connected_mb = memory(workers).pss_mb
    addresses = [f"0x{rng.getrandbits(160):040x}" for _ in range(plan.large + plan.small_sockets * plan.small)]
    await large.follow(addresses[: plan.large])
    large_mb = memory(workers).pss_mb
    for number, socket in enumerate(small):
        first = plan.large + number * plan.small
        await socket.follow(addresses[first : first + plan.small])
    small_mb = memory(workers).pss_mb
    for socket in blocks:
        await socket.ask(event="newBlock")
    cpu_before, paid = cpu_seconds(workers), 0
    async with httpx.AsyncClient(base_url=node.url, timeout=60) as http:
        for _ in range(int(plan.seconds / BATCH_EVERY_S)):
            paid += await _pay(http, rng, addresses)
            await asyncio.sleep(BATCH_EVERY_S)
    every = [*small, large]
    await _await_payments(every, paid)
    cpu_percent = 100 * (cpu_seconds(workers) - cpu_before) / plan.seconds
    groups = {
        f"`newBlock` on {plan.block_sockets} sockets": blocks,
        f"`payment` on the socket with {plan.large:,} addresses": [large],
        f"`payment` on {plan.small_sockets:,} sockets with {plan.small} each": small,
    }
    came = _delays(groups)
    heights = {height for socket in every for _, height, _ in socket.came}
    loaded_mb = memory(workers).pss_mb
    for socket in (*every, *blocks):
        socket.transport.abort()
    return LatencyFigures(came, len(heights), paid, idle_mb, connected_mb, large_mb, small_mb, loaded_mb, cpu_percent)


async def _await_payments(sockets: Sequence[EventSocket], count: int) -> None:
    """Each is told to one socket."""
    async with asyncio.timeout(PATIENCE_S):
        while sum(len(socket.came) for socket in sockets) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def _pay(http: httpx.AsyncClient, rng: random.Random, addresses: Sequence[str]) -> int:
    """Half of it to the large socket's addresses, and half to the others'."""
    transfers = [
        {
            "from": "0x" + rng.choice(DEV_KEYS)[0].hex(),
            "to": rng.choice(addresses),
            "value": 1,
            "gas": TRANSFER_GAS,
        }
        for _ in range(BATCH)
    ]
    answer = await http.post("/txs", json=transfers)
    answer.raise_for_status()
    return sum("txHash" in each for each in answer.json())


def _delays(groups: dict[str, list[EventSocket]]) -> list[Came]:
    first: defaultdict[int, float] = defaultdict(lambda: float("inf"))
    for sockets in groups.values():
        for socket in sockets:
            for _, height, at in socket.came:
                first[height] = min(first[height], at)
    paid = {height for sockets in list(groups.values())[1:] for socket in sockets for _, height, _ in socket.came}
    return [
        Came(
            name,
            [1_000 * (at - first[height]) for socket in sockets for _, height, at in socket.came if height in paid],
        )
        for name, sockets in groups.items()
    ]
