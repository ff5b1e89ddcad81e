"""Bodies of HTTP: how those of requests are read, and how answers and errors are written.

Every failure is answered in one format (RFC 9457); the error's class says the rest. Amounts in answers are JSON
integers, or strings of digits with `?amounts=string`.
"""

import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping

import msgspec
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cairn import metrics
from cairn.domain.answers import PROBLEM_TYPE, Problem
from cairn.domain.errors import (
    ApiError,
    BodyTooLarge,
    Internal,
    MalformedRequest,
    MethodNotAllowed,
    NodeError,
    UnsupportedMediaType,
    UpgradeRequired,
)

JSON_MEDIA_TYPE = "application/json"
NDJSON_MEDIA_TYPE = "application/x-ndjson"
"""JSON values, one on each line."""
PROBLEM_MEDIA_TYPE = "application/problem+json"
REVALIDATE = "no-cache"
"""Of `Cache-Control`: the client asks each time whether what it has is still the same."""
IMMUTABLE = "public, max-age=31536000, immutable"
MAX_DISCARDED_BYTES = 8 * 1024 * 1024
AMOUNT_FIELDS = (
    *("value", "gasPrice", "maxFeePerGas", "maxPriorityFeePerGas", "baseFeePerGas", "fee", "balance"),
    "supply",
)
"""Every field of an answer that is an amount of wei, however deep it stands."""

Form = Callable[[bytes], bytes]
"""Turns an answer with integers into the requested form."""

# Our encoders write no space around a colon, and a quote inside a string has a backslash before it.
_AMOUNT = re.compile(rb'("(?:%b)":)([0-9]+)' % "|".join(AMOUNT_FIELDS).encode())
_QUALITY = re.compile(r"\bq=([01](?:\.[0-9]*)?)")
_INTERNAL = Internal("see the node's log")
_encode = msgspec.json.Encoder().encode


async def read_json_body(request: Request, max_bytes: int) -> bytes:
    """The bytes of the body. Raises `UnsupportedMediaType` or `BodyTooLarge`."""
    refusal = _refusal_of(request.headers, max_bytes)
    if refusal is not None and "expect" in request.headers:
        # The client waits for 100 Continue and has sent no body.
        raise refusal
    chunks, size, has_more = [], 0, True
    # A refused body is read, too, up to a limit: otherwise the connection is reset and the answer lost.
    while has_more and size <= (max_bytes if refusal is None else MAX_DISCARDED_BYTES):
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        size += len(message["body"])
        has_more = message.get("more_body", False)
        if refusal is None and size > max_bytes:
            refusal = _too_large(max_bytes)
        chunks.append(b"" if refusal else message["body"])
    if refusal is not None:
        raise refusal
    return b"".join(chunks)


def _too_large(max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body has more than {max_bytes} bytes")


def _refusal_of(headers: Headers, max_bytes: int) -> NodeError | None:
    """Why the headers alone make the request invalid."""
    content_type = headers.get("content-type")
    if content_type is None:
        return UnsupportedMediaType(f"send the header Content-Type: {JSON_MEDIA_TYPE}")
    if not is_json(content_type):
        return UnsupportedMediaType(f"the body is declared as {content_type[:80]!a}; send {JSON_MEDIA_TYPE}")
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        return UnsupportedMediaType(f"bodies encoded as {encoding[:80]!a} are not supported")
    # Python reads 4,300 digits at most, and HTTP allows any number of zeros.
    declared = headers.get("content-length", "").strip().lstrip("0")
    return _too_large(max_bytes) if int(declared or 0) > max_bytes else None


def is_json(content_type: str) -> bool:
    media_type, _, parameters = content_type.partition(";")
    charset = parameters.strip().lower().replace('"', "")
    return media_type.strip().lower() == JSON_MEDIA_TYPE and charset in ("", "charset=utf-8")


# Answers.


def as_integers(answer: bytes) -> bytes:
    return answer


def as_strings(answer: bytes) -> bytes:
    return _AMOUNT.sub(rb'\1"\2"', answer)


FORMS: Mapping[str, Form] = {"number": as_integers, "string": as_strings}


def encoded(value: object, form: Form = as_integers, status: int = 200) -> Response:
    return json_response(form(_encode(value)), status=status)


def json_response(body: bytes, headers: Mapping[str, str] | None = None, status: int = 200) -> Response:
    return Response(body, status, headers, JSON_MEDIA_TYPE)


def array_response(items: Iterable[bytes], headers: Mapping[str, str]) -> Response:
    """The JSON array of encoded items."""
    return json_response(b"[" + b",".join(items) + b"]", headers)


class StreamedResponse(Response):
    """An answer that is sent as it is made, so that it is never in memory as a whole.

    A client that reads slowly is waited for. An error before the first piece is answered as usual; a later one breaks
    the connection before the end of the body. What ends without its end must not look whole, however it was cut, so
    lines, of which any number makes sense, are sent in HTTP's chunks only. Of JSON, a part makes none.
    """

    def __init__(self, pieces: AsyncIterator[bytes], headers: Mapping[str, str], media_type: str) -> None:
        self._pieces = pieces
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        self.init_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.media_type == NDJSON_MEDIA_TYPE and scope["http_version"] == "1.0":
            raise MalformedRequest(
                "over HTTP/1.0, lines that break off would look like all of them: use HTTP/1.1 (behind nginx: "
                "proxy_http_version 1.1), or ask for JSON"
            )
        first = b"" if scope["method"] == "HEAD" else await anext(self._pieces, b"")
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if scope["method"] != "HEAD":
            await send({"type": "http.response.body", "body": first, "more_body": True})
            async for piece in self._pieces:
                if piece:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body"})


def accepts_ndjson(request: Request) -> bool:
    """Whether the client asks for a stream of lines, by name, and does not like JSON better (RFC 9110, 12.5.1)."""
    liking: dict[str, float] = {}
    for each in ",".join(request.headers.getlist("accept")).lower().split(","):
        media_range, _, parameters = each.partition(";")
        quality = _QUALITY.search(parameters)
        liking[media_range.strip()] = 1.0 if quality is None else float(quality[1])
    of_json = next((liking[each] for each in (JSON_MEDIA_TYPE, "application/*", "*/*") if each in liking), 0.0)
    return 0 < liking.get(NDJSON_MEDIA_TYPE, 0.0) >= of_json


def not_modified(request: Request, etag: str, cache_control: str) -> Response | None:
    """304 when the client has the content already."""
    headers = cache_headers(etag, cache_control)
    known = request.headers.get("if-none-match")
    if known is None:
        return None
    tags = [tag.strip().removeprefix("W/") for tag in known.split(",")]
    return Response(status_code=304, headers=headers) if "*" in tags or headers["ETag"] in tags else None


def cache_headers(etag: str, cache_control: str) -> dict[str, str]:
    return {"ETag": f'"{etag}"', "Cache-Control": cache_control}


def cached_response(
    request: Request, body: bytes, etag: str, cache_control: str, media_type: str = JSON_MEDIA_TYPE
) -> Response:
    """The body, or 304 when the client has it already."""
    known = not_modified(request, etag, cache_control)
    return known or Response(body, headers=cache_headers(etag, cache_control), media_type=media_type)


# Errors.


def answered(error: NodeError) -> ApiError:
    """What is answered for `error`: itself, or that the node failed. The reason of that belongs in the log alone."""
    if isinstance(error, ApiError) and error.title and not isinstance(error, Internal):
        return error
    return _INTERNAL


def problem_of(error: NodeError) -> Problem:
    error = answered(error)
    return Problem(
        type=PROBLEM_TYPE + error.code,
        title=error.title,
        status=error.status,
        detail=error.detail,
        code=error.code,
        field=error.field,
        reason=error.reason,
    )


def encode_problem(error: NodeError) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Status, the headers that belong to it, and the body."""
    error = answered(error)
    metrics.HTTP_REFUSALS.inc(error.code)
    headers = [(b"content-type", PROBLEM_MEDIA_TYPE.encode())]
    if error.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % error.retry_after_s))
    if isinstance(error, MethodNotAllowed):
        headers.append((b"allow", error.allowed.encode()))
    if isinstance(error, UpgradeRequired):
        headers.append((b"upgrade", b"websocket"))
    return error.status, headers, _encode(problem_of(error))
