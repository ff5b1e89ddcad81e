"""The toy chains that the vectors are about, and transactions and headers that no honest chain has."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import reduce
from operator import getitem
from typing import Any, NamedTuple

import rlp  # type: ignore[import-untyped]
from eth_utils.crypto import keccak

from tests.support.proof_chain import COIN, GWEI, Json, ProofChain, encode, hexed, root, sign_payment, wallet, wide

ALICE, BOB, CAROL, NOBODY = (wallet(name) for name in ("alice", "bob", "carol", "nobody"))
FUNDS = {ALICE.address: 1_000 * COIN, BOB.address: 50 * COIN}
TEN = dict.fromkeys(("ada", "ben", "cy", "dan"), 10)
SECP_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141

Edit = Callable[[Any], object]


class Vector(NamedTuple):
    name: str
    genesis: bytes
    file: bytes
    valid: bool
    why: str
    at: str | None = None
    witness: str | None = None
    is_public: bool = False
    """Everybody has the key of one who signs, or signed on the way from genesis."""


def fill(chain: ProofChain) -> ProofChain:
    """Eight blocks: each type of payment, data, a payment to oneself, one of nothing, an empty block."""
    miner = chain.proposer_named("ada")
    paper = {"kind": 1, "data": b"invoice 4711"}
    tip = {"kind": 2, "prices": (GWEI // 2, 3 * GWEI)}
    chain.add([chain.pay(ALICE, BOB.address, 5 * COIN, 0), chain.pay(ALICE, CAROL.address, COIN, 1, **paper)], miner)
    chain.add([chain.pay(BOB, CAROL.address, 2 * COIN, 0, **tip)], miner)
    chain.add()
    payments = [chain.pay(ALICE, ALICE.address, 7, 2), chain.pay(BOB, ALICE.address, 0, 1, data=b"\0hello\0")]
    chain.add([*payments, chain.pay(CAROL, BOB.address, COIN, 0, kind=2, prices=(0, GWEI))], miner)
    chain.add([chain.pay(CAROL, miner, COIN // 2, 1), chain.pay(BOB, ALICE.address, 3, 2)], miner)
    chain.add([chain.pay(BOB, CAROL.address, 11, 3, **tip)], chain.proposer_named("ben"))
    chain.add([chain.pay(ALICE, BOB.address, 9 * COIN, 3, **paper)], BOB.address)
    chain.add([chain.pay(BOB, ALICE.address, 1, 4, prices=(0,))], miner)
    return chain


def lone(seed: str = "lone", **more: Any) -> ProofChain:
    return fill(ProofChain(seed, balances=FUNDS, **more))


def forked() -> ProofChain:
    """A chain whose operator rewrote history: it shares only its genesis with the lone chain."""
    chain = ProofChain("lone", balances=FUNDS)
    miner = chain.proposer_named("ada")
    chain.add([chain.pay(ALICE, CAROL.address, 999 * COIN, 0)], miner)
    for _ in range(8):
        chain.add()
    return chain


def network(powers: Mapping[str, int] | None = None, seed: str = "network") -> ProofChain:
    chain = fill(ProofChain(seed, powers or TEN, chain_id=4711, balances=FUNDS))
    if powers is None:
        chain.change_validators(dict.fromkeys(("ada", "ben", "cy", "eve"), 10), 3)
        chain.change_validators({"ada": 20, "eve": 10, "fay": 5}, 6)
        chain.change_validators({"fay": 5, "gil": 1_000_000}, 8)
    return chain


def dev() -> ProofChain:
    chain = ProofChain("dev", balances={ALICE.address: 10 * COIN}, is_dev=True)
    chain.set_balances({ALICE.address: 3, CAROL.address: 8 * COIN})
    chain.add([chain.pay(CAROL, ALICE.address, COIN, 0)], chain.proposer_named("dev"))
    chain.set_balances({ALICE.address: 4 * COIN})
    return chain


def altered(file: Json, edit: Edit) -> Json:
    copy = deepcopy(file)
    edit(copy)
    return copy


def inside(edit: Edit, *keys: str | int) -> Edit:
    """The edit of a part of the file: of what these keys lead to."""
    return lambda file: edit(reduce(getitem, keys, file))


def setting(**members: Any) -> Edit:
    return lambda part: part.update(members)


def dropping(key: str) -> Edit:
    return lambda part: part.pop(key)


def encode_altered(file: Json, edit: Edit) -> bytes:
    return encode(altered(file, edit))


# Transactions that no honest block holds.


def resigned(raw: bytes, edit: Edit, kind: int | None = None) -> bytes:
    """A transaction whose fields are altered after it was signed, in RLP again."""
    is_typed = raw[0] < 3
    fields = rlp.decode(raw[1:] if is_typed else raw)
    edit(fields)
    start = bytes([raw[0] if kind is None else kind]) if is_typed or kind is not None else b""
    return bytes(start + rlp.encode(fields))


def with_high_s(raw: bytes) -> bytes:
    """The other signature of the same key for the same payment."""

    def flip(fields: list[Any]) -> None:
        fields[-1] = SECP_ORDER - int.from_bytes(fields[-1], "big")
        v = int.from_bytes(fields[-3], "big")
        fields[-3] = v ^ 1 if raw[0] < 3 else v + 1 if v % 2 else v - 1

    return resigned(raw, flip)


def bad_transactions(chain_id: int) -> dict[str, bytes]:
    """By what is wrong with them."""
    paid: dict[str, Any] = {"chain_id": chain_id}
    legacy = sign_payment(ALICE, BOB.address, COIN, 0, **paid)
    second = sign_payment(ALICE, BOB.address, COIN, 1, **paid)
    typed = sign_payment(ALICE, BOB.address, COIN, 0, kind=1, **paid)
    dynamic = sign_payment(ALICE, BOB.address, COIN, 0, kind=2, prices=(1, GWEI), **paid)
    listed = [{"address": hexed(BOB.address), "storageKeys": []}]
    return {
        "legacy with s above n/2": with_high_s(legacy),
        "type 2 with s above n/2": with_high_s(dynamic),
        "legacy signed for another chain": sign_payment(ALICE, BOB.address, COIN, 0, chain_id=chain_id + 1),
        "legacy from before EIP-155": resigned(legacy, lambda fields: fields.__setitem__(6, 27)),
        "type 1 of another chain": sign_payment(ALICE, BOB.address, COIN, 0, kind=1, chain_id=chain_id + 1),
        "type 2 of another chain": sign_payment(
            ALICE, BOB.address, COIN, 0, kind=2, prices=(1, GWEI), chain_id=chain_id + 1
        ),
        "type 1 with an access list": sign_payment(
            ALICE, BOB.address, COIN, 0, kind=1, chain_id=chain_id, accessList=listed
        ),
        "type 2 with a parity of 2": resigned(dynamic, lambda fields: fields.__setitem__(9, 2)),
        "type 1 with an empty string as access list": resigned(typed, lambda fields: fields.__setitem__(7, b"")),
        "r of zero": resigned(legacy, lambda fields: fields.__setitem__(7, 0)),
        "s of zero": resigned(legacy, lambda fields: fields.__setitem__(8, 0)),
        "r that is on no curve": resigned(legacy, lambda fields: fields.__setitem__(7, 5)),
        "r above the order": resigned(legacy, lambda fields: fields.__setitem__(7, SECP_ORDER + 1)),
        "a contract instead of a recipient": resigned(legacy, lambda fields: fields.__setitem__(3, b"")),
        "a recipient of 21 bytes": resigned(typed, lambda fields: fields.__setitem__(4, bytes(21))),
        "a value with a leading zero": resigned(legacy, lambda fields: fields.__setitem__(4, b"\0\1")),
        "257 bytes of data": sign_payment(ALICE, BOB.address, COIN, 0, data=bytes(257), **paid),
        "a gas limit of 9 bytes": resigned(legacy, lambda fields: fields.__setitem__(2, 2**64)),
        "a gas price of 33 bytes": resigned(legacy, lambda fields: fields.__setitem__(1, 2**256)),
        "a value of 33 bytes": resigned(legacy, lambda fields: fields.__setitem__(4, b"\1" + bytes(32))),
        "a nonce of 9 bytes": resigned(legacy, lambda fields: fields.__setitem__(0, 2**64)),
        "a field too many": resigned(dynamic, lambda fields: fields.append(b"")),
        "a field too few": resigned(dynamic, lambda fields: fields.pop()),
        "type 3": resigned(dynamic, lambda fields: None, kind=3),
        "type 0": resigned(legacy, lambda fields: None, kind=0),
        "a byte after the list": legacy + b"\0",
        "a list cut off": legacy[:-1],
        "a list with a longer length than needed": b"\xf9\0" + legacy[1:],
        "a byte written as a string of one": bytes([0xF8, second[1] + 1]) + b"\x81" + second[2:],
        "a list as its value": resigned(legacy, lambda fields: fields.__setitem__(4, [])),
        "a string instead of a list": bytes(rlp.encode(legacy)),
        "no bytes at all": b"",
        "a type alone": b"\1",
    }


# Headers that no honest node makes, but that somebody signed.


def bad_headers(chain: ProofChain) -> dict[str, bytes]:
    """Blocks above the newest one, by what is wrong with their header."""
    block = chain.newest

    def header(edit: Edit) -> bytes:
        return chain.encode_header(
            height=block.height + 1,
            proposer=bytes(20),
            state=root(block.state),
            transactions=root([]),
            changes=root([]),
            history=root([*block.history, block.hash]),
            count=0,
            gas_used=0,
            parent=block.hash,
            alter=edit,
        )

    good = header(lambda fields: None)
    return {
        "the chain id of another chain": header(lambda fields: fields.__setitem__(12, b"cairn\3" + bytes(12))),
        "version 2 of the format": header(lambda fields: fields.__setitem__(12, b"cairn\2" + fields[12][6:])),
        "extra data of 19 bytes": header(lambda fields: fields.__setitem__(12, fields[12] + b"\0")),
        "uncles": header(lambda fields: fields.__setitem__(1, bytes(32))),
        "logs": header(lambda fields: fields.__setitem__(6, bytes(255) + b"\1")),
        "a difficulty": header(lambda fields: fields.__setitem__(7, 1)),
        "a nonce": header(lambda fields: fields.__setitem__(14, bytes(7) + b"\1")),
        "a proposer of 21 bytes": header(lambda fields: fields.__setitem__(2, bytes(21))),
        "a history root of 31 bytes": header(lambda fields: fields.__setitem__(13, fields[13][:-1])),
        "a time with a leading zero": header(lambda fields: fields.__setitem__(11, b"\0" + wide(fields[11], 4))),
        "a height of nine bytes": header(lambda fields: fields.__setitem__(8, 2**64)),
        "seventeen fields": header(lambda fields: fields.append(bytes(32))),
        "fifteen fields": header(lambda fields: fields.pop()),
        "a list as its difficulty": header(lambda fields: fields.__setitem__(7, [])),
        "a byte after the list": good + b"\0",
        "a list cut off": good[:-1],
        "a list with a longer length than needed": b"\xfa\0" + good[1:],
    }


def sign_header(chain: ProofChain, header: bytes) -> Json:
    """A certificate of any bytes, one above the newest block."""
    engine_height = chain.height + 2
    signed = chain.signed(engine_height, keccak(header), time=chain.newest.time)
    return {"steps": [], "signed": signed, "header": hexed(header)}
