"""Followers in processes of their own, while the primary commits, flushes, compacts, and is opened anew."""

import random
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from cairn.store import rocks
from cairn.store.chain import ChainStore
from tests.support.blocks import extend, next_transfers, store_genesis

SECONDS = 4.0
MAX_SECONDS = 60.0
"""On a machine that is too busy to get far within the usual time."""
BLOCKS = 50
TABLES = 50
FOLLOWERS = 2


def follow(directory: Path, scratch: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.follow_process", str(directory), str(scratch)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def is_far(chain: ChainStore, blocks: int) -> bool:
    """Whether there were blocks enough, and files written out and merged, for anything to go wrong."""
    newest = max((int(table.stem) for table in (chain.directory / "chain").glob("*.sst")), default=0)
    return chain.visible >= blocks and newest >= TABLES


def end(follower: "subprocess.Popen[str]") -> None:
    if follower.poll() is None:
        follower.kill()
        follower.communicate()


@pytest.mark.parametrize("retained", [None, 150])
def test_a_follower_never_shows_half_a_block_or_a_hole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, retained: int | None
) -> None:
    # So small that every few blocks a log is written out and deleted, and files are merged and deleted.
    monkeypatch.setattr(rocks, "WRITE_BUFFER_BYTES", 64 << 10)
    directory = tmp_path / "data"
    choose = random.Random(1)
    chain = ChainStore.open(directory, store_genesis())
    followers = [follow(directory, tmp_path / f"scratch-{number}") for number in range(FOLLOWERS)]
    for follower in followers:
        request.addfinalizer(partial(end, follower))
    blocks = BLOCKS + (retained or 0)
    began = time.monotonic()
    while (passed_s := time.monotonic() - began) < SECONDS or (passed_s < MAX_SECONDS and not is_far(chain, blocks)):
        extend(chain, next_transfers(chain, choose.choice([0, 1, 5, 40, 120])))
        if retained is not None and chain.visible % 3 == 0:
            chain.prune(max(chain.base, chain.visible - retained), lambda: None)
        if choose.random() < 0.01:
            chain.close()
            chain = ChainStore.open(directory, store_genesis())
        # Followers share the machine with it: without a rest they would hardly run at all.
        time.sleep(0.002)
    for follower in followers:
        rounds, visible = follower.communicate("", timeout=60)[0].split()
        assert follower.returncode == 0
        assert int(visible) == chain.visible
        assert int(rounds) >= 5
    assert is_far(chain, blocks)
    chain.close()
