"""Check a proof of a Cairn chain offline, with genesis.json alone: no node, no network, no package but Python 3.9.

    python verify.py GENESIS FILE [--at HEIGHT:HASH] [--witness KEY]

Prints what is proven as JSON, or `NOT PROVEN: reason` and exits with 1. docs/formats.md defines the files. This one is
made to be read in one sitting and to be copied. Its parts: JSON, hashes and curves, Merkle trees, RLP, who signed, and
what each kind of file proves. `verify` is the entry; whatever the input is, it returns a report or raises `NotProven`.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import sys
from collections import namedtuple
from collections.abc import Callable
from hashlib import sha256, sha512
from itertools import accumulate
from typing import Any

NEVER = -1  # "touched before", of an account that was not
DEEPEST = 32  # lists and objects in each other: parsers differ in how many they bear
# The public half of a key that everybody has: Ed25519 of SHA-256("cairn dev chain: this key protects nothing").
DEV_SIGNER = bytes.fromhex("61e3d5fd875f007dd386d790641c8c3fb160ba020970ca733f8857a89689445f")
NO_UNCLES = bytes.fromhex("1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347")
Json = dict[str, Any]
Point = tuple[int, ...]
Validators = list[tuple[bytes, int]]  # public keys and powers
Account = tuple[int, int]  # balance and nonce
CHANGE_PARTS = (20, 28, 60, 68, 100, 108)  # where the numbers of a leaf of changes begin and end


class NotProven(Exception):
    """The message names what does not hold."""


def need(holds: bool, why: str) -> None:
    if not holds:
        raise NotProven(why)


# JSON, by rules that are narrower than its own, so that verifiers in all languages read the same.
def read_json(file: bytes) -> Json:
    outside = re.sub(rb'"[ !#-\[\]-~]*"', b"", file)
    need(not re.search(rb"[^0-9{}\[\]:, \t\n\r]", outside), "the file has a character that the format does not use")
    depths = accumulate(1 if bracket in b"[{" else -1 for bracket in re.findall(rb"[\[\]{}]", outside))
    need(max(depths, default=0) <= DEEPEST, "the file is nested too deeply")
    try:
        # Endless digits would take work out of proportion. -1 is refused wherever a number is read.
        value = json.loads(file, parse_int=lambda digits: int(digits) if len(digits) < 17 else -1)
    except ValueError:
        raise NotProven("the file is not JSON") from None
    return dict(take({"file": value}, "file", dict))


def take(holder: Json, key: str, kind: type, size: int | None = None) -> Any:
    """A member of an object; `bytes` are written in hexadecimal digits, `size` of them if it is given."""
    value = holder.get(key)
    need(type(value) is (str if kind is bytes else kind), f"{key} is missing or has the wrong type")
    if kind is bytes:
        need(bool(re.fullmatch("0x(?:[0-9a-f]{2})*", value)), f"{key} is not lower-case hex")  # type: ignore[arg-type]
        value = bytes.fromhex(str(value)[2:])
        need(size is None or len(value) == size, f"{key} does not have {size} bytes")
    need(kind is not int or 0 <= int(str(value)) < 2**53, f"{key} is not between 0 and 2^53-1")
    return value


def take_list(holder: Json, key: str, kind: type, size: int | None = None) -> list[Any]:
    return [take({key: item}, key, kind, size) for item in take(holder, key, list)]


# Keccak-256, as on Ethereum. Lane (x, y) of the state is number x + 5 y.
ROUND_CONSTANTS, MOVES, _register, _x, _y = [], [(0, 0, 0)], 1, 1, 0
for _round in range(24):
    ROUND_CONSTANTS.append(0)
    for _bit in range(7):
        ROUND_CONSTANTS[-1] |= (_register & 1) << (2**_bit - 1)
        _register = _register << 1 ^ (0x171 if _register & 0x80 else 0)
    _next = (2 * _x + 3 * _y) % 5
    MOVES.append((_x + 5 * _y, _y + 5 * _next, (_round + 1) * (_round + 2) // 2 % 64))
    _x, _y = _y, _next
NEIGHBOURS = [(n, n // 5 * 5 + (n + 1) % 5, n // 5 * 5 + (n + 2) % 5) for n in range(25)]


def keccak(data: bytes) -> bytes:
    padded = bytearray(data + b"\1" + bytes(135 - len(data) % 136))
    padded[-1] |= 0x80
    lanes, moved = [0] * 25, [0] * 25
    for start in range(0, len(padded), 136):
        for n in range(17):
            lanes[n] ^= int.from_bytes(padded[start + 8 * n : start + 8 * n + 8], "little")
        for constant in ROUND_CONSTANTS:
            column = [lanes[x] ^ lanes[x + 5] ^ lanes[x + 10] ^ lanes[x + 15] ^ lanes[x + 20] for x in range(5)]
            parity = [column[x - 1] ^ (column[x - 4] << 1 | column[x - 4] >> 63) & 2**64 - 1 for x in range(5)]
            for here, there, turn in MOVES:
                lane = lanes[here] ^ parity[here % 5]
                moved[there] = (lane << turn | lane >> 64 - turn) & 2**64 - 1
            lanes = [moved[n] ^ (~moved[right] & moved[further]) for n, right, further in NEIGHBOURS]
            lanes[0] ^= constant
    return b"".join(lane.to_bytes(8, "little") for lane in lanes[:4])


# Two curves. Both additions are complete: no pair of points is a special case.
def combine(a: int, p: Point, b: int, q: Point, add: Callable[[Point, Point], Point], zero: Point) -> Point:
    """a p + b q, bit by bit."""
    addends, total = (zero, p, q, add(p, q)), zero
    for bit in range(max(a, b).bit_length() - 1, -1, -1):
        total = add(add(total, total), addends[(a >> bit & 1) + 2 * (b >> bit & 1)])
    return total


ED = 2**255 - 19
ED_ORDER = 2**252 + 27742317777372353535851937790883648493
ED_D = -121665 * pow(121666, -1, ED) % ED


def ed_add(p: Point, q: Point) -> Point:
    a, b = (p[1] - p[0]) * (q[1] - q[0]), (p[1] + p[0]) * (q[1] + q[0])
    c, d = 2 * p[3] * q[3] % ED * ED_D, 2 * p[2] * q[2]
    e, f, g, h = (b - a) % ED, (d - c) % ED, (d + c) % ED, (b + a) % ED
    return e * f % ED, g * h % ED, f * g % ED, e * h % ED


def ed_point(encoded: bytes) -> Point:
    """The point, or () when there is none."""
    y = int.from_bytes(encoded, "little") % 2**255 % ED
    square = (y * y - 1) * pow(ED_D * y * y + 1, -1, ED) % ED
    x = pow(square, (ED + 3) // 8, ED)
    x = x if x * x % ED == square else x * pow(2, (ED - 1) // 4, ED) % ED
    x = x if x & 1 == encoded[31] >> 7 else -x % ED
    return (x, y, 1, x * y % ED) if x * x % ED == square else ()


ED_BASE = ed_point(b"\x58" + b"\x66" * 31)


def ed25519(key: bytes, message: bytes, signature: bytes) -> bool:
    """RFC 8032 without the cofactor, as Go, OpenSSL and WebCrypto do it: the bytes of S B - k A must be R."""
    point, s = ed_point(key), int.from_bytes(signature[32:], "little")
    if not point or s >= ED_ORDER:
        return False
    k = int.from_bytes(sha512(signature[:32] + key + message).digest(), "little") % ED_ORDER
    x, y, z, _ = combine(s, ED_BASE, k, (-point[0], point[1], 1, -point[3]), ed_add, (0, 1, 1, 0))
    x, y = x * pow(z, -1, ED) % ED, y * pow(z, -1, ED) % ED
    return (y | (x & 1) << 255).to_bytes(32, "little") == signature[:32]


SECP = 2**256 - 2**32 - 977
SECP_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
SECP_BASE_X = 0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798
SECP_BASE_Y = 0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8


def secp_add(p: Point, q: Point) -> Point:
    """Algorithm 7 of Renes, Costello and Batina (2015), for y^2 = x^3 + 7."""
    xx, yy, zz = p[0] * q[0], p[1] * q[1], 21 * p[2] * q[2]
    xy, yz = p[0] * q[1] + p[1] * q[0], p[1] * q[2] + p[2] * q[1]
    xz, up, down = 21 * (p[0] * q[2] + p[2] * q[0]) % SECP, (yy + zz) % SECP, (yy - zz) % SECP
    x, y, z = xy % SECP * down - yz % SECP * xz, 3 * xx * xz + down * up, up * yz + 3 * xx * xy
    return x % SECP, y % SECP, z % SECP


def recover(digest: bytes, r: int, s: int, parity: int) -> bytes:
    """The address whose key signed."""
    # With s above n/2 allowed, anybody could make a second transaction of the same payment.
    need(0 < r < SECP_ORDER and 0 < s <= SECP_ORDER // 2, "the transaction's signature is out of range")
    y = pow(r**3 + 7, (SECP + 1) // 4, SECP)
    need((y * y - r**3 - 7) % SECP == 0, "no key can have made the transaction's signature")
    y, inverse = y if y & 1 == parity else SECP - y, pow(r, -1, SECP_ORDER)
    a, b = s * inverse % SECP_ORDER, -int.from_bytes(digest, "big") * inverse % SECP_ORDER
    x, y, z = combine(a, (r, y, 1), b, (SECP_BASE_X, SECP_BASE_Y, 1), secp_add, (0, 1, 0))
    need(z != 0, "no key can have made the transaction's signature")
    x, y = x * pow(z, -1, SECP) % SECP, y * pow(z, -1, SECP) % SECP
    return keccak(x.to_bytes(32, "big") + y.to_bytes(32, "big"))[12:]


# The Merkle tree of RFC 6962. Leaves and nodes are hashed with different first bytes: none passes for the other.
def digest(*parts: bytes) -> bytes:
    return sha256(b"".join(parts)).digest()


def merkle_root(leaves: list[bytes]) -> bytes:
    level = [digest(b"\0", leaf) for leaf in leaves]
    while len(level) > 1:
        pairs = [level[n : n + 2] for n in range(0, len(level), 2)]
        level = [digest(b"\1", *pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return level[0]


def climb(index: int, size: int, old: bytes, new: bytes, path: list[bytes]) -> tuple[bytes, bytes]:
    """The roots above a node: `old` of the leaves up to it, `new` of all. `path` has the siblings, lowest first."""
    last, used = size - 1, 0
    while last:
        # The last node of an odd level has no sibling and moves up as it is.
        if index % 2 or index < last:
            need(used < len(path), "a path in a tree is too short")
            old = digest(b"\1", path[used], old) if index % 2 else old
            new = digest(b"\1", path[used], new) if index % 2 else digest(b"\1", new, path[used])
            used += 1
        index, last = index // 2, last // 2
    need(used == len(path), "a path in a tree is too long")
    return old, new


def check_leaf(data: bytes, index: int, size: int, path: list[bytes], root: bytes, what: str) -> None:
    need(index < size and climb(index, size, b"", digest(b"\0", data), path)[1] == root, f"{what} is not in the tree")


def check_ancestor(old: Header, new: Header, path: list[bytes]) -> None:
    """`new` is `old`, or has its hash in its history."""
    if old.raw == new.raw:
        return need(path == [], "a block has no path in its own history")
    check_leaf(old.hash, old.height, new.height, path, new.history, "the older block")


def check_appended(old_size: int, old_root: bytes, size: int, root: bytes, path: list[bytes]) -> None:
    """The tree of `size` leaves begins with that of `old_size`, which is smaller (RFC 9162, 2.1.4.2)."""
    if old_size == 0:
        return need(not path, "the consistency proof from an empty history is not empty")
    level = (old_size & -old_size).bit_length() - 1
    # If the old leaves are a whole tree, it is a node of the new one, and the path does not repeat it.
    path = [old_root, *path] if old_size == 1 << level else path
    need(path != [], "the consistency proof is too short")
    roots = climb((old_size >> level) - 1, (size - 1 >> level) + 1, path[0], path[0], path[1:])
    need(roots == (old_root, root), "the older history is not the beginning of the newer one")


# RLP, Ethereum's encoding: items are bytes, or [] for an empty list, as far as headers and transactions go.
def rlp_encode(item: Any) -> bytes:
    if type(item) is bytes and len(item) == 1 and item[0] < 0x80:
        return item
    first, body = (0x80, item) if type(item) is bytes else (0xC0, b"".join(map(rlp_encode, item)))
    size = len(body).to_bytes((len(body).bit_length() + 7) // 8, "big")
    return (bytes([first + len(body)]) if len(body) < 56 else bytes([first + 55 + len(size)]) + size) + body


def rlp_list(raw: bytes) -> list[Any]:
    def bounds(at: int) -> tuple[int, int]:
        size = raw[at] - (0xC0 if raw[at] >= 0xC0 else 0x80)
        start = at + (size >= 0) + max(0, size - 55)
        return start, start + (1 if size < 0 else size if size < 56 else int.from_bytes(raw[at + 1 : start], "big"))

    items, at = [], bounds(0)[0] if raw else 0
    while at < len(raw):
        start, end = bounds(at)
        items.append([] if raw[at] >= 0xC0 else raw[start:end])
        at = end
    need(rlp_encode(items) == raw, "a header or transaction is not canonical RLP")  # also if cut off, or not a list
    return items


def uint(raw: Any, size: int) -> int:
    need(type(raw) is bytes and len(raw) <= size and raw[:1] != b"\0", "not an integer in RLP")
    return int.from_bytes(raw, "big")


Header = namedtuple("Header", "raw hash height time proposer state payments changes history count base_fee")


def read_header(raw: bytes, chain_id: int) -> Header:
    items = rlp_list(raw)
    need(len(items) == 16 and [] not in items, "a header does not have sixteen fields")
    need([len(items[n]) for n in (0, 2, 3, 4, 5, 12, 13)] == [32, 20, 32, 32, 32, 18, 32], "a header has a wrong size")
    need([items[n] for n in (1, 6, 7, 14)] == [NO_UNCLES, bytes(256), b"", bytes(8)], "a header's unused field is set")
    need(items[12][:14] == b"cairn\3" + chain_id.to_bytes(8, "big"), "a header is of another chain or format")
    height, _, _, time = (uint(item, 8) for item in items[8:12])
    count, base_fee = int.from_bytes(items[12][14:], "big"), uint(items[15], 32)
    return Header(raw, keccak(raw), height, time, items[2], items[3], items[4], items[5], items[13], count, base_fee)


# Who signed: CometBFT's headers and votes, in protobuf, where what is zero or empty is left out.
def varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def field(tag: int, value: int | bytes) -> bytes:
    return bytes([tag]) + (varint(value) if isinstance(value, int) else varint(len(value)) + value)


def rank(validator: tuple[bytes, int]) -> tuple[int, bytes]:
    return -validator[1], digest(validator[0])[:20]


def set_hash(validators: Validators) -> bytes:
    need(0 < len(validators) == len({key for key, _ in validators}), "a validator is there twice, or there is none")
    need(all(type(power) is int and 0 < power < 2**53 for _, power in validators), "a power is out of range")
    need(validators == sorted(validators, key=rank), "the validators are not in CometBFT's order")
    return merkle_root([b"\x0a\x22\x0a\x20" + key + field(0x10, power) for key, power in validators])


def check_signed(signed: Json, validators: Validators, engine_id: bytes, above: int) -> tuple[int, list[bytes], Json]:
    """Height and leaves of an engine's header above a height, and which of the validators signed it."""
    leaves = take_list(signed, "header", bytes)
    need(len(leaves) == 14, "a signed header does not have fourteen fields")
    need(leaves[1] == field(0x0A, engine_id), "a signed header is of another chain")
    need(leaves[7] == b"\x0a\x20" + set_hash(validators), "a signed header is of other validators")
    height = sum((byte & 127) << 7 * n for n, byte in enumerate(leaves[2][1:10]))
    need(above < height and leaves[2] == field(0x08, height), "the signed headers are not in the order of heights")
    in_round, parts = take(signed, "round", int), take(signed, "parts", dict)
    total, parts_hash = take(parts, "total", int), take(parts, "hash", bytes)
    parts_id = (field(0x08, total) if total else b"") + (field(0x12, parts_hash) if parts_hash else b"")
    vote = b"\x08\x02\x11" + height.to_bytes(8, "little")
    vote += b"\x19" + in_round.to_bytes(8, "little") if in_round else b""
    vote += field(0x22, b"\x0a\x20" + merkle_root(leaves) + field(0x12, parts_id))
    signers: list[int] = []
    for signature in take_list(signed, "signatures", dict):
        signer, seconds, nanos = (take(signature, key, int) for key in ("validator", "seconds", "nanos"))
        need((signers or [-1])[-1] < signer < len(validators), "the signatures are not in order, or name no validator")
        time = (field(0x08, seconds) if seconds else b"") + (field(0x10, nanos) if nanos else b"")
        message = vote + field(0x2A, time) + field(0x32, engine_id)
        is_right = ed25519(
            validators[signer][0], varint(len(message)) + message, take(signature, "signature", bytes, 64)
        )
        need(is_right, f"the signature of validator {signer} is wrong")
        signers.append(signer)
    power, of = sum(validators[signer][1] for signer in signers), sum(power for _, power in validators)
    need(3 * power > 2 * of, f"only {power} of the power of {of} signed")
    return height, leaves, {"by": ["0x" + validators[n][0].hex() for n in signers], "power": power, "of": of}


def read_genesis(genesis: bytes) -> tuple[int, bytes, Validators]:
    """Chain id, digest and first validators: one of power 1 on a chain that one node makes."""
    try:
        fields = json.loads(genesis)
        need(type(fields["chainId"]) is int and 0 < fields["chainId"] < 2**63, "genesis.json: wrong chainId")
        need(("validators" in fields) != ("signer" in fields), "genesis.json needs validators or a signer, not both")
        rows = fields.get("validators") or [{"publicKey": fields["signer"], "power": 1}]
        validators = [(base64.b64decode(row["publicKey"], validate=True), row["power"]) for row in rows]
        need(all(len(key) == 32 for key, _ in validators), "genesis.json: a public key does not have 32 bytes")
        return fields["chainId"], keccak(genesis), sorted(validators, key=rank)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise NotProven("genesis.json is not a genesis file") from None


class Proof:
    """A file and its chain. `head` is the block that is signed; all else is proven under it."""

    def __init__(self, genesis: bytes, file: bytes) -> None:
        self.chain_id, self.digest, self.validators = read_genesis(genesis)
        self.file = read_json(file)
        self.certificate = take(self.file, "certificate", dict)
        self.head = read_header(take(self.certificate, "header", bytes), self.chain_id)

    def signed(self) -> Json:
        """Who signed the head: each set of validators signs the next one, from genesis on."""
        engine_id, height, validators = f"cairn-{self.chain_id}-{self.digest[:12].hex()}".encode(), 0, self.validators
        for step in take_list(self.certificate, "steps", dict):
            height, leaves, _ = check_signed(take(step, "signed", dict), validators, engine_id, height)
            rows = take_list(step, "validators", dict)
            validators = [(take(row, "publicKey", bytes, 32), take(row, "power", int)) for row in rows]
            need(leaves[8] == b"\x0a\x20" + set_hash(validators), "the next validators are not those that were signed")
        _, leaves, report = check_signed(take(self.certificate, "signed", dict), validators, engine_id, height)
        need(leaves[10] == b"\x0a\x20" + self.head.hash, "another block was signed")
        everybody = validators == [(DEV_SIGNER, 1)]
        return {
            **report,
            "steps": len(self.certificate["steps"]),
            **({"note": "everybody has the key"} if everybody else {}),
        }

    def block(self, holder: Json, key: str = "block") -> Header:
        """A block of the file: the head, or one of its ancestors."""
        part = take(holder, key, dict)
        block = read_header(take(part, "header", bytes), self.chain_id)
        check_ancestor(block, self.head, take_list(part, "history", bytes, 32))
        return block

    def payment(self, part: Json, block: Header) -> Json:
        raw, path = take(part, "transaction", bytes), take_list(part, "path", bytes, 32)
        check_leaf(keccak(raw), take(part, "index", int), block.count, path, block.payments, "the payment")
        kind = raw[0] if raw[:1] in (b"\1", b"\2") else 0
        fields = rlp_list(raw[1:] if kind else raw)
        need(len(fields) == (9, 11, 12)[kind] and fields.count([]) == (kind > 0), "not a transaction")
        *body, v, r, s = fields
        if kind:
            need(uint(body.pop(0), 8) == self.chain_id and body.pop() == [], "another chain id, or an access list")
            signed, parity = raw[:1] + rlp_encode(fields[:-3]), uint(v, 1)
        else:
            signed = rlp_encode([*body, self.chain_id.to_bytes(8, "big").lstrip(b"\0"), b"", b""])
            parity = uint(v, 8) - 35 - 2 * self.chain_id
        need(parity in (0, 1), "the transaction is not signed for this chain")
        nonce, *caps, gas, to, value, data = body
        prices = [uint(cap, 32) for cap in caps]
        price = min(prices[1], block.base_fee + prices[0]) if kind == 2 else prices[0]
        need(len(to) == 20 and uint(gas, 8) > 0, "not a transfer")
        return {
            "from": "0x" + recover(keccak(signed), uint(r, 32), uint(s, 32), parity).hex(),
            "to": "0x" + to.hex(),
            "value": uint(value, 32),
            "data": "0x" + data.hex(),
            "nonce": uint(nonce, 8),
            "fee": price * (21000 + 16 * len(data) - 12 * data.count(0)),
            "transaction": "0x" + keccak(raw).hex(),
            "height": block.height,
            "time": block.time,
        }

    def change(self, part: Json) -> tuple[Header, int, Account, Account]:
        """A block, where it was touched before, and what the account held before and after it."""
        leaf, path, block = take(part, "leaf", bytes, 108), take_list(part, "path", bytes, 32), self.block(part)
        check_leaf(leaf, take(part, "index", int), take(part, "count", int), path, block.changes, "the change")
        need(leaf[:20] == take(self.file, "address", bytes, 20), "the change is another account's")
        touched, *held = (int.from_bytes(leaf[CHANGE_PARTS[n] : CHANGE_PARTS[n + 1]], "big") for n in range(5))
        return block, NEVER if touched == 2**64 - 1 else touched, (held[0], held[1]), (held[2], held[3])

    def state(self, part: Json) -> tuple[int, Account]:
        """Where the account was touched last and what it holds at the head: nothing if it does not exist."""
        leaf, path, place = take(part, "leaf", bytes, 88), take_list(part, "path", bytes, 32), take(part, "number", int)
        check_leaf(leaf, place, take(part, "size", int), path, self.head.state, "the account")
        address, own, following = take(self.file, "address", bytes, 20), leaf[:20], leaf[68:]
        if own == address and place:
            balance, nonce, touched = (int.from_bytes(leaf[a:b], "big") for a, b in ((20, 52), (52, 60), (60, 68)))
            return touched, (balance, nonce)
        # Accounts are linked in a circle in the order of addresses: there is none between one and the next.
        is_between = own < address < following if own < following else address > own or address < following
        need(is_between and place > 0, "the leaf says nothing of this account")
        return NEVER, (0, 0)

    def finality(self) -> Json:
        block = self.block(self.file)
        return {"height": block.height, "hash": "0x" + block.hash.hex(), "time": block.time}

    def receipt(self) -> Json:
        return self.payment(take(self.file, "payment", dict), self.block(self.file))

    def account(self) -> Json:
        height = take(self.file, "height", int)
        need(height <= self.head.height, "the height is above the signed block")
        need(("state" in self.file) != ("change" in self.file), "there must be one of state and change")
        if "state" in self.file:
            touched, held = self.state(take(self.file, "state", dict))
        else:
            block, touched, held, _ = self.change(take(self.file, "change", dict))
            need(block.height > height, "the change is not after the height")
        need(touched <= height, "the account was changed after that height")
        address = self.file["address"]
        return {"address": address, "height": height, "balance": held[0], "nonce": held[1], "exists": touched != NEVER}

    def statement(self) -> Json:
        address, first, last = (
            take(self.file, key, kind) for key, kind in (("address", str), ("from", int), ("to", int))
        )
        need(first <= last <= self.head.height, "from, to and the signed block are not in order")
        need(("state" in self.file) != ("next" in self.file), "there must be one of state and next")
        height, entries = NEVER, []
        held: Account | None = None
        opening: Account | None = None

        def link(touched: int, before: Account) -> None:
            follows = touched < first if held is None else (touched, before) == (height, held)
            need(follows, "a change of the account is left out")

        for part in take_list(self.file, "changes", dict):
            block, touched, before, after = self.change(part)
            link(touched, before)
            need(
                max(first, height + 1) <= block.height <= last, "a change is not within the statement, or out of order"
            )
            opening, height, held = opening or before, block.height, after
            entries.append(self.entry(address, part, block, before, after))
        if "next" in self.file:
            block, touched, closing, _ = self.change(take(self.file, "next", dict))
            need(block.height > last, "the next change is within the statement")
        else:
            touched, closing = self.state(take(self.file, "state", dict))
        link(touched, closing)
        return {
            "address": address,
            "from": first,
            "to": last,
            "opening": opening or closing,
            "closing": closing,
            "entries": entries,
        }

    def entry(self, address: str, part: Json, block: Header, before: Account, after: Account) -> Json:
        """A change, explained by payments."""
        balance, nonce, index, payments = *before, -1, []
        for item in take_list(part, "payments", dict):
            payment = self.payment(item, block)
            need(item["index"] > index, "the payments are not in the block's order")
            need(address in (payment["from"], payment["to"]), "a payment of others is in the statement")
            if payment["from"] == address:
                need(payment["nonce"] == nonce, "a payment is left out: the nonces do not follow each other")
                balance, nonce = balance - payment["value"] - payment["fee"], nonce + 1
            balance, index = balance + (payment["to"] == address) * payment["value"], item["index"]
            payments.append(payment)
        rest, is_proposer = after[0] - balance, address == "0x" + block.proposer.hex()
        is_explained = rest == 0 or block.count == 0 or (is_proposer and rest > 0)
        need(nonce == after[1] and is_explained, "the payments do not add up to the change")
        source = {"rest": rest, "rest is": "fees of the block" if block.count else "set, not paid"} if rest else {}
        return {"height": block.height, "time": block.time, "balance": after[0], "payments": payments, **source}

    def history(self) -> Json:
        first, second = read_header(take(self.file, "first", bytes), self.chain_id), self.block(self.file, "second")
        need(first.height < second.height, "the first block is not before the second")
        check_ancestor(first, second, take_list(self.file, "inclusion", bytes, 32))
        path = take_list(self.file, "consistency", bytes, 32)
        check_appended(first.height, first.history, second.height, second.history, path)
        blocks = [{"height": block.height, "hash": "0x" + block.hash.hex()} for block in (first, second)]
        return {"first": blocks[0], "second": blocks[1]}


FORMATS = {f"cairn-{kind}-1": kind for kind in ("finality", "receipt", "account", "statement", "history")}


def verify(genesis: bytes, file: bytes, at: tuple[int, bytes] | None = None, witness: bytes | None = None) -> Json:
    """What the file proves. With `at`, height and hash of a trusted block, signatures are not looked at."""
    proof = Proof(genesis, file)
    kind = FORMATS.get(take(proof.file, "format", str), "")
    need(kind != "", "unknown format")
    blocks, is_witnessed = [proof.head], False
    for part in take_list(proof.file, "descendants", dict) if "descendants" in proof.file else []:
        block = read_header(take(part, "header", bytes), proof.chain_id)
        check_ancestor(proof.head, block, take_list(part, "history", bytes, 32))
        message = b"cairn witness 1\0" + proof.digest + block.height.to_bytes(8, "big") + block.hash
        for row in take_list(part, "witnesses", dict):
            key, signature = take(row, "publicKey", bytes, 32), take(row, "signature", bytes, 64)
            is_witnessed = is_witnessed or key == witness and ed25519(key, message, signature)
        blocks.append(block)
    need(at is None or at in [(block.height, block.hash) for block in blocks], "the trusted block is not in the file")
    need(witness is None or is_witnessed, "the witness did not sign")
    head = {"height": proof.head.height, "hash": "0x" + proof.head.hash.hex(), "time": proof.head.time}
    signed = proof.signed() if at is None else {"by": "not checked: --at"}
    return {"kind": kind, **getattr(proof, kind)(), "signed": {**head, **signed}}


def main() -> int:
    parser = argparse.ArgumentParser(description="Check a proof of a Cairn chain offline.")
    parser.add_argument("genesis")
    parser.add_argument("file")
    parser.add_argument("--at", metavar="HEIGHT:HASH", help="a block that you trust: signatures are not looked at")
    parser.add_argument("--witness", metavar="KEY", help="public key of a witness that must have signed, 0x...")
    args = parser.parse_args()
    try:
        height, _, block_hash = (args.at or "").partition(":")
        at = (
            (take({"--at": int(height)}, "--at", int), take({"--at": block_hash}, "--at", bytes, 32))
            if args.at
            else None
        )
        witness = take({"--witness": args.witness}, "--witness", bytes, 32) if args.witness else None
        with open(args.genesis, "rb") as genesis, open(args.file, "rb") as file:
            print(json.dumps(verify(genesis.read(), file.read(), at, witness), indent=2))
        return 0
    except (NotProven, OSError, ValueError) as reason:
        print(f"NOT PROVEN: {reason}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
