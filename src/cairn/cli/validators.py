"""`cairn validators`: who makes a network's blocks, and changes of that, signed by its administrators."""

import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from cairn.cli.home import read_address
from cairn.cli.network import COMETBFT_DIRECTORY, FIRST_POWER, read_public_key
from cairn.cli.remote import NodeRefused, RemoteNode
from cairn.cli.report import CommandFailed, reported_errors
from cairn.domain.crypto import address_of_key, checksum_address, parse_address, recover_sender
from cairn.domain.errors import InvalidConfig, NodeError
from cairn.domain.governance import (
    Admins,
    Governance,
    Validator,
    ValidatorUpdate,
    check_validator,
    sign_update,
    update_digest,
)
from cairn.domain.types import ZERO_ADDRESS
from cairn.domain.update_text import encode_public_key, encode_update_text, parse_public_key, parse_update_text

PRIVATE_KEY_BYTES = 32
RESUBMIT_S = 3.0
POLL_S = 0.2
SETTLED_AFTER_BLOCKS = 2
"""An update in one block changes who votes on the block after the next."""

app = typer.Typer(no_args_is_help=True, help="Who makes a network's blocks, and changes of that.")

NodeUrl = Annotated[str, typer.Option("--node", help="A node of the network.", metavar="URL")]
DEFAULT_NODE = "http://127.0.0.1:8645"
KeyFiles = Annotated[
    list[Path] | None,
    typer.Option("--key-file", help="An administrator's key, in hex, that only its owner may read. May be repeated."),
]
OutFile = Annotated[
    Path | None, typer.Option("--out", help="Write the update here, for others to sign, instead of submitting it.")
]
TimeoutS = Annotated[float, typer.Option("--timeout", help="Seconds to wait until the update is in a block.", min=1)]
HomeOf = Annotated[Path | None, typer.Option("--home", help="Home of the validator's node: its key is read there.")]
PublicKey = Annotated[
    str | None, typer.Option("--public-key", help="The validator's Ed25519 key, in base64.", metavar="KEY")
]
Name = Annotated[str | None, typer.Option("--name", help="The validator's name.", metavar="NAME")]
Power = Annotated[int | None, typer.Option("--power", help="How much its vote counts.", metavar="N", min=1)]
FeeRecipient = Annotated[
    str | None, typer.Option("--fee-recipient", help="Account for the fees of its blocks.", metavar="ADDRESS")
]


@app.command("list")
def list_validators(node: NodeUrl = DEFAULT_NODE) -> None:
    """Show the validators as of the newest block, and who may change them."""
    with reported_errors():
        print_validators(RemoteNetwork(node))


@app.command()
def add(
    home: HomeOf = None,
    public_key: PublicKey = None,
    name: Name = None,
    power: Power = None,
    fee_recipient: FeeRecipient = None,
    key_file: KeyFiles = None,
    out: OutFile = None,
    node: NodeUrl = DEFAULT_NODE,
    timeout: TimeoutS = 60,
) -> None:
    """Add a validator. Have its node run and be ready first: the network waits for the votes of its validators."""
    with reported_errors():
        network = RemoteNetwork(node)
        key = choose_key(home, public_key)
        if network.find(key) is not None:
            raise InvalidConfig("it is a validator already; `cairn validators update` changes it")
        recipient = ZERO_ADDRESS if fee_recipient is None else read_address(fee_recipient, "--fee-recipient")
        wanted = Validator(key, power or FIRST_POWER, recipient, name or (home.resolve().name if home else ""))
        network.change(wanted, key_file or [], out, timeout)


@app.command()
def update(
    home: HomeOf = None,
    public_key: PublicKey = None,
    name: Name = None,
    power: Power = None,
    fee_recipient: FeeRecipient = None,
    key_file: KeyFiles = None,
    out: OutFile = None,
    node: NodeUrl = DEFAULT_NODE,
    timeout: TimeoutS = 60,
) -> None:
    """Change a validator's power, fee recipient or name. It is meant by its key, or by its name without one."""
    with reported_errors():
        network = RemoteNetwork(node)
        old = network.choose(home, public_key, name)
        wanted = Validator(
            old.public_key,
            old.power if power is None else power,
            old.fee_recipient if fee_recipient is None else read_address(fee_recipient, "--fee-recipient"),
            old.name if name is None else name,
        )
        network.change(wanted, key_file or [], out, timeout)


@app.command()
def remove(
    home: HomeOf = None,
    public_key: PublicKey = None,
    name: Name = None,
    key_file: KeyFiles = None,
    out: OutFile = None,
    node: NodeUrl = DEFAULT_NODE,
    timeout: TimeoutS = 60,
) -> None:
    """Remove a validator, by its home, key or name. Its node goes on as a full node."""
    with reported_errors():
        network = RemoteNetwork(node)
        old = network.choose(home, public_key, name)
        gone = Validator(old.public_key, 0, old.fee_recipient, old.name)
        network.change(gone, key_file or [], out, timeout)


@app.command()
def sign(
    file: Annotated[Path, typer.Argument(help="The update, as --out wrote it.", show_default=False)],
    key_file: KeyFiles = None,
) -> None:
    """Add signatures to an update in a file. Needs no node: the key never leaves this machine."""
    with reported_errors():
        chain_id, given = read_update(file)
        print(f"Update {given.sequence} of chain {chain_id}: {describe(given.validator)}")
        signed = with_signatures(given, key_file or [], chain_id)
        write_update(file, chain_id, signed)


@app.command()
def submit(
    file: Annotated[Path, typer.Argument(help="The update, signed.", show_default=False)],
    node: NodeUrl = DEFAULT_NODE,
    timeout: TimeoutS = 60,
) -> None:
    """Submit an update from a file, and wait until it has happened."""
    with reported_errors():
        chain_id, given = read_update(file)
        RemoteNetwork(node).submit(chain_id, given, timeout)


class RemoteNetwork:
    """The network as one of its nodes shows it."""

    def __init__(self, url: str) -> None:
        self._node = RemoteNode(url)
        self.refresh()

    def refresh(self) -> None:
        shown = self._node.get("/validators")
        try:
            self.chain_id, self.height = int(shown["chainId"]), int(shown["blockHeight"])
            self.admins = Admins(
                shown["threshold"], tuple(parse_address(address, "admins") for address in shown["admins"])
            )
            validators = tuple(
                Validator(
                    parse_public_key(each["publicKey"]),
                    each["power"],
                    parse_address(each["feeRecipient"], "feeRecipient"),
                    each["name"],
                )
                for each in shown["validators"]
            )
            self.governance = Governance(shown["sequence"], validators)
        except (KeyError, TypeError, ValueError, NodeError) as error:
            raise CommandFailed(f"the node's answer cannot be read: {error}") from None

    def find(self, public_key: bytes) -> Validator | None:
        return next((each for each in self.governance.validators if each.public_key == public_key), None)

    def choose(self, home: Path | None, public_key: str | None, name: str | None) -> Validator:
        """The validator with this key; with this name only when no key is given."""
        if home is None and public_key is None:
            found = [each for each in self.governance.validators if each.name == name]
            if name is None or len(found) != 1:
                raise InvalidConfig(
                    "name one validator: --home, --public-key or --name"
                    if name is None
                    else f"{len(found)} validators are called {name}; name one by --public-key"
                )
            return found[0]
        validator = self.find(choose_key(home, public_key))
        if validator is None:
            raise InvalidConfig("it is no validator of this network")
        return validator

    def change(self, wanted: Validator, key_files: Sequence[Path], out: Path | None, timeout_s: float) -> None:
        """Have the network change one validator, or write that change to a file for others to sign."""
        try:
            check_validator(wanted, least_power=0)
        except NodeError as error:
            raise InvalidConfig(error.detail) from None
        unsigned = ValidatorUpdate(self.governance.sequence, wanted)
        signed = with_signatures(unsigned, key_files, self.chain_id)
        if out is None:
            self.submit(self.chain_id, signed, timeout_s)
        else:
            write_update(out, self.chain_id, signed)
            print(f"{self.admins.threshold} signatures are needed: cairn validators sign {out} --key-file KEY")
            print(f"Then: cairn validators submit {out}")

    def submit(self, chain_id: int, update: ValidatorUpdate, timeout_s: float) -> None:
        """Submit until the network has it. Raises `CommandFailed` with the reason when that does not happen."""
        text = encode_update_text(chain_id, update)
        deadline = time.monotonic() + timeout_s
        submit_at = 0.0
        while self.governance.sequence <= update.sequence:
            if time.monotonic() > deadline:
                raise CommandFailed(f"the update is not in a block after {timeout_s:g} s; it may still come")
            if time.monotonic() >= submit_at:
                # A node keeps no update: what its engine has lost, nobody else would submit again.
                submit_at = time.monotonic() + RESUBMIT_S
                try:
                    self._node.post("/validators", text)
                except NodeRefused as refusal:
                    self.refresh()
                    if self.governance.sequence <= update.sequence:
                        raise CommandFailed(f"refused: {refusal}") from None
            time.sleep(POLL_S)
            self.refresh()
        self._check_happened(update)

    def _check_happened(self, update: ValidatorUpdate) -> None:
        wanted = update.validator
        found = self.find(wanted.public_key)
        if found != (wanted if wanted.power else None):
            raise CommandFailed(f"refused: update {update.sequence} of this chain was another one")
        print(f"Done: {describe(wanted)}, from block {self.height + SETTLED_AFTER_BLOCKS} on at the latest.")
        print_validators(self)


def print_validators(network: RemoteNetwork) -> None:
    governance, admins = network.governance, network.admins
    print(f"Chain {network.chain_id}, block {network.height}, {governance.sequence} updates so far")
    total = sum(each.power for each in governance.validators)
    width = max(4, *(len(each.name) for each in governance.validators))
    print(f"{'name':<{width}}  {'power':>8}  {'share':>6}  {'public key':<44}  fee recipient")
    for each in sorted(governance.validators, key=lambda each: each.name):
        share = f"{100 * each.power / total:.1f}%"
        recipient = checksum_address(each.fee_recipient)
        print(
            f"{each.name:<{width}}  {each.power:>8}  {share:>6}  {encode_public_key(each.public_key):<44}  {recipient}"
        )
    spelled = ", ".join(checksum_address(address) for address in admins.addresses)
    print(f"{admins.threshold} of these must sign a change: {spelled}" if spelled else "Nobody can change them.")


def describe(validator: Validator) -> str:
    name = validator.name or encode_public_key(validator.public_key)
    return f"{name} with power {validator.power}" if validator.power else f"{name} removed"


def choose_key(home: Path | None, public_key: str | None) -> bytes:
    if (home is None) == (public_key is None):
        raise InvalidConfig("name the validator by --home or by --public-key")
    if home is not None:
        return read_public_key(home / COMETBFT_DIRECTORY)
    try:
        return parse_public_key(public_key or "")
    except NodeError as error:
        raise InvalidConfig(f"--public-key: {error.detail}") from None


def with_signatures(update: ValidatorUpdate, key_files: Sequence[Path], chain_id: int) -> ValidatorUpdate:
    """Add the signature of each key, but none twice."""
    digest = update_digest(update, chain_id)
    try:
        signers = {recover_sender(digest, signature) for signature in update.signatures}
    except NodeError as error:
        raise InvalidConfig(f"a signature in the file is wrong: {error.detail}") from None
    keys = {address_of_key(key): key for key in map(read_key, key_files)}
    return sign_update(update, [key for address, key in keys.items() if address not in signers], chain_id)


def read_key(path: Path) -> bytes:
    """A private key from a file. Raises `InvalidConfig`, also when others may read the file."""
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise InvalidConfig(f"{path} can be read by others: chmod 600 {path}")
        key = bytes.fromhex(path.read_text().strip().removeprefix("0x"))
        if len(key) != PRIVATE_KEY_BYTES:
            raise ValueError("a key that lost a digit is not another key")
        address_of_key(key)
    except OSError as error:
        raise InvalidConfig(f"cannot read {path}: {error.strerror}") from None
    except ValueError:
        # Never with its content: that may be a key after all.
        raise InvalidConfig(f"{path} holds no private key of 64 hexadecimal digits") from None
    return key


def read_update(path: Path) -> tuple[int, ValidatorUpdate]:
    try:
        return parse_update_text(path.read_bytes())
    except OSError as error:
        raise InvalidConfig(f"cannot read {path}: {error.strerror}") from None
    except NodeError as error:
        raise InvalidConfig(f"{path}: {error.detail}") from None


def write_update(path: Path, chain_id: int, update: ValidatorUpdate) -> None:
    text = encode_update_text(chain_id, update)
    try:
        written = path.with_name(path.name + ".new")
        written.write_bytes(text)
        os.replace(written, path)
    except OSError as error:
        raise InvalidConfig(f"cannot write {path}: {error.strerror}") from None
    print(f"Wrote {path}; signatures so far: {len(update.signatures)}")
