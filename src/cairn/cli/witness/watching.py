"""Follows the signed blocks of a node, and tells when they are not one history.

Each new block is signed only if the node proves that it appends to the one signed before. If the node signed another
block of a height that this witness has seen, or its history holds another one there, the two together are evidence.
Whatever a node merely fails to prove is told, too, but is no evidence: it may be cut off, behind, or have pruned.
"""

from enum import StrEnum
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from cairn.cli.witness.memory import Memory
from cairn.client.errors import ClientError
from cairn.domain.certificates import hex_text
from cairn.domain.errors import InvalidProof
from cairn.domain.evidence import EvidenceFile
from cairn.domain.genesis import Genesis
from cairn.domain.headers import encode_header
from cairn.domain.proof_checks import ProvenBlock, Trust, check_finality, check_head, check_history
from cairn.domain.proof_files import BlockPath, FinalityFile, HistoryFile, ProofFile, read_file

F = TypeVar("F", bound=ProofFile)


class Source(Protocol):
    """A node, or another witness."""

    @property
    def url(self) -> str: ...

    async def fetch(self, path: str, query: dict[str, int] | None = None) -> bytes:
        """The answer to a GET. Raises `ClientError`."""


class Outcome(StrEnum):
    SIGNED = "signed"
    """A new block appends to the last one."""
    SAME = "same"
    """There is no new one."""
    BEHIND = "behind"
    """The newest signed block of the node is below what this witness has seen."""
    AWAY = "away"
    """The node does not answer, or has no proof."""
    UNPROVEN = "unproven"
    """What the node gives as a proof is none."""
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
        try:
            newest = await self._newest()
            last = self._memory.block
            return await self._judge(newest, last)
        except (InvalidProof, _NoProof) as failure:
            return Sighting(Outcome.UNPROVEN, f"{self._node.url}: {failure}")
        except ClientError as failure:
            return Sighting(Outcome.AWAY, f"{self._node.url}: {failure}")

    async def compare(self, other: Source) -> Sighting:
        """Compare what another witness has signed with the history that this one sees."""
        try:
            theirs = await self._file(other, "/finality", FinalityFile)
            block = check_finality(theirs, self._trust).block
            last = self._memory.block
            if last is None or block.header.height > last.header.height:
                return Sighting(Outcome.AWAY, f"{other.url} is ahead, at block {block.header.height}")
            ours = await self._file(self._node, f"/block/{block.header.height}/finality", FinalityFile)
            mine = check_finality(ours, self._trust).block
            if mine.hash == block.hash:
                return Sighting(Outcome.SAME, f"{other.url} has seen block {block.header.height}, too")
            return self._contradicted(ours, theirs, mine, block, f"{other.url} has seen another block")
        except (InvalidProof, _NoProof) as failure:
            return Sighting(Outcome.UNPROVEN, f"{other.url}: {failure}")
        except ClientError as failure:
            return Sighting(Outcome.AWAY, f"{other.url}: {failure}")

    async def _judge(self, newest: FinalityFile, last: ProvenBlock | None) -> Sighting:
        block = check_finality(newest, self._trust).block
        height = block.header.height
        shown = f"block {height} {hex_text(block.hash)}"
        if last is None:
            self._memory.sign(newest, block)
            return Sighting(Outcome.SIGNED, f"{shown}, the first that this witness sees")
        if height < last.header.height:
            return Sighting(Outcome.BEHIND, f"{shown}; block {last.header.height} was seen already")
        if height == last.header.height:
            if block.hash == last.hash:
                return Sighting(Outcome.SAME, shown)
            assert self._memory.head is not None
            return self._contradicted(self._memory.head.finality, newest, last, block, "the node has another block")
        return await self._judge_later(newest, block, last)

    async def _judge_later(self, newest: FinalityFile, block: ProvenBlock, last: ProvenBlock) -> Sighting:
        """Sign the newer block, if its history begins with that of the last one."""
        query = {"from": last.header.height, "to": block.header.height}
        file = await self._file(self._node, "/history/proof", HistoryFile, query)
        if file.first == "0x":
            # The node has removed the block; this witness knows it.
            file = msgspec.structs.replace(file, first=hex_text(encode_header(last.header)))
        proven = check_history(file, self._trust)
        if proven.first.hash != last.hash:
            return await self._find_contradiction(last)
        if proven.second.hash != block.hash:
            raise _NoProof(f"it proves the history of another block than {hex_text(block.hash)}")
        self._memory.sign(newest, block)
        return Sighting(Outcome.SIGNED, f"block {block.header.height} {hex_text(block.hash)}")

    async def _find_contradiction(self, last: ProvenBlock) -> Sighting:
        """The node's history has another block where one was signed: ask for it, with the signature above it."""
        theirs = await self._file(self._node, f"/block/{last.header.height}/finality", FinalityFile)
        block = check_finality(theirs, self._trust).block
        assert self._memory.head is not None
        return self._contradicted(self._memory.head.finality, theirs, last, block, "the node's history was rewritten")

    def _contradicted(
        self, ours: FinalityFile, theirs: FinalityFile, mine: ProvenBlock, other: ProvenBlock, what: str
    ) -> Sighting:
        if mine.header.height != other.header.height or mine.hash == other.hash:
            raise _NoProof(f"asked for block {mine.header.height}, it gives {other.header.height}, or the same one")
        height = mine.header.height
        path = self._memory.keep_evidence(EvidenceFile(ours, theirs), height)
        shown = f"{hex_text(mine.hash)} was seen, and {hex_text(other.hash)} is signed now"
        return Sighting(Outcome.CONTRADICTED, f"{what}: of block {height}, {shown}; evidence: {path}")

    async def _newest(self) -> FinalityFile:
        """The newest signed block of the node."""
        file = await self._file(self._node, "/history/proof", HistoryFile)
        certificate = file.certificate
        check_head(file, self._trust)
        return FinalityFile(certificate=certificate, block=BlockPath(certificate.header, []))

    async def _file(self, source: Source, path: str, kind: type[F], query: dict[str, int] | None = None) -> F:
        file = read_file(await source.fetch(path, query))
        if not isinstance(file, kind):
            raise _NoProof(f"{source.url}{path} is another kind of proof")
        return file
