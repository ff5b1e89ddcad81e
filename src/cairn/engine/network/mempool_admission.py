"""Which transactions CometBFT's mempool accepts, and what follows for our own."""

import contextlib
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from cairn.domain.errors import MempoolFull, NonceTooHigh, NonceTooLow, Rejected, TxRejected
from cairn.domain.governance import Governance, Update
from cairn.domain.types import DropReason, Rules, Tx, TxHash
from cairn.engine.abci import requests as m
from cairn.engine.abci.requests import refusal_result
from cairn.engine.network.bundle import Bundle
from cairn.engine.network.overlay import Overlay
from cairn.engine.network.parsed_txs import Parsed
from cairn.mempool.order import QUEUED, RETURNED
from cairn.mempool.pool import Mempool

_ACCEPTED = m.TxResult()
"""Without gas: the limit of a block is ours (`propose`), and CometBFT has none."""
_SENT_AGAIN = "it is sent again"
_NOTHING_NEW = "it brings nothing new"


class MempoolEvents(Protocol):
    """Listens to what happens to transactions before they are in a block."""

    def dropped(self, drops: Sequence[tuple[TxHash, DropReason]]) -> None:
        """The pool dropped these."""

    def is_any_stale(self, txs: Iterable[Tx]) -> bool:
        """Whether CometBFT must forget `txs`, so that they can be sent again and are offered to its peers again."""


class MempoolAdmission:
    def __init__(
        self,
        overlay: Overlay,
        pool: Mempool,
        rules: Rules,
        events: MempoolEvents,
        apply_update: Callable[[Update], Governance],
        clock: Callable[[], float],
    ) -> None:
        """`apply_update` raises `Rejected`; `clock` gives Unix time."""
        self._overlay = overlay
        self._pool = pool
        self._rules = rules
        self._events = events
        self._apply_update = apply_update
        self._clock = clock

    def check(self, request: m.CheckTxRequest, parsed: Parsed) -> m.TxResult:
        """Judge one parsed transaction, and count it if it is accepted."""
        try:
            if isinstance(parsed, Rejected):
                raise parsed
            if isinstance(parsed, Update):
                self._check_update(parsed)
            elif not isinstance(parsed, Bundle):
                self._check_transfer(parsed, request.recheck)
            elif request.recheck:
                self._recheck_bundle(parsed.txs)
            else:
                self._take_bundle(parsed.txs)
        except (Rejected, MempoolFull) as refusal:
            return refusal_result(refusal)
        return _ACCEPTED

    def check_sample(self, txs: Sequence[Tx], new: Collection[TxHash]) -> None:
        """Judge the first `txs` of a bundle. Raises `Rejected` unless half of those in `new` can be mined."""
        taken, refused = self._overlay.branch().take(txs, self._rules)
        if 2 * sum(tx.hash in new for tx in taken) < len(new):
            raise refused[-1][1] if refused else TxRejected(_NOTHING_NEW)

    def _check_update(self, update: Update) -> None:
        self._overlay.check_update(update)
        self._apply_update(update)
        self._overlay.add_update(update)

    def _recheck_bundle(self, txs: Sequence[Tx]) -> None:
        """A bundle stays while at least one of its transactions can be mined; else the last one's refusal is raised."""
        if self._events.is_any_stale(txs):
            for tx in txs:
                if not self._overlay.is_past(tx):
                    self._return(tx)
            raise TxRejected(_SENT_AGAIN)
        taken, refused = self._overlay.take(txs, self._rules)
        for tx, why in refused:
            self._give_up(tx, why)
        if not taken:
            raise (
                refused[-1][1] if refused else NonceTooLow("its transactions have had their turn, or come with others")
            )

    def _take_bundle(self, txs: Sequence[Tx]) -> None:
        """Refuse a bundle in which the transfers that cannot be mined outnumber those that can. It then has no effect.

        The maker of a bundle checks each transfer first, so few can have become invalid on the way. Transfers that are
        already here do not count: otherwise one valid transfer would be enough for any number of bundles.
        """
        trial = self._overlay.branch()
        taken, refused = trial.take(txs, self._rules)
        for tx, why in refused:
            self._give_up(tx, why)
        if not taken or len(refused) > len(taken):
            for tx in taken:
                self._return(tx)
            raise refused[-1][1] if refused else TxRejected(_NOTHING_NEW)
        self._overlay.merge(trial)
        # Other nodes accepted them, store them and send them again, so we need not; our own are already in the pool.
        now = int(self._clock())
        for tx in taken:
            with contextlib.suppress(Rejected, MempoolFull):
                self._tell_dropped(self._pool.admit(tx, now, local=False).dropped)

    def _check_transfer(self, tx: Tx, recheck: bool) -> None:
        try:
            self._overlay.check(tx)
            if recheck:
                if self._events.is_any_stale((tx,)):
                    raise TxRejected(_SENT_AGAIN)
            else:
                self._tell_dropped(self._pool.admit(tx, int(self._clock()), local=False).dropped)
        except (Rejected, MempoolFull) as refusal:
            self._give_up(tx, refusal)
            raise
        self._overlay.add(tx)

    def _tell_dropped(self, drops: Sequence[tuple[TxHash, DropReason]]) -> None:
        if drops:
            self._events.dropped(drops)

    def _return(self, tx: Tx) -> None:
        """CometBFT's mempool does not have `tx`, or no longer."""
        entry = self._pool.order.entries.get(tx.hash)
        if entry is not None:
            entry.delivery = RETURNED

    def _give_up(self, tx: Tx, refusal: Rejected | MempoolFull) -> None:
        """CometBFT removes `tx`. One of another node is also dropped here, unless only its nonce was too high."""
        entry = self._pool.find(tx.hash)
        if entry is None:
            return
        entry.delivery = RETURNED
        if not entry.local and (entry.lead == QUEUED or not isinstance(refusal, NonceTooHigh)):
            self._events.dropped(self._pool.remove(tx.hash))
