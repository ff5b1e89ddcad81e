"""CometBFT's JSON-RPC over one connection that is kept open: a few calls of ours, nothing more."""

import asyncio
import base64

import httptools
import msgspec

from cairn.countdown import Countdown

LARGEST_READ_BYTES = 65_536
RPC_TIMEOUT_S = 5.0
"""For what changes CometBFT's mempool."""
IN_CACHE = "tx already exists in cache"
"""CometBFT's text, in `data` of an error, for a transaction that it already has."""


class RpcAway(Exception):
    """CometBFT does not answer."""


class CometBftRefusal(msgspec.Struct, frozen=True):
    code: int = 0
    message: str = ""
    data: str = ""

    def __str__(self) -> str:
        return f"{self.message}: {self.data}"


class _SyncInfo(msgspec.Struct, frozen=True):
    latest_block_height: str
    catching_up: bool


class _PublicKey(msgspec.Struct, frozen=True):
    value: str
    """In base64."""


class _ValidatorInfo(msgspec.Struct, frozen=True):
    voting_power: str
    pub_key: _PublicKey


class _NodeInfo(msgspec.Struct, frozen=True):
    moniker: str


class NodeStatus(msgspec.Struct, frozen=True):
    """What we read of CometBFT's status; it writes numbers as text."""

    sync_info: _SyncInfo
    validator_info: _ValidatorInfo
    node_info: _NodeInfo

    @classmethod
    def of(
        cls, height: int, catching_up: bool, voting_power: int, name: str = "", public_key: bytes = b""
    ) -> "NodeStatus":
        key = _PublicKey(base64.b64encode(public_key).decode())
        return cls(_SyncInfo(str(height), catching_up), _ValidatorInfo(str(voting_power), key), _NodeInfo(name))

    @property
    def name(self) -> str:
        return self.node_info.moniker

    @property
    def public_key(self) -> bytes:
        """The key with which it signs votes, whether or not it is a validator."""
        return base64.b64decode(self.validator_info.pub_key.value)

    @property
    def height(self) -> int:
        return int(self.sync_info.latest_block_height)

    @property
    def catching_up(self) -> bool:
        return self.sync_info.catching_up

    @property
    def is_validator(self) -> bool:
        return self.validator_info.voting_power != "0"


class _StatusAnswer(msgspec.Struct, frozen=True):
    result: NodeStatus | None = None
    error: CometBftRefusal | None = None


class _PeerRound(msgspec.Struct, frozen=True):
    height: str
    """The height that it works on, above its latest block."""


class _PeerState(msgspec.Struct, frozen=True):
    round_state: _PeerRound


class _Peer(msgspec.Struct, frozen=True):
    peer_state: _PeerState | None = None


class _Consensus(msgspec.Struct, frozen=True):
    peers: list[_Peer]


class _ConsensusAnswer(msgspec.Struct, frozen=True):
    result: _Consensus | None = None
    error: CometBftRefusal | None = None


class _NetInfo(msgspec.Struct, frozen=True):
    n_peers: str


class _NetInfoAnswer(msgspec.Struct, frozen=True):
    result: _NetInfo | None = None
    error: CometBftRefusal | None = None


class _RpcAnswer(msgspec.Struct, frozen=True):
    error: CometBftRefusal | None = None


_STATUS = b'{"jsonrpc":"2.0","id":1,"method":"status"}'
_CONSENSUS = b'{"jsonrpc":"2.0","id":1,"method":"dump_consensus_state"}'
_NET_INFO = b'{"jsonrpc":"2.0","id":1,"method":"net_info"}'
_decode_status = msgspec.json.Decoder(_StatusAnswer).decode
_decode_answer = msgspec.json.Decoder(_RpcAnswer).decode
_decode_consensus = msgspec.json.Decoder(_ConsensusAnswer).decode
_decode_net_info = msgspec.json.Decoder(_NetInfoAnswer).decode


class Rpc:
    """One call at a time; a call that fails closes the connection, and the next one opens another."""

    def __init__(self, address: str, timeout_s: float) -> None:
        """`address` is tcp://HOST:PORT or unix://PATH, as CometBFT writes it."""
        self._address = address
        self._timeout_s = timeout_s
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def status(self) -> NodeStatus:
        """Raises `RpcAway`."""
        try:
            answer = _decode_status(await self._call(_STATUS))
        except msgspec.MsgspecError as error:
            raise RpcAway(f"not an answer to status: {error}") from None
        if answer.result is None:
            raise RpcAway(str(answer.error))
        return answer.result

    async def highest_peer(self) -> int:
        """The highest block that a connected peer says it has; 0 when none says anything. Raises `RpcAway`."""
        try:
            answer = _decode_consensus(await self._call(_CONSENSUS))
            if answer.result is None:
                raise RpcAway(str(answer.error))
            states = [peer.peer_state for peer in answer.result.peers]
            return max((int(state.round_state.height) - 1 for state in states if state is not None), default=0)
        except (msgspec.MsgspecError, ValueError) as error:
            raise RpcAway(f"not an answer to dump_consensus_state: {error}") from None

    async def count_peers(self) -> int:
        """How many peers are connected. Raises `RpcAway`."""
        try:
            answer = _decode_net_info(await self._call(_NET_INFO))
            if answer.result is None:
                raise RpcAway(str(answer.error))
            return int(answer.result.n_peers)
        except (msgspec.MsgspecError, ValueError) as error:
            raise RpcAway(f"not an answer to net_info: {error}") from None

    async def broadcast(self, raw: bytes) -> CometBftRefusal | None:
        """Send something to CometBFT's mempool. Returns None, or why it was not tried. Raises `RpcAway`."""
        call = b'{"jsonrpc":"2.0","id":1,"method":"broadcast_tx_async","params":{"tx":"%b"}}' % base64.b64encode(raw)
        try:
            return _decode_answer(await self._call(call)).error
        except msgspec.MsgspecError as error:
            raise RpcAway(f"not an answer to broadcast_tx_async: {error}") from None

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None

    async def _call(self, body: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        try:
            # Not wait_for: in Python 3.11 it may swallow a cancellation that comes together with the answer.
            async with asyncio.timeout(None) as limit:
                countdown = Countdown(loop, self._timeout_s, lambda: limit.reschedule(loop.time()))
                try:
                    return await self._exchange(body)
                finally:
                    countdown.cancel()
        except (OSError, asyncio.IncompleteReadError, httptools.HttpParserError) as error:
            self.close()
            raise RpcAway(str(error) or type(error).__name__) from None
        except BaseException:
            self.close()
            raise

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
        self.keep_alive = False
        self.complete = False

    def on_headers_complete(self) -> None:
        # Read it now: later the parser would already be at the next message.
        self.keep_alive = self.parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        self.parts.append(body)

    def on_message_complete(self) -> None:
        self.complete = True
