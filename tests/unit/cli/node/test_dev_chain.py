"""The chain of `cairn dev`: the usual accounts, or those of other words, as every wallet derives them."""

import pytest

from cairn.cli.node.dev_chain import DevChainSpec, build_dev_chain
from cairn.domain.crypto import checksum_address
from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import DEV_KEYS, DEV_MNEMONIC, dev_genesis

GWEI = 10**9
ZERO_WORDS = "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about"


def chain_with(
    accounts: int = 10,
    balance: str = "10000",
    mnemonic: str = DEV_MNEMONIC,
    chain_id: int = 1337,
    gas_price: int = GWEI,
) -> DevChainSpec:
    return build_dev_chain(chain_id, accounts, balance, mnemonic, gas_price)


def test_without_options_it_is_the_usual_dev_chain() -> None:
    assert chain_with() == DevChainSpec(dev_genesis(), DEV_MNEMONIC, dict(DEV_KEYS))


def test_two_accounts_are_the_first_two_of_the_mnemonic() -> None:
    chain = chain_with(accounts=2)
    assert tuple(chain.keys.items()) == DEV_KEYS[:2]
    assert set(chain.genesis.alloc) == set(chain.keys)


def test_the_eleventh_account_is_derived_from_the_mnemonic() -> None:
    chain = chain_with(accounts=11)
    *first, (address, key) = chain.keys.items()
    assert tuple(first) == DEV_KEYS
    # As anvil prints it with --accounts 11.
    assert checksum_address(address) == "0xBcd4042DE499D14e55001CcbB24a551F3b954096"
    assert key.hex() == "f214f2b2cd398c806f84e317254e0f0b801d0643303237d97a22a48e01628897"


def test_another_mnemonic_gives_its_own_accounts() -> None:
    chain = chain_with(accounts=1, mnemonic=f"  {ZERO_WORDS.replace(' ', '  ')}\n")
    assert [checksum_address(address) for address in chain.keys] == ["0x9858EfFD232B4033E47d90003D41EC34EcaEda94"]
    assert chain.mnemonic == ZERO_WORDS


@pytest.mark.parametrize(("text", "wei"), [("1", 10**18), ("0.5", 5 * 10**17), ("5gwei", 5 * GWEI), ("0", 0)])
def test_a_balance_is_in_coins_or_has_a_unit(text: str, wei: int) -> None:
    assert set(chain_with(balance=text).genesis.alloc.values()) == {wei}


def test_chain_id_and_gas_price_are_rules_of_the_chain() -> None:
    rules = chain_with(chain_id=7, gas_price=0).genesis.rules
    assert (rules.chain_id, rules.gas_price) == (7, 0)


def test_the_size_of_data_is_a_rule_of_the_chain() -> None:
    assert build_dev_chain(1337, 1, "1", DEV_MNEMONIC, 1, 0).genesis.rules.max_data_bytes == 0
    with pytest.raises(InvalidConfig, match="maxDataBytes"):
        build_dev_chain(1337, 1, "1", DEV_MNEMONIC, 1, 257)


def test_a_wrong_mnemonic_or_a_negative_gas_price_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="words give no key"):
        chain_with(mnemonic=DEV_MNEMONIC.replace("junk", "test"))
    with pytest.raises(InvalidConfig, match="gasPrice"):
        chain_with(gas_price=-1)


@pytest.mark.parametrize(("wei", "accounts"), [(2**256 - 1, 10), (2**256 - 1, 1), (2**255, 1), (2**252, 8)])
def test_balances_that_add_up_to_more_than_2_255_are_refused(wei: int, accounts: int) -> None:
    with pytest.raises(
        InvalidConfig, match=rf"--balance: {wei}wei for each of {accounts} accounts is more than 2\^255"
    ):
        chain_with(balance=f"{wei}wei", accounts=accounts)
    assert sum(chain_with(balance=f"{(2**255 - 1) // accounts}wei", accounts=accounts).genesis.alloc.values()) < 2**255
