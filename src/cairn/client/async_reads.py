"""The reads of a client: each is one request, or one for each page of a list.

Behind a load balancer each page may come from another node, and one that has fewer blocks than the last would leave
items out. So a page is asked for again until the node that answers has at least the blocks of the pages before.
"""

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import Literal, TypeVar, get_args

from msgspec.json import Decoder

from cairn.client.account import bytes_of
from cairn.client.errors import (
    BlockNotKept,
    InvalidField,
    InvalidProof,
    NodeUnreachable,
    OutdatedAnswer,
    UnexpectedAnswer,
)
from cairn.client.models import (
    AccountList,
    AccountState,
    Block,
    Chain,
    ConfirmedTransaction,
    FullBlock,
    Header,
    ListedAccount,
    MempoolItem,
    Probe,
    Proof,
    Readiness,
    Transaction,
    Validators,
)
from cairn.client.proven_answers import check_held, check_parent
from cairn.client.proven_history import HistoryFilter, ProvenHistory
from cairn.client.prover import Prover
from cairn.client.transport import Deadline, ListPage, Query, Transport, delays, path_of
from cairn.domain.json_fields import hex_text

T = TypeVar("T")
B = TypeVar("B", Block, FullBlock)

MAX_PAGE = 1_000
PROVEN_PAGE = 200
"""Each page has a statement, of some kilobytes for each payment."""

MAX_ACCOUNTS = 1_000
"""Addresses in one request."""

Direction = Literal["in", "out", "both"]
"""Of a payment, as seen from the accounts that are asked for."""

_ACCOUNT = Decoder(AccountState)
_ACCOUNTS = Decoder(AccountList)
_FULL_BLOCK = Decoder(FullBlock)
BLOCK = Decoder(Block)
_BLOCKS = Decoder(list[Header])
CHAIN = Decoder(Chain)
HISTORY = Decoder(list[ConfirmedTransaction])
_MEMPOOL = Decoder(list[MempoolItem])
_PROOF = Decoder(Proof)
_READINESS = Decoder(Readiness)
_VALIDATORS = Decoder(Validators)
PROBE = Decoder(Probe)
TRANSACTION: Decoder[Transaction] = Decoder(Transaction)


class AsyncReads:
    """The reads. A failed read is retried, since reading changes nothing; only probes are not."""

    def __init__(self, transport: Transport, chain_id: int | None, prover: Prover | None = None) -> None:
        self._transport = transport
        self._chain_id = chain_id
        self._prover = prover

    @property
    def url(self) -> str:
        return self._transport.url

    async def transaction(self, tx_hash: str) -> Transaction:
        """A transaction, pending or confirmed. Raises `TxNotFound`, or `TxDropped` with the reason."""
        tx = await self._transport.get(path_of("tx", tx_hash), TRANSACTION)
        check_same(tx_hash, tx.tx_hash)
        if self._prover is not None and isinstance(tx, ConfirmedTransaction):
            await self._prover.check_payment(tx)
        return tx

    async def proof(self, tx_hash: str) -> Proof:
        """A proof that a block holds the transaction; check it with `Proof.verify`. `TxNotFound` while pending."""
        proof = await self._transport.get(path_of("tx", tx_hash, "proof"), _PROOF)
        if self._prover is not None:
            proof.verify(tx_hash)
            await self._prover.check_header(proof.header)
        return proof

    async def block(self, block: str | int = "latest") -> Block:
        """A block by hash or height, or the latest. Raises `BlockNotFound`."""
        found = await self._named_block(block, BLOCK)
        if self._prover is not None:
            await self._prover.check_block(found)
        return found

    async def full_block(self, block: str | int = "latest") -> FullBlock:
        """Like `block`, with the transactions themselves."""
        found = await self._named_block(block, _FULL_BLOCK, {"transactions": "full"})
        if self._prover is not None:
            await self._prover.check_full_block(found)
        return found

    async def _named_block(self, block: str | int, answer: Decoder[B], query: Query | None = None) -> B:
        if self._prover is not None and block == "latest":
            # Of the very latest one there may be no signature for long.
            block = hex_text((await self._prover.newest_block()).hash)
        found = await self._transport.get(path_of("block", block), answer, query)
        check_block(block, found)
        return found

    async def account(self, address: str, *, height: int | None = None, time: int | None = None) -> AccountState:
        """Balance and nonces of an account; all are 0 for an address that was never used.

        With `height` as of the end of that block, and with `time` as of that Unix time. Raises `BlockNotFound` if there
        is no such block, or none that the node keeps.
        """
        query = _given(height=height, time=time)
        account = await self._transport.get(path_of("account", address), _ACCOUNT, query)
        check_same(address, account.address)
        if height is not None:
            check_same(height, str(account.block_height))
        if self._prover is None:
            return account
        if height is None and time is None:
            # The pending nonce is about this moment, and what the account held is as of the signed block.
            now = await self._prover.account(address, None)
            held, pending_nonce = now.account, account.pending_nonce
            return AccountState(account.address, held.balance, held.nonce, pending_nonce, now.block_height)
        if account.block_height is None:
            raise UnexpectedAnswer(f"{self.url} does not say which block its answer is of")
        if time is not None:
            await self._prover.check_time(account.block_height, time)
        then = await self._prover.account(address, account.block_height)
        check_held(account.balance, account.nonce, then.account)
        return account

    async def accounts(self, addresses: Iterable[str], *, height: int | None = None) -> AccountList:
        """Balances and nonces of any number of accounts, all as of the same block: the latest, or that at `height`.

        Raises `BlockNotFound` if there is no such block, or none that the node keeps.
        """
        asked = list(addresses)
        found: list[ListedAccount] = []
        if self._prover is not None and height is None:
            height = await self._prover.newest_height()
        for start in range(0, max(1, len(asked)), MAX_ACCOUNTS):
            listed = await self._listed_accounts(asked[start : start + MAX_ACCOUNTS], height)
            # The rest is of the block that the first ones are of.
            height = listed.block_height
            found += listed.accounts
        return AccountList(height or 0, found)

    async def _listed_accounts(self, asked: list[str], height: int | None) -> AccountList:
        body: dict[str, object] = {"addresses": asked} | ({} if height is None else {"height": height})

        listed = await self._transport.read_by_post("/accounts", body, _ACCOUNTS)
        check_same(listed.block_height if height is None else height, listed.block_height)
        if [each.address for each in listed.accounts] != [address.lower() for address in asked]:
            raise UnexpectedAnswer(f"{self.url} answered with other accounts than it was asked for")
        if self._prover is not None:
            for each in listed.accounts:
                held = (await self._prover.account(each.address, listed.block_height)).account
                check_held(each.balance, each.nonce, held)
        return listed

    async def chain(self) -> Chain:
        """The chain's rules, its latest block, and how full the mempool is.

        Raises `UnexpectedAnswer` when it is not the chain with the `chain_id` of this client.
        """
        chain = await self._transport.get("/chain", CHAIN)
        if self._chain_id not in (None, chain.chain_id):
            raise UnexpectedAnswer(f"{self.url} is a node of chain {chain.chain_id}, not of {self._chain_id}")
        return chain

    async def validators(self) -> Validators:
        """The validators of a network. Raises `NotFound` on a chain without validators."""
        return await self._transport.get("/validators", _VALIDATORS)

    async def recent_blocks(self, limit: int | None = None) -> AsyncGenerator[Header, None]:
        """The blocks that the node keeps, newest first, or `limit` of them.

        That a node keeps no earlier ones cannot be proven: a client with the genesis has only its word for it.
        """
        if self._prover is None:
            async for block in listed(self._transport, "/blocks", _BLOCKS, {}, limit):
                yield block
            return
        newest = await self._prover.newest_height()
        unsigned = max(0, (await self.chain()).head.block_height - newest)
        size = MAX_PAGE if limit is None else min(MAX_PAGE, limit + unsigned)
        left, child = newest + 1 if limit is None else min(limit, newest + 1), None
        if not left:
            return
        asked = pages(self._transport, "/blocks", _BLOCKS, {}, page_size=size, least_height=newest)
        async with aclosing(asked) as found:
            async for page in found:
                for block in page.items:
                    if block.block_height > newest:
                        continue
                    await self._check_listed_block(block, child, newest)
                    yield block
                    child, left = block, left - 1
                    if not left:
                        return
        if child is None:
            raise OutdatedAnswer(f"the list holds no block up to block {newest}, which is signed")
        await self._check_oldest(child.block_height)

    async def _check_listed_block(self, block: Header, child: Header | None, newest: int) -> None:
        """Check a block by the one before it in the list, or the first by its signatures. Raises `InvalidProof`."""
        if child is not None:
            check_parent(block, child)
        elif block.block_height != newest:
            raise OutdatedAnswer(f"the list begins with block {block.block_height}, not with block {newest}")
        elif self._prover is not None:
            await self._prover.check_header(block)

    async def _check_oldest(self, height: int) -> None:
        """Check that the node says that it keeps no block before that one. Raises `InvalidProof`."""
        try:
            await self._transport.get(path_of("block", height - 1), BLOCK)
        except BlockNotKept:
            return
        raise InvalidProof(f"the list ends with block {height}, and the node has block {height - 1}")

    async def history(
        self,
        address: str,
        limit: int | None = None,
        *,
        direction: Direction | None = None,
        counterparty: str | None = None,
        reference: str | None = None,
        data: bytes | str | None = None,
        from_height: int | None = None,
        to_height: int | None = None,
        from_time: int | None = None,
        to_time: int | None = None,
        oldest_first: bool = False,
    ) -> AsyncGenerator[ConfirmedTransaction, None]:
        """The confirmed transactions that the account sent or received, newest first, or only those that are meant.

        All that is given must hold: whether the account received (`in`) or sent (`out`), the other account, the exact
        reference or data (bytes, or their 0x form), and the first and the last block by height or by Unix time.
        `direction="both"` is as without one.

        Raises `InvalidField` or `InvalidQuery` for a filter that is none. A node that does not keep all blocks lists
        what it has, but raises `BlockNotKept` if blocks from `from_height` or `from_time` on are missing. A client with
        the genesis raises that also if neither is given and the account was used before the blocks that are kept.
        """
        if direction is not None:
            check_direction(direction)
        query = _given(
            direction=None if direction == "both" else direction,
            counterparty=counterparty,
            reference=reference,
            data=None if data is None else "0x" + bytes_of(data).hex(),
            fromHeight=from_height,
            toHeight=to_height,
            fromTime=from_time,
            toTime=to_time,
            order="asc" if oldest_first else None,
        )
        path = path_of("account", address, "txs")
        if self._prover is None:
            async for tx in listed(self._transport, path, HISTORY, query, limit):
                yield tx
            return
        meant = HistoryFilter(
            address=address,
            direction=direction,
            counterparty=counterparty,
            data=_data_of(reference, data),
            from_height=from_height,
            to_height=to_height,
            from_time=from_time,
            to_time=to_time,
            oldest_first=oldest_first,
        )
        signed = await self._prover.newest_height()
        asked = pages(self._transport, path, HISTORY, query, limit=limit, page_size=PROVEN_PAGE, least_height=signed)
        compared = ProvenHistory(self._prover, meant, signed)
        async with aclosing(asked) as found, aclosing(compared.check(found)) as proven:
            async for tx in proven:
                yield tx

    async def pending(self, sender: str | None = None, limit: int | None = None) -> AsyncGenerator[MempoolItem, None]:
        """The mempool in mining order, of all senders or of one."""
        query = {} if sender is None else {"from": sender}
        async for item in listed(self._transport, "/mempool", _MEMPOOL, query, limit):
            yield item

    # Probes: one attempt each, because they are about this moment.

    async def health(self) -> Probe:
        """`alive` if the process answers. Raises `NodeUnreachable`."""
        return await self._transport.probe("/health", PROBE)

    async def startup(self) -> Probe:
        """`started`, or `starting` while the node starts."""
        return await self._transport.probe("/startup", PROBE)

    async def ready(self) -> Readiness:
        """Whether the node accepts transactions, and if not, which part fails."""
        return await self._transport.probe("/ready", _READINESS)


def check_direction(direction: object) -> None:
    """Check that it is one, or the wrong payments would come. Raises `InvalidField`."""
    if direction not in get_args(Direction):
        raise InvalidField("direction", f"must be one of {', '.join(get_args(Direction))}")


def _data_of(reference: str | None, data: bytes | str | None) -> bytes | None:
    if data is not None:
        return bytes_of(data)
    return None if reference is None else reference.encode()


def _given(**parameters: str | int | None) -> dict[str, str]:
    """The parameters of a query that are given."""
    return {name: str(value) for name, value in parameters.items() if value is not None}


def check_block(asked: str | int, found: Header) -> None:
    """Check that it is the block that was asked for. Raises `UnexpectedAnswer`."""
    if str(asked).isdigit():
        check_same(int(asked), found.block_height)
    elif asked != "latest":
        check_same(str(asked), found.hash)


def check_same(asked: str | int, answered: str | int) -> None:
    """Check that the answer is about what was asked for. Raises `UnexpectedAnswer`."""
    if str(asked).lower() != str(answered):
        raise UnexpectedAnswer(f"the node was asked for {asked} and answered with {answered}")


async def pages(
    transport: Transport,
    path: str,
    items: Decoder[list[T]],
    query: Mapping[str, str],
    *,
    limit: int | None = None,
    page_size: int = MAX_PAGE,
    least_height: int = 0,
) -> AsyncGenerator[ListPage[T], None]:
    """The pages of all items, or of `limit` of them, from nodes that have the block at `least_height`.

    A page is requested when the previous one is used up.
    """
    cursor: str | None = None
    given = 0
    while limit is None or given < limit:
        size = page_size if limit is None else min(page_size, limit - given)
        asked: dict[str, str | int] = {**query, "limit": size}
        if cursor is not None:
            asked["after"] = cursor
        page = await _page_from(transport, path, items, asked, least_height)
        yield page
        given += len(page.items)
        cursor, least_height = page.cursor, page.height or 0
        if cursor is None:
            return


async def _page_from(
    transport: Transport, path: str, items: Decoder[list[T]], query: Mapping[str, str | int], least_height: int
) -> ListPage[T]:
    """A page from a node that has that height. Raises `NodeUnreachable` when none answers in time."""
    deadline = Deadline(transport.timeout_s)
    for delay_s in delays():
        page = await transport.get_page(path, items, query)
        if page.height is None or page.height >= least_height:
            return page
        if not await deadline.pause(delay_s):
            behind = f"{transport.url} is at block {page.height}, and block {least_height} was seen before"
            raise NodeUnreachable(behind, was_sent=False)
    raise AssertionError("the delays never end")


async def listed(
    transport: Transport,
    path: str,
    items: Decoder[list[T]],
    query: Mapping[str, str],
    limit: int | None = None,
    least_height: int = 0,
) -> AsyncGenerator[T, None]:
    """All items, or `limit` of them."""
    async with aclosing(pages(transport, path, items, query, limit=limit, least_height=least_height)) as found:
        async for page in found:
            for item in page.items:
                yield item
