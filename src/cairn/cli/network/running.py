"""`cairn testnet --run`: all nodes of a network, each as a process of its own, in one table."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cairn.cli.network.homes import LOOPBACK
from cairn.cli.node.home import Home
from cairn.cli.screen import print_line
from cairn.cometbft import COMETBFT_DIRECTORY, CometBFT, die_with_parent
from cairn.config import load_settings
from cairn.domain.answers import NOT_KNOWN
from cairn.domain.errors import InvalidConfig
from cairn.early_stop import Terminal

POLL_S = 0.5
ASK_TIMEOUT_S = 1.0
STOP_LIMIT_S = 6.0
"""More than a node takes at most, so only one that is stuck is killed."""
LOG_FILE = "cairn.log"
UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One row of the table: the status of a node."""

    height: str = UNKNOWN
    peers: str = UNKNOWN
    mempool: str = UNKNOWN
    status: str = "starting"


class RunningNode:
    """One node in its own session: the terminal's Ctrl-C is for us to pass on."""

    def __init__(self, home: Home, cometbft_binary: str) -> None:
        self.name = home.directory.name
        settings = load_settings(home.read_config())
        self._port = settings.port
        engine = CometBFT(Path(), Path(settings.cometbft_home or home.directory / COMETBFT_DIRECTORY))
        self._rpc = settings.cometbft_rpc or engine.configured_rpc()
        self.log_file = home.directory / LOG_FILE
        chosen = ["--cometbft-binary", cometbft_binary] if cometbft_binary else []
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "cairn.cli", "run", "--home", str(home.directory), *chosen],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=partial(die_with_parent, signal.SIGTERM),
            )

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._port}"

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def row(self) -> NodeRow:
        code = self._process.poll()
        if code is not None:
            return NodeRow(status=f"ended with exit code {code}: see {self.log_file}")
        host = f"{LOOPBACK}:{self._port}"
        try:
            chain = ask(host, "/chain", ASK_TIMEOUT_S)[1]
            ready, readiness = ask(host, "/ready", ASK_TIMEOUT_S)
            height, mempool = chain["head"]["blockHeight"], chain["mempool"]
            status = "ready" if ready == 200 else reason_in(readiness)
        except (NoAnswer, KeyError, TypeError):
            return NodeRow(peers=self._peers())
        return NodeRow(str(height), self._peers(), str(mempool["pending"] + mempool["queued"]), status)

    def _peers(self) -> str:
        try:
            return str(ask(self._rpc.removeprefix("tcp://"), "/net_info", ASK_TIMEOUT_S)[1]["result"]["n_peers"])
        except (NoAnswer, KeyError, TypeError):
            return UNKNOWN

    def stop(self) -> None:
        if self.is_running:
            self._process.terminate()

    def reload(self) -> None:
        if self.is_running:
            self._process.send_signal(signal.SIGHUP)

    def wait(self, timeout_s: float) -> None:
        """Until it has ended; all of it is killed when that takes too long."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def reason_in(readiness: Any) -> str:
    """Why /ready is 503, in one line."""
    checks = readiness.get("checks", {})
    reasons = [check for check in dict.fromkeys(checks.values()) if check not in ("ok", NOT_KNOWN)]
    return "; ".join(reasons) or str(readiness.get("detail", readiness.get("status", "not ready")))


def run_network(directory: Path, cometbft_binary: str) -> int:
    """Run every home in `directory` until signals to stop, or until no node runs any more. Returns the exit code."""
    homes = [Home(path.parent) for path in directory.glob("node*/cairn.toml")]
    if not homes:
        raise InvalidConfig(f"there is no node in {directory}: `cairn testnet` makes them in an empty directory")
    nodes: list[RunningNode] = []
    signals = SignalsSeen()
    try:
        for home in sorted(homes, key=lambda home: (len(home.directory.name), home.directory.name)):
            nodes.append(RunningNode(home, cometbft_binary))
        watch(nodes, signals)
    finally:
        for node in nodes:
            node.stop()
        deadline = time.monotonic() + STOP_LIMIT_S
        for node in nodes:
            node.wait(max(0.0, deadline - time.monotonic()))
    return 0 if signals.to_stop else 1


class SignalsSeen:
    """What signals have asked for. They interrupt nothing, so nothing is left half done."""

    def __init__(self) -> None:
        self.to_stop = self.to_reload = False
        self._terminal = Terminal()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        # With nohup the nodes must outlive the terminal; they inherit that a hang-up is ignored.
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self._hung_up)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.to_stop = True

    def _hung_up(self, number: int, frame: FrameType | None) -> None:
        """Without a terminal it is an order to the nodes, to read their settings again."""
        if self._terminal.was_there:
            self.to_stop = True
        else:
            self.to_reload = True


def watch(nodes: Sequence[RunningNode], signals: SignalsSeen) -> None:
    console = Console()
    with ThreadPoolExecutor(len(nodes)) as asking, Live(console=console, auto_refresh=False) as live:
        shown: list[NodeRow] = []
        while not signals.to_stop and any(node.is_running for node in nodes):
            rows = list(asking.map(RunningNode.row, nodes))
            if console.is_terminal:
                live.update(table_of([(node.name, node.url) for node in nodes], rows), refresh=True)
            elif [row.status for row in rows] != [row.status for row in shown]:
                for node, row in zip(nodes, rows, strict=True):
                    print_line(f"{node.name} {node.url} height {row.height}: {row.status}")
            shown = rows
            if signals.to_reload:
                signals.to_reload = False
                for node in nodes:
                    node.reload()
            pause(POLL_S, signals)


def pause(seconds: float, signals: SignalsSeen) -> None:
    """Wait, but no longer than until a signal: a handler does not end a sleep."""
    deadline = time.monotonic() + seconds
    while not signals.to_stop and time.monotonic() < deadline:
        time.sleep(0.05)


def table_of(nodes: Sequence[tuple[str, str]], rows: Sequence[NodeRow]) -> Table:
    """A row for each node, known by its name and URL."""
    table = Table(caption="Ctrl-C stops them all", caption_justify="left")
    for heading in ("node", "API", "height", "peers", "mempool", "status"):
        table.add_column(heading, justify="right" if heading in ("height", "peers", "mempool") else "left")
    for (name, url), row in zip(nodes, rows, strict=True):
        status = Text(row.status, "green" if row.status == "ready" else "yellow")
        table.add_row(name, url, row.height, row.peers, row.mempool, status)
    return table


class NoAnswer(Exception):
    """There was no answer, or it was not JSON."""


def ask(host: str, path: str, timeout_s: float) -> tuple[int, Any]:
    """The status of the answer of a node or of CometBFT, and its JSON. Raises `NoAnswer`."""
    # Not with httpx, which would make commands load half as long again.
    connection = http.client.HTTPConnection(host, timeout=timeout_s)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NoAnswer(str(error) or type(error).__name__) from None
    finally:
        connection.close()
