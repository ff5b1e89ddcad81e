"""The messages hold exactly the fields that the interface gives them."""

import json

from cairn.api.events.messages import (
    BlocksSubscribed,
    ErrorMessage,
    ServerMessage,
    TxUnsubscribed,
    encode_frame,
)
from cairn.domain.answers import Confirmed, Dropped, NewBlock

HASH = "0x" + "12" * 32


def payload(message: ServerMessage) -> bytes:
    """What the frame carries: an unmasked, final, uncompressed text frame with a short or a 16-bit length."""
    frame = encode_frame(message)
    assert frame[0] == 0x81
    if frame[1] < 126:
        assert len(frame) == 2 + frame[1]
        return frame[2:]
    assert frame[1] == 126
    assert len(frame) == 4 + int.from_bytes(frame[2:4], "big")
    return frame[4:]


def test_events_have_exactly_their_fields() -> None:
    assert payload(NewBlock(7, HASH)) == b'{"event":"newBlock","blockHeight":7,"hash":"%b"}' % HASH.encode()
    assert json.loads(payload(Confirmed(HASH, 7))) == {"event": "txConfirmed", "txHash": HASH, "blockHeight": 7}
    assert json.loads(payload(Dropped(HASH, "nonce used"))) == {
        "event": "txDropped",
        "txHash": HASH,
        "reason": "nonce used",
    }


def test_answers_leave_out_what_does_not_apply() -> None:
    assert json.loads(payload(BlocksSubscribed(from_height=0))) == {
        "event": "subscribed",
        "subscription": "newBlock",
        "fromHeight": 0,
    }
    assert json.loads(payload(TxUnsubscribed(tx_hash=HASH, id=2**70))) == {
        "event": "unsubscribed",
        "subscription": "txConfirmed",
        "txHash": HASH,
        "id": 2**70,
    }


def test_an_error_is_a_problem() -> None:
    error = ErrorMessage(type="urn:x", title="t", status=400, detail="d" * 200, code="C", id="é")
    assert json.loads(payload(error)) == {
        "event": "error",
        "type": "urn:x",
        "title": "t",
        "status": 400,
        "detail": "d" * 200,
        "code": "C",
        "id": "é",
    }
