"""Request bodies: JSON by declaration, and never more than the limit in memory."""

from starlette.datastructures import Headers
from starlette.requests import Request

from cairn.api.errors import BodyTooLarge, UnsupportedMediaType

JSON_MEDIA_TYPE = "application/json"


async def read_json_body(request: Request, max_bytes: int) -> bytes:
    """The bytes of the body. Raises `UnsupportedMediaType` or `BodyTooLarge`."""
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
