"""Requests to a node that fails in every way a node or a network does; time passes only by waiting."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable, Mapping
from itertools import islice
from typing import Any
from uuid import UUID

import httpx
import msgspec
import pytest
from msgspec.json import Decoder

from cairn.client import Account, AsyncClient, SignedTransfer, transport
from cairn.client.errors import (
    ApiError,
    ClientError,
    Internal,
    InvalidField,
    MempoolFull,
    NodeUnreachable,
    NonceTooLow,
    Starting,
    UnexpectedAnswer,
)
from cairn.client.models import AccountState, ConfirmedTransaction, Probe, Submitted
from cairn.client.transport import FIRST_DELAY_S, LONGEST_DELAY_S, Deadline, Query, Transport, delays
from tests.support.scripted_server import DRIP, RESET, SILENCE, Use, answer, problem, run, scripted
from tests.support.virtual_time import run_virtual, virtual_loop

pytestmark = pytest.mark.virtual_time


def transfer(nonce: int = 0) -> SignedTransfer:
    return Account.dev(0).sign(Account.dev(1).address, 1, nonce=nonce, chain_id=1337, gas_price=1)


def taken(nonce: int) -> dict[str, str]:
    return {"status": "pending", "txHash": transfer(nonce).tx_hash}


TX_HASH = transfer().tx_hash
SUBMITTED = answer(200, {"status": "pending", "txHash": TX_HASH})
PENDING = {
    "txHash": TX_HASH,
    "status": "pending",
    "from": "0x" + "aa" * 20,
    "to": "0x" + "bb" * 20,
    "value": 1,
    "nonce": 0,
    "gas": 21_000,
    "gasPrice": 1,
}
CONFIRMED = PENDING | {"status": "confirmed", "blockHeight": 1, "blockHash": "0x", "transactionIndex": 0, "fee": 21_000}
OTHER_CHAIN = {
    "chainId": 1,
    "gasPrice": 1,
    "blockGasLimit": 210_000_000,
    "blockTime": 1.0,
    "maxDataBytes": 256,
    "engine": "embedded",
    "version": "0",
    "head": {"blockHeight": 5, "hash": "0x", "timestamp": 1},
    "mempool": {"pending": 0, "queued": 0, "limit": 1},
}
UNSIGNED = {"from": "0x" + "aa" * 20, "to": "0x" + "bb" * 20, "value": 1, "gas": 21_000}


def timed(use: Use) -> Callable[[AsyncClient], Awaitable[tuple[object, float]]]:
    """What `use` returns, and how long it took."""

    async def run(client: AsyncClient) -> tuple[object, float]:
        started = virtual_loop().time()
        try:
            result = await use(client)
        except ClientError as error:
            result = error
        return result, virtual_loop().time() - started

    return run


@pytest.mark.parametrize(
    "failure",
    [
        RESET,
        problem(503, "STARTING"),
        problem(429, "RATE_LIMITED"),
        answer(502, "a proxy's own words"),
        problem(503, "FROM_THE_FUTURE"),
    ],
)
def test_a_signed_submission_is_sent_again_until_it_is_accepted(failure: bytes | str) -> None:
    result, server = run(lambda client: client.submit(transfer()), failure, failure, SUBMITTED)
    assert result == Submitted("pending", TX_HASH)
    assert len(server.requests) == 3
    assert len(set(server.requests)) == 1


@pytest.mark.parametrize(
    ("failure", "was_repeated"),
    [
        (RESET, True),
        (answer(502, "a proxy's own words"), True),
        (problem(503, "ENGINE_UNAVAILABLE"), True),
        (problem(503, "STARTING"), False),
        (problem(429, "RATE_LIMITED"), False),
    ],
)
def test_an_error_says_whether_an_earlier_attempt_may_have_been_accepted(
    failure: bytes | str, was_repeated: bool
) -> None:
    used = problem(409, "NONCE_TOO_LOW")
    result, _ = run(lambda client: client.submit(transfer()), failure, used)
    assert isinstance(result, NonceTooLow)
    assert result.was_repeated == was_repeated
    body = {"type": "", "title": "", "status": 409, "detail": "used", "code": "NONCE_TOO_LOW"}
    result, _ = run(lambda client: client.submit_all([transfer()]), failure, answer(200, [body]))
    assert isinstance(result, list)
    assert [item.was_repeated for item in result] == [was_repeated]


@pytest.mark.parametrize(("code", "was_repeated"), [("MEMPOOL_FULL", False), ("STORE_UNAVAILABLE", True)])
def test_an_error_in_a_batch_says_whether_an_earlier_attempt_may_have_been_accepted(
    code: str, was_repeated: bool
) -> None:
    busy = {"type": "", "title": "", "status": 503, "detail": "not now", "code": code}
    used = busy | {"status": 409, "code": "NONCE_TOO_LOW"}
    script = answer(200, [busy, used]), answer(200, [used])
    result, _ = run(lambda client: client.submit_all([transfer(nonce) for nonce in range(2)]), *script)
    assert isinstance(result, list)
    assert [(type(item), item.was_repeated) for item in result] == [(NonceTooLow, was_repeated), (NonceTooLow, False)]


async def test_was_sent_stays_true_when_a_later_attempt_cannot_connect() -> None:
    """Nobody listens any more when the second attempt is made."""
    async with scripted(RESET) as server, server.client(timeout_s=2.0) as client:
        submitting = asyncio.create_task(client.submit(transfer()))
        await server.got_request.wait()
        server.stop_listening()
        with pytest.raises(NodeUnreachable) as failed:
            await submitting
        assert failed.value.was_sent


def test_retry_after_is_respected() -> None:
    submit = timed(lambda client: client.submit(transfer()))
    result, server = run(submit, problem(503, "STARTING", Retry_After="7"), SUBMITTED)
    assert result == (Submitted("pending", TX_HASH), 7.0)
    assert len(server.requests) == 2


def test_a_refusal_is_raised_at_once() -> None:
    result, server = run(lambda client: client.submit(transfer()), problem(409, "NONCE_TOO_LOW", "it is used"))
    assert isinstance(result, NonceTooLow)
    assert (result.detail, result.status) == ("it is used", 409)
    assert len(server.requests) == 1


def test_a_failure_of_the_node_is_not_repeated() -> None:
    result, server = run(lambda client: client.chain(), problem(500, "INTERNAL"))
    assert isinstance(result, Internal)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (problem(503, "STARTING", Retry_After="30"), Starting),
        (RESET, NodeUnreachable),
        (DRIP, NodeUnreachable),
    ],
)
def test_all_attempts_together_end_in_time(failure: bytes | str, kind: type[ClientError]) -> None:
    outcome, _ = run(timed(lambda client: client.submit(transfer())), failure, timeout_s=2.0)
    assert isinstance(outcome, tuple)
    result, took_s = outcome
    assert isinstance(result, kind)
    assert took_s <= 2.0
    if isinstance(result, NodeUnreachable):
        assert result.was_sent
        assert result.tx_hash == transfer().tx_hash


def test_a_silent_node_is_given_up_at_the_time_limit() -> None:
    outcome, server = run(timed(lambda client: client.chain()), SILENCE, timeout_s=1.0)
    assert isinstance(outcome, tuple)
    result, took_s = outcome
    assert isinstance(result, NodeUnreachable)
    assert took_s == 1.0
    assert len(server.requests) == 1


@pytest.mark.parametrize("failure", [RESET, problem(503, "STARTING")])
@pytest.mark.parametrize(
    "use", [lambda client: client.submit(UNSIGNED), lambda client: client.faucet("0x" + "aa" * 20, 1)]
)
def test_what_the_node_signs_is_repeated_with_the_same_key_which_is_new_for_each_call(
    failure: bytes | str, use: Use
) -> None:
    result, server = run(use, failure, SUBMITTED)
    assert result == Submitted("pending", TX_HASH)
    first, second = server.keys
    assert first == second
    assert first is not None
    assert str(UUID(first.strip('"'))) == first.strip('"')
    _, other = run(use, SUBMITTED)
    assert other.keys != [first]


def test_a_chosen_key_is_sent_in_quotes_and_none_with_a_signature() -> None:
    _, server = run(lambda client: client.submit(UNSIGNED, 'order "4711" \\'), SUBMITTED)
    assert server.keys == [r'"order \"4711\" \\"']
    _, server = run(lambda client: client.faucet("0x" + "aa" * 20, 1, "a"), SUBMITTED)
    assert server.keys == ['"a"']
    _, server = run(lambda client: client.submit(transfer(), "a"), SUBMITTED)
    assert server.keys == [None]
    _, server = run(lambda client: client.submit_all([UNSIGNED, UNSIGNED], "a"), answer(200, [taken(0), taken(1)]))
    assert server.keys == ['"a"']


def test_a_chosen_key_for_more_transfers_than_a_request_takes_is_refused_before_it_is_sent() -> None:
    """The requests would need a key each, or the second would be taken for the first."""
    result, server = run(lambda client: client.submit_all([UNSIGNED] * 101, "a"), SUBMITTED)
    assert isinstance(result, InvalidField)
    assert not server.requests


@pytest.mark.parametrize("key", ["", "x" * 256, "ü", "a\r\nHost: b", "a\tb"])
def test_a_key_that_is_no_header_is_refused_before_it_is_sent(key: str) -> None:
    result, server = run(lambda client: client.submit(UNSIGNED, key), SUBMITTED)
    assert isinstance(result, InvalidField)
    assert not server.requests


def test_a_batch_that_the_node_signs_is_repeated_as_a_whole() -> None:
    """The node tells its items apart by their places."""
    full = msgspec.json.decode(problem(503, "MEMPOOL_FULL").partition(b"\r\n\r\n")[2])
    first, second = answer(200, [taken(0), full]), answer(200, [taken(0), taken(1)])
    result, server = run(lambda client: client.submit_all([UNSIGNED, UNSIGNED]), first, second)
    assert result == [Submitted("pending", transfer(nonce).tx_hash) for nonce in range(2)]
    assert [len(msgspec.json.decode(body)) for _, body in server.requests] == [2, 2]
    assert len(set(server.keys)) == 1
    assert server.keys[0] is not None


async def test_a_node_that_nobody_runs_is_unreachable() -> None:
    async with scripted(RESET) as server:
        pass
    async with server.client(timeout_s=0.3) as client:
        with pytest.raises(NodeUnreachable, match=r"does not answer") as failed:
            await client.submit(UNSIGNED)
        assert not failed.value.was_sent
        with pytest.raises(NodeUnreachable):
            await client.ready()


@pytest.mark.parametrize("body", ["nothing like it", [], {"status": 1}])
def test_an_answer_of_another_shape_raises_unexpected_answer(body: object) -> None:
    result, _ = run(lambda client: client.submit(transfer()), answer(200, body))
    assert isinstance(result, UnexpectedAnswer)


def written(status: int, body: bytes, *headers: str) -> bytes:
    """An answer of these very bytes."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda client: client.submit(transfer()), written(200, b'{"status":"\xff","txHash":""}')),
        (lambda client: client.submit(transfer()), written(200, b'{"x":' + b"[" * 10_000)),
        (lambda client: client.submit_all([transfer()]), written(200, b"[1]")),
        (lambda client: client.submit_all([transfer()]), written(200, b"[]")),
        (lambda client: client.submit_all([transfer()]), written(200, b'[{"status":"\xff","txHash":""}]')),
        (lambda client: anext(client.recent_blocks()), written(200, b"[]", 'Link: <http://[>; rel="next"')),
        (lambda client: anext(client.recent_blocks()), written(200, b"[]", 'Link: </blocks>; rel="next"')),
    ],
    ids=["not UTF-8", "deep", "no result", "too few", "result not UTF-8", "broken link", "link to nothing"],
)
def test_a_malformed_answer_raises_unexpected_answer(use: Use, said: bytes) -> None:
    result, _ = run(use, said)
    assert isinstance(result, UnexpectedAnswer)


def test_a_refusal_in_another_encoding_is_still_a_refusal() -> None:
    said = '{"title":"x","status":502,"detail":"désolé","code":"X"}'.encode("latin-1")
    result, _ = run(lambda client: client.faucet("0x"), written(502, said))
    assert isinstance(result, ApiError)
    assert result.status == 502


@pytest.mark.parametrize(
    ("said", "is_open"),
    [
        (answer(200, "a page"), True),
        (answer(200, {"status": "pending", "txHash": "0x" + "11" * 32}), True),
        (problem(500, "INTERNAL"), True),
        (problem(422, "INSUFFICIENT_FUNDS"), False),
    ],
    ids=["a page", "another hash", "a failure", "a refusal"],
)
def test_a_submission_that_may_have_been_accepted_is_named_in_its_error(said: bytes, is_open: bool) -> None:
    error, _ = run(lambda client: client.submit(transfer()), said)
    assert isinstance(error, ClientError)
    assert error.tx_hash == (TX_HASH if is_open else None)
    assert error.submission == (transfer().body() if is_open else None)


@pytest.mark.parametrize(("first", "is_open"), [(RESET, True), (problem(429, "RATE_LIMITED"), False)])
def test_a_submission_whose_earlier_attempt_may_be_accepted_is_named_in_its_error(
    first: bytes | str, is_open: bool
) -> None:
    error, _ = run(lambda client: client.submit(transfer()), first, problem(429, "RATE_LIMITED"), timeout_s=10.0)
    assert isinstance(error, ApiError)
    assert error.tx_hash == (TX_HASH if is_open else None)


def test_an_answer_above_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_ANSWER_BYTES", 1_000)
    result, _ = run(lambda client: client.chain(), answer(200, "x" * 1_000))
    assert isinstance(result, UnexpectedAnswer)
    assert "more than 1000 bytes" in str(result)


@pytest.mark.parametrize("height", ["5" * 5_000, "-1", "", "0x1", "1.0", "٣"])
def test_a_height_that_is_none_is_no_answer(height: str) -> None:
    async def newest(client: AsyncClient) -> list[object]:
        return [block async for block in client.recent_blocks()]

    result, _ = run(newest, answer(200, [], X_Block_Height=height))
    assert isinstance(result, UnexpectedAnswer)


def test_a_compressed_answer_is_refused() -> None:
    content = gzip.compress(b" " * 1_000_000)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(content)}\r\n\r\n"
    result, _ = run(lambda client: client.chain(), head.encode() + content)
    assert isinstance(result, UnexpectedAnswer)
    assert "encoding" in str(result)


def test_a_probe_ends_in_time() -> None:
    outcome, _ = run(timed(lambda client: client.health()), DRIP, timeout_s=2.0)
    assert isinstance(outcome, tuple)
    assert isinstance(outcome[0], NodeUnreachable)
    assert outcome[1] <= 2.0


def test_an_error_without_problem_document_keeps_its_status() -> None:
    result, _ = run(lambda client: client.chain(), answer(401, "who are you?"))
    assert isinstance(result, ApiError)
    assert (result.code, result.status) == ("UNKNOWN", 401)


def test_a_probe_is_one_attempt_and_its_503_an_answer() -> None:
    result, server = run(lambda client: client.startup(), answer(503, {"status": "starting"}))
    assert result == Probe("starting")
    assert len(server.requests) == 1


def test_only_the_transient_failures_of_a_batch_are_sent_again() -> None:
    full = {"type": "", "title": "", "status": 503, "detail": "full", "code": "MEMPOOL_FULL"}
    used = full | {"status": 409, "detail": "used", "code": "NONCE_TOO_LOW"}
    script = answer(200, [taken(0), full, used]), answer(200, [full]), answer(200, [taken(1)])
    result, server = run(lambda client: client.submit_all([transfer(nonce) for nonce in range(3)]), *script)
    assert isinstance(result, list)
    assert [type(item) for item in result] == [Submitted, Submitted, NonceTooLow]
    assert [body.count(b"signature") for _, body in server.requests] == [3, 1, 1]


def test_a_batch_that_stays_refused_says_so() -> None:
    full = {"type": "", "title": "", "status": 503, "detail": "full", "code": "MEMPOOL_FULL"}
    result, _ = run(lambda client: client.submit_all([transfer()]), answer(200, [full]), timeout_s=2.0)
    assert isinstance(result, list)
    assert [type(item) for item in result] == [MempoolFull]


def test_a_large_batch_is_split_into_requests_of_the_maximum_size() -> None:
    transfers, answers = [transfer(nonce) for nonce in range(150)], [taken(nonce) for nonce in range(150)]
    script = answer(200, answers[:100]), answer(200, answers[100:])
    result, server = run(lambda client: client.submit_all(transfers), *script)
    assert isinstance(result, list)
    assert len(result) == 150
    assert [body.count(b"signature") for _, body in server.requests] == [100, 50]


def test_waiting_asks_again_after_an_outage_and_while_it_is_pending() -> None:
    script = RESET, problem(503, "STARTING"), answer(200, PENDING), answer(200, CONFIRMED)
    result, server = run(lambda client: client.wait(TX_HASH), *script)
    assert isinstance(result, ConfirmedTransaction)
    assert len(server.requests) == 4


def test_pages_are_read_as_they_are_needed() -> None:
    block = {
        "blockHeight": 1,
        "hash": "0x",
        "previousHash": "0x",
        "timestamp": 0,
        "transactionsRoot": "0x",
        "receiptsRoot": "0x",
        "stateRoot": "0x",
        "mixHash": "0x",
        "gasUsed": 0,
        "proposer": "0x",
        "chainId": 1,
        "gasLimit": 21_000,
        "baseFeePerGas": 0,
        "transactionCount": 0,
    }
    first = answer(200, [block] * 3, Link='</blocks?limit=5&after=a%26b>; rel="next"')

    async def take(client: AsyncClient, limit: int | None) -> int:
        return len([block async for block in client.recent_blocks(limit)])

    result, server = run(lambda client: take(client, 5), first, answer(200, [block] * 2))
    assert result == 5
    assert [line.split()[1] for line, _ in server.requests] == ["/blocks?limit=5", "/blocks?limit=2&after=a%26b"]
    result, server = run(lambda client: take(client, None), first, answer(200, [block]))
    assert result == 4
    assert server.requests[0][0].split()[1] == "/blocks?limit=1000"
    result, server = run(lambda client: take(client, 0), first)
    assert (result, server.requests) == (0, [])


def test_path_parts_are_escaped() -> None:
    _, server = run(lambda client: client.block("../chain?x#y"), problem(404, "BLOCK_NOT_FOUND"))
    assert server.requests[0][0].split()[1] == "/block/..%2Fchain%3Fx%23y"


def test_a_url_without_http_scheme_is_refused() -> None:
    with pytest.raises(ValueError, match="http://"):
        AsyncClient("127.0.0.1:8645")


async def test_with_amounts_string_amounts_are_sent_as_strings() -> None:
    """What comes back is an integer all the same."""
    large = 10**22 + 1
    address = "0x" + "aa" * 20
    account = {"address": address, "balance": str(large), "nonce": 1, "pendingNonce": 2}
    page = answer(200, [PENDING | {"value": str(large), "gasPrice": "1", "receivedAt": 5}])
    dynamic = Account.dev(0).sign(address, 1, nonce=0, chain_id=1337, max_fee=large, tip=3)
    accepted = {"status": "pending", "txHash": dynamic.tx_hash}
    paid = PENDING | accepted | {"type": 2, "maxFeePerGas": str(large), "maxPriorityFeePerGas": "3"}
    script = (
        answer(200, account), page, SUBMITTED, answer(200, [taken(0)]), SUBMITTED, answer(200, accepted),
        answer(200, paid),
    )  # fmt: skip
    async with scripted(*script) as server, server.client(timeout_s=5.0, amounts="string") as client:
        assert (await client.account(address)).balance == large
        assert [item.value async for item in client.pending()] == [large]
        await client.submit(transfer())
        await client.submit_all([transfer()])
        await client.faucet(address, large)
        await client.submit(dynamic)
        shown = await client.transaction(dynamic.tx_hash)
        assert (shown.max_fee_per_gas, shown.max_priority_fee_per_gas) == (large, 3)
    lines, bodies = zip(*server.requests, strict=True)
    assert [line.split()[1].partition("?")[2] for line in lines] == [
        "amounts=string", "limit=1000&amounts=string", "", "", "", "", "amounts=string"
    ]  # fmt: skip
    sent = [msgspec.json.decode(body) for body in bodies[2:6]]
    assert sent[0] == sent[1][0]
    assert (sent[0]["value"], sent[0]["gasPrice"], sent[0]["nonce"]) == ("1", "1", 0)
    assert sent[2]["amount"] == str(large)
    assert (sent[3]["maxFeePerGas"], sent[3]["maxPriorityFeePerGas"], sent[3]["type"]) == (str(large), "3", 2)


def test_a_lenient_decoder_is_made_once_for_each_answer_type(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    def counted(kind: type[Any], *, strict: bool) -> msgspec.json.Decoder[Any]:
        made.append(kind)
        return msgspec.json.Decoder(kind, strict=strict)

    monkeypatch.setattr(transport, "Decoder", counted)
    transport.lenient.cache_clear()
    address = "0x" + "aa" * 20
    account = answer(200, {"address": address, "balance": "7", "nonce": 1, "pendingNonce": 2})

    async def main() -> None:
        async with scripted(*[account] * 3) as server, server.client(timeout_s=5.0, amounts="string") as client:
            assert [(await client.account(address)).balance for _ in range(3)] == [7, 7, 7]

    run_virtual(main())
    assert made == [AccountState]


async def test_a_node_of_another_chain_id_is_refused() -> None:
    async with scripted(answer(200, OTHER_CHAIN)) as server, server.client(timeout_s=5.0) as client:
        assert (await client.chain()).chain_id == 1
    async with scripted(answer(200, OTHER_CHAIN)) as server, server.client(timeout_s=5.0, chain_id=1337) as client:
        with pytest.raises(UnexpectedAnswer, match="of chain 1, not of 1337"):
            await client.wallet(Account.dev(0)).sign(Account.dev(1).address, 1, nonce=0)


def test_delays_grow_to_a_bound_and_differ() -> None:
    runs = [list(islice(delays(), 12)) for _ in range(20)]
    for drawn in runs:
        expected = FIRST_DELAY_S
        for delay_s in drawn:
            assert expected / 2 <= delay_s <= expected
            expected = min(2 * expected, LONGEST_DELAY_S)
    assert len({run[0] for run in runs}) > 1


@pytest.mark.virtual_time
async def test_a_deadline_gives_no_more_than_is_left() -> None:
    deadline = Deadline(60.0)
    assert deadline.left_s(at_most=5.0) == 5.0
    assert deadline.left_s(at_most=100.0) == 60.0
    assert await deadline.pause(1.0)
    assert deadline.left_s(at_most=100.0) == 59.0
    assert await deadline.pause(58.0)
    assert not await deadline.pause(0.5)
    assert Deadline(0.0).left_s(at_most=1.0) == 0.0
    assert Deadline(-1.0).left_s(at_most=1.0) == 0.0


@pytest.mark.virtual_time
async def test_without_a_limit_a_deadline_never_ends() -> None:
    assert Deadline(None).left_s(at_most=1e9) == 1e9
    assert await Deadline(None).pause(3_600.0)


SILENCE_S = 15.0


class Recording(Transport):
    """Answers at once, and keeps how long it would have waited."""

    waited_s = -1.0

    async def _exchange(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        query: Query | None,
        timeout_s: float,
    ) -> httpx.Response:
        self.waited_s = timeout_s
        return httpx.Response(200, content=b'{"status":"alive"}')


@pytest.mark.parametrize(
    ("deadline_s", "held_s", "waited_s"),
    [
        (60.0, 0.0, SILENCE_S),
        (2.0, 0.0, 2.0),
        (60.0, 20.0, 20.0 + SILENCE_S),
        # The node may answer as late as it may at any other time: it did what it was asked to.
        (0.5, 0.5, 0.5 + SILENCE_S),
    ],
)
def test_a_held_answer_may_take_the_hold_and_the_silence_timeout(
    deadline_s: float, held_s: float, waited_s: float
) -> None:
    async def main() -> float:
        transport = Recording("http://127.0.0.1:1", timeout_s=None, silence_timeout_s=SILENCE_S, tls=None)
        deadline = Deadline(deadline_s)
        await transport.get("/tx/0x", Decoder(Probe), deadline=deadline, held_s=held_s)
        await transport.close()
        return transport.waited_s

    assert run_virtual(main()) == waited_s
