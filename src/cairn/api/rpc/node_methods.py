"""Information about the node: `net_` and `web3_`, the chain id, `eth_syncing`."""

import cairn
from cairn.api.rpc.block_tags import RpcChain
from cairn.api.rpc.dispatch import Method
from cairn.api.rpc.values import data, parse_data, quantity
from cairn.domain.crypto import keccak256

MODULES = ("debug", "eth", "net", "rpc", "txpool", "web3")
DEV_MODULES = ("anvil", "evm", "hardhat", "personal")


class NamingMethods:
    def __init__(self, chain: RpcChain) -> None:
        self._chain = chain

    def methods(self) -> dict[str, Method]:
        return {
            "eth_chainId": self.chain_id,
            "eth_syncing": self.syncing,
            "net_version": self.version,
            "net_listening": self.listening,
            "net_peerCount": self.peer_count,
            "web3_clientVersion": self.client_version,
            "web3_sha3": self.sha3,
            "eth_coinbase": self.coinbase,
            "rpc_modules": self.modules,
        }

    async def chain_id(self) -> str:
        return quantity(self._chain.info.chain_id)

    async def syncing(self) -> bool:
        """Always false: every block that a node shows is final and on its disk."""
        return False

    async def version(self) -> str:
        return str(self._chain.info.chain_id)

    async def listening(self) -> bool:
        return True

    async def peer_count(self) -> str:
        """Always 0: only CometBFT connects to peers, and none of them speaks Ethereum's protocol."""
        return "0x0"

    async def client_version(self) -> str:
        return f"Cairn/v{cairn.__version__}"

    async def coinbase(self) -> str:
        """The proposer of the latest block."""
        return data(self._chain.view.get_header(await self._chain.view.reach_head())[1].proposer)

    async def modules(self) -> dict[str, str]:
        return dict.fromkeys(MODULES + DEV_MODULES if self._chain.info.signs_for else MODULES, "1.0")

    async def sha3(self, content: object) -> str:
        return data(keccak256(parse_data(content, "data")))
