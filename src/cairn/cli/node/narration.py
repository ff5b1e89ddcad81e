"""What `cairn dev` prints while it runs: a line for each block, transaction and refusal, as text or as JSON.

The core only records what happened. A thread formats and writes it, so a terminal that does not read delays no block.
When more happens than anybody can read, or than the reader takes, it is counted instead.
"""

import os
import select
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec
import typer

from cairn.cli.amounts import format_amount
from cairn.cli.screen import PatientFile, data_text, escaped, shortened
from cairn.domain.answers import queued_reason
from cairn.domain.crypto import checksum_address
from cairn.domain.references import reference_of
from cairn.domain.types import Address, BlockHash, DropReason, SealedBlock, Tx, TxHash

INTERVAL_S = 0.25
"""What happens within it is printed together."""
MOST_TXS = 20
"""Transactions printed one by one in an interval; a block that would exceed it is one line with their number."""
MOST_THINGS = 20
"""Blocks, refusals and other things printed in an interval; the others are counted."""
FLUSH_TIMEOUT_S = 0.5
"""How long a core that stops waits for the reader."""


@dataclass(frozen=True, slots=True)
class SeenBlock:
    height: int
    hash: BlockHash
    timestamp: int
    count: int
    txs: tuple[Tx, ...]
    """All of them, or none when they are too many."""


@dataclass(frozen=True, slots=True)
class SeenDrop:
    tx_hash: TxHash
    reason: DropReason


@dataclass(frozen=True, slots=True)
class SeenQueued:
    tx: Tx
    missing_nonce: int


@dataclass(frozen=True, slots=True)
class SeenRefusal:
    code: str
    reason: str
    tx: Tx | None


@dataclass(frozen=True, slots=True)
class SeenRevert:
    height: int


Small = SeenDrop | SeenQueued | SeenRefusal | SeenRevert
Seen = SeenBlock | Small
_NAMES: dict[type[Small], str] = {
    SeenDrop: "drops",
    SeenQueued: "queued",
    SeenRefusal: "refusals",
    SeenRevert: "reverts",
}
"""Of those that are only counted."""


@dataclass(slots=True)
class Interval:
    """What happened since the last lines were printed."""

    seen: list[Seen] = field(default_factory=list)
    txs: int = 0
    """How many transactions are in `seen`."""
    skipped: Counter[str] = field(default_factory=Counter)
    """How many of what there was no room for."""

    def add_block(self, block: SealedBlock) -> None:
        count = len(block.txs)
        if len(self.seen) >= MOST_THINGS:
            self.skipped.update(blocks=1, transactions=count)
            return
        txs = block.txs if self.txs + count <= MOST_TXS else ()
        self.txs += len(txs)
        self.seen.append(SeenBlock(block.header.height, block.hash, block.header.timestamp, count, txs))

    def add(self, seen: Small) -> None:
        if len(self.seen) < MOST_THINGS:
            self.seen.append(seen)
        else:
            self.skipped[_NAMES[type(seen)]] += 1


LineFormat = Callable[[Interval], Iterable[str]]


class Gate:
    """Opened once, by any process, for all that were forked after it was made."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()

    def open(self) -> None:
        os.write(self._writer, b"\0")

    def wait(self, timeout_s: float) -> bool:
        """Whether it is open."""
        # Never read: the next core must find it open too.
        return bool(select.select([self._reader], [], [], timeout_s)[0])


class Narrator:
    """A `ChainObserver` that prints while it is entered, once `gate` is open: nothing comes before the banner."""

    def __init__(self, line_format: LineFormat, gate: Gate, out: int = 1) -> None:
        """`out` is a file's number: the lock of `sys.stdout` could not be had while a reader stands still."""
        self._format = line_format
        self._gate = gate
        self._out = PatientFile(out, "w", closefd=False)
        self._interval = Interval()
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="narrator", daemon=True)

    def __enter__(self) -> "Narrator":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._woken.set()
        self._thread.join(FLUSH_TIMEOUT_S)

    def saw_block(self, block: SealedBlock) -> None:
        with self._lock:
            self._interval.add_block(block)
        self._woken.set()

    def saw_drop(self, tx_hash: TxHash, reason: DropReason) -> None:
        self._add(SeenDrop(tx_hash, reason))

    def saw_queued(self, tx: Tx, missing_nonce: int) -> None:
        self._add(SeenQueued(tx, missing_nonce))

    def saw_refusal(self, code: str, reason: str, tx: Tx | None) -> None:
        self._add(SeenRefusal(code, reason, tx))

    def saw_revert(self, height: int) -> None:
        self._add(SeenRevert(height))

    def _add(self, seen: Small) -> None:
        with self._lock:
            self._interval.add(seen)
        self._woken.set()

    def _run(self) -> None:
        while not self._gate.wait(INTERVAL_S):
            if self._ending.is_set():
                return
        try:
            while not self._ending.is_set():
                self._woken.wait()
                self._woken.clear()
                self._print()
                self._ending.wait(INTERVAL_S)
            self._print()
        except OSError:
            # The reader has closed the pipe, or the disk is full.
            return

    def _print(self) -> None:
        with self._lock:
            interval, self._interval = self._interval, Interval()
        rest = memoryview("".join(f"{line}\n" for line in self._format(interval)).encode())
        while rest:
            rest = rest[self._out.write(rest) :]


class TextFormat:
    """For people: short, with the hash that the other commands ask for."""

    def __init__(self, has_colour: bool, accounts: Iterable[Address]) -> None:
        """`accounts` are those of this chain, in order: dev0, dev1 and so on."""
        self._has_colour = has_colour
        self._names = {address: f"dev{index}" for index, address in enumerate(accounts)}

    def __call__(self, interval: Interval) -> Iterable[str]:
        moment = self._in("bright_black", time.strftime("%H:%M:%S"))
        lines = [line for seen in interval.seen for line in self._lines(seen)]
        if interval.skipped:
            lines.append("… " + ", ".join(_number(count, name) for name, count in interval.skipped.items()))
        return [f"{moment}  {line}" for line in lines]

    def _lines(self, seen: Seen) -> list[str]:
        if isinstance(seen, SeenBlock):
            head = self._in("cyan", f"block {seen.height}")
            return [f"{head}  {_number(seen.count, 'transactions')}", *map(self._transfer, seen.txs)]
        if isinstance(seen, SeenDrop):
            return [f"  {self._in('yellow', f'dropped: {seen.reason}')}  0x{seen.tx_hash.hex()}"]
        if isinstance(seen, SeenQueued):
            why = self._in("yellow", f"queued: {queued_reason(seen.missing_nonce)}")
            return [f"  {why}{self._transfer(seen.tx)}"]
        if isinstance(seen, SeenRefusal):
            refused = f"  {self._in('red', f'refused: {seen.code}')}  {escaped(seen.reason)}"
            return [refused if seen.tx is None else f"{refused}{self._transfer(seen.tx)}"]
        return [self._in("magenta", f"reverted to block {seen.height}")]

    def _transfer(self, tx: Tx) -> str:
        amount = self._in("green", format_amount(tx.value))
        told = f"  {self._name(tx.sender)} → {self._name(tx.to)}  {amount}  0x{tx.hash.hex()}"
        # Last, where text from right to left moves nothing else.
        return f"{told}  {data_text(reference_of(tx.data), '0x' + tx.data.hex())}" if tx.data else told

    def _name(self, address: Address) -> str:
        return self._names.get(address) or shortened(checksum_address(address))

    def _in(self, colour: str, text: str) -> str:
        return typer.style(text, fg=colour) if self._has_colour else text


def json_lines(interval: Interval) -> Iterable[str]:
    """For programs: an object a line, with the field names of the API."""
    events = [event for seen in interval.seen for event in _events(seen)]
    if interval.skipped:
        events.append({"event": "skipped", **interval.skipped})
    return [escaped(msgspec.json.encode(event).decode()) for event in events]


def _events(seen: Seen) -> list[dict[str, object]]:
    if isinstance(seen, SeenDrop):
        return [{"event": "txDropped", "txHash": "0x" + seen.tx_hash.hex(), "reason": seen.reason}]
    if isinstance(seen, SeenRevert):
        return [{"event": "reverted", "blockHeight": seen.height}]
    if isinstance(seen, SeenQueued):
        return [{"event": "txQueued", **_transfer_fields(seen.tx), "queuedReason": queued_reason(seen.missing_nonce)}]
    if isinstance(seen, SeenRefusal):
        fields = {} if seen.tx is None else _transfer_fields(seen.tx)
        return [{"event": "txRefused", "code": seen.code, "detail": seen.reason, **fields}]
    block: dict[str, object] = {
        "event": "newBlock",
        "blockHeight": seen.height,
        "hash": "0x" + seen.hash.hex(),
        "timestamp": seen.timestamp,
        "transactions": seen.count,
    }
    return [block, *(_confirmed(tx, seen.height) for tx in seen.txs)]


def _confirmed(tx: Tx, height: int) -> dict[str, object]:
    return {"event": "txConfirmed", "blockHeight": height, **_transfer_fields(tx), "fee": tx.fee}


def _transfer_fields(tx: Tx) -> dict[str, object]:
    return {
        "txHash": "0x" + tx.hash.hex(),
        "from": "0x" + tx.sender.hex(),
        "to": "0x" + tx.to.hex(),
        "value": tx.value,
        "nonce": tx.nonce,
        **({"data": "0x" + tx.data.hex()} if tx.data else {}),
        **({"reference": reference} if (reference := reference_of(tx.data)) else {}),
    }


def _number(count: int, things: str) -> str:
    return f"{count:,} {things.removesuffix('s') if count == 1 else things}"
