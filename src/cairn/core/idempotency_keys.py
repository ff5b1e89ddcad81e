"""Idempotency keys: what came with a key before, so that a repetition is not paid again and gets the first answer.

The table is in memory. It outlives a store that is opened again, and ends with the core's process.
"""

import time
from collections.abc import Callable

from cairn.core.gateway import Admission, KeyedRequest, Reply
from cairn.domain.errors import IdempotencyKeyReused
from cairn.domain.types import Tx

MOST_PAYMENTS = 1_000
"""With a further one, the key that was answered longest ago is forgotten."""
LIFETIME_S = 3_600
"""How long a key is kept after its payment was answered."""


class KeyedPayment:
    """A payment with an idempotency key. It is open from its reservation until it is answered."""

    def __init__(self, keyed: KeyedRequest) -> None:
        self.keyed = keyed
        self.tx: Tx | None = None
        """The transaction that was signed for it."""
        self.answer: Admission | None = None
        self.waiting: list[Reply] = []
        """Of those who asked for it while it is open."""


class _Request:
    """What has a key: one payment, or a list of them."""

    def __init__(self, digest: bytes) -> None:
        self.digest = digest
        self.payments: dict[bytes | None, KeyedPayment] = {}
        """By what identifies each in a list."""
        self.closed_at = 0.0

    @property
    def is_open(self) -> bool:
        return any(payment.answer is None for payment in self.payments.values())


class IdempotencyKeys:
    """Open payments, whatever their number, and the answered ones up to `MOST_PAYMENTS`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds, and never goes back."""
        self._clock = clock
        self._open: dict[bytes, _Request] = {}
        """By key. They are as many as there are requests at a time, and none is forgotten: it would be paid twice."""
        self._closed: dict[bytes, _Request] = {}
        """By key, the one that was closed longest ago first."""
        self._closed_payments = 0
        """How many payments these have."""

    def find(self, keyed: KeyedRequest) -> KeyedPayment | None:
        """The payment that came with this key before. Raises `IdempotencyKeyReused` if another request did."""
        self._expire()
        request = self._open.get(keyed.key) or self._closed.get(keyed.key)
        if request is None:
            return None
        if request.digest != keyed.request:
            raise IdempotencyKeyReused(
                "this Idempotency-Key came with another request before: repeat that one unchanged, or use a new key"
            )
        return request.payments.get(keyed.item)

    def reserve(self, keyed: KeyedRequest) -> KeyedPayment:
        """Give the key to a payment that `find` has just not found, until it is answered or released."""
        closed = self._closed.pop(keyed.key, None)
        if closed is not None:
            self._closed_payments -= len(closed.payments)
            self._open[keyed.key] = closed
        request = self._open.setdefault(keyed.key, _Request(keyed.request))
        assert request.digest == keyed.request, "another request has this key"
        assert keyed.item not in request.payments, "this payment is known"
        payment = request.payments[keyed.item] = KeyedPayment(keyed)
        return payment

    def answer(self, payment: KeyedPayment, admission: Admission) -> None:
        """It is on disk: from now on a repetition gets this answer."""
        payment.answer = admission
        self._close(payment.keyed.key)

    def release(self, payment: KeyedPayment) -> None:
        """It was refused, so nothing was paid: the key is free for another attempt."""
        key = payment.keyed.key
        del self._open[key].payments[payment.keyed.item]
        self._close(key)

    def match_store(self, find_admitted: Callable[[Tx], Admission | None]) -> None:
        """The store was opened again. `find_admitted` says how it has a transaction; None if it does not have it.

        A payment that was open when the store failed is answered, if the store has it. Any that the store does not
        have is forgotten: it did not get on disk, or a revert took it back.
        """
        for request in self._open.values():
            request.closed_at = self._clock()
        requests = self._closed | self._open
        for request in requests.values():
            for item, payment in list(request.payments.items()):
                found = None if payment.tx is None else find_admitted(payment.tx)
                payment.answer = payment.answer or found
                if found is None:
                    del request.payments[item]
        self._open = {}
        self._closed = {key: request for key, request in requests.items() if request.payments}
        self._closed_payments = sum(len(request.payments) for request in self._closed.values())
        self._forget_surplus()

    def _close(self, key: bytes) -> None:
        request = self._open[key]
        if request.is_open:
            return
        del self._open[key]
        if request.payments:
            request.closed_at = self._clock()
            self._closed[key] = request
            self._closed_payments += len(request.payments)
            self._forget_surplus()

    def _expire(self) -> None:
        limit = self._clock() - LIFETIME_S
        while self._closed and next(iter(self._closed.values())).closed_at <= limit:
            self._forget_oldest()

    def _forget_surplus(self) -> None:
        while self._closed_payments > MOST_PAYMENTS:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        oldest = self._closed.pop(next(iter(self._closed)))
        self._closed_payments -= len(oldest.payments)
