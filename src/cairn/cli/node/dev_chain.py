"""The chain that `cairn dev` runs: its accounts and rules, and the banner that shows them."""

from dataclasses import dataclass

from rich.text import Text

from cairn import __version__
from cairn.cli.amounts import format_amount, parse_amount
from cairn.cli.screen import Line, drop_output, print_json, print_lines
from cairn.cli.wallet.key_files import key_from_words
from cairn.config import Settings
from cairn.domain.crypto import address_of_key, checksum_address
from cairn.domain.errors import InvalidConfig, InvalidField
from cairn.domain.genesis import DEV_KEYS, DEV_MNEMONIC, GWEI, Genesis, dev_genesis, encode_genesis, parse_genesis
from cairn.domain.types import MAX_DATA_BYTES, Address

MOST_ACCOUNTS = 100
MOST_SUPPLY = 2**255 - 1
"""The sum of all balances at most: balances that are set later need room, too, and none may exceed 2^256-1."""


@dataclass(frozen=True, slots=True)
class DevChainSpec:
    """The accounts and rules of a dev chain."""

    genesis: Genesis
    mnemonic: str
    keys: dict[Address, bytes]
    """In the order of the mnemonic's accounts."""


def build_dev_chain(
    chain_id: int, accounts: int, balance: str, mnemonic: str, gas_price: int, max_data_bytes: int = MAX_DATA_BYTES
) -> DevChainSpec:
    """The chain with these accounts and rules. Raises `InvalidConfig` that names what is out of range."""
    if not 1 <= accounts <= MOST_ACCOUNTS:
        raise InvalidConfig(f"--accounts: expected 1 to {MOST_ACCOUNTS}, got {accounts}")
    words = " ".join(mnemonic.split())
    keys = dict(_derive_keys(words, accounts))
    # Plain numbers are coins here, as on other dev chains.
    wei = parse_amount(balance, "--balance", plain_unit="coins")
    if len(keys) * wei > MOST_SUPPLY:
        raise InvalidConfig(f"--balance: {balance} for each of {len(keys)} accounts is more than 2^255-1 wei in all")
    genesis = dev_genesis(keys, chain_id=chain_id, balance=wei, gas_price=gas_price, max_data_bytes=max_data_bytes)
    try:
        return DevChainSpec(parse_genesis(encode_genesis(genesis)), words, keys)
    except InvalidField as error:
        raise InvalidConfig(error.detail) from None


def _derive_keys(words: str, count: int) -> tuple[tuple[Address, bytes], ...]:
    if words == DEV_MNEMONIC and count <= len(DEV_KEYS):
        return DEV_KEYS[:count]
    keys = [key_from_words(words, f"m/44'/60'/0'/0/{index}") for index in range(count)]
    return tuple((address_of_key(key), key) for key in keys)


def print_dev_banner(chain: DevChainSpec, settings: Settings, data_dir: str, url: str) -> None:
    """The accounts with their keys, the chain's rules and the URLs."""
    genesis, accounts = chain.genesis, [checksum_address(address) for address in chain.keys]
    balance = genesis.alloc[next(iter(chain.keys))]
    lines: list[Line] = [
        Text(f"Cairn {__version__}, a chain for development", "bold"),
        "",
        Text(f"Accounts (each began with {format_amount(balance)})", "bold"),
        *(f"({index}) {account}" for index, account in enumerate(accounts)),
        "",
        Text(f"Private keys ({_who_knows_the_keys_of(chain)})", "bold"),
        *(f"({index}) 0x{key.hex()}" for index, key in enumerate(chain.keys.values())),
        "",
        f"Mnemonic    {chain.mnemonic}",
        f"Chain id    {genesis.chain_id}",
        f"Gas price   {genesis.gas_price:,} wei ({genesis.gas_price // GWEI} gwei)",
        f"Blocks      {_cadence(settings)}",
        f"Data        {data_dir}",
        *([f"Explorer    {url}/"] if settings.explorer else []),
        f"API         {url}/docs",
        f"JSON-RPC    {url}/rpc",
        f"Events      ws{url.removeprefix('http')}/events",
        "Web pages   on localhost, any port, may read and submit what is already signed",
        f"            {_who_may_all(settings)}",
        "",
        "The node signs for these accounts, so this is a whole transfer:",
        f"""  curl {url}/tx -H 'content-type: application/json' -H 'idempotency-key: first' \\""",
        f"""    -d '{{"from":"{accounts[0]}","to":"{accounts[1 % len(accounts)]}","value":1,"gas":21000}}'""",
        "Sent again with the same idempotency-key, it is paid once; another key pays again.",
        "",
    ]
    print_lines(lines)


def print_dev_facts(chain: DevChainSpec, url: str) -> None:
    """Print what a program needs to know, as one line of JSON. The node goes on when the reader has closed the pipe."""
    accounts = [
        {"address": checksum_address(address), "privateKey": f"0x{key.hex()}"} for address, key in chain.keys.items()
    ]
    rules = {"chainId": chain.genesis.chain_id, "gasPrice": chain.genesis.gas_price}
    try:
        print_json({"event": "listening", "url": url} | rules | {"mnemonic": chain.mnemonic, "accounts": accounts})
    except BrokenPipeError:
        drop_output()


def _who_knows_the_keys_of(chain: DevChainSpec) -> str:
    if chain.mnemonic == DEV_MNEMONIC:
        return "public knowledge: never use them anywhere else"
    return "of your mnemonic: whoever sees them here can use them"


def _who_may_all(settings: Settings) -> str:
    if settings.cors_origins:
        return f"these may do everything, including having the node sign: {', '.join(settings.cors_origins)}"
    return "to have the node sign for one, list it: --cors-origins http://localhost:3000"


def _cadence(settings: Settings) -> str:
    if settings.block_time_s == 0:
        return "one at once after each submission"
    when = "also empty ones" if settings.empty_blocks else "while there is something to include"
    return f"every {settings.block_time_s:g} s, {when}"
