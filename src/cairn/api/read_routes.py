"""Reads that are answered without the application: of accounts, blocks, transactions and the chain.

A route answers what this worker can tell at once, and leaves everything else, refusals too, to the application. What it
answers, the application would answer with the same headers and bytes.
"""

from binascii import Error as HexError
from binascii import unhexlify
from collections.abc import Mapping, Sequence

import msgspec

from cairn import metrics
from cairn.api.bodies import Form, as_integers, as_strings
from cairn.api.chain_view import ChainView
from cairn.api.hot_heads import Heads
from cairn.api.next_nonces import NextNonces
from cairn.api.rest.accounts import account_json
from cairn.api.rest.lookups import block_tag, chain_json
from cairn.api.server.exchange import Exchange, HotRoute
from cairn.domain.crypto import parse_address
from cairn.domain.errors import NodeError
from cairn.domain.lru_cache import LruCache
from cairn.domain.types import Address, BlockHash, TxHash
from cairn.time_shares import QueueName

TX = b"/tx/"
ACCOUNT = b"/account/"
BLOCK = b"/block/"
CHAIN = b"/chain"
LATEST = b"/block/latest"
STRINGS = b"?amounts=string"
HASH_CHARACTERS = 66
ADDRESS_CHARACTERS = 42
MAX_HEIGHT_DIGITS = 18
KEPT_ACCOUNTS = 8_192
"""Answers about accounts that are kept: some 4 MB."""
MAX_HOT_BLOCK_BYTES = 64 * 1024
"""Of nearly a thousand transactions. A longer answer is written by the application, which waits for its client."""


class ReadRoute:
    name = ""
    is_alone = False
    is_limited = True

    def __init__(self) -> None:
        # Asked for with each request: Python finds what an instance has sooner than what its class has.
        self.queue: QueueName | None = "reads"
        self.traffic = metrics.HTTP.of_route(self.name)

    def answer(self, *_: object) -> Sequence[bytes]:
        raise AssertionError("it answers at once")


class TxRoute(ReadRoute):
    """GET /tx/{hash} of a transaction that is confirmed here, or was pending and has not changed since."""

    name = "GET /tx/{hash}"

    def __init__(self, view: ChainView, heads: Heads) -> None:
        super().__init__()
        self._view = view
        self._heads = heads

    def begin(self, request: Exchange) -> bytes | None:
        target, view = request.target, self._view
        try:
            # Behind the 0x.
            tx_hash = TxHash(unhexlify(target[6:70]))
            pending = view.pending.find(tx_hash)
            if pending is not None and (request.is_behind or not view.is_at_head()):
                # What was submitted before it may replace it, or the core is away.
                return None
            # In this order: a block that has it is shown before the board shows that the mempool has let it go.
            body = view.find_confirmed(tx_hash) or pending
        except (HexError, NodeError):
            return None
        if body is None:
            return None
        if len(target) > 70:
            body = as_strings(body)
        return b"%b%d\r\n\r\n%b" % (self._heads.ok, len(body), body)


class KeptAccount(msgspec.Struct):
    """An answer, and the numbers of the board and the view for which it is right."""

    address: Address
    form: Form
    generation: int = -1
    height: int = -1
    changes: int = -1
    answer: bytes = b""
    """From the value of content-length on."""


class AccountRoute(ReadRoute):
    """GET /account/{address} as of the latest block, unless only the core knows its next nonce."""

    name = "GET /account/{address}"

    # What the client has submitted before, on the same connection, is answered first, and so it counts.
    is_alone = True

    def __init__(self, view: ChainView, nonces: NextNonces, heads: Heads) -> None:
        super().__init__()
        self._view = view
        self._board = view.board
        self._nonces = nonces
        self._heads = heads
        self._kept: LruCache[bytes, KeptAccount] = LruCache(KEPT_ACCOUNTS)
        """By target, that is for each spelling of an address."""

    def begin(self, request: Exchange) -> bytes | None:
        view, kept = self._view, self._kept.use(request.target)
        try:
            if kept is None:
                kept = self._keep(request.target)
            # In this order: then it is right as of the head, whatever the core does meanwhile.
            changes = self._board.changes_of(kept.address)
            if kept.changes != changes or kept.generation != view.generation or kept.height != view.height:
                nonce = self._nonces.find(kept.address, changes)
                if nonce is None or not view.is_at_head():
                    return None
                self._renew(kept, changes, nonce)
            elif not view.is_at_head():
                return None
            elif kept.height != view.height:
                # It has caught up only now.
                return self.begin(request)
        except NodeError:
            return None
        return self._heads.ok + kept.answer

    def _keep(self, target: bytes) -> KeptAccount:
        """Begin to keep an account. Raises `InvalidField`."""
        text = target[len(ACCOUNT) : len(ACCOUNT) + ADDRESS_CHARACTERS].decode()
        form = as_integers if len(target) == len(ACCOUNT) + ADDRESS_CHARACTERS else as_strings
        kept = KeptAccount(parse_address(text, "address"), form)
        self._kept.keep(target, kept)
        return kept

    def _renew(self, kept: KeptAccount, changes: int, nonce: int) -> None:
        view = self._view
        body = kept.form(account_json(kept.address, view.account(kept.address), nonce))
        kept.answer = b"%d\r\n\r\n%b" % (len(body), body)
        kept.generation, kept.height, kept.changes = view.generation, view.height, changes


class BlockRoute(ReadRoute):
    """GET /block/{hash}, by its height, and `latest`."""

    name = "GET /block/{hash}"

    def __init__(self, view: ChainView, heads: Heads) -> None:
        super().__init__()
        self._view = view
        self._heads = heads

    def begin(self, request: Exchange) -> bytes | None:
        target, view, heads = request.target, self._view, self._heads
        form: Form = as_integers
        if target.endswith(STRINGS):
            target, form = target[: -len(STRINGS)], as_strings
        try:
            if target.startswith(b"0x", len(BLOCK)):
                block_hash = BlockHash(unhexlify(target[len(BLOCK) + 2 :]))
                head = heads.revalidated if view.get_info().signs_for else heads.immutable
            elif target == LATEST and request.is_behind:
                # What was submitted before it may be in a later one.
                return None
            elif view.is_at_head():
                height = view.height if target == LATEST else int(target[len(BLOCK) :])
                # Its hash may be remembered when it is not kept any more.
                view.reader_at(height)
                block_hash, head = view.block_hash(height), heads.revalidated
            else:
                return None
            body = view.find_block(block_hash)
        except (HexError, NodeError):
            return None
        if body is None or len(body) > MAX_HOT_BLOCK_BYTES:
            return None
        body = form(body)
        return b'%b%b"\r\ncontent-length: %d\r\n\r\n%b' % (head, block_tag(block_hash, form).encode(), len(body), body)


class ChainRoute(ReadRoute):
    """GET /chain."""

    name = "GET /chain"

    # As for accounts: what was submitted before counts.
    is_alone = True

    def __init__(self, view: ChainView, heads: Heads) -> None:
        super().__init__()
        self._view = view
        self._heads = heads
        self._seen = (-1, -1, (0, 0))
        """The generation, the height and the size of the mempool for which the answer is right."""
        self._answer = b""

    def begin(self, request: Exchange) -> bytes | None:
        view = self._view
        counts = view.board.counts
        try:
            if not view.is_at_head():
                return None
            seen = (view.generation, view.height, counts)
            if seen != self._seen:
                self._answer, self._seen = chain_json(view, *counts, view.get_info().mempool_limit), seen
        except NodeError:
            return None
        body = self._answer if request.target == CHAIN else as_strings(self._answer)
        return b"%b%d\r\n\r\n%b" % (self._heads.ok, len(body), body)


class ReadRoutes:
    """The route of a read, by its target."""

    def __init__(self, view: ChainView, nonces: NextNonces, heads: Heads, others: Mapping[bytes, HotRoute]) -> None:
        """`others` are further routes, by their targets."""
        self._block = BlockRoute(view, heads)
        tx, account, chain = TxRoute(view, heads), AccountRoute(view, nonces, heads), ChainRoute(view, heads)
        self._named: dict[bytes, HotRoute] = {**others, CHAIN: chain, CHAIN + STRINGS: chain}
        self._by_length: dict[int, tuple[bytes, int, HotRoute]] = {}
        """Where the length of the target is that of one route only: how it begins, and where its name ends."""
        for start, characters, route in (
            (TX, HASH_CHARACTERS, tx),
            (ACCOUNT, ADDRESS_CHARACTERS, account),
            (BLOCK, HASH_CHARACTERS, self._block),
        ):
            end = len(start) + characters
            for length in (end, end + len(STRINGS)):
                self._by_length[length] = (start + b"0x", end, route)

    def find(self, target: bytes) -> HotRoute | None:
        """With anything but letters and digits in the name, it may not all be a part of the path."""
        shape = self._by_length.get(len(target))
        if shape is not None:
            start, end, route = shape
            if not target.startswith(start) or not target[len(start) : end].isalnum():
                return None
            return route if len(target) == end or target.endswith(STRINGS) else None
        if not target.startswith(BLOCK):
            return self._named.get(target)
        name = target[len(BLOCK) :].removesuffix(STRINGS)
        is_height = name.isdigit() and len(name) <= MAX_HEIGHT_DIGITS and (name[:1] != b"0" or name == b"0")
        return self._block if is_height or name == b"latest" else None
