"""Accounts, now or as of an earlier block, and their histories."""

import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Annotated, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from cairn.api.bodies import (
    NDJSON_MEDIA_TYPE,
    Form,
    StreamedResponse,
    accepts_ndjson,
    array_response,
    as_integers,
    encoded,
    json_response,
    read_json_body,
)
from cairn.api.chain_view import ChainView
from cairn.api.next_nonces import NextNonces
from cairn.api.parameters import (
    ACCOUNT,
    AMOUNTS,
    BEFORE,
    COUNTERPARTY,
    DATA,
    DIRECTION,
    FROM_HEIGHT,
    FROM_TIME,
    HEIGHT,
    HISTORY_CURSOR,
    LIMIT,
    ORDER,
    REFERENCE_TEXT,
    TIME,
    TO_HEIGHT,
    TO_TIME,
    address_of,
    amounts_of,
    check_one_of,
    choice_of,
    data_in,
    limit_of,
    number_of,
    page_links,
    position_in,
)
from cairn.api.rest.submission_fields import brief, read_address
from cairn.api.routing import Answer, Operation
from cairn.domain.answers import AccountList, AccountState, ConfirmedTransaction, ListedAccount
from cairn.domain.crypto import parse_address
from cairn.domain.errors import BlockNotFound, BlockNotKept, InvalidField, InvalidQuery, MalformedJson
from cairn.domain.json_fields import MAX_INT64, AnyAddressText, about, find_integer, hex_text, titled
from cairn.domain.types import Account, Address
from cairn.store.history import MAX_POSITION, Search, Step
from cairn.store.keys import EITHER, RECEIVED, SENT, Location
from cairn.time_shares import give_way, one_slice

MAX_ACCOUNTS = 1_000
"""Addresses in one `POST /accounts`."""
MAX_ACCOUNTS_BODY_BYTES = 128 * 1024
MAX_IN_VAIN = 200
"""Reads of one page that find nothing: some milliseconds. The page is then short, and leads to the next."""


_encode = msgspec.json.Encoder().encode


class AccountsRequest(msgspec.Struct, frozen=True):
    """Whose accounts are asked for, and as of which block."""

    addresses: Annotated[list[AnyAddressText], about("At most 1,000 addresses.", maxItems=MAX_ACCOUNTS)]
    height: Annotated[int | UnsetType, about("Height of the block; the latest if left out.", minimum=0)] = UNSET


class Page(NamedTuple):
    items: list[bytes]
    nearest: Location | None
    """Where its first transaction is. Without any: where it would be at the earliest."""
    more: Location | None
    """Where the search goes on, if there may be more."""


class Accounts:
    def __init__(self, nonces: NextNonces, view: ChainView) -> None:
        self._nonces = nonces
        self._view = view

    @Operation(
        "GET /account/{address}",
        "accounts",
        ACCOUNT,
        HEIGHT,
        TIME,
        AMOUNTS,
        Answer("The account after the latest block, or after the one that is asked for.", AccountState),
        404,
    )
    async def get_account(self, request: Request, query: Mapping[str, str]) -> Response:
        """Look up an account. Every address has one; without any transfer its balance and nonce are 0."""
        form = amounts_of(query)
        address = parse_address(request.path_params["address"], "address")
        height = await self._height_in(query)
        if height is not None:
            account = self._view.account_at(address, height)
            return encoded(AccountState(hex_text(address), account.balance, account.nonce, account.nonce, height), form)
        pending_nonce = await self._nonces.ask(address)
        await self._view.reach_head()
        return json_response(form(account_json(address, self._view.account(address), pending_nonce)))

    async def _height_in(self, query: Mapping[str, str]) -> int | None:
        """The block that `height` or `time` names, if one of them is given. Raises `BlockNotFound`."""
        check_one_of(query, "height", "time")
        height, moment = number_of(query, "height"), number_of(query, "time")
        self._view.get_info()
        if height is not None:
            await self._view.check_height(height)
            return height
        if moment is None:
            return None
        head = await self._view.reach_head()
        # On a dev chain, the clock of blocks may be ahead.
        if moment > max(time.time(), self._view.get_header(head)[1].timestamp):
            raise BlockNotFound(f"the time {moment} has not come yet")
        found = self._view.last_height_at(moment)
        if found is None:
            raise self._too_early(moment)
        return found

    def _too_early(self, moment: int) -> BlockNotFound:
        base = self._view.base
        if base:
            return BlockNotKept(f"no block up to the time {moment} is kept by this node; the oldest it has is {base}")
        return BlockNotFound(f"the chain began after the time {moment}")

    @Operation(
        "POST /accounts",
        "accounts",
        AMOUNTS,
        Answer("The accounts, in the order of the addresses.", AccountList),
        404,
        body=AccountsRequest,
    )
    async def list_accounts(self, request: Request, query: Mapping[str, str]) -> Response:
        """Look up to 1,000 accounts at once. All are as of the end of one block, which the answer names."""
        form = amounts_of(query)
        addresses, height = parse_accounts_request(await read_json_body(request, MAX_ACCOUNTS_BODY_BYTES))
        self._view.get_info()
        if height is None:
            height = await self._view.reach_head()
        else:
            await self._view.check_height(height)
        found = []
        async for index, text in self._view.in_slices(enumerate(addresses)):
            address = read_address(f"addresses[{index}]", text)
            account = self._view.account_at(address, height)
            found.append(ListedAccount(hex_text(address), account.balance, account.nonce))
        await give_way()
        return encoded(AccountList(height, found), form)

    # Histories.

    @Operation(
        "GET /account/{address}/txs",
        "accounts",
        ACCOUNT,
        DIRECTION,
        COUNTERPARTY,
        FROM_HEIGHT,
        TO_HEIGHT,
        FROM_TIME,
        TO_TIME,
        REFERENCE_TEXT,
        DATA,
        ORDER,
        LIMIT,
        HISTORY_CURSOR,
        BEFORE,
        AMOUNTS,
        Answer(
            "One page of the list, or all of it in lines.",
            titled("TransactionHistory", list[ConfirmedTransaction]),
            ("Link", "X-Block-Height", "X-Oldest-Block", "X-Total-Count"),
            has_lines=True,
        ),
        404,
    )
    async def list_account_transactions(self, request: Request, query: Mapping[str, str]) -> Response:
        """List the confirmed transactions that an account sent or received, newest first.

        Only blocks that this node keeps are searched: up to the height in X-Block-Height and, if it does not keep all,
        from that in X-Oldest-Block. Asked for blocks that it does not keep, it answers 404 BLOCK_NOT_KEPT. A page may
        be short, or empty, and still have a next one: of two accounts that both have many transactions, but few with
        each other, each page looks at some of them. X-Total-Count is there for `direction=out` without `counterparty`,
        `reference` or `data`. With `Accept: application/x-ndjson`, the answer is the whole list from the cursor on, or
        `limit` items if that is given, one on each line.
        """
        form, after, before = amounts_of(query), position_in(query, "after"), position_in(query, "before")
        check_one_of(query, "after", "before")
        limit = limit_of(query)
        address: Address = parse_address(request.path_params["address"], "address")
        self._view.get_info()
        head = await self._view.reach_head()
        search = self._search_of(query, address)
        headers = {"X-Block-Height": str(head)} | self._count_of(search)
        if accepts_ndjson(request):
            if before is not None:
                raise InvalidQuery("before is for pages: a stream goes on from after")
            stream = self._stream(search, after, form, limit if "limit" in query else None)
            return StreamedResponse(stream, headers | self._oldest() | {"Vary": "Accept"}, NDJSON_MEDIA_TYPE)
        is_back = before is not None
        way, cursor = (search.reversed(), before) if is_back else (search, after)
        page = await self._page(way, cursor, limit, form)
        back = page.nearest if cursor is not None and await self._has_any_up_to(way, cursor) else None
        # Blocks may have been removed meanwhile.
        self._check_kept(way, cursor)
        items, following, earlier = page.items, page.more, back
        if is_back:
            items, following, earlier = items[::-1], back, page.more
        path = f"/account/{hex_text(address)}/txs"
        headers |= page_links(path, query, cursor_text(following), cursor_text(earlier))
        return array_response(items, headers | self._oldest())

    def _search_of(self, query: Mapping[str, str], address: Address) -> Search:
        """What is asked for, up to the height that is shown. Raises `InvalidQuery`."""
        check_one_of(query, "fromHeight", "fromTime")
        check_one_of(query, "toHeight", "toTime")
        first, last = number_of(query, "fromHeight"), number_of(query, "toHeight")
        since, until = number_of(query, "fromTime"), number_of(query, "toTime")
        if since is not None:
            earlier = self._view.last_height_at(since - 1)
            # Without an earlier one, the block before the oldest that is kept may be meant, too.
            first = self._view.base - 1 if earlier is None else earlier + 1
        if until is not None:
            latest = self._view.last_height_at(until)
            last = -1 if latest is None else latest
        return Search(
            address,
            choice_of(query, "direction", {"in": RECEIVED, "out": SENT}, EITHER),
            address_of(query, "counterparty"),
            # Block 0 has no transactions.
            0 if first is None else max(first, 1),
            self._view.height if last is None else min(last, self._view.height),
            choice_of(query, "order", {"asc": True, "desc": False}, False),
            data_in(query),
        )

    def _oldest(self) -> dict[str, str]:
        """The header of a node that does not keep all blocks: what is older is not in the list."""
        base = self._view.base
        return {"X-Oldest-Block": str(base)} if base else {}

    def _check_kept(self, search: Search, after: Location | None) -> None:
        """Check that no block that is asked for behind `after` is gone. Raises `BlockNotKept`."""
        base, first = self._view.base, search.first
        if search.is_ascending and after is not None:
            first = max(first, after[0] + (after[1] == MAX_POSITION), 1)
        if 0 < first < base or (base > 0 and search.last < base):
            raise BlockNotKept(f"not all blocks asked for are kept by this node; the oldest it has is {base}")

    def _count_of(self, search: Search) -> dict[str, str]:
        """The header with the number of all items, where it costs nothing: an account's nonces count what it sends."""
        is_known = search.how == SENT and search.counterparty is None and search.data is None
        return {"X-Total-Count": str(self._view.count_sent(search))} if is_known else {}

    async def _page(self, search: Search, after: Location | None, limit: int, form: Form) -> Page:
        items: list[bytes] = []
        nearest = None if after is None else next_place(after, search.is_ascending)
        last, in_vain = after, 0
        async for step in self._view.in_slices(self._steps(search, after)):
            # Other requests were served meanwhile, and the oldest blocks may have been removed.
            if step.location[0] < self._view.base:
                if search.is_ascending:
                    continue
                break
            if step.is_found:
                if len(items) == limit:
                    return Page(items, nearest, last)
                if not items:
                    nearest = step.location
                items.append(form(self._view.confirmed_at(*step.location)))
                last = step.location
            else:
                in_vain += 1
                if in_vain == MAX_IN_VAIN:
                    return Page(items, nearest, step.location)
        return Page(items, nearest, None)

    async def _has_any_up_to(self, search: Search, cursor: Location) -> bool:
        """Whether there may be something at the cursor of a page or on its other side: anybody can make up a cursor."""
        try:
            # It begins with the cursor itself, where the link of a page has a transaction.
            page = await self._page(search.reversed(), next_place(cursor, search.is_ascending), 1, as_integers)
        except BlockNotKept:
            return False
        return bool(page.items) or page.more is not None

    def _steps(self, search: Search, after: Location | None) -> Iterator[Step]:
        """The search from `after` on. Raises `BlockNotKept` if blocks that come next are gone."""
        self._check_kept(search, after)
        return self._view.search_history(search, after)

    async def _stream(
        self, search: Search, after: Location | None, form: Form, limit: int | None
    ) -> AsyncIterator[bytes]:
        """The transactions in JSON, some lines at a time. Nothing is held between two pieces but where it has come."""
        reverts = self._view.reverts
        left = MAX_INT64 if limit is None else limit
        while left:
            lines, began = [], after
            for step in one_slice(self._steps(search, after)):
                after = step.location
                if step.is_found:
                    lines.append(form(self._view.confirmed_at(*after)) + b"\n")
                if len(lines) == left:
                    break
            if after == began:
                return
            yield b"".join(lines)
            left -= len(lines)
            await give_way()
            self._view.check_streaming(reverts)


def account_json(address: Address, account: Account, pending_nonce: int) -> bytes:
    """The account as of the latest block; `pending_nonce` is what the mempool says."""
    # The account may be newer than the mempool's answer, but never older.
    next_nonce = max(pending_nonce, account.nonce)
    return _encode(AccountState(hex_text(address), account.balance, account.nonce, next_nonce))


def next_place(location: Location, is_ascending: bool) -> Location | None:
    height, position = location
    if is_ascending:
        return (height, position + 1) if position < MAX_POSITION else (height + 1, 0)
    if position:
        return height, position - 1
    return (height - 1, MAX_POSITION) if height else None


def cursor_text(location: Location | None) -> str | None:
    return None if location is None else f"{location[0]}-{location[1]}"


def parse_accounts_request(body: bytes) -> tuple[list[object], int | None]:
    """The addresses, which are not read yet, and the height. Raises `MalformedJson` or `InvalidField`."""
    try:
        fields = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedJson(f"the body is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise InvalidField("body", "expected a JSON object")
    for name in fields:
        if name not in AccountsRequest.__struct_fields__:
            raise InvalidField(brief(name), "is not a field of this request: expected addresses or height")
    addresses, height = fields.get("addresses"), find_integer(fields.get("height"))
    if not isinstance(addresses, list) or len(addresses) > MAX_ACCOUNTS:
        raise InvalidField("addresses", f"expected a list of at most {MAX_ACCOUNTS} addresses")
    if "height" in fields and (height is None or height < 0):
        raise InvalidField("height", "expected an integer, and not a negative one")
    return addresses, height
