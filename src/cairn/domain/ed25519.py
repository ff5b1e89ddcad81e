"""Ed25519 (RFC 8032) without the cofactor, as OpenSSL checks it, and without the points of which libraries differ.

For a key of small order everybody can sign. Some libraries refuse one, and an R of small order; here both are wrong.
"""

from collections.abc import Callable

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

SEED_BYTES = 32
PUBLIC_KEY_BYTES = 32
SIGNATURE_BYTES = 64

_FIELD = 2**255 - 19
_Y_OF_ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER_Y = frozenset((0, 1, _FIELD - 1, _Y_OF_ORDER_8, _FIELD - _Y_OF_ORDER_8))
"""The eight points of order 1, 2, 4 and 8 have these y, with either x."""


def signer(seed: bytes) -> Callable[[bytes], bytes]:
    """What signs a message; for many it takes half the time of `sign`."""
    return Ed25519PrivateKey.from_private_bytes(seed).sign


def sign(seed: bytes, message: bytes) -> bytes:
    return signer(seed)(message)


def public_key_of(seed: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def is_usable_point(encoded: bytes) -> bool:
    """Whether the bytes may be a public key or the R of a signature: not of small order, and y in its one encoding."""
    y = int.from_bytes(encoded, "little") & (2**255 - 1)
    return y < _FIELD and y not in _SMALL_ORDER_Y


def verify(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the owner of the key signed the message. What is no key has signed nothing."""
    if len(public_key) != PUBLIC_KEY_BYTES or not is_usable_point(public_key) or not is_usable_point(signature[:32]):
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except InvalidSignature:
        return False
    return True
