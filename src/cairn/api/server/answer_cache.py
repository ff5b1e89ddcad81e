"""Ready answers, kept up to a number of bytes."""

from collections import OrderedDict

ENTRY_OVERHEAD_BYTES = 200
"""About what the dictionary, the key and the object headers of one entry take."""


class AnswerCache:
    """Least recently used first out. Only for what never changes: nothing here is ever invalidated."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._answers: OrderedDict[bytes, bytes] = OrderedDict()

    def find(self, key: bytes) -> bytes | None:
        answer = self._answers.get(key)
        if answer is not None:
            self._answers.move_to_end(key)
        return answer

    def keep(self, key: bytes, answer: bytes) -> None:
        # One huge block must not displace everything else.
        if len(answer) > self._max_bytes // 4 or key in self._answers:
            return
        self._answers[key] = answer
        self._size_bytes += len(answer) + ENTRY_OVERHEAD_BYTES
        while self._size_bytes > self._max_bytes:
            _, oldest = self._answers.popitem(last=False)
            self._size_bytes -= len(oldest) + ENTRY_OVERHEAD_BYTES
