"""Kill the whole node at random moments under load, again and again: nothing that it accepted is lost or doubled."""

import asyncio
import os
import random
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from cairn.domain.genesis import DEV_KEYS, dev_genesis
from cairn.domain.txs import sign_draft
from cairn.domain.types import TRANSFER_GAS, Address, Draft
from tests.support.node_process import NodeProcess
from tests.support.public import PublicNode
from tests.support.replay import raw, replay_chain

KILLS = int(os.environ.get("CRASH_KILLS", "24"))
BURST = 6
"""Consecutive nonces of one sender that are in flight at once: they overtake each other on the way."""
LONGEST_LIFE_S = 0.9
FLAGS = ("--block-time", "0.1", "--workers", "2")


class Ledger:
    """What the clients were told, which is what the node must keep, whatever happens to it."""

    def __init__(self) -> None:
        self.accepted: set[str] = set()
        """Answered with 200."""
        self.confirmed: dict[str, dict[str, Any]] = {}
        """Seen confirmed, as it was shown then."""
        self.block_hashes: dict[int, str] = {}


class Sender:
    """One dev account. A transfer whose answer never came is sent again: its hash is the same."""

    def __init__(self, index: int, seed_number: int, recipients: list[Address]) -> None:
        self.address, self._key = DEV_KEYS[index]
        # Its own: how many transfers another sender gets through must not change this one's.
        self._seed = random.Random(f"{seed_number} {index}")
        self._recipients = recipients
        self._nonce = 0
        self.unanswered: deque[tuple[str, dict[str, Any]]] = deque()

    def _transfers(self) -> Iterator[tuple[str, dict[str, Any]]]:
        while True:
            if self.unanswered:
                yield self.unanswered.popleft()
                continue
            draft = Draft(
                sender=self.address,
                to=self._seed.choice(self._recipients),
                value=self._seed.randrange(10**15),
                gas=TRANSFER_GAS,
                gas_price=10**9,
                nonce=self._nonce,
            )
            self._nonce += 1
            tx = sign_draft(draft, self._key, 1337)
            yield (
                "0x" + tx.hash.hex(),
                {
                    "from": "0x" + tx.sender.hex(),
                    "to": "0x" + tx.to.hex(),
                    "value": tx.value,
                    "nonce": tx.nonce,
                    "gas": tx.gas,
                    "signature": "0x" + tx.signature.hex(),
                },
            )

    async def run(self, client: httpx.AsyncClient, ledger: Ledger) -> None:
        """Submit bursts until the node is gone."""
        transfers = self._transfers()
        while True:
            burst = [next(transfers) for _ in range(BURST)]
            answers = await asyncio.gather(
                *(client.post("/tx", json=body) for _, body in burst), return_exceptions=True
            )
            lost = False
            for (tx_hash, body), answer in zip(burst, answers, strict=True):
                if isinstance(answer, httpx.Response):
                    assert answer.status_code == 200, answer.text
                    assert answer.json()["txHash"] == tx_hash
                    ledger.accepted.add(tx_hash)
                elif isinstance(answer, httpx.TransportError):
                    self.unanswered.append((tx_hash, body))
                    lost = True
                else:
                    raise answer
            if lost:
                # In nonce order, or a later one could be too far ahead of the chain when it is sent again.
                self.unanswered = deque(sorted(self.unanswered, key=lambda transfer: int(transfer[1]["nonce"])))
                return


async def load_until_killed(node: NodeProcess, senders: list[Sender], ledger: Ledger, life_s: float) -> None:
    limits = httpx.Limits(max_connections=64)
    async with (
        httpx.AsyncClient(base_url=node.url, timeout=30, limits=limits) as client,
        asyncio.TaskGroup() as group,
    ):
        for sender in senders:
            group.create_task(sender.run(client, ledger))
        await asyncio.sleep(life_s)
        node.kill_group()


def check_kept(node: PublicNode, ledger: Ledger) -> None:
    """Everything accepted is there, and nothing that was final has changed."""
    for height, block_hash in ledger.block_hashes.items():
        assert node.read(f"/block/{height}")["hash"] == block_hash, f"block {height} changed in a crash"
    for tx_hash, shown in ledger.confirmed.items():
        assert node.read(f"/tx/{tx_hash}") == shown, f"{tx_hash} changed in a crash"
    for tx_hash in ledger.accepted - ledger.confirmed.keys():
        answer = node.get(f"/tx/{tx_hash}")
        assert answer.status_code == 200, f"{tx_hash} was accepted and is lost: {answer.text}"


def note_final(node: PublicNode, ledger: Ledger) -> None:
    """Remember every block hash, and some of the transactions, as they are shown now."""
    head = node.read("/chain")["head"]["blockHeight"]
    for height in range(len(ledger.block_hashes), head + 1):
        block = node.read(f"/block/{height}")
        ledger.block_hashes[height] = block["hash"]
        for tx_hash in block["transactions"][:3] + block["transactions"][-2:]:
            ledger.confirmed[tx_hash] = node.read(f"/tx/{tx_hash}")


@pytest.mark.timeout(600)
def test_nothing_accepted_is_lost_in_a_crash(tmp_path: Path) -> None:
    seed_number = int(os.environ.get("CRASH_SEED", random.SystemRandom().randrange(2**32)))
    print(f"CRASH_SEED={seed_number}")
    seed = random.Random(seed_number)
    recipients = [Address(seed.randbytes(20)) for _ in range(40)] + [address for address, _ in DEV_KEYS]
    senders = [Sender(index, seed_number, recipients) for index in range(len(DEV_KEYS))]
    ledger = Ledger()
    data_dir = tmp_path / "chain"
    for number in range(KILLS):
        if number % 4 == 3:
            # Also while it starts: recovery itself must survive a crash.
            with NodeProcess.start(("dev", "--port", "0", "--data-dir", str(data_dir), *FLAGS)) as starting:
                time.sleep(seed.uniform(0, 1))
                starting.kill_group()
        with NodeProcess.start_dev(*FLAGS, data_dir=data_dir) as process:
            node = PublicNode(process.url)
            check_kept(node, ledger)
            note_final(node, ledger)
            node.close()
            asyncio.run(load_until_killed(process, senders, ledger, seed.uniform(0.02, LONGEST_LIFE_S)))
    with NodeProcess.start_dev(*FLAGS, data_dir=data_dir) as process:
        node = PublicNode(process.url)
        check_kept(node, ledger)
        for sender in senders:
            for tx_hash, body in sender.unanswered:
                assert node.post(body).json()["txHash"] == tx_hash
                ledger.accepted.add(tx_hash)
        node.await_idle()
        check_final(node, ledger)
        node.close()
        assert process.stop() == 0


def check_final(node: PublicNode, ledger: Ledger) -> None:
    """All is confirmed exactly once, every hash links back to genesis, and balances are what the blocks make them."""
    genesis = dev_genesis()
    replay = replay_chain(node, genesis)
    assert replay.heights.keys() == ledger.accepted
    assert len(ledger.accepted) > 10 * KILLS, "hardly any load"
    assert sum(account.balance for account in replay.accounts.values()) == sum(genesis.alloc.values())
    for address, account in replay.accounts.items():
        shown = node.read(f"/account/0x{address.hex()}")
        assert raw(shown["address"]) == address
        assert (shown["balance"], shown["nonce"], shown["pendingNonce"]) == (
            account.balance,
            account.nonce,
            account.nonce,
        )
