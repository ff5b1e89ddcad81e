"""Request bodies: declared as JSON, and never larger in memory than the limit."""

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request

from cairn.domain.errors import BodyTooLarge, NodeError, UnsupportedMediaType

JSON_MEDIA_TYPE = "application/json"
MAX_DISCARDED_BYTES = 8 * 1024 * 1024


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
