"""Proofs from a node: each is checked before it is saved, so what is on disk holds."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.json import Decoder

from cairn.cli.proofs.checking import NOT_PROVEN, proven_by, show, write_statement
from cairn.cli.proofs.files import StatementOutputs, check_free, parse_genesis_of, read_genesis, save
from cairn.cli.proofs.report import CheckedFile
from cairn.cli.remote import PATIENCE_S, explained_errors
from cairn.cli.report import CommandFailed, NoSuchItem, TimedOut, Unreachable, warn
from cairn.cli.screen import print_lines, utc
from cairn.cli.wallet.key_files import Keystore
from cairn.cli.wallet.parties import find_party
from cairn.client.async_reads import PROBE
from cairn.client.errors import ApiError, BlockNotFound, ClientError
from cairn.client.models import AccountState
from cairn.client.transport import Transport, delays, path_of
from cairn.domain.certificates import read_header, read_hex
from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import Genesis
from cairn.domain.json_fields import hex_text
from cairn.domain.proof_checks import FinalBlock, ProvenAccount, ProvenPayment, Trust
from cairn.domain.proof_files import (
    BlockPath,
    Descendant,
    HistoryFile,
    ProofFile,
    StatementFile,
    WitnessSignature,
    encode_file,
    read_file,
)
from cairn.domain.statement_checks import Proven, ProvenStatement
from cairn.domain.types import BlockHeader

T = TypeVar("T")
P = TypeVar("P", bound=Proven)

NOT_SIGNED_YET = "NOT_SIGNED_YET"
SILENCE_S = 60.0
"""How long a node may take for a long statement."""
QUIET_S = 3.0
"""Waits for signatures up to here are usual, and nothing is said."""
DAY = timedelta(days=1)

_is_hash = re.compile(r"0x[0-9a-fA-F]{64}").fullmatch
_is_height = re.compile(r"[0-9]{1,16}").fullmatch
_is_date = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}").fullmatch
_ACCOUNT = Decoder(AccountState)


class WitnessHead(msgspec.Struct, frozen=True, rename="camel"):
    """What a witness serves at /head: the newest block that it saw, and its signature."""

    header: str
    height: int
    public_key: str
    signature: str


_HEAD = Decoder(WitnessHead)


class ProofSource:
    """A node, the genesis that its proofs are checked with, and witnesses."""

    def __init__(self, url: str, genesis_file: Path | None, witnesses: list[str], wait_s: float, as_json: bool) -> None:
        self._url = url
        self._genesis_file = genesis_file
        self._witnesses = witnesses
        self._wait_s = wait_s
        self._as_json = as_json

    def save_receipt(self, tx_hash: str, output: Path | None, force: bool) -> None:
        if not _is_hash(tx_hash):
            raise InvalidConfig(f"HASH: {tx_hash!r} is not 0x and 64 hexadecimal digits")

        async def fetch(node: "ProofNode") -> tuple[bytes, ProvenPayment]:
            raw, proven = await node.proof(path_of("tx", tx_hash, "receipt"), ProvenPayment)
            if hex_text(proven.tx.hash) != tx_hash.lower():
                raise CommandFailed(f"not proven: the receipt is of {hex_text(proven.tx.hash)}", NOT_PROVEN)
            return raw, proven

        self._save(fetch, output, force)

    def save_account(self, who: str, keystore: Keystore, height: int | None, output: Path | None, force: bool) -> None:
        address = find_party(who, keystore, "ACCOUNT").address
        query = {} if height is None else {"height": height}

        async def fetch(node: "ProofNode") -> tuple[bytes, ProvenAccount]:
            raw, proven = await node.proof(path_of("account", hex_text(address), "proof"), ProvenAccount, query)
            if proven.address != address or height not in (None, proven.height):
                told = f"{hex_text(proven.address)} after block {proven.height}"
                raise CommandFailed(f"not proven: the node answered with {told}", NOT_PROVEN)
            return raw, proven

        self._save(fetch, output, force)

    def save_statement(
        self, who: str, keystore: Keystore, dates: tuple[str, str], outputs: StatementOutputs, force: bool
    ) -> None:
        address = find_party(who, keystore, "ACCOUNT").address
        begin, end = parse_when(dates[0], "--from"), parse_end(dates[1])
        check_free(outputs.paths, force)

        async def fetch(node: "ProofNode") -> tuple[bytes, ProvenStatement]:
            first, last = await node.ends(begin, end, hex_text(address))
            if first > last:
                raise InvalidConfig(f"--from is block {first}, above --to, block {last}")
            query = {"from": first, "to": last}
            raw, proven = await node.proof(path_of("account", hex_text(address), "statement"), ProvenStatement, query)
            if (proven.address, proven.first, proven.last) != (address, first, last):
                told = f"{hex_text(proven.address)} from {proven.first} to {proven.last}"
                raise CommandFailed(f"not proven: the node answered with the statement of {told}", NOT_PROVEN)
            return raw, proven

        (raw, proven), genesis = self._ask(fetch)
        file = CheckedFile.of(raw, None if outputs.proof is None else outputs.proof.name)
        write_statement(proven, genesis, outputs, file, raw, force)
        self._show(proven, genesis, file, outputs.paths)
        newest = proven.finality.block.header
        if isinstance(end, datetime) and newest.timestamp < end.timestamp():
            warn(
                f"the newest signed block, {newest.height}, is of {utc(newest.timestamp)}: what came later is not in it"
            )

    def _save(
        self, fetch: Callable[["ProofNode"], Awaitable[tuple[bytes, Proven]]], output: Path | None, force: bool
    ) -> None:
        paths = [] if output is None else [output]
        check_free(paths, force)
        (raw, proven), genesis = self._ask(fetch)
        save(dict.fromkeys(paths, raw), force)
        self._show(proven, genesis, CheckedFile.of(raw, None if output is None else output.name), paths)

    def _show(self, proven: Proven, genesis: Genesis, file: CheckedFile, saved: list[Path]) -> None:
        show(proven, genesis, file, self._as_json)
        if saved and not self._as_json:
            print_lines(["", f"Saved {', '.join(map(str, saved))}."])
        if self._genesis_file is None:
            warn(f"checked with the genesis that {self._url} itself gave; --genesis FILE checks with yours")

    def _ask(self, fetch: Callable[["ProofNode"], Awaitable[T]]) -> tuple[T, Genesis]:
        genesis = None if self._genesis_file is None else read_genesis(self._genesis_file)

        async def ask() -> tuple[T, Genesis]:
            with explained_errors(self._url):
                transport = connected(self._url, "--node", SILENCE_S)
                try:
                    # One attempt: that there is no node should be said at once.
                    await transport.probe("/health", PROBE)
                    known = genesis or await served_genesis(transport)
                    node = ProofNode(transport, known, self._witnesses, self._wait_s)
                    return await fetch(node), known
                finally:
                    await transport.close()

        return asyncio.run(ask())


class ProofNode:
    """The node that is asked. Nothing of what it says is believed without a proof."""

    def __init__(self, transport: Transport, genesis: Genesis, witnesses: list[str], wait_s: float) -> None:
        self._transport = transport
        self._genesis = genesis
        self._witnesses = witnesses
        self._wait_s = wait_s
        self._has_told = False
        """That it waits for signatures."""

    async def proof(self, path: str, kind: type[P], query: dict[str, int] | None = None) -> tuple[bytes, P]:
        """A file with the signatures of all witnesses, and what it proves. Raises `CommandFailed`.

        A statement also gets the blocks at its ends, so that it shows of which days it is.
        """
        raw, proven = await self._checked(path, kind, query or {})
        file = read_file(raw)
        if isinstance(file, StatementFile):
            file = msgspec.structs.replace(file, ends=await self._end_blocks(file))
        elif not self._witnesses:
            return raw, proven
        seen = [await self._descendant(url, file) for url in self._witnesses]
        raw = encode_file(msgspec.structs.replace(file, descendants=[*file.descendants, *seen]))
        keys = tuple(read_hex(each.witnesses[0].public_key, "a witness's public key") for each in seen)
        witnessed = proven_by(raw, Trust(self._genesis, witnesses=keys))
        assert isinstance(witnessed, kind)
        return raw, witnessed

    async def _checked(self, path: str, kind: type[P], query: dict[str, int]) -> tuple[bytes, P]:
        raw = await self._signed(path, query)
        proven = proven_by(raw, Trust(self._genesis))
        if not isinstance(proven, kind):
            raise CommandFailed(f"not proven: {self._transport.url}{path} is another kind of proof", NOT_PROVEN)
        return raw, proven

    async def _end_blocks(self, file: StatementFile) -> list[BlockPath]:
        """The first and the last block and those beside them, as far as the node keeps them."""
        signed = read_header(file.certificate.header).height
        heights = sorted({file.first - 1, file.first, file.last, file.last + 1})
        found = [await self._ancestor(height, signed, file) for height in heights if 0 <= height <= signed]
        return [block for block in found if block is not None]

    async def _ancestor(self, height: int, signed: int, file: ProofFile) -> BlockPath | None:
        """The block at a height with its path from the file's signed block; None if the node does not keep it."""
        header = file.certificate.header
        if height == signed:
            return BlockPath(header, [])
        try:
            raw = await self._signed("/history/proof", {"from": height, "to": signed})
        except BlockNotFound:
            return None
        proof = read_file(raw)
        if not isinstance(proof, HistoryFile) or proof.second.header != header:
            raise CommandFailed(f"not proven: the node did not prove block {height} under block {signed}", NOT_PROVEN)
        return BlockPath(proof.first, proof.inclusion)

    async def ends(self, begin: int | datetime, end: int | datetime | None, address: str) -> tuple[int, int]:
        """The heights of the first and the last block. Raises `CommandFailed`, including when none is between."""
        if isinstance(begin, int) and isinstance(end, int):
            return begin, end
        # Not the latest of all: on a network, empty blocks at the end are signed with the next payment only.
        _, newest = await self._checked(path_of("account", address, "proof"), ProvenAccount, {})
        head = newest.finality.block.header
        first = await self._first_height(begin, head, address) if isinstance(begin, datetime) else begin
        last = await self._last_height(end, head, address) if isinstance(end, datetime) else end
        if first - 1 == last:
            raise NoSuchItem(f"no block was made between --from and --to: block {last} is of before, {first} of after")
        return first, head.height if last is None else last

    async def _first_height(self, begin: datetime, head: BlockHeader, address: str) -> int:
        """The first block of a day, with a proof that the one before it is of before."""
        if begin.timestamp() <= self._genesis.timestamp:
            return 0
        if head.timestamp < begin.timestamp():
            newest = f"the newest signed block, {head.height}, is of {utc(head.timestamp)}"
            raise NoSuchItem(f"--from {begin:%Y-%m-%d}: there is nothing to show yet: {newest}")
        return 1 + await self._last_before(begin, head, address)

    async def _last_height(self, end: datetime, head: BlockHeader, address: str) -> int:
        """The last block before the end, or the newest that is signed."""
        if end.timestamp() <= self._genesis.timestamp:
            began = f"the chain began later, at {utc(self._genesis.timestamp)}"
            raise NoSuchItem(f"--to {end - DAY:%Y-%m-%d}: {began}")
        if head.timestamp < end.timestamp():
            return head.height
        return await self._last_before(end, head, address)

    async def _last_before(self, when: datetime, head: BlockHeader, address: str) -> int:
        """The last block before a time that the signed block is not before. No node can name another."""
        found = await self._height_at(int(when.timestamp()) - 1, address)
        if found >= head.height or (await self._header_time(found)) >= when.timestamp():
            raise CommandFailed(f"not proven: block {found} is not before {when:%Y-%m-%d}", NOT_PROVEN)
        if (await self._header_time(found + 1)) < when.timestamp():
            raise CommandFailed(f"not proven: block {found} is not the last before {when:%Y-%m-%d}", NOT_PROVEN)
        return found

    async def _height_at(self, timestamp: int, address: str) -> int:
        account = await self._transport.get(path_of("account", address), _ACCOUNT, {"time": timestamp})
        if account.block_height is None:
            raise CommandFailed(f"{self._transport.url} does not say which block was the last at {timestamp}")
        return account.block_height

    async def _header_time(self, height: int) -> int:
        """The proven time of a block, so that no node moves the ends of a statement."""
        _, proven = await self._checked(path_of("block", height, "finality"), FinalBlock, {})
        if proven.block.header.height != height:
            raise CommandFailed(f"not proven: the node did not prove block {height}", NOT_PROVEN)
        return proven.block.header.timestamp

    async def _descendant(self, url: str, file: ProofFile) -> Descendant:
        """What a witness signed, with the path from the file's signed block."""
        base = read_header(file.certificate.header).height
        witness = connected(url, "--witness", PATIENCE_S)
        try:
            head = await self._head_above(witness, base)
        except ClientError as error:
            raise Unreachable(f"the witness {url} cannot be asked: {error}", "WITNESS_UNREACHABLE") from None
        finally:
            await witness.close()
        history: list[str] = []
        if head.header != file.certificate.header:
            raw = await self._signed("/history/proof", {"from": base, "to": head.height})
            proof = read_file(raw)
            if not isinstance(proof, HistoryFile) or (proof.first, proof.second.header) != (
                file.certificate.header,
                head.header,
            ):
                raise CommandFailed(
                    f"not proven: {url} saw another block {head.height} than this node has, or another history; "
                    "one of them shows a chain that the other does not",
                    NOT_PROVEN,
                )
            history = proof.inclusion
        return Descendant(head.header, history, [WitnessSignature(head.public_key, head.signature)])

    async def _head_above(self, witness: Transport, height: int) -> WitnessHead:
        """The witness's newest block, once it has seen as many as the file is of."""

        async def seen() -> WitnessHead | None:
            head = await witness.get("/head", _HEAD)
            return head if head.height >= height else None

        found = await self._waited(seen)
        if found is None:
            raise TimedOut(f"the witness {witness.url} has not seen block {height} within {self._wait_s:g} s")
        return found

    async def _signed(self, path: str, query: dict[str, int]) -> bytes:
        """The file, once the validators have signed."""

        began = time.monotonic()

        async def asked() -> bytes | None:
            try:
                return (await self._transport.ask("GET", path, query=query)).response.content
            except ApiError as error:
                if error.code != NOT_SIGNED_YET:
                    raise
                if not self._has_told and time.monotonic() - began >= QUIET_S:
                    self._has_told = True
                    warn(f"not signed yet; waiting for up to {self._wait_s:g} s: {error.detail}")
                return None

        found = await self._waited(asked)
        if found is None:
            told = f"no signature covers it within {self._wait_s:g} s"
            raise TimedOut(f"{told}; empty blocks at the end are signed with the next payment", NOT_SIGNED_YET)
        return found

    async def _waited(self, attempt: Callable[[], Awaitable[T | None]]) -> T | None:
        ends_at = time.monotonic() + self._wait_s
        for delay_s in delays():
            found = await attempt()
            if found is not None or time.monotonic() + delay_s > ends_at:
                return found
            await asyncio.sleep(delay_s)
        raise AssertionError("the delays never end")


def connected(url: str, option: str, timeout_s: float) -> Transport:
    try:
        return Transport(url, timeout_s=timeout_s, silence_timeout_s=timeout_s, tls=None)
    except ValueError:
        raise InvalidConfig(f"{option} {url}: expected a URL, such as http://127.0.0.1:8645") from None


async def served_genesis(transport: Transport) -> Genesis:
    answer = await transport.ask("GET", "/genesis")
    return parse_genesis_of(answer.response.content, f"{transport.url}/genesis")


def parse_end(text: str) -> int | datetime | None:
    """A height, the end of a day in UTC, or None for the newest block."""
    if text == "latest":
        return None
    when = parse_when(text, "--to", ", a date such as 2026-01-31, or latest")
    try:
        return when + DAY if isinstance(when, datetime) else when
    except OverflowError:
        raise InvalidConfig(f"--to: {text!r} is too late") from None


def parse_when(text: str, option: str, others: str = " or a date such as 2026-01-31") -> int | datetime:
    """A height, or the begin of a day in UTC."""
    if _is_height(text):
        return int(text)
    try:
        if not _is_date(text):
            raise ValueError(text)
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise InvalidConfig(f"{option}: {text!r} is not a height{others}") from None
