"""WS /events: subscriptions, replay, order, refusals."""

import json
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection
from websockets.typing import Origin

from tests.support.public import PublicNode, connect_patiently, receive, receive_until
from tests.support.wallet import GWEI, sign_transfer

RECIPIENT = "0x" + "33" * 20
UNKNOWN = "0x" + "cd" * 32


def say(socket: ClientConnection, **message: object) -> None:
    socket.send(json.dumps(message))


def make_block(node: PublicNode) -> dict[str, Any]:
    return node.await_confirmed(node.submit(sign_transfer(node.fund(), RECIPIENT, 1, 0)))


def test_a_new_block_event_has_exactly_its_fields(node: PublicNode) -> None:
    with node.events() as socket:
        say(socket, action="subscribe", event="newBlock", id=7)
        subscribed = receive(socket)
        assert subscribed["event"] == "subscribed"
        assert subscribed["id"] == 7
        tx = make_block(node)
        for message in receive_until(socket, "newBlock"):
            assert set(message) == {"event", "blockHeight", "hash"}
            assert node.read(f"/block/{message['blockHeight']}")["hash"] == message["hash"]
        assert message["blockHeight"] <= tx["blockHeight"]


def test_a_replay_continues_with_live_blocks_none_missing_or_twice(node: PublicNode) -> None:
    make_block(node)
    with node.events() as socket:
        say(socket, action="subscribe", event="newBlock", fromHeight=0)
        assert receive(socket)["event"] == "subscribed"
        target = make_block(node)["blockHeight"]
        heights: list[int] = []
        while not heights or heights[-1] < target:
            heights.append(receive(socket)["blockHeight"])
        assert heights == list(range(target + 1))


def test_subscriptions_on_the_url_get_their_events_in_order(node: PublicNode) -> None:
    sender = node.fund()
    transfer = sign_transfer(sender, RECIPIENT, 1, 0)
    head = node.read("/chain")["head"]["blockHeight"]
    with node.events(f"?newBlock&fromHeight={head}&txConfirmed={transfer.tx_hash}") as socket:
        subscribed, heights = 0, list[int]()
        while subscribed < 2 or not heights:
            message = receive(socket)
            if message["event"] == "newBlock":
                heights.append(message["blockHeight"])
            else:
                assert message["event"] == "subscribed"
                subscribed += 1
        # One block, or more if others were made meanwhile.
        assert heights == list(range(head, head + len(heights)))
        node.submit(transfer)
        messages = list(receive_until(socket, "txConfirmed"))
        height = node.await_confirmed(transfer.tx_hash)["blockHeight"]
        assert messages[-1] == {"event": "txConfirmed", "txHash": transfer.tx_hash, "blockHeight": height}
        # The block comes before what it confirms.
        assert messages[-2]["event"] == "newBlock"
        assert messages[-2]["blockHeight"] == height


def test_a_confirmation_is_sent_to_its_followers_only(node: PublicNode) -> None:
    sender = node.fund()
    followed, other = (sign_transfer(sender, RECIPIENT, 1, nonce) for nonce in (1, 0))
    with node.events() as socket:
        say(socket, action="subscribe", event="txConfirmed", txHash=followed.tx_hash)
        assert receive(socket)["event"] == "subscribed"
        node.submit(followed)
        node.submit(other)
        height = node.await_confirmed(followed.tx_hash)["blockHeight"]
        assert receive(socket) == {"event": "txConfirmed", "txHash": followed.tx_hash, "blockHeight": height}
        # The other was confirmed no later: what is told next is the answer to what is asked next.
        say(socket, action="subscribe", event="txConfirmed", txHash=UNKNOWN)
        assert receive(socket)["event"] == "subscribed"


def test_following_a_confirmed_transaction_is_answered_at_once(node: PublicNode) -> None:
    tx = make_block(node)
    with node.events() as socket:
        say(socket, action="subscribe", event="txConfirmed", txHash=tx["txHash"])
        messages = list(receive_until(socket, "txConfirmed"))
        assert messages[-1] == {"event": "txConfirmed", "txHash": tx["txHash"], "blockHeight": tx["blockHeight"]}


def test_a_drop_is_sent_with_its_reason(node: PublicNode) -> None:
    sender = node.fund()
    held = sign_transfer(sender, RECIPIENT, 1, 1)
    node.submit(held)
    with node.events() as socket:
        say(socket, action="subscribe", event="txConfirmed", txHash=held.tx_hash)
        assert receive(socket)["event"] == "subscribed"
        node.submit(sign_transfer(sender, RECIPIENT, 2, 1, gas_price=2 * GWEI))
        reason = "replaced"
        if node.engine == "cometbft":
            # Other nodes may have it: it ends with its nonce.
            node.submit(sign_transfer(sender, RECIPIENT, 1, 0))
            reason = "nonce used"
        assert receive(socket) == {"event": "txDropped", "txHash": held.tx_hash, "reason": reason}


def test_a_queued_transaction_says_so_to_a_follower_who_asks(node: PublicNode) -> None:
    sender = node.fund()
    held = sign_transfer(sender, RECIPIENT, 1, 1)
    node.submit(held)
    with node.events() as socket:
        say(socket, action="subscribe", event="txConfirmed", txHash=held.tx_hash, queued="yes")
        assert (receive(socket)["field"]) == "queued"
        say(socket, action="subscribe", event="txConfirmed", txHash=held.tx_hash, queued=True)
        assert receive(socket)["event"] == "subscribed"
        why = {"event": "txQueued", "txHash": held.tx_hash, "queuedReason": "waits for nonce 0"}
        assert receive(socket) == why
        node.submit(sign_transfer(sender, RECIPIENT, 1, 0))
        confirmed = receive(socket)
        assert (confirmed["event"], confirmed["txHash"]) == ("txConfirmed", held.tx_hash)


def test_no_event_comes_after_unsubscribe(node: PublicNode) -> None:
    with node.events() as socket:
        say(socket, action="subscribe", event="newBlock")
        assert receive(socket)["event"] == "subscribed"
        say(socket, action="unsubscribe", event="newBlock", id="x")
        messages = list(receive_until(socket, "unsubscribed"))
        assert messages[-1]["id"] == "x"
        transfer = sign_transfer(node.fund(), RECIPIENT, 1, 0)
        say(socket, action="subscribe", event="txConfirmed", txHash=transfer.tx_hash)
        assert receive(socket)["event"] == "subscribed"
        node.submit(transfer)
        # Its block would be told first.
        assert receive(socket)["event"] == "txConfirmed"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("{", "MALFORMED_JSON"),
        ("[]", "INVALID_FIELD"),
        ('{"action":"shout"}', "INVALID_FIELD"),
        ('{"action":"subscribe"}', "INVALID_FIELD"),
        ('{"action":"subscribe","event":"nothing"}', "INVALID_FIELD"),
        ('{"action":"subscribe","event":"txConfirmed"}', "INVALID_FIELD"),
        ('{"action":"subscribe","event":"txConfirmed","txHash":"0x12"}', "INVALID_HASH"),
        ('{"action":"subscribe","event":"newBlock","fromHeight":-1}', "INVALID_FIELD"),
        ('{"action":"subscribe","event":"newBlock","fromHeight":"x"}', "INVALID_FIELD"),
        ('{"action":"subscribe","event":"newBlock","unknown":1}', "INVALID_FIELD"),
    ],
)
def test_a_malformed_message_is_answered_by_an_error_and_the_socket_stays(
    node: PublicNode, message: str, code: str
) -> None:
    with node.events() as socket:
        socket.send(message)
        error = receive(socket)
        assert error["event"] == "error"
        assert error["code"] == code
        assert {"type", "title", "status", "detail"} <= set(error)
        say(socket, action="subscribe", event="txConfirmed", txHash=UNKNOWN)
        assert receive(socket)["event"] == "subscribed"


def test_message_of_more_than_16_kib_ends_the_socket(node: PublicNode) -> None:
    with node.events() as socket:
        socket.send(json.dumps({"action": "subscribe", "event": "newBlock", "id": "x" * 17_000}))
        with pytest.raises(ConnectionClosed) as closed:
            receive(socket)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


def test_a_socket_follows_at_most_a_thousand_transactions(node: PublicNode) -> None:
    with node.events() as socket:
        for number in range(1_001):
            say(socket, action="subscribe", event="txConfirmed", txHash=f"0x{number:064x}")
        answers = [receive(socket)["event"] for _ in range(1_001)]
        assert answers == ["subscribed"] * 1_000 + ["error"]


@pytest.mark.parametrize("query", ["?nothing", "?txConfirmed=0x12", "?newBlock&fromHeight=x", "?fromHeight=1"])
def test_a_malformed_url_is_refused_with_400(node: PublicNode, query: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        node.events(query)
    assert refused.value.response.status_code == 400
    assert refused.value.response.headers["content-type"] == "application/problem+json"


def test_a_handshake_of_a_foreign_origin_is_refused_with_403(node: PublicNode) -> None:
    with pytest.raises(InvalidStatus) as refused:
        connect_patiently("ws" + node.url.removeprefix("http") + "/events", origin=Origin("https://evil.example"))
    assert refused.value.response.status_code == 403


def test_get_without_an_upgrade_is_426(node: PublicNode) -> None:
    answer: httpx.Response = node.get("/events")
    assert answer.status_code == 426
    assert answer.headers["content-type"] == "application/problem+json"
