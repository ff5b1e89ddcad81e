"""A `Connection` of the event hub that keeps what it is given, for tests that need no network."""

import json
from collections.abc import Callable
from typing import Any


def decode_frames(data: bytes) -> list[dict[str, Any]]:
    """The JSON messages in a run of whole, unmasked text frames."""
    messages, at = [], 0
    while at < len(data):
        assert data[at] == 0x81
        size, start = data[at + 1], at + 2
        if size == 126:
            size, start = int.from_bytes(data[at + 2 : at + 4], "big"), at + 4
        messages.append(json.loads(data[start : start + size]))
        at = start + size
    return messages


class RecordingSocket:
    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.paused = False
        self.closed: tuple[int, str] | None = None
        self._resumed: Callable[[], None] = lambda: None

    @property
    def messages(self) -> list[dict[str, Any]]:
        return decode_frames(b"".join(self.writes))

    @property
    def heights(self) -> list[int]:
        return [message["blockHeight"] for message in self.messages if message["event"] == "newBlock"]

    def on_resume(self, listener: Callable[[], None]) -> None:
        self._resumed = listener

    def resume(self) -> None:
        if self.paused:
            self.paused = False
            self._resumed()

    def write(self, data: bytes) -> None:
        assert data
        assert not self.paused, "written to a full socket"
        self.writes.append(data)

    def close(self, code: int, reason: str) -> None:
        self.closed = (code, reason)
        self.paused = True
