"""Keys, signatures and keystores, all local: a private key never leaves this process."""

import json
import re
import secrets
from collections.abc import Mapping
from typing import Any, Self, cast

import msgspec

from cairn.client.models import Transfer
from cairn.domain.crypto import CURVE_ORDER, address_of_key, checksum_address, parse_address
from cairn.domain.errors import InvalidField
from cairn.domain.genesis import DEV_KEYS
from cairn.domain.json_fields import find_data
from cairn.domain.references import data_of, reference_of
from cairn.domain.transactions import sign_draft
from cairn.domain.types import ACCESS_LIST, DYNAMIC_FEE, LEGACY, Draft, intrinsic_gas

_is_key = re.compile(r"(0x)?[0-9a-fA-F]{64}").fullmatch


class SignedTransfer(Transfer, frozen=True, kw_only=True):
    """A signed transfer. Anybody may submit it, to any node of its chain, and it is paid once."""

    signature: str

    def body(self) -> dict[str, Any]:
        """What `POST /tx` takes: all fields but the hash."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        del fields["txHash"]
        # The same as the data.
        fields.pop("reference", None)
        if self.type == DYNAMIC_FEE:
            del fields["gasPrice"]
        return fields


class Account:
    """A private key on this machine, which signs. Its balance and nonce are known to the node only."""

    __slots__ = ("_address", "_key")

    def __init__(self, key: bytes) -> None:
        """From the 32 bytes of the private key; `from_key` takes other spellings. Raises `ValueError`."""
        if len(key) != 32 or not 0 < int.from_bytes(key, "big") < CURVE_ORDER:
            # The text must not show what was given: it may be nearly the key.
            raise ValueError("a private key is 32 bytes, not zero and below the order of secp256k1")
        self._key = key
        self._address = address_of_key(key)

    @classmethod
    def from_key(cls, key: str) -> Self:
        """From the hexadecimal digits of a private key, with or without `0x`. Raises `ValueError`."""
        if not _is_key(key):
            raise ValueError("a private key is 64 hexadecimal digits, with or without 0x")
        return cls(bytes.fromhex(key.removeprefix("0x")))

    @classmethod
    def from_keystore(cls, keystore: str | Mapping[str, Any], password: str) -> Self:
        """From an encrypted keystore (V3, as wallets, geth and `cairn keys` write it). Raises `ValueError`.

        Decryption takes about a second, by design. A file that asks for far more work than wallets do is refused, and
        so is one that names the address of another key.
        """
        return cls(unlock(keystore, password))

    @classmethod
    def create(cls) -> Self:
        """A new random key. Store `key`: without it, whatever is paid to the account is lost."""
        return cls((1 + secrets.randbelow(CURVE_ORDER - 1)).to_bytes(32, "big"))

    @classmethod
    def dev(cls, index: int) -> Self:
        """One of the ten accounts of a dev chain, whose keys are public."""
        if not 0 <= index < len(DEV_KEYS):
            raise ValueError(f"a dev chain has the accounts 0 to {len(DEV_KEYS) - 1}, not {index}")
        return cls(DEV_KEYS[index][1])

    @property
    def address(self) -> str:
        """The address with a checksum (EIP-55)."""
        return checksum_address(self._address)

    @property
    def key(self) -> str:
        """The private key, as `from_key` takes it."""
        return "0x" + self._key.hex()

    def sign(
        self,
        to: str,
        value: int,
        *,
        nonce: int,
        chain_id: int,
        gas_price: int | None = None,
        max_fee: int | None = None,
        tip: int = 0,
        gas: int | None = None,
        kind: int | None = None,
        unique: bool = False,
        reference: str | None = None,
        data: bytes | str = b"",
    ) -> SignedTransfer:
        """Sign a transfer of `value` wei. Raises `InvalidField`, as a node would.

        `reference` says what it is for, in printable text; `data` says it in any bytes instead, or in their 0x form.
        Everybody can read it, forever. Without `gas`, it is what the transfer takes.

        It pays `gas_price` for a unit of gas; `kind` 1 makes it a type 1 transaction (EIP-2930) instead of a legacy
        one. A type 2 transaction (EIP-1559) pays the chain's gas price and `tip`, but no more than `max_fee`. Only the
        node knows the sum, so `gas_price` of the result is `max_fee`.

        The same fields give the same transaction. With `unique`, signature and hash differ each time, so that two equal
        payments are never mistaken for one another.
        """
        is_dynamic = max_fee is not None
        if is_dynamic and gas_price is not None:
            raise InvalidField("gasPrice", "max_fee is given instead")
        if kind not in ((None, DYNAMIC_FEE) if is_dynamic else (None, LEGACY, ACCESS_LIST)):
            given = "max_fee" if is_dynamic else "gas_price"
            raise InvalidField("type", f"a transaction of type {kind} has no {given}")
        data = read_data(reference, data)
        gas = intrinsic_gas(data) if gas is None else gas
        price = max_fee if is_dynamic else gas_price
        numbers = {"value": value, "nonce": nonce, "gas": gas, "maxFeePerGas" if is_dynamic else "gasPrice": price}
        for field, number in {**numbers, "maxPriorityFeePerGas": tip}.items():
            # A float would be signed as another number than the one that was meant.
            if type(number) is not int:
                raise InvalidField(field, "is not an integer")
        if not isinstance(to, str):
            raise InvalidField("to", "is not a string")
        if tip and not is_dynamic:
            raise InvalidField("maxPriorityFeePerGas", "needs max_fee: only type 2 has a tip")
        kind, caps = (DYNAMIC_FEE, (cast(int, max_fee), tip)) if is_dynamic else (kind or LEGACY, (0, 0))
        draft = Draft(self._address, parse_address(to, "to"), value, gas, cast(int, price), nonce, kind, *caps, data)
        tx = sign_draft(draft, self._key, chain_id, secrets.token_bytes(32) if unique else b"")
        return SignedTransfer(
            tx_hash="0x" + tx.hash.hex(),
            sender="0x" + tx.sender.hex(),
            to="0x" + tx.to.hex(),
            value=value,
            nonce=nonce,
            gas=gas,
            gas_price=tx.gas_price,
            signature="0x" + tx.signature.hex(),
            type=tx.kind,
            max_fee_per_gas=max_fee,
            max_priority_fee_per_gas=tip if is_dynamic else None,
            data="0x" + data.hex() if data else None,
            reference=reference_of(data),
        )

    def __repr__(self) -> str:
        return f"Account({self.address})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Account) and secrets.compare_digest(self._key, other._key)

    def __hash__(self) -> int:
        return hash(self._address)


def bytes_of(data: bytes | str) -> bytes:
    """The bytes of data in either form: bytes, or 0x text as in a transaction. Raises `InvalidField`."""
    found = find_data(data) if isinstance(data, str) else data
    if not isinstance(found, bytes):
        raise InvalidField("data", "must be bytes, or 0x and two hexadecimal digits for each")
    return found


def read_data(reference: str | None, data: bytes | str) -> bytes:
    """The data of a transfer, which is given as text or as bytes. Raises `InvalidField`."""
    data = bytes_of(data)
    if reference is None:
        return data
    if data:
        raise InvalidField("reference", "is the text of data: give one of the two, not both")
    if not isinstance(reference, str):
        raise InvalidField("reference", "is not a string")
    return data_of(reference)


MAX_SCRYPT_BYTES = 1 << 30
"""What scrypt may go through; geth's own files take 256 MiB. A file could ask for all memory there is."""
MAX_PBKDF2_ROUNDS = 10_000_000
"""geth's own files take 262144."""
_DERIVED_BYTES = 32


class InvalidKeystore(ValueError):
    """The file is not a keystore of version 3, or not one that can be trusted."""


class WrongPassword(ValueError):
    pass


def unlock(keystore: str | Mapping[str, Any], password: str) -> bytes:
    """The private key in a keystore of version 3 (Web3 Secret Storage), which may be anybody's file.

    Raises `WrongPassword`, `InvalidKeystore`.
    """
    # It brings a hundred modules that whoever has the key at hand does not need.
    try:
        from eth_account import Account as EthAccount  # noqa: PLC0415
    except ModuleNotFoundError as error:
        # The client's own distribution leaves it out, because it outweighs all the rest.
        raise ModuleNotFoundError(f"{error}: pip install 'cairn-node-client[keystore]'", name=error.name) from None
    document = _read(keystore)
    _check_work(document)
    try:
        key = bytes(EthAccount.decrypt(document, password))
    except Exception as error:
        # The library raises all kinds of exceptions for malformed files.
        if "MAC mismatch" in str(error):
            raise WrongPassword("wrong password") from None
        raise InvalidKeystore(f"cannot be unlocked: {error}") from None
    _check_key(key, document)
    return key


def _read(keystore: str | Mapping[str, Any]) -> dict[str, Any]:
    """The keystore with lower-case names, as the library reads it: what is checked here must be what it uses."""
    try:
        document = json.loads(keystore) if isinstance(keystore, str) else keystore
        if isinstance(document, Mapping):
            lowered = _lowered(document)
            if lowered.get("version") == 3:
                return lowered
    except (ValueError, RecursionError):
        pass
    raise InvalidKeystore("is not a keystore file of version 3")


def _lowered(names: Mapping[str, Any]) -> dict[str, Any]:
    lowered = {name.lower(): _lowered(value) if isinstance(value, Mapping) else value for name, value in names.items()}
    if len(lowered) != len(names):
        raise ValueError("a name is given twice")
    return lowered


def _check_work(document: dict[str, Any]) -> None:
    try:
        kdf, parameters = document["crypto"]["kdf"], document["crypto"]["kdfparams"]
        names = {"scrypt": ("n", "r", "p"), "pbkdf2": ("c",)}[kdf]
        numbers = [parameters[name] for name in names]
        is_sound = parameters["dklen"] == _DERIVED_BYTES and all(type(number) is int for number in numbers)
    except (KeyError, TypeError):
        is_sound = False
    if not is_sound:
        raise InvalidKeystore("is not a keystore file of version 3")
    if kdf == "pbkdf2" and numbers[0] > MAX_PBKDF2_ROUNDS:
        raise InvalidKeystore(f"asks for {numbers[0]} rounds to be unlocked; the limit is {MAX_PBKDF2_ROUNDS}")
    if kdf == "scrypt" and (size := 128 * numbers[0] * numbers[1] * numbers[2]) > MAX_SCRYPT_BYTES:
        raise InvalidKeystore(f"asks for {size >> 20} MiB to be unlocked; the limit is 1 GiB")


def _check_key(key: bytes, document: dict[str, Any]) -> None:
    if len(key) != 32 or not 0 < int.from_bytes(key, "big") < CURVE_ORDER:
        raise InvalidKeystore("holds no private key")
    named = str(document.get("address") or "").lower().removeprefix("0x")
    address = address_of_key(key)
    # Some wallets name none. One that is wrong would have somebody else's account shown, and this one pay.
    if named and named != address.hex():
        raise InvalidKeystore(f"names the address 0x{named}, but holds the key of {checksum_address(address)}")
