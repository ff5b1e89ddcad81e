"""The commands that spend: their options only, so that --help needs neither the HTTP client nor the wallet library."""

import re
from itertools import pairwise
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from cairn.cli.amounts import UNITS
from cairn.cli.options import (
    DEFAULT_NODE,
    AsJson,
    KeysDirectory,
    NodeUrl,
    PasswordFile,
    keystore_in,
    made_by,
    party_argument,
)
from cairn.cli.report import UsageError, WrongUsage, reported_errors, reported_exit

_is_negative = re.compile(r"-[0-9].*").fullmatch
_is_number = re.compile(r"[0-9.]+").fullmatch

Sender = Annotated[
    str, party_argument("FROM", "Who pays: the name or address of a key (`cairn keys list`), or dev0 to dev9.")
]
Recipient = Annotated[str, party_argument("TO", "Who is paid: an address, the name of a key, or dev0 to dev9.")]
Amount = Annotated[
    str,
    typer.Argument(
        help="1.5coins or 20gwei. A whole number without a unit is in wei.", metavar="AMOUNT", show_default=False
    ),
]
Nonce = Annotated[
    int | None, typer.Option(help="Nonce of the transaction; by default, the account's next one.", metavar="N", min=0)
]
GasPrice = Annotated[
    str | None, typer.Option(help="Price of a unit of gas, such as 2gwei; by default, the chain's.", metavar="AMOUNT")
]
MaxFee = Annotated[
    str | None,
    typer.Option(help="Maximum price of a unit of gas, such as 3gwei; makes it type 2 (EIP-1559).", metavar="AMOUNT"),
]
Tip = Annotated[
    str | None,
    typer.Option(help="Paid on top of the chain's gas price, to be mined earlier.", metavar="AMOUNT"),
]
Reference = Annotated[
    str | None,
    typer.Option(help='What it is for, such as "invoice 4711". Anyone can read it, forever.', metavar="TEXT"),
]
Data = Annotated[
    str | None, typer.Option(help="Like --reference, for what is not printable text: 0x and hex digits.", metavar="HEX")
]


class PayingCommand(TyperCommand):
    """A command that takes an amount: -1 is a wrong one, unless it is the value of an option; so is `1 coin`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        as_json = "--json" in args
        before_dashes = args[: args.index("--")] if "--" in args else args
        valued = {name for option in self.params if not getattr(option, "is_flag", True) for name in option.opts}
        for before, given in zip(["", *before_dashes], before_dashes, strict=False):
            if _is_negative(given) and before not in valued:
                raise reported_exit(WrongUsage(f"AMOUNT: {given!r} is negative; an amount is 0 or more"), as_json)
        try:
            return super().parse_args(ctx, list(args))
        except UsageError:
            for number, unit in pairwise(before_dashes):
                if _is_number(number) and unit in UNITS:
                    raise reported_exit(WrongUsage(f"write {number}{unit}, without a space"), as_json) from None
            raise


@made_by(PayingCommand)
def send(
    sender: Sender,
    to: Recipient,
    amount: Amount,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before sending.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait for confirmation.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for confirmation.", metavar="SECONDS", min=0)] = 60,
    reference: Reference = None,
    data: Data = None,
    nonce: Nonce = None,
    gas_price: GasPrice = None,
    max_fee: MaxFee = None,
    tip: Tip = None,
    keys: KeysDirectory = None,
    password_file: PasswordFile = None,
    node: NodeUrl = DEFAULT_NODE,
    as_json: AsJson = False,
) -> None:
    """Pay: sign on this machine, submit, and wait until the transaction is in a block.

    The key never leaves this machine. At a terminal you are asked before anything is sent.
    """
    from cairn.cli.wallet.transfers import Sending, read_note, read_order, read_price

    with reported_errors(as_json):
        price, note = read_price(gas_price, max_fee, tip), read_note(reference, data)
        order = read_order(keystore_in(keys), sender, to, amount, nonce, price, note)
        Sending(node, order, as_json).send(password_file, is_sure=yes, wait_s=None if no_wait else timeout)


@made_by(PayingCommand)
def sign(
    sender: Sender,
    to: Recipient,
    amount: Amount,
    reference: Reference = None,
    data: Data = None,
    nonce: Nonce = None,
    gas_price: GasPrice = None,
    max_fee: MaxFee = None,
    tip: Tip = None,
    chain_id: Annotated[
        int | None, typer.Option(help="Chain id to sign for; by default, the node's.", metavar="N", min=1)
    ] = None,
    keys: KeysDirectory = None,
    password_file: PasswordFile = None,
    node: NodeUrl = DEFAULT_NODE,
    as_json: AsJson = False,
) -> None:
    """Sign a transfer without sending it; with --json, as the body that `POST /tx` takes.

    With --nonce, --gas-price (or --max-fee) and --chain-id no node is asked, so it works on an offline machine.
    """
    from cairn.cli.look.display import Names
    from cairn.cli.wallet.transfers import read_note, read_order, read_price, show_signed, sign_order

    with reported_errors(as_json):
        keystore = keystore_in(keys)
        price, note = read_price(gas_price, max_fee, tip), read_note(reference, data)
        order = read_order(keystore, sender, to, amount, nonce, price, note)
        show_signed(sign_order(node, order, chain_id, password_file), Names(keystore), as_json)
