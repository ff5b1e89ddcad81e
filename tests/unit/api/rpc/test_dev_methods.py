"""The methods of anvil and hardhat: what they take, and what of it reaches the core."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cairn.api.chain_view import ChainView
from cairn.api.rpc.dispatch import Dispatcher
from cairn.api.rpc.methods import make_methods
from cairn.api.rpc.values import INVALID_PARAMS, METHOD_NOT_FOUND
from cairn.core.gateway import MiningMode
from cairn.domain.genesis import DEV_KEYS
from cairn.domain.types import Address
from tests.support.callers import local_caller
from tests.support.scripted_gateway import INFO, ScriptedGateway

SOMEBODY = "0x" + "5a" * 20
DEV_METHODS = [
    "evm_mine",
    "anvil_mine",
    "hardhat_mine",
    "evm_snapshot",
    "anvil_snapshot",
    "evm_revert",
    "anvil_revert",
    "anvil_setBalance",
    "hardhat_setBalance",
    "evm_setAccountBalance",
    "evm_increaseTime",
    "anvil_increaseTime",
    "evm_setNextBlockTimestamp",
    "anvil_setNextBlockTimestamp",
    "cairn_getMiningMode",
    "cairn_setMiningMode",
]


class DevCore(ScriptedGateway):
    """Writes down what it is asked to do."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[Any, ...]] = []

    async def mine(self, blocks: int = 1, interval_s: int = 0, timestamp: int | None = None) -> int:
        self.asked.append(("mine", blocks, interval_s, timestamp))
        return 1

    async def snapshot(self) -> int:
        return 17

    async def revert(self, snapshot: int) -> bool:
        self.asked.append(("revert", snapshot))
        return snapshot == 17

    async def set_balance(self, address: Address, balance: int) -> int:
        self.asked.append(("set_balance", address, balance))
        return 1

    async def increase_time(self, seconds: int) -> int:
        self.asked.append(("increase_time", seconds))
        return 1_000 + seconds

    async def set_automine(self, on: bool, alone: bool) -> None:
        self.asked.append(("set_automine", on, alone))

    async def set_mining_interval(self, seconds: float, alone: bool) -> None:
        self.asked.append(("set_mining_interval", seconds, alone))

    async def mining_mode(self) -> MiningMode:
        return MiningMode(automine=0.5, interval=None)

    async def set_mining_mode(self, mode: MiningMode) -> None:
        self.asked.append(("set_mining_mode", mode.automine, mode.interval))

    async def set_next_timestamp(self, timestamp: int) -> None:
        self.asked.append(("set_next_timestamp", timestamp))


def call(core: DevCore, method: str, *params: object, is_dev: bool = True) -> dict[str, Any]:
    view = ChainView(Path("unused"))
    view.info = msgspec.structs.replace(INFO, signs_for=[DEV_KEYS[0][0]] if is_dev else [])
    dispatcher = Dispatcher(make_methods(core, view), view.fail)
    message = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    answer = asyncio.run(dispatcher.answer(message, local_caller()))
    assert answer is not None
    decoded: dict[str, Any] = msgspec.json.decode(answer)
    return decoded


def result(core: DevCore, method: str, *params: object) -> object:
    answer = call(core, method, *params)
    assert "result" in answer, answer
    return answer["result"]


@pytest.mark.parametrize(
    ("params", "asked"),
    [
        ((), ("mine", 1, 0, None)),
        ((None,), ("mine", 1, 0, None)),
        ((2_000_000_000,), ("mine", 1, 0, 2_000_000_000)),
        (("0x77359400",), ("mine", 1, 0, 2_000_000_000)),
        (({"timestamp": 2_000_000_000, "blocks": 3},), ("mine", 3, 0, 2_000_000_000)),
        (({"blocks": "0x3"},), ("mine", 3, 0, None)),
        (({},), ("mine", 1, 0, None)),
    ],
)
def test_evm_mine_makes_the_blocks_that_are_asked_for(params: tuple[object, ...], asked: tuple[object, ...]) -> None:
    core = DevCore()
    assert result(core, "evm_mine", *params) == "0x0"
    assert core.asked == [asked]


@pytest.mark.parametrize("method", ["anvil_mine", "hardhat_mine"])
def test_many_blocks_are_made_some_at_a_time(method: str) -> None:
    core = DevCore()
    assert result(core, method) is True
    assert result(core, method, "0x3", "0x0") is True
    assert result(core, method, 120, 60) is True
    assert core.asked == [
        ("mine", 1, 0, None),
        ("mine", 3, 0, None),
        ("mine", 50, 60, None),
        ("increase_time", 60),
        ("mine", 50, 60, None),
        ("increase_time", 60),
        ("mine", 20, 60, None),
    ]


def test_mining_zero_blocks_makes_none() -> None:
    core = DevCore()
    assert result(core, "hardhat_mine", 0) is True
    assert core.asked == []


def test_a_snapshot_is_made_and_reverted_to() -> None:
    core = DevCore()
    assert result(core, "evm_snapshot") == "0x11"
    assert result(core, "evm_revert", "0x11") is True
    assert result(core, "evm_revert", 3) is False
    assert core.asked == [("revert", 17), ("revert", 3)]


@pytest.mark.parametrize("method", ["anvil_setBalance", "hardhat_setBalance", "evm_setAccountBalance"])
def test_a_balance_is_set(method: str) -> None:
    core = DevCore()
    assert result(core, method, SOMEBODY, "0xde0b6b3a7640000") is True
    assert core.asked == [("set_balance", bytes.fromhex("5a" * 20), 10**18)]


def test_mining_switches_have_the_unit_and_the_rule_of_the_tool_whose_name_they_have() -> None:
    core = DevCore()
    for prefix in ("evm", "anvil"):
        assert result(core, f"{prefix}_setAutomine", False) is True
        assert result(core, f"{prefix}_setIntervalMining", "0x7d0") is True
    assert core.asked == [
        ("set_automine", False, False),
        ("set_mining_interval", 2, False),
        ("set_automine", False, True),
        ("set_mining_interval", 2_000, True),
    ]


def test_a_mining_mode_is_told_and_taken_in_the_same_form() -> None:
    core = DevCore()
    told = result(core, "cairn_getMiningMode")
    assert told == {"automine": 0.5, "interval": None}
    for mode in (told, {"automine": None, "interval": 86_400}, {"automine": 0}, {}):
        assert result(core, "cairn_setMiningMode", mode) is True
    assert core.asked == [
        ("set_mining_mode", 0.5, None),
        ("set_mining_mode", None, 86_400),
        ("set_mining_mode", 0, None),
        ("set_mining_mode", None, None),
    ]


def test_the_time_is_moved_and_set() -> None:
    core = DevCore()
    assert result(core, "evm_increaseTime", 60) == 1_060
    assert result(core, "evm_increaseTime", "0x3c") == 1_060
    assert result(core, "evm_increaseTime", "60") == 1_060
    assert result(core, "evm_setNextBlockTimestamp", 2_000_000_000) is None
    assert core.asked == [("increase_time", 60)] * 3 + [("set_next_timestamp", 2_000_000_000)]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("evm_mine", ({"blocks": 1, "miner": 3},)),
        ("evm_mine", ("soon",)),
        ("evm_mine", (1, 2)),
        ("evm_mine", (True,)),
        ("hardhat_mine", (10_001,)),
        ("hardhat_mine", (-1,)),
        ("evm_snapshot", (1,)),
        ("evm_revert", ()),
        ("evm_revert", ([],)),
        ("anvil_setBalance", (SOMEBODY,)),
        ("anvil_setBalance", (SOMEBODY, 2**256)),
        ("anvil_setBalance", ("nobody", 1)),
        ("evm_increaseTime", (1.5,)),
        ("evm_increaseTime", (2**64,)),
        ("cairn_setMiningMode", ()),
        ("cairn_setMiningMode", (True,)),
        ("cairn_setMiningMode", ({"automine": True},)),
        ("cairn_setMiningMode", ({"automine": "0x0"},)),
        ("cairn_setMiningMode", ({"automine": -0.1},)),
        ("cairn_setMiningMode", ({"interval": 86_401},)),
        ("cairn_setMiningMode", ({"interval": 1e-320},)),
        ("cairn_setMiningMode", ({"automine": 0, "blockTime": 1},)),
    ],
)
def test_malformed_arguments_are_refused(method: str, params: tuple[object, ...]) -> None:
    core = DevCore()
    assert call(core, method, *params)["error"]["code"] == INVALID_PARAMS
    assert core.asked == []


@pytest.mark.parametrize("method", DEV_METHODS)
def test_on_other_chains_the_method_does_not_exist(method: str) -> None:
    error = call(DevCore(), method, is_dev=False)["error"]
    assert error["code"] == METHOD_NOT_FOUND
    assert error["message"] == f"the method {method} does not exist/is not available"
