"""What a node that runs tells of itself over HTTP, even when it is half dead: its probes, its chain and its metrics."""

import asyncio
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import httpx
import msgspec

from cairn.domain.answers import Chain, Head, Validators

PATIENCE_S = 15.0
"""A node whose core is stuck answers what needs the core after 3 s only, and much later if its machine is busy."""

SUFFERING = ("store", "mempool")
"""Parts in the answer of /ready that are not at fault themselves."""

T = TypeVar("T")
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Metrics:
    """The samples of a page in Prometheus' text format."""

    def __init__(self, text: str) -> None:
        """Read the page. Raises `ValueError`."""
        self._samples = [
            (name, dict(_LABEL.findall(labels)), float(value)) for name, labels, value in _SAMPLE.findall(text)
        ]

    def values(self, name: str, label: str) -> dict[str, float]:
        """Those of one series, by the value of a label."""
        return {labels[label]: value for each, labels, value in self._samples if each == name and label in labels}

    def value(self, name: str) -> float | None:
        """The sum over all labels; None if the page has no such series."""
        found = [value for each, _, value in self._samples if each == name]
        return sum(found) if found else None


class SaidReadiness(msgspec.Struct, frozen=True):
    """The answer of /ready, of a node that may have other parts than ours."""

    status: str
    checks: dict[str, str | None] = {}

    def failing(self) -> dict[str, str]:
        """By part, what is wrong with it: the parts at fault, or if none is named, those that suffer."""
        wrong = {part: said for part, said in self.checks.items() if said not in ("ok", "unknown", "", None)}
        return {part: said for part, said in wrong.items() if part not in SUFFERING} or wrong


@dataclass(frozen=True, slots=True)
class LiveNode:
    """What a node answered. Whatever it did not answer is None."""

    url: str
    failure: str | None
    """Why it does not answer at all; None if it does."""
    readiness: SaidReadiness | None = None
    chain: Chain | None = None
    head: Head | None = None
    validators: Validators | None = None
    peers: int | None = None
    data_bytes: int | None = None
    metrics: Metrics | None = None

    @property
    def is_ready(self) -> bool:
        return self.readiness is not None and self.readiness.status == "ready"


def look_at(url: str, metrics_url: str | None, is_ours: bool) -> LiveNode:
    """Ask a node for everything at once. `is_ours`: its certificate is for a name that is not asked for here."""
    return asyncio.run(_look(url, metrics_url, is_ours))


async def _look(url: str, metrics_url: str | None, is_ours: bool) -> LiveNode:
    try:
        # A proxy of the environment is not for a node on this machine.
        client = httpx.AsyncClient(base_url=url, timeout=PATIENCE_S, verify=not is_ours, trust_env=not is_ours)
        async with client as http:
            await http.get("/health")
            async with asyncio.TaskGroup() as asked:
                readiness = asked.create_task(_get(http, "/ready", SaidReadiness, (200, 503)))
                chain = asked.create_task(_get(http, "/chain", Chain))
                block = asked.create_task(_get(http, "/block/latest", Head))
                validators = asked.create_task(_validators(http, chain))
                peers = asked.create_task(_call(http, "net_peerCount"))
                size = asked.create_task(_call(http, "cairn_dataSize"))
                metrics = asked.create_task(_page(http, metrics_url))
    except (httpx.HTTPError, httpx.InvalidURL) as failure:
        return LiveNode(url, str(failure) or type(failure).__name__)
    # While the core is stuck, only what is on disk is known.
    head = block.result() if (told := chain.result()) is None else told.head
    return LiveNode(
        url,
        None,
        readiness.result(),
        told,
        head,
        validators.result(),
        peers.result(),
        size.result(),
        metrics.result(),
    )


async def _get(http: httpx.AsyncClient, path: str, kind: type[T], statuses: Iterable[int] = (200,)) -> T | None:
    try:
        answer = await http.get(path)
        return msgspec.json.decode(answer.content, type=kind) if answer.status_code in statuses else None
    except (httpx.HTTPError, msgspec.MsgspecError):
        return None


async def _validators(http: httpx.AsyncClient, asked: asyncio.Task[Chain | None]) -> Validators | None:
    # A node that makes its blocks alone has none, and would count the question among those that it refused.
    chain = await asked
    return None if chain is not None and chain.engine == "embedded" else await _get(http, "/validators", Validators)


async def _call(http: httpx.AsyncClient, method: str) -> int | None:
    try:
        answer = await http.post("/rpc", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": []})
        return int(answer.json()["result"], 16)
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return None


async def _page(http: httpx.AsyncClient, url: str | None) -> Metrics | None:
    if url is None:
        return None
    try:
        answer = await http.get(url)
        return Metrics(answer.text) if answer.status_code == 200 else None
    except (httpx.HTTPError, ValueError):
        return None
