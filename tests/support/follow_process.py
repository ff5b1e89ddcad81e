"""A follower in a process of its own: `python -m tests.support.follow_process DIRECTORY SCRATCH`.

It catches up and looks at everything again and again, until its standard input ends, and writes a dot each time; then
it says how far it came.
"""

import random
import select
import sys
import time
from pathlib import Path

from cairn.domain.types import TxHash
from cairn.store.follower import FollowerStore
from tests.support.blocks import SENDERS, history_of
from tests.support.transfers import address


def check_blocks(follower: FollowerStore, heights: set[int]) -> None:
    for height in heights:
        found = follower.find_header(height)
        assert found is not None, f"no header {height} below {follower.visible}"
        block_hash, header = found
        hashes = follower.tx_hashes(height)
        records = list(follower.records(height))
        assert len(records) == header.tx_count
        assert b"".join(record[:32] for record in records) == hashes
        assert follower.find_height(block_hash) == height
        for position, record in enumerate(records):
            assert follower.find_location(TxHash(record[:32])) == (height, position)
            assert follower.find_record(height, position) == record


def check_account(follower: FollowerStore, number: int, recipient: int) -> None:
    """Every transfer is worth one and goes to one recipient, so histories and accounts must tell the same story."""
    sent = history_of(follower, address(number), None, sys.maxsize)
    received = history_of(follower, address(recipient), None, sys.maxsize)
    nonce, balance = follower.account(address(number)).nonce, follower.account(address(recipient)).balance
    if follower.base:
        assert (nonce, balance) >= (len(sent), len(received))
        assert all(height >= follower.base for height, _ in (*sent, *received))
    else:
        assert (nonce, balance) == (len(sent), len(received))


def run(directory: Path, scratch: Path) -> None:
    choose = random.Random(str(scratch))
    follower = FollowerStore.open(directory, scratch)
    while not select.select([sys.stdin], [], [], 0)[0]:
        before = follower.visible
        visible = follower.catch_up()
        assert visible >= before
        base = follower.base
        some = {choose.randrange(base, visible + 1) for _ in range(4)}
        check_blocks(follower, {visible, max(before, base), base, *some})
        assert base == 0 or follower.find_header(base - 1) is None
        check_account(follower, choose.choice(SENDERS), 999)
        print(end=".", flush=True)
        time.sleep(choose.random() * 0.005)
    print(follower.catch_up(), flush=True)
    follower.close()


if __name__ == "__main__":
    run(Path(sys.argv[1]), Path(sys.argv[2]))
