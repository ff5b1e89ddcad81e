"""Check a proof of a Cairn chain offline, with genesis.json alone: no node, no network, no package but Python 3.9.

    python verify.py GENESIS FILE [--at HEIGHT:HASH] [--witness KEY]

Prints what is proven as JSON, or `NOT PROVEN: reason` and exits with 1. docs/formats.md defines the files.
With --at, a block that you trust, signatures are not looked at. --witness: the public key of one who must have signed.
"""
import argparse
import json
import os
import re
from base64 import b64decode as base64
from collections import namedtuple
from contextlib import suppress
from hashlib import sha256, sha512
from typing import Any

CHANGE_NUMBERS = (20, 28), (28, 60), (60, 68), (68, 100), (100, 108)  # touched before; balance, nonce before and after
NEVER = -1  # where an account was touched before its first touch
DEV_SIGNER = bytes.fromhex("61e3d5fd875f007dd386d790641c8c3fb160ba020970ca733f8857a89689445f")  # everybody has its key
Header = namedtuple("Header", "raw hash height time proposer state payments changes history count base_fee")
Json = dict[str, Any]
Numbers = tuple[int, ...]  # a point of a curve, or balance and nonce
class NotProven(Exception): """Whatever the input is, `verify` returns a report or raises this: what does not hold."""
def need(holds: Any, why: str) -> None:
    if not holds: raise NotProven(why)

# JSON by rules that are narrower than its own, so that verifiers in all languages read the same.
def read_json(file: bytes) -> Json:
    rest = re.sub(rb'"[ !#-\[\]-~]*"', b"", file)
    need(not re.search(rb"[^0-9{}\[\]:, \t\n\r]", rest), "the file has a character that the format does not use")
    for _ in range(32): rest = re.sub(rb"[\[{][^\[\]{}]*[\]}]", b"", rest)
    need(not re.search(rb"[\[\]{}]", rest), "the file is nested too deeply")
    # Endless digits would be endless work. -1 is refused wherever a number is read.
    try: value = json.loads(file, parse_int=lambda digits: int(digits) if len(digits) < 17 else -1)
    except ValueError: raise NotProven("the file is not JSON") from None
    return dict(take({"file": value}, "file", dict))
def take(holder: Json, key: str, kind: Any, size: Any = None) -> Any:
    """A member of an object. bytes: written in hexadecimal digits; [kind]: a list."""
    if isinstance(kind, list): return [take({key: item}, key, kind[0], size) for item in take(holder, key, list)]
    value: Any = holder.get(key)
    need(type(value) is (str if kind is bytes else kind), f"{key} is missing or has the wrong type")
    need(kind is not int or 0 <= value < 2**53, f"{key} is not between 0 and 2^53-1")
    if kind is not bytes: return value
    need(re.fullmatch("0x(?:[0-9a-f]{2})*", value) and size in (None, len(value) // 2 - 1), f"{key}: wrong hex or size")
    return bytes.fromhex(value[2:])

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
    """a p + b q as x and y; `total` is the neutral point at first."""
    sums = [total, p, q, add(p, q)]
    for bit in range(255, -1, -1):
        total = add(add(total, total), sums[(a >> bit & 1) + 2 * (b >> bit & 1)])
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
def node_hash(left: bytes, right: bytes) -> bytes: return sha256(b"\1" + left + right).digest()
def merkle_root(leaves: list[bytes]) -> bytes:
    middle = 1 << (len(leaves) - 1).bit_length() >> 1
    if not middle: return sha256(b"\0" + leaves[0]).digest()
    return node_hash(merkle_root(leaves[:middle]), merkle_root(leaves[middle:]))
def climb(index: int, size: int, node: bytes, path: list[bytes]) -> tuple[bytes, bytes]:
    """The roots above a node: of the leaves up to it, and of all. `path` has the siblings, lowest first."""
    middle = 1 << (size - 1).bit_length() >> 1
    need(bool(path) == bool(middle), "a path in a tree is too short or too long")
    if not middle: return node, node
    if index < middle:
        old, new = climb(index, middle, node, path[:-1])
        return old, node_hash(new, path[-1])
    old, new = climb(index - middle, size - middle, node, path[:-1])
    return node_hash(path[-1], old), node_hash(path[-1], new)
def check_leaf(data: bytes, index: int, size: int, path: list[bytes], root: bytes, what: str) -> None:
    need(index < size and climb(index, size, merkle_root([data]), path)[1] == root, f"the {what} is not in the tree")

# RLP, Ethereum's encoding: of bytes, and of lists of them in which a further list is empty.
def rlp(item: Any) -> bytes:
    if type(item) is bytes and len(item) == 1 and item[0] < 128: return item
    first, body = (128, item) if type(item) is bytes else (192, b"".join(map(rlp, item)))
    size = len(body).to_bytes((len(body).bit_length() + 7) // 8, "big")
    return (bytes([first + len(body)]) if len(body) < 56 else bytes([first + 55 + len(size)]) + size) + body
def rlp_list(raw: bytes) -> list[Any]:
    items, at = [], 0
    while at < len(raw):
        start, size = at + (raw[at] > 127), raw[at] % 64 if raw[at] > 127 else 1
        if size > 55: start, size = start + size - 55, int.from_bytes(raw[at + 1 : start + size - 55], "big")
        items.append(raw[start : start + size] if raw[at] < 192 else [])
        at = start + size if len(items) > 1 else start  # the first is the list itself
    need(rlp(items[1:]) == raw, "a header or transaction is not canonical RLP")
    return items[1:]
def uint(raw: Any, size: int = 32) -> int:
    need(type(raw) is bytes and len(raw) <= size and raw[:1] != b"\0", "not an integer in RLP")
    return int.from_bytes(raw, "big")
def read_header(raw: bytes, chain_id: int) -> Header:
    items = rlp_list(raw)
    need(len(items) == 16 and [] not in items, "a header does not have sixteen fields")
    need([len(items[n]) for n in (0, 2, 3, 4, 5, 12, 13)] == [32, 20, 32, 32, 32, 18, 32], "a header has a wrong size")
    need([items[n] for n in (1, 6, 7, 14)] == [keccak(b"\xc0"), bytes(256), b"", bytes(8)], "an unused field is set")
    need(items[12][:14] == b"cairn\3" + chain_id.to_bytes(8, "big"), "a header is of another chain or format")
    height, _, _, time = (uint(item, 8) for item in items[8:12])
    known = [raw, keccak(raw), height, time, "0x" + items[2].hex(), *items[3:6], items[13]]
    return Header._make([*known, int.from_bytes(items[12][14:], "big"), uint(items[15])])

# Who signed: CometBFT's headers and votes, in protobuf, where what is zero or empty is left out.
def field(tag: bytes, value: Any) -> bytes:
    number, body = (value, b"") if type(value) is int else (len(value), value)
    while number > 127: tag, number = tag + bytes([number & 127 | 128]), number >> 7
    return tag + bytes([number]) + body
def validator(key: bytes, power: Any) -> tuple[int, bytes, bytes]:
    need(len(key) == 32 and type(power) is int and 0 < power < 2**53, "a validator's key or power is out of range")
    return -power, sha256(key).digest()[:20], key  # sorted by these, they are in CometBFT's order
def set_hash(validators: list[tuple[int, bytes, bytes]]) -> bytes:
    is_set = 0 < len(validators) == len({key for _, _, key in validators}) and validators == sorted(validators)
    need(is_set, "a validator is there twice, there is none, or they are not in CometBFT's order")
    return merkle_root([b"\x0a\x22\x0a\x20" + key + field(b"\x10", -minus) for minus, _, key in validators])

class Proof:
    """A file and its chain. `head` is the block that is signed; the rest is proven under it."""
    def __init__(self, genesis: bytes, file: bytes) -> None:
        self.digest, self.file = keccak(genesis), read_json(file)
        try:
            given = json.loads(genesis)
            # A node that makes the blocks alone counts as one validator of power 1.
            rows = [{"publicKey": given["signer"], "power": 1}] if "signer" in given else given["validators"]
            self.validators = sorted(validator(base64(row["publicKey"], validate=True), row["power"]) for row in rows)
            self.chain_id, is_both = given["chainId"], {"signer", "validators"} <= {*given}
        except (ValueError, LookupError, TypeError, RecursionError): raise NotProven("not a genesis file") from None
        need(not is_both and type(self.chain_id) is int and 0 < self.chain_id < 2**63 - 36, "genesis.json is wrong")
        self.certificate = take(self.file, "certificate", dict)
        self.head = read_header(take(self.certificate, "header", bytes), self.chain_id)
    def signed(self) -> Json:
        """Who signed the head. Each set of validators signs the next one, from genesis on; the last one, the head."""
        engine_id, height, validators = f"cairn-{self.chain_id}-{self.digest[:12].hex()}".encode(), 0, self.validators
        is_public = DEV_SIGNER in [key for _, _, key in validators]
        for step in [*take(self.certificate, "steps", [dict]), self.certificate]:
            signed, above = take(step, "signed", dict), height
            leaves, parts = take(signed, "header", [bytes]), take(signed, "parts", dict)
            need(len(leaves) == 14 and leaves[1] == field(b"\x0a", engine_id), "a signed header is of another chain")
            need(leaves[7] == b"\x0a\x20" + set_hash(validators), "a signed header is of other validators")
            height = sum((byte & 127) << 7 * n for n, byte in enumerate(leaves[2][1:10]))
            need(above < height and leaves[2] == field(b"\x08", height), "the signed heights are not in order")
            total, parts_hash, turn = take(parts, "total", int), take(parts, "hash", bytes), take(signed, "round", int)
            parts_id = field(b"\x08", total) * (total > 0) + field(b"\x12", parts_hash) * (parts_hash != b"")
            vote = b"\x08\x02\x11" + height.to_bytes(8, "little") + (b"\x19" + turn.to_bytes(8, "little")) * (turn > 0)
            vote += field(b"\x22", b"\x0a\x20" + merkle_root(leaves) + field(b"\x12", parts_id))
            numbers = [take(row, "validator", int) for row in take(signed, "signatures", [dict])]
            need(numbers == sorted(set(numbers)) and numbers[-1:] < [len(validators)], "wrong order of signatures")
            for row in signed["signatures"]:
                seconds, nanos = take(row, "seconds", int), take(row, "nanos", int)
                time = field(b"\x08", seconds) * (seconds > 0) + field(b"\x10", nanos) * (nanos > 0)
                message = field(b"", vote + field(b"\x2a", time) + field(b"\x32", engine_id))
                key, signature = validators[row["validator"]][2], take(row, "signature", bytes, 64)
                need(ed25519(key, message, signature), f"the signature of 0x{key.hex()} is wrong")
            signers = [validators[number] for number in numbers]
            power, of = (-sum(minus for minus, _, _ in some) for some in (signers, validators))
            need(3 * power > 2 * of, f"only {power} of the power of {of} signed")
            if step is not self.certificate:
                rows = take(step, "validators", [dict])
                validators = [validator(take(row, "publicKey", bytes, 32), take(row, "power", int)) for row in rows]
                need(leaves[7] != leaves[8] == b"\x0a\x20" + set_hash(validators), "others were signed, or the same")
                is_public = is_public or DEV_SIGNER in [key for _, _, key in validators]
        need(leaves[10] == b"\x0a\x20" + self.head.hash, "another block was signed")
        report = {"by": ["0x" + key.hex() for _, _, key in signers], "power": power, "of": of}
        return {**report, "everybody has the key": True} if is_public else report
    def block(self, holder: Json, key: str) -> Header:
        """A block of the file: the head, an ancestor of it, or a descendant."""
        part = take(holder, key, dict)
        block, path = read_header(take(part, "header", bytes), self.chain_id), take(part, "history", [bytes], 32)
        old, new = (self.head, block) if key == "later" else (block, self.head)
        if path or block.raw != self.head.raw: check_leaf(old.hash, old.height, new.height, path, new.history, "block")
        return block
    def payment(self, part: Json, block: Header) -> Json:
        raw, path, chain = take(part, "transaction", bytes), take(part, "path", [bytes], 32), self.chain_id
        check_leaf(keccak(raw), take(part, "index", int), block.count, path, block.payments, "payment")
        kind = raw[0] if raw[:1] in (b"\1", b"\2") else 0
        fields = rlp_list(raw[kind > 0 :])
        need(len(fields) == (9, 11, 12)[kind] and fields.count([]) == (kind > 0), "not a transaction")
        *body, v, r, s = fields
        if kind:
            signed, parity = raw[:1] + rlp(body), uint(v, 1)
            need(uint(body.pop(0), 8) == chain and body.pop() == [], "another chain id, or an access list")
        else:
            signed, parity = rlp([*body, chain.to_bytes(8, "big").lstrip(b"\0"), b"", b""]), uint(v, 8) - 35 - 2 * chain
        to, data = body.pop(-3), body.pop()
        nonce, *prices, limit, value = (uint(item) for item in body)
        fits = len(to) == 20 and len(data) <= 256 and max(nonce, limit) < 2**64 and prices[0] <= prices[-1]
        need(fits, "not a transfer of this chain")
        price = min(prices[-1], block.base_fee + prices[0]) if kind == 2 else prices[0]
        sender, gas = recover(keccak(signed), uint(r), uint(s), parity), 21000 + 16 * len(data) - 12 * data.count(0)
        report = {"from": sender, "to": "0x" + to.hex(), "value": value, "data": "0x" + data.hex(), "nonce": nonce}
        return {**report, "fee": price * gas, "transaction": "0x" + keccak(raw).hex()}
    def change(self, part: Json) -> tuple[Header, tuple[int, Numbers], tuple[int, Numbers]]:
        """A block that touched the account; where it was touched before, and held what; and what it held afterwards."""
        leaf, path, block = take(part, "leaf", bytes, 108), take(part, "path", [bytes], 32), self.block(part, "block")
        check_leaf(leaf, take(part, "index", int), take(part, "count", int), path, block.changes, "change")
        need(leaf[:20] == take(self.file, "address", bytes, 20), "the change is another account's")
        touched, *held = (int.from_bytes(leaf[a:b], "big") for a, b in CHANGE_NUMBERS)
        return block, (NEVER if touched == 2**64 - 1 else touched, tuple(held[:2])), (block.height, tuple(held[2:]))
    def end(self, key: str, height: int) -> tuple[int, Numbers]:
        """Where the account was last touched, and held what, by its next change after a height or the head's state."""
        need(("state" in self.file) != (key in self.file), f"there must be one of state and {key}")
        if key in self.file:
            block, before, _ = self.change(take(self.file, key, dict))
            need(block.height > height, f"{key} is not after the height")
            return before
        part, address = take(self.file, "state", dict), take(self.file, "address", bytes, 20)
        leaf, path, place = take(part, "leaf", bytes, 88), take(part, "path", [bytes], 32), take(part, "number", int)
        check_leaf(leaf, place, take(part, "size", int), path, self.head.state, "account")
        own, following = leaf[:20], leaf[68:]
        # Accounts form a circle in the order of addresses: there is none between one and the next.
        is_between = own < address < following if own < following else address > own or address < following
        need(place > 0 and (own == address or is_between), "the leaf says nothing of this account")
        balance, nonce, touched = (int.from_bytes(leaf[a:b], "big") for a, b in ((20, 52), (52, 60), (60, 68)))
        return (touched, (balance, nonce)) if own == address else (NEVER, (0, 0))
    def finality(self) -> Json: return name(self.block(self.file, "block"))
    def receipt(self) -> Json:
        return {**self.finality(), **self.payment(take(self.file, "payment", dict), self.block(self.file, "block"))}
    def account(self) -> Json:
        height = take(self.file, "height", int)
        touched, (balance, nonce) = self.end("change", height)
        need(touched <= height <= self.head.height, "the account was changed after that height, or nobody signed it")
        report = {"address": self.file["address"], "height": height, "balance": balance, "nonce": nonce}
        return {**report, "exists": touched != NEVER}
    def statement(self) -> Json:
        first, last, rows = take(self.file, "from", int), take(self.file, "to", int), take(self.file, "changes", [dict])
        need(first <= last <= self.head.height, "from, to and the signed block are not in order")
        changes = [self.change(row) for row in rows]
        befores = [*(before for _, before, _ in changes), self.end("next", last)]
        need(befores[0][0] < first and befores[1:] == [after for _, _, after in changes], "a change is left out")
        heights = [first - 1, *(block.height for block, _, _ in changes)]
        need(heights == sorted(set(heights)) and heights[-1] <= last, "a change is out of place")
        entries = [self.entry(rows[n], block, before[1], after[1]) for n, (block, before, after) in enumerate(changes)]
        report = {"address": self.file["address"], "from": first, "to": last, "opening": befores[0][1]}
        return {**report, "closing": befores[-1][1], "entries": entries}
    def entry(self, part: Json, block: Header, before: Numbers, after: Numbers) -> Json:
        """A change, explained by payments."""
        own, rows = self.file["address"], take(part, "payments", [dict])
        payments, places = [self.payment(row, block) for row in rows], [row["index"] for row in rows]
        is_own = all(own in (each["from"], each["to"]) for each in payments)
        need(is_own and places == sorted(set(places)), "a payment is of others, or out of order")
        sent, received = ([each for each in payments if each[side] == own] for side in ("from", "to"))
        nonces = [*(each["nonce"] for each in sent), after[1]]
        need(nonces == [before[1] + n for n in range(len(nonces))], "a payment is left out: the nonces do not follow")
        rest = after[0] - before[0] + sum(each["value"] + each["fee"] for each in sent)
        rest -= sum(each["value"] for each in received)
        # The proposer earns the fees of the block. A dev chain sets balances, in blocks without transactions.
        need(rest == 0 or block.count == 0 or rest > 0 and block.proposer == own, "the payments do not add up")
        source = {"fees of the block" if block.count else "set, not paid": rest} if rest else {}
        return {**name(block), "balance": after[0], "payments": payments, **source}
    def history(self) -> Json:
        first, second = read_header(take(self.file, "first", bytes), self.chain_id), self.block(self.file, "second")
        path, nodes = take(self.file, "inclusion", [bytes], 32), take(self.file, "consistency", [bytes], 32)
        check_leaf(first.hash, first.height, second.height, path, second.history, "first block")
        level = (first.height & -first.height).bit_length() - 1
        # The second tree begins with the first (RFC 9162, 2.1.4.2). If that is whole, the path does not repeat it.
        nodes = [first.history, *nodes] if first.height == 1 << max(level, 0) else nodes
        need(nodes != [] if first.height else [first.history, *nodes] == [keccak(b"\x80")], "the consistency is wrong")
        if first.height:
            roots = climb((first.height >> level) - 1, (second.height - 1 >> level) + 1, nodes[0], nodes[1:])
            need(roots == (first.history, second.history), "the older history is not the beginning of the newer one")
        return {"first": name(first), "second": name(second)}
def name(block: Header) -> Json: return {"height": block.height, "time": block.time, "hash": "0x" + block.hash.hex()}

def verify(genesis: bytes, file: bytes, at: Any = None, witness: Any = None) -> Json:
    proof, is_witnessed = Proof(genesis, file), witness is None
    kind, blocks = take(proof.file, "format", str), [proof.head]
    need(re.fullmatch("cairn-(finality|receipt|account|statement|history)-1", kind), "unknown format")
    for part in take(proof.file, "descendants", [dict]) if "descendants" in proof.file else []:
        blocks.append(proof.block({"later": part}, "later"))
        message = b"cairn witness 1\0" + proof.digest + blocks[-1].height.to_bytes(8, "big") + blocks[-1].hash
        for row in take(part, "witnesses", [dict]):
            key, signature = take(row, "publicKey", bytes, 32), take(row, "signature", bytes, 64)
            is_wanted = key.hex() == str(witness).lower().removeprefix("0x")
            is_witnessed = is_witnessed or is_wanted and ed25519(key, message, signature)
    names = [f"{block.height}:0x{block.hash.hex()}" for block in blocks]
    need(at is None or at.lower() in names, "the trusted block is not in the file")
    need(is_witnessed, "the witness did not sign")
    signed = proof.signed() if at is None else {"by": "not looked at: --at"}
    return {"kind": kind[6:-2], **getattr(proof, kind[6:-2])(), "signed": {**name(proof.head), **signed}}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for argument in ("genesis", "file", "--at", "--witness"): parser.add_argument(argument)
    given = parser.parse_args()
    try:
        with open(given.genesis, "rb") as genesis, open(given.file, "rb") as file:
            said, code = json.dumps(verify(genesis.read(), file.read(), given.at, given.witness), indent=2), 0
    except (NotProven, OSError) as reason: said, code = f"NOT PROVEN: {reason}", 1
    with suppress(BrokenPipeError): print(said, flush=True)  # whoever reads may stop: the exit code says it, too
    os._exit(code)  # what a closed pipe did not take is not tried again
