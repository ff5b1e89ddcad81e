"""The methods that sign on a dev chain, held against a wallet that knows nothing of ours."""

import asyncio
import json
import subprocess
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import Any

import eth_account
import msgspec
import pytest
from eth_account import Account
from eth_account.messages import encode_defunct, encode_typed_data

from cairn import metrics
from cairn.api.rpc.methods import make_methods
from tests.support.core_fixtures import ACCOUNTS, CHAIN_ID, GWEI, settings
from tests.support.pace import PATIENCE_S
from tests.support.rest_node import RestNode, rest_node, without
from tests.support.rpc_node import call, refusal
from tests.support.wallet import dev_account

ALICE = dev_account(0).address
BOB = dev_account(1).address
STRANGER = "0x" + "ab" * 20
MESSAGE = "0x" + b"pay the shop".hex()
TYPED: dict[str, Any] = {
    "types": {
        "EIP712Domain": [{"name": "name", "type": "string"}, {"name": "chainId", "type": "uint256"}],
        "Order": [{"name": "item", "type": "string"}, {"name": "price", "type": "uint256"}],
    },
    "primaryType": "Order",
    "domain": {"name": "Shop", "chainId": CHAIN_ID},
    "message": {"item": "coffee", "price": 3},
}
FIELDS = {"from": ALICE, "to": BOB, "value": "0x7", "gas": "0x5208", "gasPrice": hex(GWEI), "nonce": "0x3"}


async def test_signatures_are_those_of_a_wallet(node: RestNode) -> None:
    signed = Account.sign_message(encode_defunct(hexstr=MESSAGE), dev_account(0).key).signature.to_0x_hex()
    assert await call(node, "eth_sign", ALICE, MESSAGE) == signed
    assert await call(node, "personal_sign", MESSAGE, ALICE) == signed
    assert await call(node, "personal_sign", MESSAGE, ALICE, "password") == signed
    typed = Account.sign_message(encode_typed_data(full_message=TYPED), dev_account(1).key).signature.to_0x_hex()
    assert await call(node, "eth_signTypedData", BOB, TYPED) == typed
    assert await call(node, "eth_signTypedData_v4", BOB, TYPED) == typed
    assert await call(node, "eth_signTypedData_v4", BOB, json.dumps(TYPED)) == typed


async def test_an_array_of_another_size_than_its_type_is_not_signed(node: RestNode) -> None:
    sized = {"EIP712Domain": TYPED["types"]["EIP712Domain"], "Order": [{"name": "items", "type": "Item[2][]"}]}
    sized |= {"Item": [{"name": "codes", "type": "uint8[3]"}]}
    item = {"codes": [1, 2, 3]}

    def typed(items: object) -> dict[str, Any]:
        return TYPED | {"types": sized, "message": {"items": items}}

    fitting = typed([[item, item], [item, item]])
    signed = Account.sign_message(encode_typed_data(full_message=fitting), dev_account(0).key).signature
    assert await call(node, "eth_signTypedData_v4", ALICE, fitting) == signed.to_0x_hex()
    for wrong, said in (
        (typed([[item, item], [item]]), "Expected 2 items for array type Item[2], got 1 items"),
        (typed([[item, {"codes": []}]]), "Expected 3 items for array type uint8[3], got 0 items"),
    ):
        refused = (-32602, f"typed data: {said}")
        assert await refusal(node, "eth_signTypedData_v4", ALICE, wrong) == refused
        assert await refusal(node, "eth_signTypedData_v4", ALICE, json.dumps(wrong)) == refused


async def test_typed_data_that_would_keep_a_worker_busy_is_not_signed(node: RestNode) -> None:
    types = {f"T{number}": [{"name": "x", "type": "string"}] for number in range(100)}
    types |= {"Order": [{"name": "items", "type": "Item[]"}, {"name": "more", "type": "Item[][]"}]}
    types |= {"Item": [{"name": f"t{number}", "type": f"T{number}"} for number in range(100)]}

    def typed(items: int, more: int) -> dict[str, Any]:
        message = {"items": [{}] * items, "more": [[{}] * more]}
        return without(TYPED, "types") | {"types": types, "domain": {"name": "Shop"}, "message": message}

    # With the order itself 164 objects, for each of which 304 fields are read; and then one object more.
    fitting = typed(100, 63)
    signed = Account.sign_message(encode_typed_data(full_message=fitting), dev_account(0).key).signature
    assert await call(node, "eth_signTypedData_v4", ALICE, fitting) == signed.to_0x_hex()
    refused = (-32602, "typed data: too many objects for so many types")
    assert await refusal(node, "eth_signTypedData_v4", ALICE, typed(100, 64)) == refused
    assert await refusal(node, "eth_signTypedData_v4", ALICE, typed(20_000, 0)) == refused
    lists = typed(0, 0) | {"types": {"Order": [{"name": "items", "type": "string[][]"}]}}
    fitting, more = ({**lists, "message": {"items": [[""] * items]}} for items in (4_999, 5_000))
    assert len(await call(node, "eth_signTypedData_v4", ALICE, fitting)) == 2 + 2 * 65
    refused = (-32602, "typed data: more than 5000 items in arrays")
    assert await refusal(node, "eth_signTypedData_v4", ALICE, more) == refused


async def test_typed_data_without_one_of_its_parts_is_refused(node: RestNode) -> None:
    for part in TYPED:
        refused = (-32602, f"typed data: {part} is missing")
        assert await refusal(node, "eth_signTypedData_v4", ALICE, without(TYPED, part)) == refused


def test_deeply_nested_typed_data_does_not_end_the_process() -> None:
    """In a process of its own: here other tests have imported what raises the limit."""
    program = f"""
import sys
import msgspec
from cairn.api.rpc.transaction_methods import typed_data_digest
from cairn.api.rpc.values import InvalidParams
limits = set()
sys.addaudithook(lambda event, _: limits.add(sys.getrecursionlimit()) if event == "import" else None)
typed_data_digest({TYPED!r})
print(len(limits), "limit")
for nested in ("[" * 120_000, '{{"a":' * 100_000):
    try:
        typed_data_digest(nested)
    except InvalidParams:
        print("refused")
    try:
        msgspec.json.decode(nested)
    except RecursionError:
        print("refused")
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    # The limit is the same during the import, too: the event loop goes on reading input.
    assert (ended.returncode, ended.stdout.splitlines()) == (0, ["1 limit", *["refused"] * 4]), ended.stderr


class PausedImport(MetaPathFinder, Loader):
    """Holds the import of the library for typed data until `goes_on` is set, or nobody does that."""

    def __init__(self) -> None:
        self.begun, self.goes_on = Event(), Event()
        self.was_released: list[bool] = []

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name == "eth_account.messages" else None

    def exec_module(self, module: ModuleType) -> None:
        self.begun.set()
        self.was_released.append(self.goes_on.wait(PATIENCE_S))
        vars(module)["encode_typed_data"] = encode_typed_data


async def test_others_are_served_while_the_library_for_typed_data_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = PausedImport()

    # As in a process that has not signed typed data yet.
    monkeypatch.setattr(eth_account, "messages", sys.modules["eth_account.messages"])
    monkeypatch.delitem(sys.modules, "eth_account.messages")
    monkeypatch.setattr(sys, "meta_path", [paused, *sys.meta_path])

    async with rest_node(tmp_path) as node:
        signing = asyncio.ensure_future(call(node, "eth_signTypedData_v4", ALICE, TYPED))
        while not paused.begun.is_set() and not signing.done():
            await asyncio.sleep(0.001)
        assert await call(node, "eth_blockNumber") == "0x0"
        paused.goes_on.set()
        assert len(await signing) == 2 + 2 * 65
        assert paused.was_released == [True], "the event loop stood still until the import went on by itself"


async def test_a_transaction_is_signed_and_not_sent(node: RestNode) -> None:
    signed = await call(node, "eth_signTransaction", FIELDS)
    fields: dict[str, Any] = {
        "to": BOB,
        "value": 7,
        "gas": 21_000,
        "gasPrice": GWEI,
        "nonce": 3,
        "chainId": CHAIN_ID,
    }
    wallets = dev_account(0).sign_transaction(fields)
    assert signed["raw"] == wallets.raw_transaction.to_0x_hex()
    assert (signed["tx"]["hash"], signed["tx"]["blockHash"]) == (wallets.hash.to_0x_hex(), None)
    assert await call(node, "txpool_status") == {"pending": "0x0", "queued": "0x0"}
    caps = {"maxFeePerGas": 3 * GWEI, "maxPriorityFeePerGas": 5}
    asked = without(FIELDS, "gasPrice") | {name: hex(value) for name, value in caps.items()}
    typed = await call(node, "eth_signTransaction", asked)
    dynamic = dev_account(0).sign_transaction(without(fields, "gasPrice") | caps)
    assert typed["raw"] == dynamic.raw_transaction.to_0x_hex()
    assert (typed["tx"]["hash"], typed["tx"]["type"]) == (dynamic.hash.to_0x_hex(), "0x2")
    least = await call(node, "eth_signTransaction", {"from": ALICE, "to": BOB})
    assert await call(node, "eth_sendRawTransaction", least["raw"]) == least["tx"]["hash"]
    assert (await call(node, "eth_signTransaction", {"from": ALICE, "to": BOB}))["tx"]["nonce"] == "0x1"


async def test_signing_for_strangers_and_malformed_arguments_are_refused(node: RestNode) -> None:
    for method, *params in (
        ("eth_sign", STRANGER, MESSAGE),
        ("personal_sign", MESSAGE, STRANGER),
        ("eth_signTypedData_v4", STRANGER, TYPED),
        ("eth_signTransaction", FIELDS | {"from": STRANGER}),
        ("eth_signTransaction", {"to": BOB}),
    ):
        assert await refusal(node, method, *params) == (-32000, "unknown account")
    out_of_shape: list[object] = [{}, "{", [], 5, TYPED | {"primaryType": "Nothing"}, TYPED | {"types": {}}]
    for wrong in out_of_shape:
        code, message = await refusal(node, "eth_signTypedData_v4", ALICE, wrong)
        assert (code, message[:10]) == (-32602, "typed data")
    assert (await refusal(node, "eth_sign", ALICE, "pay"))[0] == -32602


@pytest.mark.parametrize(
    "method",
    ["eth_sign", "personal_sign", "eth_signTypedData", "eth_signTypedData_v4", "eth_signTransaction", "anvil_nodeInfo"],
)
async def test_on_other_chains_the_methods_do_not_exist(node: RestNode, method: str) -> None:
    node.view.on_info(msgspec.structs.replace(node.core.info(), signs_for=[]))
    absent = f"the method {method} does not exist/is not available"
    assert await refusal(node, method, ALICE, MESSAGE) == (-32601, absent)
    assert "personal" not in await call(node, "rpc_modules")


async def test_methods_that_exist_on_other_chains_have_series_of_their_own(node: RestNode) -> None:
    node.view.on_info(msgspec.structs.replace(node.core.info(), signs_for=[]))
    others = make_methods(node.core, node.view).keys() - set(metrics.RPC_METHODS)
    assert [method for method in sorted(others) if (await refusal(node, method))[0] != -32601] == []


async def test_an_account_is_impersonated_where_the_node_has_its_key(node: RestNode) -> None:
    for tool in ("anvil", "hardhat"):
        assert await call(node, f"{tool}_impersonateAccount", ALICE) is None
        code, message = await refusal(node, f"{tool}_impersonateAccount", STRANGER)
        assert code == -32000
        assert message.startswith("no signer available")
        assert await call(node, f"{tool}_stopImpersonatingAccount", ALICE) is None


async def test_tools_recognise_a_dev_chain(tmp_path: Path) -> None:
    async with rest_node(tmp_path, settings(proposer=ACCOUNTS[7])) as node:
        await call(node, "evm_mine")
        block = await call(node, "eth_getBlockByNumber", "latest")
        info, metadata = await call(node, "anvil_nodeInfo"), await call(node, "hardhat_metadata")
        assert (info["currentBlockNumber"], info["currentBlockHash"]) == ("0x1", block["hash"])
        assert info["environment"]["chainId"] == metadata["chainId"] == CHAIN_ID
        assert (metadata["latestBlockNumber"], metadata["latestBlockHash"]) == (1, block["hash"])
        assert metadata["clientVersion"] == await call(node, "web3_clientVersion")
        await call(node, "evm_mine")
        assert (await call(node, "hardhat_metadata"))["instanceId"] == metadata["instanceId"]
        assert {"eth", "debug", "personal", "anvil"} <= (await call(node, "rpc_modules")).keys()
        assert await call(node, "eth_coinbase") == block["miner"]
