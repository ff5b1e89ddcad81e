"""The messages that a WebSocket's client sends, put together from frames."""

from starlette.types import Message
from websockets.frames import CloseCode, Frame, Opcode

MAX_FRAGMENTS = 1_024
"""Fragments of one message: empty ones would never reach the size limit."""


class BrokenProtocol(Exception):
    """The client broke the protocol."""

    def __init__(self, code: CloseCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class MessageReader:
    """The messages of one socket."""

    def __init__(self) -> None:
        self._fragments: list[bytes] = []
        self._is_text = False

    def add(self, frame: Frame) -> Message | None:
        """Process a data frame. Returns the message that it completes, if any. Raises `BrokenProtocol`."""
        if frame.opcode is not Opcode.CONT:
            self._is_text = frame.opcode is Opcode.TEXT
            self._fragments = []
        if len(self._fragments) >= MAX_FRAGMENTS:
            raise BrokenProtocol(CloseCode.POLICY_VIOLATION, f"a message has at most {MAX_FRAGMENTS} fragments")
        self._fragments.append(bytes(frame.data))
        if not frame.fin:
            return None
        data = b"".join(self._fragments)
        self._fragments = []
        if not self._is_text:
            return {"type": "websocket.receive", "bytes": data}
        try:
            return {"type": "websocket.receive", "text": data.decode()}
        except UnicodeDecodeError:
            raise BrokenProtocol(CloseCode.INVALID_DATA, "a text message must be UTF-8") from None
