"""Keccak-256 and secp256k1: the only module that knows which libraries compute them."""

import re
from functools import lru_cache

from btclib_libsecp256k1 import ffi, lib
from btclib_libsecp256k1.context import ctx
from btclib_libsecp256k1.keys import UNCOMPRESSED, pubkey_from_prvkey
from btclib_libsecp256k1.recovery import sign
from tiny_keccak import keccak256 as keccak256

from cairn.domain.errors import InvalidField, InvalidSignature
from cairn.domain.types import Address

CURVE_ORDER = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141
HALF_ORDER = CURVE_ORDER // 2
_HALF_ORDER_BYTES = HALF_ORDER.to_bytes(32, "big")

# Looked up once, and called without the checks of the binding's own functions: recovery is the hot path of the node.
_new = ffi.new
_buffer = ffi.buffer
_parse = lib.secp256k1_ecdsa_recoverable_signature_parse_compact
_recover = lib.secp256k1_ecdsa_recover
_serialize = lib.secp256k1_ec_pubkey_serialize
_SIGNATURE = ffi.typeof("secp256k1_ecdsa_recoverable_signature *")
_PUBLIC_KEY = ffi.typeof("secp256k1_pubkey *")
_POINT = ffi.typeof("unsigned char[65]")
_POINT_SIZE = (65,)
"""What serializing is told of its room. It gets a copy of it, to overwrite."""

_is_address = re.compile(r"0x[0-9a-fA-F]{40}").fullmatch
# The bit that tells a small letter from its capital, at each place where the table's set has the character.
_CASE_BIT_OF_LETTERS = bytes(0x20 * (chr(code) in "abcdef") for code in range(256))
_CASE_BIT_OF_HIGH_DIGITS = bytes(0x20 * (chr(code) in "89abcdef") for code in range(256))


def recover_sender(digest: bytes, signature: bytes) -> Address:
    """The address whose key made `signature` (r, s, parity) over `digest`. Raises `InvalidSignature`."""
    if len(digest) != 32:
        raise ValueError(f"a digest has 32 bytes, not {len(digest)}")
    if len(signature) != 65:
        raise InvalidSignature(f"a signature has 65 bytes, not {len(signature)}")
    parity = signature[64]
    if parity > 1:
        raise InvalidSignature(f"the recovery id is {parity}, not 0 or 1")
    # With s and n - s both taken, anyone could give a transaction a second hash (EIP-2).
    if signature[32:64] > _HALF_ORDER_BYTES:
        raise InvalidSignature("s is in the upper half of the curve order")
    # The buffers are new on each call: the library runs without the interpreter lock, so shared ones would race.
    parsed = _new(_SIGNATURE)
    if not _parse(ctx, parsed, signature, parity):
        raise InvalidSignature("r is not below the curve order")
    public_key = _new(_PUBLIC_KEY)
    if not _recover(ctx, public_key, parsed, digest):
        raise InvalidSignature("no key can have made this signature")
    point = _new(_POINT)
    _serialize(ctx, point, _POINT_SIZE, public_key, UNCOMPRESSED)
    return Address(keccak256(_buffer(point)[1:65])[12:])


def sign_digest(digest: bytes, private_key: bytes, entropy: bytes = b"") -> bytes:
    """Sign deterministically (RFC 6979): r, s, parity, with s in the lower half.

    With 32 bytes of `entropy` (its section 3.6) the same digest gives another signature, as good as the first.
    """
    signature, parity = sign(digest, private_key, entropy or None)
    return signature + bytes([parity])


def address_of_key(private_key: bytes) -> Address:
    return Address(keccak256(pubkey_from_prvkey(private_key, compressed=False)[1:])[12:])


@lru_cache(maxsize=4096)
def checksum_address(address: Address) -> str:
    """The EIP-55 spelling: a letter is a capital where the hash of the lower-case text has a digit of 8 or more."""
    lower = address.hex().encode()
    digest = keccak256(lower).hex()[:40].encode()
    letters = int.from_bytes(lower.translate(_CASE_BIT_OF_LETTERS), "big")
    raised = int.from_bytes(digest.translate(_CASE_BIT_OF_HIGH_DIGITS), "big")
    return "0x" + (int.from_bytes(lower, "big") ^ (letters & raised)).to_bytes(40, "big").decode()


@lru_cache(maxsize=8_192)
def parse_address(text: str, field: str) -> Address:
    """Read `0x` and 40 hexadecimal digits. Raises `InvalidField`, including for mixed case with a wrong checksum.

    Remembered, because a checksum costs more than all other parsing of a transaction.
    """
    if not _is_address(text):
        raise InvalidField(field, "an address is 0x and 40 hexadecimal digits")
    digits = text[2:]
    address = Address(bytes.fromhex(digits))
    if digits != digits.lower() and digits != digits.upper() and text != checksum_address(address):
        raise InvalidField(field, f"the EIP-55 checksum is wrong; {checksum_address(address)} carries the right one")
    return address
