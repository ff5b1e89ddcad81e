"""How long a new node takes to join a network by state sync, by the number of accounts that the network has."""

import itertools
import os
import shutil
import time
from hashlib import shake_128
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.machine import Memory, cpu_seconds, memory
from cairn.cli.network.join import state_sync_settings
from cairn.domain.types import Address
from tests.support.network import Network, NetworkNode
from tests.support.ports import free_ports
from tests.support.wallet import dev_account, new_account, sign_transfer

INTERVAL = 5
"""Blocks from one snapshot to the next."""


class Join(NamedTuple):
    accounts: int
    snapshot_bytes: int
    begun_s: float
    """Until the first node, which makes all accounts, is ready."""
    snapshot_s: float
    """From the block that is due for a snapshot until that is on disk."""
    joined_s: float
    """From the command until the new node is ready: it has the state, and the blocks since."""
    cpu_s: float
    memory: Memory
    load: float
    """The machine's load average at the end."""

    def row(self) -> str:
        return (
            f"| {self.accounts:,} | {self.snapshot_bytes / 1e6:,.0f} MB | {self.begun_s:.1f} s "
            f"| {self.snapshot_s:.1f} s | {self.joined_s:.1f} s | {self.cpu_s:.1f} s | {self.memory.pss_mb:.0f} MB "
            f"| {self.load:.1f} |"
        )


def measure_join(scratch: Path, accounts: int) -> Join:
    """One validator with so many accounts in its genesis; then a full node that has only genesis."""
    try:
        with Network(scratch, validators=1, args=["--full-nodes=1"], linked=False) as network:
            giver, joiner = network.nodes
            network.genesis = msgspec.structs.replace(
                network.genesis, alloc=network.genesis.alloc | dict.fromkeys(_crowd(accounts), 1)
            )
            [rpc_port] = free_ports(1)
            # Blocks come with transactions only.
            giver.configure(
                {"rpc.laddr": f"tcp://127.0.0.1:{rpc_port}", "consensus.create_empty_blocks_interval": "1h"}
            )
            giver.set(snapshot_interval=INTERVAL)
            began = time.monotonic()
            giver.start()
            begun_s = time.monotonic() - began
            snapshot, snapshot_s = _await_snapshot(giver)
            joiner.configure(state_sync_settings([f"127.0.0.1:{rpc_port}"], time.time()))
            began = time.monotonic()
            joiner.start()
            joined_s = time.monotonic() - began
            joiner.await_height(giver.height())
            assert joiner.public.get("/block/1").status_code == 404, "it has fetched all blocks"
            assert joiner.process is not None
            pids = joiner.process.pids()
            size = sum(path.stat().st_size for path in snapshot.iterdir())
            used_s, held = cpu_seconds(pids), memory(pids)
            return Join(accounts, size, begun_s, snapshot_s, joined_s, used_s, held, os.getloadavg()[0])
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _crowd(count: int) -> list[Address]:
    spread = shake_128(b"crowd").digest(20 * count)
    return [Address(spread[at : at + 20]) for at in range(0, len(spread), 20)]


def _await_snapshot(giver: NetworkNode) -> tuple[Path, float]:
    """Make blocks until there is a snapshot, and two more, without which a light client cannot vouch for it."""
    shelf, to = giver.home / "data" / "snapshots", new_account().address
    due_at: float | None = None
    taken: tuple[Path, float] | None = None
    for nonce in itertools.count():
        giver.public.await_confirmed(giver.public.submit(sign_transfer(dev_account(0), to, 1_000, nonce)))
        if due_at is None and giver.height() >= INTERVAL:
            due_at = time.monotonic()
        while due_at is not None and taken is None:
            if found := [path for path in shelf.glob("*") if path.name.isdigit()]:
                taken = found[0], time.monotonic() - due_at
            time.sleep(0.05)
        if taken is not None and giver.height() >= int(taken[0].name) + 2:
            break
    assert taken is not None
    return taken
