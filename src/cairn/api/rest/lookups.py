"""The lookups. Confirmed data is read from this worker's store; only the mempool is the core's.

Two workers see a block some milliseconds apart. So that they never contradict each other, a worker catches up with the
watermark before it reads the latest state, and before it answers that a hash is unknown.
"""

from collections.abc import AsyncIterator, Mapping
from itertools import islice

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from cairn.api.bodies import (
    IMMUTABLE,
    JSON_MEDIA_TYPE,
    NDJSON_MEDIA_TYPE,
    REVALIDATE,
    Form,
    StreamedResponse,
    accepts_ndjson,
    array_response,
    as_integers,
    cache_headers,
    cached_response,
    encoded,
    json_response,
    not_modified,
)
from cairn.api.chain_json import around_transactions, confirmed_json, mempool_json, pending_json, signed_view
from cairn.api.chain_reads import list_pending, reverted_meanwhile
from cairn.api.chain_view import ChainView, wait_until
from cairn.api.parameters import (
    AMOUNTS,
    BLOCK_CURSOR,
    BLOCK_NAME,
    LIMIT,
    MEMPOOL_CURSOR,
    SENDER,
    TRANSACTIONS,
    TX_HASH,
    WAIT,
    address_of,
    amounts_of,
    choice_of,
    find_number,
    height_after,
    limit_of,
    page_links,
    parse_hash,
    wait_of,
)
from cairn.api.routing import Answer, Operation, page_answer
from cairn.api.server.http_heads import absence_in
from cairn.build import COMMIT, VERSION
from cairn.core.gateway import ConfirmedTx, CoreGateway, DroppedTx, PendingTx
from cairn.domain.answers import (
    Chain,
    Head,
    Header,
    MempoolItem,
    MempoolSize,
    Proof,
    Revert,
    Transaction,
)
from cairn.domain.errors import BlockNotFound, Corrupt, InvalidHash, TxDropped, TxNotFound, TxNotKept
from cairn.domain.json_fields import described, hex_text, titled
from cairn.domain.merkle import inclusion_proof
from cairn.domain.transactions import decode_record
from cairn.domain.types import BlockHash, TxHash
from cairn.store.keys import Location
from cairn.time_shares import give_way, in_slices

IS_FULL = {"hashes": False, "full": True}
SENT_AT_ONCE = 64
"""Transactions of a full block that are read and written in one step: about a millisecond."""

_encode = msgspec.json.Encoder().encode


class Lookups:
    def __init__(self, gateway: CoreGateway, view: ChainView) -> None:
        self._gateway = gateway
        self._view = view

    # Transactions.

    @Operation(
        "GET /tx/{hash}",
        "transactions",
        TX_HASH,
        WAIT,
        AMOUNTS,
        Answer("The transaction.", titled("Transaction", Transaction)),
        404,
    )
    async def get_transaction(self, request: Request, query: Mapping[str, str]) -> Response:
        """Look up a transaction and its status.

        A transaction that was dropped is answered with 404 TX_DROPPED and the reason. On a network it is dropped once
        another one has used its nonce. Until then it is pending, even if this node no longer holds it (`notHeld`).
        """
        wait_s, form = wait_of(query), amounts_of(query)
        tx_hash = TxHash(parse_hash(request.path_params["hash"], "transaction"))
        # Watch first, then look: nothing can be missed in between.
        with self._view.watching(tx_hash) as ended:
            known: bytes | None
            try:
                known, is_pending = await self._look_up(tx_hash)
            except TxNotFound:
                if not wait_s:
                    raise
                # It is waited for, too: another node may have accepted it a moment ago.
                known, is_pending = None, True
            if is_pending and wait_s:
                await wait_until(ended, wait_s, absence_in(request.receive))
                if self._view.phase == "draining":
                    # The core is stopping and may not answer any more, so the earlier answer is used.
                    known = self._view.find_confirmed(tx_hash) or known
                else:
                    known, _ = await self._look_up(tx_hash)
        if known is None:
            raise self._unknown(tx_hash)
        return json_response(form(known))

    async def _look_up(self, tx_hash: TxHash) -> tuple[bytes, bool]:
        """The public JSON, and whether the transaction is still pending. Raises `NotFound`."""
        self._view.get_info()
        reverts, generation = self._view.reverts, self._view.generation
        answer = self._view.find_confirmed(tx_hash)
        if answer is not None:
            return answer, False
        found = await self._gateway.find_tx(tx_hash)
        match found:
            case None:
                raise self._unknown(tx_hash)
            case DroppedTx():
                raise TxDropped(found.reason)
            case PendingTx():
                answer = pending_json(found)
                if generation == self._view.generation:
                    self._view.pending.keep(found, answer)
                return answer, True
            case ConfirmedTx():
                await self._view.reach(found.height)
        answer = self._view.find_confirmed(tx_hash)
        if answer is None:
            if self._view.reverts != reverts:
                raise reverted_meanwhile()
            if found.height < self._view.base:
                raise TxNotKept(f"{hex_text(tx_hash)} was in block {found.height}, which this node no longer keeps")
            raise Corrupt(f"{hex_text(tx_hash)} is in block {found.height}, but the index does not have it")
        return answer, False

    async def find_place(self, tx_hash: TxHash) -> Location:
        """Where a confirmed transaction is. Raises `NotFound`."""
        _, is_pending = await self._look_up(tx_hash)
        location = self._view.find_location(tx_hash)
        if is_pending or location is None:
            raise TxNotFound(f"{hex_text(tx_hash)} is pending: no block holds it yet")
        return location

    def _unknown(self, tx_hash: TxHash) -> TxNotFound:
        """A node that removed its oldest blocks cannot tell whether one of them held the transaction."""
        base = self._view.base
        if not base:
            return TxNotFound(f"{hex_text(tx_hash)} is neither in a block nor in the mempool")
        return TxNotKept(
            f"{hex_text(tx_hash)} is neither in the mempool nor in a block from {base} on, "
            "the oldest that this node keeps; an earlier block may hold it"
        )

    @Operation(
        "GET /tx/{hash}/proof",
        "transactions",
        TX_HASH,
        AMOUNTS,
        Answer("The Merkle path and the block's header.", Proof),
        404,
    )
    async def get_proof(self, request: Request, query: Mapping[str, str]) -> Response:
        """Prove that a block holds a transaction.

        To check it, start with SHA-256(0x00, txHash). For each hash in `proof`, lowest level first, compute
        SHA-256(0x01, left, right), where that hash is on the left when the node's index on that level is odd. The last
        node of a level with an odd number of nodes moves up unchanged. The result must be the header's
        transactionsRoot, and the header must hash to the block's hash. docs/formats.md shows every step with an
        example.
        """
        form = amounts_of(query)
        tx_hash = TxHash(parse_hash(request.path_params["hash"], "transaction"))
        height, position = await self.find_place(tx_hash)
        header, tx = self._view.get_header(height), self._view.tx_at(height, position)
        nodes = await self._view.tx_tree(height)
        return encoded(
            Proof(
                tx_hash=hex_text(tx_hash),
                transaction=signed_view(tx),
                transaction_index=position,
                proof=[hex_text(node) for node in inclusion_proof(nodes, header[1].tx_count, position)],
                header=Header.of(*header),
            ),
            form,
        )

    @Operation(
        "GET /mempool",
        "transactions",
        LIMIT,
        MEMPOOL_CURSOR,
        SENDER,
        AMOUNTS,
        page_answer(titled("Mempool", list[MempoolItem])),
    )
    async def list_mempool(self, request: Request, query: Mapping[str, str]) -> Response:
        """List the transactions in the mempool, in mining order.

        Queued transactions, whose sender has a missing nonce before them, come last.
        """
        limit, sender, form = limit_of(query), address_of(query, "from"), amounts_of(query)
        self._view.get_info()
        page = await list_pending(self._gateway, limit, query.get("after"), sender)
        headers = {"X-Total-Count": str(page.total)}
        headers |= page_links("/mempool", query, page.next)
        items = [form(mempool_json(item)) async for item in in_slices(page.items)]
        return array_response(items, headers)

    # Blocks.

    @Operation(
        "GET /block/{hash}",
        "blocks",
        BLOCK_NAME,
        TRANSACTIONS,
        AMOUNTS,
        Answer("The block.", described("AnyBlock"), ("ETag",), has_lines=True),
        404,
    )
    async def get_block(self, request: Request, query: Mapping[str, str]) -> Response:
        """Look up a block.

        A block that is looked up by its hash never changes and can be cached forever, except on a dev chain, which can
        be reverted. With `transactions=full` and `Accept: application/x-ndjson`, the answer is its transactions alone,
        one on each line. Full transactions are sent as they are read.
        """
        form = amounts_of(query)
        is_full = choice_of(query, "transactions", IS_FULL, False)
        block_hash, caching = await self._find_block(request.path_params["hash"])
        answer = self._view.find_block(block_hash)
        if answer is None:
            # By its hash, it may be known to other workers already.
            await self._view.reach_head()
            answer = self._view.find_block(block_hash)
        if answer is None:
            raise BlockNotFound(f"no block has the hash {hex_text(block_hash)}")
        if is_full:
            return self._full_block(block_hash, request, form, caching)
        return cached_response(request, form(answer), block_tag(block_hash, form), caching)

    async def _find_block(self, named: str) -> tuple[BlockHash, str]:
        """The hash of a block, and how its answer may be cached."""
        info = self._view.get_info()
        if named == "latest":
            return self._view.block_hash(await self._view.reach_head()), REVALIDATE
        height = find_number(named)
        if height is not None:
            await self._view.check_height(height)
            # Not cached by height: a dev chain that is made again has another block there.
            return self._view.block_hash(height), REVALIDATE
        if not named.startswith("0x"):
            raise InvalidHash("name a block by its hash (0x and 64 hexadecimal digits), its height, or latest")
        # After a revert of a dev chain the block no longer exists.
        return BlockHash(parse_hash(named, "block")), REVALIDATE if info.signs_for else IMMUTABLE

    async def find_height(self, named: str) -> int:
        """The height of a block that is named by hash or height. Raises `BlockNotFound`."""
        block_hash, _ = await self._find_block(named)
        height = self._view.find_height(block_hash)
        if height is None:
            await self._view.reach_head()
            height = self._view.find_height(block_hash)
        if height is None:
            raise BlockNotFound(f"no block has the hash {hex_text(block_hash)}")
        return height

    def _full_block(self, block_hash: BlockHash, request: Request, form: Form, caching: str) -> Response:
        height = self._view.find_height(block_hash)
        if height is None:
            raise BlockNotFound(f"block {hex_text(block_hash)} is not kept by this node any more")
        is_lines = accepts_ndjson(request)
        etag = f"{block_tag(block_hash, form)}-{'lines' if is_lines else 'full'}"
        headers = cache_headers(etag, caching) | {"Vary": "Accept"}
        known = not_modified(request, etag, caching)
        if known is not None:
            return known
        if is_lines:
            return StreamedResponse(self._transactions(height, form, b"", b"\n"), headers, NDJSON_MEDIA_TYPE)
        return StreamedResponse(self._block_in_pieces(height, form), headers, JSON_MEDIA_TYPE)

    async def _block_in_pieces(self, height: int, form: Form) -> AsyncIterator[bytes]:
        before, behind = map(form, around_transactions(*self._view.get_header(height)))
        yield before
        async for piece in self._transactions(height, form, b",", b""):
            yield piece
        yield behind

    async def _transactions(self, height: int, form: Form, before: bytes, behind: bytes) -> AsyncIterator[bytes]:
        """The block's transactions in JSON, some at a time, each with `before` it, but for the first, and `behind`."""
        reverts, block_hash = self._view.reverts, self._view.block_hash(height)
        numbered = enumerate(self._view.tx_records(height))
        while part := list(islice(numbered, SENT_AT_ONCE)):
            self._view.check_streaming(reverts)
            txs = (
                (position, confirmed_json(decode_record(record), height, position, block_hash))
                for position, record in part
            )
            yield b"".join([(before if position else b"") + form(tx) + behind for position, tx in txs])
            await give_way()

    @Operation(
        "GET /blocks",
        "blocks",
        LIMIT,
        BLOCK_CURSOR,
        AMOUNTS,
        page_answer(titled("Blocks", list[Header]), "X-Block-Height"),
    )
    async def list_blocks(self, request: Request, query: Mapping[str, str]) -> Response:
        """List the blocks, newest first. The last page ends with the oldest block that this node keeps."""
        limit, after, form = limit_of(query), height_after(query), amounts_of(query)
        self._view.get_info()
        await self._view.reach_head()
        head = self._view.height
        base = self._view.base
        newest = head if after is None else min(head, after - 1)
        heights = range(newest, max(base - 1, newest - limit), -1)
        cursor = str(heights[-1]) if heights and heights[-1] > base else None
        items = []
        async for height in self._view.in_slices(heights):
            # Other requests were served meanwhile, and the oldest blocks may have been removed.
            if height < self._view.base:
                cursor = None
                break
            items.append(form(_encode(Header.of(*self._view.get_header(height)))))
        headers = {"X-Total-Count": str(head - base + 1), "X-Block-Height": str(head)}
        headers |= page_links("/blocks", query, cursor)
        return array_response(items, headers)

    # The chain.

    @Operation("GET /chain", "blocks", AMOUNTS, Answer("The chain's rules, latest block and mempool.", Chain))
    async def get_chain(self, request: Request, query: Mapping[str, str]) -> Response:
        """Look up the chain.

        The chain id and the gas price to sign with, the latest block, how full the mempool is, and the total supply.
        """
        form = amounts_of(query)
        self._view.get_info()
        status = await self._gateway.status()
        await self._view.reach_head()
        return json_response(form(chain_json(self._view, status.pending, status.queued, status.limit)))


def chain_json(view: ChainView, pending: int, queued: int, limit: int) -> bytes:
    """The chain as of the latest block that is shown, with a mempool of that size."""
    info = view.get_info()
    block_hash, header = view.get_header(view.height)
    return _encode(
        Chain(
            chain_id=info.chain_id,
            gas_price=info.gas_price,
            block_gas_limit=info.block_gas_limit,
            block_time=info.block_time_s,
            max_data_bytes=info.max_data_bytes,
            engine=info.engine,
            version=VERSION,
            commit=COMMIT,
            head=Head(header.height, hex_text(block_hash), header.timestamp),
            mempool=MempoolSize(pending, queued, limit),
            supply=view.supply(),
            last_revert=Revert(info.reverts, info.reverted_to) if info.reverts else None,
        )
    )


def block_tag(block_hash: BlockHash, form: Form) -> str:
    """The two forms of a block differ in their bytes, and so in their tags."""
    return hex_text(block_hash) if form is as_integers else f"{hex_text(block_hash)}-strings"
