"""Files of the pages that this node serves, as responses, and nothing that could run code from elsewhere."""

import hashlib
import re
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from cairn.api.rest.lookups import REVALIDATE, cached_response
from cairn.domain.errors import PathNotFound

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
FILE_NAME = re.compile(r"([a-z]+/)?[a-z0-9]+\.[a-z]+")
"""What may be asked for: a name that could lead out of the directory never reaches the disk."""

SECURITY_HEADERS = {
    # Trusted types: the pages build elements, never HTML from strings, and the browser holds them to that.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def file_response(request: Request, directory: Path, name: str) -> Response:
    """The file of that name. Raises `PathNotFound`."""
    file = directory / name
    if not FILE_NAME.fullmatch(name) or file.suffix not in MEDIA_TYPES or not file.is_file():
        raise PathNotFound(f"there is no file {name[:80]!a}")
    # Read at each request: kept, it would cost every worker memory that hardly anyone asks for.
    response = document_response(request, file.read_bytes(), MEDIA_TYPES[file.suffix])
    response.headers.update(SECURITY_HEADERS)
    return response


def document_response(request: Request, body: bytes, media_type: str) -> Response:
    """A document that a client keeps, and asks each time whether it is still the same."""
    etag = hashlib.sha256(body).hexdigest()[:32]
    return cached_response(request, body, etag, REVALIDATE, media_type)
