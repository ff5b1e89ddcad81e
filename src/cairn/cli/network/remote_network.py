"""A network as one of its nodes shows it, and changes of its validators until they have happened."""

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path

from cairn.cli.network.update_files import choose_key, describe, with_signatures, write_update
from cairn.cli.shared.remote import ask_node
from cairn.cli.shared.report import CommandFailed, TimedOut
from cairn.cli.shared.screen import print_json
from cairn.client import AsyncClient
from cairn.client.errors import Rejected
from cairn.client.models import Validators
from cairn.domain.crypto import checksum_address, parse_address
from cairn.domain.errors import InvalidConfig, NodeError
from cairn.domain.governance import Admins, Governance, Validator, ValidatorUpdate, check_validator
from cairn.domain.update_text import encode_public_key, encode_update_text, parse_public_key

RESUBMIT_S = 3.0
POLL_S = 0.2
SETTLED_AFTER_BLOCKS = 2
"""An update in one block changes who votes on the block after the next."""


class RemoteNetwork:
    """The network as one of its nodes shows it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._adopt(ask_node(url, AsyncClient.validators))

    def _adopt(self, shown: Validators) -> None:
        self.shown = shown
        self.chain_id, self.height = shown.chain_id, shown.block_height
        try:
            self.admins = Admins(shown.threshold, tuple(parse_address(address, "admins") for address in shown.admins))
            validators = tuple(
                Validator(
                    parse_public_key(each.public_key),
                    each.power,
                    parse_address(each.fee_recipient, "feeRecipient"),
                    each.name,
                )
                for each in shown.validators
            )
            for validator in validators:
                # What has a name that steers the terminal, or no power, no chain holds.
                check_validator(validator, least_power=1)
        except NodeError as error:
            raise CommandFailed(f"the node's answer cannot be read: {error}") from None
        self.governance = Governance(shown.sequence, validators)

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
            raise InvalidConfig("this is not a validator of the network")
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
        body = json.loads(encode_update_text(chain_id, update))
        self._adopt(ask_node(self._url, lambda node: bring_about(node, body, update.sequence, timeout_s)))
        self._check_happened(update)

    def _check_happened(self, update: ValidatorUpdate) -> None:
        wanted = update.validator
        found = self.find(wanted.public_key)
        if found != (wanted if wanted.power else None):
            raise CommandFailed(
                f"refused: another update has the sequence number {update.sequence}; make this one again"
            )
        print(f"Done: {describe(wanted)}, from block {self.height + SETTLED_AFTER_BLOCKS} on at the latest.")
        print_validators(self)


async def bring_about(node: AsyncClient, update: dict[str, object], sequence: int, timeout_s: float) -> Validators:
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


def print_validators(network: RemoteNetwork, as_json: bool = False) -> None:
    if as_json:
        print_json(network.shown)
        return
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
