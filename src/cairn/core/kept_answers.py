"""What was answered to requests with an idempotency key, so that a repetition gets the same answer."""

from cairn.core.gateway import Admission, KeyedRequest
from cairn.domain.errors import IdempotencyKeyReused
from cairn.store.journal import Journal, KeptAnswer

MOST_ANSWERS = 10_000
"""The oldest is forgotten for a further one."""
ANSWER_LIFETIME_S = 24 * 3_600
"""How long an answer is kept, counted while the node runs: an outage must not outlast it."""


class KeptAnswers:
    """The newest answers, by key. They are on disk with the journal's next sync."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._by_key = {answer.key: answer for answer in journal.recovered_answers}
        """The oldest first."""
        journal.recovered_answers.clear()
        self._forget_surplus()

    def find(self, keyed: KeyedRequest) -> Admission | None:
        """The answer to the first request with this key. Raises `IdempotencyKeyReused` if that was another one."""
        found = [self._by_key.get(key) for key in keys_of(keyed)]
        if any(answer is not None and answer.request != keyed.request for answer in found):
            raise IdempotencyKeyReused(
                "this Idempotency-Key came with another request before: repeat that one unchanged, or use a new key"
            )
        answer = found[-1]
        return None if answer is None else Admission(answer.tx_hash, answer.confirmed)

    def keep(self, keyed: KeyedRequest, admission: Admission, received_at: int, up_s: int) -> None:
        """Keep the answer to a new key, or to a further transaction of a list."""
        for key in keys_of(keyed):
            if key not in self._by_key:
                answer = KeptAnswer(key, keyed.request, admission.tx_hash, admission.confirmed, received_at, up_s)
                self._by_key[key] = answer
                self._journal.append_answer(answer)
        self._forget_surplus()

    def expire(self, up_s: int) -> None:
        """Forget the answers that are too old, at this uptime of the node."""
        while self._by_key:
            oldest = next(iter(self._by_key.values()))
            if up_s < oldest.answered_at + ANSWER_LIFETIME_S:
                return
            self._forget(oldest.key)

    def all(self) -> list[KeptAnswer]:
        """The oldest first."""
        return list(self._by_key.values())

    def _forget_surplus(self) -> None:
        while len(self._by_key) > MOST_ANSWERS:
            self._forget(next(iter(self._by_key)))

    def _forget(self, key: bytes) -> None:
        del self._by_key[key]
        self._journal.settle_answer(key)


def keys_of(keyed: KeyedRequest) -> tuple[bytes, ...]:
    """The key of the request, which says that no other may have it, and that of the answer."""
    return (keyed.key,) if keyed.item is None else (keyed.key, keyed.item)
