"""The OpenAPI and AsyncAPI documents, and a page to read and try both."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from cairn.api.chain_view import ChainView
from cairn.api.description.asyncapi import asyncapi_document
from cairn.api.description.static_files import document_response, file_response
from cairn.api.rest.bodies import JSON_MEDIA_TYPE
from cairn.api.rest.operation import Answer, Operation, file_answer
from cairn.api.rest.parameters import Parameter, text_of
from cairn.domain.errors import PathNotFound
from cairn.domain.types import Address
from cairn.explorer import REFERENCE_DIRECTORY, STATIC_DIRECTORY

PAGE = "index.html"
SHARED_FILES = frozenset({"cairn.svg", "dom.js", "exact.js", "style.css", "theme.js"})
"""What the page has of the explorer: served also where that is switched off."""

Folder = Literal["reference", "static"]
AnyObject = Annotated[dict[str, Any], Meta(extra_json_schema={"additionalProperties": True})]

_encode = msgspec.json.Encoder().encode


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

    @Operation("GET /docs", "description", file_answer("HTML.", "text/html"))
    async def get_docs(self, request: Request) -> Response:
        """The API reference, a page. It shows this document and that of the events, and lets people try them."""
        return file_response(request, REFERENCE_DIRECTORY, PAGE)

    @Operation(
        "GET /docs/{folder}/{asset}",
        "description",
        Parameter("folder", "Files of this page alone, or those that the explorer has too.", Folder, "reference"),
        Parameter("asset", "Name of the file.", text_of(r"^[a-z0-9]+\.(js|css|html|svg)$"), "main.js"),
        file_answer("The file.", "text/javascript", "text/css", "text/html", "image/svg+xml"),
        404,
    )
    async def get_docs_asset(self, request: Request) -> Response:
        """A file of the API reference. Scripts, styles and pictures of `/docs`."""
        folder, name = request.path_params["folder"], request.path_params["asset"]
        if folder == "reference":
            return file_response(request, REFERENCE_DIRECTORY, name)
        if folder == "static" and name in SHARED_FILES:
            return file_response(request, STATIC_DIRECTORY, name)
        raise PathNotFound(f"the page has no file {f'{folder}/{name}'[:80]!a}")
