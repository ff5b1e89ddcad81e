"""The web shops of docs/tutorial.md, as processes that a test can kill, and the books that they keep."""

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
IN_TYPESCRIPT = PAGE.section("The same shop in TypeScript")
DOOMED_PYTHON = ROOT / "tests" / "support" / "doomed_shop.py"
DOOMED_JAVASCRIPT = ROOT / "tests" / "js" / "doomed_shop.mjs"
DOCUMENTED_PORT = re.compile(r"\b8000\b")


class Books(NamedTuple):
    """What a shop has on disk."""

    tickets: dict[str, str]
    """Of each paid order, by its amount."""
    refunds: list[str]
    """The transactions that paid for nothing, in the order in which they were booked."""

    @property
    def booked(self) -> int:
        return len(self.tickets) + len(self.refunds)


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
            return Books({}, [])
        with closing(sqlite3.connect(self.directory / "shop.db", timeout=PATIENCE_S)) as books, books:
            # Both as of one moment.
            books.execute("BEGIN")
            if not books.execute("SELECT 1 FROM sqlite_master WHERE name = 'cursor'").fetchone():
                return Books({}, [])
            tickets = dict(books.execute("SELECT amount, ticket FROM orders WHERE ticket IS NOT NULL"))
            refunds = books.execute("SELECT tx_hash FROM refunds ORDER BY rowid")
            return Books(tickets, [tx_hash for (tx_hash,) in refunds])

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
            return Books({}, [])
        books = json.loads(path.read_text())
        tickets = {order["amount"]: order["ticket"] for order in books["orders"] if order["ticket"]}
        return Books(tickets, [refund["txHash"] for refund in books["refunds"]])

    def open_doomed(self, rng: random.Random) -> "OpenShop":
        command = ["node", "--import", str(DOOMED_JAVASCRIPT), "shop.mjs"]
        return OpenShop(self, command, KILLED_AT=str(rng.randrange(1, 60)))


def compile_shop(directory: Path, node_url: str, packages: Path) -> None:
    """Generate the types and compile the program, as the page says."""
    (directory / "node_modules").symlink_to(packages)
    [text] = IN_TYPESCRIPT.code("typescript", "shop.mts")
    (directory / "shop.mts").write_text(text)
    for line, _ in IN_TYPESCRIPT.steps("npx"):
        run(line.replace(DOCUMENTED_ADDRESS, node_url.removeprefix("http://")), directory)


class OpenShop:
    """The program while it runs. Leaving the `with` block kills it."""

    def __init__(self, shop: Shop, command: Sequence[str], **environment: str) -> None:
        self._shop = shop
        self._printed = shop.directory / "printed"
        with self._printed.open("wb") as out:
            self._process = subprocess.Popen(
                command, cwd=shop.directory, env=os.environ | environment, stdout=out, stderr=subprocess.PIPE
            )

    def await_text(self, expected: str) -> None:
        """Return once it has printed this, and nothing else."""
        self._await(lambda: self._printed.read_text() == expected, repr(expected))

    def await_booked(self, count: int) -> None:
        """Return once it has so many payments in its books."""
        self._await(lambda: self._shop.books().booked >= count, f"{count} payments")

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
