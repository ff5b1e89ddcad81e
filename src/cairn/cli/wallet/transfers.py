"""`cairn send` and `cairn sign`: look at the account, ask, sign, submit, and wait for the block."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec.json import Decoder
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from cairn.cli.amounts import format_amount, parse_amount
from cairn.cli.look.display import Names, data_pairs
from cairn.cli.remote import (
    PATIENCE_S,
    ask_node,
    describe_missing,
    describe_pending,
    explained_errors,
    find_missing,
    wait_confirmed,
)
from cairn.cli.report import CommandFailed, warn
from cairn.cli.screen import Output, data_text, is_confirmed, print_json, print_line, print_lines, print_pairs
from cairn.cli.wallet.key_files import Keystore
from cairn.cli.wallet.parties import Party, find_party
from cairn.client import Account, AsyncClient, SignedTransfer
from cairn.client.errors import ClientError
from cairn.client.models import AccountState, Chain, ConfirmedTransaction, Submitted
from cairn.client.transport import Transport
from cairn.client.wallet import Price
from cairn.domain.crypto import checksum_address, parse_address
from cairn.domain.errors import InvalidConfig, InvalidField
from cairn.domain.genesis import COIN, DEV_KEYS
from cairn.domain.json_fields import find_data
from cairn.domain.references import data_of, reference_of
from cairn.domain.rules import check_data
from cairn.domain.transactions import Terms
from cairn.domain.types import TRANSFER_GAS, Address, intrinsic_gas


def read_price(gas_price: str | None, max_fee: str | None, tip: str | None) -> Price:
    """The price in the options. Raises `InvalidConfig` for an invalid one."""
    if gas_price is not None and (max_fee is not None or tip is not None):
        raise InvalidConfig("--gas-price: give it, or --max-fee and --tip, not both")
    texts = {"--gas-price": gas_price, "--max-fee": max_fee, "--tip": tip}
    return Price(*(None if text is None else parse_amount(text, option) for option, text in texts.items()))


def read_note(reference: str | None, data: str | None) -> bytes:
    """The data of the transfer, from either option. Raises `InvalidConfig` for an invalid one."""
    if reference is not None and data is not None:
        raise InvalidConfig("--reference: give it, or --data, not both")
    if data is not None:
        found = find_data(data)
        if found is None:
            raise InvalidConfig(f"--data: {data!r} is not 0x and two hexadecimal digits for each byte")
        return found
    try:
        return b"" if reference is None else data_of(reference)
    except InvalidField as invalid:
        raise InvalidConfig(f"--{invalid.detail}") from None


@dataclass(frozen=True, slots=True)
class TransferOrder:
    sender: Party
    to: Party
    value: int
    nonce: int | None
    """None means the sender's next nonce."""
    price: Price
    data: bytes = b""
    is_plain_number: bool = False
    """The amount was written without a unit, and so it is wei."""

    @property
    def gas(self) -> int:
        return intrinsic_gas(self.data)


def read_order(
    keystore: Keystore, sender: str, to: str, amount: str, nonce: int | None, price: Price, data: bytes
) -> TransferOrder:
    """The transfer in the arguments. Raises `InvalidConfig` for an invalid one, `NoSuchItem` for an unknown name."""
    return TransferOrder(
        find_party(sender, keystore, "FROM"),
        find_party(to, keystore, "TO"),
        parse_amount(amount, "AMOUNT"),
        nonce,
        price,
        data,
        amount.isdigit(),
    )


def describe_unit(order: TransferOrder) -> str | None:
    """What an amount without a unit means; None for any other, and for 0, which is 0 in every unit."""
    if not order.is_plain_number or not order.value:
        return None
    return f"an amount without a unit is in wei: this is {format_amount(order.value)}, and 1coin is {COIN:,} wei"


def sign_order(url: str, order: TransferOrder, chain_id: int | None, password_file: Path | None) -> SignedTransfer:
    """Ask the node only for what the order leaves open. Before the password is asked for, so that errors come early."""
    nonce, base_fee = order.nonce, 0
    if nonce is None:
        nonce = ask_node(url, lambda node: node.account(order.sender.spelled)).pending_nonce
    names_no_price = order.price.gas_price is None and order.price.max_fee is None
    if names_no_price or chain_id is None:
        chain = ask_node(url, AsyncClient.chain)
        base_fee = chain.gas_price
        chain_id = chain.chain_id if chain_id is None else chain_id
    price = order.price.settled(base_fee)
    account = Account(order.sender.unlock(password_file))
    with explained_errors(url):
        return account.sign(
            order.to.spelled,
            order.value,
            nonce=nonce,
            chain_id=chain_id,
            gas_price=price.gas_price,
            max_fee=price.max_fee,
            tip=price.tip or 0,
            data=order.data,
        )


def show_signed(signed: SignedTransfer, names: Names, as_json: bool) -> None:
    if as_json:
        print_json(signed.body())
        return
    fee = "fee" if signed.max_fee_per_gas is None else "fee at most"
    print_pairs(
        [
            ("transaction", signed.tx_hash),
            ("from", names.full(signed.sender)),
            ("to", names.full(signed.to)),
            ("amount", format_amount(signed.value)),
            *data_pairs(signed),
            (fee, format_amount(signed.gas * signed.gas_price)),
            ("nonce", str(signed.nonce)),
            ("signature", signed.signature),
        ]
    )
    print_line("Signed, not sent. With --json it is the body for POST /tx.")


class Sending:
    """One run of `cairn send`."""

    def __init__(self, url: str, order: TransferOrder, as_json: bool) -> None:
        self._url = url
        self._order = order
        self._as_json = as_json
        self._tx_hash: str | None = None
        """Set once it is submitted."""

    def send(self, password_file: Path | None, is_sure: bool, wait_s: float | None) -> None:
        """Pay, and wait for at most `wait_s`. Raises `CommandFailed` that says whether anything was sent."""
        chain, missing, dev_accounts = ask_node(self._url, self._look)
        if self._order.to.is_public:
            self._warn_of_public_recipient(dev_accounts)
        if missing and not self._as_json:
            nonces = f"{describe_missing(missing)} before nonce {self._order.nonce}"
            warn(f"{nonces}: no block can include it until they are sent")
        if not is_sure and sys.stdin.isatty():
            self._confirm(chain)
        elif not self._as_json and (unit := describe_unit(self._order)):
            warn(unit)
        account = Account(self._order.sender.unlock(password_file))
        try:
            # Exactly what was shown: the node, asked again, may tell of another chain or price.
            price = self._order.price.settled(chain.gas_price)
            ask_node(self._url, lambda node: self._submit(node, account, price, wait_s), chain.chain_id)
        except KeyboardInterrupt:
            if self._tx_hash is not None:
                print_line(f"cairn: no longer waiting; `cairn tx {self._tx_hash}` shows its status", sys.stderr)
            raise

    async def _look(self, node: AsyncClient) -> tuple[Chain, list[range], list[Address]]:
        """The chain, the missing nonces, and the chain's dev accounts if those matter."""
        sender, nonce = self._order.sender.spelled, self._order.nonce
        missing = [] if nonce is None else await find_missing(node, sender, nonce)
        chain = await node.chain()
        check_data(self._order.data, chain.max_data_bytes)
        await self._check_funds(node, chain, await node.account(sender))
        return chain, missing, await find_dev_accounts(self._url) if self._order.to.is_public else []

    def _warn_of_public_recipient(self, dev_accounts: list[Address]) -> None:
        to = self._order.to
        other = describe_other_account(to, dev_accounts)
        if not dev_accounts:
            warn(f"the key of {to} is public, and this is not a dev chain: anybody can spend what it gets")
        elif other is not None:
            warn(f"{other}, and this pays {to.spelled}")

    def _terms(self, chain: Chain) -> Terms:
        return self._order.price.terms(chain.gas_price)

    async def _check_funds(self, node: AsyncClient, chain: Chain, state: AccountState) -> None:
        """Check the balance before asking for the password. The node checks it again, with what is pending."""
        fee = self._order.gas * self._terms(chain).gas_price
        need = self._order.value + fee
        if need <= state.balance:
            return
        advice = await self._advise(node, chain, need - state.balance)
        raise CommandFailed(
            f"{self._order.sender} has {format_amount(state.balance)} but needs {format_amount(need)}: "
            f"{format_amount(self._order.value)} plus a fee of {format_amount(fee)}{advice}",
            "INSUFFICIENT_FUNDS",
        )

    async def _advise(self, node: AsyncClient, chain: Chain, missing: int) -> str:
        """On a dev chain: who can give what is missing, or which account has the sender's name there."""
        sender = self._order.sender
        dev_accounts = await find_dev_accounts(self._url)
        other = describe_other_account(sender, dev_accounts)
        if other is not None:
            return f"; {other}, and `cairn keys import` with its mnemonic lets you pay from it"
        coins = -(-missing // COIN)
        cost = coins * COIN + TRANSFER_GAS * chain.gas_price
        giver = await find_giver(node, dev_accounts, sender.address, cost)
        if giver is None:
            return ""
        return f"; `cairn send {giver} {sender.name or sender.spelled} {coins}coins` gives it some"

    def _confirm(self, chain: Chain) -> None:
        """Ask on standard error; standard output is for the result."""
        terms = self._terms(chain)
        fee = f"a fee of {format_amount(self._order.gas * terms.gas_price)}"
        if terms.max_fee > terms.gas_price:
            fee += f", {format_amount(self._order.gas * terms.max_fee)} at most"
        lines = [
            f"from    {self._order.sender}",
            f"to      {self._order.to}",
            f"amount  {format_amount(self._order.value)}, and {fee}",
            *self._told_data(),
            f"chain   {chain.chain_id}, at {self._url}",
            *([f"note    {unit}"] if (unit := describe_unit(self._order)) else []),
        ]
        for line in lines:
            print_line(line, sys.stderr)
        if not is_confirmed("Send it?"):
            raise CommandFailed("nothing was sent")

    def _told_data(self) -> list[str]:
        data = self._order.data
        return [f"for     {data_text(reference_of(data), '0x' + data.hex())}"] if data else []

    async def _submit(self, node: AsyncClient, account: Account, price: Price, wait_s: float | None) -> None:
        order, wallet = self._order, node.wallet(account)
        to, value, data, gas_price, max_fee, tip = order.to.spelled, order.value, order.data, *price
        if order.nonce is None:
            tx_hash = await wallet.send(to, value, data=data, gas_price=gas_price, max_fee=max_fee, tip=tip)
            submitted = Submitted("pending", tx_hash)
        else:
            signed = await wallet.sign(
                to, value, nonce=order.nonce, data=data, gas_price=gas_price, max_fee=max_fee, tip=tip
            )
            submitted = await node.submit(signed)
        self._tx_hash = submitted.tx_hash
        self._tell("sent", f"{format_amount(order.value)} from {order.sender.title} to {order.to.title}")
        self._tell("hash", submitted.tx_hash)
        if submitted.queued_reason is not None:
            self._tell("status", describe_pending(submitted.queued_reason))
        if wait_s is None:
            if self._as_json:
                print_json(submitted)
            return
        started = time.monotonic()
        with progress("waiting for its block"):
            confirmed = await wait_confirmed(node, submitted.tx_hash, wait_s)
        self._tell_confirmed(confirmed, time.monotonic() - started)

    def _tell_confirmed(self, tx: ConfirmedTransaction, waited_s: float) -> None:
        if self._as_json:
            print_json(tx)
        else:
            self._tell("confirmed", f"in block {tx.block_height} after {waited_s:.1f} s, fee {format_amount(tx.fee)}")

    def _tell(self, what: str, text: str) -> None:
        if not self._as_json:
            print_lines([Text.assemble((f"{what:<11}", "bold green"), text)])


@contextmanager
def progress(text: str) -> Iterator[None]:
    """Show progress, at a terminal only."""
    console = Output(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        shown.add_task(text, total=None)
        yield


class _EthAccounts(msgspec.Struct):
    result: list[str]


_ANSWER = Decoder(_EthAccounts)
_CALL = {"jsonrpc": "2.0", "id": 1, "method": "eth_accounts", "params": []}


async def find_dev_accounts(url: str) -> list[Address]:
    """The accounts that the node signs for: dev0, dev1 and so on of its chain.

    None on a chain that is not a dev chain. A node that does not say counts as one of those.
    """
    transport = Transport(url, timeout_s=PATIENCE_S, silence_timeout_s=PATIENCE_S, tls=None)
    try:
        answer = await transport.post("/rpc", _CALL, _ANSWER)
        return [parse_address(spelled, "eth_accounts") for spelled in answer.result]
    except (ClientError, InvalidField):
        return []
    finally:
        await transport.close()


async def find_giver(node: AsyncClient, accounts: Sequence[Address], receiver: Address, cost: int) -> str | None:
    """The name of the first dev account that can pay `cost` to `receiver`, and whose key is public."""
    for index, (address, _) in enumerate(DEV_KEYS):
        is_asked = address in accounts and address != receiver
        if is_asked and (await node.account(checksum_address(address))).balance >= cost:
            return f"dev{index}"
    return None


def describe_other_account(party: Party, accounts: Sequence[Address]) -> str | None:
    """Which account has the name of `party` on this chain, if `party` was named as a dev account and is none there."""
    index = party.dev_index
    if index is None or not accounts:
        return None
    shown = index if index < len(accounts) else 0
    if accounts[shown] == DEV_KEYS[shown][0]:
        return None
    return f"this chain has its own dev accounts (--mnemonic): its dev{shown} is {checksum_address(accounts[shown])}"
