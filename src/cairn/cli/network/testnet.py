"""`cairn testnet`: make the homes of a whole network, and run it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from cairn.cli.network.homes import BASE_PORT, Site, make_network, plan_sites
from cairn.cli.network.running import run_network
from cairn.cli.node.home import build_genesis, random_chain_id, read_address
from cairn.cli.options import CometbftBinary
from cairn.cli.report import reported_errors, warn
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
        help="A first balance, in wei or as 1000coins; dev accounts unless given. May be repeated.",
        metavar="ADDRESS=AMOUNT",
    ),
]
Administrators = Annotated[
    list[str] | None,
    typer.Option(
        help="Administrator, who may change the validators; three dev accounts unless given. May be repeated.",
        metavar="ADDRESS",
    ),
]
FeeRecipients = Annotated[
    list[str] | None,
    typer.Option(
        help="Account for the fees of a validator's blocks: one for all, or one each. Without it they are lost.",
        metavar="ADDRESS",
    ),
]


def make_testnet(
    directory: Annotated[
        Path, typer.Argument(help="The directory for the nodes' home directories.", show_default=False)
    ],
    validators: Annotated[int, typer.Option(help="Number of validators.", metavar="N", min=1, max=MOST_VALIDATORS)] = 4,
    full_nodes: Annotated[
        int, typer.Option(help="Number of full nodes, which do not vote.", metavar="N", min=0, max=MOST_VALIDATORS)
    ] = 0,
    hosts: Annotated[
        str | None,
        typer.Option(help="Hosts of the nodes, validators first; this machine unless given.", metavar="HOST,HOST,..."),
    ] = None,
    base_port: Annotated[
        int, typer.Option(help="First port of a host's first node: API, then p2p, then CometBFT's RPC.", metavar="N")
    ] = BASE_PORT,
    chain_id: Annotated[
        int | None, typer.Option(help="A dev chain's unless given; a random one with --alloc.", metavar="N")
    ] = None,
    alloc: Balances = None,
    admin: Administrators = None,
    threshold: Annotated[
        int | None, typer.Option(help="How many administrators must sign; more than half unless given.", metavar="N")
    ] = None,
    fee_recipient: FeeRecipients = None,
    cometbft_binary: CometbftBinary = "",
    run: Annotated[
        bool,
        typer.Option(
            "--run", help="Run all nodes on this machine, with a live table. Makes the network first if needed."
        ),
    ] = False,
) -> None:
    """Make the home directories of a network, on this machine or on several; with --run, also run it."""
    with reported_errors():
        if not (run and is_directory(directory) and has_files(directory)):
            binary = find_binary(cometbft_binary)
            CometBFT(binary, directory).check_version()
            sites = plan_sites(validators + full_nodes, split_hosts(hosts), base_port)
            genesis = choose_genesis(chain_id, alloc or [], choose_admins(admin or [], threshold))
            recipients = choose_recipients(fee_recipient or [], validators)
            make_network(directory, binary, sites, genesis, recipients)
            describe(directory, genesis, sites, validators)
        code = run_network(directory, cometbft_binary) if run else 0
    raise typer.Exit(code)


def split_hosts(text: str | None) -> list[str]:
    hosts = [] if text is None else [host.strip() for host in text.split(",")]
    if not all(hosts):
        raise InvalidConfig(f"--hosts {text}: a name is missing")
    return hosts


def choose_genesis(chain_id: int | None, alloc: Sequence[str], admins: Admins) -> Genesis:
    """A genesis with the current time, with dev accounts unless others are given. Its validators are added later."""
    dev = dev_genesis()
    if chain_id is None:
        chain_id = random_chain_id() if alloc else dev.chain_id
    # Somebody must sign: a dev chain's key, until the validators are known.
    genesis = build_genesis(chain_id, GWEI, 10_000 * TRANSFER_GAS, alloc, DEV_SIGNER)
    balances = genesis.alloc if alloc else dev.alloc
    return msgspec.structs.replace(genesis, alloc=balances, admins=admins)


def choose_admins(given: Sequence[str], threshold: int | None) -> Admins:
    addresses = tuple(read_address(text, "--admin") for text in given) or DEV_ADMINS
    if len(set(addresses)) != len(addresses):
        raise InvalidConfig("--admin: an address is given twice")
    if len(addresses) > MAX_ADMINS:
        raise InvalidConfig(f"--admin: there are {len(addresses)} administrators; {MAX_ADMINS} are possible")
    needed = len(addresses) // 2 + 1 if threshold is None else threshold
    if not 1 <= needed <= len(addresses):
        raise InvalidConfig(f"--threshold {needed}: there are {len(addresses)} administrators")
    return Admins(needed, addresses)


def choose_recipients(given: Sequence[str], validators: int) -> list[Address] | list[None]:
    """One for each validator; None where nobody is to have its fees."""
    if not given:
        return [None] * validators
    addresses = [read_address(text, "--fee-recipient") for text in given]
    if len(addresses) == 1:
        return addresses * validators
    if len(addresses) != validators:
        raise InvalidConfig(f"--fee-recipient is given {len(addresses)} times for {validators} validators")
    return addresses


def describe(directory: Path, genesis: Genesis, sites: Sequence[Site], validators: int) -> None:
    """Say what was made, how to start it, and which of it has public keys."""
    print(f"Wrote the homes of {len(sites)} nodes, {validators} of them validators, of chain {genesis.chain_id}:")
    for site in sites:
        where = "" if site.is_local else f"   on {site.host}, with a copy of {directory / site.name}"
        print(f"  cairn run --home {directory / site.name}   # http://127.0.0.1:{site.api_port}{where}")
    if all(site.is_local for site in sites):
        print(f"Or all at once: cairn testnet {directory} --run")
    else:
        print("Each home holds that node's private keys: copy it only to its own host, and run it only there.")
    admins = genesis.admins
    assert admins is not None
    print(f"Administrators ({admins.threshold} must sign): {', '.join(map(checksum_address, admins.addresses))}")
    public = {address for address, _ in DEV_KEYS}
    if public & {*genesis.alloc, *admins.addresses}:
        warn(
            "THE KEYS OF THE DEV ACCOUNTS ARE PUBLIC: anybody who reaches this network can spend their balances"
            + (" and, as administrators, take it over" if public & set(admins.addresses) else "")
            + ". Use it for tests only; --alloc and --admin name your own accounts"
        )
