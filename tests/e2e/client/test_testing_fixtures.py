"""The fixtures of cairn.testing in pytest runs that go wrong or run in parallel: whatever a test does, no other test
and no other program meets it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.descendants import descendants
from tests.support.node_process import clean_environment, is_alive, wait_until
from tests.support.pace import PATIENCE_S, Pace

STOP_LIMIT_S = 5
CONFTEST = 'pytest_plugins = ["cairn.testing"]\n'
INTERRUPTED = 2
"""Exit code of a pytest that Ctrl-C ended."""


class Suite:
    """The tests of somebody's app, in a directory of their own."""

    def __init__(self, directory: Path, **files: str) -> None:
        self.directory = directory
        self.temporary = directory / "temporary"
        self.temporary.mkdir()
        for name, program in {"conftest": CONFTEST, **files}.items():
            (directory / f"{name}.py").write_text(program)

    @property
    def printed(self) -> str:
        return (self.directory / "printed").read_text()

    @contextmanager
    def running(self, options: Sequence[str] = ()) -> "Iterator[subprocess.Popen[bytes]]":
        """Run pytest as a shell does, in a process group of its own."""
        with (self.directory / "printed").open("wb") as printed:
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
                cwd=self.directory,
                env=clean_environment({"TMPDIR": str(self.temporary)}),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def outcomes(self, options: Sequence[str] = ()) -> str:
        """The last line that pytest prints, without the time."""
        with self.running(options) as process:
            process.wait(PATIENCE_S)
        return re.sub(r" in [\d.]+s.*", "", self.printed.splitlines()[-1])


# How blocks are made.

ON_REQUEST = """
import pytest


@pytest.fixture(scope="module", autouse=True)
def blocks_on_request(cairn_node):
    cairn_node.rpc("evm_setAutomine", False)


def test_one_that_switches_automine_on(cairn_chain):
    cairn_chain.rpc("evm_setAutomine", True)


def test_the_next_finds_what_was_chosen_for_the_module(cairn_chain):
    assert cairn_chain.rpc("cairn_getMiningMode") == {"automine": None, "interval": None}
"""

SWITCHES = f"""
def test_one_that_switches_automine_off(cairn_chain):
    cairn_chain.rpc("evm_setAutomine", False)


def test_the_next_finds_it_on(cairn_chain, cairn_client):
    customer = cairn_client.wallet(cairn_chain.accounts[0])
    paid = customer.send(cairn_chain.accounts[1].address, 1)
    assert cairn_client.wait(paid, timeout_s={PATIENCE_S}).block_height == 1
    assert cairn_chain.rpc("cairn_getMiningMode") == {{"automine": 0.1, "interval": None}}


def test_one_that_fails_while_blocks_come_at_an_interval(cairn_chain):
    cairn_chain.rpc("evm_setIntervalMining", 1)
    cairn_chain.mine(3)
    raise RuntimeError("in the middle")


def test_the_next_finds_no_block(cairn_chain, cairn_client):
    assert cairn_client.chain().head.block_height == 0
    assert cairn_chain.rpc("cairn_getMiningMode") == {{"automine": 0.1, "interval": None}}
"""

WITH_BLOCK_TIME = f"""
import pytest

{CONFTEST}

@pytest.fixture(scope="session")
def cairn_options():
    return ["--block-time", "0.1"]
"""


def test_each_test_finds_blocks_made_as_the_first_one_did(tmp_path: Path) -> None:
    suite = Suite(tmp_path, conftest=WITH_BLOCK_TIME, test_switches=SWITCHES, test_then_on_request=ON_REQUEST)
    assert suite.outcomes() == "1 failed, 5 passed", suite.printed
    assert "RuntimeError: in the middle" in suite.printed


# Event loops, and several workers.

SESSION_LOOP = f"""
import pytest

from cairn.client import AsyncClient

{CONFTEST}

@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="session")
async def shared_client(anyio_backend, cairn_node):
    async with AsyncClient(cairn_node.url, timeout_s={PATIENCE_S}) as client:
        yield client
"""

ASYNC_TESTS = f"""
import pytest


@pytest.mark.anyio
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_a_payment_by_a_client_that_outlives_the_tests(cairn_node, cairn_chain, shared_client, number):
    wallet = shared_client.wallet(cairn_chain.accounts[0])
    paid = await wallet.send(cairn_chain.accounts[1].address, number)
    assert (await shared_client.wait(paid, timeout_s={PATIENCE_S})).block_height == 1
    cairn_node.mine()
    assert (await shared_client.chain()).head.block_height == 2
"""


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_client_in_the_event_loop_of_the_session_serves_every_test(tmp_path: Path, options: Sequence[str]) -> None:
    suite = Suite(tmp_path, conftest=SESSION_LOOP, test_async=ASYNC_TESTS)
    assert suite.outcomes(options) == "3 passed", suite.printed


# A pytest that does not reach its end.

HANGING = """
import json
import os
import time
from pathlib import Path

import pytest

from cairn.testing import running_node


@pytest.fixture
def last_block(cairn_chain):
    yield
    time.sleep(1)
    cairn_chain.mine()


def test_that_hangs(cairn_chain, last_block):
    with running_node() as other:
        forked = os.fork()
        if forked == 0:
            # A program that the tests leave behind.
            os.setsid()
            Path("left").touch()
            time.sleep(3600)
            os._exit(0)
        # What runs at the end of a fork swallows a KeyboardInterrupt, and one that comes just before a long sleep waits
        # for its end: nobody may send it earlier, and the sleeps are short.
        while not Path("left").exists():
            time.sleep(0.01)
        Path("draft").write_text(json.dumps([forked, cairn_chain.url, other.url]))
        Path("draft").rename("hangs")
        while True:
            time.sleep(0.1)
"""


class Hanging(NamedTuple):
    """A pytest in the middle of a test that runs two nodes."""

    process: "subprocess.Popen[bytes]"
    below: list[int]
    """Every process that must end with pytest."""
    urls: list[str]

    def wait_ended(self) -> None:
        wait_until(lambda: not any(map(is_alive, self.below)), PATIENCE_S, "workers and nodes to end")


@contextmanager
def hanging(suite: Suite, options: Sequence[str] = ()) -> Iterator[Hanging]:
    hangs = suite.directory / "hangs"
    with suite.running(options) as process:
        wait_until(lambda: hangs.exists() or process.poll() is not None, PATIENCE_S, "the test to hang")
        assert hangs.exists(), suite.printed
        forked, *urls = json.loads(hangs.read_text())
        below = [pid for pid in descendants(process.pid) if pid != forked]
        try:
            yield Hanging(process, below, urls)
        except BaseException:
            for pid in filter(is_alive, below):
                os.kill(pid, signal.SIGKILL)
            raise
        finally:
            os.kill(forked, signal.SIGKILL)


def assert_nothing_is_left(suite: Suite) -> None:
    assert list(suite.temporary.glob("cairn-*")) == []


def test_nodes_end_with_a_pytest_that_is_killed(tmp_path: Path) -> None:
    suite = Suite(tmp_path, test_app=HANGING)
    with hanging(suite) as running, Pace() as pace:
        began = time.monotonic()
        running.process.kill()
        running.wait_ended()
        assert time.monotonic() - began < pace.stretch(STOP_LIMIT_S)
        assert_nothing_is_left(suite)


def test_nodes_end_with_the_workers_of_an_xdist_that_is_killed(tmp_path: Path) -> None:
    suite = Suite(tmp_path, test_app=HANGING)
    with hanging(suite, ("-n", "1")) as running:
        running.process.kill()
        running.wait_ended()
        assert_nothing_is_left(suite)


def test_ctrl_c_leaves_the_node_to_those_who_clean_up(tmp_path: Path) -> None:
    suite = Suite(tmp_path, test_app=HANGING)
    with hanging(suite) as running:
        # A terminal sends it to the whole foreground process group.
        os.killpg(running.process.pid, signal.SIGINT)
        assert running.process.wait(PATIENCE_S) == INTERRUPTED, suite.printed
        running.wait_ended()
        assert_nothing_is_left(suite)
