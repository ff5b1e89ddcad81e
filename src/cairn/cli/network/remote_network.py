"""A network as one of its nodes shows it, and updates of it until they have happened."""

import asyncio
import json
import time
from pathlib import Path

from cairn.cli.network.update_signing import (
    Signing,
    choose_key,
    read_keys,
    show_and_ask,
    summary,
    tolerated,
    with_signatures,
    write_update,
)
from cairn.cli.remote import ask_node
from cairn.cli.report import CommandFailed, TimedOut, warn
from cairn.cli.screen import print_json, print_line, print_table, when
from cairn.client import AsyncClient
from cairn.client.errors import Rejected
from cairn.client.models import Validators
from cairn.domain.crypto import checksum_address, parse_address
from cairn.domain.errors import InvalidConfig, NodeError, UpdateRefused
from cairn.domain.governance import (
    Admins,
    AdminsUpdate,
    ChainIdentity,
    Governance,
    Update,
    ValidatorRecord,
    check_admins,
    check_validator,
)
from cairn.domain.update_json import encode_public_key, encode_update_json, parse_genesis_digest, parse_public_key
from cairn.domain.updates import check_chain, preview_update, update_admins, update_validator

RESUBMIT_S = 3.0
POLL_S = 0.2
SHOWN_EVIDENCE = 10
SETTLED_AFTER_BLOCKS = 2
"""An update in one block changes who votes on the block after the next."""


class RemoteNetwork:
    """The network as one of its nodes shows it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._read(ask_node(url, AsyncClient.validators))

    def _read(self, shown: Validators) -> None:
        self.shown = shown
        self.height = shown.block_height
        try:
            self.chain = ChainIdentity(shown.chain_id, parse_genesis_digest(shown.genesis))
            addresses = tuple(parse_address(address, "admins") for address in shown.admins)
            admins = Admins(shown.threshold, addresses) if addresses else None
            if admins is not None:
                check_admins(admins)
            validators = tuple(
                ValidatorRecord(
                    parse_public_key(each.public_key),
                    each.power,
                    parse_address(each.fee_recipient, "feeRecipient"),
                    each.name,
                )
                for each in shown.validators
            )
            for validator in validators:
                # No chain has a validator without power, or with a name that contains control codes.
                check_validator(validator, least_power=1)
        except NodeError as error:
            raise CommandFailed(f"the node's answer cannot be read: {error.detail}") from None
        self.governance = Governance(shown.sequence, validators, admins=admins)

    def choose(self, home: Path | None, public_key: str | None, file: Path | None, name: str | None) -> ValidatorRecord:
        """The validator with this key; with this name only when no key is given."""
        if home is None and public_key is None and file is None:
            found = [each for each in self.governance.validators if each.name == name]
            if name is None or len(found) != 1:
                raise InvalidConfig(
                    "name one validator: --home, --public-key, --file or --name"
                    if name is None
                    else f"{len(found)} validators are called {name}; name one by --public-key"
                )
            return found[0]
        validator = self.governance.find(choose_key(home, public_key, file))
        if validator is None:
            raise InvalidConfig("this is not a validator of the network")
        return validator

    def find_namesake(self, name: str) -> ValidatorRecord | None:
        """Whom a new key of this name stands in for: the only validator that is called so."""
        found = [each for each in self.governance.validators if name and each.name == name]
        return found[0] if len(found) == 1 else None

    def change(self, wanted: ValidatorRecord | Admins, how: Signing) -> None:
        """Have the network change one validator or its administrators, or write that change to a file to sign."""
        try:
            if isinstance(wanted, Admins):
                check_admins(wanted)
                unsigned: Update = update_admins(self.governance, wanted)
            else:
                check_validator(wanted, least_power=0)
                unsigned = update_validator(self.governance, wanted)
        except UpdateRefused as refusal:
            raise InvalidConfig(f"the network would refuse it: {refusal.detail}") from None
        except NodeError as error:
            raise InvalidConfig(error.detail) from None
        keys = read_keys(how.key_files, how.stored_keys)
        self._warn_of_silent(unsigned)
        show_and_ask(self.chain, unsigned, how.yes)
        signed = with_signatures(unsigned, keys, self.chain)
        if how.out is None:
            self.submit(self.chain, signed, how.timeout_s)
        else:
            write_update(how.out, self.chain, signed)
            admins = self.governance.admins
            assert admins is not None
            print_line(f"{admins.threshold} signatures are needed: cairn validators sign {how.out} --key-file KEY")
            print_line(f"Then: cairn validators submit {how.out}")

    def check(self, chain: ChainIdentity, update: Update) -> None:
        """Check that the network would accept this update once it is signed. Raises `CommandFailed`."""
        self._check_chain(chain)
        try:
            preview_update(self.governance, update)
        except UpdateRefused as refusal:
            raise CommandFailed(f"the network would refuse it: {refusal.detail}") from None
        self._warn_of_silent(update)

    def _check_chain(self, named: ChainIdentity) -> None:
        try:
            check_chain(named, self.chain)
        except UpdateRefused as refusal:
            raise CommandFailed(refusal.detail) from None

    def _warn_of_silent(self, update: Update) -> None:
        """Warn if validators that do not vote now could stop the network after the update: nobody could undo it."""
        after = preview_update(self.governance, update)
        missed = {parse_public_key(each.public_key): each.missed_blocks for each in self.shown.validators}
        silent = [each for each in after.validators if 2 * missed.get(each.public_key, 0) > self.shown.voted_blocks]
        power, total = sum(each.power for each in silent), after.total_power
        if power > tolerated(total):
            names = ", ".join(each.name or encode_public_key(each.public_key) for each in silent)
            warn(
                f"the network would stand still, and nothing could be changed any more: {names} missed most of the "
                f"last {self.shown.voted_blocks} blocks, and would have power {power} of {total}"
            )

    def submit(self, chain: ChainIdentity, update: Update, timeout_s: float) -> None:
        """Submit until the network has it. Raises `CommandFailed` with the reason when that does not happen."""
        self._check_chain(chain)
        was_applied = self.governance.sequence > update.sequence
        body = json.loads(encode_update_json(chain, update))
        self._read(ask_node(self._url, lambda node: submit_until_applied(node, body, update.sequence, timeout_s)))
        if not self._agrees_with(update):
            raise CommandFailed(self._not_applied(update.sequence))
        if was_applied:
            # In which block, nobody remembers.
            print_line(f"Nothing to do: an update number {update.sequence} was applied before; {summary(update)}.")
        else:
            print_line(f"Done: {summary(update)}, from block {self.height + SETTLED_AFTER_BLOCKS} on at the latest.")
        print_validators(self)

    def wait_until_settled(self, timeout_s: float) -> None:
        """Wait until what the network last showed is in effect. Raises `TimedOut`."""
        height = self.height + SETTLED_AFTER_BLOCKS
        ask_node(self._url, lambda node: reach_height(node, height, timeout_s))
        print_line(f"In effect: block {height} has been made.")

    def _agrees_with(self, update: Update) -> bool:
        """Whether the network is as this update sets it."""
        if isinstance(update, AdminsUpdate):
            return self.governance.admins == update.admins
        wanted = update.validator
        return self.governance.find(wanted.public_key) == (wanted if wanted.power else None)

    def _not_applied(self, sequence: int) -> str:
        if self.governance.sequence == sequence + 1:
            return f"refused: another update has the sequence number {sequence}; make this one again"
        return (
            f"refused: the network has had {self.governance.sequence - sequence - 1} updates since the one with the "
            f"sequence number {sequence}, which was this one or another; if need be, make it again"
        )


async def submit_until_applied(
    node: AsyncClient, update: dict[str, object], sequence: int, timeout_s: float
) -> Validators:
    """Submit until an update of this number is in a block: this one, or another that came first."""
    deadline = time.monotonic() + timeout_s
    submit_at = 0.0
    while (shown := await node.validators()).sequence <= sequence:
        if time.monotonic() > deadline:
            raise TimedOut(f"the update is not in a block after {timeout_s:g} s; it may still come")
        if time.monotonic() >= submit_at:
            # A node keeps no update: what its engine has lost, nobody else would submit again.
            submit_at = time.monotonic() + RESUBMIT_S
            try:
                await node.submit_update(update)
            except Rejected as refusal:
                if (await node.validators()).sequence <= sequence:
                    raise CommandFailed(f"refused: {refusal.detail}", refusal.code) from None
        await asyncio.sleep(POLL_S)
    return shown


async def reach_height(node: AsyncClient, height: int, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while (await node.validators()).block_height < height:
        if time.monotonic() > deadline:
            raise TimedOut(f"the update is in a block, but block {height} is not there after {timeout_s:g} s")
        await asyncio.sleep(POLL_S)


def print_validators(network: RemoteNetwork, as_json: bool = False) -> None:
    shown, governance = network.shown, network.governance
    if as_json:
        print_json(shown)
        return
    print_line(f"Chain {network.chain.chain_id}, block {network.height}, {governance.sequence} updates so far")
    total = governance.total_power
    print_table(
        ["name", "power", "share", "missed", "public key", "fee recipient"],
        [
            [
                each.name,
                str(each.power),
                f"{100 * each.power / total:.1f}%",
                str(each.missed_blocks),
                each.public_key,
                checksum_address(parse_address(each.fee_recipient, "feeRecipient")),
            ]
            for each in sorted(shown.validators, key=lambda each: each.name)
        ],
    )
    print_line(
        f"Power {tolerated(total)} of {total} may fail. Missed are votes of the last {shown.voted_blocks} blocks."
    )
    print_evidence(shown)
    print_admins(governance.admins)


def print_evidence(shown: Validators) -> None:
    if not shown.evidence_count:
        return
    print_line(f"Evidence against validators: {shown.evidence_count} pieces, the latest of them")
    print_table(
        ["block", "kind", "name", "address", "time"],
        [
            [str(each.block_height), each.kind, each.name, each.address, when(each.timestamp)]
            for each in shown.evidence[:SHOWN_EVIDENCE]
        ],
    )


def print_admins(admins: Admins | None) -> None:
    if admins is None:
        print_line("Nobody can change them.")
        return
    spelled = ", ".join(checksum_address(address) for address in admins.addresses)
    print_line(f"{admins.threshold} of these must sign a change: {spelled}")
