"""Proves what a node answers, with genesis.json alone: whoever signed, and that no history replaces another.

The newest signed block that was checked is remembered. A later one must extend it, an earlier one must be in its
history, both shown by `GET /history/proof`. So a node cannot show one history now and another one later.
"""

import asyncio
from collections.abc import Awaitable, Callable
from copy import copy
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.json import Decoder

from cairn.client.errors import (
    BlockNotFound,
    BlockNotKept,
    ChainForked,
    InvalidField,
    InvalidProof,
    NotFound,
    NotSignedYet,
    OutdatedAnswer,
    TxDropped,
    TxNotKept,
    UnexpectedAnswer,
)
from cairn.client.models import (
    Block,
    Chain,
    Confirmed,
    ConfirmedTransaction,
    FullBlock,
    Head,
    Header,
    NewBlock,
    Payment,
)
from cairn.client.proven_answers import check_answer, check_full, check_header, check_listed, head_of, transaction_of
from cairn.client.remembered_head import RememberedHead
from cairn.client.transport import Deadline, Query, Transport, delays, path_of
from cairn.domain.certificates import CheckedCertificates, read_hex
from cairn.domain.genesis import Genesis, genesis_outcome
from cairn.domain.headers import encode_header
from cairn.domain.json_fields import find_data, hex_text
from cairn.domain.lru_cache import LruCache
from cairn.domain.proof_checks import (
    FinalBlock,
    Finality,
    ProvenBlock,
    Trust,
    check_account,
    check_finality,
    check_history,
    check_receipt,
)
from cairn.domain.proof_files import AccountFile, FinalityFile, HistoryFile, ReceiptFile, StatementFile, read_file
from cairn.domain.statement_checks import ProvenStatement, check_statement
from cairn.domain.types import Account, Address, BlockHeader

F = TypeVar("F", FinalityFile, ReceiptFile, AccountFile, StatementFile, HistoryFile)
T = TypeVar("T")

REMEMBERED_ANCESTORS = 1_024
"""Blocks that are known to be in the history of the remembered one."""
LONG_FILE_BYTES = 256 * 1024
"""A longer one is read in a thread, so that it does not hold the event loop."""

_CHAIN = Decoder(Chain)


class _RawBlock(msgspec.Struct, frozen=True):
    result: str | None = None


_RAW_BLOCK = Decoder(_RawBlock)


class ProvenAccountState(msgspec.Struct, frozen=True):
    account: Account
    block_height: int
    """The block after which the account was so."""


class Prover:
    """Fetches the proof of an answer and compares the two. Every check raises `InvalidProof` with what does not hold.

    `patience_s` is how long it waits for a node that is behind, and for a signature of a block that has none yet.
    """

    def __init__(self, transport: Transport, genesis: Genesis, head_file: Path | None, patience_s: float) -> None:
        self.genesis = genesis
        self._transport = transport
        self._patience_s = patience_s
        self._signing_patience_s: float | None = patience_s
        self._trust = Trust(genesis, checked=CheckedCertificates(genesis))
        self._remembered = RememberedHead(genesis, head_file)
        self._ancestors: LruCache[str, int] = LruCache(REMEMBERED_ANCESTORS)
        """Their heights, by hash."""
        self._genesis_block: ProvenBlock | None = None
        self._turn = asyncio.Lock()

    @property
    def head(self) -> Head | None:
        return self._remembered.head

    @property
    def height(self) -> int:
        """No answer about the present may be of an earlier block."""
        return 0 if self.head is None else self.head.block_height

    def chain_id(self, asked: int | None) -> int:
        """The chain id for which wallets sign. Raises `InvalidField` if another one is asked for."""
        if asked not in (None, self.genesis.chain_id):
            raise InvalidField("chain_id", f"is {asked}, and {self.genesis.chain_id} in the genesis")
        return self.genesis.chain_id

    def for_streams(self, transport: Transport) -> "Prover":
        """A prover with this memory, which waits for signatures as long as the transport waits for a node.

        On an idle network nobody signs the empty blocks before the next payment.
        """
        other = copy(self)
        other._transport = transport
        other._signing_patience_s = transport.timeout_s
        return other

    # Payments.

    async def check_payment(self, answer: ConfirmedTransaction | Payment | Confirmed) -> None:
        file = await self._fetch(ReceiptFile, path_of("tx", answer.tx_hash, "receipt"), until_found=True)
        proven = check_receipt(file, self._trust)
        await self._accept(proven.finality)
        check_answer(answer, transaction_of(proven.tx, proven.block, proven.index))

    # Blocks.

    async def check_block(self, answer: Block) -> None:
        await self.check_header(answer)
        check_listed(answer)

    async def check_full_block(self, answer: FullBlock) -> None:
        """With the block's bytes, since signatures are not in the answer."""
        proven = await self.check_header(answer)
        call = {"jsonrpc": "2.0", "id": 1, "method": "debug_getRawBlock", "params": [hex(answer.block_height)]}
        raw = (await self._transport.read_by_post("/rpc", call, _RAW_BLOCK)).result
        if raw is None:
            raise InvalidProof(f"the node does not give the bytes of block {answer.block_height}")
        content = find_data(raw)
        if content is None:
            raise InvalidProof(f"the node gives something else than the bytes of block {answer.block_height}")
        check_full(answer, content, proven)

    async def check_header(self, answer: Header) -> ProvenBlock:
        proven = await self._shown_block(answer)
        check_header(answer, proven)
        return proven

    async def check_announced(self, event: NewBlock) -> None:
        proven = await self._shown_block(event)
        if (event.block_height, event.hash) != (proven.header.height, hex_text(proven.hash)):
            raise InvalidProof(f"{event} is announced, and proven is block {proven.header.height}")

    async def _shown_block(self, answer: Header | NewBlock) -> ProvenBlock:
        return await (self.genesis_block() if answer.block_height == 0 else self.final_block(answer.hash))

    async def newest_block(self) -> ProvenBlock:
        """The newest that is signed. On a network the blocks after it are empty, or will be signed with the next."""

        async def ask() -> ProvenBlock:
            finality = (await self._finality("latest")).finality
            await self._accept(finality)
            return finality.block

        return await self.current(ask, lambda block: block.header.height)

    async def newest_height(self) -> int:
        """The height of the newest block that is signed, or 0 on a chain that has block 0 only."""
        if self.head is None and await self._has_only_genesis():
            return 0
        return (await self.newest_block()).header.height

    async def genesis_block(self) -> ProvenBlock:
        """Nobody signs block 0: it follows from the genesis."""
        if self._genesis_block is None:
            # That takes seconds with a million accounts.
            made = await asyncio.to_thread(genesis_outcome, self.genesis)
            self._genesis_block = ProvenBlock(made.block.header, made.block.hash)
        return self._genesis_block

    async def final_block(self, name: str | int) -> ProvenBlock:
        """A block by hash or height. Raises `InvalidProof` for the proof of another one."""
        proven = await self._finality(name)
        block = proven.block
        if name not in (block.header.height, hex_text(block.hash)):
            raise InvalidProof(f"the proof is of block {block.header.height}, {hex_text(block.hash)}, not of {name}")
        await self._accept(proven.finality)
        return block

    async def _finality(self, name: str | int) -> FinalBlock:
        file = await self._fetch(FinalityFile, path_of("block", name, "finality"), until_found=True)
        return check_finality(file, self._trust)

    # Accounts.

    async def account(self, address: str, height: int | None) -> ProvenAccountState:
        """What the account held after a block, or after the newest signed one."""
        path, query = path_of("account", address, "proof"), {} if height is None else {"height": height}
        wanted = Address(read_hex(address.lower(), "the address"))

        async def ask() -> ProvenAccountState:
            proven = check_account(await self._fetch(AccountFile, path, query), self._trust)
            if proven.address != wanted:
                raise InvalidProof(f"the proof is of account {hex_text(proven.address)}, not of {address}")
            wanted_height = proven.finality.block.header.height if height is None else height
            if proven.height != wanted_height:
                raise InvalidProof(f"the proof is of height {proven.height}, not of {wanted_height}")
            await self._accept(proven.finality)
            return ProvenAccountState(proven.account, proven.height)

        if height == 0 or (height is None and self.head is None and await self._has_only_genesis()):
            return ProvenAccountState(Account(self.genesis.alloc.get(wanted, 0)), 0)
        return await ask() if height is not None else await self.current(ask, lambda held: held.block_height)

    async def _has_only_genesis(self) -> bool:
        return (await self._transport.get("/chain", _CHAIN)).head.block_height == 0

    async def check_time(self, height: int, time: int) -> None:
        """Check that the block at `height` is the last one up to a time, as far as the chain is known."""
        newest = await self.newest_height()
        block = await (self.final_block(height) if height else self.genesis_block())
        if block.header.timestamp > time:
            raise InvalidProof(f"block {height} is not the last one up to the time {time}")
        if height < newest and (await self.final_block(height + 1)).header.timestamp <= time:
            raise InvalidProof(f"block {height + 1} is not after the time {time}, either")

    # Statements.

    async def statement(self, address: str, first: int | None, last: int) -> ProvenStatement:
        """All that happened to the account; without `first`, from as early as the node can prove."""
        query = {"to": last} | ({} if first is None else {"from": first})
        file = await self._fetch(StatementFile, path_of("account", address, "statement"), query)
        # A long one takes seconds.
        proven = await asyncio.to_thread(check_statement, file, self._trust)
        if hex_text(proven.address) != address.lower():
            raise InvalidProof(f"the statement is of account {hex_text(proven.address)}, not of {address}")
        if proven.last != last or first not in (None, proven.first):
            raise InvalidProof(f"the statement is of blocks {proven.first} to {proven.last}, not {first} to {last}")
        await self._accept(proven.finality)
        return proven

    # The chain of signed blocks.

    async def check_head(self, other: Head) -> None:
        """Check that a block that somebody else was shown is on the same chain. Raises `ChainForked`."""
        if self.head is None:
            await self.newest_block()
        async with self._turn:
            await self._check_on_chain(other)

    async def _accept(self, finality: Finality) -> None:
        """Check that a signed block is on the same chain as all before it, and remember the newest."""
        block = finality.block
        async with self._turn:
            await self._check_on_chain(head_of(block), block.header)
            if self.head is None or block.header.height > self.height:
                await asyncio.to_thread(self._remembered.remember, block)

    async def _check_on_chain(self, block: Head, header: BlockHeader | None = None) -> None:
        """`header` is that of the block, if it is known."""
        head = self.head
        if block.block_height == 0:
            first = head_of(await self.genesis_block())
            if block.hash != first.hash:
                raise ChainForked(first, block)
            return
        if (
            head is None
            or head.block_height == 0
            or block.hash == head.hash
            or self._ancestors.use(block.hash) == block.block_height
        ):
            return
        if block.block_height == head.block_height:
            raise ChainForked(head, block)
        if head.block_height < block.block_height:
            older, newer, known = head, block, None if self._remembered.block is None else self._remembered.block.header
        else:
            older, newer, known = block, head, header
        await self._check_extends(older, newer, known)
        self._ancestors.keep(older.hash, older.block_height)

    async def _check_extends(self, older: Head, newer: Head, known: BlockHeader | None) -> None:
        """`known` is the header of the older one: with it, even a node that has removed the block can show that."""
        if known is not None:
            file = await self._history(older, newer, known="true")
            own = msgspec.structs.replace(file, first=hex_text(encode_header(known)))
            try:
                self._check_history(own, older, newer)
                return
            except InvalidProof as failure:
                # Which block the node has instead is the evidence.
                try:
                    file = await self._history(older, newer)
                except BlockNotKept:
                    raise failure from None
        else:
            file = await self._history(older, newer)
        self._check_history(file, older, newer)

    async def _history(self, older: Head, newer: Head, **more: str) -> HistoryFile:
        query: Query = {"from": older.block_height, "to": newer.block_height, **more}
        try:
            return await self._fetch(HistoryFile, "/history/proof", query, until_found=True)
        except BlockNotKept:
            raise
        except BlockNotFound as missing:
            raise OutdatedAnswer(f"{self._transport.url} does not have block {newer.block_height}: {missing}") from None

    def _check_history(self, file: HistoryFile, older: Head, newer: Head) -> None:
        proven = check_history(file, self._trust)
        for known, shown in ((older, head_of(proven.first)), (newer, head_of(proven.second))):
            if known.block_height != shown.block_height:
                raise InvalidProof(f"the proof of history is of block {shown.block_height}, not {known.block_height}")
            if known.hash != shown.hash:
                raise ChainForked(known, shown)

    async def current(self, ask: Callable[[], Awaitable[T]], height_of: Callable[[T], int]) -> T:
        """Ask until the answer is of no earlier block than the remembered one. Raises `OutdatedAnswer`."""
        deadline = Deadline(self._patience_s)
        for delay_s in delays():
            least = self.height
            answer = await ask()
            if height_of(answer) >= least:
                return answer
            if not await deadline.pause(delay_s):
                told = f"{self._transport.url} answers as of block {height_of(answer)}"
                raise OutdatedAnswer(f"{told}, and block {least} was proven before")
        raise AssertionError("the delays never end")

    async def _fetch(self, kind: type[F], path: str, query: Query | None = None, *, until_found: bool = False) -> F:
        """Ask for a file of proof, until its block is signed. Raises `NotSignedYet` when that takes too long.

        With `until_found` also until the node has what it is about: behind a load balancer another one has it.
        """
        for_node, for_signature = Deadline(self._patience_s), Deadline(self._signing_patience_s)
        for delay_s in delays():
            try:
                answer = await self._transport.ask("GET", path, query=query)
                break
            except NotSignedYet:
                if not await for_signature.pause(delay_s):
                    raise
            except NotFound as missing:
                may_come = until_found and not isinstance(missing, BlockNotKept | TxNotKept | TxDropped)
                if not may_come or not await for_node.pause(delay_s):
                    raise
        content = answer.response.content
        read = asyncio.to_thread(read_file, content) if len(content) > LONG_FILE_BYTES else None
        file = read_file(content) if read is None else await read
        if not isinstance(file, kind):
            raise UnexpectedAnswer(f"{self._transport.url}{path} answered with a {type(file).__name__}")
        return file
