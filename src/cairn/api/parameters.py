"""The parameters in paths and query strings."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlencode

from msgspec import Meta

from cairn.api.bodies import FORMS, Form
from cairn.domain.crypto import parse_address
from cairn.domain.errors import InvalidField, InvalidHash, InvalidQuery
from cairn.domain.json_fields import (
    CHECKSUMMED,
    MAX_INT64,
    REFERENCE,
    REFERENCE_FORMAT,
    AnyAddressText,
    AnyHashText,
    Height,
    Time,
    find_bytes,
    find_data,
)
from cairn.domain.references import data_of
from cairn.domain.types import MAX_DATA_BYTES, MAX_UINT64, Address

DEFAULT_LIMIT = 100
MAX_LIMIT = 1_000
MAX_WAIT_S = 60
MAX_NUMBER_CHARACTERS = 40

T = TypeVar("T")


class Parameter(NamedTuple):
    """A parameter of the path, if the path has its name in braces, otherwise of the query, or a header."""

    name: str
    description: str
    type: Any
    example: str | None = None
    is_header: bool = False


def text_of(pattern: str, **schema: Any) -> Any:
    return Annotated[str, Meta(pattern=pattern, extra_json_schema=schema)]


TX_HASH = Parameter("hash", "Hash of the transaction.", AnyHashText, "0x" + "5c" * 32)
BLOCK_PATTERN = "^(0x[0-9a-fA-F]{64}|0|[1-9][0-9]*|latest)$"
BLOCK_NAME = Parameter("hash", "Hash of the block, or its height, or `latest`.", text_of(BLOCK_PATTERN), "latest")
ACCOUNT = Parameter("address", "Address of the account.", AnyAddressText, CHECKSUMMED.lower())
SENDER = Parameter("from", "Only the transactions of this sender, in the order of their nonces.", AnyAddressText)
WAIT = Parameter(
    "wait",
    "Seconds to wait until the transaction is confirmed or dropped. An unknown transaction is waited for, too.",
    Annotated[float, Meta(ge=0, le=MAX_WAIT_S, examples=[1])],
)
AMOUNTS = Parameter(
    "amounts",
    "`string` returns amounts as strings of decimal digits, for clients that read numbers as doubles.",
    Annotated[str, Meta(extra_json_schema={"enum": list(FORMS), "default": "number"})],
)
HEIGHT = Parameter("height", "As of the end of this block; `time` is the other way to name it.", Height)
TIME = Parameter(
    "time",
    "As of this time, in Unix seconds: after the last block up to it. Final once a block has a later time.",
    Time,
)
TRANSACTIONS = Parameter(
    "transactions",
    "`full` returns the transactions themselves instead of their hashes.",
    Annotated[str, Meta(extra_json_schema={"enum": ["hashes", "full"], "default": "hashes"})],
)
PROVEN_HEIGHT = Parameter("height", "As of the end of this block; the newest signed one if left out.", Height)
STATEMENT_FROM = Parameter(
    "from", "The first block. If left out: as early as this node can prove, which is block 0 if it keeps all.", Height
)
STATEMENT_TO = Parameter("to", "The last block; the newest signed one if left out.", Height)
FIRST_BLOCK = Parameter("from", "Height of the earlier block; the oldest that this node keeps if left out.", Height)
KNOWN_BLOCK = Parameter(
    "known",
    "`true`: you have the header of the earlier block, so `first` in the file is 0x, and this node need not keep it.",
    Annotated[str, Meta(extra_json_schema={"enum": ["true", "false"], "default": "false"})],
)
LATER_BLOCK = Parameter("to", "Height of the later block; the newest signed one if left out.", Height)
DIRECTION = Parameter(
    "direction",
    "Only transactions that the account received (`in`) or sent (`out`). One to itself is both.",
    Annotated[str, Meta(extra_json_schema={"enum": ["in", "out"]})],
)
COUNTERPARTY = Parameter("counterparty", "Only transactions between the account and this one.", AnyAddressText)
FROM_HEIGHT = Parameter("fromHeight", "The lowest height.", Height)
TO_HEIGHT = Parameter("toHeight", "The highest height.", Height)
FROM_TIME = Parameter("fromTime", "The earliest timestamp of a block, in Unix seconds; instead of `fromHeight`.", Time)
TO_TIME = Parameter("toTime", "The latest timestamp of a block, in Unix seconds; instead of `toHeight`.", Time)
REFERENCE_TEXT = Parameter(
    "reference",
    "Only transactions with exactly this reference.",
    Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_DATA_BYTES,
            examples=[REFERENCE],
            extra_json_schema={"format": REFERENCE_FORMAT},
        ),
    ],
)
DATA = Parameter(
    "data",
    "Only transactions with exactly this data; for data that is not text. The other way to say it is `reference`.",
    text_of(f"^0x([0-9a-fA-F]{{2}}){{1,{MAX_DATA_BYTES}}}$", examples=["0x34373131"]),
)
ORDER = Parameter(
    "order",
    "`asc`: oldest first. `desc`: newest first.",
    Annotated[str, Meta(extra_json_schema={"enum": ["asc", "desc"], "default": "desc"})],
)
LIMIT = Parameter(
    "limit", "Items on a page.", Annotated[int, Meta(ge=1, le=MAX_LIMIT, extra_json_schema={"default": DEFAULT_LIMIT})]
)


def _cursor(pattern: str, example: str) -> Parameter:
    about = "Where the previous page ended. Take it from the Link header of that page."
    return Parameter("after", about, text_of(pattern, examples=[example]))


MEMPOOL_CURSOR = _cursor("^[rws][0-9a-f]{1,80}-[0-9a-f]{1,16}$", "w1-1")
BLOCK_CURSOR = _cursor("^(0|[1-9][0-9]{0,18})$", "1")
_PLACE = "^(0|[1-9][0-9]{0,18})-(0|[1-9][0-9]{0,9})$"
HISTORY_CURSOR = _cursor(_PLACE, "1-0")
BEFORE = Parameter(
    "before",
    "Where the following page begins: this one ends before it. Take it from the Link header of that page.",
    text_of(_PLACE, examples=["1-0"]),
)

_NUMBER = re.compile(r"0|[1-9][0-9]*")
_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_POSITION = re.compile(r"(0|[1-9][0-9]{0,19})-(0|[1-9][0-9]{0,9})")


def parse_hash(text: str, what: str) -> bytes:
    """`0x` and 64 hexadecimal digits, of either case. Raises `InvalidHash`."""
    found = find_bytes(text, 32)
    if found is None:
        raise InvalidHash(f"a {what} hash is 0x and 64 hexadecimal digits")
    return found


def find_number(text: str) -> int | None:
    """The number in `text`, or None. A very long one is cut, and is still above every limit here."""
    return int(text[:MAX_NUMBER_CHARACTERS]) if _NUMBER.fullmatch(text) else None


def parse_query(query_string: bytes, *allowed: str) -> dict[str, str]:
    """The parameters. Raises `InvalidQuery` for one that is unknown, which may be misspelt, or given twice."""
    if not query_string:
        return {}
    parameters: dict[str, str] = {}
    try:
        pairs = parse_qsl(query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=16)
    except ValueError:
        raise InvalidQuery("the query string cannot be read") from None
    for name, value in pairs:
        if name not in allowed:
            known = ", ".join(allowed) or "none"
            raise InvalidQuery(f"{name[:80]!a} is not a parameter of this path; known: {known}")
        if name in parameters:
            raise InvalidQuery(f"{name} is given twice")
        parameters[name] = value
    return parameters


def limit_of(query: Mapping[str, str]) -> int:
    text = query.get("limit")
    if text is None:
        return DEFAULT_LIMIT
    limit = find_number(text)
    if limit is None or not 1 <= limit <= MAX_LIMIT:
        raise InvalidQuery(f"limit must be an integer from 1 to {MAX_LIMIT}")
    return limit


def wait_of(query: Mapping[str, str]) -> float:
    text = query.get("wait")
    if text is None:
        return 0.0
    if len(text) > MAX_NUMBER_CHARACTERS or not _SECONDS.fullmatch(text) or float(text) > MAX_WAIT_S:
        raise InvalidQuery(f"wait must be a number of seconds from 0 to {MAX_WAIT_S}")
    return float(text)


def address_of(query: Mapping[str, str], name: str) -> Address | None:
    text = query.get(name)
    if text is None:
        return None
    try:
        return parse_address(text, name)
    except InvalidField as invalid:
        raise InvalidQuery(invalid.detail) from None


def number_of(query: Mapping[str, str], name: str) -> int | None:
    """A height or a time."""
    text = query.get(name)
    if text is None:
        return None
    number = find_number(text)
    if number is None or number > MAX_INT64:
        raise InvalidQuery(f"{name} must be an integer from 0 to 2^63-1")
    return number


def choice_of(query: Mapping[str, str], name: str, choices: Mapping[str, T], default: T) -> T:
    text = query.get(name)
    if text is None:
        return default
    if text not in choices:
        raise InvalidQuery(f"{name} must be {' or '.join(choices)}")
    return choices[text]


def data_in(query: Mapping[str, str]) -> bytes | None:
    """The data that `reference` or `data` names."""
    check_one_of(query, "reference", "data")
    reference, text = query.get("reference"), query.get("data")
    if reference is not None:
        try:
            data: bytes | None = data_of(reference)
        except InvalidField as invalid:
            raise InvalidQuery(invalid.detail) from None
    elif text is not None:
        data = find_data(text)
    else:
        return None
    if not data or len(data) > MAX_DATA_BYTES:
        raise InvalidQuery(
            f"a reference has from 1 to {MAX_DATA_BYTES} bytes; data is 0x and two hexadecimal digits for each"
        )
    return data


def check_one_of(query: Mapping[str, str], first: str, second: str) -> None:
    """Refuse both together, which say the same in two ways. Raises `InvalidQuery`."""
    if first in query and second in query:
        raise InvalidQuery(f"give {first} or {second}, not both")


def height_after(query: Mapping[str, str]) -> int | None:
    """The cursor of GET /blocks: the height of the last block on the previous page."""
    text = query.get("after")
    if text is None:
        return None
    height = find_number(text)
    if height is None or height > MAX_UINT64:
        raise InvalidQuery("after: is not a cursor of this path")
    return height


def position_in(query: Mapping[str, str], name: str) -> tuple[int, int] | None:
    """A cursor of GET /account/{address}/txs: height and index of a transaction at the end of another page."""
    text = query.get(name)
    if text is None:
        return None
    found = _POSITION.fullmatch(text)
    if not found or int(found[1]) > MAX_UINT64 or int(found[2]) >= 2**32:
        raise InvalidQuery(f"{name}: is not a cursor of this path")
    return int(found[1]), int(found[2])


def page_links(
    path: str, query: Mapping[str, str], following: str | None, earlier: str | None = None
) -> dict[str, str]:
    """The Link header of RFC 8288: to the pages that begin after `following`, and that end before `earlier`."""
    rest = {name: value for name, value in query.items() if name not in ("after", "before")}
    links = []
    if following is not None:
        links.append(f'<{path}?{urlencode({**rest, "after": following})}>; rel="next"')
    if earlier is not None:
        links.append(f'<{path}?{urlencode({**rest, "before": earlier})}>; rel="prev"')
    return {"Link": ", ".join(links)} if links else {}


def amounts_of(query: Mapping[str, str]) -> Form:
    """How the answer writes amounts. Raises `InvalidQuery`."""
    form = FORMS.get(query.get("amounts", "number"))
    if form is None:
        raise InvalidQuery("amounts must be number or string")
    return form
