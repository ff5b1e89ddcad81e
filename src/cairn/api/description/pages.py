"""Documents and pages: the OpenAPI and AsyncAPI documents, the API reference at `/docs`, the explorer at `/`."""

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from cairn.api.bodies import JSON_MEDIA_TYPE, REVALIDATE, cached_response
from cairn.api.chain_view import ChainView
from cairn.api.description.asyncapi import asyncapi_document
from cairn.api.routing import Answer, Operation, PageRoute
from cairn.domain.errors import PathNotFound
from cairn.domain.types import Address
from cairn.explorer import REFERENCE_DIRECTORY, STATIC_DIRECTORY

PAGE = "index.html"
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
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

SHARED_FILES = frozenset({"cairn.svg", "dom.js", "exact.js", "style.css", "theme.js"})
"""What the page has of the explorer: served also where that is switched off."""

AnyObject = Annotated[dict[str, Any], Meta(extra_json_schema={"additionalProperties": True})]

_encode = msgspec.json.Encoder().encode


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


class Explorer:
    """Its routes exist on every node; one whose settings switch it off answers that there is no such path."""

    def __init__(self, is_on: bool) -> None:
        self._is_on = is_on

    @PageRoute("GET /")
    async def get_explorer(self, request: Request) -> Response:
        """Open the explorer, a page that shows the chain. 404 if it is switched off."""
        return self._serve(request, PAGE)

    @PageRoute("GET /explorer/{asset}")
    async def get_explorer_asset(self, request: Request) -> Response:
        """Get a file of the explorer. 404 if it is switched off."""
        return self._serve(request, request.path_params["asset"])

    @PageRoute("GET /explorer/views/{asset}")
    async def get_explorer_view(self, request: Request) -> Response:
        """Get a view of the explorer. 404 if it is switched off."""
        return self._serve(request, f"views/{request.path_params['asset']}")

    def _serve(self, request: Request, name: str) -> Response:
        if not self._is_on:
            raise PathNotFound("the explorer is switched off; the setting explorer switches it on")
        return file_response(request, STATIC_DIRECTORY, name)


class Pages:
    def __init__(self, view: ChainView, encode_openapi: Callable[[Sequence[Address]], bytes]) -> None:
        self._view = view
        self._encode_openapi = encode_openapi
        self._openapi: tuple[list[Address], bytes] | None = None
        self._asyncapi: bytes | None = None

    @Operation("GET /openapi.json", "description", Answer("OpenAPI 3.1.", AnyObject, ("ETag",)))
    async def get_open_api(self, request: Request) -> Response:
        """Get this document. For people, and for generators of clients."""
        # The document lists the accounts that need no signature; they are known once the core is up.
        signs_for = self._view.info.signs_for if self._view.info else []
        if self._openapi is None or self._openapi[0] != signs_for:
            self._openapi = (signs_for, self._encode_openapi(signs_for))
        return document_response(request, self._openapi[1], JSON_MEDIA_TYPE)

    @Operation("GET /asyncapi.json", "description", Answer("AsyncAPI 3.0.", AnyObject, ("ETag",)))
    async def get_async_api(self, request: Request) -> Response:
        """Get the AsyncAPI document. It describes every message of the WebSocket `/events`."""
        if self._asyncapi is None:
            self._asyncapi = _encode(asyncapi_document())
        return document_response(request, self._asyncapi, JSON_MEDIA_TYPE)

    @PageRoute("GET /docs")
    async def get_docs(self, request: Request) -> Response:
        """The API reference, a page. It shows this document and that of the events, and lets people try them."""
        return file_response(request, REFERENCE_DIRECTORY, PAGE)

    @PageRoute("GET /docs/{folder}/{asset}")
    async def get_docs_asset(self, request: Request) -> Response:
        """A file of the API reference. Scripts, styles and pictures of `/docs`."""
        folder, name = request.path_params["folder"], request.path_params["asset"]
        if folder == "reference":
            return file_response(request, REFERENCE_DIRECTORY, name)
        if folder == "static" and name in SHARED_FILES:
            return file_response(request, STATIC_DIRECTORY, name)
        raise PathNotFound(f"the page has no file {f'{folder}/{name}'[:80]!a}")
