"""Filters, which clients poll, and logs, of which this chain has none."""

from cairn.api.rpc.caller import current_caller
from cairn.api.rpc.dispatch import Later, rpc_method
from cairn.api.rpc.rpc_chain import MethodGroup
from cairn.api.rpc.values import (
    LIMIT_EXCEEDED,
    SERVER_ERROR,
    InvalidParams,
    RpcError,
    data,
    parse_block_number,
    parse_hash,
)
from cairn.core.gateway import FilterChanges, FilterKind
from cairn.time_shares import in_slices

MAX_BLOCKS = 10_000
"""The most block hashes in one answer. If there are more, the oldest are left out."""


class FilterMethods(MethodGroup):
    """The core stores the filters, because a client's next request may reach another worker."""

    @rpc_method("eth_getLogs")
    def get_logs(self, wanted: object) -> object:
        """Always an empty list: a transfer logs nothing."""
        last = last_named(wanted)
        return [] if last is None or last <= self._view.height else Later(self._get_logs_up_to, last)

    async def _get_logs_up_to(self, last: int) -> list[str]:
        if last > await self._view.reach_head():
            raise InvalidParams("block range extends beyond current head block")
        return []

    @rpc_method("eth_newFilter")
    async def new_log_filter(self, wanted: object) -> str:
        last_named(wanted)
        return await self._create("logs")

    @rpc_method("eth_newBlockFilter")
    async def new_block_filter(self) -> str:
        return await self._create("blocks")

    @rpc_method("eth_newPendingTransactionFilter")
    async def new_pending_filter(self, full: object = None) -> str:
        return await self._create("transactions")

    async def _create(self, kind: FilterKind) -> str:
        name = await self._gateway.create_filter(kind, current_caller.get().client)
        if name is None:
            raise RpcError(LIMIT_EXCEEDED, "limit exceeded: too many filters")
        return name

    @rpc_method("eth_getFilterChanges")
    async def get_changes(self, name: object) -> list[str]:
        reverts = self._view.reverts
        changes = await self._changes(name)
        if changes.kind == "transactions":
            return [data(tx_hash) async for tx_hash in in_slices(changes.tx_hashes)]
        first = max(changes.first_height, changes.last_height - MAX_BLOCKS + 1)
        return [
            data(self._view.block_hash(height))
            async for height in self._view.in_slices(range(first, changes.last_height + 1), reverts)
            # Other requests were served, and the oldest blocks may have been removed.
            if height >= self._view.base
        ]

    @rpc_method("eth_getFilterLogs")
    async def get_filter_logs(self, name: object) -> list[str]:
        if (await self._changes(name)).kind != "logs":
            raise filter_not_found()
        return []

    async def _changes(self, name: object) -> FilterChanges:
        filter_name = parse_name(name)
        # The filter must not advance past what this worker can read: the client would miss the blocks after that.
        shown = await self._view.reach_head()
        changes = await self._gateway.find_changes(filter_name, shown)
        if changes is None:
            raise filter_not_found()
        return changes

    @rpc_method("eth_uninstallFilter")
    async def uninstall(self, name: object) -> bool:
        return await self._gateway.remove_filter(parse_name(name))


def parse_name(name: object) -> str:
    if not isinstance(name, str):
        raise InvalidParams("invalid argument 0: expected the id of a filter")
    return name


def filter_not_found() -> RpcError:
    return RpcError(SERVER_ERROR, "filter not found")


def last_named(wanted: object) -> int | None:
    """The highest block number that a log filter names. Raises `InvalidParams` for a range that is not valid.

    The rest of the filter does not matter, since there are no logs.
    """
    if not isinstance(wanted, dict):
        raise InvalidParams("invalid argument 0: expected a filter object")
    if wanted.get("blockHash") is not None:
        parse_hash(wanted["blockHash"], "blockHash")
        if wanted.get("fromBlock") is not None or wanted.get("toBlock") is not None:
            raise InvalidParams(
                "invalid argument 0: cannot specify both BlockHash and FromBlock/ToBlock, choose one or the other"
            )
    first, last = (
        None if wanted.get(name) is None else parse_block_number(wanted[name], name).height
        for name in ("fromBlock", "toBlock")
    )
    if first is not None and last is not None and first > last:
        raise InvalidParams("invalid block range params")
    return first if last is None else last
