"""The AsyncAPI 3.0 document of /events: all messages in both directions."""

import inspect
from collections.abc import Iterable

import msgspec

from cairn.api.description.json_schemas import INTERFACE_VERSION, Json, Schemas
from cairn.api.events import messages
from cairn.domain.answers import Confirmed, Dropped, NewBlock, Payment, TxQueued, queued_reason
from cairn.domain.errors import InvalidHash
from cairn.domain.json_fields import CHECKSUMMED, MAX_AMOUNT_DIGITS, ref

DESCRIPTION = """\
An event is sent once its block is on disk. Blocks come in the order of their heights and none is skipped. The
`newBlock` of a block comes before the `txConfirmed` of its transactions, and those before its `payment`s. With
`fromHeight`, the node first replays stored blocks and then continues with new ones; none is skipped and none comes
twice.

Subscribe by message, or in the URL: `/events?newBlock&fromHeight=N&txConfirmed=0x…&payment=0x…`. A socket can have all
subscriptions, and one in the URL is answered like one by message. Following a transaction ends with its `txConfirmed`
or `txDropped`. If it is already confirmed, `txConfirmed` is sent at once, or with its block if a replay has not reached
it.

A `payment` is a transfer from or to an address that the socket follows; one between two of them comes once. Payments
come in the order of the chain. Addresses that do not fit into one message are added by further ones: only the last of
them should have `fromHeight`, and the payments that come after its answer are those of all addresses from there on.

An invalid message is answered with `error`, and the socket stays open. Close codes: 1001: the node stops. 1008: a
message had more than 1,024 fragments. 1009: a message was larger than allowed (16 KiB unless configured otherwise).
1013: the client read too slowly; reconnect with `fromHeight` one above the last height that you received. 4205: a dev
chain was reverted to the block in the reason; reconnect with `fromHeight` one above that block. The node pings every 30
s unless configured otherwise.

An error before the upgrade is a problem document, as on every path: 400 for an invalid query, 403 for a web page of
another origin, 503 while the node is starting or stopping."""

Messages = dict[str, list[msgspec.Struct]]
"""By name, with one example for each type."""

HASH = "0x" + "5c" * 32
ADDRESS = CHECKSUMMED.lower()
AMOUNT: Json = {
    "oneOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": f"^[0-9]{{1,{MAX_AMOUNT_DIGITS}}}$"}]
}
"""A string with `?amounts=string`."""

REQUESTS: Messages = {
    "subscribeBlocks": [messages.SubscribeBlocks(from_height=0, id=1)],
    "unsubscribeBlocks": [messages.UnsubscribeBlocks()],
    "followTransaction": [messages.FollowTransaction(tx_hash=HASH, queued=True, id="a")],
    "unfollowTransaction": [messages.UnfollowTransaction(tx_hash=HASH)],
    "followAddresses": [messages.FollowAddresses(addresses=[ADDRESS], from_height=0, id=2)],
    "unfollowAddresses": [messages.UnfollowAddresses(addresses=[ADDRESS])],
}
ANSWERS: Messages = {
    "subscribed": [
        messages.BlocksSubscribed(from_height=0, id=1),
        messages.TxSubscribed(tx_hash=HASH),
        messages.PaymentsSubscribed(from_height=0, followed=1, id=2),
    ],
    "unsubscribed": [
        messages.BlocksUnsubscribed(),
        messages.TxUnsubscribed(tx_hash=HASH),
        messages.PaymentsUnsubscribed(followed=0),
    ],
    "error": [messages.error_message(InvalidHash("a transaction hash is 0x and 64 hexadecimal digits"))],
}
EVENTS: Messages = {
    "newBlock": [NewBlock(1, HASH)],
    "txConfirmed": [Confirmed(HASH, 1)],
    "txDropped": [Dropped(HASH, "replaced")],
    "txQueued": [TxQueued(HASH, queued_reason(3))],
    "payment": [
        Payment(
            tx_hash=HASH,
            block_height=1,
            transaction_index=0,
            sender="0x" + "f3" * 20,
            to=ADDRESS,
            value=10**18,
            data="0x" + b"invoice 4711".hex(),
            reference="invoice 4711",
        )
    ],
}


def _schema_of(struct: type[msgspec.Struct]) -> Json:
    schemas = Schemas()
    schemas.of(struct)
    (schema,) = schemas.make_components().values()
    for name, field in schema["properties"].items():
        if field.get("$ref") == ref("Amount")["$ref"]:
            schema["properties"][name] = AMOUNT | {"description": field["description"]}
    return {key: value for key, value in schema.items() if key != "description"}


def _message(name: str, examples: list[msgspec.Struct]) -> Json:
    payloads = [_schema_of(type(example)) for example in examples]
    return {
        "name": name,
        "summary": " ".join((inspect.getdoc(type(examples[0])) or "").split()),
        "payload": payloads[0] if len(payloads) == 1 else {"oneOf": payloads},
        "examples": [{"payload": msgspec.to_builtins(example)} for example in examples],
    }


def _in_channel(names: Iterable[str]) -> list[Json]:
    return [{"$ref": f"#/channels/events/messages/{name}"} for name in names]


def asyncapi_document() -> Json:
    every = REQUESTS | ANSWERS | EVENTS
    channel = {"$ref": "#/channels/events"}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Cairn node: events",
            "version": INTERFACE_VERSION,
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {
            "node": {
                "host": "{host}",
                "protocol": "ws",
                "description": "This node. The protocol is wss if it has a certificate.",
                "variables": {"host": {"default": "127.0.0.1:8645"}},
            }
        },
        "channels": {
            "events": {
                "address": "/events",
                "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in every},
                "bindings": {
                    "ws": {"method": "GET", "query": _schema_of(messages.EventsQuery), "bindingVersion": "0.1.0"}
                },
            }
        },
        "operations": {
            "ask": {
                "action": "receive",
                "summary": "Requests of the client, and their answers.",
                "channel": channel,
                "messages": _in_channel(REQUESTS),
                "reply": {"channel": channel, "messages": _in_channel(ANSWERS)},
            },
            "tell": {
                "action": "send",
                "summary": "Events, sent by the node.",
                "channel": channel,
                "messages": _in_channel(EVENTS),
            },
        },
        "components": {"messages": {name: _message(name, examples) for name, examples in every.items()}},
    }
