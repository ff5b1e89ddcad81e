"""The parts of proof files. All but certificates and the state is read from this worker's own store.

What a file proves hangs on one signed block. The core names it; then the worker reads up to it.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from cairn.api.chain_reads import reverted_meanwhile
from cairn.api.chain_view import ChainView
from cairn.core.gateway import STEPS_AT_ONCE, CoreGateway, StateProof
from cairn.domain.certificates import Certificate, SignedHeader, Step, read_header, signed_height
from cairn.domain.errors import BlockNotKept, NotSignedYet
from cairn.domain.headers import encode_header
from cairn.domain.history import consistency_path, history_path
from cairn.domain.json_fields import hex_text
from cairn.domain.merkle import inclusion_proof
from cairn.domain.proof_files import BlockPath, ChangePath, PaymentPath, ProofFile, StatePath
from cairn.domain.state_tree import change_leaf, read_state_leaf
from cairn.domain.transactions import encode_tx
from cairn.domain.types import Address, BlockHeader
from cairn.store.keys import NEVER, Version

READ_AT_ONCE: Final = 64
"""Versions of an account that are read together, so that RocksDB need not keep an iterator for the rest."""


_encode = msgspec.json.Encoder().encode


class Signed(NamedTuple):
    """A certificate, and the block that it is for."""

    certificate: Certificate
    """Without its steps."""
    steps: bytes
    """These, in JSON, with commas in between."""
    header: BlockHeader
    reverts: int
    """Of a dev chain, when the certificate was made."""

    @property
    def height(self) -> int:
        return self.header.height


class Held(NamedTuple):
    """What an account held after a block: as its next change says, or the state of the signed block."""

    signed: Signed
    height: int
    """Of the block that is meant."""
    touched: int
    """Height of the account's last touch up to there, or `NEVER`."""
    state: StatePath | None = None
    next: ChangePath | None = None


class KnownSteps:
    """The changes of signers that this worker was told of, which no later one replaces: in JSON, as files have them."""

    def __init__(self, reverts: int) -> None:
        self.reverts = reverts
        """Of the chain that they are of."""
        self._heights: list[int] = []
        """Of the engine's headers, ascending."""
        self._encoded: list[bytes] = []

    def __len__(self) -> int:
        return len(self._heights)

    def add(self, steps: Sequence[Step]) -> None:
        """Add those that are new. None is missing between them and those that are known."""
        for step in steps:
            height = signed_height(step.signed)
            if not self._heights or height > self._heights[-1]:
                self._heights.append(height)
                self._encoded.append(_encode(step))

    def before(self, signed: SignedHeader) -> bytes:
        """Those of a certificate with this header."""
        return b",".join(self._encoded[: bisect_left(self._heights, signed_height(signed))])


class ProofReads:
    """Every read raises `BlockNotFound` for what is not kept any more."""

    def __init__(self, gateway: CoreGateway, view: ChainView) -> None:
        self._gateway = gateway
        self._view = view
        self._steps = KnownSteps(view.reverts)

    # What is signed.

    async def signed(self, height: int | None) -> Signed:
        """The certificate that proves a block, or the newest. Raises `NotSignedYet`."""
        self._view.get_info()
        if height is not None:
            await self._view.check_height(height)
        known = self._known_steps()
        return await self._shown(await self._gateway.certificate(height, len(known)), known)

    def _known_steps(self) -> KnownSteps:
        if self._steps.reverts != self._view.reverts:
            self._steps = KnownSteps(self._view.reverts)
        return self._steps

    async def _shown(self, certificate: Certificate, known: KnownSteps) -> Signed:
        """Once reads show its block, and all of its steps are here."""
        new = certificate.steps
        known.add(new)
        while len(new) == STEPS_AT_ONCE:
            new = (await self._gateway.certificate(None, len(known))).steps
            known.add(new)
        header = read_header(certificate.header)
        await self._view.reach(header.height)
        if header.height >= self._view.base and self._view.get_header(header.height)[1] != header:
            raise reverted_meanwhile()
        bare = msgspec.structs.replace(certificate, steps=())
        return Signed(bare, known.before(certificate.signed), header, known.reverts)

    async def check_made(self, height: int) -> None:
        """Check that there is such a block, whether it is kept or not. Raises `BlockNotFound`."""
        self._view.get_info()
        if height > self._view.height:
            await self._view.check_height(height)

    def check_signed(self, height: int, signed: Signed) -> None:
        """Check that the newest signed block is not below `height`. Raises `NotSignedYet`."""
        if height > signed.height:
            raise NotSignedYet.of(height, signed.height)

    def check_unchanged(self, signed: Signed) -> None:
        """Raise `Reverting` if the chain was reverted since, and the parts of a file may not fit together."""
        if self._view.reverts != signed.reverts:
            raise reverted_meanwhile()

    # Blocks.

    def block(self, height: int, signed: Signed) -> BlockPath:
        """A block as the signed one proves it, which is the same or a later one."""
        history = [] if height == signed.height else self.ancestor_path(height, signed.height)
        return BlockPath(self.header(height), history)

    def header(self, height: int) -> str:
        return hex_text(encode_header(self._view.get_header(height)[1]))

    def ancestor_path(self, height: int, later: int) -> list[str]:
        """From the hash of a block to the history root of a later one."""
        return _texts(history_path(self._view.history_node, later, height))

    def appended_path(self, height: int, later: int) -> list[str]:
        """From the history root of a block to that of a later one."""
        return _texts(consistency_path(self._view.history_node, height, later))

    # Payments.

    async def payment(self, height: int, position: int) -> PaymentPath:
        header, tx = self._view.get_header(height)[1], self._view.tx_at(height, position)
        path = inclusion_proof(await self._view.tx_tree(height), header.tx_count, position)
        return PaymentPath(hex_text(encode_tx(tx, header.chain_id)), position, _texts(path))

    # Accounts.

    async def change(self, address: Address, version: Version, signed: Signed) -> ChangePath:
        """What the block of a version did to the account."""
        touched = None if version.touched_before == NEVER else version.touched_before
        leaf = change_leaf(address, touched, self._view.account_before(address, version), version.account)
        block = self.block(version.height, signed)
        nodes, count = await self._view.changes_tree(version.height)
        path = inclusion_proof(nodes, count, version.index)
        return ChangePath(block, hex_text(leaf), version.index, count, _texts(path))

    def find_change(self, address: Address, first: int, last: int) -> Version | None:
        """The oldest change of an account from one height to another that this node can prove."""
        return next(iter(self._view.versions_between(address, self.first_provable(first), last, 1)), None)

    def changes(self, address: Address, first: int, last: int) -> Iterator[Version]:
        """All of them, the oldest first. Read as far as they are taken."""
        while found := self._view.versions_between(address, self.first_provable(first), last, READ_AT_ONCE):
            yield from found
            first = found[-1].height + 1

    def first_provable(self, height: int) -> int:
        """That height, or the first from it on of which this node can prove what the block did to an account.

        A node that began with a state knows no such thing of the block that left it. Nor does any other say so of its
        oldest block: an import of what it exports could not.
        """
        base = self._view.base
        return max(height, base + 1) if base else height

    async def held(self, address: Address, height: int | None) -> Held:
        """What the account held after a block, or after the newest signed one.

        Raises `BlockNotFound`, `NotSignedYet`, or `BlockNotKept` if a block has touched it since that is gone.
        """
        self._view.get_info()
        if height is not None:
            await self.check_made(height)
            signed = await self.signed(None)
            self.check_signed(height, signed)
            found = await self._before_next_change(address, height, signed)
            if found is not None:
                return found
        # No signed block has touched it since; one that is signed meanwhile may.
        known = self._known_steps()
        proof = await self._gateway.state_proof(address, len(known))
        signed = await self._shown(proof.certificate, known)
        height = signed.height if height is None else height
        return await self._before_next_change(address, height, signed) or self._by_state(proof, address, height, signed)

    async def _before_next_change(self, address: Address, height: int, signed: Signed) -> Held | None:
        """As its first touch after the block says, if a signed block has one."""
        version = self.find_change(address, height + 1, signed.height)
        if version is None:
            return None
        self._check_kept(version.touched_before, height)
        return Held(signed, height, version.touched_before, next=await self.change(address, version, signed))

    def _by_state(self, proof: StateProof, address: Address, height: int, signed: Signed) -> Held:
        leaf = read_state_leaf(proof.leaf)
        touched = leaf.touched if leaf.address == address else NEVER
        self._check_kept(touched, height)
        state = StatePath(hex_text(proof.leaf), proof.number, proof.size, _texts(proof.path))
        return Held(signed, height, touched, state=state)

    def _check_kept(self, touched: int, height: int) -> None:
        """Check that nothing after `height` is gone that touched the account. Raises `BlockNotKept`."""
        if touched > height:
            raise BlockNotKept(
                f"what the account held after block {height} cannot be proven by this node, which does not keep all "
                f"blocks; it can from block {touched} on"
            )


def encode_proof(file: ProofFile, signed: Signed) -> bytes:
    """The file with all steps of its certificate, which is the first thing in it."""
    before, begin, behind = _encode(file).partition(b'"steps":[')
    return b"".join((before, begin, signed.steps, behind))


def _texts(path: list[bytes]) -> list[str]:
    return [hex_text(node) for node in path]
