"""The chain as calls refer to it: the block of a number, tag or hash, the state after it, and transactions."""

from collections.abc import Callable

from cairn.api.chain_view import ChainView
from cairn.api.next_nonces import NextNonces
from cairn.api.rpc.caller import LargeAnswers
from cairn.api.rpc.dispatch import Later
from cairn.api.rpc.values import SERVER_ERROR, BlockName, RpcError
from cairn.core.gateway import ChainInfo, ConfirmedTx, CoreGateway, DroppedTx, PendingTx
from cairn.domain.types import Tx, TxHash


class RpcChain:
    def __init__(self, gateway: CoreGateway, view: ChainView, nonces: NextNonces) -> None:
        self.gateway = gateway
        self.view = view
        self.nonces = nonces
        self.large_answers = LargeAnswers(kept_by_batches=True)
        """Held by a method while it makes one from the store; nothing in it may wait for a client or the core."""

    @property
    def info(self) -> ChainInfo:
        """What the core has announced of the chain. Raises `Unavailable` until then."""
        return self.view.get_info()

    def shown_height(self, block: BlockName) -> int | None:
        """The named height, if reads show it now; None if it must be waited for, or does not exist."""
        view = self.view
        if block.hash is not None:
            return view.find_height(block.hash)
        if block.tag == "earliest":
            view.get_info()
            return view.base
        if block.height is None:
            # Every block is final, so latest, safe and finalized are the same; pending has their state, too.
            return view.height if view.is_at_head() else None
        return block.height if block.height <= view.height and view.base <= block.height else None

    async def find_height(self, block: BlockName) -> int | None:
        """The named height; None for a block that does not exist, or is no longer kept."""
        found = self.shown_height(block)
        if found is not None:
            return found
        if block.height is None or block.height > self.view.height:
            head = await self.view.reach_head()
            return head if block.height is None and block.hash is None else self.shown_height(block)
        return None

    async def state_height(self, block: BlockName) -> int:
        """The height whose state is asked for. Raises `RpcError` or `BlockNotFound`."""
        height = await self.find_height(block)
        if height is not None:
            return height
        if block.height is not None:
            self.view.reader_at(block.height)
        raise RpcError(SERVER_ERROR, "header not found" if block.hash is None else "header for hash not found")

    # Results that need a height: at once, if reads show it.

    def at_block(self, block: BlockName, show: Callable[[int], object]) -> object:
        """What `show` makes of the named height; None for a block that does not exist, or is no longer kept."""
        height = self.shown_height(block)
        return Later(self._at_block, block, show) if height is None else show(height)

    async def _at_block(self, block: BlockName, show: Callable[[int], object]) -> object:
        height = await self.find_height(block)
        return None if height is None else show(height)

    def at_state(self, block: BlockName, show: Callable[[int], object]) -> object:
        """What `show` makes of the height whose state is asked for. Raises `RpcError` or `BlockNotFound`."""
        height = self.shown_height(block)
        return Later(self._at_state, block, show) if height is None else show(height)

    async def _at_state(self, block: BlockName, show: Callable[[int], object]) -> object:
        return show(await self.state_height(block))

    # Transactions.

    async def find_tx(self, tx_hash: TxHash) -> Tx | tuple[int, int] | None:
        """A pending transaction itself, or height and position of a confirmed one."""
        found = await self.locate(tx_hash)
        if isinstance(found, PendingTx):
            return found.tx
        return None if isinstance(found, DroppedTx) else found

    async def locate(self, tx_hash: TxHash) -> PendingTx | DroppedTx | tuple[int, int] | None:
        """The status of a transaction; height and position of a confirmed one."""
        self.view.get_info()
        location = self.view.find_location(tx_hash)
        if location is not None:
            return location
        found = await self.gateway.find_tx(tx_hash)
        if not isinstance(found, ConfirmedTx):
            return found
        await self.view.reach(found.height)
        # None when the block has been pruned meanwhile.
        return self.view.find_location(tx_hash)


class MethodGroup:
    """Methods of JSON-RPC that share the chain; `rpc_method` gives each its name."""

    def __init__(self, chain: RpcChain) -> None:
        self._chain = chain
        self._view = chain.view
        self._gateway = chain.gateway
