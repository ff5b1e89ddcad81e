"""Altered proof files: bytes, numbers, hexadecimal digits and whole parts, also taken from other valid files."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any, NamedTuple

from tests.proofs.vectors import Case
from tests.support.proof_chain import Json, encode

NUMBERS = (0, 1, 2, 255, 2**31, 2**32, 2**53 - 1, 2**53, 2**64 - 1, 2**64)
STRANGE: tuple[Any, ...] = ("", "0x", "0x0", [], {}, 0, [[]], [{}], "0x" + "00" * 32, "cairn-history-1")
BYTES = b'0123456789abcdefABCDEFxg"{}[]:,.-+eE\\/ \t\n\r\x00\x1f\x7f\x80\xff'

Place = tuple[Any, Any]
"""A container and the key or index in it."""


class Valid(NamedTuple):
    """A valid vector and its file as JSON."""

    case: Case
    file: Json


def valid_files(cases: list[Case]) -> list[Valid]:
    return [Valid(case, json.loads(case.file)) for case in cases if case.valid]


def places(part: Any) -> Iterator[Place]:
    """Every member and item, at any depth."""
    keys = list(part) if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else []
    for key in keys:
        yield part, key
        yield from places(part[key])


def mutate(rng: random.Random, all_valid: list[Valid]) -> Case:
    """One of the files, altered in one to three ways."""
    chosen = rng.choice(all_valid)
    file = deepcopy(chosen.file)
    donor = rng.choice(
        [other for other in all_valid if rng.random() < 0.3 or other.case.genesis == chosen.case.genesis]
    )
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        # What an earlier edit has emptied may have no part to choose.
        with suppress(IndexError):
            rng.choice(PART_EDITS)(rng, file, donor.file)
    content = encode(file)
    if rng.random() < 0.3 or file == chosen.file:
        content = rng.choice(BYTE_EDITS)(rng, content, donor.case.file)
    at, witness = chosen.case.at, chosen.case.witness
    if rng.random() < 0.05:
        at, witness = donor.case.at, donor.case.witness
    return chosen.case._replace(name=f"altered: {chosen.case.name}", file=content, at=at, witness=witness)


def _copy(rng: random.Random, parts: Sequence[Any]) -> Any:
    """A copy, because later edits alter it."""
    return deepcopy(rng.choice(parts))


def _replace_by_donor(rng: random.Random, file: Json, donor: Json) -> None:
    """A part by the part of the same name of another file."""
    holder, key = rng.choice(list(places(file)))
    same = [part[name] for part, name in places(donor) if name == key and type(part[name]) is type(holder[key])]
    holder[key] = _copy(rng, same or [0])


def _swap_within(rng: random.Random, file: Json, donor: Json) -> None:
    """Two parts of the same type with each other."""
    one, key = rng.choice(list(places(file)))
    other, name = rng.choice([place for place in places(file) if type(place[0][place[1]]) is type(one[key])])
    # Copies: a part that holds the other one must not come to hold itself.
    one[key], other[name] = deepcopy(other[name]), deepcopy(one[key])


def _drop(rng: random.Random, file: Json, donor: Json) -> None:
    holder, key = rng.choice(list(places(file)))
    del holder[key]


def _duplicate(rng: random.Random, file: Json, donor: Json) -> None:
    lists = [holder[key] for holder, key in places(file) if isinstance(holder[key], list) and holder[key]]
    rows = rng.choice(lists)
    rows.insert(rng.randrange(len(rows) + 1), deepcopy(rng.choice(rows)))


def _shuffle(rng: random.Random, file: Json, donor: Json) -> None:
    rng.shuffle(rng.choice([holder[key] for holder, key in places(file) if isinstance(holder[key], list)]))


def _number(rng: random.Random, file: Json, donor: Json) -> None:
    holder, key = rng.choice([place for place in places(file) if isinstance(place[0][place[1]], int)])
    holder[key] = rng.choice((*NUMBERS, holder[key] + 1, max(holder[key] - 1, 0)))


def _digit(rng: random.Random, file: Json, donor: Json) -> None:
    holder, key = rng.choice([place for place in places(file) if isinstance(place[0][place[1]], str)])
    text, digit = holder[key], rng.choice("0123456789abcdef")
    at = rng.randrange(len(text) + 1)
    holder[key] = rng.choice(
        (text[:at] + digit + text[at + 1 :], text[:at] + text[at + 2 :], text[:at] + 2 * digit + text[at:])
    )


def _strange(rng: random.Random, file: Json, donor: Json) -> None:
    holder, key = rng.choice(list(places(file)))
    holder[key] = _copy(rng, STRANGE)


def _unknown(rng: random.Random, file: Json, donor: Json) -> None:
    objects = [file, *(holder[key] for holder, key in places(file) if isinstance(holder[key], dict))]
    rng.choice(objects)[rng.choice(("note", "state", "change", "next", "descendants", "format"))] = _copy(rng, STRANGE)


PART_EDITS: tuple[Callable[[random.Random, Json, Json], None], ...] = (
    _replace_by_donor,
    _replace_by_donor,
    _swap_within,
    _drop,
    _duplicate,
    _shuffle,
    _number,
    _number,
    _digit,
    _strange,
    _unknown,
)


def _alter_byte(rng: random.Random, content: bytes, donor: bytes) -> bytes:
    at = rng.randrange(len(content))
    return content[:at] + bytes([rng.choice(BYTES)]) + content[at + 1 :]


def _drop_bytes(rng: random.Random, content: bytes, donor: bytes) -> bytes:
    at = rng.randrange(len(content))
    return content[:at] + content[at + rng.choice((1, 1, 2, 64)) :]


def _insert_byte(rng: random.Random, content: bytes, donor: bytes) -> bytes:
    at = rng.randrange(len(content) + 1)
    return content[:at] + bytes([rng.choice(BYTES)]) + content[at:]


def _byte_of_donor(rng: random.Random, content: bytes, donor: bytes) -> bytes:
    at = rng.randrange(len(content))
    return content[:at] + donor[at : at + 1] + content[at + 1 :]


def _tail_of_donor(rng: random.Random, content: bytes, donor: bytes) -> bytes:
    at = rng.randrange(len(content))
    return content[:at] + donor[at:]


BYTE_EDITS: tuple[Callable[[random.Random, bytes, bytes], bytes], ...] = (
    _alter_byte,
    _drop_bytes,
    _insert_byte,
    _byte_of_donor,
    _tail_of_donor,
)
