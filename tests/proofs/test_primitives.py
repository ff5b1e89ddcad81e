"""The hashes and curves of verify.py against libraries that others wrote."""

import ast
import random
import re
import sys
from hashlib import sha512
from pathlib import Path

import pytest
from eth_utils.crypto import keccak

from cairn.domain import ed25519
from cairn.domain.crypto import recover_sender, sign_digest
from cairn.domain.errors import InvalidSignature
from tests.support.proof_chain import ProofChain, consistency, encode, path, root, seeded
from verify import verify as verifier

MAX_LINES = 350
"""All of them count, also empty ones."""
FIELD = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
SMALL_ORDER = (
    bytes(32),
    (1).to_bytes(32, "little"),
    (FIELD - 1).to_bytes(32, "little"),
    (FIELD).to_bytes(32, "little"),
    (FIELD + 1).to_bytes(32, "little"),
    bytes(31) + b"\x80",
    (1).to_bytes(31, "little") + b"\x80",
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
    b"\xff" * 32,
)


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


@pytest.mark.parametrize("key", SMALL_ORDER, ids=bytes.hex)
def test_ed25519_decides_points_of_small_order_and_strange_encodings_as_openssl_does(key: bytes) -> None:
    for point in SMALL_ORDER:
        for s in (0, 1, ORDER - 1, ORDER, ORDER + 1):
            signature = point + s.to_bytes(32, "little")
            assert verifier.ed25519(key, b"", signature) == ed25519.verify(key, b"", signature), (point.hex(), s)


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


def test_verifier_has_at_most_350_lines_and_needs_only_the_library_of_python_3_9() -> None:
    source = Path(verifier.__file__).read_text()
    # Fails on syntax that came after 3.9.
    ast.parse(source, feature_version=(3, 9))
    lines = source.splitlines()
    assert len(lines) <= MAX_LINES
    assert max(map(len, lines)) <= 120
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
