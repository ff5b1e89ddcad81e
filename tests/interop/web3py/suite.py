"""The tests that web3.py ships, with the fixtures that they ask for. Run by the Python of requirements/interop.txt.

CAIRN_HTTP is a dev chain that makes no block by itself within these tests, CAIRN_WS one that makes them all the time;
CAIRN_KEY is a dev account's key. Of web3.py's modules only those that steer and trace geth itself are left out.
"""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import pytest_asyncio  # type: ignore[import-not-found]
from eth_utils.address import to_canonical_address
from web3 import AsyncHTTPProvider, AsyncWeb3, HTTPProvider, Web3, WebSocketProvider
from web3._utils.module_testing.eth_module import AsyncEthModuleTest, EthModuleTest
from web3._utils.module_testing.go_ethereum_txpool_module import (
    GoEthereumAsyncTxPoolModuleTest,
    GoEthereumTxPoolModuleTest,
)
from web3._utils.module_testing.net_module import AsyncNetModuleTest, NetModuleTest
from web3._utils.module_testing.persistent_connection_provider import PersistentConnectionProviderTest
from web3._utils.module_testing.utils import RequestMocker
from web3._utils.module_testing.web3_module import AsyncWeb3ModuleTest, Web3ModuleTest
from web3.exceptions import Web3RPCError
from web3.middleware import Web3Middleware

HTTP = os.environ["CAIRN_HTTP"]
BLOCKS = 6
"""Tests read blocks by such small numbers."""
AWAITED = ("eth_getTransactionReceipt", "eth_getRawTransactionByBlockNumberAndIndex")
ENS_MIDDLEWARE = "ens_name_to_address"
"""Its asynchronous form looks for names, which there are none of here, and fails on objects in objects."""
CONTRACTS = (
    "block_with_txn_with_log",
    "emitter_contract",
    "emitter_contract_address",
    "math_contract",
    "math_contract_address",
    "math_contract_deploy_txn_hash",
    "offchain_lookup_contract",
    "panic_errors_contract",
    "revert_contract",
    "storage_contract",
    "txn_hash_with_log",
)


class MineOnDemand(Web3Middleware):
    """Makes a block when a test looks for what is in none yet: no test depends on when blocks come."""

    def response_processor(self, method: Any, response: Any) -> Any:
        if method in AWAITED and response.get("result") is None:
            mine()
        return response

    async def async_response_processor(self, method: Any, response: Any) -> Any:
        return self.response_processor(method, response)


def mine() -> None:
    Web3(HTTPProvider(HTTP)).provider.make_request("evm_mine", [])  # type: ignore[arg-type]


def no_contract() -> None:
    pytest.fail("there are no contracts", pytrace=False)


for contract in CONTRACTS:
    for prefix in ("", "async_"):
        globals()[f"{prefix}{contract}"] = pytest.fixture(name=prefix + contract)(lambda: no_contract())


@pytest.fixture(scope="session")
def w3() -> Web3:
    client = Web3(HTTPProvider(HTTP))
    client.middleware_onion.inject(MineOnDemand, layer=0)
    return client


@pytest_asyncio.fixture  # type: ignore[untyped-decorator]
async def async_w3() -> AsyncIterator[Any]:
    client: Any = AsyncWeb3(AsyncHTTPProvider(HTTP))
    client.middleware_onion.inject(MineOnDemand, layer=0)
    yield client
    await client.provider.disconnect()


@pytest.fixture(scope="session")
def keyfile_account_pkey() -> str:
    return os.environ["CAIRN_KEY"]


@pytest.fixture(scope="session")
def keyfile_account_address(w3: Web3, keyfile_account_pkey: str) -> str:
    return str(w3.eth.account.from_key(keyfile_account_pkey).address)


@pytest.fixture(scope="session", params=["text", "bytes"])
def keyfile_account_address_dual_type(keyfile_account_address: str, request: pytest.FixtureRequest) -> str | bytes:
    return keyfile_account_address if request.param == "text" else to_canonical_address(keyfile_account_address)


@pytest.fixture(scope="session")
def async_keyfile_account_address(keyfile_account_address: str) -> str:
    return keyfile_account_address


@pytest.fixture(scope="session")
def async_keyfile_account_address_dual_type(keyfile_account_address: str) -> str:
    """Text only: some of these tests compare it with text."""
    return keyfile_account_address


@pytest.fixture(scope="session")
def empty_block(w3: Web3) -> Any:
    for _ in range(BLOCKS):
        mine()
    return w3.eth.get_block(BLOCKS)


@pytest.fixture(scope="session", autouse=True)
def mined_txn_hash(w3: Web3, keyfile_account_address: Any, empty_block: Any) -> Any:
    """To the miner of genesis, who has earned something on every chain that these tests know."""
    miner = w3.eth.get_block(0)["miner"]
    tx_hash = w3.eth.send_transaction({"from": keyfile_account_address, "to": miner, "value": 1})  # type: ignore[typeddict-item]
    w3.eth.wait_for_transaction_receipt(tx_hash)
    return tx_hash


@pytest.fixture(scope="session")
def block_with_txn(w3: Web3, mined_txn_hash: Any) -> Any:
    return w3.eth.get_block(w3.eth.get_transaction(mined_txn_hash)["blockNumber"])


@pytest.fixture(scope="session")
def async_empty_block(empty_block: Any) -> Any:
    return empty_block


@pytest.fixture(scope="session")
def async_block_with_txn(block_with_txn: Any) -> Any:
    return block_with_txn


@pytest.fixture
def skip_if_testrpc() -> Callable[[object], None]:
    return lambda w3: None


@pytest.fixture
def async_skip_if_testrpc() -> Callable[[object], None]:
    return lambda w3: None


@pytest.fixture
def request_mocker() -> type[RequestMocker]:
    return RequestMocker


def refused_as_typed_data() -> AbstractContextManager[Any]:
    """The test itself waits for a ValueError, which a node's refusal was up to web3.py 6."""
    return pytest.raises(Web3RPCError, match=r"Expected 2 items for array type Person\[2\], got 1 items")


class TestEth(EthModuleTest):
    def test_invalid_eth_sign_typed_data(
        self, w3: Any, keyfile_account_address_dual_type: Any, skip_if_testrpc: Any
    ) -> None:
        with refused_as_typed_data():
            super().test_invalid_eth_sign_typed_data(w3, keyfile_account_address_dual_type, skip_if_testrpc)


class TestAsyncEth(AsyncEthModuleTest):
    @pytest.mark.asyncio
    async def test_eth_sign_typed_data(
        self, async_w3: Any, async_keyfile_account_address_dual_type: Any, async_skip_if_testrpc: Any
    ) -> None:
        async_w3.middleware_onion.remove(ENS_MIDDLEWARE)
        await super().test_eth_sign_typed_data(async_w3, async_keyfile_account_address_dual_type, async_skip_if_testrpc)

    @pytest.mark.asyncio
    async def test_invalid_eth_sign_typed_data(
        self, async_w3: Any, async_keyfile_account_address_dual_type: Any, async_skip_if_testrpc: Any
    ) -> None:
        async_w3.middleware_onion.remove(ENS_MIDDLEWARE)
        with refused_as_typed_data():
            await super().test_invalid_eth_sign_typed_data(
                async_w3, async_keyfile_account_address_dual_type, async_skip_if_testrpc
            )


class TestNet(NetModuleTest):
    pass


class TestAsyncNet(AsyncNetModuleTest):
    pass


class TestTxPool(GoEthereumTxPoolModuleTest):
    pass


class TestAsyncTxPool(GoEthereumAsyncTxPoolModuleTest):
    pass


class TestWeb3(Web3ModuleTest):
    def _check_web3_client_version(self, client_version: str) -> None:  # type: ignore[override]
        assert client_version.startswith("Cairn/v")


class TestAsyncWeb3(AsyncWeb3ModuleTest):
    def _check_web3_client_version(self, client_version: str) -> None:  # type: ignore[override]
        assert client_version.startswith("Cairn/v")


class TestPersistentConnection(PersistentConnectionProviderTest):
    @pytest_asyncio.fixture  # type: ignore[untyped-decorator]
    async def async_w3(self) -> AsyncIterator[Any]:
        async with AsyncWeb3(WebSocketProvider(os.environ["CAIRN_WS"])) as client:
            yield client
