"""Check a proof of a Cairn chain offline, with genesis.json alone: no node, no network, no package but Python 3.9.

    python verify.py GENESIS FILE [--at HEIGHT:HASH] [--witness KEY]

Prints what is proven as JSON, or `NOT PROVEN: reason` and exits with 1. docs/formats.md defines the files. Made to be
read in one sitting and to be copied: JSON, hashes, curves, trees, RLP, who signed, what each kind of file proves.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import sys
from collections import namedtuple
from hashlib import sha256, sha512
from itertools import accumulate
from typing import Any

CHANGE_NUMBERS = (20, 28), (28, 60), (60, 68), (68, 100), (100, 108)  # touched before; balance, nonce before and after
STATE_NUMBERS = (20, 52), (52, 60), (60, 68)  # balance, nonce, last touch
NEVER = -1  # where an account was touched before its first touch
FORMATS = [f"cairn-{kind}-1" for kind in ("finality", "receipt", "account", "statement", "history")]
# The public half of a key that everybody has: Ed25519 of SHA-256("cairn dev chain: this key protects nothing").
DEV_SIGNER = bytes.fromhex("61e3d5fd875f007dd386d790641c8c3fb160ba020970ca733f8857a89689445f")
NO_UNCLES = bytes.fromhex("1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347")
Header = namedtuple("Header", "raw hash height time proposer state payments changes history count base_fee")
Json = dict[str, Any]
Numbers = tuple[int, ...]  # a point of a curve, or balance and nonce
Validators = list[tuple[bytes, int]]  # public keys and powers


class NotProven(Exception):
    """Whatever the input is, `verify` returns a report or raises this, with what does not hold."""


def need(holds: bool, why: str) -> None:
    if not holds:
        raise NotProven(why)


# JSON by rules that are narrower than its own, so that verifiers in all languages read the same.
def read_json(file: bytes) -> Json:
    outside = re.sub(rb'"[ !#-\[\]-~]*"', b"", file)
    need(not re.search(rb"[^0-9{}\[\]:, \t\n\r]", outside), "the file has a character that the format does not use")
    depths = accumulate(1 if byte in b"[{" else -1 for byte in outside if byte in b"[]{}")
    need(max(depths, default=0) <= 32, "the file is nested too deeply")
    try:
        # Endless digits would be endless work. -1 is refused wherever a number is read.
        value = json.loads(file, parse_int=lambda digits: int(digits) if len(digits) < 17 else -1)
    except ValueError:
        raise NotProven("the file is not JSON") from None
    return dict(take({"file": value}, "file", dict))


def take(holder: Json, key: str, kind: Any, size: int | None = None) -> Any:
    """A member of an object. bytes: written in hexadecimal digits; [kind]: a list."""
    if isinstance(kind, list):
        return [take({key: item}, key, kind[0], size) for item in take(holder, key, list)]
    value: Any = holder.get(key)
    need(type(value) is (str if kind is bytes else kind), f"{key} is missing or has the wrong type")
    need(kind is not int or 0 <= value < 2**53, f"{key} is not between 0 and 2^53-1")
    if kind is bytes:
        need(re.fullmatch("0x(?:[0-9a-f]{2})*", value) is not None, f"{key} is not lower-case hex")
        value = bytes.fromhex(value[2:])
        need(size in (None, len(value)), f"{key} does not have {size} bytes")
    return value


# Keccak-256, as on Ethereum. Lane (x, y) of the state is number x + 5 y.
ROWS = [(n, n - n % 5 + (n + 1) % 5, n - n % 5 + (n + 2) % 5) for n in range(25)]
CONSTANTS, MOVES, register, x, y = [0] * 24, [(0, 0)] * 25, 1, 1, 0
for turn in range(24):
    for bit in range(7):
        CONSTANTS[turn] |= (register & 1) << (2**bit - 1)
        register = register << 1 ^ (0x171 if register & 0x80 else 0)
    MOVES[y + 5 * ((2 * x + 3 * y) % 5)] = (x + 5 * y, (turn + 1) * (turn + 2) // 2 % 64)
    x, y = y, (2 * x + 3 * y) % 5


def keccak(data: bytes) -> bytes:
    room, lanes = 136 - len(data) % 136, [0] * 25
    data += b"\x81" if room == 1 else b"\1" + bytes(room - 2) + b"\x80"
    for at in range(0, len(data), 8):
        lanes[at % 136 // 8] ^= int.from_bytes(data[at : at + 8], "little")
        for constant in CONSTANTS if at % 136 == 128 else []:
            a, b, c, d, e = (lanes[x] ^ lanes[x + 5] ^ lanes[x + 10] ^ lanes[x + 15] ^ lanes[x + 20] for x in range(5))
            parity = [(u ^ v << 1 ^ v >> 63) % 2**64 for u, v in ((e, b), (a, c), (b, d), (c, e), (d, a))] * 5
            turned = [(lanes[here] ^ parity[here]) << turn for here, turn in MOVES]
            lanes = [(lane | lane >> 64) % 2**64 for lane in turned]
            lanes = [lanes[here] ^ ~lanes[right] & lanes[further] for here, right, further in ROWS]
            lanes[0] ^= constant
    return b"".join(lane.to_bytes(8, "little") for lane in lanes[:4])


# Two curves. Both additions are complete: no pair of points is a special case.
ED, ED_ORDER = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
ED_D, ED_Y = -121665 * pow(121666, -1, ED) % ED, 4 * pow(5, -1, ED) % ED
ED_X = 0x216936D3CD6E53FEC0A4E231FDD6DC5C692CC7609525A7B2C9562D608F25D51A
SECP, SECP_ORDER = 2**256 - 2**32 - 977, 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
SECP_X = 0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798
SECP_Y = 0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8


def combine(a: int, p: Numbers, b: int, q: Numbers, add: Any, total: Numbers, field: int) -> Numbers:
    """a p + b q as x and y, two bits at a time; `total` is the neutral point at first."""
    sums = [total]
    for n in range(1, 16):
        sums.append(add(sums[n - 1], p) if n % 4 else add(sums[n - 4], q))
    for bit in range(254, -2, -2):
        total = add(total, total)
        total = add(add(total, total), sums[(a >> bit & 3) + 4 * (b >> bit & 3)])
    need(total[2] != 0, "no key can have made this signature")
    return total[0] * pow(total[2], -1, field) % field, total[1] * pow(total[2], -1, field) % field


def ed_add(p: Numbers, q: Numbers) -> Numbers:
    a, b = (p[1] - p[0]) * (q[1] - q[0]), (p[1] + p[0]) * (q[1] + q[0])
    c, d = 2 * p[3] * q[3] % ED * ED_D, 2 * p[2] * q[2]
    e, f, g, h = (b - a) % ED, (d - c) % ED, (d + c) % ED, (b + a) % ED
    return e * f % ED, g * h % ED, f * g % ED, e * h % ED


def ed25519(key: bytes, message: bytes, signature: bytes) -> bool:
    """RFC 8032 without the cofactor, as Go, OpenSSL and WebCrypto do it: the bytes of S B - k A must be R."""
    s, y = int.from_bytes(signature[32:], "little"), int.from_bytes(key, "little") % 2**255
    square = (y * y - 1) * pow(ED_D * y * y + 1, -1, ED) % ED
    x = pow(square, (ED + 3) // 8, ED)
    x = x if x * x % ED == square else x * pow(2, (ED - 1) // 4, ED) % ED
    x = x if x & 1 == key[31] >> 7 else ED - x
    k = int.from_bytes(sha512(signature[:32] + key + message).digest(), "little") % ED_ORDER
    a, b = combine(s, (ED_X, ED_Y, 1, ED_X * ED_Y), k, (-x, y, 1, -x * y), ed_add, (0, 1, 1, 0), ED)
    return s < ED_ORDER and x * x % ED == square and (b | (a & 1) << 255).to_bytes(32, "little") == signature[:32]


def secp_add(p: Numbers, q: Numbers) -> Numbers:
    """Algorithm 7 of Renes, Costello and Batina (2015), for y^2 = x^3 + 7."""
    xx, yy, zz = 3 * p[0] * q[0] % SECP, p[1] * q[1], 21 * p[2] * q[2]
    xy, yz = (p[0] * q[1] + p[1] * q[0]) % SECP, (p[1] * q[2] + p[2] * q[1]) % SECP
    xz, up, down = 21 * (p[0] * q[2] + p[2] * q[0]) % SECP, (yy + zz) % SECP, (yy - zz) % SECP
    return (xy * down - yz * xz) % SECP, (xx * xz + down * up) % SECP, (up * yz + xx * xy) % SECP


def recover(hashed: bytes, r: int, s: int, parity: int) -> str:
    """The address whose key signed. With s above n/2, anybody could make a second hash for the same payment."""
    y = pow(r**3 + 7, (SECP + 1) // 4, SECP)
    is_point = 0 < r < SECP_ORDER and (y * y - r**3 - 7) % SECP == 0 and parity in (0, 1)
    need(is_point and 0 < s <= SECP_ORDER // 2, "the transaction's signature is not valid on this chain")
    point, inverse = (r, y if y & 1 == parity else SECP - y, 1), pow(r, -1, SECP_ORDER)
    a, b = s * inverse % SECP_ORDER, -int.from_bytes(hashed, "big") * inverse % SECP_ORDER
    x, y = combine(a, point, b, (SECP_X, SECP_Y, 1), secp_add, (0, 1, 0), SECP)
    return "0x" + keccak(x.to_bytes(32, "big") + y.to_bytes(32, "big"))[12:].hex()


# The Merkle tree of RFC 6962. Leaves and nodes are hashed with different first bytes: none passes for the other.
def node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\1" + left + right).digest()


def merkle_root(leaves: list[bytes]) -> bytes:
    middle = 1 << (len(leaves) - 1).bit_length() >> 1
    if not middle:
        return sha256(b"\0" + leaves[0]).digest()
    return node_hash(merkle_root(leaves[:middle]), merkle_root(leaves[middle:]))


def climb(index: int, size: int, node: bytes, path: list[bytes]) -> tuple[bytes, bytes]:
    """The roots above a node: of the leaves up to it, and of all. `path` has the siblings, lowest first."""
    middle = 1 << (size - 1).bit_length() >> 1
    need(bool(path) == bool(middle), "a path in a tree is too short or too long")
    if not middle:
        return node, node
    if index < middle:
        old, new = climb(index, middle, node, path[:-1])
        return old, node_hash(new, path[-1])
    old, new = climb(index - middle, size - middle, node, path[:-1])
    return node_hash(path[-1], old), node_hash(path[-1], new)


def check_leaf(data: bytes, index: int, size: int, path: list[bytes], root: bytes, what: str) -> None:
    need(index < size, f"{what} is beyond the end of the tree")
    need(climb(index, size, sha256(b"\0" + data).digest(), path)[1] == root, f"{what} is not in the tree")


# RLP, Ethereum's encoding: of bytes, and of lists of them in which a further list is empty.
def rlp(item: Any) -> bytes:
    if type(item) is bytes and len(item) == 1 and item[0] < 128:
        return item
    first, body = (128, item) if type(item) is bytes else (192, b"".join(map(rlp, item)))
    size = len(body).to_bytes((len(body).bit_length() + 7) // 8, "big")
    return (bytes([first + len(body)]) if len(body) < 56 else bytes([first + 55 + len(size)]) + size) + body


def rlp_list(raw: bytes) -> list[Any]:
    items, at = [], 0
    while at < len(raw):
        start, size = at + (raw[at] > 127), raw[at] % 64 if raw[at] > 127 else 1
        if size > 55:
            start, size = start + size - 55, int.from_bytes(raw[at + 1 : start + size - 55], "big")
        items.append(raw[start : start + size] if raw[at] < 192 else [])
        at = start + size if len(items) > 1 else start  # the first is the list itself
    need(rlp(items[1:]) == raw, "a header or transaction is not canonical RLP")
    return items[1:]


def uint(raw: Any, size: int) -> int:
    need(type(raw) is bytes and len(raw) <= size and raw[:1] != b"\0", "not an integer in RLP")
    return int.from_bytes(raw, "big")


def read_header(raw: bytes, chain_id: int) -> Header:
    items = rlp_list(raw)
    need(len(items) == 16 and [] not in items, "a header does not have sixteen fields")
    need([len(items[n]) for n in (0, 2, 3, 4, 5, 12, 13)] == [32, 20, 32, 32, 32, 18, 32], "a header has a wrong size")
    need([items[n] for n in (1, 6, 7, 14)] == [NO_UNCLES, bytes(256), b"", bytes(8)], "a header's unused field is set")
    need(items[12][:14] == b"cairn\3" + chain_id.to_bytes(8, "big"), "a header is of another chain or format")
    height, _, _, time = (uint(item, 8) for item in items[8:12])
    known = [raw, keccak(raw), height, time, "0x" + items[2].hex(), *items[3:6], items[13]]
    return Header._make([*known, int.from_bytes(items[12][14:], "big"), uint(items[15], 32)])


# Who signed: CometBFT's headers and votes, in protobuf, where what is zero or empty is left out.
def field(tag: bytes, value: Any) -> bytes:
    """A number, or bytes with their size before them."""
    number, body = (value, b"") if type(value) is int else (len(value), value)
    while number > 127:
        tag, number = tag + bytes([number & 127 | 128]), number >> 7
    return tag + bytes([number]) + body


def in_order(validators: Validators) -> Validators:
    return sorted(validators, key=lambda each: (-each[1], sha256(each[0]).digest()[:20]))


def set_hash(validators: Validators) -> bytes:
    need(0 < len(validators) == len({key for key, _ in validators}), "a validator is there twice, or there is none")
    need(all(type(power) is int and 0 < power < 2**53 for _, power in validators), "a power is out of range")
    need(validators == in_order(validators), "the validators are not in CometBFT's order")
    return merkle_root([b"\x0a\x22\x0a\x20" + key + field(b"\x10", power) for key, power in validators])


def check_signed(signed: Json, validators: Validators, engine_id: bytes, above: int) -> tuple[int, list[bytes], Json]:
    """Height and leaves of an engine's header above a height, and who of the validators signed it."""
    leaves, parts = take(signed, "header", [bytes]), take(signed, "parts", dict)
    need(len(leaves) == 14 and leaves[1] == field(b"\x0a", engine_id), "a signed header is of another chain")
    need(leaves[7] == b"\x0a\x20" + set_hash(validators), "a signed header is of other validators")
    height = sum((byte & 127) << 7 * n for n, byte in enumerate(leaves[2][1:10]))
    need(above < height and leaves[2] == field(b"\x08", height), "the signed headers are not in the order of heights")
    total, parts_hash, in_round = take(parts, "total", int), take(parts, "hash", bytes), take(signed, "round", int)
    parts_id = field(b"\x08", total) * (total > 0) + field(b"\x12", parts_hash) * (parts_hash != b"")
    vote = b"\x08\x02\x11" + height.to_bytes(8, "little") + (b"\x19" + in_round.to_bytes(8, "little")) * (in_round > 0)
    vote += field(b"\x22", b"\x0a\x20" + merkle_root(leaves) + field(b"\x12", parts_id))
    numbers = [-1]
    for row in take(signed, "signatures", [dict]):
        numbers.append(take(row, "validator", int))
        need(numbers[-2] < numbers[-1] < len(validators), "the signatures are not in order, or name no validator")
        seconds, nanos = take(row, "seconds", int), take(row, "nanos", int)
        time = field(b"\x08", seconds) * (seconds > 0) + field(b"\x10", nanos) * (nanos > 0)
        key, message = validators[numbers[-1]][0], vote + field(b"\x2a", time) + field(b"\x32", engine_id)
        is_right = ed25519(key, field(b"", message), take(row, "signature", bytes, 64))
        need(is_right, f"the signature of validator {numbers[-1]} is wrong")
    signers = [validators[number] for number in numbers[1:]]
    power, of = (sum(power for _, power in some) for some in (signers, validators))
    need(3 * power > 2 * of, f"only {power} of the power of {of} signed")
    return height, leaves, {"by": ["0x" + key.hex() for key, _ in signers], "power": power, "of": of}


class Proof:
    """A file and its chain. `head` is the block that is signed; the rest is proven under it."""

    def __init__(self, genesis: bytes, file: bytes) -> None:
        self.digest, self.file = keccak(genesis), read_json(file)
        try:
            fields = json.loads(genesis)
            # A node that makes the blocks alone counts as one validator of power 1.
            rows = fields["validators"] if "validators" in fields else [{"publicKey": fields["signer"], "power": 1}]
            keys = [base64.b64decode(row["publicKey"], validate=True) for row in rows]
            self.validators = in_order([(keys[n], row["power"]) for n, row in enumerate(rows)])
            self.chain_id = fields["chainId"]
            is_one = ("validators" in fields) != ("signer" in fields) and all(len(key) == 32 for key in keys)
            need(is_one and type(self.chain_id) is int and 0 < self.chain_id < 2**63 - 36, "genesis.json is wrong")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise NotProven("genesis.json is not a genesis file") from None
        self.certificate = take(self.file, "certificate", dict)
        self.head = read_header(take(self.certificate, "header", bytes), self.chain_id)

    def signed(self) -> Json:
        """Who signed the head: each set of validators signs the next one, from genesis on."""
        engine_id, height, sets = f"cairn-{self.chain_id}-{self.digest[:12].hex()}".encode(), 0, [self.validators]
        for step in take(self.certificate, "steps", [dict]):
            height, leaves, _ = check_signed(take(step, "signed", dict), sets[-1], engine_id, height)
            rows = take(step, "validators", [dict])
            sets.append([(take(row, "publicKey", bytes, 32), take(row, "power", int)) for row in rows])
            need(leaves[8] == b"\x0a\x20" + set_hash(sets[-1]), "the next validators are not those that were signed")
        _, leaves, report = check_signed(take(self.certificate, "signed", dict), sets[-1], engine_id, height)
        need(leaves[10] == b"\x0a\x20" + self.head.hash, "another block was signed")
        is_public = any({key for key, _ in validators} == {DEV_SIGNER} for validators in sets)
        return {**report, "everybody has the key": True} if is_public else report

    def block(self, holder: Json, key: str = "block") -> Header:
        """A block of the file: the head, or an ancestor of it."""
        part = take(holder, key, dict)
        block, path = read_header(take(part, "header", bytes), self.chain_id), take(part, "history", [bytes], 32)
        if block.raw != self.head.raw or path:
            check_leaf(block.hash, block.height, self.head.height, path, self.head.history, "the block")
        return block

    def payment(self, part: Json, block: Header) -> Json:
        raw, path = take(part, "transaction", bytes), take(part, "path", [bytes], 32)
        check_leaf(keccak(raw), take(part, "index", int), block.count, path, block.payments, "the payment")
        kind = raw[0] if raw[:1] in (b"\1", b"\2") else 0
        fields = rlp_list(raw[1:] if kind else raw)
        need(len(fields) == (9, 11, 12)[kind] and fields.count([]) == (kind > 0), "not a transaction")
        *body, v, r, s = fields
        if kind:
            signed, parity = raw[:1] + rlp(body), uint(v, 1)
            need(uint(body.pop(0), 8) == self.chain_id and body.pop() == [], "another chain id, or an access list")
        else:
            signed = rlp([*body, self.chain_id.to_bytes(8, "big").lstrip(b"\0"), b"", b""])
            parity = uint(v, 8) - 35 - 2 * self.chain_id
        nonce, *prices, limit, to, value, data = body
        price = min(uint(prices[1], 32), block.base_fee + uint(prices[0], 32)) if kind == 2 else uint(prices[0], 32)
        fits = len(to) == 20 and len(data) <= 256 and uint(prices[0], 32) <= uint(prices[-1], 32)
        need(fits, "not a transfer of this chain")
        sender, _ = recover(keccak(signed), uint(r, 32), uint(s, 32), parity), uint(limit, 8)
        fee, when = price * (21000 + 16 * len(data) - 12 * data.count(0)), {"height": block.height, "time": block.time}
        report = {**when, "from": sender, "to": "0x" + to.hex(), "value": uint(value, 32), "data": "0x" + data.hex()}
        return {**report, "nonce": uint(nonce, 8), "fee": fee, "transaction": "0x" + keccak(raw).hex()}

    def change(self, part: Json) -> tuple[Header, int, Numbers, Numbers]:
        """A block that touched the account, where it was touched before, and what it held before and after."""
        leaf, path, block = take(part, "leaf", bytes, 108), take(part, "path", [bytes], 32), self.block(part)
        check_leaf(leaf, take(part, "index", int), take(part, "count", int), path, block.changes, "the change")
        need(leaf[:20] == take(self.file, "address", bytes, 20), "the change is another account's")
        touched, *held = (int.from_bytes(leaf[a:b], "big") for a, b in CHANGE_NUMBERS)
        return block, NEVER if touched == 2**64 - 1 else touched, tuple(held[:2]), tuple(held[2:])

    def end(self, key: str, height: int) -> tuple[int, Numbers]:
        """What the account held after a height, and its last touch: by its next change, or by the head's state."""
        need(("state" in self.file) != (key in self.file), f"there must be one of state and {key}")
        if key in self.file:
            block, touched, held, _ = self.change(take(self.file, key, dict))
            need(block.height > height, f"{key} is not after the height")
            return touched, held
        part, address = take(self.file, "state", dict), take(self.file, "address", bytes, 20)
        leaf, path, place = take(part, "leaf", bytes, 88), take(part, "path", [bytes], 32), take(part, "number", int)
        check_leaf(leaf, place, take(part, "size", int), path, self.head.state, "the account")
        own, following = leaf[:20], leaf[68:]
        # Accounts form a circle in the order of addresses: there is none between one and the next.
        is_between = own < address < following if own < following else address > own or address < following
        need(place > 0 and (own == address or is_between), "the leaf says nothing of this account")
        balance, nonce, touched = (int.from_bytes(leaf[a:b], "big") for a, b in STATE_NUMBERS)
        return (touched, (balance, nonce)) if own == address else (NEVER, (0, 0))

    def finality(self) -> Json:
        return name(self.block(self.file))

    def receipt(self) -> Json:
        return self.payment(take(self.file, "payment", dict), self.block(self.file))

    def account(self) -> Json:
        height = take(self.file, "height", int)
        touched, held = self.end("change", height)
        need(touched <= height <= self.head.height, "the account was changed after that height, or nobody signed it")
        report = {"address": self.file["address"], "height": height, "balance": held[0], "nonce": held[1]}
        return report | {"exists": touched != NEVER}

    def statement(self) -> Json:
        first, last = take(self.file, "from", int), take(self.file, "to", int)
        need(first <= last <= self.head.height, "from, to and the signed block are not in order")
        height, held, opening, entries = NEVER, None, None, []
        for part in take(self.file, "changes", [dict]):
            block, touched, before, after = self.change(part)
            need(touched < first if held is None else (touched, before) == (height, held), "a change is left out")
            need(max(first, height + 1) <= block.height <= last, "a change is out of place")
            opening, height, held = opening or before, block.height, after
            entries.append(self.entry(part, block, before, after))
        touched, closing = self.end("next", last)
        need(touched < first if held is None else (touched, closing) == (height, held), "the last change is left out")
        report = {"address": self.file["address"], "from": first, "to": last, "opening": opening or closing}
        return {**report, "closing": closing, "entries": entries}

    def entry(self, part: Json, block: Header, before: Numbers, after: Numbers) -> Json:
        """A change, explained by payments."""
        payments, place, own = [], -1, self.file["address"]
        balance, nonce = before
        for row in take(part, "payments", [dict]):
            payment, place, last = self.payment(row, block), row["index"], place
            need(place > last and own in (payment["from"], payment["to"]), "a payment is of others, or out of order")
            if payment["from"] == own:
                need(payment["nonce"] == nonce, "a payment is left out: the nonces do not follow each other")
                balance, nonce = balance - payment["value"] - payment["fee"], nonce + 1
            balance += payment["value"] * (payment["to"] == own)
            payments.append(payment)
        rest = after[0] - balance
        # The proposer earns the fees of the block. A dev chain sets balances, in blocks without transactions.
        is_explained = rest == 0 or block.count == 0 or (rest > 0 and block.proposer == own)
        need(nonce == after[1] and is_explained, "the payments do not add up to the change")
        source = {"fees of the block" if block.count else "set, not paid": rest} if rest else {}
        return {"height": block.height, "time": block.time, "balance": after[0], "payments": payments, **source}

    def history(self) -> Json:
        first, second = read_header(take(self.file, "first", bytes), self.chain_id), self.block(self.file, "second")
        path, nodes = take(self.file, "inclusion", [bytes], 32), take(self.file, "consistency", [bytes], 32)
        check_leaf(first.hash, first.height, second.height, path, second.history, "the first block")
        level = (first.height & -first.height).bit_length() - 1
        # The second tree begins with the first (RFC 9162, 2.1.4.2). If that is whole, the path does not repeat it.
        nodes = [first.history, *nodes] if first.height == 1 << max(level, 0) else nodes
        need(nodes != [] if first.height else [first.history, *nodes] == [keccak(b"\x80")], "the consistency is wrong")
        if first.height:
            roots = climb((first.height >> level) - 1, (second.height - 1 >> level) + 1, nodes[0], nodes[1:])
            need(roots == (first.history, second.history), "the older history is not the beginning of the newer one")
        return {"first": name(first), "second": name(second)}


def name(block: Header) -> Json:
    return {"height": block.height, "time": block.time, "hash": "0x" + block.hash.hex()}


def verify(genesis: bytes, file: bytes, at: tuple[int, bytes] | None = None, witness: bytes | None = None) -> Json:
    """What the file proves. With `at`, height and hash of a trusted block, signatures are not looked at."""
    proof, is_witnessed = Proof(genesis, file), witness is None
    need(take(proof.file, "format", str) in FORMATS, "unknown format")
    blocks = [proof.head]
    for part in take(proof.file, "descendants", [dict]) if "descendants" in proof.file else []:
        block, path = read_header(take(part, "header", bytes), proof.chain_id), take(part, "history", [bytes], 32)
        if block.raw != proof.head.raw or path:
            check_leaf(proof.head.hash, proof.head.height, block.height, path, block.history, "the signed block")
        message = b"cairn witness 1\0" + proof.digest + block.height.to_bytes(8, "big") + block.hash
        for row in take(part, "witnesses", [dict]):
            key, signature = take(row, "publicKey", bytes, 32), take(row, "signature", bytes, 64)
            is_witnessed = is_witnessed or key == witness and ed25519(key, message, signature)
        blocks.append(block)
    need(at is None or at in [(block.height, block.hash) for block in blocks], "the trusted block is not in the file")
    need(is_witnessed, "the witness did not sign")
    signed = proof.signed() if at is None else {"by": "not looked at: --at"}
    kind = proof.file["format"][6:-2]
    return {"kind": kind, **getattr(proof, kind)(), "signed": {**name(proof.head), **signed}}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Check a proof of a Cairn chain offline.")
    parser.add_argument("genesis")
    parser.add_argument("file")
    parser.add_argument("--at", metavar="HEIGHT:HASH", help="a block that you trust: signatures are not looked at")
    parser.add_argument("--witness", metavar="KEY", help="0x and the public key of a witness that must have signed")
    given = parser.parse_args()
    try:
        trusted = (int(given.at.partition(":0x")[0]), bytes.fromhex(given.at.partition(":0x")[2])) if given.at else None
        key = bytes.fromhex(given.witness.removeprefix("0x")) if given.witness else None
        with open(given.genesis, "rb") as genesis, open(given.file, "rb") as file:
            print(json.dumps(verify(genesis.read(), file.read(), trusted, key), indent=2))
    except (NotProven, OSError, ValueError) as reason:
        print(f"NOT PROVEN: {reason}")
        sys.exit(1)
