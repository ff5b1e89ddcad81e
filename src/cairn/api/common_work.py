"""Work whose result several requests need at the same time: they do it together, and only once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from cairn.domain.errors import NodeError
from cairn.time_shares import in_slices

MOST_BEGUN = 8


@dataclass(slots=True)
class _Begun:
    rest: Iterator[bytes]
    pieces: list[bytes] = field(default_factory=list)
    failure: Exception | None = None


class CommonWork:
    """Each request continues where the others are, in its client's own turns: none of them waits for another."""

    def __init__(self) -> None:
        self._begun: dict[bytes, _Begun] = {}

    async def do(self, key: bytes, begin: Callable[[], Iterator[bytes]]) -> list[bytes]:
        """All pieces of the work that `begin` begins, unless it has begun already. If it fails, it fails for all."""
        work = self._begun.get(key)
        if work is None:
            work = self._begun[key] = _Begun(begin())
            if len(self._begun) > MOST_BEGUN:
                # Everybody who wanted the oldest may have left. Those who have not still have it.
                del self._begun[next(iter(self._begun))]
        try:
            async for piece in in_slices(work.rest):
                work.pieces.append(piece)
        except Exception as failure:
            # A defect is logged with its traceback; of the others nobody needs it.
            work.failure = failure.with_traceback(None) if isinstance(failure, NodeError) else failure
        self._begun.pop(key, None)
        if work.failure is not None:
            # For the others it has only ended, as if it were complete.
            raise work.failure
        return work.pieces
