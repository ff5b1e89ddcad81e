"""Transfers and accounts for tests that look at no signature."""

from hashlib import sha256

from cairn.domain.types import DYNAMIC_FEE, EMPTY_ACCOUNT, TRANSFER_GAS, Account, Address, Rules, Tx, TxHash
from tests.support.tx_data import gas_of

RULES = Rules(chain_id=1337, gas_price=10, block_gas_limit=TRANSFER_GAS * 1000)


def address(number: int) -> Address:
    return Address(number.to_bytes(20, "big"))


def dynamic(sender: int, nonce: int, max_fee: int, max_tip: int, value: int = 1, data: bytes = b"") -> Tx:
    """A transfer of type 2."""
    price = min(max_fee, RULES.gas_price + max_tip)
    digest = sha256(repr((sender, nonce, max_fee, max_tip, value, data)).encode()).digest()
    places = (TxHash(digest), address(sender), address(999))
    return Tx(*places, nonce, gas_of(data), price, value, bytes(65), DYNAMIC_FEE, max_fee, max_tip, data)


def transfer(
    sender: int,
    nonce: int,
    *,
    gas_price: int = 10,
    value: int = 1,
    gas: int | None = None,
    to: int = 999,
    data: bytes = b"",
) -> Tx:
    """An unsigned transfer with just enough gas. Equal fields give an equal hash, as with real transactions."""
    gas = gas_of(data) if gas is None else gas
    digest = sha256(repr((sender, nonce, gas_price, value, gas, to, data)).encode()).digest()
    return Tx(TxHash(digest), address(sender), address(to), nonce, gas, gas_price, value, bytes(65), data=data)


class Accounts:
    """A state that tests set as they please."""

    def __init__(self) -> None:
        self._accounts: dict[Address, Account] = {}

    def account(self, address: Address) -> Account:
        return self._accounts.get(address, EMPTY_ACCOUNT)

    def put(self, address: Address, balance: int, nonce: int) -> None:
        self._accounts[address] = Account(balance, nonce)

    def apply(self, tx: Tx) -> None:
        sender = self.account(tx.sender)
        self.put(tx.sender, sender.balance - tx.debit, tx.nonce + 1)
        recipient = self.account(tx.to)
        self.put(tx.to, recipient.balance + tx.value, recipient.nonce)
