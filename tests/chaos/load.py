"""Transfers under load: each is sent again until it is answered, and the ledger notes the answers."""

import asyncio
import json
import random
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from cairn.domain.genesis import DEV_KEYS
from cairn.domain.transactions import sign_draft
from cairn.domain.types import ACCESS_LIST, DYNAMIC_FEE, LEGACY, Address, Draft, intrinsic_gas
from tests.chaos.crowd import Crowd
from tests.chaos.ledger import GAS_PRICE, Ledger, Transfer
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S

BURST = 6
"""Consecutive nonces of one sender that are in flight at once: they overtake each other on the way."""
REPLACED_EVERY, REPLACED = 10, 4
"""Of so many transfers of a sender, that one may be replaced."""
OVERTAKEN = ("REPLACEMENT_UNDERPRICED", "NONCE_TOO_LOW")
"""How a transfer is refused when the one that replaces it came first."""
RECIPIENTS = 40
ANSWER_S = 60.0
"""An answer that takes longer is taken for lost, and the transfer is sent again."""
RECONNECT_S = 0.1
LOST = (OSError, EOFError)
"""What a client sees of a node that is gone."""


def hex_of(content: bytes) -> str:
    return "0x" + content.hex()


def dev_ledger() -> Ledger:
    return Ledger([hex_of(address) for address, _ in DEV_KEYS])


def make_senders(seed_number: int, ledger: Ledger) -> "list[Sender]":
    """One for each dev account."""
    dice = random.Random(seed_number)
    recipients = [Address(dice.randbytes(20)) for _ in range(RECIPIENTS)] + [address for address, _ in DEV_KEYS]
    return [Sender(index, seed_number, recipients, ledger) for index in range(len(DEV_KEYS))]


class Connection:
    """Posts one transfer after the other; httpx would take more of the processor than the node."""

    def __init__(self, url: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.url = url
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, url: str) -> "Connection":
        host, _, port = url.removeprefix("http://").partition(":")
        return cls(url, *await asyncio.open_connection(host, int(port)))

    async def post(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """The status and what was answered. Raises what is in `LOST`."""
        content = json.dumps(body).encode()
        head = (
            f"POST /tx HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(content)}"
        )
        self._writer.write(head.encode() + b"\r\n\r\n" + content)
        async with asyncio.timeout(ANSWER_S):
            received = (await self._reader.readuntil(b"\r\n\r\n")).lower()
            size = int(received.partition(b"content-length:")[2].split()[0])
            return int(received.split()[1]), json.loads(await self._reader.readexactly(size))

    def close(self) -> None:
        self._writer.transport.abort()


class Sender:
    """One dev account. A transfer whose answer never came is sent again: its hash is the same."""

    def __init__(self, index: int, seed_number: int, recipients: list[Address], ledger: Ledger) -> None:
        self._address, self._key = DEV_KEYS[index]
        # Its own: how many transfers another sender gets through must not change this one's.
        self.dice = random.Random(f"{seed_number} {index}")
        self._recipients = recipients
        self._ledger = ledger
        self.nonce = 0
        self.unanswered: deque[Transfer] = deque()
        self.before_send: Callable[[Transfer], None] = lambda transfer: None
        """Gets each transfer before the node can know of it."""
        self.is_held = False
        """Then `run` ends after the burst that is under way."""
        self.not_yet: tuple[str, ...] = ()
        """Codes of refusals after which a transfer is sent again, as after 503."""

    def _transfers(self) -> Iterator[Transfer]:
        while True:
            yield self.unanswered.popleft() if self.unanswered else self._sign()

    def _sign(self) -> Transfer:
        """The next one; now and then a dearer one in place of the last."""
        replaces = self.nonce % REPLACED_EVERY == REPLACED and self.dice.random() < 0.5
        self.nonce += not replaces
        return self._sign_with(self.nonce - 1, GAS_PRICE * (2 if replaces else 1))

    def _sign_with(self, nonce: int, price: int) -> Transfer:
        kind = self.dice.choice((LEGACY, ACCESS_LIST, DYNAMIC_FEE))
        caps = (2 * price, price - GAS_PRICE) if kind == DYNAMIC_FEE else (0, 0)
        to, value = self.dice.choice(self._recipients), self.dice.randrange(10**15)
        data = self._draw_data()
        draft = Draft(self._address, to, value, intrinsic_gas(data), price, nonce, kind, *caps, data)
        tx = sign_draft(draft, self._key, 1337)
        ends = hex_of(tx.hash), hex_of(tx.sender), hex_of(tx.to)
        transfer = Transfer(*ends, tx.value, tx.nonce, hex_of(tx.signature), kind, price, data)
        self._ledger.note_signed(transfer)
        self.before_send(transfer)
        return transfer

    def _draw_data(self) -> bytes:
        """Mostly nothing; else text, zeros, or any bytes, of any length that is allowed."""
        size = self.dice.choice((0, 0, 0, 1, 12, self.dice.randrange(256), 256))
        return self.dice.choice((bytes(size), b"invoice 4711"[:size], self.dice.randbytes(size)))

    async def run(self, url: str, pause_s: float = 0.0) -> None:
        """Submit bursts until the node is gone, or this is held. What it answers with 503, as it may, is sent again."""
        connections: list[Connection] = []
        try:
            with suppress(*LOST):
                for _ in range(BURST):
                    connections.append(await Connection.open(url))
                while not self.is_held and await self._submit_burst(connections):
                    await asyncio.sleep(self.dice.uniform(0, 2 * pause_s))
        finally:
            for connection in connections:
                connection.close()

    async def send_burst(self, *urls: str) -> None:
        """One burst, and no more; through several nodes, if there are several, in turn."""
        connections: list[Connection] = []
        try:
            for number in range(BURST):
                connections.append(await Connection.open(urls[number % len(urls)]))
            await self._submit_burst(connections)
        finally:
            for connection in connections:
                connection.close()

    async def _submit_burst(self, connections: list[Connection]) -> bool:
        """Whether the node answered all of it."""
        transfers = self._transfers()
        burst = [next(transfers) for _ in connections]
        posts = (connection.post(transfer.body) for connection, transfer in zip(connections, burst, strict=True))
        try:
            answers = await asyncio.gather(*posts, return_exceptions=True)
        except asyncio.CancelledError:
            # Whoever ends the load sends these once more.
            self.unanswered.extend(burst)
            raise
        lost = False
        for connection, transfer, answer in zip(connections, burst, answers, strict=True):
            if isinstance(answer, BaseException):
                if not isinstance(answer, LOST):
                    raise answer
                self._ledger.lost += 1
                lost = True
                self.unanswered.append(transfer)
            elif not self._note(connection.url, transfer, *answer):
                self.unanswered.append(transfer)
        # In nonce order, or a later one could be too far ahead of the chain when it is sent again.
        self.unanswered = deque(sorted(self.unanswered, key=lambda transfer: transfer.nonce))
        return not lost

    def _note(self, url: str, transfer: Transfer, status: int, told: dict[str, Any]) -> bool:
        """Whether the node has accepted it, or another in its place."""
        if status == 503 or told.get("code") in self.not_yet:
            self._ledger.refused += 1
            return False
        if status != 200 and self._ledger.has_rivals(transfer) and told.get("code") in OVERTAKEN:
            self._ledger.overtaken += 1
            return True
        assert status == 200, f"{transfer.tx_hash}: {told}"
        assert told["txHash"] == transfer.tx_hash
        self._ledger.note_accepted(transfer.tx_hash, url)
        return True

    async def finish(self, url: str) -> None:
        """Send what was never answered once more, until it is. Raises `TimeoutError` when that never happens."""
        while self.unanswered:
            async with asyncio.timeout(PATIENCE_S):
                while not await self._is_accepted(url, self.unanswered[0]):
                    await asyncio.sleep(RECONNECT_S)
            self.unanswered.popleft()

    async def _is_accepted(self, url: str, transfer: Transfer) -> bool:
        try:
            connection = await Connection.open(url)
        except LOST:
            return False
        try:
            return self._note(url, transfer, *await connection.post(transfer.body))
        except LOST:
            return False
        finally:
            connection.close()


def finish_all(senders: Sequence[Sender], url: str) -> None:
    """From here on everything that was signed is accepted."""

    async def finish() -> None:
        for sender in senders:
            await sender.finish(url)

    asyncio.run(finish())


class Load(Crowd):
    """Every sender at once, through whatever happens to the node. An answer must be 200 or 503."""

    def __init__(self, senders: list[Sender], url: str, pause_s: float) -> None:
        """`pause_s` is how long a sender rests between two bursts, on average."""
        super().__init__()
        self._senders = senders
        self._url = url
        self._pause_s = pause_s
        self._sending: set[Sender] = set()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nobody sends or waits for an answer while the block runs. What was never answered is still to be sent."""
        for sender in self._senders:
            sender.is_held = True

        def is_quiet() -> bool:
            self.check()
            return not self._sending

        wait_until(is_quiet, PATIENCE_S, "all senders to rest")
        yield
        for sender in self._senders:
            sender.is_held = False

    def clients(self) -> list[Coroutine[Any, Any, None]]:
        return [self._keep_sending(sender) for sender in self._senders]

    async def _keep_sending(self, sender: Sender) -> None:
        while True:
            if not sender.is_held:
                self._sending.add(sender)
                await sender.run(self._url, self._pause_s)
                self._sending.discard(sender)
            await asyncio.sleep(RECONNECT_S)
