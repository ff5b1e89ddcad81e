"""The explorer at `/`: a page and its files, all from this node."""

from starlette.requests import Request
from starlette.responses import Response

from cairn.api.description.static_files import file_response
from cairn.api.rest.operation import Operation, file_answer
from cairn.api.rest.parameters import Parameter, text_of
from cairn.domain.errors import PathNotFound
from cairn.explorer import STATIC_DIRECTORY

PAGE = "index.html"


class Explorer:
    """Its routes exist on every node; one whose settings switch it off answers that there is no such path."""

    def __init__(self, is_on: bool) -> None:
        self._is_on = is_on

    @Operation("GET /", "description", file_answer("HTML.", "text/html"), 404)
    async def get_explorer(self, request: Request) -> Response:
        """Open the explorer, a page that shows the chain. 404 if it is switched off."""
        return self._serve(request, PAGE)

    @Operation(
        "GET /explorer/{asset}",
        "description",
        Parameter("asset", "Name of the file.", text_of(r"^[a-z0-9]+\.(js|css|html|svg)$"), "api.js"),
        file_answer("The file.", "text/javascript", "text/css", "text/html", "image/svg+xml"),
        404,
    )
    async def get_explorer_asset(self, request: Request) -> Response:
        """Get a file of the explorer. 404 if it is switched off."""
        return self._serve(request, request.path_params["asset"])

    @Operation(
        "GET /explorer/views/{asset}",
        "description",
        Parameter("asset", "Name of the file.", text_of(r"^[a-z]+\.js$"), "block.js"),
        file_answer("The file.", "text/javascript"),
        404,
    )
    async def get_explorer_view(self, request: Request) -> Response:
        """Get a view of the explorer. 404 if it is switched off."""
        return self._serve(request, f"views/{request.path_params['asset']}")

    def _serve(self, request: Request, name: str) -> Response:
        if not self._is_on:
            raise PathNotFound("the explorer is switched off; the setting explorer switches it on")
        return file_response(request, STATIC_DIRECTORY, name)
