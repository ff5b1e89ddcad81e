"""Filters: each thing once, none lost, and not too many."""

from pathlib import Path

import pytest

from cairn.core import filters
from cairn.domain.errors import StoreUnavailable
from tests.support.core_fixtures import settings
from tests.support.rest_node import RestNode, rest_node
from tests.support.rpc_node import RECIPIENT, call, refusal, send


async def test_a_filter_returns_each_change_once(node: RestNode) -> None:
    await send(node, 0)
    blocks = await call(node, "eth_newBlockFilter")
    pending = await call(node, "eth_newPendingTransactionFilter")
    logs = await call(node, "eth_newFilter", {"address": RECIPIENT})
    assert await call(node, "eth_getFilterChanges", blocks) == []
    hashes = [await send(node, nonce) for nonce in (1, 2)]
    node.mine()
    node.mine()
    mined = [(await call(node, "eth_getBlockByNumber", height, False))["hash"] for height in ("0x1", "0x2")]
    assert await call(node, "eth_getFilterChanges", blocks) == mined
    assert await call(node, "eth_getFilterChanges", pending) == hashes
    for name in (blocks, pending, logs):
        assert await call(node, "eth_getFilterChanges", name) == []
    assert await call(node, "eth_getFilterLogs", logs) == []
    assert await refusal(node, "eth_getFilterLogs", blocks) == (-32000, "filter not found")
    assert await call(node, "eth_uninstallFilter", blocks) is True
    assert await call(node, "eth_uninstallFilter", blocks) is False
    assert await refusal(node, "eth_getFilterChanges", blocks) == (-32000, "filter not found")


async def test_a_failed_answer_loses_no_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unreachable(height: int) -> None:
        raise StoreUnavailable(f"this worker cannot read block {height} yet")

    async with rest_node(tmp_path, settings(), hears_late=True) as node:
        name = await call(node, "eth_newBlockFilter")
        node.mine()
        with monkeypatch.context() as patched:
            patched.setattr(node.view, "reach", unreachable)
            code, _ = await refusal(node, "eth_getFilterChanges", name)
        assert code == -32002
        mined = (await call(node, "eth_getBlockByNumber", "0x1", False))["hash"]
        assert await call(node, "eth_getFilterChanges", name) == [mined]


async def test_too_many_filters_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "MAX_FILTERS", 1)
    async with rest_node(tmp_path) as node:
        name = await call(node, "eth_newBlockFilter")
        for method in ("eth_newBlockFilter", "eth_newPendingTransactionFilter"):
            assert await refusal(node, method) == (-32005, "limit exceeded: too many filters")
        assert await call(node, "eth_getFilterChanges", name) == []
