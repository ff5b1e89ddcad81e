"""Followers in processes of their own, while the primary commits, flushes, compacts, and is opened anew."""

import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from cairn.store import prune, rocks
from cairn.store.chain import ChainStore
from tests.support.blocks import extend, next_transfers, store_genesis
from tests.support.pace import PATIENCE_S

BLOCKS = 100
TABLES = 30
FOLLOWERS = 2
ROUNDS = 50
REST_S = 0.002
"""Between two blocks. Followers share the machine with the primary: without a rest they would hardly run at all."""
LONG_REST_S = 0.02
"""The same once there are enough of them, and only followers are behind."""


class Follower:
    """`tests.support.follow_process`, and how often it has looked."""

    def __init__(self, directory: Path, scratch: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.follow_process", str(directory), str(scratch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        self._output = self.process.stdout.fileno()
        os.set_blocking(self._output, False)
        self._rounds = 0

    def is_done(self) -> bool:
        """Whether it has looked often enough, or failed."""
        with suppress(BlockingIOError):
            self._rounds += len(os.read(self._output, 65_536))
        return self._rounds >= ROUNDS or self.process.poll() is not None

    def finish(self) -> int:
        """How far it came."""
        os.set_blocking(self._output, True)
        output, _ = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0
        return int(output.strip(b"."))

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def is_far(chain: ChainStore, blocks: int) -> bool:
    """Whether there were blocks enough, and files written out and merged, for anything to go wrong."""
    newest = max((int(table.stem) for table in (chain.directory / "chain").glob("*.sst")), default=0)
    return chain.visible >= blocks and newest >= TABLES


@pytest.mark.parametrize("retained", [None, 150, 30])
def test_a_follower_never_shows_half_a_block_or_a_hole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, retained: int | None
) -> None:
    # So small that every few blocks a log is written out and deleted, and files are merged and deleted.
    monkeypatch.setattr(rocks, "WRITE_BUFFER_BYTES", 64 << 10)
    monkeypatch.setattr(prune, "LEAST_REMOVALS", 50)
    directory = tmp_path / "data"
    choose = random.Random(1)
    chain, merges = ChainStore.open(directory, store_genesis()), 0
    followers = [Follower(directory, tmp_path / f"scratch-{number}") for number in range(FOLLOWERS)]
    for follower in followers:
        request.addfinalizer(follower.end)
    blocks = BLOCKS + (retained or 0)
    far = False
    while not far or not all(follower.is_done() for follower in followers):
        extend(chain, next_transfers(chain, choose.choice([0, 1, 5, 40, 120])))
        if retained is not None and chain.visible % 3 == 0:
            chain.prune(max(chain.base, chain.visible - retained), lambda: None)
        if choose.random() < 0.02:
            merges += chain.compactions
            chain.close()
            chain = ChainStore.open(directory, store_genesis())
        far = far or is_far(chain, blocks)
        time.sleep(LONG_REST_S if far else REST_S)
    for follower in followers:
        assert follower.finish() == chain.visible
    if retained == 30:
        assert merges + chain.compactions > 0
    chain.close()
