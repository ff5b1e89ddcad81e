"""Request bodies: JSON by declaration, and never more than the limit in memory."""

from starlette.datastructures import Headers
from starlette.requests import Request

from cairn.api.errors import BodyTooLarge, UnsupportedMediaType

JSON_MEDIA_TYPE = "application/json"
MAX_DISCARDED_BYTES = 8 * 1024 * 1024


async def read_json_body(request: Request, max_bytes: int) -> bytes:
    """The bytes of the body. Raises `UnsupportedMediaType` or `BodyTooLarge`."""
    try:
        return await _read_json_body(request, max_bytes)
    except (UnsupportedMediaType, BodyTooLarge):
        # One that waits to be told to go on has sent nothing yet.
        if "expect" not in request.headers:
            await _discard(request)
        raise


async def _discard(request: Request) -> None:
    """Take in what a refused client still sends, within reason: unread, it would turn the answer into a reset."""
    size = 0
    while size < MAX_DISCARDED_BYTES:
        message = await request.receive()
        size += len(message.get("body", b""))
        if not message.get("more_body", False):
            return


async def _read_json_body(request: Request, max_bytes: int) -> bytes:
    check_declared_json(request.headers)
    declared = request.headers.get("content-length")
    if declared is not None and int(declared) > max_bytes:
        raise too_large(max_bytes)
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > max_bytes:
            raise too_large(max_bytes)
        chunks.append(chunk)
    return b"".join(chunks)


def too_large(max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body has more than {max_bytes} bytes")


def check_declared_json(headers: Headers) -> None:
    content_type = headers.get("content-type")
    if content_type is None:
        raise UnsupportedMediaType(f"send the header Content-Type: {JSON_MEDIA_TYPE}")
    if not is_json(content_type):
        raise UnsupportedMediaType(f"the body is declared as {content_type[:80]!a}; send {JSON_MEDIA_TYPE}")
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise UnsupportedMediaType(f"bodies encoded as {encoding[:80]!a} are not taken")


def is_json(content_type: str) -> bool:
    media_type, _, parameters = content_type.partition(";")
    charset = parameters.strip().lower().replace('"', "")
    return media_type.strip().lower() == JSON_MEDIA_TYPE and charset in ("", "charset=utf-8")
