"""Genesis: the chain's parameters and first balances, from which everything else follows."""

import base64
import json
from collections.abc import Iterable
from functools import lru_cache
from typing import NoReturn

import msgspec

from cairn.domain.crypto import address_of_key, checksum_address, keccak256, parse_address
from cairn.domain.errors import InvalidField, MalformedJson
from cairn.domain.governance import (
    MAX_ADMINS,
    MAX_POWER,
    PUBLIC_KEY_SIZE,
    Admins,
    ChainIdentity,
    ValidatorRecord,
    check_admins,
    check_public_key,
    encode_governance,
    first_governance,
)
from cairn.domain.history import History
from cairn.domain.json_fields import find_decimal
from cairn.domain.merkle import EMPTY_ROOT
from cairn.domain.state_tree import NoAccounts, StateTree, record_leaf, update_state
from cairn.domain.transition import BlockOutcome, seal_block
from cairn.domain.types import (
    EMPTY_ACCOUNT,
    LATEST_TIME,
    MAX_DATA_BYTES,
    MAX_UINT64,
    MAX_UINT256,
    TRANSFER_GAS,
    ZERO_ADDRESS,
    ZERO_HASH,
    Account,
    Address,
    BlockHeader,
    Rules,
)

MAX_CHAIN_ID = MAX_UINT64 // 2 - 36
"""So that v of a signature fits 64 bits (EIP-2294)."""

GWEI = 10**9
COIN = 10**18

DEV_MNEMONIC = "test test test test test test test test test test test junk"
# The ten keys that anvil, hardhat and every other dev chain publish: they protect nothing.
_DEV_PRIVATE_KEYS = (
    "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
    "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
    "5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a",
    "7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6",
    "47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a",
    "8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba",
    "92db14e403b83dfe3df233f83dfa3a0d7096f21ca9b0d6d6b8d88b2b4ec1564e",
    "4bbbf85ce3377467afe5d46f804f221813b2bb87f24d81f60f1fcdbf7cbf4356",
    "dbda1821b80551c9d65939329250298aa3472ba22feea921c0cf5d620ea67b97",
    "2a871d0798f97d79848a013d4936a73bf4cc922c825d33c1cf7073dff6d409c6",
)
DEV_KEYS: tuple[tuple[Address, bytes], ...] = tuple(
    (address_of_key(private_key), private_key) for private_key in map(bytes.fromhex, _DEV_PRIVATE_KEYS)
)
"""Address and private key of the mnemonic's first ten accounts (m/44'/60'/0'/0/0 to 9)."""

DEV_SIGNING_SEED = bytes.fromhex("877b03dca164d49f5d9098bcf24538bb0923b1affa5228d662b818174f3ae6e0")
"""SHA-256 of `cairn dev chain: this key protects nothing`: the key that signs the blocks of every dev chain."""
DEV_SIGNER = bytes.fromhex("61e3d5fd875f007dd386d790641c8c3fb160ba020970ca733f8857a89689445f")
"""Its public half."""

DIGESTS_KEPT = 4
"""Each check of a signature needs the digest of its genesis, which takes seconds with a million accounts."""

DEV_CHAIN_ID = 1337
DEV_BALANCE = 10_000 * COIN
"""The first balance of each dev account."""
DEV_TIMESTAMP = 1_735_689_600
"""2025-01-01T00:00:00Z; fixed, so that every dev chain has the same genesis block."""


class Genesis(msgspec.Struct, frozen=True):
    chain_id: int
    timestamp: int
    """Unix time in whole seconds."""
    gas_price: int
    block_gas_limit: int
    alloc: dict[Address, int]
    """The balances that the chain starts with; all money there will ever be."""
    validators: tuple[ValidatorRecord, ...] = ()
    """The first validators; none on a chain with the embedded engine."""
    signer: bytes | None = None
    """On a chain with the embedded engine: the public key (Ed25519, 32 bytes) that its blocks are signed with, until a
    hand-over names another."""
    admins: Admins | None = None
    """Who may change the validators; None means nobody."""
    max_data_bytes: int = MAX_DATA_BYTES
    """The most data that a transfer may carry; 0 forbids it."""

    def __hash__(self) -> int:
        """Not of the balances, of which there may be a million."""
        return hash((self.chain_id, self.timestamp, len(self.alloc), self.signer))

    @property
    def rules(self) -> Rules:
        return Rules(self.chain_id, self.gas_price, self.block_gas_limit, self.max_data_bytes)


def parse_genesis(text: bytes) -> Genesis:
    """Read a genesis file. Raises `MalformedJson`, or `InvalidField` naming the key."""
    fields = _parse_object(text)
    for key in fields:
        if key not in _KEYS + _OPTIONAL_KEYS:
            raise InvalidField(key, f"unknown key; genesis has {', '.join(_KEYS + _OPTIONAL_KEYS)}")
    for key in _KEYS:
        if key not in fields:
            raise InvalidField(key, "missing")
    if "signer" not in fields and "validators" not in fields:
        raise InvalidField("signer", "missing: every chain names who signs its blocks")
    if "signer" in fields and "validators" in fields:
        raise InvalidField("signer", "the validators sign the blocks of a network: give one of the two")
    return Genesis(
        chain_id=_parse_integer("chainId", fields["chainId"], 1, MAX_CHAIN_ID),
        # The chain's time never goes back, so one in milliseconds could not be put right later.
        timestamp=_parse_integer("timestamp", fields["timestamp"], 0, LATEST_TIME),
        gas_price=_parse_integer("gasPrice", fields["gasPrice"], 0, MAX_UINT256),
        block_gas_limit=_parse_integer("blockGasLimit", fields["blockGasLimit"], TRANSFER_GAS, MAX_UINT64),
        alloc=_parse_alloc(fields["alloc"]),
        validators=_parse_validators(fields["validators"]) if "validators" in fields else (),
        signer=_parse_public_key("signer", fields["signer"]) if "signer" in fields else None,
        admins=_parse_admins(fields["admins"]) if "admins" in fields else None,
        max_data_bytes=_parse_integer("maxDataBytes", fields.get("maxDataBytes", MAX_DATA_BYTES), 0, MAX_DATA_BYTES),
    )


def parse_exact_genesis(content: bytes) -> Genesis:
    """Read a genesis file whose bytes matter: signatures cover their digest. Raises as `parse_genesis` does.

    Whoever checks a proof without this program takes the digest of the bytes, so a file with other line ends or spaces
    would prove something here and nothing there.
    """
    genesis = parse_genesis(content)
    if encode_genesis(genesis) != content:
        raise InvalidField(
            "genesis",
            "is not written as `cairn init` writes it, so nobody signed it: the digest of its bytes is "
            f"0x{keccak256(content).hex()}, and of the same content as it should be 0x{genesis_digest(genesis).hex()}. "
            "Take the original file, or what GET /genesis of a node gives",
        )
    return genesis


_KEYS = ("chainId", "timestamp", "gasPrice", "blockGasLimit", "alloc")
_OPTIONAL_KEYS = ("maxDataBytes", "signer", "validators", "admins")
_VALIDATOR_KEYS = ("publicKey", "power", "feeRecipient", "name")


def encode_genesis(genesis: Genesis) -> bytes:
    """The canonical file: sorted, indented, addresses in their EIP-55 spelling, amounts as exact integers."""
    fields: dict[str, object] = {
        "chainId": genesis.chain_id,
        "timestamp": genesis.timestamp,
        "gasPrice": genesis.gas_price,
        "blockGasLimit": genesis.block_gas_limit,
        "maxDataBytes": genesis.max_data_bytes,
        "alloc": {checksum_address(address): genesis.alloc[address] for address in sorted(genesis.alloc)},
    }
    if genesis.signer is not None:
        fields["signer"] = base64.b64encode(genesis.signer).decode()
    if genesis.validators:
        fields["validators"] = [_validator_fields(validator) for validator in genesis.validators]
    if genesis.admins is not None:
        addresses = [checksum_address(address) for address in genesis.admins.addresses]
        fields["admins"] = {"threshold": genesis.admins.threshold, "addresses": addresses}
    return json.dumps(fields, indent=2).encode() + b"\n"


def _validator_fields(validator: ValidatorRecord) -> dict[str, object]:
    return {
        "publicKey": base64.b64encode(validator.public_key).decode(),
        "power": validator.power,
        "feeRecipient": checksum_address(validator.fee_recipient),
        "name": validator.name,
    }


@lru_cache(maxsize=DIGESTS_KEPT)
def genesis_digest(genesis: Genesis) -> bytes:
    """Identifies the chain, however its file is written."""
    return keccak256(encode_genesis(genesis))


@lru_cache(maxsize=DIGESTS_KEPT)
def find_supply(genesis: Genesis) -> int | None:
    """All coins that there will ever be. None on a dev chain, which sets balances."""
    return None if genesis.signer == DEV_SIGNER else sum(genesis.alloc.values())


def chain_identity(genesis: Genesis) -> ChainIdentity:
    return ChainIdentity(genesis.chain_id, genesis_digest(genesis))


def genesis_outcome(genesis: Genesis) -> BlockOutcome:
    """Block 0: no transactions, no proposer, the first balances."""
    accounts = {address: Account(balance) for address, balance in genesis.alloc.items() if balance}
    governance = first_governance(genesis.validators, genesis.admins) if genesis.validators else None
    record = record_leaf(None if governance is None else encode_governance(governance))
    changes = [(address, EMPTY_ACCOUNT, account) for address, account in accounts.items()]
    update = update_state(StateTree.from_leaves(b""), NoAccounts(), 0, changes, record)
    history = History()
    header = BlockHeader(
        height=0,
        previous_hash=ZERO_HASH,
        timestamp=genesis.timestamp,
        tx_root=EMPTY_ROOT,
        changes_root=update.changes_root,
        state_root=update.tree.root,
        history_root=history.root,
        gas_used=0,
        proposer=ZERO_ADDRESS,
        chain_id=genesis.chain_id,
        gas_limit=genesis.block_gas_limit,
        base_fee=genesis.gas_price,
        tx_count=0,
    )
    return seal_block(header, (), history, accounts, update, governance, {})


def dev_genesis(
    accounts: Iterable[Address] = tuple(dict(DEV_KEYS)),
    *,
    chain_id: int = DEV_CHAIN_ID,
    balance: int = DEV_BALANCE,
    gas_price: int = GWEI,
    max_data_bytes: int = MAX_DATA_BYTES,
) -> Genesis:
    """The chain of `cairn dev`: accounts with as much each, and room for 10,000 transfers a block."""
    return Genesis(
        chain_id=chain_id,
        timestamp=DEV_TIMESTAMP,
        gas_price=gas_price,
        block_gas_limit=10_000 * TRANSFER_GAS,
        alloc=dict.fromkeys(accounts, balance),
        signer=DEV_SIGNER,
        max_data_bytes=max_data_bytes,
    )


def _parse_object(text: bytes) -> dict[str, object]:
    try:
        fields = json.loads(text, object_pairs_hook=_unique, parse_float=_inexact, parse_constant=_inexact)
    except (ValueError, RecursionError) as error:
        raise MalformedJson(f"genesis is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise MalformedJson("genesis is not a JSON object")
    return fields


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        keys = [key for key, _ in pairs]
        raise InvalidField(next(key for key in keys if keys.count(key) > 1), "given twice")
    return fields


def _inexact(text: str) -> NoReturn:
    raise ValueError(f"{text} is not an exact integer")


def _parse_integer(field: str, given: object, least: int, most: int) -> int:
    """An exact JSON integer, or a string of decimal digits for writers whose numbers are doubles."""
    decimal = find_decimal(given)
    if decimal is not None:
        given = decimal
    if not isinstance(given, int) or isinstance(given, bool):
        raise InvalidField(field, "not an integer")
    if not least <= given <= most:
        raise InvalidField(field, f"{given} is not between {least} and {most}")
    return given


def _parse_alloc(given: object) -> dict[Address, int]:
    if not isinstance(given, dict):
        raise InvalidField("alloc", "expected an object that maps addresses to balances")
    alloc: dict[Address, int] = {}
    for text, amount in given.items():
        field = f"alloc.{text}"
        address = parse_address(text, field)
        if address in alloc:
            raise InvalidField(field, "the address is given twice")
        alloc[address] = _parse_integer(field, amount, 0, MAX_UINT256)
    # No later sum exceeds this one, so no balance ever exceeds 256 bits.
    if sum(alloc.values()) > MAX_UINT256:
        raise InvalidField("alloc", "the balances add up to more than 2^256-1")
    return alloc


def _parse_validators(given: object) -> tuple[ValidatorRecord, ...]:
    if not isinstance(given, list) or not given:
        raise InvalidField("validators", "not a list of validators")
    validators = [_parse_validator(f"validators[{n}]", item) for n, item in enumerate(given)]
    return first_governance(validators).validators


def _parse_validator(field: str, given: object) -> ValidatorRecord:
    fields = _parse_keys(field, given, _VALIDATOR_KEYS)
    public_key, fee_recipient, name = fields["publicKey"], fields["feeRecipient"], fields["name"]
    if not isinstance(public_key, str) or not isinstance(fee_recipient, str) or not isinstance(name, str):
        raise InvalidField(field, "publicKey, feeRecipient and name are strings")
    key = _parse_public_key(f"{field}.publicKey", public_key)
    power = _parse_integer(f"{field}.power", fields["power"], 1, MAX_POWER)
    return ValidatorRecord(key, power, parse_address(fee_recipient, f"{field}.feeRecipient"), name)


def _parse_public_key(field: str, given: object) -> bytes:
    try:
        key = base64.b64decode(given, validate=True) if isinstance(given, str) else b""
    except ValueError:
        raise InvalidField(field, "not base64") from None
    if len(key) != PUBLIC_KEY_SIZE:
        raise InvalidField(field, f"not an Ed25519 public key: {PUBLIC_KEY_SIZE} bytes in base64")
    check_public_key(field, key)
    return key


def _parse_admins(given: object) -> Admins:
    fields = _parse_keys("admins", given, ("threshold", "addresses"))
    texts = fields["addresses"]
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise InvalidField("admins.addresses", "not a list of addresses")
    addresses = tuple(parse_address(text, f"admins.addresses[{n}]") for n, text in enumerate(texts))
    admins = Admins(_parse_integer("admins.threshold", fields["threshold"], 1, MAX_ADMINS), addresses)
    check_admins(admins)
    return admins


def _parse_keys(field: str, given: object, keys: tuple[str, ...]) -> dict[str, object]:
    if not isinstance(given, dict) or set(given) != set(keys):
        raise InvalidField(field, f"not an object with {', '.join(keys)}")
    return given
