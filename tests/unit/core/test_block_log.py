"""Blocks in the log: each at the level debug, and one summary of each minute with any."""

import asyncio

import pytest
from structlog.testing import capture_logs

from cairn.core.block_log import SUMMARY_S, BlockLog
from cairn.domain.headers import block_hash
from cairn.domain.types import ZERO_ADDRESS, ZERO_HASH, BlockHeader, SealedBlock

pytestmark = pytest.mark.virtual_time


def empty_block(height: int) -> SealedBlock:
    root = bytes(32)
    header = BlockHeader(height, ZERO_HASH, 2, root, root, root, root, 0, ZERO_ADDRESS, 1337, 210_000_000, 0, 0)
    return SealedBlock(header, block_hash(header), ())


async def test_a_minute_of_blocks_is_one_line_and_a_quiet_minute_none() -> None:
    blocks = BlockLog(asyncio.get_running_loop())
    with capture_logs() as lines:
        for height in (1, 2, 3):
            blocks.on_block(height, empty_block(height))
        blocks.on_block(3, None)
        await asyncio.sleep(3 * SUMMARY_S)
        blocks.close()
    assert [line["log_level"] for line in lines] == ["debug"] * 3 + ["info"]
    assert (lines[-1]["blocks"], lines[-1]["height"]) == (3, 3)


async def test_what_is_left_is_told_at_the_end() -> None:
    blocks = BlockLog(asyncio.get_running_loop())
    with capture_logs() as lines:
        blocks.on_block(1, empty_block(1))
        blocks.close()
        blocks.close()
    assert [line["event"] for line in lines] == ["block", "blocks of the last minute"]
