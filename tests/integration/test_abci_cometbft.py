"""The ABCI server under the real CometBFT: a chain of one validator whose processes get killed."""

import base64
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.abci_grammar import check_run, read_runs
from tests.support.cometbft import Away, CometBFT, Rejected
from tests.support.counter_app import GENESIS_HASH, MALFORMED, State
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S
from tests.support.scratch import scratch_parent

SEED = int(os.environ.get("CRASH_SEED", random.randrange(2**32)))
VICTIMS = [("app",), ("comet",), ("app", "comet"), ("comet", "app")]
MOST_BETWEEN_KILLS = 100
"""Transactions."""
ROOT = Path(__file__).parents[2]


class Chain:
    """The counter application and its CometBFT, each its own process."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = directory / "app.log"
        self.socket = directory / "app.sock"
        self.comet = CometBFT(directory, self.socket)
        self.app: subprocess.Popen[bytes] | None = None
        self.comet.init()

    def start(self) -> None:
        """Start what is not running."""
        if self.app is None or self.app.poll() is not None:
            self._end_orphan()
            self._start_app()
        if not self.comet.running:
            self.comet.start()
        wait_until(self._answers, PATIENCE_S, "CometBFT to answer")

    def _end_orphan(self) -> None:
        """A CometBFT that has lost its application exits, except when that happened as it was about to call it: the
        call then waits for ever, and so does the exit."""
        with suppress(TimeoutError):
            wait_until(lambda: not self.comet.running, 2, "CometBFT to exit")
        self.comet.end(signal.SIGKILL)

    def _start_app(self) -> None:
        self.socket.unlink(missing_ok=True)
        command = [sys.executable, "-m", "tests.support.counter_app", str(self.socket), str(self.directory)]
        with self.log.open("ab") as log:
            self.app = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=log)
        wait_until(self.socket.exists, PATIENCE_S, "the application to listen")

    def _answers(self) -> bool:
        with suppress(Away):
            return self.comet.height() >= 1
        return False

    def kill(self, *victims: str) -> None:
        """Without a warning, in the order given."""
        for victim in victims:
            if victim == "comet":
                self.comet.end(signal.SIGKILL)
            elif self.app is not None:
                self.app.kill()
                self.app.wait(PATIENCE_S)

    def submit(self, tx: bytes) -> Any:
        return self.comet.call("broadcast_tx_sync", tx=base64.b64encode(tx).decode())

    def state(self) -> State:
        """What the application has on disk."""
        return msgspec.json.decode((self.directory / "state.json").read_bytes(), type=State)

    def block(self, height: int) -> Any:
        return self.comet.call("block", height=str(height))["block"]

    def check(self, submitted: set[bytes]) -> None:
        """Each transaction is in one block, and every header carries the hash of what the blocks before it say."""
        expected, seen = State(), set[bytes]()
        top = self.comet.height()
        for height in range(1, top + 1):
            block = self.block(height)
            assert bytes.fromhex(block["header"]["app_hash"]) == expected.app_hash, f"at {height}"
            txs = [base64.b64decode(tx) for tx in block["data"]["txs"] or ()]
            assert not seen.intersection(txs)
            seen.update(txs)
            expected, results = expected.applied(height, txs)
            assert all(result.code == 0 for result in results)
        assert seen == submitted
        # The empty block that proves the last app hash may be in the making, or have been made meanwhile.
        state = self.state()
        assert abs(state.height - top) <= 1
        assert state == msgspec.structs.replace(expected, height=state.height)

    def check_trace(self, starts: int) -> None:
        runs = read_runs(self.log.read_text())
        assert len(runs) == starts
        for run in runs:
            check_run(run)


@pytest.fixture
def chain(cometbft_tools: Path) -> Iterator[Chain]:
    # Not pytest's own directory: its path is too long for a unix socket.
    with tempfile.TemporaryDirectory(prefix="cairn-", dir=scratch_parent()) as directory:
        made = Chain(Path(directory))
        try:
            yield made
        finally:
            made.kill("comet", "app")


def settled(chain: Chain, submitted: set[bytes]) -> bool:
    """Whether the chain holds everything; hands in again what a killed mempool forgot."""
    missing = submitted - chain.state().seen
    for tx in missing:
        with suppress(Rejected):  # It waits in the mempool already.
            chain.submit(tx)
    return not missing


def test_transactions_are_committed_and_bad_ones_refused(chain: Chain) -> None:
    chain.start()
    txs = {b"%d:first" % number for number in range(50)}
    for tx in txs:
        assert chain.submit(tx)["code"] == 0
    assert chain.submit(b"no number:")["code"] == MALFORMED
    wait_until(lambda: settled(chain, txs), PATIENCE_S, "every transaction to be committed")
    chain.check(txs)
    assert base64.b64decode(chain.comet.call("abci_query", path="", data="")["response"]["value"]) == b"1225"
    # A block without transactions leaves the app hash as it is, so CometBFT stops making them.
    still = chain.comet.height()
    time.sleep(1)
    assert chain.comet.height() <= still + 1
    assert chain.comet.call("abci_info")["response"]["last_block_height"] == str(chain.state().height)
    chain.check_trace(starts=1)
    calls = {call.name for call in read_runs(chain.log.read_text())[0]}
    assert {"Info", "InitChain", "PrepareProposal", "ProcessProposal", "FinalizeBlock", "Commit"} <= calls


def test_the_first_header_carries_the_hash_of_init_chain(chain: Chain) -> None:
    chain.start()
    assert bytes.fromhex(chain.block(1)["header"]["app_hash"]) == GENESIS_HASH


def test_killed_at_any_moment_the_chain_goes_on_with_the_same_hashes(chain: Chain) -> None:
    print(f"CRASH_SEED={SEED}")
    dice = random.Random(SEED)
    submitted: set[bytes] = set()
    chain.start()
    for crash, victims in enumerate(dice.sample(VICTIMS, len(VICTIMS))):
        for _ in range(dice.randrange(1, MOST_BETWEEN_KILLS)):
            tx = b"%d:%d" % (dice.randrange(1000), len(submitted))
            assert chain.submit(tx)["code"] == 0
            submitted.add(tx)
        print(f"crash {crash}: {victims} after {len(submitted)} transactions")
        chain.kill(*victims)
        chain.start()
    wait_until(lambda: settled(chain, submitted), PATIENCE_S, "every transaction to be committed")
    chain.check(submitted)
    chain.check_trace(starts=len(VICTIMS) + 1)
