"""What the node prints once it serves."""

from pathlib import Path

from rich.text import Text

from cairn import __version__
from cairn.cli.node.dev_chain import DevChain
from cairn.cli.shared.amounts import format_amount
from cairn.cli.shared.screen import Line, drop_output, print_json, print_lines
from cairn.config import Settings
from cairn.domain.crypto import checksum_address
from cairn.domain.genesis import DEV_MNEMONIC, GWEI, Genesis


def print_dev_banner(chain: DevChain, settings: Settings, data_dir: str, url: str) -> None:
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
        f"Events      ws{url.removeprefix('http')}/events",
        "",
        "The node signs for these accounts, so this is a whole transfer:",
        f"""  curl {url}/tx -H 'content-type: application/json' \\""",
        f"""    -d '{{"from":"{accounts[0]}","to":"{accounts[1 % len(accounts)]}","value":1,"gas":21000}}'""",
        "",
    ]
    print_lines(lines)
    print_listening(url)


def print_dev_facts(chain: DevChain, url: str) -> None:
    """The same for a program, as one line of JSON. A reader that has gone does not end the node."""
    accounts = [
        {"address": checksum_address(address), "privateKey": f"0x{key.hex()}"} for address, key in chain.keys.items()
    ]
    rules = {"chainId": chain.genesis.chain_id, "gasPrice": chain.genesis.gas_price}
    try:
        print_json({"event": "listening", "url": url} | rules | {"mnemonic": chain.mnemonic, "accounts": accounts})
    except BrokenPipeError:
        drop_output()


def print_listening(url: str) -> None:
    print_lines([Text(f"Listening on {url}", "bold green")])


def print_run_banner(genesis: Genesis, data_dir: Path, url: str) -> None:
    lines: list[Line] = [
        Text(f"Cairn {__version__}, chain {genesis.chain_id}", "bold"),
        f"Data        {data_dir}",
    ]
    print_lines(lines)
    print_listening(url)


def _who_knows_the_keys_of(chain: DevChain) -> str:
    if chain.mnemonic == DEV_MNEMONIC:
        return "public knowledge: never use them anywhere else"
    return "of your mnemonic: whoever sees them here can use them"


def _cadence(settings: Settings) -> str:
    if settings.block_time_s == 0:
        return "one at once after each submission"
    when = "also empty ones" if settings.empty_blocks else "while there is something to include"
    return f"every {settings.block_time_s:g} s, {when}"
