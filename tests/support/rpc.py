"""JSON-RPC over HTTP in one function, for tests that are not about the libraries."""

import json
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

from tests.support.pace import PATIENCE_S


class RpcRefused(Exception):
    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]


def rpc(url: str, method: str, *params: object) -> Any:
    """The result of one call, over a connection of its own. Raises `RpcRefused`."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    with closing(HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE_S)) as connection:
        connection.request("POST", "/rpc", body, {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
    if "error" in answer:
        raise RpcRefused(answer["error"])
    return answer["result"]
