"""Evidence against a chain: two blocks of one height, both signed, or in the history of signed ones."""

import msgspec

from cairn.domain.errors import InvalidProof
from cairn.domain.proof_checks import FinalBlock, Trust, check_finality
from cairn.domain.proof_files import FinalityFile, parse_fields


class EvidenceFile(msgspec.Struct, frozen=True, tag_field="format", tag="cairn-evidence-1"):
    """Each half is a file of its own, which any verifier checks. Together they contradict each other."""

    first: FinalityFile
    second: FinalityFile


class ProvenFork(msgspec.Struct, frozen=True):
    """Those who sign this chain signed two histories."""

    first: FinalBlock
    second: FinalBlock


def read_evidence(raw: bytes) -> EvidenceFile | None:
    """The evidence in a file; None if it is a file of another kind. Raises `InvalidProof`."""
    fields = parse_fields(raw)
    if fields.get("format") != "cairn-evidence-1":
        return None
    try:
        return msgspec.convert(fields, EvidenceFile)
    except msgspec.ValidationError as error:
        raise InvalidProof(f"the file is no evidence: {error}") from None


def check_evidence(file: EvidenceFile, trust: Trust) -> ProvenFork:
    """Check both halves, and that they contradict each other. Raises `InvalidProof`."""
    first, second = check_finality(file.first, trust), check_finality(file.second, trust)
    heights = first.block.header.height, second.block.header.height
    if heights[0] != heights[1]:
        raise InvalidProof(f"the blocks are of different heights, {heights[0]} and {heights[1]}")
    if first.block.hash == second.block.hash:
        raise InvalidProof(f"both are the same block {heights[0]}")
    return ProvenFork(first, second)
