"""Ed25519: the published values, and what every library must refuse alike."""

import pytest

from cairn.domain.ed25519 import public_key_of, sign, verify

# RFC 8032, 7.1: seed, public key, message, signature.
PUBLISHED = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
        "d25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
        "387b2eaeb4302aeeb00d291612bb0c00",
    ),
]
ORDER = 2**252 + 27742317777372353535851937790883648493
SEED = bytes.fromhex(PUBLISHED[0][0])


@pytest.mark.parametrize("published", PUBLISHED)
def test_the_values_of_rfc_8032(published: tuple[str, str, str, str]) -> None:
    seed, public_key, message, signature = map(bytes.fromhex, published)
    assert public_key_of(seed) == public_key
    assert sign(seed, message) == signature
    assert verify(public_key, message, signature)


def test_another_message_key_or_signature_is_not_signed() -> None:
    public_key, signature = public_key_of(SEED), sign(SEED, b"message")
    assert verify(public_key, b"message", signature)
    assert not verify(public_key, b"other", signature)
    assert not verify(public_key_of(bytes(32)), b"message", signature)
    for at in range(64):
        assert not verify(public_key, b"message", signature[:at] + bytes([signature[at] ^ 1]) + signature[at + 1 :])


def test_a_signature_whose_s_is_above_the_order_is_refused() -> None:
    signature = sign(SEED, b"message")
    s = int.from_bytes(signature[32:], "little") + ORDER
    assert not verify(public_key_of(SEED), b"message", signature[:32] + s.to_bytes(32, "little"))


@pytest.mark.parametrize("size", [0, 31, 33])
def test_what_has_no_key_s_length_signed_nothing(size: int) -> None:
    assert not verify(bytes(size), b"message", sign(SEED, b"message"))


@pytest.mark.parametrize("size", [0, 63, 65])
def test_what_has_no_signature_s_length_is_none(size: int) -> None:
    assert not verify(public_key_of(SEED), b"message", bytes(size))
