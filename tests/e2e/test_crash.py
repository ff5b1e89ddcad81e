"""Kill the whole node at random moments under load, again and again: nothing that it accepted is lost or doubled."""

import asyncio
import json
import os
import random
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from cairn.domain.genesis import DEV_KEYS, dev_genesis
from cairn.domain.txs import sign_draft
from cairn.domain.types import TRANSFER_GAS, Address, Draft
from tests.support.node_process import NodeProcess
from tests.support.public import PublicNode
from tests.support.replay import raw, replay_chain

KILLS = int(os.environ.get("CRASH_KILLS", "20"))
BURST = 6
"""Consecutive nonces of one sender that are in flight at once: they overtake each other on the way."""
MOST_ANSWERS = 150
"""In one life: more than one block's worth."""
LONGEST_SILENCE_S = 0.2
"""Up to two blocks, so that a life may also end when nothing happens."""
REMEMBERED = 40
"""Of the transactions that were shown, so many of the newest are looked at after each crash; all of them at the end."""
FLAGS = ("--block-time", "0.1", "--workers")
"""And how many: one, or two, through which transfers of one sender overtake each other."""


class Ledger:
    """What the clients were told, which is what the node must keep, whatever happens to it."""

    def __init__(self) -> None:
        self.accepted: set[str] = set()
        """Answered with 200."""
        self.confirmed: dict[str, dict[str, Any]] = {}
        """Seen confirmed, as it was shown then."""
        self.block_hashes: dict[int, str] = {}
        self.in_blocks: set[str] = set()
        """What the blocks hold that were seen: their hashes cover it."""


LOST = (OSError, EOFError)
"""What a client sees of a node that is gone."""


class Connection:
    """Posts one transfer after the other; httpx would take more of the processor than the node."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, url: str) -> "Connection":
        host, _, port = url.removeprefix("http://").partition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    async def post(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """The status and what was answered. Raises what is in `LOST`."""
        content = json.dumps(body).encode()
        head = (
            f"POST /tx HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(content)}"
        )
        self._writer.write(head.encode() + b"\r\n\r\n" + content)
        received = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        size = int(received.partition(b"content-length:")[2].split()[0])
        return int(received.split()[1]), json.loads(await self._reader.readexactly(size))

    def close(self) -> None:
        self._writer.transport.abort()


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

    async def run(self, url: str, ledger: Ledger) -> None:
        """Submit bursts until the node is gone."""
        connections: list[Connection] = []
        try:
            with suppress(*LOST):
                for _ in range(BURST):
                    connections.append(await Connection.open(url))
                await self._submit(connections, ledger)
        finally:
            for connection in connections:
                connection.close()

    async def _submit(self, connections: list[Connection], ledger: Ledger) -> None:
        transfers = self._transfers()
        while True:
            burst = [next(transfers) for _ in connections]
            answers = await asyncio.gather(
                *(connection.post(body) for connection, (_, body) in zip(connections, burst, strict=True)),
                return_exceptions=True,
            )
            lost = False
            for (tx_hash, body), answer in zip(burst, answers, strict=True):
                if isinstance(answer, LOST):
                    self.unanswered.append((tx_hash, body))
                    lost = True
                elif isinstance(answer, BaseException):
                    raise answer
                else:
                    status, told = answer
                    assert status == 200, told
                    assert told["txHash"] == tx_hash
                    ledger.accepted.add(tx_hash)
            if lost:
                # In nonce order, or a later one could be too far ahead of the chain when it is sent again.
                self.unanswered = deque(sorted(self.unanswered, key=lambda transfer: int(transfer[1]["nonce"])))
                return


async def load_until_killed(node: NodeProcess, senders: list[Sender], ledger: Ledger, seed: random.Random) -> None:
    """A life is as long as its answers take: a slow machine makes it longer, not emptier."""
    enough = len(ledger.accepted) + seed.randrange(MOST_ANSWERS)
    async with asyncio.TaskGroup() as group:
        for sender in senders:
            group.create_task(sender.run(node.url, ledger))
        while len(ledger.accepted) < enough and node.is_running:
            await asyncio.sleep(0.005)
        await asyncio.sleep(seed.uniform(0, LONGEST_SILENCE_S))
        node.kill_group()


def check_kept(node: PublicNode, ledger: Ledger, remembered: int) -> None:
    """Nothing that was final has changed, and everything accepted is there."""
    shown_hashes = read_hashes(node)
    for height, block_hash in ledger.block_hashes.items():
        assert shown_hashes[height] == block_hash, f"block {height} changed in a crash"
    for tx_hash, shown in list(ledger.confirmed.items())[-remembered:]:
        assert node.read(f"/tx/{tx_hash}") == shown, f"{tx_hash} changed in a crash"
    note_final(node, ledger)
    for tx_hash in ledger.accepted - ledger.in_blocks:
        answer = node.get(f"/tx/{tx_hash}")
        assert answer.status_code == 200, f"{tx_hash} was accepted and is lost: {answer.text}"


def read_hashes(node: PublicNode) -> dict[int, str]:
    """Of every block."""
    hashes: dict[int, str] = {}
    page = node.get("/blocks", limit=1_000)
    while True:
        hashes |= {block["blockHeight"]: block["hash"] for block in page.json()}
        if "next" not in page.links:
            return hashes
        page = node.http.get(page.links["next"]["url"])


def note_final(node: PublicNode, ledger: Ledger) -> None:
    """Remember every block hash, and some of the transactions, as they are shown now."""
    head = node.read("/chain")["head"]["blockHeight"]
    for height in range(len(ledger.block_hashes), head + 1):
        block = node.read(f"/block/{height}")
        ledger.block_hashes[height] = block["hash"]
        ledger.in_blocks.update(block["transactions"])
        for tx_hash in block["transactions"][:3] + block["transactions"][-2:]:
            ledger.confirmed[tx_hash] = node.read(f"/tx/{tx_hash}")


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
            with NodeProcess.start(("dev", "--port", "0", "--data-dir", str(data_dir), *FLAGS, "1")) as starting:
                time.sleep(seed.uniform(0, 1))
                starting.kill_group()
        with NodeProcess.start_dev(*FLAGS, str(1 + number % 2), data_dir=data_dir) as process:
            node = PublicNode(process.url)
            check_kept(node, ledger, REMEMBERED)
            node.close()
            asyncio.run(load_until_killed(process, senders, ledger, seed))
    with NodeProcess.start_dev(*FLAGS, "2", data_dir=data_dir) as process:
        node = PublicNode(process.url)
        check_kept(node, ledger, len(ledger.confirmed))
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
