"""Signatures and addresses: what is taken, and every form that is not."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from eth_account import Account as Wallet

from cairn.domain.crypto import (
    CURVE_ORDER,
    HALF_ORDER,
    address_of_key,
    checksum_address,
    keccak256,
    parse_address,
    recover_sender,
    sign_digest,
)
from cairn.domain.errors import InvalidField, InvalidSignature
from cairn.domain.types import Address

KEY = bytes(range(1, 33))
DIGEST = keccak256(b"a message")
SIGNATURE = sign_digest(DIGEST, KEY)


def signature_of(r: int, s: int, parity: int) -> bytes:
    return r.to_bytes(32, "big") + s.to_bytes(32, "big") + bytes([parity])


def test_keccak256_of_nothing_is_the_published_digest() -> None:
    assert keccak256(b"").hex() == "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"


def test_the_sender_is_the_address_of_the_key() -> None:
    assert recover_sender(DIGEST, SIGNATURE) == address_of_key(KEY)
    assert checksum_address(address_of_key(KEY)) == Wallet.from_key(KEY).address


def test_signatures_are_deterministic_and_low() -> None:
    for number in range(20):
        signature = sign_digest(keccak256(bytes([number])), KEY)
        assert signature == sign_digest(keccak256(bytes([number])), KEY)
        assert int.from_bytes(signature[32:64], "big") <= HALF_ORDER
        assert signature[64] in (0, 1)


def test_with_entropy_it_is_another_signature_of_the_same_sender() -> None:
    signatures = {SIGNATURE} | {sign_digest(DIGEST, KEY, bytes([number]) * 32) for number in range(20)}
    assert len(signatures) == 21
    for signature in signatures:
        assert recover_sender(DIGEST, signature) == address_of_key(KEY)
        assert int.from_bytes(signature[32:64], "big") <= HALF_ORDER


def test_the_other_parity_recovers_another_sender() -> None:
    flipped = SIGNATURE[:64] + bytes([1 - SIGNATURE[64]])
    assert recover_sender(DIGEST, flipped) != address_of_key(KEY)


def test_the_mirrored_signature_is_refused() -> None:
    r, s = int.from_bytes(SIGNATURE[:32], "big"), int.from_bytes(SIGNATURE[32:64], "big")
    with pytest.raises(InvalidSignature, match="upper half"):
        recover_sender(DIGEST, signature_of(r, CURVE_ORDER - s, 1 - SIGNATURE[64]))


def test_an_s_of_half_the_curve_order_is_accepted() -> None:
    r = int.from_bytes(SIGNATURE[:32], "big")
    recover_sender(DIGEST, signature_of(r, HALF_ORDER, 0))
    with pytest.raises(InvalidSignature, match="upper half"):
        recover_sender(DIGEST, signature_of(r, HALF_ORDER + 1, 0))


@pytest.mark.parametrize(
    ("r", "s"),
    [
        (0, 1),
        (1, 0),
        (0, 0),
        (CURVE_ORDER, 1),
        (CURVE_ORDER + 1, 1),
        (2**256 - 1, 1),
        (1, CURVE_ORDER),
        (1, 2**256 - 1),
    ],
)
@pytest.mark.parametrize("parity", [0, 1])
def test_numbers_outside_the_curve_order_are_refused(r: int, s: int, parity: int) -> None:
    with pytest.raises(InvalidSignature):
        recover_sender(DIGEST, signature_of(r, s, parity))


@pytest.mark.parametrize("r", [CURVE_ORDER, 2**256 - 1])
def test_an_r_beyond_the_curve_order_is_told_from_one_that_is_no_point(r: int) -> None:
    with pytest.raises(InvalidSignature, match="r is not below the curve order"):
        recover_sender(DIGEST, signature_of(r, 1, 0))


def test_an_r_that_is_no_point_of_the_curve_is_refused() -> None:
    # 5 is not the x coordinate of any point of secp256k1.
    with pytest.raises(InvalidSignature, match="no key"):
        recover_sender(DIGEST, signature_of(5, 1, 0))


@pytest.mark.parametrize("parity", [2, 3, 4, 26, 27, 28, 29, 255])
def test_a_recovery_id_above_1_is_refused(parity: int) -> None:
    with pytest.raises(InvalidSignature, match="recovery id"):
        recover_sender(DIGEST, SIGNATURE[:64] + bytes([parity]))


@pytest.mark.parametrize("size", [0, 1, 63, 64, 66, 130])
def test_a_signature_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(InvalidSignature, match=f"not {size}"):
        recover_sender(DIGEST, (SIGNATURE * 2)[:size])


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_digest_of_another_size_raises_value_error(size: int) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        recover_sender((DIGEST * 2)[:size], SIGNATURE)


def test_senders_recovered_in_many_threads_are_not_mixed_up() -> None:
    # The library works without the interpreter lock, so calls of several threads do overlap.
    keys = [bytes([number]) * 32 for number in range(1, 65)]
    signatures = [sign_digest(DIGEST, key) for key in keys]
    with ThreadPoolExecutor(4) as threads:
        recovered = list(threads.map(lambda signature: recover_sender(DIGEST, signature), signatures * 8))
    assert recovered == [address_of_key(key) for key in keys] * 8


ADDRESS = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


@pytest.mark.parametrize(
    "text",
    [
        ADDRESS,
        "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
        "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
        "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
        "0x52908400098527886E0F7030069857D2E4169EE7",
        "0xde709f2102306220921060314715629080e2fb77",
    ],
)
def test_the_published_examples_of_eip_55(text: str) -> None:
    address = parse_address(text, "from")
    assert checksum_address(address) == text


@pytest.mark.parametrize("text", [ADDRESS, ADDRESS.lower(), "0x" + ADDRESS[2:].upper()])
def test_an_address_in_one_case_or_with_its_checksum_is_read(text: str) -> None:
    assert parse_address(text, "from") == Address(bytes.fromhex(ADDRESS[2:]))


def test_a_wrong_checksum_is_refused_and_the_right_one_shown() -> None:
    with pytest.raises(InvalidField, match=ADDRESS) as caught:
        parse_address(ADDRESS.replace("aA", "Aa"), "to")
    assert caught.value.field == "to"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0x",
        ADDRESS[2:],
        "0X" + ADDRESS[2:],
        ADDRESS[:-1],
        ADDRESS + "0",
        ADDRESS[:-1] + "g",
        ADDRESS[:-2] + "  ",
        ADDRESS + "\n",
        " " + ADDRESS,
        "0x" + "٣" * 40,
    ],
)
def test_text_that_is_not_0x_and_40_hex_digits_is_no_address(text: str) -> None:
    with pytest.raises(InvalidField, match="40 hexadecimal digits"):
        parse_address(text, "to")
