"""The outcome of a block that CometBFT proposed or decided, by the chain's rules; computed once."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec
import structlog

from cairn.domain.errors import Fatal, InvalidBlock, NodeError, UpdateRefused
from cairn.domain.governance import EvidenceKind, EvidenceRecord, Governance, Update
from cairn.domain.transition import BlockOutcome
from cairn.domain.types import ZERO_ADDRESS, Address, Tx
from cairn.domain.updates import apply_update
from cairn.engine.abci import requests as m
from cairn.engine.abci.requests import refusal_result
from cairn.engine.abci.wire import NS_PER_S
from cairn.engine.application import Application
from cairn.engine.network.bundle import Bundle
from cairn.engine.network.parsed_txs import Parsed
from cairn.engine.network.proposal import sift
from cairn.store.chain import ChainStore

SHOWN_HEIGHTS = 5

log = structlog.get_logger("cairn.network")


def read_evidence(found: Sequence[m.Misbehavior]) -> list[EvidenceRecord]:
    """As the state holds it. A kind that is not known here is the same for every node."""
    known = set(EvidenceKind)
    return [
        EvidenceRecord(
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


class Judged(NamedTuple):
    """A proposal that was found valid, and its outcome."""

    raws: Sequence[bytes]
    time_ns: int
    proposer_address: bytes
    misbehavior: Sequence[m.Misbehavior]
    results: Sequence[m.TxResult]
    outcome: BlockOutcome


class BlockBuilder:
    def __init__(self, application: Application, chain: ChainStore) -> None:
        self._application = application
        self._chain = chain
        self._rules = chain.genesis.rules
        self._judged: Judged | None = None
        """The proposal that was made or judged last, so that later calls need not compute it again."""

    def check_height(self, request: m.BlockRequest) -> None:
        """Check that the block is the next one. Raises `Fatal`."""
        head = self._chain.head_header.height
        if request.height != head + 1:
            raise Fatal(
                f"CometBFT is at block {request.height}, but the store ends at {head}: they do not fit together"
            )

    def judge(
        self, request: m.BlockRequest, parsed: Sequence[Parsed], txs: Sequence[Tx], governance: Governance | None
    ) -> None:
        """Compute the block's outcome and keep it. Raises `InvalidBlock`."""
        outcome = self._build(request, txs, governance)
        self._judged = Judged(
            tuple(request.txs),
            request.time_ns,
            request.proposer_address,
            tuple(request.misbehavior),
            list(map(_done, parsed)),
            outcome,
        )

    def find_unfit(self, request: m.BlockRequest, txs: Sequence[Tx]) -> Tx | None:
        """The first transfer with which no block can be made of `txs`; None if no transfer is at fault."""
        makes, fails = 0, len(txs)
        if not fails or self._fails(request, ()):
            return None
        while fails - makes > 1:
            middle = (makes + fails) // 2
            if self._fails(request, txs[:middle]):
                fails = middle
            else:
                makes = middle
        return txs[makes]

    def _fails(self, request: m.BlockRequest, txs: Sequence[Tx]) -> bool:
        try:
            self._build(request, txs, None)
        except InvalidBlock:
            return True
        except NodeError:
            raise
        except Exception:
            return True
        return False

    def find_judged(self, request: m.BlockRequest) -> Judged | None:
        """The outcome that `judge` kept, if it was for this block on this head."""
        judged = self._judged
        if judged is None or judged.outcome.block.header.previous_hash != self._chain.head_hash:
            return None
        asked = (request.time_ns, request.proposer_address, tuple(request.misbehavior))
        same = (judged.time_ns, judged.proposer_address, judged.misbehavior) == asked
        return judged if same and judged.raws == tuple(request.txs) else None

    def forget_judged(self) -> None:
        self._judged = None

    def apply(self, request: m.BlockRequest, parsed: Sequence[Parsed]) -> tuple[BlockOutcome, list[m.TxResult]]:
        """A decided block is always applied; transactions in it that break a rule are left out, on every node alike."""
        content = sift(parsed, self._chain, self._rules, self.apply_update)
        results = []
        for item, refusal in zip(parsed, content.refusals, strict=True):
            if refusal is not None:
                log.error("a decided block holds what breaks a rule", height=request.height, reason=refusal.detail)
                results.append(refusal_result(refusal))
            else:
                results.append(_done(item))
        return self._build(request, content.txs, content.governance), results

    def _build(self, request: m.BlockRequest, txs: Sequence[Tx], governance: Governance | None) -> BlockOutcome:
        before = self._chain.governance
        after = governance or before
        if before is not None and after is not None and after.set_changes != before.set_changes:
            after = msgspec.structs.replace(after, set_changed_at=request.height)
        if after is not None and request.misbehavior:
            after = after.with_evidence(read_evidence(request.misbehavior))
        change = None if before is None or after is None or after is before else (before, after)
        proposer: Address | None = None if before is None else before.proposer_of(request.proposer_address)
        return self._application.build(txs, request.time_ns // NS_PER_S, proposer or ZERO_ADDRESS, change)

    def apply_update(self, update: Update) -> Governance:
        """The governance after `update`. Raises `UpdateRefused`."""
        governance = self._chain.governance
        if governance is None:
            raise UpdateRefused("this chain has no validators")
        return apply_update(governance, update, self._chain.identity)

    def validator_updates(self, after: Governance | None) -> list[m.ValidatorPower]:
        """The changed validators, for CometBFT; power 0 removes one."""
        before = self._chain.governance
        if before is None or after is None:
            return []
        old = {validator.public_key: validator.power for validator in before.validators}
        new = {validator.public_key: validator.power for validator in after.validators}
        return [
            m.ValidatorPower(public_key, new.get(public_key, 0))
            for public_key in sorted(old.keys() | new.keys())
            if old.get(public_key) != new.get(public_key)
        ]


def _done(item: Parsed) -> m.TxResult:
    """The result of an item of a block that was applied."""
    txs = item.txs if isinstance(item, Bundle) else (item,) if isinstance(item, Tx) else ()
    gas_used = sum(tx.gas_used for tx in txs)
    return m.TxResult(gas_wanted=gas_used, gas_used=gas_used)
