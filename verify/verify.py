"""Check a proof of a Cairn chain offline, with genesis.json alone: no node, no network, no package but Python 3.9.

    python verify.py GENESIS FILE [--at HEIGHT:HASH] [--witness KEY]

The first line is PROVEN, or VALID, BUT NO PROOF with the reason; what holds follows as JSON. Or the only line is NOT
PROVEN with the reason, and the exit code is 1. With --at, a block that you trust, no signature of validators is looked
at. With --witness, the owner of this public key must have signed a block of the file. docs/formats.md has all rules.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from base64 import b64decode
from contextlib import suppress
from hashlib import sha256, sha512
from typing import Any, NamedTuple

Json = dict[str, Any]


class NotProven(Exception):
    """Whatever the input is, `verify` returns a report or raises this: what does not hold."""


def need(holds: object, why: str) -> None:
    if not holds:
        raise NotProven(why)


# ------------------------------------------------------------------------------------------------------ Limits
# The same in all verifiers, so that a file cannot keep one of them busy and pass another.

MOST_FILE_BYTES = 2**28
MOST_DEPTH = 32  # of lists and objects in each other
MOST_INTEGER = 2**53 - 1  # each language has these integers exactly
MOST_BYTES = 1_024  # where the page names no size
MOST_HASHES = 64  # in a path; no tree is as high
MOST_VALIDATORS = 1_000
MOST_DESCENDANTS = 64
MOST_WITNESSES = 16  # of each descendant
MOST_DATA_BYTES = 256
MOST_CHAIN_ID = 2**63 - 37
MOST_BALANCE = 2**256 - 1

# ------------------------------------------------------------------------------------------------- Keccak-256
# As on Ethereum. The state has 25 lanes of 64 bits; lane (x, y) is number x + 5 y.

RATE_BYTES = 136
LANE = 2**64 - 1
ROTATIONS = [0, 1, 62, 28, 27, 36, 44, 6, 55, 20, 3, 10, 43, 25, 39, 41, 45, 15, 21, 8, 18, 2, 61, 56, 14]
# Which lane comes to each place in pi.
SOURCES = [5 * (to % 5) + (3 * (to // 5) + to) % 5 for to in range(25)]


def rotate(lane: int, bits: int) -> int:
    return (lane << bits | lane >> (64 - bits)) & LANE


def permute(lanes: list[int]) -> list[int]:
    register = 1
    for _ in range(24):
        # Theta.
        columns = [lanes[x] ^ lanes[x + 5] ^ lanes[x + 10] ^ lanes[x + 15] ^ lanes[x + 20] for x in range(5)]
        mixed = [columns[(x + 4) % 5] ^ rotate(columns[(x + 1) % 5], 1) for x in range(5)]
        lanes = [lane ^ mixed[n % 5] for n, lane in enumerate(lanes)]
        # Rho and pi.
        lanes = [rotate(lanes[source], ROTATIONS[source]) for source in SOURCES]
        # Chi, along each row of five.
        following = [n - n % 5 + (n + 1) % 5 for n in range(25)]
        lanes = [lanes[n] ^ (~lanes[next_] & lanes[following[next_]]) for n, next_ in enumerate(following)]
        # Iota: bits 0, 1, 3, 7, 15, 31 and 63 of the first lane, from the shift register of the standard.
        for bit in range(7):
            lanes[0] ^= (register & 1) << (2**bit - 1)
            register = register << 1 ^ (0x171 if register & 0x80 else 0)
    return lanes


def keccak(data: bytes) -> bytes:
    room = RATE_BYTES - len(data) % RATE_BYTES
    data += b"\x81" if room == 1 else b"\x01" + bytes(room - 2) + b"\x80"
    lanes = [0] * 25
    for start in range(0, len(data), RATE_BYTES):
        for n in range(RATE_BYTES // 8):
            lanes[n] ^= int.from_bytes(data[start + 8 * n : start + 8 * n + 8], "little")
        lanes = permute(lanes)
    return b"".join(lane.to_bytes(8, "little") for lane in lanes[:4])


# ---------------------------------------------------------------------------------------------------- Ed25519
# Points are x : y : z : t, with t = x y / z. The addition is complete: no pair of points is a special case.

ED = 2**255 - 19
ED_ORDER = 2**252 + 27742317777372353535851937790883648493
ED_D = -121665 * pow(121666, -1, ED) % ED
ED_X, ED_Y = 0x216936D3CD6E53FEC0A4E231FDD6DC5C692CC7609525A7B2C9562D608F25D51A, 4 * pow(5, -1, ED) % ED
ED_BASE = (ED_X, ED_Y, 1, ED_X * ED_Y % ED)
Y_OF_ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
SMALL_ORDER_Y = {0, 1, ED - 1, Y_OF_ORDER_8, ED - Y_OF_ORDER_8}
"""The eight points whose order is 1, 2, 4 or 8 have these y."""
Point = tuple[int, ...]


def combined(a: int, p: Point, b: int, q: Point, add: Any, zero: Point) -> Point:
    """a p + b q, by doubling."""
    sums, total = (zero, p, q, add(p, q)), zero
    for bit in range(255, -1, -1):
        total = add(add(total, total), sums[(a >> bit & 1) + 2 * (b >> bit & 1)])
    return total


def ed_add(p: Point, q: Point) -> Point:
    a, b = (p[1] - p[0]) * (q[1] - q[0]), (p[1] + p[0]) * (q[1] + q[0])
    c, d = 2 * p[3] * q[3] % ED * ED_D, 2 * p[2] * q[2]
    e, f, g, h = (b - a) % ED, (d - c) % ED, (d + c) % ED, (b + a) % ED
    return e * f % ED, g * h % ED, f * g % ED, e * h % ED


def ed_y(encoded: bytes) -> int:
    """The lower 255 bits; the highest one is the parity of x."""
    return int.from_bytes(encoded, "little") & (2**255 - 1)


def is_usable_point(encoded: bytes) -> bool:
    """A public key or R of small order is a wrong signature, and so is one that another encoding names, y >= p.

    Libraries differ here, and for a key of small order everybody can sign.
    """
    y = ed_y(encoded)
    return y < ED and y not in SMALL_ORDER_Y


def ed_decode(encoded: bytes) -> Point | None:
    """RFC 8032, 5.1.3. None if the curve has no such point."""
    y, is_odd = ed_y(encoded), encoded[31] >> 7
    square = (y * y - 1) * pow(ED_D * y * y + 1, -1, ED) % ED
    x = pow(square, (ED + 3) // 8, ED)
    if x * x % ED != square:
        x = x * pow(2, (ED - 1) // 4, ED) % ED
    if x * x % ED != square:
        return None
    if x & 1 != is_odd:
        x = ED - x
    return x, y, 1, x * y % ED


def ed25519(key: bytes, message: bytes, signature: bytes) -> bool:
    """RFC 8032 without the cofactor, as Go, OpenSSL and WebCrypto have it: the bytes of S B - k A must be R."""
    r, s = signature[:32], int.from_bytes(signature[32:], "little")
    if not is_usable_point(key) or not is_usable_point(r) or s >= ED_ORDER:
        return False
    a = ed_decode(key)
    if a is None:
        return False
    k = int.from_bytes(sha512(r + key + message).digest(), "little") % ED_ORDER
    total = combined(s, ED_BASE, k, (-a[0] % ED, a[1], 1, -a[3] % ED), ed_add, (0, 1, 1, 0))
    inverse = pow(total[2], -1, ED)
    x, y = total[0] * inverse % ED, total[1] * inverse % ED
    return (y | (x & 1) << 255).to_bytes(32, "little") == r


# -------------------------------------------------------------------------------------------------- secp256k1
# Points are x : y : z. The addition is complete: algorithm 7 of Renes, Costello and Batina (2015), for y^2 = x^3 + 7.

SECP = 2**256 - 2**32 - 977
SECP_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
SECP_X = 0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798
SECP_Y = 0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8


def secp_add(p: Point, q: Point) -> Point:
    xx, yy, zz = 3 * p[0] * q[0] % SECP, p[1] * q[1], 21 * p[2] * q[2]
    xy, yz = (p[0] * q[1] + p[1] * q[0]) % SECP, (p[1] * q[2] + p[2] * q[1]) % SECP
    xz, up, down = 21 * (p[0] * q[2] + p[2] * q[0]) % SECP, (yy + zz) % SECP, (yy - zz) % SECP
    return (xy * down - yz * xz) % SECP, (xx * xz + down * up) % SECP, (up * yz + xx * xy) % SECP


def recover(hashed: bytes, r: int, s: int, parity: int) -> str:
    """The address whose key signed.

    `s` is at most half the order: with the other one, anybody could make a second hash for the same payment.
    """
    wrong = "the transaction's signature is not valid on this chain"
    need(parity in (0, 1) and 0 < r < SECP_ORDER and 0 < s <= SECP_ORDER // 2, wrong)
    y = pow(r**3 + 7, (SECP + 1) // 4, SECP)
    need((y * y - r**3 - 7) % SECP == 0, wrong)
    point, base = (r, y if y & 1 == parity else SECP - y, 1), (SECP_X, SECP_Y, 1)
    # The key is (s R - hash B) / r.
    inverse = pow(r, -1, SECP_ORDER)
    of_point, of_base = s * inverse % SECP_ORDER, -int.from_bytes(hashed, "big") * inverse % SECP_ORDER
    total = combined(of_point, point, of_base, base, secp_add, (0, 1, 0))
    need(total[2] != 0, "no key can have made this signature")
    inverse = pow(total[2], -1, SECP)
    key = b"".join((total[n] * inverse % SECP).to_bytes(32, "big") for n in (0, 1))
    return "0x" + keccak(key)[12:].hex()


# ----------------------------------------------------------------------------------------------- Merkle trees
# RFC 6962. Leaves and nodes are hashed with different first bytes, so that none passes for the other.

EMPTY_ROOT = keccak(b"\x80")
"""Ethereum's root of an empty list."""


def leaf_hash(data: bytes) -> bytes:
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


def merkle_root(leaves: list[bytes]) -> bytes:
    """Nodes are paired from the left; the last one of an odd number moves up unchanged."""
    level = [leaf_hash(leaf) for leaf in leaves]
    while len(level) > 1:
        above = [node_hash(level[n], level[n + 1]) for n in range(0, len(level) - 1, 2)]
        level = above + level[len(above) * 2 :]
    return level[0]


def check_leaf(data: bytes, index: int, size: int, path: list[bytes], root: bytes, what: str) -> None:
    """Check that `data` is leaf number `index` of a tree of `size` leaves. `path` has the siblings, lowest first."""
    need(index < size, f"the {what} is not in the tree")
    node, siblings, last = leaf_hash(data), iter(path), size - 1
    while last:
        # The last node of an odd number has no sibling on this level.
        if index % 2 or index < last:
            sibling = next(siblings, b"")
            need(sibling, f"the {what} is not in the tree: the path is too short")
            node = node_hash(sibling, node) if index % 2 else node_hash(node, sibling)
        index, last = index // 2, last // 2
    need(next(siblings, b"") == b"", f"the {what} is not in the tree: the path is too long")
    need(node == root, f"the {what} is not in the tree")


def check_consistency(older: Header, newer: Header, path: list[bytes]) -> None:
    """Check that the first leaves of the newer tree are the older tree: RFC 9162, 2.1.4.2."""
    if older.height == 0:
        need(path == [] and older.history_root == EMPTY_ROOT, "nothing is before block 0")
        return
    # A whole tree is a node of the newer one, and the path does not repeat it.
    is_whole = older.height & (older.height - 1) == 0
    path = [older.history_root, *path] if is_whole else path
    need(path, "the consistency is too short")
    old, new, old_last, new_last = path[0], path[0], older.height - 1, newer.height - 1
    while old_last % 2:
        old_last, new_last = old_last // 2, new_last // 2
    for sibling in path[1:]:
        need(new_last, "the consistency is too long")
        if old_last % 2 or old_last == new_last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            while old_last % 2 == 0 and old_last:
                old_last, new_last = old_last // 2, new_last // 2
        else:
            new = node_hash(new, sibling)
        old_last, new_last = old_last // 2, new_last // 2
    need(new_last == 0, "the consistency is too short")
    need((old, new) == (older.history_root, newer.history_root), "the older history does not begin the newer one")


# --------------------------------------------------------------------------------------------------------- RLP
# Ethereum's encoding: of strings of bytes, and of lists of them. A list in a list is an access list, and empty.


def encode_rlp(item: Any) -> bytes:
    if isinstance(item, bytes):
        if len(item) == 1 and item[0] < 0x80:
            return item
        short, body = 0x80, item
    else:
        short, body = 0xC0, b"".join(encode_rlp(each) for each in item)
    if len(body) < 56:
        return bytes([short + len(body)]) + body
    length = len(body).to_bytes((len(body).bit_length() + 7) // 8, "big")
    return bytes([short + 55 + len(length)]) + length + body


def read_rlp_list(raw: bytes) -> list[Any]:
    """The items of a list that is all of `raw`. There is one way to write them: they are written again to compare."""

    def content_of(at: int) -> tuple[int, int]:
        """Where the content of the item at `at` begins, and its size."""
        first = raw[at]
        if first < 0x80:
            return at, 1
        size = first & 0x3F
        if size < 56:
            return at + 1, size
        digits = size - 55
        return at + 1 + digits, int.from_bytes(raw[at + 1 : at + 1 + digits], "big")

    need(raw[:1] >= b"\xc0", "a header or transaction is not a list in RLP")
    items: list[Any] = []
    at, _ = content_of(0)
    while at < len(raw):
        start, size = content_of(at)
        items.append(raw[start : start + size] if raw[at] < 0xC0 else [])
        at = start + size
    need(encode_rlp(items) == raw, "a header or transaction is not canonical RLP")
    return items


def uint(item: Any, most_bytes: int = 32) -> int:
    """An integer has no leading zeros; 0 is the empty string."""
    need(isinstance(item, bytes) and len(item) <= most_bytes and item[:1] != b"\x00", "not an integer in RLP")
    return int.from_bytes(item, "big")


# -------------------------------------------------------------------------------------------- How a file is read
# By rules that are narrower than JSON's own, so that verifiers in all languages read the same.

STRING = re.compile(rb'"[ !#-\[\]-~]*"')
NOT_PLAIN = re.compile(rb"[^0-9{}\[\]:, \t\n\r]")
BRACKET = re.compile(rb"[{}\[\]]")
HEX = re.compile("0x(?:[0-9a-f]{2})*")


def read_file(raw: bytes) -> Json:
    need(len(raw) <= MOST_FILE_BYTES, f"the file has more than {MOST_FILE_BYTES} bytes")
    # Strings have no backslash, no control character, and ASCII only.
    outside = STRING.sub(b"", raw)
    need(not NOT_PLAIN.search(outside), "the file has a character that the format does not use")
    depth = 0
    for bracket in BRACKET.findall(outside):
        depth += 1 if bracket in b"[{" else -1
        need(depth <= MOST_DEPTH, "the file is nested too deeply")
    try:
        # Of a key that is given twice, the last one counts. A longer integer is refused where it matters, and must
        # cost nothing where it does not.
        value = json.loads(raw, parse_int=lambda digits: int(digits) if len(digits) <= 16 else -1)
    except ValueError:
        raise NotProven("the file is not JSON") from None
    need(isinstance(value, dict), "the file is not an object")
    return dict(value)


def ascend(numbers: list[int]) -> bool:
    """Whether each is above the one before it."""
    return numbers == sorted(set(numbers))


def member(holder: Json, key: str, kind: type, most: int = MOST_FILE_BYTES) -> Any:
    value = holder.get(key)
    need(type(value) is kind, f"{key} is missing or has the wrong type")
    need(not isinstance(value, list) or len(value) <= most, f"{key} has more than {most} entries")
    return value


def read_int(holder: Json, key: str) -> int:
    number: int = member(holder, key, int)
    need(0 <= number <= MOST_INTEGER, f"{key} is not between 0 and 2^53-1")
    return number


def unhex(text: Any, key: str, size: int | None) -> bytes:
    need(type(text) is str and len(text) <= 2 + 2 * MOST_BYTES, f"{key} is not bytes, or has more than {MOST_BYTES}")
    need(HEX.fullmatch(text), f"{key} is not 0x and lower-case hexadecimal digits")
    found = bytes.fromhex(text[2:])
    need(size in (None, len(found)), f"{key} has {len(found)} bytes, not {size}")
    return found


def read_bytes(holder: Json, key: str, size: int | None = None) -> bytes:
    return unhex(holder.get(key), key, size)


def read_path(holder: Json, key: str) -> list[bytes]:
    return [unhex(each, key, 32) for each in member(holder, key, list, MOST_HASHES)]


def read_objects(holder: Json, key: str, most: int = MOST_FILE_BYTES) -> list[Json]:
    rows = member(holder, key, list, most)
    need(all(isinstance(row, dict) for row in rows), f"{key} is not a list of objects")
    return list(rows)


# ------------------------------------------------------------------------------------------------------ Genesis

DEV_SIGNER = bytes.fromhex("61e3d5fd875f007dd386d790641c8c3fb160ba020970ca733f8857a89689445f")
"""A dev chain's, whose secret half everybody has."""
BASE64_KEY = re.compile("[A-Za-z0-9+/]{43}=")
ADDRESS = re.compile("0x[0-9a-fA-F]{40}")


class Validator(NamedTuple):
    key: bytes
    power: int

    def rank(self) -> tuple[int, bytes]:
        """CometBFT's order: the highest power first, then the lowest address."""
        return -self.power, sha256(self.key).digest()[:20]


class Genesis(NamedTuple):
    digest: bytes
    chain_id: int
    validators: list[Validator]
    """In CometBFT's order. A node that makes its blocks alone counts as one with the power 1."""
    alloc: dict[bytes, int]
    """What each account has from the start."""
    supply: int
    """All of it together. Coins are neither minted nor burnt, but on a dev chain."""
    is_dev: bool
    """The signer is everybody's, so balances may be set by hand."""

    @property
    def engine_id(self) -> bytes:
        """What every signature covers."""
        return f"cairn-{self.chain_id}-{self.digest[:12].hex()}".encode()


def read_genesis(raw: bytes) -> Genesis:
    """genesis.json may be any JSON. The digest is of its bytes, as `cairn init` writes them."""
    try:
        fields = json.loads(raw.decode())
    except (ValueError, RecursionError):
        raise NotProven("genesis.json is not JSON") from None
    need(isinstance(fields, dict), "genesis.json is not an object")
    need(("signer" in fields) != ("validators" in fields), "genesis.json must name a signer or validators, one of them")
    rows = fields.get("validators", [{"publicKey": fields.get("signer"), "power": 1}])
    need(isinstance(rows, list) and all(isinstance(row, dict) for row in rows), "validators are not a list of objects")
    validators = [Validator(genesis_key(row.get("publicKey")), row.get("power")) for row in rows]
    need(all(type(each.power) is int for each in validators), "a power in genesis.json is no integer")
    validators.sort(key=Validator.rank)
    check_set(validators)
    chain_id = fields.get("chainId")
    need(type(chain_id) is int and 1 <= chain_id <= MOST_CHAIN_ID, "chainId in genesis.json is out of range")
    is_dev = "signer" in fields and validators[0].key == DEV_SIGNER
    alloc = genesis_alloc(fields.get("alloc"))
    return Genesis(keccak(raw), chain_id, validators, alloc, sum(alloc.values()), is_dev)


def genesis_key(text: Any) -> bytes:
    need(isinstance(text, str) and BASE64_KEY.fullmatch(text), "a key in genesis.json is not 32 bytes in base64")
    return b64decode(text)


def genesis_alloc(given: Any) -> dict[bytes, int]:
    need(isinstance(given, dict), "alloc in genesis.json is not an object")
    need(all(ADDRESS.fullmatch(address) for address in given), "alloc in genesis.json has a key that is no address")
    for balance in given.values():
        need(type(balance) is int and 0 <= balance <= MOST_BALANCE, "a balance in alloc is out of range")
    balances = {bytes.fromhex(address[2:]): balance for address, balance in given.items()}
    need(len(balances) == len(given), "alloc in genesis.json has an address twice")
    return balances


def check_set(validators: list[Validator]) -> None:
    """Check what holds for each set of validators, that of genesis and that after a step."""
    need(0 < len(validators) <= MOST_VALIDATORS, f"a set has no validators, or more than {MOST_VALIDATORS}")
    need(len({each.key for each in validators}) == len(validators), "a validator is in a set twice")
    need(all(0 < each.power <= MOST_INTEGER for each in validators), "a validator's power is out of range")
    need(all(is_usable_point(each.key) for each in validators), "a validator's key is of small order")
    need(validators == sorted(validators, key=Validator.rank), "validators are not in CometBFT's order")


# ------------------------------------------------------------------------------------------------- Who signs
# CometBFT's headers and votes, in protobuf.


def varint(number: int) -> bytes:
    digits = []
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])


def field(tag: bytes, content: bytes) -> bytes:
    return tag + varint(len(content)) + content


def number_field(tag: bytes, number: int) -> bytes:
    """What is 0 is left out."""
    return tag + varint(number) if number else b""


def set_hash(validators: list[Validator]) -> bytes:
    return merkle_root([b"\x0a\x22\x0a\x20" + each.key + b"\x10" + varint(each.power) for each in validators])


def check_signed(part: Json, validators: list[Validator], genesis: Genesis) -> tuple[list[bytes], int, Json]:
    """Check a header of CometBFT's: build the leaves that matter, and compare; the others may be anything.

    Returns the leaves, the height, and who signed.
    """
    leaves = [unhex(leaf, "a leaf of a signed header", None) for leaf in member(part, "header", list)]
    need(len(leaves) == 14, "a signed header does not have 14 leaves")
    is_ours = leaves[1] == field(b"\x0a", genesis.engine_id)
    need(is_ours, f"signed for another chain, or another genesis.json than this one of 0x{genesis.digest.hex()}")
    height = sum((byte & 0x7F) << 7 * n for n, byte in enumerate(leaves[2][1:10]))
    # Written again to compare, so that only the shortest varint passes.
    need(0 < height < 2**63 and leaves[2] == number_field(b"\x08", height), "a signed header has no height")
    need(leaves[7] == b"\x0a\x20" + set_hash(validators), "a signed header is of other validators")
    rows = read_objects(part, "signatures", MOST_VALIDATORS)
    numbers = [read_int(row, "validator") for row in rows]
    need(ascend(numbers), "the signatures are not in order, or one is there twice")
    need(all(number < len(validators) for number in numbers), "a signature is nobody's")
    signers, header_hash = [validators[number] for number in numbers], merkle_root(leaves)
    for row, signer in zip(rows, signers):  # noqa: B905 (3.9)
        message = vote(part, row, height, header_hash, genesis.engine_id)
        # One wrong signature refuses the file, even if the others suffice.
        is_right = ed25519(signer.key, message, read_bytes(row, "signature", 64))
        need(is_right, f"the signature of 0x{signer.key.hex()} is wrong")
    power, of = (sum(each.power for each in some) for some in (signers, validators))
    need(3 * power > 2 * of, f"only {power} of the power of {of} signed, not more than two thirds")
    return leaves, height, {"by": ["0x" + each.key.hex() for each in signers], "power": power, "of": of}


def vote(part: Json, row: Json, height: int, header_hash: bytes, engine_id: bytes) -> bytes:
    """A precommit, as it is signed."""
    at_round, parts = read_int(part, "round"), member(part, "parts", dict)
    parts_hash = read_bytes(parts, "hash")
    parts_id = number_field(b"\x08", read_int(parts, "total")) + (field(b"\x12", parts_hash) if parts_hash else b"")
    message = b"\x08\x02\x11" + height.to_bytes(8, "little")
    message += b"\x19" + at_round.to_bytes(8, "little") if at_round else b""
    message += field(b"\x22", b"\x0a\x20" + header_hash + field(b"\x12", parts_id))
    time = number_field(b"\x08", read_int(row, "seconds")) + number_field(b"\x10", read_int(row, "nanos"))
    return field(b"", message + field(b"\x2a", time) + field(b"\x32", engine_id))


# ------------------------------------------------------------------------------------------------------ Headers

HEADER_SIZES = {0: 32, 2: 20, 3: 32, 4: 32, 5: 32, 12: 18, 13: 32}
HEADER_CONSTANTS = {1: keccak(b"\xc0"), 6: bytes(256), 7: b"", 14: bytes(8)}
"""What Ethereum has and Cairn has not: uncles, logs, difficulty, nonce."""


class Header(NamedTuple):
    raw: bytes
    hash: bytes
    height: int
    time: int
    proposer: bytes
    state_root: bytes
    transactions_root: bytes
    changes_root: bytes
    history_root: bytes
    transactions: int
    """How many the block has."""
    base_fee: int

    @property
    def name(self) -> Json:
        return {"height": self.height, "time": self.time, "hash": "0x" + self.hash.hex()}


def read_header(raw: bytes, chain_id: int) -> Header:
    items = read_rlp_list(raw)
    need(len(items) == 16, "a header does not have sixteen fields")
    need(all(isinstance(item, bytes) for item in items), "a header has a list as a field")
    need(all(len(items[n]) == size for n, size in HEADER_SIZES.items()), "a field of a header has a wrong size")
    need(all(items[n] == constant for n, constant in HEADER_CONSTANTS.items()), "an unused field of a header is set")
    height, _gas_limit, _gas_used, time = (uint(item, 8) for item in items[8:12])
    # cairn, the version of the format, the chain id, and how many transactions there are.
    extra = items[12]
    need(extra[:14] == b"cairn\x03" + chain_id.to_bytes(8, "big"), "a header is of another chain or format")
    count, base_fee = int.from_bytes(extra[14:], "big"), uint(items[15], 32)
    need(height or not count, "block 0 has transactions")
    roots = (items[3], items[4], items[5], items[13])
    return Header(raw, keccak(raw), height, time, items[2], *roots, count, base_fee)


def check_ancestor(older: Header, newer: Header, path: list[bytes], what: str) -> None:
    """Check that `older` is before `newer`, or is the same block, with the same bytes and an empty path."""
    if older.raw != newer.raw or path:
        check_leaf(older.hash, older.height, newer.height, path, newer.history_root, what)


# ------------------------------------------------------------------------------------------------------ Accounts

NEVER = -1
"""Where an account was touched before its first touch."""


class Touch(NamedTuple):
    """The last touch of an account before some height, and what the account has held since."""

    height: int
    balance: int
    nonce: int

    @property
    def held(self) -> Json:
        return {"balance": self.balance, "nonce": self.nonce}


NOTHING = Touch(NEVER, 0, 0)


class Change(NamedTuple):
    """What a block did to an account."""

    block: Header
    before: Touch
    after: Touch


def read_touch(height: int, raw: bytes) -> Touch:
    return Touch(height, int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:40], "big"))


# ----------------------------------------------------------------------------------------------------- The proof


class Proof:
    """A file and its genesis. `head` is the block that is signed, called B on the page: the rest is proven under it."""

    def __init__(self, genesis: Genesis, file: Json) -> None:
        self.genesis, self.file = genesis, file
        self.certificate = member(file, "certificate", dict)
        self.head = read_header(read_bytes(self.certificate, "header"), genesis.chain_id)
        self.cautions: list[str] = []
        """Why what holds is no proof all the same."""

    # Who signed.

    def signed(self) -> Json:
        """Who signed the head. Each set of validators signs the next one, from genesis on; the last one, the head."""
        validators = self.genesis.validators
        keys, heights = {each.key for each in validators}, []
        for step in read_objects(self.certificate, "steps"):
            leaves, height, _ = check_signed(member(step, "signed", dict), validators, self.genesis)
            heights.append(height)
            rows = read_objects(step, "validators", MOST_VALIDATORS)
            validators = [Validator(read_bytes(row, "publicKey", 32), read_int(row, "power")) for row in rows]
            check_set(validators)
            need(leaves[8] == b"\x0a\x20" + set_hash(validators), "a step names others than were signed")
            # Else every header that they sign would be one.
            need(leaves[7] != leaves[8], "a step changes nothing")
            keys |= {each.key for each in validators}
        leaves, height, report = check_signed(member(self.certificate, "signed", dict), validators, self.genesis)
        need(ascend([*heights, height]), "the heights of steps and of the signed header do not ascend")
        need(leaves[10] == b"\x0a\x20" + self.head.hash, "another block was signed")
        if DEV_SIGNER in keys:
            self.cautions.append("everybody has the key of one who signs")
            report["everybody has the key"] = True
        return report

    # Blocks, payments and changes under the head.

    def block(self, part: Json) -> Header:
        """The head itself, or an ancestor of it."""
        block = read_header(read_bytes(part, "header"), self.genesis.chain_id)
        check_ancestor(block, self.head, read_path(part, "history"), "block")
        return block

    def payment(self, part: Json, block: Header) -> Json:
        raw = read_bytes(part, "transaction")
        index, path = read_int(part, "index"), read_path(part, "path")
        check_leaf(keccak(raw), index, block.transactions, path, block.transactions_root, "payment")
        payment = read_transaction(raw, self.genesis.chain_id, block.base_fee)
        self.check_supply(payment["value"] + payment["fee"], "what a payment costs")
        return payment

    def change(self, part: Json, address: bytes) -> Change:
        block = self.block(member(part, "block", dict))
        leaf = read_bytes(part, "leaf", 108)
        index, count, path = read_int(part, "index"), read_int(part, "count"), read_path(part, "path")
        check_leaf(leaf, index, count, path, block.changes_root, "change")
        need(leaf[:20] == address, "a change is another account's")
        number = int.from_bytes(leaf[20:28], "big")
        before = read_touch(NEVER if number == 2**64 - 1 else number, leaf[28:68])
        after = read_touch(block.height, leaf[68:])
        if block.height:
            self.check_holding(address, before)
        else:
            need(before == NOTHING, "an account held something before block 0")
        self.check_holding(address, after)
        return Change(block, before, after)

    def state(self, address: bytes) -> Touch:
        """The account under the head: its own leaf, or the one that shows that there is none."""
        part = member(self.file, "state", dict)
        leaf, number = read_bytes(part, "leaf", 88), read_int(part, "number")
        # Number 0 is the record of the validators.
        need(number >= 1, "the leaf is not an account's")
        check_leaf(leaf, number, read_int(part, "size"), read_path(part, "path"), self.head.state_root, "account")
        owner, following = leaf[:20], leaf[68:]
        if owner == address:
            touch = read_touch(int.from_bytes(leaf[60:68], "big"), leaf[20:60])
        else:
            # Accounts form a circle in the order of addresses: there is none between one and the next.
            above, below = address > owner, address < following
            need(above and below if owner < following else above or below, "the leaf says nothing of this account")
            touch = NOTHING
        self.check_holding(address, touch)
        return touch

    def last_touch(self, height: int, later: str) -> Touch:
        """The last touch up to a height, shown by the state, or by a later change, which names the touch before it."""
        address = read_bytes(self.file, "address", 20)
        need(("state" in self.file) != (later in self.file), f"there must be one of state and {later}")
        if "state" in self.file:
            return self.state(address)
        change = self.change(member(self.file, later, dict), address)
        need(change.block.height > height, f"{later} is not above the height")
        return change.before

    def check_supply(self, amount: int, what: str) -> None:
        """Check that there are so many coins. Nobody's word is enough for more."""
        is_possible = self.genesis.is_dev or amount <= self.genesis.supply
        need(is_possible, f"{what} is above {self.genesis.supply} wei, all that alloc of genesis.json gives")

    def check_holding(self, address: bytes, touch: Touch) -> None:
        """Check what genesis decides: an account begins with what `alloc` gives, in block 0, or with nothing, and never
        holds more than all coins."""
        self.check_supply(touch.balance, "a balance")
        given = self.genesis.alloc.get(address, 0)
        if touch.height == NEVER:
            need(given == 0, "alloc of genesis.json gives the account coins, and no block touched it")
            need(touch == NOTHING, "the account held something before any block touched it")
        elif touch.height == 0:
            need(given > 0, "block 0 touched an account to which alloc of genesis.json gives nothing")
            need(touch == (0, given, 0), "block 0 gives the account something else than alloc of genesis.json")

    # The five kinds of files.

    def finality(self) -> Json:
        return self.block(member(self.file, "block", dict)).name

    def receipt(self) -> Json:
        block = self.block(member(self.file, "block", dict))
        return {**block.name, **self.payment(member(self.file, "payment", dict), block)}

    def account(self) -> Json:
        height = read_int(self.file, "height")
        need(height <= self.head.height, "the height is above the signed block")
        touch = self.last_touch(height, "change")
        need(touch.height <= height, "the account was touched after that height")
        report: Json = {"address": self.file["address"], "height": height}
        return {**report, **touch.held, "exists": touch.height != NEVER}

    def statement(self) -> Json:
        address = read_bytes(self.file, "address", 20)
        first, last = read_int(self.file, "from"), read_int(self.file, "to")
        need(first <= last <= self.head.height, "from, to and the signed block are not in order")
        rows = read_objects(self.file, "changes")
        changes = [self.change(row, address) for row in rows]
        heights = [change.block.height for change in changes]
        need(ascend(heights), "changes are not in order")
        need(all(first <= height <= last for height in heights), "a change is not within from and to")
        # Each change names the touch before it, and the end names the last: so none is left out.
        end = self.last_touch(last, "next")
        links = [*(change.before for change in changes), end]
        need(links[0].height < first, "a change before the first one is left out")
        need(links[1:] == [change.after for change in changes], "a change is left out, or does not follow")
        return {
            "address": self.file["address"],
            "from": first,
            "to": last,
            "opening": links[0].held,
            "closing": end.held,
            "ends": self.ends(first, last),
            "entries": [self.entry(row, change, address) for row, change in zip(rows, changes)],  # noqa: B905 (3.9)
        }

    def ends(self, first: int, last: int) -> list[Json]:
        """Blocks at the ends of a statement and beside them, whose times show of which days it is."""
        rows = read_objects(self.file, "ends") if "ends" in self.file else []
        blocks = [self.block(row) for row in rows]
        heights = [block.height for block in blocks]
        need(ascend(heights), "the blocks of ends are not in order")
        need({*heights} <= {first - 1, first, last, last + 1}, "a block of ends is at neither end")
        return [block.name for block in blocks]

    def entry(self, part: Json, change: Change, address: bytes) -> Json:
        """A change, explained by payments: those that the account sent, and as much as it received."""
        own, block = "0x" + address.hex(), change.block
        rows = read_objects(part, "payments")
        need(ascend([read_int(row, "index") for row in rows]), "payments are not in order")
        payments = [self.payment(row, block) for row in rows]
        _, balance, nonce = change.before
        for payment in payments:
            need(own in (payment["from"], payment["to"]), "a payment is between others")
            if payment["from"] == own:
                need(payment["nonce"] == nonce, "a payment is left out: the nonces do not follow")
                balance, nonce = balance - payment["value"] - payment["fee"], nonce + 1
            if payment["to"] == own:
                balance += payment["value"]
        need(nonce == change.after.nonce, "a payment is left out: the nonce changed by more")
        rest = change.after.balance - balance
        self.check_supply(rest, "what no payment explains")
        self.check_fees(rest, payments, block, own)
        report = {**block.name, "balance": change.after.balance, "payments": payments}
        return {**report, **({self.source(block): rest} if rest else {})}

    def check_fees(self, rest: int, payments: list[Json], block: Header, own: str) -> None:
        """In a block with transactions, only its proposer gets more than payments: the fees of all of them."""
        if not block.transactions:
            return
        wrong = "the payments do not add up to the change of the balance"
        if own != "0x" + block.proposer.hex():
            need(rest == 0, wrong)
            return
        listed = sum(payment["fee"] for payment in payments)
        need(rest == listed or (rest > listed and len(payments) < block.transactions), wrong)

    def source(self, block: Header) -> str:
        """Where money comes from that no payment brought, or goes to. There are three places, and no other."""
        if block.height == 0:
            # `check_holding` has compared it.
            return "given by genesis.json"
        if block.transactions:
            return "fees of the block"
        need(self.genesis.is_dev, "a balance changed without a payment, which only a dev chain may do")
        if "balances were set by hand" not in self.cautions:
            self.cautions.append("balances were set by hand")
        return "set by hand"

    def history(self) -> Json:
        first = read_header(read_bytes(self.file, "first"), self.genesis.chain_id)
        second = self.block(member(self.file, "second", dict))
        inclusion, consistency = read_path(self.file, "inclusion"), read_path(self.file, "consistency")
        check_leaf(first.hash, first.height, second.height, inclusion, second.history_root, "first block")
        check_consistency(first, second, consistency)
        return {"first": first.name, "second": second.name}

    # Blocks after the head.

    def descendants(self, witness: str | None) -> list[Header]:
        """The head and its descendants, all checked. Raises unless the witness, if there is one, has signed one."""
        blocks, is_witnessed = [self.head], witness is None
        rows = read_objects(self.file, "descendants", MOST_DESCENDANTS) if "descendants" in self.file else []
        for row in rows:
            block = read_header(read_bytes(row, "header"), self.genesis.chain_id)
            check_ancestor(self.head, block, read_path(row, "history"), "descendant")
            blocks.append(block)
            message = b"cairn witness 1\x00" + self.genesis.digest + block.height.to_bytes(8, "big") + block.hash
            for each in read_objects(row, "witnesses", MOST_WITNESSES):
                key, signature = read_bytes(each, "publicKey", 32), read_bytes(each, "signature", 64)
                # A wrong one counts for nothing, but refuses nothing: whoever passes a file on may add any.
                if not is_witnessed and each["publicKey"] == witness:
                    is_witnessed = ed25519(key, message, signature)
        need(is_witnessed, "the witness did not sign a block of the file")
        return blocks


def read_transaction(raw: bytes, chain_id: int, base_fee: int) -> Json:
    """A transfer of Ethereum's, legacy or of type 1 or 2, and who signed it."""
    kind = raw[0] if raw[:1] in (b"\x01", b"\x02") else 0
    fields = read_rlp_list(raw[1:] if kind else raw)
    need(len(fields) == (9, 11, 12)[kind], "not a transaction")
    body, (v, r, s) = fields[:-3], fields[-3:]
    if kind:
        need(uint(body[0], 8) == chain_id, "a transaction is for another chain")
        need(body[-1] == [], "a transaction has an access list")
        signed, parity = raw[:1] + encode_rlp(body), uint(v, 1)
        nonce, *prices, limit, to, value, data = body[1:-1]
    else:
        chain = chain_id.to_bytes((chain_id.bit_length() + 7) // 8, "big")
        signed, parity = encode_rlp([*body, chain, b"", b""]), uint(v, 8) - 35 - 2 * chain_id
        nonce, *prices, limit, to, value, data = body
    need(isinstance(to, bytes) and len(to) == 20, "a transaction's recipient does not have 20 bytes")
    need(isinstance(data, bytes) and len(data) <= MOST_DATA_BYTES, "a transaction has too much data")
    number = uint(nonce, 8)
    uint(limit, 8)
    if kind == 2:
        tip, most = (uint(price) for price in prices)
        need(tip <= most, "a transaction's tip is above the most that it pays")
        price = min(most, base_fee + tip)
    else:
        price = uint(prices[0])
    gas = 21_000 + 16 * len(data) - 12 * data.count(0)
    return {
        "from": recover(keccak(signed), uint(r), uint(s), parity),
        "to": "0x" + to.hex(),
        "value": uint(value),
        "data": "0x" + data.hex(),
        "nonce": number,
        "fee": gas * price,
        "transaction": "0x" + keccak(raw).hex(),
    }


KINDS = {
    "cairn-finality-1": Proof.finality,
    "cairn-receipt-1": Proof.receipt,
    "cairn-account-1": Proof.account,
    "cairn-statement-1": Proof.statement,
    "cairn-history-1": Proof.history,
}


def verify(genesis: bytes, file: bytes, at: str | None = None, witness: str | None = None) -> Json:
    """What the file proves. Raises `NotProven`. `at` is HEIGHT:HASH, and `witness` a public key, in hexadecimal."""
    proof = Proof(read_genesis(genesis), read_file(file))
    kind = member(proof.file, "format", str)
    need(kind in KINDS, "the file is of no known format")
    blocks = proof.descendants(None if witness is None else witness.lower())
    if at is None:
        signed = proof.signed()
    else:
        names = [f"{block.height}:0x{block.hash.hex()}" for block in blocks]
        need(at.lower() in names, "the trusted block is not in the file")
        signed = {"by": "not looked at: --at"}
    proven = KINDS[kind](proof)
    return {
        "kind": kind[len("cairn-") : -len("-1")],
        **proven,
        "signed": {**proof.head.name, **signed},
        "chain": {"id": proof.genesis.chain_id, "genesis": "0x" + proof.genesis.digest.hex()},
        "cautions": proof.cautions,
    }


def headline(report: Json) -> str:
    """What is printed first: whether it is a proof."""
    if report["cautions"]:
        return f"VALID, BUT NO PROOF: {'; '.join(report['cautions'])}"
    if "power" not in report["signed"]:
        return "PROVEN by the block that you trust: no validator's signature was looked at"
    return "PROVEN"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for argument in ("genesis", "file", "--at", "--witness"):
        parser.add_argument(argument)
    given = parser.parse_args()
    try:
        with open(given.genesis, "rb") as genesis, open(given.file, "rb") as file:
            # No more of the file than shows that it is too large.
            report = verify(genesis.read(), file.read(MOST_FILE_BYTES + 1), given.at, given.witness)
        said, code = f"{headline(report)}\n{json.dumps(report, indent=2)}", 0
    except (NotProven, OSError) as reason:
        said, code = f"NOT PROVEN: {reason}", 1
    with suppress(BrokenPipeError):  # whoever reads may stop: the exit code says it, too
        print(said, flush=True)
    return code


if __name__ == "__main__":
    os._exit(main())  # what a closed pipe did not take is not tried again
