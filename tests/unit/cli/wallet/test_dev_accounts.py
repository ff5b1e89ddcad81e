"""The dev accounts of a chain beside the usual ones; test_sending.py asks a node for them."""

import pytest

from cairn.cli.wallet.dev_accounts import tell_other_account
from cairn.cli.wallet.parties import Party
from cairn.domain.crypto import address_of_key, checksum_address
from cairn.domain.genesis import DEV_KEYS
from cairn.domain.types import Address

USUAL = [address for address, _ in DEV_KEYS]
OWN = [address_of_key(bytes([number]) * 32) for number in (1, 2)]


@pytest.mark.parametrize(("index", "shown"), [(0, 0), (1, 1), (5, 0)])
def test_the_account_of_the_same_name_is_told_or_the_first_one(index: int, shown: int) -> None:
    told = tell_other_account(Party(USUAL[index], f"dev{index}"), OWN)
    expected = f"this chain has its own dev accounts (--mnemonic): its dev{shown} is {checksum_address(OWN[shown])}"
    assert told == expected


@pytest.mark.parametrize("accounts", [USUAL, USUAL[:2], []])
def test_where_the_usual_accounts_are_used_nothing_is_told(accounts: list[Address]) -> None:
    assert tell_other_account(Party(USUAL[5], "dev5"), accounts) is None


def test_an_account_that_was_not_named_as_a_dev_account_is_never_mistaken_for_one() -> None:
    assert tell_other_account(Party(USUAL[0]), OWN) is None
    assert tell_other_account(Party(USUAL[0], "alice"), OWN) is None
