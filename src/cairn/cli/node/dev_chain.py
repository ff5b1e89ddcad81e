"""The chain that `cairn dev` runs: its accounts and rules, unless told otherwise those of every dev chain."""

from dataclasses import dataclass

from cairn.cli.shared.amounts import parse_amount
from cairn.domain.crypto import address_of_key
from cairn.domain.errors import InvalidConfig, InvalidField
from cairn.domain.genesis import DEV_KEYS, DEV_MNEMONIC, Genesis, dev_genesis, encode_genesis, parse_genesis
from cairn.domain.types import Address

MOST_ACCOUNTS = 100
MOST_SUPPLY = 2**255 - 1
"""Of all accounts together: balances that are set later need room, too, and no balance may exceed 2^256-1."""


@dataclass(frozen=True, slots=True)
class DevChain:
    genesis: Genesis
    mnemonic: str
    keys: dict[Address, bytes]
    """In the order of the mnemonic's accounts."""


def build_dev_chain(chain_id: int, accounts: int, balance: str, mnemonic: str, gas_price: int) -> DevChain:
    """Raises `InvalidConfig` that names what is out of range."""
    words = " ".join(mnemonic.split())
    keys = dict(_derive_keys(words, accounts))
    # Plain numbers are coins here, as on other dev chains.
    wei = parse_amount(balance, "--balance", plain_unit="coins")
    if len(keys) * wei > MOST_SUPPLY:
        raise InvalidConfig(f"--balance: {balance} for each of {len(keys)} accounts is more than 2^255-1 wei in all")
    genesis = dev_genesis(keys, chain_id=chain_id, balance=wei, gas_price=gas_price)
    try:
        return DevChain(parse_genesis(encode_genesis(genesis)), words, keys)
    except InvalidField as error:
        raise InvalidConfig(error.detail) from None


def _derive_keys(words: str, count: int) -> tuple[tuple[Address, bytes], ...]:
    if words == DEV_MNEMONIC and count <= len(DEV_KEYS):
        return DEV_KEYS[:count]
    # Brings in the wallet library, which takes longer to load than a node to start.
    from cairn.cli.wallet.vault import key_from_words

    keys = [key_from_words(words, f"m/44'/60'/0'/0/{index}") for index in range(count)]
    return tuple((address_of_key(key), key) for key in keys)
