"""The frames of subscriptions, encoded once for all sockets where possible."""

from collections.abc import Sequence
from functools import lru_cache

import msgspec
from websockets.frames import Frame, Opcode

from cairn.api.chain_view import ChainView
from cairn.api.rpc.objects import head_object, transaction_object
from cairn.domain.types import BlockHash, Tx

CACHED_HEADS = 128

_encode = msgspec.json.Encoder().encode
_NO_HASH = b"0x" + b"0" * 64


UNCOPIED_BYTES = 2**16
"""From here on, the length of a frame has 64 bits."""


def text_frame(payload: bytes) -> bytes:
    """Unmasked and not compressed, like every frame that a node sends."""
    return Frame(Opcode.TEXT, payload).serialize(mask=False)


def text_frame_parts(payload: bytes) -> tuple[bytes, ...]:
    """The same frame, in parts that need no copy of a long payload."""
    if len(payload) < UNCOPIED_BYTES:
        return (text_frame(payload),)
    # The last fragment of a text (0x81), and a length of 64 bits (127).
    return b"\x81\x7f" + len(payload).to_bytes(8, "big"), payload


def notification(subscription: str, result: bytes) -> bytes:
    return text_frame(
        b'{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"%b","result":%b}}'
        % (subscription.encode(), result)
    )


class HeadTexts:
    """A cache of the latest headers in JSON: many sockets get them at about the same time."""

    def __init__(self, view: ChainView) -> None:
        self._view = view
        self._text = lru_cache(CACHED_HEADS)(self._encode)

    def text(self, height: int) -> bytes:
        # With the hash: after a revert there is another block at the same height.
        return self._text(height, self._view.block_hash(height))

    def _encode(self, height: int, block_hash: BlockHash) -> bytes:
        return _encode(head_object(*self._view.get_header(height)))


class ArrivedTxs:
    """Transactions that arrived in the mempool together."""

    def __init__(self, txs: Sequence[Tx], chain_id: int) -> None:
        self._txs = txs
        self._chain_id = chain_id
        self._objects: list[bytes] | None = None

    def full_frames(self, subscription: str) -> bytes:
        if self._objects is None:
            self._objects = [_encode(transaction_object(tx, self._chain_id, None)) for tx in self._txs]
        return b"".join(notification(subscription, text) for text in self._objects)

    def hash_frames(self, subscription: str) -> bytes:
        # The frames of one subscription differ only in the hash, so a thousand cost one join.
        before, after = notification(subscription, b'"%b"' % _NO_HASH).split(_NO_HASH)
        return b"".join(b"%b0x%b%b" % (before, tx.hash.hex().encode(), after) for tx in self._txs)
