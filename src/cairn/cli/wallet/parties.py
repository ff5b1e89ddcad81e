"""Accounts as a user names them: an address, the name of a stored key, or dev0 to dev9."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cairn.cli.amounts import parse_amount
from cairn.cli.node.home import read_address
from cairn.cli.report import NoSuchItem
from cairn.cli.wallet.key_files import Keystore, StoredKey, match_dev_name, read_password, unlock
from cairn.domain.crypto import checksum_address
from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import DEV_KEYS
from cairn.domain.types import Address

_PUBLIC = dict(DEV_KEYS)


@dataclass(frozen=True, slots=True)
class Party:
    address: Address
    name: str = ""
    stored: StoredKey | None = None

    def __str__(self) -> str:
        return f"{self.name} ({self.spelled})" if self.name else self.spelled

    @property
    def title(self) -> str:
        """The name, or else the address."""
        return self.name or self.spelled

    @property
    def spelled(self) -> str:
        """The address with its checksum."""
        return checksum_address(self.address)

    @property
    def is_public(self) -> bool:
        """Whether the key is public."""
        return self.address in _PUBLIC

    @property
    def dev_index(self) -> int | None:
        """The number of the usual dev account that it was named as, if it was."""
        dev = match_dev_name(self.name) if self.stored is None else None
        return None if dev is None else int(dev[1])

    def unlock(self, password_file: Path | None) -> bytes:
        """The private key of `address`. Raises `NoSuchItem` when it is not here, `PasswordRefused`, `InvalidConfig`."""
        if self.stored is None:
            if self.is_public:
                return _PUBLIC[self.address]
            raise NoSuchItem(f"there is no stored key for {self}; `cairn keys list` shows the stored ones")
        password = read_password(password_file, f"Password of {self.stored.name}: ")
        return unlock(self.stored.document, password, f"key {self.stored.name}")


def find_party(text: str, keystore: Keystore, label: str) -> Party:
    """The party that `text` names. Raises `InvalidConfig` for an invalid address, `NoSuchItem` for an unknown name."""
    dev = match_dev_name(text)
    if dev is not None:
        if int(dev[1]) >= len(DEV_KEYS):
            raise InvalidConfig(f"{label}: the dev accounts are dev0 to dev{len(DEV_KEYS) - 1}")
        return Party(DEV_KEYS[int(dev[1])][0], text)
    if text.startswith("0x"):
        address = read_address(text, label)
        stored = keystore.find_by_address(address)
        return Party(address, stored.name if stored else "", stored)
    stored = keystore.get(text)
    return Party(stored.address, stored.name, stored)


def read_balances(alloc: Sequence[str], keystore: Keystore) -> dict[Address, int]:
    """The first balances in the values of --alloc: ACCOUNT=AMOUNT. Raises as `find_party` does."""
    balances: dict[Address, int] = {}
    for text in alloc:
        account, equals, amount = text.rpartition("=")
        if not equals:
            raise InvalidConfig(f"--alloc {text}: expected ACCOUNT=AMOUNT")
        address = find_party(account, keystore, f"--alloc {text}").address
        if address in balances:
            raise InvalidConfig(f"--alloc {text}: the account is given twice")
        balances[address] = parse_amount(amount, f"--alloc {text}")
    return balances
