"""The header Idempotency-Key: whoever repeats a request that the node signs for gets the first answer again.

As in draft-ietf-httpapi-idempotency-key-header the key is a string in quotes; as clients of Stripe send it, it is bare.
"""

import re
from collections.abc import Iterable
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from cairn.api.parameters import Parameter, text_of
from cairn.core.gateway import KeyedRequest
from cairn.domain.errors import MalformedRequest

HEADER = "Idempotency-Key"
MOST_CHARACTERS = 255
_QUOTED = rf'"(?:[ !#-\[\]-~]|\\["\\]){{1,{MOST_CHARACTERS}}}"'
_BARE = rf"[!#$%&'*+./0-9:=@A-Z^_`a-z|~-]{{1,{MOST_CHARACTERS}}}"

IDEMPOTENCY_KEY = Parameter(
    HEADER,
    "Makes a repetition safe where the node signs: a new key, such as a UUID, for each payment. The same request with "
    "the same key gets the first answer again, for an hour while the node runs; another request with it is refused. "
    "A transaction that the client signs needs none: it is paid once.",
    text_of(f"^({_QUOTED}|{_BARE})$".replace("?:", "")),
    '"8e03978e-40d5-43dd-bc93-6894a57f9324"',
    is_header=True,
)

_KEY = re.compile(f"{_QUOTED}|{_BARE}")
_ESCAPED = re.compile(r'\\(["\\])')


def find_key(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The key; `headers` are all of the request's, names in lower case. Raises `MalformedRequest`."""
    given = [value.decode("latin-1") for name, value in headers if name == HEADER.lower().encode()]
    if not given:
        return None
    if len(given) > 1:
        raise MalformedRequest(f"the {HEADER} header is given more than once")
    text = given[0]
    if _KEY.fullmatch(text) is None:
        raise MalformedRequest(
            f"the {HEADER} header is 1 to {MOST_CHARACTERS} printable ASCII characters in quotes, or without quotes if "
            "it has no spaces, commas, quotes or brackets"
        )
    return _ESCAPED.sub(r"\1", text[1:-1]) if text.startswith('"') else text


def keyed_request(key: str, *asked: object) -> KeyedRequest:
    """`asked` is what the request asks for, however it was written."""
    return KeyedRequest(sha256(key.encode()).digest(), sha256(msgspec.json.encode(asked)).digest())


def keyed_item(key: str, number: int, *asked: object) -> KeyedRequest:
    """One transaction of a list; `asked` is what the whole list asks for."""
    # No header has a line break.
    return replace(keyed_request(key, *asked), item=sha256(f"{key}\n{number}".encode()).digest())
