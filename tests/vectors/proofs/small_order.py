"""Vectors about Ed25519 where libraries differ: keys and R of small order, keys in another encoding than their own.

A signature by a key of small order is one that everybody can make. Whoever has a key can make one with the identity as
R. So each of them would pass an Ed25519 that looks at nothing but the equation.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from hashlib import sha512

from eth_utils.crypto import keccak

from tests.support.proof_chain import (
    Json,
    ProofChain,
    Validator,
    encode,
    hexed,
    in_order,
    seeded,
    set_hash,
    wide,
)
from tests.vectors.proofs.chains import ALICE, FUNDS, Vector, network

FIELD = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, FIELD) % FIELD
IDENTITY = (0, 1)
BASE = (0x216936D3CD6E53FEC0A4E231FDD6DC5C692CC7609525A7B2C9562D608F25D51A, 4 * pow(5, -1, FIELD) % FIELD)
Point = tuple[int, int]


def plus(p: Point, q: Point) -> Point:
    """Affine, as the curve's equation has it."""
    across = D * p[0] * q[0] * p[1] * q[1] % FIELD
    x = (p[0] * q[1] + q[0] * p[1]) * pow(1 + across, -1, FIELD) % FIELD
    return x, (p[1] * q[1] + p[0] * q[0]) * pow(1 - across, -1, FIELD) % FIELD


@cache
def times(number: int, point: Point) -> Point:
    total = IDENTITY
    for digit in bin(number)[2:]:
        total = plus(total, total)
        total = plus(total, point) if digit == "1" else total
    return total


def packed(point: Point) -> bytes:
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


def _of_order_eight() -> Point:
    """ORDER times a point of the curve is of small order: of the first y's, one gives a point of order 8."""
    for y in range(2, 100):
        square = (y * y - 1) * pow(D * y * y + 1, -1, FIELD) % FIELD
        x = pow(square, (FIELD + 3) // 8, FIELD)
        for root in (x, x * pow(2, (FIELD - 1) // 4, FIELD) % FIELD):
            point = times(ORDER, (root, y))
            if root * root % FIELD == square and times(4, point) != IDENTITY:
                return point
    raise AssertionError("a point in two gives one")


EIGHTH = _of_order_eight()
SMALL = {f"order {order}": times(8 // order, EIGHTH) for order in (1, 2, 4, 8)}


def _encodings() -> Iterator[tuple[str, bytes]]:
    """Each point of small order in its own encoding, then those that name one in another way."""
    for number in range(8):
        yield f"{number} times a point of order 8", packed(times(number, EIGHTH))
    high = 1 << 255
    for name, number in {
        "the identity with a sign": 1 | high,
        "the point of order 2 with a sign": FIELD - 1 | high,
        "y of p": FIELD,
        "y of p with a sign": FIELD | high,
        "y of p + 1": FIELD + 1,
        "y of p + 1 with a sign": FIELD + 1 | high,
    }.items():
        yield name, number.to_bytes(32, "little")


ENCODINGS = dict(_encodings())
NOT_CANONICAL = (FIELD + 3).to_bytes(32, "little")
"""y of 3 in another encoding, that of a point of large order."""


def challenge(r: bytes, key: bytes, message: bytes) -> int:
    return int.from_bytes(sha512(r + key + message).digest(), "little") % ORDER


class Weak(Validator):
    """A key of small order, for which everybody can sign: where k is a multiple of 8, S B is R."""

    @property
    def key(self) -> bytes:
        return self.seed

    def sign(self, message: bytes) -> bytes:
        nonce = 1
        while challenge(packed(times(nonce, BASE)), self.key, message) % 8:
            nonce += 1
        return packed(times(nonce, BASE)) + nonce.to_bytes(32, "little")


class Careless(Validator):
    """Whoever has the key, and signs with the identity as R: then S is k times the secret."""

    def sign(self, message: bytes) -> bytes:
        r, secret = packed(IDENTITY), _secret(self.seed)
        return r + (challenge(r, self.key, message) * secret % ORDER).to_bytes(32, "little")


class Mixed(Validator):
    """A key that is the sum of one of large order and one of order 8. R is of small order, or as it should be."""

    @property
    def key(self) -> bytes:
        return packed(plus(times(_secret(self.seed), BASE), EIGHTH))

    def sign(self, message: bytes) -> bytes:
        return self.sign_with(message, lambda k: k % 8 == 0)

    def sign_with(self, message: bytes, fits: Callable[[int], bool]) -> bytes:
        """With a k that fits. Where it is no multiple of 8, the equation holds only times the cofactor."""
        nonce = 1
        while not fits(challenge(packed(times(nonce, BASE)), self.key, message)):
            nonce += 1
        r = packed(times(nonce, BASE))
        s = (nonce + challenge(r, self.key, message) * _secret(self.seed)) % ORDER
        return r + s.to_bytes(32, "little")


class MixedWithSmallR(Mixed):
    def sign(self, message: bytes) -> bytes:
        """With R of order 2, 4 or 8: -k times the part of small order. It is found by trying, so it may not exist."""
        for number in range(1, 8):
            r = packed(times(number, EIGHTH))
            k = challenge(r, self.key, message)
            if (k + number) % 8 == 0:
                return r + (k * _secret(self.seed) % ORDER).to_bytes(32, "little")
        return self.sign_with(message, lambda k: k % 8 == 0)


def _secret(seed: bytes) -> int:
    """The scalar of RFC 8032."""
    return int.from_bytes(sha512(seed).digest()[:32], "little") & ((1 << 254) - 8) | 1 << 254


def signed_by(label: str, signer: Validator) -> ProofChain:
    """A chain whose genesis names this signer."""
    chain = ProofChain(label, balances=FUNDS)
    chain.signer, chain.sets = signer, {1: [signer]}
    chain.genesis = chain._genesis({})
    chain.digest = keccak(chain.genesis)
    chain.engine_id = f"cairn-{chain.chain_id}-{chain.digest[:12].hex()}"
    chain.add()
    return chain


def vectors() -> Iterator[Vector]:
    for name, key in ENCODINGS.items():
        chain = signed_by("weak", Weak(key, 1))
        why = "everybody can sign for such a key"
        yield Vector(f"genesis' signer is {name}", chain.genesis, encode(chain.finality(1, 1)), False, why)
    for kind, is_valid, why in (
        (Mixed, True, "the key is of large order, and the equation holds without the cofactor"),
        (Careless, False, "R is of small order"),
    ):
        chain = signed_by("odd", kind(seeded("odd signer"), 1))
        name = f"signed by one who is {kind.__name__.lower()}"
        yield Vector(name, chain.genesis, encode(chain.finality(1, 1)), is_valid, why)
    yield _with_small_r()
    yield _by_the_cofactor()
    yield from _of_a_network()
    yield from _steps()
    yield from _witnesses()


def _with_small_r() -> Vector:
    """Each time of the vote gives another message, and one in about two has a fitting R of order 2, 4 or 8."""
    chain = signed_by("small r", MixedWithSmallR(seeded("small r"), 1))
    small = {hexed(packed(times(number, EIGHTH))) for number in range(1, 8)}
    file = chain.finality(1, 1)
    for time in range(100):
        leaves = chain.engine_leaves(2, chain.newest.hash, time)
        file["certificate"]["signed"] = chain.sign(leaves, 2, time, [chain.signer])
        if file["certificate"]["signed"]["signatures"][0]["signature"][:66] in small:
            return Vector("R of order 8", chain.genesis, encode(file), False, "R is of small order")
    raise AssertionError("no message has such an R")


def _by_the_cofactor() -> Vector:
    signer = Mixed(seeded("by the cofactor"), 1)
    chain = signed_by("by the cofactor", signer)

    class ByCofactor(Mixed):
        def sign(self, message: bytes) -> bytes:
            return self.sign_with(message, lambda k: k % 8 != 0)

    chain.sets = {1: [ByCofactor(*signer)]}
    content = encode(chain.finality(1, 1))
    return Vector("equation that holds with the cofactor only", chain.genesis, content, False, "it must without")


def _of_a_network() -> Iterator[Vector]:
    """CometBFT takes the vote whose R is the identity, and so did some verifiers."""
    chain = network(dict.fromkeys(("ada", "ben", "cy", "dan"), 10), seed="few")
    validators = chain.sets[1]
    for number in range(4):
        chain.sets[1] = [Careless(*each) if at == number else each for at, each in enumerate(validators)]
        content = encode(chain.account(ALICE.address, 8, 8))
        name = f"R of validator {number} is the identity"
        yield Vector(name, chain.genesis, content, False, "one wrong signature refuses the file")
    without = chain.account(ALICE.address, 8, 8) | {"certificate": chain.certificate(8, signers=[0, 1, 2])}
    yield Vector("R is the identity, left out", chain.genesis, encode(without), True, "three of four signed rightly")


def _steps() -> Iterator[Vector]:
    honest = Validator(seeded("mighty"), 1_000)
    for name, key in {
        "of order 1": ENCODINGS["0 times a point of order 8"],
        "of order 8": ENCODINGS["3 times a point of order 8"],
        "whose y is p + 1": ENCODINGS["y of p + 1"],
        "whose y is p + 3": NOT_CANONICAL,
    }.items():
        content = _stepping([honest, Weak(key, 1)])
        why = "no such key is in a set"
        yield Vector(f"step to a set with a key {name}", content[0].genesis, content[1], False, why)
    chain, file = _stepping([honest, Mixed(seeded("mixed"), 1)])
    yield Vector("step to a set with a key of both parts", chain.genesis, file, True, "its order is large")


def _stepping(members: Iterable[Validator]) -> tuple[ProofChain, bytes]:
    """The first of the new validators signs alone."""
    chain = ProofChain("step to odd keys", {"ada": 10}, balances=FUNDS)
    chain.add()
    chain.add()
    chain.sets[2] = in_order(members)
    assert chain.engine_leaves(1, bytes(32), 0)[8] == b"\x0a\x20" + set_hash(chain.sets[2])
    file: Json = chain.finality(2, 2)
    file["certificate"] = chain.certificate(2, signers=[0])
    return chain, encode(file)


def _witnesses() -> Iterator[Vector]:
    chain = signed_by("watched", Validator(seeded("watched signer"), 1))
    message = b"cairn witness 1\0" + chain.digest + wide(1, 8) + chain.newest.hash
    for name, witness in {
        "whose key is of small order": Weak(ENCODINGS["4 times a point of order 8"], 1),
        "with the identity as R": Careless(seeded("careless witness"), 1),
    }.items():
        row = {"publicKey": hexed(witness.key), "signature": hexed(witness.sign(message))}
        file = chain.finality(1, 1) | {"descendants": [chain.descendant(1, 1) | {"witnesses": [row]}]}
        wanted = hexed(witness.key)
        yield Vector(f"witness {name}", chain.genesis, encode(file), False, "that is no signature", witness=wanted)
        yield Vector(f"witness {name}, not asked for", chain.genesis, encode(file), True, "it counts for nothing")
