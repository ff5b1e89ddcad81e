"""`?amounts=string`: the same answers, with every amount as a string of digits."""

import json
from pathlib import Path
from typing import Any

import pytest

from cairn.api.bodies import AMOUNT_FIELDS
from tests.support.core_fixtures import ACCOUNTS, GWEI, settings, signed
from tests.support.described import assert_described
from tests.support.public import assert_problem
from tests.support.rest_node import RestNode, body_of, hash_of, rest_node, without

SENDER = "0x" + ACCOUNTS[0].hex()
LARGE = 9_000 * 10**18 + 1
"""A double would round it."""


def with_strings(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {inner: with_strings(member, inner) for inner, member in value.items()}
    if isinstance(value, list):
        return [with_strings(item) for item in value]
    return str(value) if name in AMOUNT_FIELDS else value


async def fill(node: RestNode) -> tuple[str, str]:
    """A confirmed transaction and a pending one."""
    legacy = without(body_of(signed(0, value=LARGE)), "signature", "gasPrice")
    confirmed = await node.post(legacy | {"maxFeePerGas": 3 * GWEI, "maxPriorityFeePerGas": "5"})
    assert confirmed.status_code == 200, confirmed.text
    node.mine()
    pending = signed(1)
    assert (await node.post(body_of(pending))).status_code == 200
    return confirmed.json()["txHash"], hash_of(pending)


async def test_amounts_string_writes_every_amount_of_an_answer_as_a_string(node: RestNode) -> None:
    confirmed, pending = await fill(node)
    amounts = 0
    for path in (
        f"/tx/{confirmed}", f"/tx/{pending}", f"/tx/{confirmed}/proof", "/mempool", f"/account/{SENDER}",
        f"/account/{SENDER}/txs", "/chain", "/block/latest", "/blocks", "/block/1",
    ):  # fmt: skip
        numbers, strings = await node.get(path), await node.get(f"{path}?amounts=string")
        assert_described(strings)
        assert json.loads(strings.text) == with_strings(json.loads(numbers.text)), path
        assert (await node.get(f"{path}?amounts=number")).content == numbers.content
        amounts += strings.content != numbers.content
    assert amounts == 10
    shown = await node.read(f"/tx/{confirmed}?amounts=string")
    assert (shown["value"], shown["maxFeePerGas"], shown["type"]) == (str(LARGE), str(3 * GWEI), 2)
    assert (await node.read("/block/latest?amounts=string"))["baseFeePerGas"] == str(GWEI)


async def test_the_link_to_the_next_page_keeps_the_form_of_amounts(node: RestNode) -> None:
    await fill(node)
    assert (await node.post(body_of(signed(2)))).status_code == 200
    first = await node.get("/mempool?limit=1&amounts=string")
    second = await node.get(first.links["next"]["url"])
    assert [type(item["value"]) for item in (*first.json(), *second.json())] == [str, str]


@pytest.mark.parametrize("block_time_s", [0.0, 0.25, 3.0])
async def test_the_chain_says_its_block_time_as_a_number(tmp_path: Path, block_time_s: float) -> None:
    async with rest_node(tmp_path, settings(block_time_s=block_time_s)) as node:
        for query in ("", "?amounts=string"):
            answer = await node.get(f"/chain{query}")
            assert_described(answer)
            # Never as an integer: a client whose integers are another type would have two types for it.
            assert f'"blockTime":{block_time_s!r},'.encode() in answer.content


async def test_an_unknown_form_of_amounts_is_refused_before_any_waiting(node: RestNode) -> None:
    for path in (f"/tx/0x{'ab' * 32}?wait=60&", "/mempool?", "/block/latest?", f"/account/{SENDER}?"):
        assert_problem(await node.get(f"{path}amounts=hex"), 400, "INVALID_QUERY")
