"""Accounts as a user names them, and first balances for them."""

from pathlib import Path

import pytest

from cairn.cli.report import NoSuchItem
from cairn.cli.wallet.key_files import Keystore, lock
from cairn.cli.wallet.parties import read_balances
from cairn.domain.crypto import address_of_key, checksum_address
from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import COIN, DEV_KEYS

FIRST = checksum_address(DEV_KEYS[0][0])


def test_a_first_balance_is_of_an_address_a_stored_key_or_a_dev_account(tmp_path: Path) -> None:
    keystore, key = Keystore(tmp_path), b"\x01" * 32
    keystore.add("treasury", lock(key, "secret"))
    found = read_balances([f"{FIRST}=7", "treasury=10coins", "dev1=1gwei"], keystore)
    assert found == {DEV_KEYS[0][0]: 7, address_of_key(key): 10 * COIN, DEV_KEYS[1][0]: 10**9}


@pytest.mark.parametrize(
    ("alloc", "message"),
    [
        ([f"{FIRST}=1.5"], f"--alloc {FIRST}=1.5: 1.5 needs a unit"),
        (["0x12=5"], "--alloc 0x12=5: an address is 0x and 40 hexadecimal digits"),
        (["treasury"], "--alloc treasury: expected ACCOUNT=AMOUNT"),
        ([f"{FIRST}=1", f"{FIRST.lower()}=2"], "the account is given twice"),
    ],
)
def test_a_first_balance_that_cannot_be_read_is_refused(tmp_path: Path, alloc: list[str], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        read_balances(alloc, Keystore(tmp_path))


def test_a_first_balance_of_an_unknown_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoSuchItem, match="treasury"):
        read_balances(["treasury=1coin"], Keystore(tmp_path))
