"""Follows the signed blocks of a node, and tells when they are not one history.

Each new block is signed only if the node proves that it appends to the one signed before. If the node signed another
block of a height that this witness has seen, or its history holds another one there, the two together are evidence.
A node that shows a signed block, and does not prove how it came about, raises the alarm without evidence. One that
cannot be reached, or is behind, is only told.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from cairn.cli.witness.memory import Memory
from cairn.client.errors import ApiError, ClientError
from cairn.domain.errors import InvalidProof
from cairn.domain.evidence import EvidenceFile
from cairn.domain.genesis import Genesis
from cairn.domain.headers import encode_header
from cairn.domain.json_fields import hex_text
from cairn.domain.proof_checks import ProvenBlock, Trust, check_finality, check_history, read_block
from cairn.domain.proof_files import FinalityFile, HistoryFile, ProofFile, read_file

F = TypeVar("F", bound=ProofFile)
Query = Mapping[str, int | str]

SERVER_ERRORS = 500
PASSING = ("NOT_SIGNED_YET", "RATE_LIMITED", "TOO_MANY_CONNECTIONS")
"""Refusals that pass by themselves."""


class Source(Protocol):
    """A node, or another witness."""

    @property
    def url(self) -> str: ...

    async def fetch(self, path: str, query: Query | None = None) -> bytes:
        """The answer to a GET. Raises `ClientError`."""


class Outcome(StrEnum):
    SIGNED = "signed"
    """A new block appends to the last one."""
    SAME = "same"
    """There is no new one."""
    BEHIND = "behind"
    """The newest signed block of the node is below what this witness has seen."""
    AWAY = "away"
    """It does not answer."""
    UNPROVEN = "unproven"
    """What it gives as a proof is none, or it refuses to prove how a signed block came about."""
    CONTRADICTED = "contradicted"
    """Two signed histories."""

    @property
    def is_alarm(self) -> bool:
        return self in (Outcome.UNPROVEN, Outcome.CONTRADICTED)


class Sighting(NamedTuple):
    outcome: Outcome
    detail: str


class _NoProof(Exception):
    """The node gave something that proves nothing."""


class Watch:
    def __init__(self, node: Source, genesis: Genesis, memory: Memory) -> None:
        self._node = node
        self._trust = Trust(genesis)
        self._memory = memory

    async def look(self) -> Sighting:
        """Look for a newer signed block, and sign it if it appends to the last one. Raises `OSError` of the disk."""
        newest: ProvenBlock | None = None
        try:
            file = await self._file(self._node, "/block/latest/finality", FinalityFile)
            newest = check_finality(file, self._trust).block
            return await self._judge(file, newest)
        except (InvalidProof, _NoProof) as failure:
            return Sighting(Outcome.UNPROVEN, f"{self._node.url}: {failure}")
        except ClientError as failure:
            return self._unanswered(newest, failure)

    async def compare(self, other: Source) -> Sighting:
        """Compare what another witness has signed with the history of the block that this one has signed."""
        theirs: FinalityFile | None = None
        try:
            theirs = await self._file(other, "/finality", FinalityFile)
            block = check_finality(theirs, self._trust).block
        except (InvalidProof, _NoProof) as failure:
            return Sighting(Outcome.UNPROVEN, f"{other.url}: {failure}")
        except ClientError as failure:
            return Sighting(Outcome.AWAY, f"{other.url}: {failure}")
        last = self._memory.block
        if last is None:
            return Sighting(Outcome.AWAY, f"there is nothing yet to compare with {other.url}")
        try:
            return await self._judge_peer(other, theirs, block, last)
        except (InvalidProof, _NoProof) as failure:
            return Sighting(Outcome.UNPROVEN, f"{self._node.url}, about what {other.url} has seen: {failure}")
        except ClientError as failure:
            return self._unanswered(block, failure)

    def _unanswered(self, signed: ProvenBlock | None, failure: ClientError) -> Sighting:
        """A node that cannot be reached is away. One that refuses to show the past of a signed block hides it."""
        is_passing = not isinstance(failure, ApiError) or failure.status >= SERVER_ERRORS or failure.code in PASSING
        if signed is None or is_passing:
            return Sighting(Outcome.AWAY, f"{self._node.url}: {failure}")
        shown = f"block {signed.header.height} {hex_text(signed.hash)} is signed"
        return Sighting(Outcome.UNPROVEN, f"{shown}, and {self._node.url} does not prove its history: {failure}")

    async def _judge(self, newest: FinalityFile, block: ProvenBlock) -> Sighting:
        height, last = block.header.height, self._memory.block
        shown = f"block {height} {hex_text(block.hash)}"
        if last is None:
            self._memory.sign(newest, block)
            return Sighting(Outcome.SIGNED, f"{shown}, the first that this witness sees")
        if height < last.header.height:
            return Sighting(Outcome.BEHIND, f"{shown}; block {last.header.height} was seen already")
        if height == last.header.height:
            if block.hash == last.hash:
                return Sighting(Outcome.SAME, shown)
            return self._contradicted(self._own(), newest, last, block)
        if not await self._appends(last, block):
            theirs = await self._file(self._node, f"/block/{last.header.height}/finality", FinalityFile)
            return self._contradicted(self._own(), theirs, last, check_finality(theirs, self._trust).block)
        self._memory.sign(newest, block)
        return Sighting(Outcome.SIGNED, shown)

    async def _judge_peer(self, other: Source, theirs: FinalityFile, block: ProvenBlock, last: ProvenBlock) -> Sighting:
        """Whichever of the two blocks is older must be in the history of the other."""
        height = block.header.height
        if height == last.header.height:
            if block.hash != last.hash:
                return self._contradicted(self._own(), theirs, last, block)
        else:
            shown = await self._shown(height)
            if shown is None:
                return Sighting(Outcome.AWAY, f"{other.url} is ahead of {self._node.url}, at block {height}")
            mine = check_finality(shown, self._trust).block
            if mine.hash != block.hash:
                return self._contradicted(shown, theirs, mine, block)
            # It shows what the other has seen: then that has to be the history of this witness, too.
            older, newer = (block, last) if height < last.header.height else (last, block)
            if not await self._appends(older, newer):
                raise _NoProof(f"blocks {older.header.height} and {newer.header.height} are not of one history")
        return Sighting(Outcome.SAME, f"{other.url} has seen block {height}, too")

    async def _shown(self, height: int) -> FinalityFile | None:
        """The node's own block of this height; None if it is not there yet."""
        try:
            return await self._file(self._node, f"/block/{height}/finality", FinalityFile)
        except ApiError as failure:
            last = self._memory.block
            if failure.code in (*PASSING, "BLOCK_NOT_FOUND") and last is not None and height > last.header.height:
                return None
            raise

    async def _appends(self, older: ProvenBlock, newer: ProvenBlock) -> bool:
        """Whether `newer` has `older` in its history, by a proof of the node; False if it proves another one there."""
        query: dict[str, int | str] = {"from": older.header.height, "to": newer.header.height, "known": "true"}
        file = await self._file(self._node, "/history/proof", HistoryFile, query)
        if read_block(file.second.header, self._trust.genesis.chain_id).hash != newer.hash:
            raise _NoProof(f"it has another block than {newer.header.height} {hex_text(newer.hash)}, which is signed")
        mine = msgspec.structs.replace(file, first=hex_text(encode_header(older.header)))
        try:
            check_history(mine, self._trust)
        except InvalidProof:
            shown = await self._file(self._node, "/history/proof", HistoryFile, query | {"known": "false"})
            # Raises unless the node proves some block there.
            proven = check_history(shown, self._trust)
            return proven.first.hash == older.hash and proven.second.hash == newer.hash
        return True

    def _own(self) -> FinalityFile:
        assert self._memory.head is not None, "nothing was signed yet"
        return self._memory.head.finality

    def _contradicted(
        self, first: FinalityFile, second: FinalityFile, one: ProvenBlock, other: ProvenBlock
    ) -> Sighting:
        height = one.header.height
        if height != other.header.height or one.hash == other.hash:
            raise _NoProof(f"asked for block {height}, it gives block {other.header.height}, or the same one")
        path = self._memory.keep_evidence(EvidenceFile(first, second), height)
        shown = f"{hex_text(one.hash)} and {hex_text(other.hash)}"
        return Sighting(Outcome.CONTRADICTED, f"history was rewritten: two blocks {height}, {shown}; evidence: {path}")

    async def _file(self, source: Source, path: str, kind: type[F], query: Query | None = None) -> F:
        file = read_file(await source.fetch(path, query))
        if not isinstance(file, kind):
            raise _NoProof(f"{source.url}{path} is another kind of proof")
        return file
