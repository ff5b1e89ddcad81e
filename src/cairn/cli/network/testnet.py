"""`cairn testnet`: make the homes of a whole network, and run it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from cairn.cli.network.homes import BASE_PORT, Site, make_network, plan_sites
from cairn.cli.network.running import run_network
from cairn.cli.node.home import build_genesis, random_chain_id
from cairn.cli.node.public_keys import DEV_NAMES, warn_of_public_keys
from cairn.cli.options import CometbftBinary, KeysDirectory, keystore_in
from cairn.cli.report import reported_errors
from cairn.cli.screen import print_line
from cairn.cli.wallet.key_files import Keystore
from cairn.cli.wallet.parties import find_party, read_balances
from cairn.cometbft import CometBFT, find_binary
from cairn.domain.crypto import checksum_address
from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import DEV_KEYS, DEV_SIGNER, GWEI, Genesis, dev_genesis
from cairn.domain.governance import MAX_ADMINS, Admins
from cairn.domain.types import TRANSFER_GAS, Address
from cairn.store.directory import has_files, is_directory

MOST_VALIDATORS = 100
DEV_ADMINS = tuple(address for address, _ in DEV_KEYS[:3])

# Options that may be repeated.
Balances = Annotated[
    list[str] | None,
    typer.Option(
        help="Initial balance of an address or a stored key, in wei or as 1000coins; dev accounts unless given. "
        "May be repeated.",
        metavar="ACCOUNT=AMOUNT",
    ),
]
Administrators = Annotated[
    list[str] | None,
    typer.Option(
        help="An administrator, who may change the validators. Required with --alloc; by default, three dev accounts. "
        "May be repeated.",
        metavar="ACCOUNT",
    ),
]
FeeRecipients = Annotated[
    list[str] | None,
    typer.Option(
        help="Account that receives the fees of a validator's blocks: one for all, or one each. Without it, the fees "
        "are lost.",
        metavar="ACCOUNT",
    ),
]


def make_testnet(
    directory: Annotated[
        Path, typer.Argument(help="The directory for the nodes' home directories.", metavar="DIR", show_default=False)
    ],
    validators: Annotated[int, typer.Option(help="Number of validators.", metavar="N", min=1, max=MOST_VALIDATORS)] = 4,
    full_nodes: Annotated[
        int, typer.Option(help="Number of full nodes, which do not vote.", metavar="N", min=0, max=MOST_VALIDATORS)
    ] = 0,
    hosts: Annotated[
        str | None,
        typer.Option(help="Hosts of the nodes, validators first. By default, this machine.", metavar="HOST,HOST,..."),
    ] = None,
    base_port: Annotated[
        int,
        typer.Option(
            help="First port of a host's first node. Each node's ports, in order: API, p2p, CometBFT's RPC, metrics, "
            "CometBFT's metrics.",
            metavar="N",
        ),
    ] = BASE_PORT,
    chain_id: Annotated[
        int | None, typer.Option(help="Chain id. By default a dev chain's, or a random one with --alloc.", metavar="N")
    ] = None,
    alloc: Balances = None,
    admin: Administrators = None,
    threshold: Annotated[
        int | None, typer.Option(help="How many administrators must sign; by default, more than half.", metavar="N")
    ] = None,
    fee_recipient: FeeRecipients = None,
    keys: KeysDirectory = None,
    cometbft_binary: CometbftBinary = "",
    run: Annotated[
        bool,
        typer.Option(
            "--run", help="Run all nodes on this machine, with a live table. Creates the network first if needed."
        ),
    ] = False,
) -> None:
    """Create the home directories of a network, for this machine or several. With --run, run it as well."""
    with reported_errors():
        if not (run and is_directory(directory) and has_files(directory)):
            binary = find_binary(cometbft_binary)
            CometBFT(binary, directory).check_version()
            sites = plan_sites(validators + full_nodes, split_hosts(hosts), base_port)
            keystore = keystore_in(keys)
            admins = choose_admins(read_accounts(admin or [], keystore, "--admin"), threshold)
            genesis = choose_genesis(chain_id, read_balances(alloc or [], keystore), admins)
            check_own_admins(genesis, is_chosen=bool(admin))
            recipients = choose_recipients(read_accounts(fee_recipient or [], keystore, "--fee-recipient"), validators)
            make_network(directory, binary, sites, genesis, recipients)
            describe(directory, genesis, sites, validators)
        code = run_network(directory, cometbft_binary) if run else 0
    raise typer.Exit(code)


def split_hosts(text: str | None) -> list[str]:
    hosts = [] if text is None else [host.strip() for host in text.split(",")]
    if not all(hosts):
        raise InvalidConfig(f"--hosts {text}: a name is missing")
    return hosts


def read_accounts(given: Sequence[str], keystore: Keystore, option: str) -> list[Address]:
    return [find_party(text, keystore, option).address for text in given]


def choose_genesis(chain_id: int | None, alloc: Mapping[Address, int], admins: Admins) -> Genesis:
    """A genesis with the current time, with dev accounts unless others are given. Its validators are added later."""
    dev = dev_genesis()
    if chain_id is None:
        chain_id = random_chain_id() if alloc else dev.chain_id
    # Somebody must sign: a dev chain's key, until the validators are known.
    genesis = build_genesis(chain_id, GWEI, 10_000 * TRANSFER_GAS, alloc, DEV_SIGNER)
    balances = genesis.alloc if alloc else dev.alloc
    return msgspec.structs.replace(genesis, alloc=balances, admins=admins)


def check_own_admins(genesis: Genesis, is_chosen: bool) -> None:
    """Check that dev accounts do not administer a network that holds somebody's coins. Raises `InvalidConfig`."""
    if not is_chosen and not genesis.alloc.keys() <= DEV_NAMES.keys():
        raise InvalidConfig(
            "--alloc gives coins to your own accounts, so --admin must name who administers the network: without it "
            "dev accounts would, and with their public keys anybody could replace the validators"
        )


def choose_admins(given: Sequence[Address], threshold: int | None) -> Admins:
    addresses = tuple(given) or DEV_ADMINS
    if len(set(addresses)) != len(addresses):
        raise InvalidConfig("--admin: an address is given twice")
    if len(addresses) > MAX_ADMINS:
        raise InvalidConfig(f"--admin: there are {len(addresses)} administrators; {MAX_ADMINS} are possible")
    needed = len(addresses) // 2 + 1 if threshold is None else threshold
    if not 1 <= needed <= len(addresses):
        raise InvalidConfig(f"--threshold {needed}: there are {len(addresses)} administrators")
    return Admins(needed, addresses)


def choose_recipients(given: Sequence[Address], validators: int) -> list[Address] | list[None]:
    """One for each validator; None where nobody is to have its fees."""
    if not given:
        return [None] * validators
    if len(given) == 1:
        return [given[0]] * validators
    if len(given) != validators:
        raise InvalidConfig(f"--fee-recipient is given {len(given)} times for {validators} validators")
    return list(given)


def describe(directory: Path, genesis: Genesis, sites: Sequence[Site], validators: int) -> None:
    """Say what was made, how to start it, and which of it has public keys."""
    print_line(f"Wrote the homes of {len(sites)} nodes, {validators} of them validators, of chain {genesis.chain_id}:")
    for site in sites:
        where = "" if site.is_local else f"   on {site.host}, with a copy of {directory / site.name}"
        print_line(f"  cairn run --home {directory / site.name}   # http://127.0.0.1:{site.api_port}{where}")
    if all(site.is_local for site in sites):
        print_line(f"Or all at once: cairn testnet {directory} --run")
    else:
        print_line("Each home holds that node's private keys: copy it only to its own host, and run it only there.")
    admins = genesis.admins
    assert admins is not None
    print_line(f"Administrators ({admins.threshold} must sign): {', '.join(map(checksum_address, admins.addresses))}")
    warn_of_public_keys(genesis)
