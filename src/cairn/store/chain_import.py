"""Makes a data directory from an export: every block is executed again, and must have the hash that is beside it.

What was signed stays as it was signed, and no key is needed. An import that was interrupted goes on where it was.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from cairn.domain.certificates import (
    MAX_INTEGER,
    BlockSignature,
    CheckedCertificates,
    SetMember,
    Step,
    check_steps,
    engine_chain_id,
    first_validators,
    lone_certificate,
    signed_height,
)
from cairn.domain.crypto import parse_address
from cairn.domain.errors import (
    AnotherVersionNeeded,
    Corrupt,
    InvalidBlock,
    InvalidConfig,
    InvalidProof,
    InvalidSnapshot,
    Rejected,
    reason_of,
)
from cairn.domain.genesis import DEV_SIGNER, Genesis, parse_genesis
from cairn.domain.governance import decode_governance
from cairn.domain.headers import block_hash
from cairn.domain.json_fields import find_data, hex_text
from cairn.domain.merkle import tx_root
from cairn.domain.rules import RULES_VERSION
from cairn.domain.transactions import decode_tx, encode_record
from cairn.domain.transition import BlockOutcome, GovernanceChange, build_block
from cairn.domain.types import Address, BlockHash, BlockHeader, Tx
from cairn.store.chain import ChainStore
from cairn.store.directory import Syncs, is_directory, journal_path, names_in, sync_directory, sync_file
from cairn.store.export_format import (
    EXPORT_FORMAT,
    AnyLine,
    BlockLine,
    ChainLine,
    EndLine,
    PartLine,
    PendingLine,
    decode_line,
)
from cairn.store.journal import Journal
from cairn.store.rules_file import are_sound, write_rules
from cairn.store.snapshot import Manifest, OldestBlock, Restore, decode_manifest

Report = Callable[[int, int], None]
"""Called with how many blocks are done, and of how many."""


MAX_LINE_BYTES = 256 << 20
"""More than a block of the most gas takes that is of any use."""


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file, of which none may fill the memory. Raises `InvalidConfig`."""
    while line := file.readline(MAX_LINE_BYTES):
        if len(line) == MAX_LINE_BYTES:
            raise InvalidConfig(f"a line has more than {MAX_LINE_BYTES:,} bytes: it is no export of a chain")
        yield line


class Imported(msgspec.Struct, frozen=True):
    """What was made."""

    oldest: int
    head: int
    head_hash: BlockHash
    transactions: int
    pending: int
    resumed_at: int
    """The height that an earlier attempt had come to; 0 if there was none."""


class ExportReader:
    """The lines of an export, one after the other, from the first on."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        """Read the first line. Raises `InvalidConfig`, or `AnotherVersionNeeded` if only a newer version knows the
        rules by which the blocks were made.
        """
        self._lines = enumerate(lines, 1)
        self._digest = hashlib.sha256()
        self.number = 0
        """Of the line that was read last."""
        first = next(self._read(), None)
        if not isinstance(first, ChainLine):
            raise self.refusal("it is no export of a chain: the first line must tell of one")
        if first.format != EXPORT_FORMAT:
            raise self.refusal(f"its format is {first.format}, and this version reads {EXPORT_FORMAT}")
        if not 0 <= first.oldest <= first.height <= MAX_INTEGER:
            raise self.refusal(f"it cannot have the blocks {first.oldest} to {first.height}")
        self.first = first
        self._check_rules(first)
        self.genesis = self._genesis(first)

    def __iter__(self) -> Iterator[AnyLine]:
        """The other lines, the last of which is the end. Raises `InvalidConfig`."""
        for line in self._read():
            if isinstance(line, EndLine):
                if next(self._lines, None) is not None:
                    raise self.refusal("more follows behind the end")
                yield line
                return
            yield line
        raise self.refusal("the file ends here, without its last line: it was cut off")

    def refusal(self, why: str) -> InvalidConfig:
        return InvalidConfig(f"line {self.number}: {why}; nothing of it is used")

    def _read(self) -> Iterator[AnyLine]:
        for number, raw in self._lines:
            self.number = number
            try:
                line = decode_line(raw)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise self.refusal(f"it cannot be read: {error}") from None
            if isinstance(line, EndLine) and line.sha256 != "0x" + self._digest.hexdigest():
                raise self.refusal("the lines before have another SHA-256: the file was changed")
            self._digest.update(raw)
            yield line

    def _check_rules(self, first: ChainLine) -> None:
        if first.rules and not (are_sound(first.rules) and first.rules[-1].height <= first.height):
            raise self.refusal("it does not say by which rules the blocks were made")
        newer = next((each for each in first.rules if each.version > RULES_VERSION), None)
        if newer is not None:
            raise AnotherVersionNeeded(
                f"the blocks from {newer.height} on were made by rules of version {newer.version}; this program has "
                f"version {RULES_VERSION}: import with a newer one"
            )

    def _genesis(self, first: ChainLine) -> Genesis:
        try:
            return parse_genesis(json.dumps(first.genesis).encode())
        except Rejected as error:
            raise self.refusal(f"genesis: {error.detail}") from None
        except RecursionError:
            raise self.refusal("genesis: it is nested too deeply") from None


def import_chain(reader: ExportReader, directory: Path, report: Report = lambda done, total: None) -> Imported:
    """Make the chain in `directory`, which is empty or what an interrupted import has left.

    Raises `InvalidConfig` for a line that is not right, and what the store raises. Nothing is synced before the end.
    """
    Syncs.leave_out()
    try:
        chain = ChainStore.open(directory, reader.genesis)
        try:
            journal = Journal.open(journal_path(directory), chain.watermark)
            try:
                done = _Import(reader, chain, journal).run(report)
            finally:
                journal.close()
            chain.save_tree()
            if reader.first.rules:
                write_rules(directory, reader.first.rules)
        finally:
            chain.close()
    finally:
        Syncs.are_left_out = False
    _sync_all(directory)
    return done


class _Import:
    """First the state, with the changes of who signs before it; then the block that it is of; then the later blocks."""

    def __init__(self, reader: ExportReader, chain: ChainStore, journal: Journal) -> None:
        self._reader = reader
        self._genesis = reader.genesis
        self._chain = chain
        self._journal = journal
        self._known = {entry.tx.hash for entry in journal.recovered}
        self._heights = iter(reader.first.block_heights)
        self._blocks = self._transactions = self._pending = 0
        self._signers: _LoneSignatures | _NetworkSteps

    def run(self, report: Report) -> Imported:
        first, chain = self._reader.first, self._chain
        begun_at = chain.visible
        lines = iter(self._reader)
        if first.oldest:
            self._begin_with_state(lines)
        else:
            self._take_signers(chain.steps())
        for line in lines:
            if isinstance(line, BlockLine):
                self._add_block(line)
                report(self._blocks, len(first.block_heights))
            elif isinstance(line, PendingLine):
                self._add_pending(line)
            elif isinstance(line, PartLine):
                raise self._refusal("a part of the state, where none is due")
            elif isinstance(line, EndLine):
                self._check_end(line)
            else:
                raise self._refusal("a second beginning")
        self._journal.sync()
        return Imported(chain.base, chain.visible, chain.head_hash, self._transactions, self._pending, begun_at)

    def _refusal(self, why: str) -> InvalidConfig:
        return self._reader.refusal(why)

    def _take_signers(self, steps: list[Step]) -> None:
        is_lone = self._genesis.signer is not None
        self._signers = (_LoneSignatures if is_lone else _NetworkSteps)(self._genesis, steps)

    # Blocks.

    def _add_block(self, line: BlockLine) -> None:
        self._count_block(line)
        if line.height <= self._chain.visible:
            self._check_known(line)
            return
        outcome = self._execute(line)
        computed = hex_text(outcome.block.hash)
        if computed != line.hash:
            raise self._refusal(f"block {line.height} has the hash {line.hash}, and by its content {computed}")
        absent = None if line.absent is None else self._addresses(line.absent)
        signed = self._check_signers(outcome.block.header, line)
        self._chain.commit(outcome, absent, signed)
        if signed is None and line.step is not None:
            self._chain.add_step(line.step)

    def _count_block(self, line: BlockLine) -> None:
        if line.height != next(self._heights, None):
            raise self._refusal(f"block {line.height} is not in its place")
        self._blocks += 1
        self._transactions += len(line.txs)

    def _check_known(self, line: BlockLine) -> None:
        """Check that an import that was interrupted has begun with this block, and add the step that it lacks."""
        found = self._chain.find_block_hash(line.height)
        if found is None or hex_text(found) != line.hash:
            raise self._refusal(f"block {line.height} is another one than an earlier import has begun with")
        signers = self._signers
        if isinstance(signers, _NetworkSteps) and line.step is not None and not signers.has(line.step):
            self._check_step(signers, line.height, line.step)
            self._chain.add_step(line.step)

    def _check_signers(self, header: BlockHeader, line: BlockLine) -> BlockSignature | None:
        """Check the signature of a block that one node made alone, or the change of validators that a network's made.

        Returns the first, if that is what it has.
        """
        signers = self._signers
        if isinstance(signers, _NetworkSteps):
            if line.step is not None:
                self._check_step(signers, header.height, line.step)
            return None
        signed = BlockSignature(self._bytes(line.signature, 64), line.step)
        self._checked(lambda: signers.check(header, signed))
        return signed

    def _check_step(self, signers: "_NetworkSteps", height: int, step: Step) -> None:
        self._checked(lambda: signers.check(height, step))

    def _execute(self, line: BlockLine) -> BlockOutcome:
        chain, rules = self._chain, self._genesis.rules
        try:
            txs = [self._tx(raw) for raw in line.txs]
            proposer = parse_address(line.proposer, "proposer")
            change: GovernanceChange | None = None
            if line.governance:
                if chain.governance is None:
                    raise self._refusal("validators on a chain that has none")
                change = chain.governance, decode_governance(self._bytes(line.governance))
            balances = self._balances(line)
            head, head_hash = chain.head_header, chain.head_hash
            return build_block(head, head_hash, chain, txs, line.timestamp, proposer, rules, change, balances or None)
        except (Rejected, InvalidBlock, Corrupt) as error:
            raise self._refusal(f"block {line.height}: {error.detail}") from None
        except (ValueError, OverflowError) as error:
            raise self._refusal(f"block {line.height}: {error}") from None

    def _balances(self, line: BlockLine) -> dict[Address, int]:
        if line.balances and self._genesis.signer != DEV_SIGNER:
            raise self._refusal("balances are set, which only a block of a dev chain may")
        return {parse_address(address, "balances"): int(text) for address, text in line.balances.items()}

    def _addresses(self, texts: Iterable[str]) -> list[bytes]:
        return [self._bytes(address, 20) for address in texts]

    def _tx(self, raw: str) -> Tx:
        return decode_tx(self._bytes(raw), self._genesis.chain_id, self._genesis.gas_price)

    def _bytes(self, text: str, size: int | None = None) -> bytes:
        found = find_data(text)
        if found is None or (size is not None and len(found) != size):
            raise self._refusal(f"{text[:80]!r} is not {'' if size is None else f'{size} '}bytes in hex")
        return found

    def _checked(self, check: Callable[[], None]) -> None:
        try:
            check()
        except InvalidProof as error:
            raise self._refusal(str(error)) from None

    # Pending transactions.

    def _add_pending(self, line: PendingLine) -> None:
        self._pending += 1
        try:
            tx = self._tx(line.tx)
        except Rejected as error:
            raise self._refusal(f"a pending transaction: {error.detail}") from None
        if tx.hash not in self._known and self._chain.find_location(tx.hash) is None:
            self._journal.append_add(line.received_at, tx, encode_record(tx), 0 if line.queued else None)

    # The state, where the oldest blocks are not in the export.

    def _begin_with_state(self, lines: Iterator[AnyLine]) -> None:
        first, chain = self._reader.first, self._chain
        try:
            manifest = decode_manifest(self._bytes(first.manifest))
            header = manifest.decode_header()
            if header.height != first.oldest:
                raise self._refusal(f"the state is of block {header.height}, not of {first.oldest}")
            is_here = chain.visible >= first.oldest
            restore = None if is_here else chain.begin_restore(manifest, block_hash(header))
            self._read_parts(lines, len(manifest.chunks), restore)
            line = next(lines)
            if not isinstance(line, BlockLine):
                raise self._refusal("the oldest block must follow its state")
            self._count_block(line)
            if restore is None:
                self._take_signers(chain.steps())
                self._check_known(line)
                return
            self._take_signers([msgspec.json.decode(record, type=Step) for _, record in restore.steps])
            oldest = self._oldest_block(line, manifest)
            chain.finish_restore(restore, oldest)
            chain.clear_restore()
        except (binascii.Error, ValueError, OverflowError, Rejected) as error:
            raise self._refusal(f"the state: {reason_of(error)}") from None
        except InvalidSnapshot as error:
            raise self._refusal(f"the state: {error.detail}") from None

    def _read_parts(self, lines: Iterator[AnyLine], count: int, restore: Restore | None) -> None:
        """The parts of the state, which are left out if an earlier import has taken them."""
        for _ in range(count):
            part = next(lines)
            if not isinstance(part, PartLine):
                raise self._refusal(f"the state has {count} parts, and here is none")
            if restore is not None:
                restore.add_chunk(part.number, base64.b64decode(part.data, validate=True))

    def _oldest_block(self, line: BlockLine, manifest: Manifest) -> OldestBlock:
        """What the line has beside what the state's parts say of the block, which must be the same."""
        header = manifest.decode_header()
        hashes = [self._tx(raw).hash for raw in line.txs]
        said = line.hash, line.timestamp, parse_address(line.proposer, "proposer"), tx_root(hashes)
        if said != (hex_text(block_hash(header)), header.timestamp, header.proposer, header.tx_root):
            raise self._refusal(f"block {line.height} is another one than that of the state")
        if line.governance and self._bytes(line.governance) != manifest.governance:
            raise self._refusal(f"block {line.height} leaves other validators than those in the state")
        signed = self._check_signers(header, line)
        before = list(map(self._addresses, self._reader.first.absent))
        return OldestBlock(
            None if signed is None else signed.signature,
            line.step,
            bool(line.governance),
            self._balances(line),
            before if line.absent is None else [*before, self._addresses(line.absent)],
        )

    def _check_end(self, line: EndLine) -> None:
        first, chain = self._reader.first, self._chain
        if (line.blocks, line.transactions, line.pending) != (self._blocks, self._transactions, self._pending):
            raise self._refusal("the numbers of blocks and transactions are not those of the lines before")
        if (chain.visible, hex_text(chain.head_hash)) != (first.height, first.hash):
            raise self._refusal(f"the chain ends at block {chain.visible}; its first line names {first.height}")


class _LoneSignatures:
    """Checks what a node that makes its blocks alone has signed."""

    def __init__(self, genesis: Genesis, steps: list[Step]) -> None:
        self._chain_id, self._first = engine_chain_id(genesis), first_validators(genesis)
        self._steps = steps
        self._certificates = CheckedCertificates(genesis)

    def check(self, header: BlockHeader, signed: BlockSignature) -> None:
        """Check the block's signature, and the change of who signs that it may be. Raises `InvalidProof`."""
        if signed.step is not None:
            if signed_height(signed.step.signed) != header.height + 1:
                raise InvalidProof(f"the change of who signs is not of block {header.height}")
            self._steps = [*self._steps, signed.step]
        certificate = lone_certificate(header, signed.signature, self._chain_id, self._first, self._steps)
        self._certificates.check(certificate)


class _NetworkSteps:
    """Checks the changes of validators, which those before them have signed."""

    def __init__(self, genesis: Genesis, steps: list[Step]) -> None:
        self._chain_id = engine_chain_id(genesis)
        self._reached: tuple[tuple[SetMember, ...], int] = first_validators(genesis), 0
        if steps:
            self._reached = steps[-1].validators, signed_height(steps[-1].signed)
        self._count = len(steps)

    def has(self, step: Step) -> bool:
        return signed_height(step.signed) <= self._reached[1]

    def check(self, height: int, step: Step) -> None:
        """Check the next change, which the block at `height` made. Raises `InvalidProof`."""
        validators, before = self._reached
        if signed_height(step.signed) != height + 1:
            raise InvalidProof(f"the change of validators is not of block {height}")
        self._reached = check_steps([step], validators, self._chain_id, (self._count, before))
        self._count += 1


def _sync_all(directory: Path) -> None:
    """Put on disk what was only written: RocksDB has synced its own tables when it was closed."""
    for name in names_in(directory):
        path = directory / name
        if is_directory(path):
            _sync_all(path)
            continue
        with path.open("rb") as file:
            sync_file(file.fileno())
    sync_directory(directory)
