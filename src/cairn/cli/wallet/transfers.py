"""A transfer as it is ordered, and signed."""

from dataclasses import dataclass
from pathlib import Path

from cairn.cli.look.display import Names
from cairn.cli.shared.amounts import format_amount, parse_amount
from cairn.cli.shared.remote import ask_node, explained_errors
from cairn.cli.shared.screen import print_json, print_pairs
from cairn.cli.wallet.key_files import Keystore
from cairn.cli.wallet.parties import Party, find_party
from cairn.client import Account, AsyncClient, SignedTransfer
from cairn.domain.crypto import checksum_address
from cairn.domain.types import TRANSFER_GAS


@dataclass(frozen=True, slots=True)
class TransferOrder:
    sender: Party
    to: Party
    value: int
    nonce: int | None
    """None is the sender's next one."""
    gas_price: int | None
    """None is the chain's."""

    @property
    def to_address(self) -> str:
        return checksum_address(self.to.address)

    @property
    def sender_address(self) -> str:
        return checksum_address(self.sender.address)


def read_order(
    keystore: Keystore, sender: str, to: str, amount: str, nonce: int | None, gas_price: str | None
) -> TransferOrder:
    """Raises `InvalidConfig` for what cannot be meant, `NotFound` for a name that nobody has."""
    return TransferOrder(
        find_party(sender, keystore, "FROM"),
        find_party(to, keystore, "TO"),
        parse_amount(amount, "AMOUNT"),
        nonce,
        None if gas_price is None else parse_amount(gas_price, "--gas-price"),
    )


def sign_order(url: str, order: TransferOrder, chain_id: int | None, password_file: Path | None) -> SignedTransfer:
    """Ask the node only for what the order leaves open, and before the password: what fails should fail early."""
    nonce, gas_price = order.nonce, order.gas_price
    if nonce is None:
        nonce = ask_node(url, lambda node: node.account(order.sender_address)).pending_nonce
    if gas_price is None or chain_id is None:
        chain = ask_node(url, AsyncClient.chain)
        gas_price = chain.gas_price if gas_price is None else gas_price
        chain_id = chain.chain_id if chain_id is None else chain_id
    account = Account(order.sender.unlock(password_file))
    with explained_errors(url):
        return account.sign(order.to_address, order.value, nonce=nonce, chain_id=chain_id, gas_price=gas_price)


def show_signed(signed: SignedTransfer, names: Names, as_json: bool) -> None:
    if as_json:
        print_json(signed.body())
        return
    print_pairs(
        [
            ("transaction", signed.tx_hash),
            ("from", names.full(signed.sender)),
            ("to", names.full(signed.to)),
            ("amount", format_amount(signed.value)),
            ("fee", format_amount(TRANSFER_GAS * signed.gas_price)),
            ("nonce", str(signed.nonce)),
            ("signature", signed.signature),
        ]
    )
    print("Signed, not sent. With --json it is the body for POST /tx.")
