"""Which transactions make a block: chosen for our own proposal, judged in another's. Pure functions."""

import heapq
from collections.abc import Callable, Iterator, Sequence, Set
from typing import NamedTuple

from cairn.domain.errors import InvalidBlock, Rejected, TxRejected, UpdateRefused
from cairn.domain.governance import Governance, Update
from cairn.domain.state_tree import StateView
from cairn.domain.transition import Ledger
from cairn.domain.types import Address, Rules, Tx, TxHash
from cairn.engine.abci.wire import proposed_size_bytes
from cairn.engine.network.bundle import MOST, Bundle, encode_batches
from cairn.engine.network.parsed_txs import Parsed

ApplyUpdate = Callable[[Update], Governance]
"""The governance after an update of the committed one. Raises `Rejected`."""
BUNDLE_HEAD_BYTES = 7
"""What a bundle adds to the size of its transfers, at most: its first byte, its tag and a length of five bytes."""


class Content(NamedTuple):
    """The parsed content of a block."""

    txs: list[Tx]
    governance: Governance | None
    refusals: list[Rejected | InvalidBlock | None]
    """For each item of the block, why it, or the first such transfer in it, is left out; or None."""


def read_strictly(parsed: Sequence[Parsed], apply_update: ApplyUpdate) -> tuple[list[Tx], Governance | None]:
    """The content of a proposed block. Raises `Rejected` for an invalid item; nonces and balances are not checked."""
    txs: list[Tx] = []
    governance: Governance | None = None
    for item in parsed:
        if isinstance(item, Bundle):
            txs += item.txs
        elif isinstance(item, Tx):
            txs.append(item)
        elif isinstance(item, Rejected):
            raise item
        elif governance is not None:
            raise UpdateRefused("a block has room for one update")
        else:
            governance = apply_update(item)
    return txs, governance


def sift(parsed: Sequence[Parsed], view: StateView, rules: Rules, apply_update: ApplyUpdate) -> Content:
    """The content of a decided block; what breaks a rule is left out."""
    ledger = Ledger(view, rules)
    content = Content([], None, [])
    for item in parsed:
        refusal: Rejected | InvalidBlock | None = None
        try:
            txs, governance = read_strictly([item], apply_update)
            if governance is not None:
                if content.governance is not None:
                    raise UpdateRefused("a block has room for one update")
                content = content._replace(governance=governance)
        except Rejected as refused:
            txs, refusal = [], refused
        for tx in txs:
            try:
                ledger.apply(tx)
                content.txs.append(tx)
            except (TxRejected, InvalidBlock) as refused:
                refusal = refusal or refused
        content.refusals.append(refusal)
    return content


def read_offer(raws: Sequence[bytes], parsed: Sequence[Parsed], rules: Rules, max_bytes: int) -> list[Tx] | None:
    """The transfers of a proposal that takes everything that CometBFT offers, unchanged. Nonces and balances are not
    checked.

    None if a choice is needed: the offer is too large, holds anything else, or is not ordered by price. A bundle that
    is in a block unchanged need not be checked again by CometBFT after that block.
    """
    if not all(isinstance(item, Tx | Bundle) for item in parsed):
        return None
    txs = [tx for _, tx in _transfers(raws, parsed)]
    if len({tx.gas_price for tx in txs}) > 1 or sum(map(proposed_size_bytes, raws)) > max_bytes:
        return None
    return txs if sum(tx.gas_used for tx in txs) <= rules.block_gas_limit else None


class _Candidate(NamedTuple):
    nonce: int
    price_rank: int
    """The inverse of the gas price: of two with one nonce, the better paid comes first."""
    arrival: int
    raw: bytes
    tx: Tx


def propose(
    raws: Sequence[bytes],
    parsed: Sequence[Parsed],
    view: StateView,
    rules: Rules,
    max_bytes: int,
    apply_update: ApplyUpdate,
    unfit: Set[TxHash] = frozenset(),
) -> list[bytes]:
    """A chosen proposal: each sender's by nonce, the best price first among senders, and only valid ones.

    It ends where the next one has no room in the block any more. Those in `unfit` are left out.
    """
    room_bytes = max_bytes
    update = _find_update(raws, parsed, apply_update)
    if update is not None and (size_bytes := proposed_size_bytes(update)) <= room_bytes:
        room_bytes -= size_bytes
    else:
        update = None
    chosen: list[bytes] = []
    by_sender = _sorted_by_sender(raws, parsed)
    heads = [(sender_txs[-1].price_rank, sender_txs[-1].arrival, sender) for sender, sender_txs in by_sender.items()]
    heapq.heapify(heads)
    ledger = Ledger(view, rules)
    while heads:
        sender = heads[0][2]
        sender_txs = by_sender[sender]
        candidate = sender_txs.pop()
        if ledger.gas_used and ledger.gas_used + candidate.tx.gas_used > rules.block_gas_limit:
            break
        size_bytes = proposed_size_bytes(candidate.raw) + (0 if len(chosen) % MOST else BUNDLE_HEAD_BYTES)
        if size_bytes <= room_bytes and candidate.tx.hash not in unfit and _fits(ledger, candidate.tx):
            room_bytes -= size_bytes
            chosen.append(candidate.raw)
        if sender_txs:
            heapq.heapreplace(heads, (sender_txs[-1].price_rank, sender_txs[-1].arrival, sender))
        else:
            heapq.heappop(heads)
    batches = encode_batches(chosen)
    return batches if update is None else [update, *batches]


def _fits(ledger: Ledger, tx: Tx) -> bool:
    try:
        ledger.apply(tx)
    except (TxRejected, InvalidBlock):
        return False
    return True


def _find_update(raws: Sequence[bytes], parsed: Sequence[Parsed], apply_update: ApplyUpdate) -> bytes | None:
    for raw, item in zip(raws, parsed, strict=True):
        if isinstance(item, Update):
            try:
                apply_update(item)
            except Rejected:
                continue
            return raw
    return None


def _sorted_by_sender(raws: Sequence[bytes], parsed: Sequence[Parsed]) -> dict[Address, list[_Candidate]]:
    """Each sender's candidates, the next one last."""
    by_sender: dict[Address, list[_Candidate]] = {}
    for arrival, (raw, tx) in enumerate(_transfers(raws, parsed)):
        by_sender.setdefault(tx.sender, []).append(_Candidate(tx.nonce, -tx.gas_price, arrival, raw, tx))
    for sender_txs in by_sender.values():
        sender_txs.sort(reverse=True)
    return by_sender


def _transfers(raws: Sequence[bytes], parsed: Sequence[Parsed]) -> Iterator[tuple[bytes, Tx]]:
    for raw, item in zip(raws, parsed, strict=True):
        if isinstance(item, Tx):
            yield raw, item
        elif isinstance(item, Bundle):
            yield from zip(item.raws, item.txs, strict=True)
