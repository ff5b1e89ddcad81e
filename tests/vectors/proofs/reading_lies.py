"""Vectors about reading: what is not the JSON of the format, and what is although it looks strange."""

import json
from collections.abc import Iterator
from typing import Any

from tests.support.proof_chain import Json, encode
from tests.vectors.proofs.chains import ALICE, Edit, Vector, dropping, encode_altered, inside, lone

DEEPEST = 32
"""Lists and objects in each other."""
_SIGNED = ("certificate", "signed")
_MEMBERS: list[tuple[str, tuple[str | int, ...], tuple[str, ...]]] = [
    ("balance", (), ("format", "certificate", "address", "height", "state")),
    ("certificate", ("certificate",), ("steps", "signed", "header")),
    ("signed header", _SIGNED, ("header", "round", "parts", "signatures")),
    ("parts", (*_SIGNED, "parts"), ("total", "hash")),
    ("signature", (*_SIGNED, "signatures", 0), ("validator", "seconds", "nanos", "signature")),
    ("state", ("state",), ("leaf", "number", "size", "path")),
]


def vectors() -> Iterator[Vector]:
    chain = lone()
    file = chain.account(ALICE.address, 8, 8)
    assert file["state"]["number"] == 1
    for name, edit, why in _wrong_members():
        yield Vector(name, chain.genesis, encode_altered(file, edit), False, why)
    for name, content, why in _wrong_texts(encode(file)):
        yield Vector(name, chain.genesis, content, False, why)
    for name, content, why in _strange_texts(file):
        yield Vector(name, chain.genesis, content, True, why)
    for name, keys, members in _MEMBERS:
        for member in members:
            content = encode_altered(file, inside(dropping(member), *keys))
            yield Vector(f"{name} without {member}", chain.genesis, content, False, "missing")
    for name, content in {
        "empty": b"",
        "not JSON": b"genesis",
        "a list": b"[]",
        "without a signer": b'{"chainId":1337}',
    }.items():
        yield Vector(f"genesis that is {name}", content, encode(file), False, "no genesis")


def _wrong_members() -> list[tuple[str, Edit, str]]:
    def signed(edit: Edit) -> Edit:
        return lambda file: edit(file["certificate"]["signed"])

    return [
        ("format of version 2", lambda file: file.update(format="cairn-account-2"), "unknown"),
        ("format of another kind", lambda file: file.update(format="cairn-history-1"), "its keys are missing"),
        ("format with a space", lambda file: file.update(format="cairn-account-1 "), "unknown"),
        ("format is a number", lambda file: file.update(format=1), "a string"),
        ("format named like a function", lambda file: file.update(format="cairn-payment-1"), "unknown"),
        ("number as text", lambda file: file["state"].update(number="1"), "an integer"),
        ("number in a list", lambda file: file["state"].update(number=[1]), "an integer"),
        ("path as text", lambda file: file["state"].update(path=""), "a list"),
        ("path as an object", lambda file: file["state"].update(path={}), "a list"),
        ("state in a list", lambda file: file.update(state=[file["state"]]), "an object"),
        ("steps as an object", lambda file: file["certificate"].update(steps={}), "a list"),
        ("step as text", lambda file: file["certificate"].update(steps=["0x"]), "an object"),
        ("signature as text", signed(lambda one: one.update(signatures=["0x"])), "an object"),
        ("parts as a list", signed(lambda one: one.update(parts=[])), "an object"),
        ("round of 2^53", signed(lambda one: one.update(round=2**53)), "at most 2^53-1"),
        ("round of 2^64", signed(lambda one: one.update(round=2**64)), "at most 2^53-1"),
        ("round of a thousand digits", signed(lambda one: one.update(round=10**999)), "at most 2^53-1"),
        ("header of the certificate as a number", lambda file: file["certificate"].update(header=0), "hex"),
        ("upper-case hex", lambda file: _recase(file, str.upper), "lower-case digits"),
        ("0X before the digits", lambda file: _recase(file, lambda text: "0X" + text[2:]), "0x"),
        ("hex without 0x", lambda file: _recase(file, lambda text: text[2:]), "0x"),
        ("hex with an odd number of digits", lambda file: _recase(file, lambda text: text + "0"), "even"),
        ("hex with a digit less", lambda file: _recase(file, lambda text: text[:-1]), "even"),
        ("hex with a space", lambda file: _recase(file, lambda text: text + " "), "digits only"),
        ("hex with spaces inside", lambda file: _recase(file, lambda text: text[:4] + "  " + text[4:]), "digits only"),
        ("hex with other digits", lambda file: _recase(file, lambda text: text[:-1] + "g"), "digits only"),
        ("hex of nothing", lambda file: file["state"].update(leaf=""), "0x"),
        ("descendants as an object", lambda file: file.update(descendants={}), "a list"),
        ("descendants of text", lambda file: file.update(descendants=["0x"]), "objects"),
    ]


def _recase(file: Json, rewrite: Any) -> None:
    text = file["state"]["leaf"]
    file["state"]["leaf"] = rewrite(text) if rewrite is not str.upper else "0x" + text[2:].upper()


def _wrong_texts(good: bytes) -> list[tuple[str, bytes, str]]:
    number = b'"number":1'
    assert good.count(number) == 1
    end = good[:-1]

    def with_number(text: bytes) -> bytes:
        return good.replace(number, b'"number":' + text)

    return [
        ("float", with_number(b"1.0"), "no dots"),
        ("exponent", with_number(b"1e0"), "no letters"),
        ("negative zero", with_number(b"-0"), "no signs"),
        ("negative number", with_number(b"-1"), "no signs"),
        ("plus sign", with_number(b"+1"), "no signs"),
        ("leading zero", with_number(b"01"), "not JSON"),
        ("true", with_number(b"true"), "no words"),
        ("null", with_number(b"null"), "no words"),
        ("NaN", with_number(b"NaN"), "no words"),
        ("null in an unknown key", end + b',"x":null}', "no words anywhere"),
        ("float in an unknown key", end + b',"x":1.5}', "no dots anywhere"),
        ("escaped letter in a key", good.replace(b'"number"', b'"\\u006eumber"'), "no backslash"),
        ("backslash in an unknown key", end + b',"x":"\\n"}', "no backslash anywhere"),
        ("control character in a string", end + b',"x":"\x01"}', "no control characters"),
        ("tab in a string", end + b',"x":"\t"}', "no control characters"),
        ("line feed in a string", end + b',"x":"\n"}', "no control characters"),
        ("DEL in a string", end + b',"x":"\x7f"}', "DEL is a control character"),
        ("UTF-8 in a string", end + ',"x":"\u00e9"}'.encode(), "not ASCII"),
        ("Latin-1 in a string", end + b',"x":"\xe9"}', "not ASCII"),
        ("byte order mark", b"\xef\xbb\xbf" + good, "not ASCII"),
        ("UTF-16", good.decode().encode("utf-16-le"), "not ASCII text"),
        ("NUL at the end", good + b"\0", "a character that is not used"),
        ("form feed as white space", good.replace(number, b'"number":\x0c1'), "not white space"),
        ("vertical tab as white space", good.replace(number, b'"number":\x0b1'), "not white space"),
        ("comment", good.replace(number, b'"number":/**/1'), "a character that is not used"),
        ("single quotes", good.replace(b'"', b"'"), "a character that is not used"),
        ("comma after the last", end + b",}", "not JSON"),
        ("comma missing", good.replace(b',"number"', b'"number"'), "not JSON"),
        ("colon missing", good.replace(number, b'"number"1'), "not JSON"),
        ("two documents", good + good, "not JSON"),
        ("text after the end", good + b"0", "not JSON"),
        ("last bracket missing", end, "not JSON"),
        ("quote missing", good.replace(b'"number"', b'"index'), "not JSON"),
        ("key without quotes", good.replace(b'"number"', b"number"), "a character that is not used"),
        ("key that is a number", end + b",1:1}", "not JSON"),
        ("list instead of an object", b"[" + good + b"]", "not an object"),
        ("string instead of an object", b'"cairn-account-1"', "not an object"),
        ("number instead of an object", b"1", "not an object"),
        ("empty file", b"", "not JSON"),
        ("white space alone", b" \n", "not JSON"),
        ("empty object", b"{}", "missing"),
        ("key given twice, the last wrong", with_number(b'1,"number":2'), "the last counts"),
        ("nested too deeply", end + b',"x":' + b"[" * DEEPEST + b"]" * DEEPEST + b"}", "at most 32"),
        ("nested very deeply", end + b',"x":' + b"[" * 5_000 + b"]" * 5_000 + b"}", "at most 32"),
        ("objects nested too deeply", end + b',"x":' + b'{"x":' * DEEPEST + b"0" + b"}" * DEEPEST + b"}", "at most 32"),
        ("brackets without end", b"[" * 5_000, "not JSON"),
    ]


def _strange_texts(file: Json) -> list[tuple[str, bytes, str]]:
    good = encode(file)
    end = good[:-1]
    depth = DEEPEST - 1
    return [
        ("white space", json.dumps(file, indent="\t").replace("\n", "\r\n ").encode() + b"\n", "white space is free"),
        ("keys in another order", json.dumps(file, sort_keys=True).encode(), "order is free"),
        ("unknown keys", encode(file | {"note": "x", "": [], "states": {"number": 2}}), "unknown keys are ignored"),
        ("unknown key with a huge integer", end + b',"x":' + b"9" * 1_000 + b"}", "unknown keys are ignored"),
        ("key given twice, the first wrong", good.replace(b'"number":1', b'"number":2,"number":1'), "the last counts"),
        ("key given twice, the first mistyped", b'{"format":7,' + good[1:], "the last counts"),
        ("nested as deeply as may be", end + b',"x":' + b"[" * depth + b"]" * depth + b"}", "at most 32"),
        ("brackets in a string", end + b',"x":"' + b"[" * 100 + b'"}', "a string is not nested"),
        ("a prototype as a key", end + b',"__proto__":{"number":7},"constructor":0}', "unknown keys are ignored"),
    ]
