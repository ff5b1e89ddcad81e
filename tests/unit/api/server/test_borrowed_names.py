"""What the API uses of uvicorn and websockets beyond their documentation: every name, what it is used for, and a proof.

A release of either library can change these without being wrong. Each name in `BORROWED` has a test on the library's
own classes that shows what we rely on, and the sources may use no other: a new use needs a line here, and a proof.
"""

import ast
import asyncio
import inspect
import socket
import textwrap
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import httptools
import pytest
import uvicorn
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState
from websockets.client import ClientProtocol
from websockets.frames import Close, CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

import cairn.api
from tests.support.pace import PATIENCE_S

BORROWED = {
    "HttpToolsProtocol.transport": "set when the connection is made",
    "HttpToolsProtocol.parser": "the parser that is asked about the request; it can be replaced",
    "HttpToolsProtocol.on_message_begin": "called by our parser's callback of that name, as are the next five",
    "HttpToolsProtocol.on_url": "",
    "HttpToolsProtocol.on_header": "",
    "HttpToolsProtocol.on_headers_complete": "begins the request's cycle",
    "HttpToolsProtocol.on_body": "",
    "HttpToolsProtocol.on_message_complete": "",
    "HttpToolsProtocol.url": "the target of the request that is being read",
    "HttpToolsProtocol.headers": "its headers so far, with names in lower case",
    "HttpToolsProtocol.scope": "what the application is told of it; its client can be replaced before it begins",
    "HttpToolsProtocol.cycle": "the newest request; None before the first",
    "HttpToolsProtocol.pipeline": "requests that wait for their turn, the newest first",
    "HttpToolsProtocol._start_asgi_task": "gives the next of them its turn",
    "HttpToolsProtocol.on_response_complete": "replaced: told when an answer has ended",
    "HttpToolsProtocol.flow": "replaced when the connection is made: whom uvicorn asks to read, or not",
    "RequestResponseCycle.response_started": "",
    "RequestResponseCycle.response_complete": "",
    "RequestResponseCycle.keep_alive": "set to False: the connection ends with the answer",
    "RequestResponseCycle.disconnected": "set to True: the application is told that nobody waits for the answer",
    "RequestResponseCycle.body": "emptied: the application will not ask for it any more",
    "RequestResponseCycle.message_event": "set, so that the application hears of it",
    "RequestResponseCycle.waiting_for_100_continue": "set to False: the client is not told to go on",
    "FlowControl.pause_reading": "",
    "FlowControl.resume_reading": "extended: nothing is read while something is held",
    "FlowControl.read_paused": "",
    "FlowControl.write_paused": "the client does not read its answers",
    "ServerState.connections": "all that are open; ours are put there too",
    "ServerState.tasks": "what the application is at",
    "ServerState.default_headers": "what every answer carries",
}

DOCUMENTED = {
    "ServerProtocol.receive_data",
    "ServerProtocol.events_received",
    "ServerProtocol.data_to_send",
    "ServerProtocol.accept",
    "ServerProtocol.send_response",
    "ServerProtocol.handshake_exc",
    "ServerProtocol.send_ping",
    "ServerProtocol.send_close",
    "ServerProtocol.close_expected",
    "ServerProtocol.fail",
}
"""Of websockets' Sans-I/O interface. They are proven like the others: the API is on nothing else of that class."""

IMPORTED = {
    "uvicorn.protocols.http.flow_control": {"FlowControl"},
    "uvicorn.protocols.http.httptools_impl": {"HttpToolsProtocol", "RequestResponseCycle"},
    "uvicorn.server": {"ServerState"},
    "websockets.exceptions": {
        "HeaderLineTooLong", "InvalidMethod", "InvalidUpgrade", "RequestLineTooLong", "TooManyHeaders",
    },
    "websockets.frames": {"CloseCode", "Frame", "Opcode"},
    "websockets.http11": {"Request", "Response"},
    "websockets.server": {"ServerProtocol"},
}  # fmt: skip
"""Besides `uvicorn.Config`, which is all that is used of uvicorn's documented interface."""

OF_UVICORN = ("HttpToolsProtocol", "RequestResponseCycle", "FlowControl", "ServerState")
CLASSES: dict[str, type] = {
    "HttpToolsProtocol": HttpToolsProtocol,
    "RequestResponseCycle": RequestResponseCycle,
    "FlowControl": FlowControl,
    "ServerState": ServerState,
    "ServerProtocol": ServerProtocol,
}
HOLDERS = {
    "_connection": "HttpToolsProtocol",
    "cycle": "RequestResponseCycle",
    "_served": "RequestResponseCycle",
    "last": "RequestResponseCycle",
    "flow": "FlowControl",
    "_flow": "FlowControl",
    "server_state": "ServerState",
    "_frames": "ServerProtocol",
}
"""Under which names our sources hold an object of theirs."""

SOURCE = Path(cairn.api.__file__).parent
TREES = {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}

T = TypeVar("T")
PROVEN: set[str] = set()


def proves(*names: str) -> Callable[[T], T]:
    PROVEN.update(names)
    return lambda test: test


# What the sources use.


def inner_names(cls: type) -> set[str]:
    """Attributes and methods of the library's class, but for what asyncio itself asks of a protocol."""
    found = {name for name in vars(cls) if not name.startswith("__")}
    for parent in cls.__mro__[:-1]:
        if parent.__module__.split(".")[0] in ("uvicorn", "websockets"):
            tree = ast.parse(textwrap.dedent(inspect.getsource(parent)))
            attributes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
            found |= {node.attr for node in attributes if holder_of(node) == "self"}
            found |= vars(parent).keys() - dir(object)
    return found - set(dir(asyncio.Protocol))


def holder_of(node: ast.Attribute) -> str:
    """The name before the dot, such as `cycle` in `self.cycle.keep_alive`."""
    value = node.value
    return value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""


INNER = {name: inner_names(cls) for name, cls in CLASSES.items()}


def uses_of(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in INNER.get(HOLDERS.get(holder_of(node), ""), ()):
            yield f"{HOLDERS[holder_of(node)]}.{node.attr}"
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                if isinstance(base, ast.Name) and base.id in CLASSES:
                    yield from uses_by_subclass(node, base.id)


def uses_by_subclass(node: ast.ClassDef, base: str) -> Iterator[str]:
    """What it reads or writes of itself, extends by `super()`, or replaces."""
    for inside in ast.walk(node):
        if isinstance(inside, ast.Attribute) and inside.attr in INNER[base]:
            value = inside.value
            is_super = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "super"
            if is_super or holder_of(inside) == "self":
                yield f"{base}.{inside.attr}"
        elif isinstance(inside, ast.FunctionDef | ast.AsyncFunctionDef) and inside.name in INNER[base]:
            yield f"{base}.{inside.name}"


def own_names() -> set[str]:
    """What our own classes are made of, and what every object of Python's may have."""
    nodes = [node for tree in TREES.values() for node in ast.walk(tree)]
    methods = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    fields = {node.target.id for node in nodes if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
    stored = (node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
    assigned = {node.attr for node in stored if holder_of(node) == "self"}
    return methods | fields | assigned | set(dir(asyncio.Transport)) | set(dir(set))


def test_the_sources_use_what_is_listed_and_nothing_else() -> None:
    used = {name: set(uses_of(tree)) for name, tree in TREES.items()}
    listed = BORROWED.keys() | DOCUMENTED
    unlisted = {name: uses - listed for name, uses in used.items() if uses - listed}
    assert not unlisted, "inner names that are not listed in BORROWED"
    assert listed == set().union(*used.values()), "listed, but not used any more"


def test_no_inner_name_is_reached_under_a_name_that_the_scan_does_not_know() -> None:
    listed = {name.partition(".")[2] for name in BORROWED}
    suspicious = set().union(*(INNER[cls] for cls in OF_UVICORN)) - own_names() - listed
    for name, tree in TREES.items():
        # Elsewhere in the API, Starlette's requests have some of the same names.
        if name.startswith("server/"):
            found = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} & suspicious
            assert not found, f"{name} uses {found}"


def test_the_sources_import_what_is_listed_and_nothing_else() -> None:
    imported: dict[str, set[str]] = {}
    for tree in TREES.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("uvicorn", "websockets"):
                imported.setdefault(node.module or "", set()).update(alias.name for alias in node.names)
            if isinstance(node, ast.Attribute) and holder_of(node) == "uvicorn":
                assert node.attr == "Config"
            if isinstance(node, ast.Import):
                assert all(alias.name.partition(".")[0] != "websockets" for alias in node.names)
    assert imported == IMPORTED


def test_each_is_proven() -> None:
    assert BORROWED.keys() | DOCUMENTED == PROVEN


# What we rely on, shown on uvicorn's own protocol.


class Application:
    """Answers when it is told to, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, bytes]] = []
        self.clients: list[tuple[str, int] | None] = []
        self.heard: list[Message] = []
        self.may_read = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.may_read.wait()
        body, is_more = b"", True
        while is_more:
            message = await receive()
            self.heard.append(message)
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
            is_more = message["more_body"]
        self.asked.append((scope["method"], scope["path"], body))
        self.clients.append(scope["client"])
        await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


class Forwarding:
    """Stands where our `RequestParser` does: between the parser and uvicorn's callbacks."""

    def __init__(self, protocol: HttpToolsProtocol) -> None:
        self.on_message_begin = protocol.on_message_begin
        self.on_url = protocol.on_url
        self.on_header = protocol.on_header
        self.on_headers_complete = protocol.on_headers_complete
        self.on_body = protocol.on_body
        self.on_message_complete = protocol.on_message_complete


class Queueing(HttpToolsProtocol):
    """Gives the next request its turn only when the test does."""

    ended = 0

    def on_response_complete(self) -> None:
        self.ended += 1


class Served:
    def __init__(
        self, protocol: HttpToolsProtocol, app: Application, state: ServerState, client: socket.socket
    ) -> None:
        self.protocol = protocol
        self.app = app
        self.state = state
        self._client = client

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._client, data)

    async def read(self) -> bytes:
        reading = asyncio.get_running_loop().sock_recv(self._client, 65_536)
        return await asyncio.wait_for(reading, PATIENCE_S)


@asynccontextmanager
async def serving(make: type[HttpToolsProtocol] = HttpToolsProtocol) -> AsyncIterator[Served]:
    app, state = Application(), ServerState()
    config = uvicorn.Config(app, ws="none", lifespan="off", interface="asgi3", log_config=None, access_log=False)
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    transport, protocol = await asyncio.get_running_loop().connect_accepted_socket(
        lambda: make(config=config, server_state=state, app_state={}), ours
    )
    try:
        yield Served(protocol, app, state, theirs)
    finally:
        transport.abort()
        theirs.close()
        app.may_read.set()
        app.may_answer.set()
        await until(lambda: not state.tasks)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0)


GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /a?b HTTP/1.1\r\nHost: x\r\nX-Y: Z\r\nContent-Length: 4\r\n\r\nbody"
EXPECTING = b"POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"


@proves(
    "HttpToolsProtocol.parser", "HttpToolsProtocol.on_message_begin", "HttpToolsProtocol.on_url",
    "HttpToolsProtocol.on_header", "HttpToolsProtocol.on_headers_complete", "HttpToolsProtocol.on_body",
    "HttpToolsProtocol.on_message_complete", "HttpToolsProtocol.url", "HttpToolsProtocol.headers",
)  # fmt: skip
def test_a_parser_of_ours_can_call_uvicorns_callbacks() -> None:
    async def main() -> None:
        async with serving() as served:
            protocol = served.protocol
            protocol.parser = httptools.HttpRequestParser(Forwarding(protocol))
            protocol.parser.feed_data(POST)
            assert protocol.url == b"/a?b"
            assert protocol.headers == [(b"host", b"x"), (b"x-y", b"Z"), (b"content-length", b"4")]
            served.app.may_read.set()
            await until(lambda: served.app.asked == [("POST", "/a", b"body")])

    asyncio.run(main())


@proves("HttpToolsProtocol.scope")
def test_the_client_of_a_request_can_be_replaced_before_it_begins() -> None:
    class Naming(Forwarding):
        def __init__(self, protocol: HttpToolsProtocol) -> None:
            super().__init__(protocol)
            self._protocol, self._begin = protocol, self.on_headers_complete
            self.on_headers_complete = self.name_client

        def name_client(self) -> None:
            self._protocol.scope["client"] = ("192.0.2.1", 0)
            self._begin()

    async def main() -> None:
        async with serving() as served:
            protocol = served.protocol
            protocol.parser = httptools.HttpRequestParser(Naming(protocol))
            protocol.parser.feed_data(GET)
            assert protocol.cycle.scope["client"] == ("192.0.2.1", 0)
            served.app.may_read.set()
            await until(lambda: served.app.clients == [("192.0.2.1", 0)])

    asyncio.run(main())


@proves(
    "HttpToolsProtocol.cycle", "HttpToolsProtocol.on_response_complete",
    "RequestResponseCycle.response_started", "RequestResponseCycle.response_complete",
)  # fmt: skip
def test_a_cycle_tells_how_far_its_answer_is() -> None:
    async def main() -> None:
        async with serving(Queueing) as served:
            protocol = served.protocol
            assert isinstance(protocol, Queueing)
            assert not bool(protocol.cycle)
            served.app.may_read.set()
            await served.send(GET)
            await until(lambda: bool(served.app.asked))
            assert (protocol.cycle.response_started, protocol.cycle.response_complete) == (False, False)
            assert protocol.ended == 0
            served.app.may_answer.set()
            assert b"200" in await served.read()
            assert (protocol.cycle.response_started, protocol.cycle.response_complete) == (True, True)
            assert protocol.ended == 1

    asyncio.run(main())


@proves("HttpToolsProtocol.pipeline", "HttpToolsProtocol._start_asgi_task")
def test_what_comes_too_early_waits_with_the_newest_first() -> None:
    async def main() -> None:
        async with serving(Queueing) as served:
            protocol = served.protocol
            served.app.may_read.set()
            served.app.may_answer.set()
            protocol.data_received(GET + GET.replace(b"/a", b"/b") + GET.replace(b"/a", b"/c"))
            newest, _ = protocol.pipeline[0]
            assert (len(protocol.pipeline), newest) == (2, protocol.cycle)
            await until(lambda: len(served.app.asked) == 1)
            while protocol.pipeline:
                protocol._start_asgi_task(*protocol.pipeline.pop())
            await until(lambda: len(served.app.asked) == 3)
            assert [path for _, path, _ in served.app.asked] == ["/a", "/b", "/c"]

    asyncio.run(main())


@proves("RequestResponseCycle.keep_alive", "HttpToolsProtocol.transport")
def test_a_cycle_can_be_told_to_end_the_connection() -> None:
    async def main() -> None:
        async with serving() as served:
            await served.send(GET)
            await until(lambda: served.protocol.cycle is not None)
            assert served.protocol.cycle.keep_alive
            served.protocol.cycle.keep_alive = False
            assert not served.protocol.transport.is_closing()
            served.app.may_read.set()
            served.app.may_answer.set()
            answer = await served.read()
            assert b"connection: close" in answer
            await until(served.protocol.transport.is_closing)

    asyncio.run(main())


@proves("RequestResponseCycle.disconnected", "RequestResponseCycle.body", "RequestResponseCycle.message_event")
def test_a_cycle_can_be_told_that_its_client_is_gone() -> None:
    async def main() -> None:
        async with serving() as served:
            served.app.may_read.set()
            await served.send(POST[:-1])
            await until(lambda: bool(served.app.heard))
            cycle = served.protocol.cycle
            assert not cycle.disconnected
            cycle.body = bytearray()
            cycle.disconnected = True
            cycle.message_event.set()
            await until(lambda: served.app.heard[-1] == {"type": "http.disconnect"})
            await until(lambda: not served.state.tasks)
            assert not cycle.response_started

    asyncio.run(main())


@pytest.mark.parametrize("is_refused", [False, True])
@proves("RequestResponseCycle.waiting_for_100_continue")
def test_a_cycle_can_be_told_not_to_ask_for_the_body(is_refused: bool) -> None:
    async def main() -> None:
        async with serving() as served:
            served.app.may_answer.set()
            await served.send(EXPECTING)
            await until(lambda: served.protocol.cycle is not None)
            assert served.protocol.cycle.waiting_for_100_continue
            if is_refused:
                served.protocol.cycle.waiting_for_100_continue = False
            served.app.may_read.set()
            await until(lambda: served.protocol.cycle.waiting_for_100_continue is False)
            await served.send(b"body")
            assert (b" 100 " in await served.read()) is not is_refused

    asyncio.run(main())


@proves("HttpToolsProtocol.flow", "FlowControl.write_paused")
def test_answers_wait_while_the_client_does_not_read() -> None:
    async def main() -> None:
        async with serving() as served:
            protocol = served.protocol
            protocol.flow = flow = FlowControl(protocol.transport)
            paused = [flow.write_paused]
            protocol.pause_writing()
            paused.append(flow.write_paused)
            served.app.may_read.set()
            served.app.may_answer.set()
            await served.send(GET)
            await until(lambda: bool(served.app.asked))
            await asyncio.sleep(0)
            assert not protocol.cycle.response_started, "the cycle looks at the flow that was put there"
            protocol.resume_writing()
            assert [*paused, flow.write_paused] == [False, True, False]
            assert b"200" in await served.read()

    asyncio.run(main())


@proves("FlowControl.pause_reading", "FlowControl.resume_reading", "FlowControl.read_paused")
def test_reading_pauses_and_resumes() -> None:
    async def main() -> None:
        async with serving() as served:
            flow, transport = served.protocol.flow, served.protocol.transport
            paused = [flow.read_paused]
            flow.pause_reading()
            flow.pause_reading()
            paused.append(flow.read_paused)
            assert not transport.is_reading()
            flow.resume_reading()
            assert [*paused, flow.read_paused] == [False, True, False]
            assert transport.is_reading()

    asyncio.run(main())


@proves("ServerState.connections", "ServerState.tasks", "ServerState.default_headers")
def test_the_state_holds_connections_tasks_and_headers() -> None:
    async def main() -> None:
        async with serving() as served:
            assert served.state.connections == {served.protocol}
            assert not served.state.tasks
            served.state.default_headers = [(b"x-chain-id", b"7")]
            served.app.may_read.set()
            await served.send(GET)
            await until(lambda: bool(served.app.asked))
            assert len(served.state.tasks) == 1
            served.app.may_answer.set()
            assert b"x-chain-id: 7\r\n" in await served.read()
            await until(lambda: not served.state.tasks)
            served.protocol.transport.abort()
            await until(lambda: not served.state.connections)

    asyncio.run(main())


# The same for websockets: two ends without a socket.


def pass_on(sender: ClientProtocol | ServerProtocol, receiver: ClientProtocol | ServerProtocol) -> list[object]:
    for data in sender.data_to_send():
        if data:
            receiver.receive_data(data)
    return list(receiver.events_received())


def open_ends() -> tuple[ClientProtocol, ServerProtocol]:
    client, server = ClientProtocol(parse_uri("ws://localhost/")), ServerProtocol()
    client.send_request(client.connect())
    [request] = pass_on(client, server)
    assert isinstance(request, Request)
    response = server.accept(request)
    assert response.status_code == 101
    server.send_response(response)
    [answer] = pass_on(server, client)
    assert isinstance(answer, Response)
    return client, server


@proves(
    "ServerProtocol.receive_data", "ServerProtocol.events_received", "ServerProtocol.data_to_send",
    "ServerProtocol.accept", "ServerProtocol.send_response", "ServerProtocol.send_ping", "ServerProtocol.send_close",
    "ServerProtocol.close_expected",
)  # fmt: skip
def test_a_socket_from_its_handshake_to_its_close() -> None:
    client, server = open_ends()
    assert not server.close_expected()
    server.send_ping(b"1234")
    [ping] = pass_on(server, client)
    [pong] = pass_on(client, server)
    assert isinstance(ping, Frame)
    assert isinstance(pong, Frame)
    assert (ping.opcode, pong.opcode, bytes(pong.data)) == (Opcode.PING, Opcode.PONG, b"1234")
    server.send_close(CloseCode.GOING_AWAY, "so long")
    assert server.close_expected()
    [close] = pass_on(server, client)
    assert isinstance(close, Frame)
    assert close.opcode is Opcode.CLOSE
    assert client.close_rcvd == Close(CloseCode.GOING_AWAY, "so long")


@proves("ServerProtocol.fail")
def test_a_failed_socket_says_why() -> None:
    client, server = open_ends()
    server.fail(CloseCode.POLICY_VIOLATION, "no")
    assert server.close_expected()
    pass_on(server, client)
    assert client.close_rcvd == Close(CloseCode.POLICY_VIOLATION, "no")


@proves("ServerProtocol.handshake_exc")
def test_a_request_that_is_no_handshake_is_explained() -> None:
    server = ServerProtocol()
    server.receive_data(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    [request] = server.events_received()
    assert isinstance(request, Request)
    assert server.accept(request).status_code == 426
    assert "Connection" in str(server.handshake_exc)
