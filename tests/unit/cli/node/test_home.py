"""The home directory: what `cairn init` writes is what `cairn run` reads."""

import os
import re
import time
from pathlib import Path

import pytest

from cairn.cli.node.home import Home, build_genesis
from cairn.config import FIELDS, Settings, load_settings
from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import COIN, DEV_KEYS, DEV_SIGNER, dev_genesis
from cairn.domain.types import MAX_UINT256, Address


def test_genesis_and_settings_of_a_new_home_read_back(tmp_path: Path) -> None:
    home = Home(tmp_path / "new" / "home")
    home.create(dev_genesis(), {"proposer": DEV_KEYS[0][0]})
    assert home.read_genesis() == dev_genesis()
    assert load_settings(home.read_config()) == Settings(proposer=DEV_KEYS[0][0])


def test_a_new_home_has_mode_0700(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Home(tmp_path / "home").create(dev_genesis(), {})
    finally:
        os.umask(before)
    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o700


def test_the_settings_file_explains_every_setting_and_every_genesis_key(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.create(dev_genesis(), {})
    text = home.config_file.read_text()
    assert all(f"\n#{name} = " in text for name in FIELDS)
    keys = re.findall(r'^  "(\w+)"', home.genesis_file.read_text(), re.MULTILINE)
    assert len(keys) == 7
    assert all(f"#   {key} " in text for key in keys)


@pytest.mark.parametrize("name", ["genesis.json", "cairn.toml"])
def test_a_file_that_exists_is_named_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(InvalidConfig, match=re.escape(f"{tmp_path / name} exists already; nothing was written")):
        Home(tmp_path).create(dev_genesis(), {})
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "mine")]


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidConfig, match="cannot look for .*file.*: Not a directory"):
        Home(tmp_path / "file" / "home").create(dev_genesis(), {})


def test_a_missing_genesis_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="genesis.json is missing; `cairn init"):
        Home(tmp_path).read_genesis()


@pytest.mark.parametrize(
    ("text", "message"),
    [("{}", "genesis.json: chainId: missing"), ("{", "genesis.json: genesis is not JSON"), ('{"a":1}', "a: unknown")],
)
def test_a_wrong_genesis_names_the_file_and_the_key(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "genesis.json").write_text(text)
    with pytest.raises(InvalidConfig, match=message):
        Home(tmp_path).read_genesis()


def test_without_a_settings_file_there_is_no_text(tmp_path: Path) -> None:
    assert Home(tmp_path).read_config() is None


@pytest.mark.parametrize("name", ["genesis.json", "cairn.toml"])
def test_an_unreadable_file_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    home = Home(tmp_path)
    with pytest.raises(InvalidConfig, match=f"cannot read .*{name}.*Is a directory"):
        home.read_genesis() if name == "genesis.json" else home.read_config()


def test_a_settings_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "cairn.toml").write_bytes(b"\xff")
    with pytest.raises(InvalidConfig, match=r"cairn.toml is not text"):
        Home(tmp_path).read_config()


def test_a_new_chain_starts_now_with_the_given_balances() -> None:
    before = int(time.time())
    genesis = build_genesis(7, 1, 21_000, {DEV_KEYS[0][0]: 5, DEV_KEYS[1][0]: 15 * COIN // 10}, DEV_SIGNER)
    assert before <= genesis.timestamp <= time.time()
    assert genesis.alloc == {DEV_KEYS[0][0]: 5, DEV_KEYS[1][0]: 3 * COIN // 2}


@pytest.mark.parametrize(
    ("chain_id", "gas_price", "block_gas_limit", "alloc", "message"),
    [
        (0, 1, 21_000, {}, "chainId: 0 is not between"),
        (1, -1, 21_000, {}, "gasPrice: -1 is not between"),
        (1, 1, 20_999, {}, "blockGasLimit: 20999 is not between"),
        (1, 1, 21_000, {DEV_KEYS[0][0]: MAX_UINT256, DEV_KEYS[1][0]: 1}, r"add up to more than 2\^256-1"),
    ],
)
def test_a_genesis_with_a_rule_out_of_range_is_refused(
    chain_id: int, gas_price: int, block_gas_limit: int, alloc: dict[Address, int], message: str
) -> None:
    with pytest.raises(InvalidConfig, match=message):
        build_genesis(chain_id, gas_price, block_gas_limit, alloc, DEV_SIGNER)
