"""Keccak-256 and secp256k1 beside implementations that share no code with the libraries that the node uses."""

from Crypto.Hash import keccak as other_keccak
from eth_keys.backends.native.ecdsa import ecdsa_raw_recover, ecdsa_raw_sign
from eth_keys.exceptions import BadSignature
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cairn.domain.crypto import CURVE_ORDER, HALF_ORDER, address_of_key, keccak256, recover_sender, sign_digest
from cairn.domain.errors import InvalidSignature
from cairn.domain.types import Address

CASES = settings(max_examples=40, deadline=None)
RATE_BYTES = 136
digests = st.binary(min_size=32, max_size=32)
keys = st.integers(1, CURVE_ORDER - 1).map(lambda number: number.to_bytes(32, "big"))


def keccak_of(data: bytes) -> bytes:
    return other_keccak.new(digest_bits=256, data=data).digest()


def sender_of(digest: bytes, r: int, s: int, parity: int) -> Address | None:
    """By arithmetic in Python, which does not look at whether `r` is in range. None where no key can have signed."""
    if r >= CURVE_ORDER:
        return None
    try:
        return Address(keccak_of(ecdsa_raw_recover(digest, (parity, r, s)))[12:])
    except BadSignature:
        return None


def test_keccak_around_its_blocks() -> None:
    data = bytes(index * 7 % 256 for index in range(8 * RATE_BYTES))
    for size in range(4 * RATE_BYTES):
        assert keccak256(data[:size]) == keccak_of(data[:size]), size


@given(st.binary(max_size=3000))
def test_keccak_of_anything(data: bytes) -> None:
    assert keccak256(data) == keccak_of(data)


@CASES
@given(digests, keys)
def test_signatures_are_the_same_to_the_last_bit(digest: bytes, key: bytes) -> None:
    parity, r, s = ecdsa_raw_sign(digest, key)
    assert sign_digest(digest, key) == r.to_bytes(32, "big") + s.to_bytes(32, "big") + bytes([parity])
    assert sender_of(digest, r, s, parity) == recover_sender(digest, sign_digest(digest, key)) == address_of_key(key)


@CASES
@given(digests, st.integers(1, 2**256 - 1), st.integers(1, HALF_ORDER), st.integers(0, 1))
@example(b"\0" * 32, 5, 1, 0)
@example(b"\xff" * 32, CURVE_ORDER - 1, HALF_ORDER, 1)
@example(b"\1" * 32, CURVE_ORDER, 1, 0)
def test_numbers_that_nobody_signed_have_the_same_sender_or_none(digest: bytes, r: int, s: int, parity: int) -> None:
    try:
        recovered = recover_sender(digest, r.to_bytes(32, "big") + s.to_bytes(32, "big") + bytes([parity]))
    except InvalidSignature:
        recovered = None
    assert recovered == sender_of(digest, r, s, parity)
