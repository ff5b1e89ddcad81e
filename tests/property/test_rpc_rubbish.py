"""Whatever is sent to /rpc: an answer of JSON-RPC, or one of HTTP that says why not, and never a failure of ours."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.core_fixtures import signed
from tests.support.rest_node import RestNode, rest_node
from tests.support.rpc_messages import METHODS, messages_of, values
from tests.support.rpc_node import raw


def check(answer: Any) -> None:
    """One answer of JSON-RPC, which is no failure of ours."""
    assert answer["jsonrpc"] == "2.0"
    assert ("result" in answer) != ("error" in answer)
    if "error" in answer:
        assert isinstance(answer["error"]["code"], int)
        assert answer["error"]["code"] != -32603, answer
        assert answer["error"]["message"]


class OpenNode:
    """A node that stays open over all examples, on a loop of its own."""

    def __init__(self, directory: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._opening = rest_node(directory)
        self._node: RestNode = self._loop.run_until_complete(self._opening.__aenter__())
        self.post(
            json.dumps(
                {"jsonrpc": "2.0", "method": "eth_sendRawTransaction", "params": [raw(signed(0, data=b"\0"))]}
            ).encode()
        )
        self._loop.run_until_complete(self._mine())

    async def _mine(self) -> None:
        self._node.mine()

    def close(self) -> None:
        self._loop.run_until_complete(self._opening.__aexit__(None, None, None))
        self._loop.close()

    def post(self, body: bytes) -> list[Any]:
        """The answers, however many."""
        headers = {"content-type": "application/json"}
        answer = self._loop.run_until_complete(self._node.http.post("/rpc", content=body, headers=headers))
        assert answer.status_code in (200, 204), answer.text
        content = json.loads(answer.content) if answer.content else []
        return content if isinstance(content, list) else [content]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenNode]:
    opened = OpenNode(tmp_path_factory.mktemp("node"))
    yield opened
    opened.close()


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(message=messages_of(METHODS))
def test_any_json_gets_a_valid_json_rpc_answer(node: OpenNode, message: object) -> None:
    for answer in node.post(json.dumps(message).encode()):
        check(answer)


@settings(max_examples=100)
@given(body=st.binary(max_size=200))
def test_any_bytes_get_a_valid_json_rpc_answer(node: OpenNode, body: bytes) -> None:
    for answer in node.post(body):
        check(answer)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(method=st.sampled_from(METHODS), params=st.lists(values, max_size=4))
def test_any_arguments_of_any_method_get_a_valid_json_rpc_answer(
    node: OpenNode, method: str, params: list[Any]
) -> None:
    (answer,) = node.post(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode())
    check(answer)
