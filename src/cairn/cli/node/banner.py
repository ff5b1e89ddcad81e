"""What the node prints once it serves."""

from pathlib import Path

from rich.text import Text

from cairn import __version__
from cairn.cli.shared.screen import Line, print_json, print_lines
from cairn.config import Settings
from cairn.domain.crypto import checksum_address
from cairn.domain.genesis import COIN, DEV_KEYS, DEV_MNEMONIC, GWEI, Genesis


def print_dev_banner(genesis: Genesis, settings: Settings, data_dir: str, url: str) -> None:
    """The accounts with their keys, the chain's rules and the URLs."""
    accounts = [checksum_address(address) for address, _ in DEV_KEYS]
    lines: list[Line] = [
        Text(f"Cairn {__version__}, a chain for development", "bold"),
        "",
        Text(f"Accounts (each began with {genesis.alloc[DEV_KEYS[0][0]] // COIN:,} coins)", "bold"),
        *(f"({index}) {account}" for index, account in enumerate(accounts)),
        "",
        Text("Private keys (public knowledge: never use them anywhere else)", "bold"),
        *(f"({index}) 0x{key.hex()}" for index, (_, key) in enumerate(DEV_KEYS)),
        "",
        f"Mnemonic    {DEV_MNEMONIC}",
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
        f"""    -d '{{"from":"{accounts[0]}","to":"{accounts[1]}","value":1,"gas":21000}}'""",
        "",
    ]
    print_lines(lines)
    print_listening(url)


def print_dev_facts(genesis: Genesis, url: str) -> None:
    """The same for a program, as one line of JSON."""
    accounts = [{"address": checksum_address(address), "privateKey": f"0x{key.hex()}"} for address, key in DEV_KEYS]
    rules = {"chainId": genesis.chain_id, "gasPrice": genesis.gas_price}
    print_json({"event": "listening", "url": url} | rules | {"mnemonic": DEV_MNEMONIC, "accounts": accounts})


def print_listening(url: str) -> None:
    print_lines([Text(f"Listening on {url}", "bold green")])


def print_run_banner(genesis: Genesis, data_dir: Path, url: str) -> None:
    lines: list[Line] = [
        Text(f"Cairn {__version__}, chain {genesis.chain_id}", "bold"),
        f"Data        {data_dir}",
    ]
    print_lines(lines)
    print_listening(url)


def _cadence(settings: Settings) -> str:
    if settings.block_time_s == 0:
        return "one at once after each submission"
    when = "also empty ones" if settings.empty_blocks else "while there is something to include"
    return f"every {settings.block_time_s:g} s, {when}"
