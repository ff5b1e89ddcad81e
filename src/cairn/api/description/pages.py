"""The OpenAPI and AsyncAPI documents, and a page to browse them. All files come from this node."""

import hashlib
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from cairn.api.chain_view import ChainView
from cairn.api.description.asyncapi import asyncapi_document
from cairn.api.errors import PathNotFound
from cairn.api.rest.lookups import REVALIDATE, cached_response
from cairn.api.rest.operation import Answer, Operation, file_answer
from cairn.api.rest.parameters import Parameter
from cairn.domain.types import Address

ASSET_PACKAGE = "offapi"
ASSETS = {
    "swagger-ui.css": ("swagger_style.css", "text/css; charset=utf-8"),
    "swagger-ui.js": ("swagger_bundle.js", "text/javascript; charset=utf-8"),
}
"""Public name, to the file in the package and its media type."""

START_SCRIPT = b"""\
SwaggerUIBundle({url: "/openapi.json", dom_id: "#docs", deepLinking: true, validatorUrl: null, tryItOutEnabled: true});
"""
PAGE = b"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Cairn: the node's interface</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="docs"></div>
<script src="/docs/swagger-ui.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""
PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
}

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
        return page_response(request, self._openapi[1], "application/json")

    @Operation("GET /asyncapi.json", "description", Answer("AsyncAPI 3.0.", AnyObject, ("ETag",)))
    async def get_async_api(self, request: Request) -> Response:
        """Get the AsyncAPI document. It describes every message of the WebSocket `/events`."""
        if self._asyncapi is None:
            self._asyncapi = _encode(asyncapi_document())
        return page_response(request, self._asyncapi, "application/json")

    @Operation("GET /docs", "description", file_answer("HTML.", "text/html"))
    async def get_docs(self, request: Request) -> Response:
        """Browse this document in a page. All of its files come from this node."""
        response = page_response(request, PAGE, "text/html; charset=utf-8")
        response.headers.update(PAGE_HEADERS)
        return response

    @Operation(
        "GET /docs/{asset}",
        "description",
        Parameter("asset", "Name of the asset.", Literal["start.js", "swagger-ui.css", "swagger-ui.js"], "start.js"),
        file_answer("The asset.", "text/css", "text/javascript"),
        404,
    )
    async def get_docs_asset(self, request: Request) -> Response:
        """Get a file of `/docs`. Scripts and styles."""
        name = request.path_params["asset"]
        if name == "start.js":
            return page_response(request, START_SCRIPT, "text/javascript; charset=utf-8")
        if name not in ASSETS:
            raise PathNotFound(f"the page has no asset {name[:80]!a}")
        file, media_type = ASSETS[name]
        # Read for each request: few ask for it, and keeping it would cost every worker memory.
        return page_response(request, asset_path(file).read_bytes(), media_type)


def asset_path(file: str) -> Path:
    """Found without importing the package, which would load all of its files into memory."""
    spec = importlib.util.find_spec(ASSET_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"the package {ASSET_PACKAGE} is not installed")
    return Path(spec.submodule_search_locations[0], file)


def page_response(request: Request, body: bytes, media_type: str) -> Response:
    """A document that clients cache and revalidate by its ETag."""
    etag = hashlib.sha256(body).hexdigest()[:32]
    response = cached_response(request, body, etag, REVALIDATE)
    if response.status_code == 200:
        response.headers["content-type"] = media_type
    return response
