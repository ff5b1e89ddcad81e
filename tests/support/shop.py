"""The web shops of docs/tutorial.md and docs/typescript-shop.md, as processes that a test can kill, and their books."""

import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from tests.support.node_process import await_sleep, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.pages import DOCUMENTED_ADDRESS, ROOT, Page, Step, Terminal, patient
from tests.support.ports import free_ports
from tests.support.typescript import run

PAGE = Page("docs/tutorial.md")
IN_TYPESCRIPT = Page("docs/typescript-shop.md")
DOOMED_PYTHON = ROOT / "tests" / "support" / "doomed_shop.py"
DOOMED_JAVASCRIPT = ROOT / "tests" / "js" / "doomed_shop.mjs"
DOCUMENTED_PORT = re.compile(r"\b8000\b")


class Books(NamedTuple):
    """What a shop has on disk."""

    tickets: dict[str, str]
    """Of each paid order, by its reference."""
    payments: list[str]
    """The transactions that were booked, in their order."""
    refunds: list[str]
    """Those of them that paid for nothing."""


NO_BOOKS = Books({}, [], [])


class Shop(ABC):
    """The program and the commands of the page in a directory, with ports of their own."""

    def __init__(self, directory: Path, node_url: str, *command: str) -> None:
        [port] = free_ports(1)
        self.directory = directory
        self.command = command
        self.url = f"http://127.0.0.1:{port}/orders/"
        self._port = str(port)
        self._node = node_url.removeprefix("http://")

    @abstractmethod
    def books(self) -> Books: ...

    @abstractmethod
    def open_doomed(self, rng: random.Random) -> "OpenShop":
        """Run it until it is killed (SIGKILL), before a step that `rng` draws from those that write to the disk."""

    def own(self, text: str) -> str:
        """A text of the page, with this shop's port and its node's."""
        return DOCUMENTED_PORT.sub(self._port, text.replace(DOCUMENTED_ADDRESS, self._node))

    def open(self) -> "OpenShop":
        return OpenShop(self, self.command)


class PythonShop(Shop):
    def __init__(self, directory: Path, node_url: str) -> None:
        super().__init__(directory, node_url, sys.executable, "shop.py")
        [text] = PAGE.code("python", "shop.py")
        (directory / "shop.py").write_text(self.own(patient(text)))

    def books(self) -> Books:
        if not (self.directory / "shop.db").exists():
            return NO_BOOKS
        with closing(sqlite3.connect(self.directory / "shop.db", timeout=PATIENCE_S)) as books, books:
            # All as of one moment.
            books.execute("BEGIN")
            if not books.execute("SELECT 1 FROM sqlite_master WHERE name = 'payments'").fetchone():
                return NO_BOOKS
            tickets = dict(books.execute("SELECT 'order ' || number, ticket FROM orders WHERE ticket IS NOT NULL"))
            noted = books.execute("SELECT tx_hash, refund_to FROM payments ORDER BY rowid").fetchall()
            return Books(tickets, [tx_hash for tx_hash, _ in noted], [tx_hash for tx_hash, to in noted if to])

    def open_doomed(self, rng: random.Random) -> "OpenShop":
        # Most moments that matter are those of payments.
        part = rng.choice(["payments", "payments", "payments", "orders"])
        return OpenShop(self, [sys.executable, str(DOOMED_PYTHON), str(rng.randrange(1, 50)), part])


class TypeScriptShop(Shop):
    def __init__(self, directory: Path, node_url: str, compiled: Path) -> None:
        super().__init__(directory, node_url, "node", "shop.mjs")
        (directory / "node_modules").symlink_to(compiled / "node_modules")
        (directory / "shop.mjs").write_text(self.own((compiled / "shop.mjs").read_text()))

    def books(self) -> Books:
        path = self.directory / "shop.json"
        if not path.exists():
            return NO_BOOKS
        books = json.loads(path.read_text())
        orders = enumerate(books["orders"], 1)
        tickets = {f"order {number}": order["ticket"] for number, order in orders if order["ticket"]}
        noted = books["payments"]
        refunds = [each["txHash"] for each in noted if each["refundTo"]]
        return Books(tickets, [each["txHash"] for each in noted], refunds)

    def open_doomed(self, rng: random.Random) -> "OpenShop":
        command = ["node", "--import", str(DOOMED_JAVASCRIPT), "shop.mjs"]
        return OpenShop(self, command, KILLED_AT=str(rng.randrange(1, 60)))


def compile_shop(directory: Path, packages: Path) -> None:
    """Compile the program, as the page says."""
    (directory / "node_modules").symlink_to(packages)
    [text] = IN_TYPESCRIPT.code("typescript", "shop.mts")
    (directory / "shop.mts").write_text(text)
    [(line, _)] = IN_TYPESCRIPT.steps("npx")
    run(line, directory)


class OpenShop:
    """The program while it runs. Leaving the `with` block kills it."""

    def __init__(self, shop: Shop, command: Sequence[str], **environment: str) -> None:
        self._shop = shop
        self._printed = shop.directory / "printed"
        # Node.js 20 has a WebSocket, too, if it is asked for.
        environment["NODE_OPTIONS"] = "--experimental-websocket"
        with self._printed.open("wb") as out:
            self._process = subprocess.Popen(
                command, cwd=shop.directory, env=os.environ | environment, stdout=out, stderr=subprocess.PIPE
            )

    def await_text(self, expected: str) -> None:
        """Return once it has printed this, and nothing else."""
        self._await(lambda: self._printed.read_text() == expected, repr(expected))

    def await_booked(self, count: int) -> None:
        """Return once it has so many payments in its books."""
        self._await(lambda: len(self._shop.books().payments) >= count, f"{count} payments")

    @property
    def is_open(self) -> bool:
        return self._process.poll() is None

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        wait_until(lambda: condition() or self._process.poll() is not None, PATIENCE_S, what)
        assert condition(), f"waited for {what}: {self._printed.read_text()!r}"

    def await_kill(self) -> None:
        """Return once it was killed. Raises `AssertionError` when it ended otherwise."""
        _, complaint = self._process.communicate(timeout=PATIENCE_S)
        assert self._process.returncode == -signal.SIGKILL, complaint.decode()

    def close(self) -> None:
        """Press Ctrl-C."""
        await_sleep(self._process.pid)
        self._process.send_signal(signal.SIGINT)
        _, complaint = self._process.communicate(timeout=PATIENCE_S)
        assert (self._process.returncode, complaint) == (0, b"")

    def __enter__(self) -> "OpenShop":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


class Customer:
    """Who types the commands of the page, to this shop and this node."""

    def __init__(self, terminal: Terminal, shop: Shop) -> None:
        self._terminal = terminal
        self._shop = shop

    def do(self, *steps: Step) -> None:
        for line, shown in steps:
            self._do(self._shop.own(line), shown)

    def _do(self, line: str, shown: str) -> None:
        printed = self._terminal.run(line)
        if shown:
            # The shop may take a moment to see its payment. Asking again, and ordering again, changes nothing.
            wait_until(lambda: steady(self._terminal.run(line)) == steady(shown), PATIENCE_S, f"{shown}: {printed}")


def steady(text: str) -> str:
    """Without the tickets, which are random, and without the spaces that JSON may have."""
    return re.sub(r'"[0-9a-f]{16}"', '"…"', text).replace(": ", ":").replace(", ", ",")
