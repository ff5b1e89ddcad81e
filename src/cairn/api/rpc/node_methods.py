"""Information about the node: `net_` and `web3_`, the chain id, `eth_syncing`, its size on disk."""

import asyncio
from pathlib import Path

import cairn
from cairn.api.rpc.dispatch import rpc_method
from cairn.api.rpc.rpc_chain import MethodGroup, RpcChain
from cairn.api.rpc.values import LATEST, data, parse_data, quantity
from cairn.domain.crypto import keccak256
from cairn.store.directory import size_on_disk

SIZE_LIFETIME_S = 5.0
"""How long a measured size is repeated: measuring looks at every file."""
MODULES = ("cairn", "debug", "eth", "net", "rpc", "txpool", "web3")
DEV_MODULES = ("anvil", "evm", "hardhat", "personal")


class NodeMethods(MethodGroup):
    def __init__(self, chain: RpcChain) -> None:
        super().__init__(chain)
        self._measuring: asyncio.Task[int] | None = None
        self._measured_at = 0.0

    @rpc_method("eth_chainId")
    def chain_id(self) -> str:
        return quantity(self._chain.info.chain_id)

    @rpc_method("eth_syncing")
    def syncing(self) -> bool:
        """Always false: every block that a node shows is final and on its disk."""
        return False

    @rpc_method("net_version")
    def version(self) -> str:
        return str(self._chain.info.chain_id)

    @rpc_method("net_listening")
    def listening(self) -> bool:
        return True

    @rpc_method("net_peerCount")
    async def peer_count(self) -> str:
        """The nodes of the network that CometBFT is connected to."""
        if self._chain.info.engine == "embedded":
            return "0x0"
        return quantity((await self._gateway.status()).peers)

    @rpc_method("cairn_dataSize")
    async def data_size(self) -> str:
        """Bytes that the data directory occupies, as of a few seconds ago."""
        path = self._chain.info.store_path
        if not path:
            raise self._view.why_unavailable()
        now = asyncio.get_running_loop().time()
        if self._measuring is None or (self._measuring.done() and now - self._measured_at >= SIZE_LIFETIME_S):
            self._measured_at = now
            # In a thread: a slow disk must not keep other requests waiting.
            self._measuring = asyncio.create_task(asyncio.to_thread(size_on_disk, Path(path)))
        return quantity(await asyncio.shield(self._measuring))

    @rpc_method("web3_clientVersion")
    def client_version(self) -> str:
        return f"Cairn/v{cairn.__version__}"

    @rpc_method("eth_coinbase")
    def coinbase(self) -> object:
        """The proposer of the latest block."""
        return self._chain.at_block(LATEST, lambda height: data(self._view.get_header(height)[1].proposer))

    @rpc_method("rpc_modules")
    def modules(self) -> dict[str, str]:
        return dict.fromkeys(MODULES + DEV_MODULES if self._chain.info.signs_for else MODULES, "1.0")

    @rpc_method("web3_sha3")
    def sha3(self, content: object) -> str:
        return data(keccak256(parse_data(content, "data")))
