"""`cairn genesis`: make the genesis of a network from the files of its operators, and show what a genesis says."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from cairn.cli.amounts import format_amount
from cairn.cli.network.homes import FIRST_POWER, read_genesis, read_public_key
from cairn.cli.network.peers_file import PEERS_FILE, encode_peers
from cairn.cli.network.update_signing import tolerated
from cairn.cli.network.validator_file import ValidatorFile, read_validator_file
from cairn.cli.node.home import random_chain_id
from cairn.cli.node.public_keys import DEV_NAMES, warn_of_public_keys
from cairn.cli.options import (
    DEFAULT_BLOCK_GAS_LIMIT,
    AsJson,
    BlockGasLimit,
    GasPrice,
    KeysDirectory,
    MaxDataBytes,
    NewChainId,
    keystore_in,
)
from cairn.cli.report import CommandFailed, reported_errors, warn
from cairn.cli.screen import print_json, print_line, print_pairs, print_table, when
from cairn.cli.wallet.key_files import Keystore
from cairn.cli.wallet.parties import find_party, read_balances
from cairn.cometbft import COMETBFT_DIRECTORY
from cairn.domain.certificates import engine_chain_id
from cairn.domain.crypto import checksum_address
from cairn.domain.errors import InvalidConfig, InvalidField
from cairn.domain.genesis import GWEI, Genesis, encode_genesis, genesis_digest, parse_genesis
from cairn.domain.governance import Admins, ValidatorRecord
from cairn.domain.types import MAX_DATA_BYTES, TRANSFER_GAS, Address
from cairn.domain.update_json import encode_public_key
from cairn.store.directory import is_there, write_file

genesis = typer.Typer(no_args_is_help=True, help="Make a network's genesis from its operators' files, and show one.")

SHOWN_ACCOUNTS = 10
FEW_VALIDATORS = 4
"""With fewer of equal power, none may fail."""


@genesis.command()
def collect(
    files: Annotated[
        list[Path],
        typer.Argument(help="The file of each validator, as `cairn validator init` made it.", metavar="FILE..."),
    ],
    alloc: Annotated[
        list[str],
        typer.Option(
            help="Initial balance of an address or a stored key, in wei or as 1000coins. May be repeated.",
            metavar="ACCOUNT=AMOUNT",
        ),
    ],
    admin: Annotated[
        list[str] | None,
        typer.Option(help="An administrator, in addition to those in the files. May be repeated.", metavar="ACCOUNT"),
    ] = None,
    threshold: Annotated[
        int | None, typer.Option(help="How many administrators must sign; by default, more than half.", metavar="N")
    ] = None,
    power: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Weight of a validator's vote; {FIRST_POWER} by default. May be repeated.", metavar="NAME=N"
        ),
    ] = None,
    chain_id: NewChainId = None,
    timestamp: Annotated[
        int | None, typer.Option(help="Time of block 0, in Unix seconds; by default, now.", metavar="N")
    ] = None,
    gas_price: GasPrice = GWEI,
    block_gas_limit: BlockGasLimit = DEFAULT_BLOCK_GAS_LIMIT,
    max_data_bytes: MaxDataBytes = MAX_DATA_BYTES,
    dev_keys: Annotated[
        bool, typer.Option("--dev-keys", help="Allow the dev accounts, whose keys are public. For tests only.")
    ] = False,
    out: Annotated[Path, typer.Option(help="The file to write; peers.json goes beside it.", metavar="FILE")] = Path(
        "genesis.json"
    ),
    keys: KeysDirectory = None,
) -> None:
    """Create a network's genesis, and the list of its nodes' addresses, from the validators' files.

    The same files and options give everyone the same genesis, in any order.
    """
    with reported_errors():
        keystore = keystore_in(keys)
        validators = sorted(map(read_validator_file, files), key=lambda each: each.name)
        check_apart(validators)
        named = [file.admin for file in validators if file.admin is not None]
        named += [find_party(text, keystore, "--admin").address for text in admin or []]
        made = build(
            Genesis(
                random_chain_id() if chain_id is None else chain_id,
                int(time.time()) if timestamp is None else timestamp,
                gas_price,
                block_gas_limit,
                read_all_balances(alloc, keystore),
                with_powers(validators, power or []),
                admins=agree_on_admins(named, threshold),
                max_data_bytes=max_data_bytes,
            )
        )
        if not dev_keys:
            check_no_dev_keys(made)
        peers_file = out.with_name(PEERS_FILE)
        save_new(
            {out: encode_genesis(made), peers_file: encode_peers(made, {each.name: each.peer for each in validators})}
        )
        print_line(f"Wrote {out} and {peers_file}. Send both to every operator.")
        print_genesis(made)
        warn_of_public_keys(made)
        if len(validators) < FEW_VALIDATORS:
            warn(f"of {len(validators)} validators none may fail: if one stops, the network stands still")
    print_line(f"Whoever repeats this needs --chain-id {made.chain_id} --timestamp {made.timestamp} too.")


@genesis.command()
def show(
    file: Annotated[Path, typer.Argument(help="A network's genesis.json.", metavar="FILE", show_default=False)],
    home: Annotated[
        Path | None, typer.Option(help="Check that the key in this home directory is a validator's.", metavar="DIR")
    ] = None,
    digest: Annotated[
        str | None,
        typer.Option(help="Check that the digest is this one, which you got from someone else.", metavar="HASH"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a genesis, with its digest to compare with the other operators."""
    with reported_errors(as_json):
        found = read_genesis(file)
        if as_json:
            print_json(described(found))
        else:
            print_genesis(found)
        if home is not None:
            own = check_named(found, read_public_key(home / COMETBFT_DIRECTORY), home)
            if not as_json:
                print_line(f"The key in {home} is that of {own.name}: its power is {own.power}.")
        if digest is not None:
            check_digest(found, digest)
            if not as_json:
                print_line("The digest is the same.")


def check_apart(files: Sequence[ValidatorFile]) -> None:
    """Check that no two files have anything in common that tells validators apart. Raises `InvalidConfig`."""
    told_by: dict[str, Callable[[ValidatorFile], str]] = {
        "the public key": lambda file: encode_public_key(file.public_key),
        "the name": lambda file: file.name,
        "the node id": lambda file: file.node_id,
        "the address": lambda file: file.address,
    }
    for what, value_of in told_by.items():
        value, count = Counter(map(value_of, files)).most_common(1)[0]
        if count > 1:
            raise InvalidConfig(f"{count} of the files have {what} {value}: each validator needs its own")


def read_all_balances(alloc: Sequence[str], keystore: Keystore) -> dict[Address, int]:
    balances = read_balances(alloc, keystore)
    if not any(balances.values()):
        raise InvalidConfig("--alloc: no account would hold anything, and no coin can be made later")
    return balances


def with_powers(files: Sequence[ValidatorFile], powers: Sequence[str]) -> tuple[ValidatorRecord, ...]:
    chosen: dict[str, int] = {}
    for text in powers:
        name, _, number = text.rpartition("=")
        if not number.isdecimal() or name not in {file.name for file in files} or name in chosen:
            raise InvalidConfig(f"--power {text}: expected the name of a validator, once, and a number: NAME=N")
        chosen[name] = int(number)
    return tuple(file.record(chosen.get(file.name, FIRST_POWER)) for file in files)


def agree_on_admins(named: Sequence[Address], threshold: int | None) -> Admins:
    if not named:
        raise InvalidConfig(
            "no file names an administrator: name them with --admin, or nobody can change the validators"
        )
    for address in named:
        if named.count(address) > 1:
            raise InvalidConfig(f"the administrator {checksum_address(address)} is named twice: each needs an own key")
    return Admins(len(named) // 2 + 1 if threshold is None else threshold, tuple(sorted(named)))


def build(wanted: Genesis) -> Genesis:
    """The genesis as every node reads it. Raises `InvalidConfig` that names what is out of range."""
    try:
        return parse_genesis(encode_genesis(wanted))
    except InvalidField as error:
        raise InvalidConfig(error.detail) from None


def check_no_dev_keys(made: Genesis) -> None:
    """Raise `InvalidConfig` if anything belongs to an account whose key is public."""
    assert made.admins is not None
    uses = {
        "an administrator": made.admins.addresses,
        "the fee recipient of a validator": [each.fee_recipient for each in made.validators],
        "the owner of a first balance": made.alloc,
    }
    for what, addresses in uses.items():
        for address in addresses:
            if address in DEV_NAMES:
                raise InvalidConfig(
                    f"{checksum_address(address)} would be {what}, and is a dev account, whose key is public; "
                    "--dev-keys allows it, for tests"
                )


def save_new(files: Mapping[Path, bytes]) -> None:
    """Write files that are not there yet. Raises `InvalidConfig`."""
    for path in files:
        if is_there(path):
            raise InvalidConfig(f"{path} exists already; nothing was written")
    for path, content in files.items():
        try:
            write_file(path, content)
        except OSError as error:
            raise InvalidConfig(f"cannot write {path}: {error.strerror}") from None


def check_named(found: Genesis, public_key: bytes, home: Path) -> ValidatorRecord:
    own = next((each for each in found.validators if each.public_key == public_key), None)
    if own is None:
        raise CommandFailed(
            f"the key in {home} is not among the validators: its file was not collected, or is of another home"
        )
    return own


def check_digest(found: Genesis, told: str) -> None:
    spelled = told.lower().replace(" ", "").removeprefix("0x")
    if spelled != genesis_digest(found).hex():
        raise CommandFailed(
            f"this is another genesis: its digest is {spelled_digest(found)}, not {told}. Do not start the node"
        )


def spelled_digest(found: Genesis) -> str:
    return "0x" + genesis_digest(found).hex()


def print_genesis(found: Genesis) -> None:
    """Everything that the operators have to agree on."""
    total = sum(each.power for each in found.validators)
    digest = genesis_digest(found).hex()
    pairs = [
        ("chain id", str(found.chain_id)),
        ("network", engine_chain_id(found)),
        ("time", when(found.timestamp)),
        ("gas price", format_amount(found.gas_price)),
        ("a block", f"{found.block_gas_limit // TRANSFER_GAS:,} transfers at most"),
        ("data", f"{found.max_data_bytes} bytes in a transfer at most"),
        ("supply", f"{format_amount(sum(found.alloc.values()))}; accounts: {len(found.alloc)}"),
        *_largest(found),
        ("validators", f"{len(found.validators)}; power {tolerated(total)} of {total} may fail"),
    ]
    print_pairs(pairs)
    print_table(
        ["name", "power", "public key", "fee recipient"],
        [
            [each.name, str(each.power), encode_public_key(each.public_key), checksum_address(each.fee_recipient)]
            for each in sorted(found.validators, key=lambda each: each.name)
        ],
    )
    admins = found.admins
    print_pairs(
        [
            ("must sign", "nobody can change the validators" if admins is None else f"{admins.threshold} of"),
            *(("", checksum_address(each)) for each in (admins.addresses if admins else ())),
            ("digest", f"0x{digest}"),
            ("", "Compare it with every other operator, aloud:"),
            *(("", " ".join(digest[at : at + 4] for at in range(row, row + 32, 4))) for row in (0, 32)),
        ]
    )


def _largest(found: Genesis) -> list[tuple[str, str]]:
    """The accounts that hold most."""
    ordered = sorted(found.alloc.items(), key=lambda item: (-item[1], item[0]))
    lines = [
        ("", f"{checksum_address(address)}  {format_amount(amount)}") for address, amount in ordered[:SHOWN_ACCOUNTS]
    ]
    left = len(ordered) - SHOWN_ACCOUNTS
    return [*lines, ("", f"and {left} more")] if left > 0 else lines


def described(found: Genesis) -> dict[str, object]:
    """What a genesis says, as JSON for scripts."""
    fields = msgspec.json.decode(encode_genesis(found), type=dict[str, object])
    del fields["alloc"]
    # Larger than a number of JSON may be for most of its readers.
    supply = str(sum(found.alloc.values()))
    return fields | {
        "network": engine_chain_id(found),
        "accounts": len(found.alloc),
        "supply": supply,
        "digest": spelled_digest(found),
    }
