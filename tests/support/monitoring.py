"""A real Prometheus and Alertmanager, set up with the files of packaging/monitoring: only addresses are replaced."""

import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import httpx

from tests.support.network import Network
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S
from tests.support.pages import ROOT
from tests.support.ports import free_ports
from tests.support.programs import need_program

DIRECTORY = ROOT / "packaging" / "monitoring"
PROMETHEUS = ("prometheus",)
ALERTMANAGER = ("prometheus-alertmanager", "alertmanager")


def panels() -> list[dict[str, Any]]:
    """What the dashboard shows."""
    every = json.loads((DIRECTORY / "dashboard.json").read_text())["panels"]
    return [panel for panel in every if panel["type"] != "row"]


def said_when_empty(panel: Mapping[str, Any]) -> str | None:
    """What the panel says when there are no data; None if that must not be."""
    text: str | None = panel["fieldConfig"]["defaults"].get("noValue")
    return text


def query_of(target: Mapping[str, Any], chain: str, rate_interval: str = "1m") -> str:
    """A panel's query, as Grafana asks it for all nodes of a chain."""
    query = str(target["expr"])
    for variable, value in (("$chain", chain), ("$instance", ".+"), ("$__rate_interval", rate_interval)):
        query = query.replace(variable, value)
    assert "$" not in query, query
    return query


class Targets(NamedTuple):
    """Where the nodes of one chain show their metrics, and their CometBFTs."""

    chain: str
    nodes: Sequence[int]
    """Ports on loopback."""
    engines: Sequence[int] = ()

    def instance(self, index: int) -> str:
        """What Prometheus calls a node."""
        return f"127.0.0.1:{self.nodes[index]}"


def show_metrics(network: Network) -> Targets:
    """Give each node of a network, and its CometBFT, a port for metrics. Call it before they start."""
    ports = free_ports(2 * len(network.nodes))
    nodes, engines = ports[::2], ports[1::2]
    for node, port, engine_port in zip(network.nodes, nodes, engines, strict=True):
        node.set(metrics_port=port)
        node.configure(
            {
                "instrumentation.prometheus": True,
                "instrumentation.prometheus_listen_addr": f"127.0.0.1:{engine_port}",
            }
        )
    return Targets("network", nodes, engines)


class Arrived(NamedTuple):
    """An alert that somebody was told of."""

    at: float
    """By the monotonic clock."""
    receiver: str
    labels: Mapping[str, str]
    summary: str

    def is_of(self, name: str, labels: Mapping[str, str]) -> bool:
        return self.labels["alertname"] == name and labels.items() <= self.labels.items()


class Receiver:
    """Where Alertmanager sends what fires: it stands in for a pager, and for a list of tickets."""

    def __init__(self) -> None:
        self.arrived: list[Arrived] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                now = time.monotonic()
                receiver.arrived += [
                    Arrived(now, told["receiver"], alert["labels"], alert["annotations"]["summary"])
                    for alert in told["alerts"]
                    if alert["status"] == "firing"
                ]
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def replaced(text: str, changes: Iterable[tuple[str, str]]) -> str:
    """The text with each of these, which it must hold, replaced by another."""
    for shipped, here in changes:
        assert shipped in text, f"packaging/monitoring no longer has {shipped}"
        text = text.replace(shipped, here)
    return text


def groups_of(targets: Iterable[tuple[str, Sequence[int]]]) -> str:
    """The lines of `static_configs`."""
    return "".join(
        f"      - targets: {json.dumps([f'127.0.0.1:{port}' for port in ports])}\n        labels: {{chain: {chain}}}\n"
        for chain, ports in targets
    )


class Monitoring:
    """Watches these targets until the `with` block is left."""

    def __init__(self, targets: Sequence[Targets]) -> None:
        self._targets = targets
        self._programs = [need_program(*PROMETHEUS), need_program(*ALERTMANAGER)]
        self._stack = ExitStack()
        self._port, self._alertmanager_port = free_ports(2)
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{self._port}", timeout=PATIENCE_S)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.receiver = stack.enter_context(Receiver())
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cairn-test-")))
            self._write_configuration(directory)
            prometheus, alertmanager = self._programs
            self._run(
                stack,
                alertmanager,
                f"--config.file={directory}/alertmanager.yml",
                f"--storage.path={directory}/alertmanager",
                f"--web.listen-address=127.0.0.1:{self._alertmanager_port}",
                "--cluster.listen-address=",
                "--log.level=error",
            )
            self._run(
                stack,
                prometheus,
                f"--config.file={directory}/prometheus.yml",
                f"--storage.tsdb.path={directory}/prometheus",
                f"--web.listen-address=127.0.0.1:{self._port}",
                "--log.level=error",
            )
            wait_until(self._is_ready, PATIENCE_S, "Prometheus and Alertmanager")
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()
        self._stack.close()

    def _write_configuration(self, directory: Path) -> None:
        shipped = "      - targets: {}\n        labels: {{chain: main}}\n"
        prometheus = replaced(
            (DIRECTORY / "prometheus.yml").read_text(),
            (
                (shipped.format('["127.0.0.1:8646"]'), groups_of((each.chain, each.nodes) for each in self._targets)),
                (shipped.format("[]"), groups_of((each.chain, each.engines) for each in self._targets)),
                ("127.0.0.1:9093", f"127.0.0.1:{self._alertmanager_port}"),
                ("127.0.0.1:9090", f"127.0.0.1:{self._port}"),
            ),
        )
        alertmanager = replaced(
            (DIRECTORY / "alertmanager.yml").read_text(), [("127.0.0.1:9095", f"127.0.0.1:{self.receiver.port}")]
        )
        (directory / "prometheus.yml").write_text(prometheus)
        (directory / "alertmanager.yml").write_text(alertmanager)
        (directory / "alerts.yml").write_bytes((DIRECTORY / "alerts.yml").read_bytes())

    def _run(self, stack: ExitStack, *command: str) -> None:
        process = subprocess.Popen(command)

        def end() -> None:
            process.kill()
            process.wait()

        stack.callback(end)

    def _is_ready(self) -> bool:
        try:
            ready = [httpx.get(f"http://127.0.0.1:{port}/-/ready") for port in (self._port, self._alertmanager_port)]
        except httpx.TransportError:
            return False
        return all(answer.status_code == 200 for answer in ready)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """What Prometheus answers now. Raises `ValueError` when it cannot read the query."""
        return self._ask("/api/v1/query", {"query": expression})

    def query_range(self, expression: str, start: float, end: float, step_s: float) -> list[dict[str, Any]]:
        """What it would have answered from `start` to `end`, by the wall clock."""
        period = {"start": str(start), "end": str(end), "step": str(step_s)}
        return self._ask("/api/v1/query_range", {"query": expression} | period)

    def _ask(self, path: str, parameters: Mapping[str, str]) -> list[dict[str, Any]]:
        answer = self._client.get(path, params=dict(parameters)).json()
        if answer["status"] != "success":
            raise ValueError(f"{parameters['query']}: {answer['error']}")
        return list(answer["data"]["result"])

    def await_up(self) -> None:
        """Return once every node and every CometBFT was scraped."""
        count = sum(len(each.nodes) + len(each.engines) for each in self._targets)
        up = 'sum(up{job=~"cairn|cometbft"})'
        wait_until(
            lambda: [each["value"][1] for each in self.query(up)] == [str(count)],
            PATIENCE_S,
            f"{count} targets to be up",
        )

    def firing(self) -> list[dict[str, str]]:
        """The labels of the alerts that fire now."""
        return [each["metric"] for each in self.query('ALERTS{alertstate="firing"}')]

    def await_alert(self, name: str, **labels: str) -> Arrived:
        """The first alert of this name with these labels that was sent, waiting for it if need be."""

        def find() -> Arrived | None:
            return next((each for each in self.receiver.arrived if each.is_of(name, labels)), None)

        try:
            wait_until(lambda: find() is not None, PATIENCE_S, f"{name} {labels}")
        except TimeoutError as late:
            late.add_note(f"arrived: {self.receiver.arrived}\nfiring: {self.firing()}")
            raise
        found = find()
        assert found is not None
        return found
