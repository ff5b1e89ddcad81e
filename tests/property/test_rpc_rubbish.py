"""Whatever is sent to /rpc: an answer of JSON-RPC, or one of HTTP that says why not, and never a failure of ours."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cairn.api.chain_view import ChainView
from cairn.api.rpc.methods import make_methods
from tests.support.core_fixtures import ACCOUNTS, signed
from tests.support.rest_node import RestNode, hash_of, rest_node
from tests.support.rpc_node import raw
from tests.support.scripted_gateway import ScriptedGateway

METHODS = sorted(
    # What makes blocks or goes back is tested where it is meant to happen.
    name
    for name in make_methods(ScriptedGateway(), ChainView(Path("unused")))
    if name.split("_")[0] in ("eth", "net", "web3", "txpool")
)
SENDER = "0x" + ACCOUNTS[0].hex()

hex_digits = st.text("0123456789abcdefABCDEF", max_size=70)
telling = st.sampled_from(
    [
        SENDER,
        "latest",
        "pending",
        "earliest",
        "0x0",
        "0x1",
        "0x01",
        hash_of(signed(0, data=b"\0")),
        raw(signed(1)),
        raw(signed(1, data=b"invoice 4711")),
        "0x" + "00" * 32,
    ]
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | telling
    | hex_digits.map("0x".__add__)
)
FIELDS = [
    "from",
    "to",
    "value",
    "gas",
    "gasPrice",
    "nonce",
    "data",
    "input",
    "type",
    "chainId",
    "blockNumber",
    "blockHash",
    "toBlock",
    "blockStateCalls",
    "calls",
    "stateOverrides",
    "blockOverrides",
    "baseFeePerGas",
]
names = st.sampled_from(FIELDS) | st.text(max_size=5)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=6),
    max_leaves=10,
)
calls = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "method": st.sampled_from(METHODS), "params": st.lists(values, max_size=4)},
    optional={"id": scalars},
)
messages = calls | st.lists(calls | values, max_size=5) | values


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
@given(message=messages)
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
