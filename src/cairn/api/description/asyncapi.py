"""The AsyncAPI 3.0 description of /events: every message that goes either way, and no other."""

from typing import Any, get_args

from cairn.api.amount_forms import FORMS
from cairn.api.schemas import INTERFACE_VERSION
from cairn.domain.types import MAX_UINT64, DropReason

Schema = dict[str, Any]

DESCRIPTION = """\
Events are told only once their block is on disk. Heights come in order and none is left out; a block's `newBlock` comes
before the `txConfirmed` of its transactions. With `fromHeight` the socket replays from the store and then goes on live,
without a hole and without a repeat.

Subscribe by message, or on the URL: `/events?newBlock&fromHeight=N&txConfirmed=0x…`. Both fit in one socket, and a
subscription on the URL is answered like one by message. Following a transaction ends with its `txConfirmed` or
`txDropped`. One that is confirmed already is told at once; if a replay has not reached its block yet, with that block.

A message that cannot be taken is answered with `error`, and the socket stays open. Close codes: 1001 the node stops;
1008 a message had more than 1,024 fragments; 1009 a message was larger than allowed (16 KiB unless configured
otherwise); 1013 the client read too slowly: reconnect with `fromHeight` one above the last height seen. 4205 a dev
chain was reverted to the block that the reason names: reconnect with `fromHeight` one above that. The node pings every
30 s unless configured otherwise.

Before the upgrade a refusal is a problem document as everywhere else: 400 for a query that cannot be read, 403 for a
web page of another origin, 503 while the node starts or stops."""

ID: Schema = {"type": ["string", "number"], "description": "Chosen by the client and given back in the answer."}
HASH: Schema = {"type": "string", "pattern": "^0x[0-9a-f]{64}$"}
HASH_OF_EITHER_CASE: Schema = {"type": "string", "pattern": "^0x[0-9a-fA-F]{64}$"}
HEIGHT: Schema = {"type": "integer", "minimum": 0, "maximum": MAX_UINT64}
FROM_HEIGHT: Schema = HEIGHT | {
    "description": "Replay from here; a height that does not exist yet is waited for. Without it, from now on."
}
EXAMPLE_HASH = "0x" + "5c" * 32


def _object(properties: dict[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def _message(summary: str, payload: Schema, example: dict[str, Any]) -> dict[str, Any]:
    return {"summary": summary, "payload": payload, "examples": [{"payload": example}]}


def _request(action: str, event: str, fields: dict[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    said = {"action": {"const": action}, "event": {"const": event}}
    return _object(said | fields | {"id": ID}, (*optional, "id"))


def _told(event: str, fields: dict[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    return _object({"event": {"const": event}} | fields, optional)


REQUESTS = {
    "subscribeBlocks": _message(
        "Be told of every new block. Sent again with another fromHeight, it moves the socket there.",
        _request("subscribe", "newBlock", {"fromHeight": FROM_HEIGHT}, optional=("fromHeight",)),
        {"action": "subscribe", "event": "newBlock", "fromHeight": 0, "id": 1},
    ),
    "unsubscribeBlocks": _message(
        "Be told of no more blocks.",
        _request("unsubscribe", "newBlock", {}),
        {"action": "unsubscribe", "event": "newBlock"},
    ),
    "followTransaction": _message(
        "Be told how one transaction ends; it may be one that the node has not seen yet. A socket follows at most "
        "1,000 at once, unless configured otherwise; beyond that the answer is the error FOLLOW_LIMIT.",
        _request("subscribe", "txConfirmed", {"txHash": HASH_OF_EITHER_CASE}),
        {"action": "subscribe", "event": "txConfirmed", "txHash": EXAMPLE_HASH, "id": "a"},
    ),
    "unfollowTransaction": _message(
        "Be told nothing more of one transaction.",
        _request("unsubscribe", "txConfirmed", {"txHash": HASH_OF_EITHER_CASE}),
        {"action": "unsubscribe", "event": "txConfirmed", "txHash": EXAMPLE_HASH},
    ),
}

ANSWERS = {
    "subscribed": _message(
        "The subscription holds; whatever it brings comes after this message.",
        {
            "oneOf": [
                _told(
                    "subscribed",
                    {
                        "subscription": {"const": "newBlock"},
                        "fromHeight": HEIGHT | {"description": "The first height that this socket is told of."},
                        "id": ID,
                    },
                    optional=("id",),
                ),
                _told(
                    "subscribed",
                    {"subscription": {"const": "txConfirmed"}, "txHash": HASH, "id": ID},
                    optional=("id",),
                ),
            ]
        },
        {"event": "subscribed", "subscription": "newBlock", "fromHeight": 0, "id": 1},
    ),
    "unsubscribed": _message(
        "The subscription has ended; it brings nothing after this message.",
        {
            "oneOf": [
                _told("unsubscribed", {"subscription": {"const": "newBlock"}, "id": ID}, optional=("id",)),
                _told(
                    "unsubscribed",
                    {"subscription": {"const": "txConfirmed"}, "txHash": HASH, "id": ID},
                    optional=("id",),
                ),
            ]
        },
        {"event": "unsubscribed", "subscription": "txConfirmed", "txHash": EXAMPLE_HASH},
    ),
    "error": _message(
        "The message was not taken, and nothing has changed. A problem's fields (RFC 9457).",
        _told(
            "error",
            {
                "type": {"type": "string", "format": "uri"},
                "title": {"type": "string"},
                "status": {"type": "integer", "minimum": 400, "maximum": 599},
                "detail": {"type": "string"},
                "code": {
                    "enum": [
                        "MALFORMED_JSON",
                        "INVALID_FIELD",
                        "INVALID_HASH",
                        "UNSUPPORTED_MEDIA_TYPE",
                        "FOLLOW_LIMIT",
                        "STARTING",
                        "SHUTTING_DOWN",
                        "STORE_UNAVAILABLE",
                    ]
                },
                "field": {"type": "string", "description": "The field that INVALID_FIELD is about."},
                "id": ID,
            },
            optional=("field", "id"),
        ),
        {
            "event": "error",
            "type": "urn:cairn:problem:INVALID_HASH",
            "title": "Not a hash",
            "status": 400,
            "detail": "a transaction hash is 0x and 64 hexadecimal digits",
            "code": "INVALID_HASH",
        },
    ),
}

EVENTS = {
    "newBlock": _message(
        "A block has been mined and is on disk.",
        _told("newBlock", {"blockHeight": HEIGHT, "hash": HASH}),
        {"event": "newBlock", "blockHeight": 1, "hash": EXAMPLE_HASH},
    ),
    "txConfirmed": _message(
        "A followed transaction is in a block, for ever.",
        _told("txConfirmed", {"txHash": HASH, "blockHeight": HEIGHT}),
        {"event": "txConfirmed", "txHash": EXAMPLE_HASH, "blockHeight": 1},
    ),
    "txDropped": _message(
        "A followed transaction has left the mempool without being confirmed.",
        _told("txDropped", {"txHash": HASH, "reason": {"enum": list(get_args(DropReason))}}),
        {"event": "txDropped", "txHash": EXAMPLE_HASH, "reason": "replaced"},
    ),
}

QUERY = {
    "type": "object",
    "properties": {
        "newBlock": {"enum": ["", "true"], "description": "Present: be told of every new block."},
        "fromHeight": FROM_HEIGHT,
        "txConfirmed": HASH_OF_EITHER_CASE | {"description": "Follow this transaction; may be given several times."},
        "amounts": {
            "enum": list(FORMS),
            "description": "How amounts are written, as on REST. No event holds one today.",
        },
    },
    "additionalProperties": False,
}


def _in_channel(messages: dict[str, dict[str, Any]]) -> list[dict[str, str]]:
    return [{"$ref": f"#/channels/events/messages/{name}"} for name in messages]


def asyncapi_document() -> dict[str, Any]:
    messages = REQUESTS | ANSWERS | EVENTS
    channel = {"$ref": "#/channels/events"}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Cairn: the node's events",
            "version": INTERFACE_VERSION,
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {
            "node": {
                "host": "{host}",
                "protocol": "ws",
                "description": "The node itself; wss when it has a certificate.",
                "variables": {"host": {"default": "127.0.0.1:8645"}},
            }
        },
        "channels": {
            "events": {
                "address": "/events",
                "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
                "bindings": {"ws": {"method": "GET", "query": QUERY, "bindingVersion": "0.1.0"}},
            }
        },
        "operations": {
            "ask": {
                "action": "receive",
                "summary": "What a client may ask for, and the answers.",
                "channel": channel,
                "messages": _in_channel(REQUESTS),
                "reply": {"channel": channel, "messages": _in_channel(ANSWERS)},
            },
            "tell": {
                "action": "send",
                "summary": "What the node tells on its own.",
                "channel": channel,
                "messages": _in_channel(EVENTS),
            },
        },
        "components": {"messages": {name: {"name": name} | message for name, message in messages.items()}},
    }
