"""Vectors that only one rule decides: each was found by leaving that rule out of a verifier."""

from collections.abc import Iterator
from typing import Any

from eth_utils.crypto import keccak

from tests.support.proof_chain import (
    COIN,
    GWEI,
    Held,
    Json,
    ProofChain,
    Validator,
    encode,
    hexed,
    in_order,
    proto_bytes,
    root,
    seeded,
    set_hash,
    understand,
    varint,
)
from tests.vectors.proofs.chains import (
    ALICE,
    BOB,
    FUNDS,
    NOBODY,
    SECP_ORDER,
    TEN,
    Vector,
    altered,
    encode_altered,
    forked,
    inside,
    lone,
    network,
    resigned,
)

FIELD = 2**256 - 2**32 - 977


def vectors() -> Iterator[Vector]:
    yield from _steps()
    yield from _votes()
    yield from _places()
    yield from _statements()
    yield from _transactions()
    yield from _blocks()


def _balance(chain: ProofChain, certificate: Json) -> bytes:
    """A small file with this certificate of the newest block."""
    return encode(chain.account(ALICE.address, chain.height, chain.height) | {"certificate": certificate})


def _certified(chain: ProofChain, signed: Json, steps: list[Json] | None = None) -> Json:
    return {"steps": steps or [], "signed": signed, "header": hexed(chain.newest.header)}


def _rows(validators: list[Validator]) -> list[Json]:
    return [{"publicKey": hexed(each.key), "power": each.power} for each in validators]


def _steps() -> Iterator[Vector]:
    chain = network(TEN, seed="few")
    newest, first = chain.newest, chain.validators_at(1)
    forgers = in_order(Validator(seeded(f"forger {name}"), 10) for name in TEN)
    leaves = chain.engine_leaves(9, newest.hash, newest.time)
    leaves[7] = b"\x0a\x20" + set_hash(forgers)
    by_forgers = chain.sign(leaves, 9, newest.time, forgers)
    honest = {"signed": chain.signed(3, chain.blocks[2].hash, time=1), "validators": _rows(forgers)}
    content = _balance(chain, _certified(chain, by_forgers, [honest]))
    yield Vector("step lists forged validators, who signed", chain.genesis, content, False, "leaf 8 names others")
    idle = [Validator(seeded("largest"), 5), Validator(seeded("idle"), 0)]
    tree = [proto_bytes(1, proto_bytes(1, each.key)) + b"\x10" + varint(each.power) for each in idle]
    step = chain.engine_leaves(3, chain.blocks[2].hash, 1)
    step[8] = leaves[7] = b"\x0a\x20" + root(tree)
    signed = {"signed": chain.sign(step, 3, 1, first), "validators": _rows(idle)}
    content = _balance(chain, _certified(chain, chain.sign(leaves, 9, newest.time, idle), [signed]))
    yield Vector("step to a validator with its power of zero written", chain.genesis, content, False, "at least 1")
    sizes = ProofChain("sizes", {"ada": 128, "ben": 127, "cy": 16_384}, chain_id=4711, balances=FUNDS)
    sizes.add()
    content = _balance(sizes, sizes.certificate(1))
    yield Vector("powers of one, two and three bytes", sizes.genesis, content, True, "all holds")


def _votes() -> Iterator[Vector]:
    chain = network(TEN, seed="few")
    newest, first = chain.newest, chain.validators_at(1)

    def vector(name: str, signed: Json, is_valid: bool, why: str) -> Vector:
        return Vector(name, chain.genesis, _balance(chain, _certified(chain, signed)), is_valid, why)

    leaves = chain.engine_leaves(9, newest.hash, newest.time)
    largest = chain.sign(leaves, 9, newest.time, first, at_round=2**53 - 1)
    yield vector("votes of the largest round", largest, True, "all holds")
    beyond = chain.sign(leaves, 9, newest.time, first, at_round=2**53)
    yield vector("votes of a round of 2^53", beyond, False, "integers are at most 2^53-1")
    yield vector("votes at time zero", chain.signed(9, newest.hash, time=0), True, "zero is left out")
    far = chain.signed(2**40 + 128, newest.hash, time=2**53 - 1)
    yield vector("header of the engine far above the block", far, True, "all holds")
    last = chain.engine_leaves(9, newest.hash, newest.time)
    last[2] = b"\x08" + varint(2**63 - 1)
    yield vector("header of the engine at the last height", chain.sign(last, 2**63 - 1, 1, first), True, "all holds")
    for count in (13, 15):
        signed = chain.sign([*leaves, b""][:count], 9, newest.time, first)
        yield vector(f"header of {count} fields that was signed", signed, False, "there are fourteen")


def _places() -> Iterator[Vector]:
    chain = lone()
    paid = chain.receipt(4, 2, 8)
    beyond = altered(paid, lambda file: file["payment"].update(index=3))
    yield Vector("last payment at the place after it", chain.genesis, encode(beyond), False, "there are three")
    owner = chain.newest.state[-1][:20]
    held = chain.account(owner, 8, 8)
    beyond = altered(held, lambda file: file["state"].update(number=file["state"]["size"]))
    yield Vector("last account at the place after it", chain.genesis, encode(beyond), False, "there is none")
    changed = max(leaf[:20] for leaf in chain.blocks[4].changes)
    before = chain.account(changed, 3, 8)
    beyond = altered(before, lambda file: file["change"].update(index=file["change"]["count"]))
    yield Vector("last change at the place after it", chain.genesis, encode(beyond), False, "there is none")
    single = ProofChain("account instead of the record", balances={ALICE.address: COIN})
    leaf = single.newest.state[1]
    single.newest.state[:] = [leaf]
    header = single.encode_header(
        height=1,
        proposer=bytes(20),
        state=root([leaf]),
        transactions=root([]),
        changes=root([]),
        history=root([single.newest.hash]),
        count=0,
        gas_used=0,
        parent=single.newest.hash,
    )
    certificate = {"steps": [], "signed": single.signed(2, keccak(header)), "header": hexed(header)}
    state = {"leaf": hexed(leaf), "number": 0, "size": 1, "path": []}
    file: Json = {"format": "cairn-account-1", "address": hexed(ALICE.address), "height": 1}
    content = encode(file | {"certificate": certificate, "state": state})
    yield Vector("account at number 0", single.genesis, content, False, "that is the record's place")


def _statements() -> Iterator[Vector]:
    chain = lone()
    nobody = chain.statement(NOBODY.address, 3, 6, 8)
    for name, members, why in [
        ("statement of nothing from above to", {"from": 7}, "from is at most to"),
        ("statement of nothing to above the signed block", {"to": 9}, "nobody signed it"),
    ]:
        yield Vector(name, chain.genesis, encode(nobody | members), False, why)
    payments = ("changes", 0, "payments")
    own = chain.statement(ALICE.address, 4, 4, 8)
    twice = encode_altered(own, inside(lambda rows: rows.append(rows[1]), *payments))
    yield Vector("received payment of nothing twice", chain.genesis, twice, False, "indexes ascend")
    swapped = encode_altered(own, inside(lambda rows: rows.reverse(), *payments))
    yield Vector("payments of which none is missing out of order", chain.genesis, swapped, False, "indexes ascend")
    for name, nonces in {"skip one": (1, 2), "are swapped": (1, 0), "are equal": (0, 0)}.items():
        wrong = ProofChain(f"nonces that {name}", balances=FUNDS)
        raw = [wrong.pay(ALICE, BOB.address, 5 + number, nonce) for number, nonce in enumerate(nonces)]
        paid = [understand(each, wrong.gas_price) for each in raw]
        fees = sum(each.fee for each in paid)
        touched = {ALICE.address: Held(1_000 * COIN - 11 - fees, 2, 0), BOB.address: Held(50 * COIN + 11, 0, 0)}
        touched[NOBODY.address] = Held(fees)
        wrong._seal(paid, touched, NOBODY.address)
        content = encode(wrong.statement(ALICE.address, 1, 1, 1))
        yield Vector(f"signed block with nonces that {name}", wrong.genesis, content, False, "nonce before, then +1")


def _transactions() -> Iterator[Vector]:
    chain = ProofChain("edges of transactions", balances=FUNDS)
    legacy, typed = chain.pay(ALICE, BOB.address, COIN, 0), chain.pay(ALICE, BOB.address, COIN, 0, kind=1)
    dynamic = chain.pay(ALICE, BOB.address, COIN, 0, kind=2, prices=(1, GWEI))

    def setting(number: int, value: Any) -> bytes:
        return resigned(legacy, lambda fields: fields.__setitem__(number, value))

    above = next(r for r in range(SECP_ORDER + 1, FIELD) if pow(r**3 + 7, (FIELD - 1) // 2, FIELD) == 1)
    rows: list[tuple[str, bytes, bool, str]] = [
        ("s of half the order", setting(8, SECP_ORDER // 2), True, "the largest that may be"),
        ("s just above half the order", setting(8, SECP_ORDER // 2 + 1), False, "at most half the order"),
        ("s of one", setting(8, 1), True, "any key may have made it"),
        ("r above the order, of a point", setting(7, above), False, "r is below the order"),
        ("a list as data", setting(5, []), False, "data is a string"),
        ("a list as its recipient", setting(3, []), False, "20 bytes"),
        ("a list as data of type 1", resigned(typed, lambda fields: fields.__setitem__(6, [])), False, "a string"),
        (
            "a tip as high as its price",
            resigned(dynamic, lambda fields: fields.__setitem__(2, GWEI)),
            True,
            "all holds",
        ),
        (
            "a tip above its price",
            resigned(dynamic, lambda fields: fields.__setitem__(2, GWEI + 1)),
            False,
            "at most that",
        ),
    ]
    for name, raw, is_valid, why in rows:
        chain.add_raw([raw])
        content = encode(chain.receipt(chain.height, 0, chain.height))
        yield Vector(f"transaction with {name}", chain.genesis, content, is_valid, why)


def _blocks() -> Iterator[Vector]:
    chain, fork = lone(), forked()
    file = chain.account(ALICE.address, 6, 6)
    stray = fork.descendant(8, 8)
    content = encode(file | {"descendants": [stray]})
    yield Vector("descendant of a fork without a path", chain.genesis, content, False, "the path is missing")
    at = f"8:{hexed(fork.blocks[8].hash)}"
    yield Vector("trusted block of a fork without a path", chain.genesis, content, False, "the path is missing", at=at)
    stray = fork.ancestor(2, 2)
    content = encode(chain.finality(2, 6) | {"block": stray})
    yield Vector("block of a fork without a path", chain.genesis, content, False, "the path is missing")
    both = ProofChain("both", balances=FUNDS)
    row = b'[{"publicKey": "' + both.genesis.split(b'"signer": "')[1][:44] + b'", "power": 1, '
    row += b'"feeRecipient": "0x' + b"0" * 40 + b'", "name": "one"}]'
    both.genesis = both.genesis.replace(b'"signer"', b'"validators": ' + row + b',\n  "signer"')
    both.digest = keccak(both.genesis)
    both.engine_id = f"cairn-{both.chain_id}-{both.digest[:12].hex()}"
    both.add()
    content = encode(both.account(ALICE.address, 1, 1))
    yield Vector("genesis with validators and a signer", both.genesis, content, False, "exactly one of the two")
    large = ProofChain("large chain id", chain_id=2**63 - 37, balances=FUNDS)
    large.add([large.pay(ALICE, BOB.address, COIN, 0)])
    content = encode(large.receipt(1, 0, 1))
    yield Vector("receipt of the largest chain id", large.genesis, content, True, "all holds")
    liar = ProofChain("history before genesis", balances=FUNDS)
    first = liar.newest
    before, _, after = first.header.rpartition(root([]))
    first.header = before + keccak(b"an older block") + after
    first.hash = keccak(first.header)
    liar.add()
    content = encode(liar.history(0, 1, 1))
    yield Vector("history from a genesis block that has one", liar.genesis, content, False, "nothing is before it")
