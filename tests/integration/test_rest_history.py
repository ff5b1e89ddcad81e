"""An account's history over REST: filters, orders, pages in both directions, streams; and accounts as of a block."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from cairn import time_shares
from cairn.api.next_nonces import NextNonces
from cairn.api.rest import accounts
from cairn.domain.errors import ShuttingDown
from cairn.domain.transactions import sign_draft
from cairn.domain.types import Draft, Tx
from cairn.store.history import Search
from tests.support.core_fixtures import ACCOUNTS, CHAIN_ID, GWEI, KEYS
from tests.support.described import assert_described
from tests.support.public import assert_problem
from tests.support.rest_node import RestNode, body_of
from tests.support.tx_data import gas_of

LINES = "application/x-ndjson"
BLOCKS: Sequence[Sequence[tuple[int, int]]] = [[(0, 1)], [], [(0, 2), (1, 0)], [(2, 1)], [(0, 0), (0, 1)], [(1, 0)], []]
"""Sender and recipient of each transaction."""


def name(number: int) -> str:
    return "0x" + ACCOUNTS[number].hex()


def stream_of(node: RestNode, search: Search) -> AsyncIterator[bytes]:
    served = accounts.Accounts(NextNonces(node.core, node.view), node.view)
    return served._stream(search, None, lambda answer: answer, None)


class OldClient(httpx.ASGITransport):
    """Asks over HTTP/1.0, as nginx does unless it is told otherwise."""

    def __init__(self, app: ASGIApp) -> None:
        async def old(scope: Scope, receive: Receive, send: Send) -> None:
            await app({**scope, "http_version": "1.0"}, receive, send)

        super().__init__(old)


async def make_blocks(node: RestNode, blocks: Sequence[Sequence[tuple[int, int]]] = BLOCKS) -> None:
    nonces = dict.fromkeys(range(10), 0)
    for pairs in blocks:
        for sender, to in pairs:
            answer = await node.post(body_of(paid(sender, to, nonces[sender])))
            assert answer.status_code == 200, answer.text
            nonces[sender] += 1
        node.mine()


def paid(sender: int, to: int, nonce: int, data: bytes = b"") -> Tx:
    draft = Draft(ACCOUNTS[sender], ACCOUNTS[to], 1, gas_of(data), GWEI, nonce, data=data)
    return sign_draft(draft, KEYS[ACCOUNTS[sender]], CHAIN_ID)


async def asked(node: RestNode, path: str, **headers: str) -> httpx.Response:
    answer = await node.get(path, **headers)
    assert_described(answer)
    assert answer.status_code == 200, answer.text
    return answer


def heights(items: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(item["blockHeight"], item["transactionIndex"]) for item in items]


def everything(of: int, how: str = "", other: int | None = None) -> list[tuple[int, int]]:
    """Newest first. The order of a block is that of gas prices and nonces, so it is looked up."""
    found = []
    for height, pairs in enumerate(BLOCKS, 1):
        for sender, to in pairs:
            out = how != "in" and sender == of and other in (None, to)
            into = how != "out" and to == of and other in (None, sender)
            if out or into:
                found.append((height, sender, to))
    return sorted(((height, 0) for height, _, _ in found), reverse=True)


@pytest.mark.parametrize("order", ["desc", "asc"])
@pytest.mark.parametrize(
    ("query", "kind"),
    [("", ("", None)), ("direction=in", ("in", None)), ("direction=out", ("out", None)),
     (f"counterparty={name(1)}", ("", 1)), (f"counterparty={name(1)}&direction=out", ("out", 1)),
     (f"counterparty={name(1)}&direction=in", ("in", 1)), (f"counterparty={name(0)}", ("", 0)),
     (f"counterparty={name(9)}", ("", 9))],
)  # fmt: skip
async def test_filtered_pages_hold_what_the_filter_says_in_both_directions(
    node: RestNode, query: str, kind: tuple[str, int | None], order: str
) -> None:
    await make_blocks(node)
    expected = [height for height, _ in everything(0, *kind)][:: -1 if order == "asc" else 1]
    path = f"/account/{name(0)}/txs?{query}&order={order}"
    whole = (await asked(node, path)).json()
    assert [item["blockHeight"] for item in whole] == expected
    for limit in (1, 2, 3):
        pages = [await asked(node, f"{path}&limit={limit}")]
        assert "prev" not in pages[0].links
        while "next" in pages[-1].links:
            pages.append(await asked(node, pages[-1].links["next"]["url"]))
        assert [item for page in pages for item in page.json()] == whole
        back = pages[-1]
        for page in reversed(pages[:-1]):
            back = await asked(node, back.links["prev"]["url"])
            assert back.json() == page.json()
            assert back.links["next"]["url"] == page.links["next"]["url"]
        assert "prev" not in back.links


@pytest.mark.parametrize("query", ["", "direction=out", f"counterparty={name(1)}", "reference=rent"])
async def test_no_page_links_to_one_that_has_nothing(node: RestNode, query: str) -> None:
    await make_blocks(node)
    for nonce in (2, 3):
        assert (await node.post(body_of(paid(1, 0, nonce, b"rent")))).status_code == 200
    for nonce in (4, 5):
        assert (await node.post(body_of(paid(0, 1, nonce, b"rent")))).status_code == 200
    node.mine()
    path = f"/account/{name(0)}/txs?{query}&limit=2"
    for order, first, last in (("desc", "99-0", "0-0"), ("asc", "0-0", "99-0")):
        whole = (await asked(node, f"/account/{name(0)}/txs?{query}&order={order}")).json()
        assert len(whole) >= 4
        # Nothing follows what is before a place behind all, and nothing is before what follows a place before all.
        oldest = await asked(node, f"{path}&order={order}&before={last}")
        assert (oldest.json(), set(oldest.links)) == (whole[-2:], {"prev"})
        newest = await asked(node, f"{path}&order={order}&after={first}")
        assert (newest.json(), set(newest.links)) == (whole[:2], {"next"})
        for beside, item in (("before", whole[-1]), ("after", whole[0])):
            place = f"{item['blockHeight']}-{item['transactionIndex']}"
            assert set((await asked(node, f"{path}&order={order}&{beside}={place}")).links) == {"prev", "next"}


async def test_payments_are_found_by_their_reference_or_data(node: RestNode) -> None:
    sent = [(1, "invoice 4711"), (2, "invoice 4711"), (1, "invoice 4712"), (1, "naïve ✓ &+"), (2, "")]
    nonces = {1: 0, 2: 0}
    for sender, reference in sent:
        answer = await node.post(body_of(paid(sender, 0, nonces[sender], reference.encode())))
        assert answer.status_code == 200, answer.text
        nonces[sender] += 1
        node.mine()
    path = f"/account/{name(0)}/txs"
    for query, expected in (
        ("reference=invoice+4711", [2, 1]),
        ("reference=invoice%204711&order=asc", [1, 2]),
        (f"data=0x{b'invoice 4711'.hex()}&counterparty={name(2)}", [2]),
        ("reference=invoice+4711&direction=out", []),
        ("reference=invoice+4711&toHeight=1", [1]),
        ("reference=invoice", []),
        (str(httpx.QueryParams({"reference": "naïve ✓ &+"})), [4]),
    ):
        answer = await asked(node, f"{path}?{query}")
        assert [item["blockHeight"] for item in answer.json()] == expected, query
        assert "x-total-count" not in answer.headers
        lines = await asked(node, f"{path}?{query}", accept=LINES)
        assert lines.content.count(b"\n") == len(expected)
    first = await asked(node, f"{path}?reference=invoice+4711&limit=1")
    following = await asked(node, first.links["next"]["url"])
    assert [item["blockHeight"] for item in following.json()] == [1]
    assert "next" not in following.links
    assert (await asked(node, following.links["prev"]["url"])).json() == first.json()
    assert first.json()[0]["reference"] == "invoice 4711"
    other = await asked(node, f"/account/{name(1)}/txs?reference=invoice+4711")
    assert [item["blockHeight"] for item in other.json()] == [1]


async def test_the_heights_and_times_of_a_history_can_be_bounded(node: RestNode) -> None:
    await make_blocks(node)
    path = f"/account/{name(0)}/txs"
    times = {block["blockHeight"]: block["timestamp"] for block in (await asked(node, "/blocks")).json()}
    for query, expected in (
        ("fromHeight=3&toHeight=5", {3, 5}),
        ("fromHeight=6", {6}),
        ("toHeight=0", set()),
        ("fromHeight=9223372036854775807", set()),
        ("fromHeight=5&toHeight=3", set()),
        (f"fromTime={times[3]}", {height for height in (1, 3, 5, 6) if times[height] >= times[3]}),
        (f"toTime={times[3]}", {height for height in (1, 3, 5, 6) if times[height] <= times[3]}),
        ("fromTime=0&toTime=1", set()),
        (f"fromTime=1&toHeight={3}", {1, 3}),
    ):
        for order in ("asc", "desc"):
            found = (await asked(node, f"{path}?{query}&order={order}")).json()
            assert {item["blockHeight"] for item in found} == expected, query


async def test_only_what_an_account_sent_is_counted(node: RestNode) -> None:
    await make_blocks(node)
    path = f"/account/{name(0)}/txs"
    sent = await asked(node, f"{path}?direction=out&limit=1")
    assert sent.headers["x-total-count"] == "4"
    assert (await asked(node, f"{path}?direction=out&fromHeight=2&toHeight=4")).headers["x-total-count"] == "1"
    for query in ("direction=in", f"direction=out&counterparty={name(1)}", ""):
        assert "x-total-count" not in (await asked(node, f"{path}?{query}")).headers


async def test_a_stream_has_all_pages_in_lines(node: RestNode) -> None:
    await make_blocks(node)
    for query in ("", "order=asc", "direction=in&order=asc", f"counterparty={name(1)}"):
        path = f"/account/{name(0)}/txs?{query}"
        items = (await asked(node, path)).json()
        streamed = await asked(node, path, accept=f"text/plain, {LINES};q=0.9")
        assert streamed.headers["content-type"] == LINES
        assert (streamed.headers["vary"], streamed.headers["x-block-height"]) == ("Accept, Origin", str(len(BLOCKS)))
        assert [httpx.Response(200, content=line).json() for line in streamed.content.splitlines()] == items
        after = "{}-{}".format(*heights(items)[0])
        rest = await asked(node, f"{path}&after={after}&limit=2", accept=LINES)
        assert [httpx.Response(200, content=line).json() for line in rest.content.splitlines()] == items[1:3]


async def test_a_stream_ends_without_a_last_line_once_the_node_stops(
    node: RestNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_blocks(node)
    monkeypatch.setattr(time_shares, "SLICE_S", -1)
    search = Search(ACCOUNTS[0])
    stream = stream_of(node, search)
    assert await anext(stream)
    node.view.on_phase("draining", "the node is shutting down")
    with pytest.raises(ShuttingDown, match="shutting down"):
        await anext(stream)


async def test_a_stream_gives_way_after_each_slice_of_time_though_nothing_was_found(
    node: RestNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_blocks(node, [[(0, 1)], *([[(0, 2)], [(1, 3)]] * 6), [(1, 0)]])
    monkeypatch.setattr(time_shares, "SLICE_S", -1)
    for is_ascending in (True, False):
        search = Search(ACCOUNTS[0], counterparty=ACCOUNTS[1], is_ascending=is_ascending)
        stream = stream_of(node, search)
        pieces = [piece async for piece in stream]
        assert [len(piece.splitlines()) for piece in pieces if piece] == [1, 1]
        assert len(pieces) >= 4


async def test_a_search_that_finds_nothing_for_long_gives_short_pages_that_lead_on(
    node: RestNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_blocks(node, [[(0, 1)], *([[(0, 2)], [(1, 3)]] * 6), [(1, 0)]])
    monkeypatch.setattr(accounts, "MAX_IN_VAIN", 3)
    path = f"/account/{name(0)}/txs?counterparty={name(1)}"
    for order, expected in (("desc", [14, 1]), ("asc", [1, 14])):
        pages = [await asked(node, f"{path}&order={order}")]
        while "next" in pages[-1].links:
            pages.append(await asked(node, pages[-1].links["next"]["url"]))
        assert [item["blockHeight"] for page in pages for item in page.json()] == expected
        assert len(pages) >= 3
        assert any(not page.json() for page in pages)
        back = pages[-1:]
        while "prev" in back[-1].links:
            back.append(await asked(node, back[-1].links["prev"]["url"]))
        assert [item["blockHeight"] for page in reversed(back) for item in page.json()] == expected
        streamed = await asked(node, f"{path}&order={order}", accept=LINES)
        assert len(streamed.content.splitlines()) == 2


@pytest.mark.parametrize(
    "query",
    ["direction=both", "order=up", "counterparty=0x12", "fromHeight=-1", "toTime=x", "fromHeight=1&fromTime=1",
     "toHeight=1&toTime=1", "before=1", "after=1-0&before=1-0", "reference=a&data=0x61", "reference=", "data=0x",
     "data=61", "data=0x6", "reference=a%0Ab", f"reference={'a' * 257}", f"data=0x{'61' * 257}"],
)  # fmt: skip
async def test_a_malformed_filter_is_refused(node: RestNode, query: str) -> None:
    answer = await node.get(f"/account/{name(0)}/txs?{query}")
    assert_described(answer)
    assert_problem(answer, 400, "INVALID_QUERY")


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [(LINES, LINES), (f"{LINES}, application/json", LINES), (f"{LINES}, */*", LINES),
     (f"{LINES};q=0.5, */*;q=0.1", LINES), (f"application/*;q=0.1, {LINES.upper()} ; q=0.2", LINES),
     (f"{LINES};q=0", "application/json"), (f"{LINES};q=0.000", "application/json"),
     (f"{LINES};q=0.1, application/json", "application/json"),
     (f"{LINES};q=0.1, application/json;q=0.2", "application/json"),
     (f"{LINES};q=0.9, application/*", "application/json"), (f"{LINES};q=0.9, */*", "application/json"),
     ("*/*", "application/json"), ("", "application/json")],
)  # fmt: skip
async def test_lines_are_sent_to_those_that_name_them_and_do_not_prefer_json(
    node: RestNode, accept: str, media_type: str
) -> None:
    for path in (f"/account/{name(0)}/txs", "/block/0?transactions=full"):
        assert (await asked(node, path, accept=accept)).headers["content-type"] == media_type


async def test_a_stream_takes_no_page_before_a_cursor(node: RestNode) -> None:
    assert_problem(await node.get(f"/account/{name(0)}/txs?before=1-0", accept=LINES), 400, "INVALID_QUERY")


async def test_a_list_oldest_first_never_skips_blocks_that_were_removed(node: RestNode) -> None:
    await make_blocks(node)
    node.mine_after_pruning(4)
    path = f"/account/{name(0)}/txs?order=asc"
    assert [item["blockHeight"] for item in (await asked(node, path)).json()] == [5, 5, 6]
    for kept in ("&after=3-4294967295", "&after=4-0", "&after=1-0&fromHeight=4", "&after=4-0&fromHeight=2"):
        assert [item["blockHeight"] for item in (await asked(node, path + kept)).json()] == [5, 5, 6]
    for gone in ("2-0", "3-0", "0-0"):
        for headers in ({}, {"accept": LINES}):
            assert_problem(await node.get(f"{path}&after={gone}", **headers), 404, "BLOCK_NOT_KEPT")


# Full blocks.


async def test_a_full_block_has_its_transactions(node: RestNode) -> None:
    await make_blocks(node)
    for height in range(len(BLOCKS) + 1):
        block = (await asked(node, f"/block/{height}")).json()
        for named in (str(height), block["hash"]):
            full = await asked(node, f"/block/{named}?transactions=full")
            txs = [(await asked(node, f"/tx/{tx_hash}")).json() for tx_hash in block["transactions"]]
            assert full.json() == block | {"transactions": txs}
            assert (await asked(node, f"/block/{named}?transactions=hashes")).json() == block
            strings = await asked(node, f"/block/{named}?transactions=full&amounts=string")
            lines = await asked(node, f"/block/{named}?transactions=full", accept=LINES)
            assert [httpx.Response(200, content=line).json() for line in lines.content.splitlines()] == txs
            tags = {each.headers["etag"] for each in (full, strings, lines, await asked(node, f"/block/{named}"))}
            assert len(tags) == 4
            again = await node.get(f"/block/{named}?transactions=full", if_none_match=full.headers["etag"])
            assert (again.status_code, again.content) == (304, b"")
    assert strings.json()["baseFeePerGas"] == str(GWEI)


async def test_the_head_of_a_full_block_has_no_body(node: RestNode) -> None:
    head = await node.http.head("/block/0?transactions=full")
    assert (head.status_code, head.content) == (200, b"")
    assert "etag" in head.headers


@pytest.mark.parametrize("path", ["/block/99?transactions=full", f"/block/0x{'ab' * 32}?transactions=full"])
async def test_a_full_block_that_does_not_exist_is_not_found(node: RestNode, path: str) -> None:
    assert_problem(await node.get(path), 404, "BLOCK_NOT_FOUND")


# Accounts as of a block.


async def test_an_account_is_shown_as_of_any_block_and_time(node: RestNode) -> None:
    path = f"/account/{name(1)}"
    before = (await asked(node, path)).json()
    await make_blocks(node)
    nonces = {0: 0, 1: 0, 2: 0, 3: 1, 4: 1, 5: 1, 6: 2, 7: 2}
    blocks = (await asked(node, "/blocks")).json()
    for height, nonce in nonces.items():
        state = (await asked(node, f"{path}?height={height}")).json()
        assert (state["nonce"], state["pendingNonce"], state["blockHeight"]) == (nonce, nonce, height)
        listed = await node.post({"addresses": [name(1)], "height": float(height)}, "/accounts")
        assert listed.json()["accounts"] == [{key: state[key] for key in ("address", "balance", "nonce")}]
    assert (await asked(node, f"{path}?height=0")).json()["balance"] == before["balance"]
    for block in blocks:
        last = max(each["blockHeight"] for each in blocks if each["timestamp"] <= block["timestamp"])
        at_time = (await asked(node, f"{path}?time={block['timestamp']}")).json()
        assert at_time == (await asked(node, f"{path}?height={last}")).json()
    assert "blockHeight" not in (await asked(node, path)).json()


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [("height=99", 404, "BLOCK_NOT_FOUND"), ("time=5", 404, "BLOCK_NOT_FOUND"),
     ("time=99999999999999", 404, "BLOCK_NOT_FOUND"), ("height=x", 400, "INVALID_QUERY"),
     ("height=1&time=1", 400, "INVALID_QUERY")],
)  # fmt: skip
async def test_an_account_as_of_no_block_is_refused(node: RestNode, query: str, status: int, code: str) -> None:
    answer = await node.get(f"/account/{name(1)}?{query}")
    assert_described(answer)
    assert_problem(answer, status, code)


async def test_the_time_that_has_come_is_that_of_the_clock_or_of_a_block_that_is_ahead(
    node: RestNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/account/{name(1)}"
    node.mine()
    last = (await asked(node, "/block/latest")).json()["timestamp"]
    monkeypatch.setattr(time, "time", lambda: last + 10.5)
    assert (await asked(node, f"{path}?time={last + 10}")).json()["blockHeight"] == 1
    assert_problem(await node.get(f"{path}?time={last + 11}"), 404, "BLOCK_NOT_FOUND")
    monkeypatch.setattr(time, "time", lambda: last - 10.5)
    assert (await asked(node, f"{path}?time={last}")).json()["blockHeight"] == 1
    assert_problem(await node.get(f"{path}?time={last + 1}"), 404, "BLOCK_NOT_FOUND")


async def test_accounts_below_the_base_are_not_kept(node: RestNode) -> None:
    await make_blocks(node)
    node.mine_after_pruning(4)
    assert_problem(await node.get(f"/account/{name(1)}?height=3"), 404, "BLOCK_NOT_KEPT")
    assert_problem(await node.get(f"/account/{name(1)}?time=5"), 404, "BLOCK_NOT_KEPT")
    assert_problem(await node.post({"addresses": [], "height": 3}, "/accounts"), 404, "BLOCK_NOT_KEPT")
    assert (await asked(node, f"/account/{name(1)}?height=4")).json()["nonce"] == 1


async def test_a_thousand_accounts_are_all_as_of_one_block(node: RestNode) -> None:
    addresses = [name(number % 10) if number % 2 else f"0x{number:040x}" for number in range(1_000)]
    mining = asyncio.create_task(make_blocks(node))
    answer = await node.post({"addresses": addresses}, "/accounts?amounts=string")
    await mining
    assert_described(answer)
    found = answer.json()
    assert [each["address"] for each in found["accounts"]] == addresses
    height = found["blockHeight"]
    again = await node.post({"addresses": addresses, "height": height}, "/accounts?amounts=string")
    assert again.json() == found


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [(b"{", "MALFORMED_JSON", None), (b"[]", "INVALID_FIELD", "body"), (b"{}", "INVALID_FIELD", "addresses"),
     (b'{"addresses":"0x"}', "INVALID_FIELD", "addresses"), (b'{"addresses":[1]}', "INVALID_FIELD", "addresses[0]"),
     (b'{"addresses":["0x%b","0x12"]}' % (b"11" * 20), "INVALID_FIELD", "addresses[1]"),
     (b'{"addresses":[],"height":-1}', "INVALID_FIELD", "height"),
     (b'{"addresses":[],"height":0.5}', "INVALID_FIELD", "height"),
     (b'{"addresses":[],"height":true}', "INVALID_FIELD", "height"),
     (b'{"addresses":[],"heigth":1}', "INVALID_FIELD", "heigth"),
     (b'{"addresses":[%b0]}' % (b"0," * 1_000), "INVALID_FIELD", "addresses")],
)  # fmt: skip
async def test_a_malformed_request_for_accounts_is_refused(
    node: RestNode, body: bytes, code: str, field: str | None
) -> None:
    answer = await node.http.post("/accounts", content=body, headers={"content-type": "application/json"})
    assert_described(answer)
    assert assert_problem(answer, 400, code).get("field") == field


async def test_accounts_of_a_block_that_is_not_there_yet_are_not_found(node: RestNode) -> None:
    assert_problem(await node.post({"addresses": [], "height": 9}, "/accounts"), 404, "BLOCK_NOT_FOUND")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", [f"/account/{name(0)}/txs", "/block/1?transactions=full"])
async def test_lines_are_refused_where_a_part_of_them_would_look_whole(node: RestNode, method: str, path: str) -> None:
    await make_blocks(node)
    async with httpx.AsyncClient(transport=OldClient(node.app), base_url="http://localhost") as old:
        answer = await old.request(method, path, headers={"accept": LINES})
        assert answer.status_code == 400
        if method == "GET":
            assert "proxy_http_version 1.1" in assert_problem(answer, 400, "MALFORMED_REQUEST")["detail"]
        assert (await old.request(method, path)).status_code == 200, "a part of JSON is no JSON"
