"""Evidence against validators in a block: taken over from CometBFT, and told to the operators of every node."""

from collections.abc import Sequence
from itertools import groupby

import structlog

from cairn.domain.governance import Evidence, EvidenceKind, Governance
from cairn.engine.abci import requests as m
from cairn.engine.abci.wire import NS_PER_S

SHOWN_HEIGHTS = 5

log = structlog.get_logger("cairn.network")


def read_evidence(found: Sequence[m.Misbehavior]) -> list[Evidence]:
    """As the state holds it. A kind that is not known here is the same for every node."""
    known = set(EvidenceKind)
    return [
        Evidence(
            EvidenceKind(each.kind) if each.kind in known else EvidenceKind.UNKNOWN,
            each.engine_address,
            each.height,
            each.time_ns // NS_PER_S,
        )
        for each in found
    ]


def tell_evidence(before: Governance, after: Governance, height: int) -> None:
    """Log what the block at `height` brought: one line for each validator and kind, however many pieces there are."""
    count = after.evidence_count - before.evidence_count
    # Of none, the slice would be all.
    found = after.evidence[-count:] if count else ()
    pieces = sorted(found, key=lambda each: (each.engine_address, each.kind, each.height))
    for (engine_address, kind), same in groupby(pieces, key=lambda each: (each.engine_address, each.kind)):
        group = list(same)
        log.error(
            "a validator broke the rules of consensus",
            validator=group[0].name or "not known",
            address=engine_address.hex().upper(),
            kind=kind.name.lower(),
            heights=[each.height for each in group[:SHOWN_HEIGHTS]],
            pieces=len(group),
            block=height,
            pieces_so_far=after.evidence_count,
        )
