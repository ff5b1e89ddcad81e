"""How files of proof are read: what JSON libraries understand differently is refused."""

import json
from typing import Any

import pytest

from cairn.domain.errors import InvalidProof
from cairn.domain.proof_files import (
    MAX_DEPTH,
    AccountFile,
    FinalityFile,
    HistoryFile,
    ReceiptFile,
    StatementFile,
    encode_file,
    read_file,
)

HASH = "0x" + "ab" * 32
SIGNED = {
    "header": ["0x"] * 14,
    "round": 0,
    "parts": {"total": 1, "hash": HASH},
    "signatures": [{"validator": 0, "seconds": 1, "nanos": 2, "signature": "0x00"}],
}
CERTIFICATE = {
    "steps": [{"signed": SIGNED, "validators": [{"publicKey": HASH, "power": 1}]}],
    "signed": SIGNED,
    "header": "0xf9",
}
BLOCK = {"header": "0xf9", "history": [HASH]}
PAYMENT = {"transaction": "0x02", "index": 0, "path": [HASH]}
CHANGE = {"block": BLOCK, "leaf": "0x00", "index": 0, "count": 1, "path": []}
STATE = {"leaf": "0x00", "number": 1, "size": 2, "path": [HASH]}
ADDRESS = "0x" + "11" * 20
FILES: dict[type, dict[str, Any]] = {
    FinalityFile: {"format": "cairn-finality-1", "certificate": CERTIFICATE, "block": BLOCK},
    ReceiptFile: {"format": "cairn-receipt-1", "certificate": CERTIFICATE, "block": BLOCK, "payment": PAYMENT},
    AccountFile: {
        "format": "cairn-account-1",
        "certificate": CERTIFICATE,
        "address": ADDRESS,
        "height": 3,
        "state": STATE,
    },
    StatementFile: {
        "format": "cairn-statement-1",
        "certificate": CERTIFICATE,
        "address": ADDRESS,
        "from": 1,
        "to": 3,
        "changes": [CHANGE | {"payments": [PAYMENT]}],
        "next": CHANGE,
    },
    HistoryFile: {
        "format": "cairn-history-1",
        "certificate": CERTIFICATE,
        "first": "0xf9",
        "second": BLOCK,
        "inclusion": [HASH],
        "consistency": [],
        "descendants": [
            {"header": "0xf9", "history": [], "witnesses": [{"publicKey": HASH, "signature": "0x00"}]},
        ],
    },
}
FINALITY = json.dumps(FILES[FinalityFile]).encode()


@pytest.mark.parametrize("kind", FILES, ids=lambda kind: kind.__name__)
def test_each_kind_is_read_and_written_again_with_the_same_fields(kind: type) -> None:
    file = read_file(json.dumps(FILES[kind]).encode())
    assert type(file) is kind
    assert json.loads(encode_file(file)) == FILES[kind]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"format"', b'"f\xc3\xb6rmat": "0x", "format"'),
        (b'"format"', b'"x\\u0041": "0x", "format"'),
        (b'"format"', b'"x\x7f": "0x", "format"'),
        (b'"format"', b'"x\ty": "0x", "format"'),
        (b'"round": 0', b'"round": -0'),
        (b'"round": 0', b'"round": 0.0'),
        (b'"round": 0', b'"round": 0e0'),
        (b'"round": 0', b'"round": 00'),
        (b'"round": 0', b'"round": true'),
        (b'"round": 0', b'"round": null'),
        (b'"round": 0', b'"round": NaN'),
        (b'"round": 0', b'"round": 9007199254740992'),
        (b'"round": 0', b'"round": 99999999999999999999999999999999'),
        (b'"round": 0', b'"round": "0"'),
        (b'"round": 0, ', b""),
        (b'"block"', b'"blocks"'),
        (b"cairn-finality-1", b"cairn-finality-2"),
        (b"cairn-finality-1", b"cairn-receipt-1"),
        (b'"format": "cairn-finality-1", ', b""),
        (b"{", b"\xef\xbb\xbf{"),
        (b"{", b"[{"),
        (b"{", b"{,"),
        (b"{", b"/**/{"),
        (b"{", b""),
    ],
)
def test_what_libraries_read_differently_or_what_is_mistyped_is_refused(old: bytes, new: bytes) -> None:
    assert old in FINALITY
    with pytest.raises(InvalidProof):
        read_file(FINALITY.replace(old, new, 1))


@pytest.mark.parametrize("raw", [b"", b"[]", b"7", b'"x"', b"{}", b"[" * 100_000, b'{"a":' * 100_000])
def test_what_is_no_file_of_proof_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidProof):
        read_file(raw)


def test_of_a_key_given_twice_the_last_counts_whatever_the_first_is() -> None:
    twice = FINALITY.replace(b'"round": 0', b'"round": [], "round": 4', 1)
    assert read_file(twice).certificate.steps[0].signed.round == 4
    with pytest.raises(InvalidProof):
        read_file(FINALITY.replace(b'"round": 0', b'"round": 4, "round": []', 1))


def test_unknown_keys_are_ignored_with_all_that_is_in_them() -> None:
    more = b'"more": {"n": 99999999999999999999999, "s": ["0X", "~ !", {}]}, "format"'
    assert read_file(FINALITY.replace(b'"format"', more, 1)) == read_file(FINALITY)


def test_nesting_is_bounded_also_in_unknown_keys() -> None:
    def nested(depth: int) -> bytes:
        inner = b"[" * (depth - 1) + b"]" * (depth - 1)
        return FINALITY.replace(b'"format"', b'"more": ' + inner + b', "format"', 1)

    read_file(nested(MAX_DEPTH))
    with pytest.raises(InvalidProof, match="nested"):
        read_file(nested(MAX_DEPTH + 1))


def test_brackets_in_strings_are_not_nesting() -> None:
    read_file(FINALITY.replace(b'"format"', b'"more": "' + b"[" * 100 + b'", "format"', 1))


def test_signatures_may_be_anything_where_they_are_not_looked_at() -> None:
    fields = FILES[FinalityFile] | {"certificate": {"steps": 7, "header": "0xf9"}}
    raw = json.dumps(fields).encode()
    assert read_file(raw, without_signatures=True).certificate.header == "0xf9"
    with pytest.raises(InvalidProof):
        read_file(raw)
