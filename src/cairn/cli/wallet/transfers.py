"""A transfer as the user ordered it, and signing it."""

from dataclasses import dataclass
from pathlib import Path

from cairn.cli.look.display import Names
from cairn.cli.shared.amounts import format_amount, parse_amount
from cairn.cli.shared.remote import ask_node, explained_errors
from cairn.cli.shared.screen import print_json, print_pairs
from cairn.cli.wallet.key_files import Keystore
from cairn.cli.wallet.parties import Party, find_party
from cairn.client import Account, AsyncClient, SignedTransfer
from cairn.client.wallet import Price
from cairn.domain.errors import InvalidConfig
from cairn.domain.types import DYNAMIC_FEE, TRANSFER_GAS


def read_price(gas_price: str | None, max_fee: str | None, tip: str | None) -> Price:
    """Raises `InvalidConfig` for an invalid price."""
    if gas_price is not None and (max_fee is not None or tip is not None):
        raise InvalidConfig("--gas-price: give it, or --max-fee and --tip, not both")
    texts = {"--gas-price": gas_price, "--max-fee": max_fee, "--tip": tip}
    return Price(*(None if text is None else parse_amount(text, option) for option, text in texts.items()))


@dataclass(frozen=True, slots=True)
class TransferOrder:
    sender: Party
    to: Party
    value: int
    nonce: int | None
    """None means the sender's next nonce."""
    price: Price


def read_order(keystore: Keystore, sender: str, to: str, amount: str, nonce: int | None, price: Price) -> TransferOrder:
    """Raises `InvalidConfig` for an invalid argument, `NotFound` for an unknown name."""
    return TransferOrder(
        find_party(sender, keystore, "FROM"),
        find_party(to, keystore, "TO"),
        parse_amount(amount, "AMOUNT"),
        nonce,
        price,
    )


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
    terms = order.price.terms(base_fee)
    is_dynamic = terms.kind == DYNAMIC_FEE
    account = Account(order.sender.unlock(password_file))
    with explained_errors(url):
        return account.sign(
            order.to.spelled,
            order.value,
            nonce=nonce,
            chain_id=chain_id,
            gas_price=None if is_dynamic else terms.gas_price,
            max_fee=terms.max_fee if is_dynamic else None,
            tip=terms.max_tip,
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
            (fee, format_amount(TRANSFER_GAS * signed.gas_price)),
            ("nonce", str(signed.nonce)),
            ("signature", signed.signature),
        ]
    )
    print("Signed, not sent. With --json it is the body for POST /tx.")
