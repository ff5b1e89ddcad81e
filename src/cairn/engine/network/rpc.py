"""CometBFT's JSON-RPC over one connection that is kept open: a few calls of ours, nothing more."""

import asyncio
import re
from typing import Annotated, Generic, TypeVar

import httptools
import msgspec

from cairn.engine.network.commits import CommitAnswer, EngineCommit, read_commit
from cairn.running_clock import Countdown

LARGEST_READ_BYTES = 65_536
LARGEST_ANSWER_BYTES = 16 * 1024 * 1024
"""Far more than any answer has that is asked for here, with the most validators and the most peers."""
RPC_TIMEOUT_S = 5.0
"""For what changes CometBFT's mempool."""
IN_CACHE = "tx already exists in cache"
"""CometBFT's text, in `data` of an error, for a transaction that it already has."""
_NO_SUCH_HEIGHT = re.compile("height [0-9]+ (is not available|must be less than or equal)")
"""The same for a block that it has pruned, or does not have yet."""


class RpcAway(Exception):
    """CometBFT does not answer."""


class CometBftRefusal(msgspec.Struct, frozen=True):
    code: int = 0
    message: str = ""
    data: str = ""

    def __str__(self) -> str:
        return f"{self.message}: {self.data}"


class NodeStatus(msgspec.Struct, frozen=True):
    """What we need of CometBFT's status."""

    catching_up: bool
    is_validator: bool
    name: str
    public_key: bytes
    """The key with which it signs votes, whether or not it is a validator."""


# What we read of CometBFT's answers; it writes numbers as text.

_R = TypeVar("_R")
_Number = Annotated[str, msgspec.Meta(pattern="^[0-9]{1,19}$")]


class _RpcAnswer(msgspec.Struct, Generic[_R], frozen=True):
    result: _R | None = None
    error: CometBftRefusal | None = None


class _SyncInfo(msgspec.Struct, frozen=True):
    catching_up: bool


class _PublicKey(msgspec.Struct, frozen=True):
    value: bytes


class _ValidatorInfo(msgspec.Struct, frozen=True):
    voting_power: str
    pub_key: _PublicKey


class _NodeInfo(msgspec.Struct, frozen=True):
    moniker: str


class _Status(msgspec.Struct, frozen=True):
    sync_info: _SyncInfo
    validator_info: _ValidatorInfo
    node_info: _NodeInfo


class _PeerRound(msgspec.Struct, frozen=True):
    height: _Number
    """The height that it works on, above its latest block."""


class _PeerState(msgspec.Struct, frozen=True):
    round_state: _PeerRound


class _Peer(msgspec.Struct, frozen=True):
    peer_state: _PeerState | None = None


class _Consensus(msgspec.Struct, frozen=True):
    peers: list[_Peer]


class _PeerInfo(msgspec.Struct, frozen=True):
    id: str
    moniker: str


class _ConnectedPeer(msgspec.Struct, frozen=True):
    node_info: _PeerInfo


class _NetInfo(msgspec.Struct, frozen=True):
    peers: list[_ConnectedPeer]


class _Round(msgspec.Struct, frozen=True):
    prevotes: list[str]
    precommits: list[str]


class _RoundState(msgspec.Struct, frozen=True):
    height_vote_set: list[_Round]


class _Votes(msgspec.Struct, frozen=True):
    round_state: _RoundState


_STATUS = msgspec.json.Decoder(_RpcAnswer[_Status])
_CONSENSUS = msgspec.json.Decoder(_RpcAnswer[_Consensus])
_NET_INFO = msgspec.json.Decoder(_RpcAnswer[_NetInfo])
_VOTES = msgspec.json.Decoder(_RpcAnswer[_Votes])
_BROADCAST = msgspec.json.Decoder(_RpcAnswer[object])
_COMMIT = msgspec.json.Decoder(_RpcAnswer[CommitAnswer])
_BROADCAST_METHOD = "broadcast_tx_async"


class Rpc:
    """One call at a time; a call that fails closes the connection, and the next one opens another.

    CometBFT closes a connection on which nobody asked for ten seconds, and nothing has failed then.
    """

    def __init__(self, address: str, timeout_s: float) -> None:
        """`address` is tcp://HOST:PORT or unix://PATH, as CometBFT writes it."""
        self._address = address
        self._timeout_s = timeout_s
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def status(self) -> NodeStatus:
        """What CometBFT says about itself. Raises `RpcAway`."""
        status = await self._ask("status", _STATUS)
        validator = status.validator_info
        is_validator = validator.voting_power != "0"
        return NodeStatus(status.sync_info.catching_up, is_validator, status.node_info.moniker, validator.pub_key.value)

    async def peer_heights(self) -> list[int]:
        """The latest block of each connected peer that has said which it has. Raises `RpcAway`."""
        states = [peer.peer_state for peer in (await self._ask("dump_consensus_state", _CONSENSUS)).peers]
        told = [int(state.round_state.height) for state in states if state is not None]
        return [height - 1 for height in told if height]

    async def peer_names(self) -> dict[str, str]:
        """What the connected peers call themselves, by the ids of their keys. Raises `RpcAway`."""
        found = (await self._ask("net_info", _NET_INFO)).peers
        return {each.node_info.id: each.node_info.moniker for each in found}

    async def votes(self) -> list[list[str]]:
        """The prevotes and the precommits of each round at the present height, as CometBFT prints them.

        Raises `RpcAway`.
        """
        rounds = (await self._ask("consensus_state", _VOTES)).round_state.height_vote_set
        return [votes for each in rounds for votes in (each.prevotes, each.precommits)]

    async def broadcast(self, raw: bytes) -> CometBftRefusal | None:
        """Send something to CometBFT's mempool. Returns None, or why it was not tried. Raises `RpcAway`."""
        return (await self._answer(_BROADCAST_METHOD, _BROADCAST, params={"tx": raw})).error

    async def commit(self, height: int | None = None) -> EngineCommit | None:
        """The header of this height and the votes for it; by default the newest. None if it is not there, or not any
        more. Raises `RpcAway`.
        """
        params = {} if height is None else {"height": str(height)}
        answer = await self._answer("commit", _COMMIT, params=params)
        if answer.error is not None and not _NO_SUCH_HEIGHT.search(answer.error.data):
            raise RpcAway(str(answer.error))
        if answer.result is None:
            return None
        try:
            return read_commit(answer.result)
        except ValueError as error:
            raise RpcAway(f"not an answer to commit: {error}") from None

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None

    async def _ask(self, method: str, decoder: "msgspec.json.Decoder[_RpcAnswer[_R]]") -> _R:
        answer = await self._answer(method, decoder)
        if answer.result is None:
            raise RpcAway(str(answer.error))
        return answer.result

    async def _answer(
        self, method: str, decoder: "msgspec.json.Decoder[_RpcAnswer[_R]]", **more: object
    ) -> _RpcAnswer[_R]:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, **more}
        try:
            # Sent twice, a transaction would be refused as one that is there already.
            is_repeatable = method != _BROADCAST_METHOD
            return decoder.decode(await self._call(msgspec.json.encode(request), is_repeatable))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise RpcAway(f"not an answer to {method}: {error}") from None

    async def _call(self, body: bytes, is_repeatable: bool) -> bytes:
        loop = asyncio.get_running_loop()
        try:
            # Not wait_for: in Python 3.11 it may swallow a cancellation that comes together with the answer.
            async with asyncio.timeout(None) as limit:
                countdown = Countdown(loop, self._timeout_s, lambda: limit.reschedule(loop.time()))
                try:
                    return await self._exchange_patiently(body, is_repeatable)
                finally:
                    countdown.cancel()
        except (OSError, asyncio.IncompleteReadError, httptools.HttpParserError) as error:
            self.close()
            raise RpcAway(str(error) or type(error).__name__) from None
        except BaseException:
            self.close()
            raise

    async def _exchange_patiently(self, body: bytes, is_repeatable: bool) -> bytes:
        """As `_exchange`, over a new connection where the one that was kept is closed."""
        if self._reader is not None and self._reader.at_eof():
            self.close()
        is_kept = self._writer is not None
        try:
            return await self._exchange(body)
        except ConnectionError:
            # It may have been closed a moment ago, before CometBFT read the request.
            if not is_kept or not is_repeatable:
                raise
        self.close()
        return await self._exchange(body)

    async def _exchange(self, body: bytes) -> bytes:
        reader, writer = await self._connected()
        head = b"POST / HTTP/1.1\r\nHost: cometbft\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        writer.write(head % len(body) + body)
        await writer.drain()
        answer = _HttpAnswer()
        parser = answer.parser
        while not answer.complete:
            data = await reader.read(LARGEST_READ_BYTES)
            if not data:
                raise ConnectionResetError("the connection was closed")
            parser.feed_data(data)
            if answer.size_bytes > LARGEST_ANSWER_BYTES:
                raise ConnectionAbortedError(f"the answer is longer than {LARGEST_ANSWER_BYTES} bytes")
        # Break the reference cycle: otherwise large answers would stay in memory until a garbage collection.
        del answer.parser
        if not answer.keep_alive:
            self.close()
        return b"".join(answer.parts)

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._reader is None or self._writer is None:
            scheme, _, rest = self._address.partition("://")
            if scheme == "unix":
                self._reader, self._writer = await asyncio.open_unix_connection(rest)
            else:
                host, _, port = rest.rpartition(":")
                self._reader, self._writer = await asyncio.open_connection(host.strip("[]"), int(port))
        return self._reader, self._writer


class _HttpAnswer:
    """The parser's callbacks."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.parts: list[bytes] = []
        self.size_bytes = 0
        self.keep_alive = False
        self.complete = False

    def on_headers_complete(self) -> None:
        # Read it now: later the parser would already be at the next message.
        self.keep_alive = self.parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        self.parts.append(body)
        self.size_bytes += len(body)

    def on_message_complete(self) -> None:
        self.complete = True
