"""The hashes and curves of verify.py against libraries that others wrote."""

import ast
import random
import re
import sys
from hashlib import sha512
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature as NotSigned
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from eth_utils.crypto import keccak

from cairn.domain import ed25519
from cairn.domain.crypto import recover_sender, sign_digest
from cairn.domain.errors import InvalidSignature
from tests.support.proof_chain import ProofChain, consistency, encode, path, root, seeded
from tests.vectors.proofs.small_order import ENCODINGS, Careless, Weak
from verify import verify as verifier

FIELD = 2**255 - 19


@pytest.mark.parametrize("size", [0, 1, 31, 55, 56, 134, 135, 136, 137, 271, 272, 273, 1_000])
def test_keccak_of_any_size_is_that_of_others(size: int) -> None:
    data = random.Random(size).randbytes(size)
    assert verifier.keccak(data) == keccak(data)


def test_ed25519_decides_right_and_altered_signatures_as_openssl_does() -> None:
    rng = random.Random(1)
    decided = set()
    for number in range(60):
        seed, message = seeded(f"seed {number}"), rng.randbytes(number)
        key, signature = ed25519.public_key_of(seed), ed25519.sign(seed, message)
        if number % 2:
            at = rng.randrange(64)
            signature = signature[:at] + bytes([signature[at] ^ 1 << rng.randrange(8)]) + signature[at + 1 :]
        expected = ed25519.verify(key, message, signature)
        decided.add(expected)
        assert verifier.ed25519(key, message, signature) == expected
    assert decided == {True, False}


def openssl(key: bytes, message: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except NotSigned:
        return False
    return True


@pytest.mark.parametrize("name", ENCODINGS)
def test_ed25519_refuses_a_key_of_small_order_that_openssl_takes(name: str) -> None:
    key = ENCODINGS[name]
    signature = Weak(key, 1).sign(b"anything")
    assert openssl(key, b"anything", signature)
    assert not verifier.ed25519(key, b"anything", signature)
    assert not ed25519.verify(key, b"anything", signature)


def test_ed25519_refuses_an_r_of_small_order_that_openssl_takes() -> None:
    signer = Careless(seeded("careless"), 1)
    signature = signer.sign(b"anything")
    assert openssl(signer.key, b"anything", signature)
    assert not verifier.ed25519(signer.key, b"anything", signature)
    assert not ed25519.verify(signer.key, b"anything", signature)


@pytest.mark.parametrize("part", ["key", "r"])
def test_ed25519_decides_points_of_any_encoding_as_openssl_does_unless_they_are_refused(part: str) -> None:
    seed, message, decided = seeded("any encoding"), b"any", set()
    good = ed25519.public_key_of(seed), ed25519.sign(seed, message)
    rng = random.Random(3)
    for y in [*(y + FIELD for y in range(19)), *range(20), *(rng.getrandbits(255) for _ in range(40))]:
        for sign in (0, 1):
            encoded = (y | sign << 255).to_bytes(32, "little")
            key, signature = (encoded, good[1]) if part == "key" else (good[0], encoded + good[1][32:])
            usable = ed25519.is_usable_point(encoded)
            assert usable == verifier.is_usable_point(encoded) == (encoded not in ENCODINGS.values() and y < FIELD)
            found = verifier.ed25519(key, message, signature)
            assert found == ed25519.verify(key, message, signature) == (usable and openssl(key, message, signature))
            decided.add(usable)
    assert decided == {True, False}
    assert ed25519.verify(good[0], message, good[1])


def test_recover_names_the_sender_that_libsecp256k1_names_or_refuses_with_it() -> None:
    rng = random.Random(2)
    decided = set()
    for number in range(60):
        digest = rng.randbytes(32)
        signature = sign_digest(digest, seeded(f"key {number}"))
        if number % 3 == 1:
            signature = rng.randbytes(64) + bytes([rng.randrange(3)])
        if number % 3 == 2:
            signature = signature[:32] + bytes(31) + bytes([number]) + signature[64:]
        r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:64], "big")
        try:
            expected = "0x" + recover_sender(digest, signature).hex()
        except InvalidSignature:
            expected = ""
        try:
            found = verifier.recover(digest, r, s, signature[64])
        except verifier.NotProven:
            found = ""
        decided.add(bool(expected))
        assert found == expected
    assert decided == {True, False}


@pytest.mark.parametrize("size", range(1, 18))
def test_climb_agrees_with_the_definition_of_the_tree(size: int) -> None:
    leaves = [sha512(bytes([number])).digest()[:number] for number in range(size)]
    assert verifier.merkle_root(leaves) == root(leaves)
    for index in range(size):
        leaf = leaves[index]
        verifier.check_leaf(leaf, index, size, path(index, leaves), root(leaves), "the leaf")
        for wrong in range(size):
            if wrong != index and leaves[wrong] != leaf:
                with pytest.raises(verifier.NotProven):
                    verifier.check_leaf(leaves[wrong], index, size, path(index, leaves), root(leaves), "another leaf")
    assert [len(consistency(old, leaves)) for old in (0, size)] == [0, 0]


def test_verifier_needs_only_the_library_of_python_3_9() -> None:
    source = Path(verifier.__file__).read_text()
    # Fails on syntax that came after 3.9.
    ast.parse(source, feature_version=(3, 9))
    imported = re.findall(r"^(?:from|import) (\w+)", source, re.MULTILINE)
    assert set(imported) <= {"__future__", *sys.stdlib_module_names}


@pytest.mark.parametrize("seed", range(20))
def test_any_bytes_as_genesis_or_file_are_refused_and_nothing_else_is_raised(seed: int) -> None:
    rng = random.Random(seed)
    chain = ProofChain("any bytes")
    chain.add()
    valid = encode(chain.finality(1, 1))
    strange = [
        rng.randbytes(rng.randrange(200)),
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"1" * 100_000,
        b'{"chainId":' + b"9" * 10_000 + b"}",
        b'{"chainId":1,"signer":7}',
        b'{"chainId":1,"validators":[{"publicKey":"","power":"1"}]}',
        b'{"chainId":1,"validators":{"a":1}}',
        b'{"chainId":NaN,"signer":""}',
        b'{"chainId":1.0,"signer":"' + b"A" * 43 + b'="}',
    ]
    for given in strange:
        with pytest.raises(verifier.NotProven):
            verifier.verify(chain.genesis, given)
        with pytest.raises(verifier.NotProven):
            verifier.verify(given, valid)
