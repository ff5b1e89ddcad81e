"""Readers of one node and of several, with a proxy in front and without one."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.__main__ import tell
from bench.load import Request, run_loads
from bench.machine import cpu_seconds
from bench.network_runs import pids_of, port_of
from bench.recovery import RecoverySampler
from bench.scale.figures import Reads
from tests.support.balancers import Balancer
from tests.support.network import Network, NetworkNode
from tests.support.readers import Spread, spread_of

PROXIES = ("", "haproxy", "nginx")
CLIENTS = 16
"""At an address of their own each: by its address a proxy chooses a client's node."""
CONNECTIONS = 4
"""Of each client."""
REQUESTS: Sequence[Request] = [
    (b"GET /account/0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266 HTTP/1.1\r\nHost: localhost\r\n\r\n", b'"balance"'),
    (b"GET /block/latest HTTP/1.1\r\nHost: localhost\r\n\r\n", b'"blockHeight"'),
]


def measure_reads(scratch: Path, nodes: int, seconds: float) -> Iterator[Reads]:
    """One node and all of them, by themselves and behind each proxy."""
    with Network(scratch / "reads", validators=1, args=[f"--full-nodes={nodes}"], linked=False) as network:
        # The readers here are few, and ask more than a real client may.
        network.set(trusted_proxies=["127.0.0.1"], rate_limit_per_s=0)
        network.start()
        for count in sorted({1, nodes}):
            for proxy in PROXIES:
                tell(f"reads of {count}, {f'through {proxy}' if proxy else 'directly'}")
                yield _measure(proxy, network.nodes[1 : 1 + count], seconds)


def _measure(proxy: str, nodes: Sequence[NetworkNode], seconds: float) -> Reads:
    with ExitStack() as stack:
        balancer = stack.enter_context(Balancer(proxy, [node.url for node in nodes])) if proxy else None
        spread = spread_of(balancer.url, len(nodes), CLIENTS // len(nodes)) if balancer else _by_themselves(len(nodes))
        sources = [address for clients in spread.clients for address in clients]
        ports = [balancer.port if balancer else port_of(node) for node in nodes for _ in range(CLIENTS // len(nodes))]
        node_pids, proxy_pids = pids_of(nodes), [balancer.process.pid] if balancer else []
        sampler = stack.enter_context(RecoverySampler())
        before_s, proxy_before_s = cpu_seconds(node_pids), cpu_seconds(proxy_pids)
        result = run_loads([(port, REQUESTS) for port in ports], CONNECTIONS, seconds, repeat=True, sources=sources)
        node_s, proxy_s = cpu_seconds(node_pids) - before_s, cpu_seconds(proxy_pids) - proxy_before_s
        recovery_us = sampler.finish().mean_us
    answers = len(result.latencies_s)
    return Reads(
        proxy=proxy,
        nodes=len(nodes),
        per_s=result.per_second,
        node_cpu_us=1e6 * node_s / answers,
        proxy_cpu_us=1e6 * proxy_s / answers,
        p50_ms=result.percentile_ms(50),
        p99_ms=result.percentile_ms(99),
        recovery_us=recovery_us,
        shares=spread.shares,
    )


def _by_themselves(nodes: int) -> Spread:
    """As many clients for each node as behind a proxy."""
    each = CLIENTS // nodes
    return Spread([[f"127.0.1.{1 + node * each + place}" for place in range(each)] for node in range(nodes)], [])
