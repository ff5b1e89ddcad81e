"""What is encoded, beside a library that knows RLP; what is decoded is in the tests of transactions and headers."""

import pytest
import rlp  # type: ignore[import-untyped]

from cairn.domain.rlp import encode_list, encode_string, encode_uint


@pytest.mark.parametrize("number", [0, 1, 127, 128, 255, 256, 2**64 - 1, 2**64, 2**256 - 1, 2**440 - 1])
def test_an_integer_has_no_leading_zeros(number: int) -> None:
    assert encode_uint(number) == rlp.encode(number)


@pytest.mark.parametrize("size", [0, 1, 55, 56, 255, 256, 65_535])
def test_a_list_begins_with_its_length(size: int) -> None:
    assert encode_list(b"\x80" * size) == rlp.encode([b""] * size)


@pytest.mark.parametrize("content", [b"", b"\0", b"\x7f", b"\x80", b"\1\2", b"a" * 55, b"a" * 56, b"a" * 300])
def test_a_string_begins_with_its_length_unless_it_is_one_small_byte(content: bytes) -> None:
    assert encode_string(content) == rlp.encode(content)
