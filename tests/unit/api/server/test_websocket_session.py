"""The application behind a WebSocket is asked in order, and whatever it does, the client has an answer."""

import asyncio

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.testing import capture_logs

from cairn.api.server.websocket_session import Session
from cairn.domain.errors import NodeError


class Answers:
    """A connection that notes what becomes of it."""

    def __init__(self) -> None:
        self.noted: list[object] = []

    def accept(self) -> None:
        self.noted.append("accepted")

    def refuse(self, error: NodeError) -> None:
        if not self.noted:
            self.noted.append(error.code)

    def all_answered(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def end(self) -> None:
        self.noted.append("ended")


def noted_of(app: ASGIApp) -> list[object]:
    async def main() -> list[object]:
        connection = Answers()
        await Session(connection).run(app, {})
        return connection.noted

    return asyncio.run(main())


def test_a_client_that_goes_before_the_application_begins() -> None:
    heard: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        heard.extend([await receive(), await receive()])

    async def main() -> None:
        session = Session(Answers())
        session.disconnect()
        await session.run(app, {})
        assert session.has_read_all

    asyncio.run(main())
    assert [message["type"] for message in heard] == ["websocket.connect", "websocket.disconnect"]


def test_accepted() -> None:
    async def accepting(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})

    assert noted_of(accepting) == ["accepted", "ended"]


@pytest.mark.parametrize("message", [None, {"type": "websocket.send", "text": ""}])
def test_an_application_that_answers_nothing_has_failed(message: Message | None) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if message is not None:
            await send(message)

    with capture_logs() as logged:
        assert noted_of(app) == ["INTERNAL", "ended"]
    assert [entry["event"] for entry in logged] == (["a WebSocket failed"] if message else [])
