"""docs/postgresql.md on a real PostgreSQL: its commands; its indexer, killed at random; a chain that is reverted.

`INDEX_SEED=…` draws the same payments and kills again.
"""

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest

from cairn.client import Account, Client
from cairn.client.models import ConfirmedTransaction
from tests.support.node_process import NodeProcess, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.pages import ROOT, Page, Terminal, patient
from tests.support.postgresql import INITDB, PostgreSQL
from tests.support.programs import need_program

PAGE = Page("docs/postgresql.md")
SEED = int(os.environ.get("INDEX_SEED", random.SystemRandom().randrange(2**32)))
DOOMED = ROOT / "tests" / "support" / "doomed_indexer.py"
KILLS = 5
PAYMENTS_AT_ONCE = 3


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSQL]:
    with PostgreSQL(need_program(*INITDB)) as server:
        yield server


@pytest.fixture
def node() -> Iterator[NodeProcess]:
    with NodeProcess.start_dev("--block-time", "0.01") as process:
        yield process


class Indexer:
    """The program of the page, on this node and this database."""

    def __init__(self, terminal: Terminal, database: str) -> None:
        [program] = PAGE.code("python", "indexer.py")
        terminal.save("indexer.py", patient(program).replace("dbname=chain", f"dbname={database}"))
        self._terminal = terminal

    @contextmanager
    def running(self) -> Iterator[Callable[[], bool]]:
        """Gives whether it still runs. Leaving kills it."""
        command = self._terminal.own(".venv/bin/python indexer.py").split()
        process = subprocess.Popen(command, cwd=self._terminal.directory, env=self._terminal.environment)
        try:
            yield lambda: process.poll() is None
        finally:
            process.kill()
            process.wait()

    def run_doomed(self, number: int) -> None:
        """Run it until it is killed, before the call of its database that has this number."""
        doomed = subprocess.run(
            [sys.executable, str(DOOMED), str(number)],
            cwd=self._terminal.directory,
            env=self._terminal.environment,
            timeout=PATIENCE_S,
        )
        assert doomed.returncode == -signal.SIGKILL


def height_of(database: psycopg.Connection) -> int:
    """The height of the newest block in the index; -1 before there is one."""
    if database.execute("SELECT to_regclass('blocks')").fetchone() == (None,):
        return -1
    [height] = database.execute("SELECT coalesce(max(height), -1) FROM blocks").fetchone() or (-1,)
    return int(height)


def await_height(database: psycopg.Connection, height: int, goes_on: Callable[[], bool]) -> None:
    wait_until(lambda: height_of(database) >= height or not goes_on(), PATIENCE_S, f"block {height} in the index")
    assert goes_on(), "the indexer has ended"


def test_the_page_works_as_it_stands(node: NodeProcess, server: PostgreSQL, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, node.url, server.environment)
    install, create, (start, _), *payments, received, invoice, (how_far, shown_height) = PAGE.steps()
    assert install.line.split()[-1].strip("'") in (ROOT / "requirements" / "dev.in").read_text()
    assert start == ".venv/bin/python indexer.py"
    terminal.run(create.line)
    with Indexer(terminal, "chain").running() as goes_on, server.connect("chain") as database:
        for line, _ in payments:
            terminal.run(line)
        await_height(database, int(shown_height), goes_on)
        for line, shown in (received, invoice):
            assert terminal.run(line) == shown
        assert terminal.run(how_far) == shown_height
        [query] = PAGE.code("sql")
        assert sum(coins for _, coins, _ in database.execute(query.encode())) == 9.5


class Payer:
    def __init__(self, node: Client) -> None:
        self._node = node
        self._wallet = node.wallet(Account.dev(0))
        self._rng = random.Random(SEED)
        self.stop = threading.Event()

    def pay(self) -> None:
        """Some transfers, until all are confirmed."""
        payments = [
            (self._any_address(), 2 ** self._rng.randrange(64), self._rng.choice((None, "invoice 4711", "=1+1; Ω")))
            for _ in range(PAYMENTS_AT_ONCE)
        ]
        for sent in self._wallet.send_all(payments):
            assert isinstance(sent, str), sent
            self._node.wait(sent, timeout_s=PATIENCE_S)
        self._node.wait(self._wallet.send(self._any_address(), 1, data=b"\x00\xff"), timeout_s=PATIENCE_S)

    def pay_on(self) -> None:
        while not self.stop.is_set():
            self.pay()

    def _any_address(self) -> str:
        return Account.dev(self._rng.randrange(1, 10)).address


def test_the_index_is_the_chain_after_kills_and_reverts(node: NodeProcess, server: PostgreSQL, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, node.url, server.environment)
    terminal.run("createdb killed")
    indexer = Indexer(terminal, "killed")
    with Client(node.url, timeout_s=PATIENCE_S) as client, server.connect("killed") as database:
        kill_under_load(indexer, Payer(client))
        revert_while_it_runs(node, indexer, database, client)
        revert_while_it_is_down(node, indexer, database, client)
        assert stored(database) == on_chain(client), f"INDEX_SEED={SEED}"


def kill_under_load(indexer: Indexer, payer: Payer) -> None:
    rng = random.Random(SEED)
    with ThreadPoolExecutor(1) as others:
        paying = others.submit(payer.pay_on)
        try:
            for _ in range(KILLS):
                indexer.run_doomed(rng.randrange(1, 20))
        finally:
            payer.stop.set()
            paying.result(PATIENCE_S)


def revert_while_it_runs(node: NodeProcess, indexer: Indexer, database: psycopg.Connection, client: Client) -> None:
    with indexer.running() as goes_on:
        snapshot = dev_call(node, "evm_snapshot")
        await_height(database, pay(client), goes_on)
        assert dev_call(node, "evm_revert", snapshot) is True
        pay(client)
        await_chain(database, client, goes_on)


def revert_while_it_is_down(node: NodeProcess, indexer: Indexer, database: psycopg.Connection, client: Client) -> None:
    with indexer.running() as goes_on:
        snapshot = dev_call(node, "evm_snapshot")
        await_height(database, pay(client), goes_on)
    assert dev_call(node, "evm_revert", snapshot) is True
    with indexer.running() as goes_on:
        pay(client)
        await_chain(database, client, goes_on)


def pay(client: Client) -> int:
    """Some transfers. Returns the height of the chain with them."""
    Payer(client).pay()
    return client.chain().head.block_height


def await_chain(database: psycopg.Connection, client: Client, goes_on: Callable[[], bool]) -> None:
    """Return once the index ends with the newest block of the chain."""
    head = client.chain().head

    def is_there() -> bool:
        found = database.execute("SELECT hash FROM blocks ORDER BY height DESC LIMIT 1").fetchone()
        return found == (head.hash,)

    wait_until(lambda: is_there() or not goes_on(), PATIENCE_S, f"{head} in the index")
    assert goes_on(), "the indexer has ended"


def dev_call(node: NodeProcess, method: str, *params: object) -> object:
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return httpx.post(node.url + "/rpc", json=call, timeout=PATIENCE_S).json()["result"]


def stored(database: psycopg.Connection) -> list[tuple[object, ...]]:
    blocks = database.execute("SELECT height, hash, extract(epoch FROM mined_at) FROM blocks ORDER BY height")
    transfers = database.execute("SELECT * FROM transfers ORDER BY height, position")
    return [*blocks, *transfers]


def on_chain(client: Client) -> list[tuple[object, ...]]:
    blocks = [client.block(height) for height in range(client.chain().head.block_height + 1)]
    transfers = [client.transaction(tx_hash) for block in blocks for tx_hash in block.transactions]
    confirmed = [tx for tx in transfers if isinstance(tx, ConfirmedTransaction)]
    assert len(confirmed) == len(transfers) > 0
    return [
        *((block.block_height, block.hash, block.timestamp) for block in blocks),
        *(
            (tx.tx_hash, tx.block_height, tx.transaction_index, tx.sender, tx.to, tx.value, tx.fee, tx.reference)
            + (None if tx.data is None else bytes.fromhex(tx.data.removeprefix("0x")),)
            for tx in confirmed
        ),
    ]
