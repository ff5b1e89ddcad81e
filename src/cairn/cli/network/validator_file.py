"""The file of a validator's public halves: its operator makes the keys at home, and sends only this to the others.

HOME/validator.json      name, public key, node id, address, fee recipient, administrator, and the key's own signature

The signature shows that whoever made the file has the private half, and that nobody changed the file since.
"""

import base64
import json
import re
from pathlib import Path

import msgspec

from cairn.cli.network.homes import Site, read_public_key
from cairn.cli.network.peers import read_node_id
from cairn.cometbft import COMETBFT_DIRECTORY, CometBFT
from cairn.domain.crypto import checksum_address, parse_address
from cairn.domain.ed25519 import SEED_BYTES, sign, verify
from cairn.domain.errors import InvalidConfig, NodeError
from cairn.domain.governance import ValidatorRecord, check_validator
from cairn.domain.types import Address
from cairn.domain.update_json import encode_public_key, parse_public_key
from cairn.loopback import is_loopback
from cairn.store.directory import is_there, write_file

VALIDATOR_FILE = "validator.json"
MOST_BYTES = 64 * 1024

_TAG = b"cairn validator file 1\n"
"""No vote is signed over bytes that begin like this: those of CometBFT begin with their length and then 0x08."""
_NODE_ID = re.compile("[0-9a-f]{40}")
_ADDRESS = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})")


class ValidatorFile(msgspec.Struct, frozen=True):
    """What one operator tells the others."""

    name: str
    public_key: bytes
    """Ed25519: its CometBFT signs votes with it."""
    node_id: str
    """By which its peers know its node."""
    address: str
    """Where they reach it: HOST:PORT."""
    fee_recipient: Address
    admin: Address | None
    """The operator's own account, if it is to be an administrator of the network."""

    @property
    def peer(self) -> str:
        return f"{self.node_id}@{self.address}"

    @property
    def site(self) -> Site:
        """Where its node runs."""
        host, _, port = self.address.rpartition(":")
        host = host.strip("[]")
        # Neighbours on one machine are told apart by their ports only.
        return Site(self.name, host, int(port) - 1, is_alone=not is_loopback(host))

    def record(self, power: int) -> ValidatorRecord:
        return ValidatorRecord(self.public_key, power, self.fee_recipient, self.name)


class _Fields(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    name: str
    public_key: str
    node_id: str
    address: str
    fee_recipient: str
    admin: str | None = None
    signature: str = ""


def describe_home(engine: CometBFT, site: Site, fee_recipient: Address, admin: Address | None) -> ValidatorFile:
    """The public halves of the keys that a home's CometBFT has. Raises `InvalidConfig`."""
    made = ValidatorFile(
        site.name, read_public_key(engine.home), read_node_id(engine), site.p2p_address, fee_recipient, admin
    )
    _check(made)
    return made


def save_validator_file(path: Path, engine: CometBFT, file: ValidatorFile) -> None:
    """Sign it with the private half that the home has, and write it. Raises `InvalidConfig`."""
    fields = _fields(file)
    signature = base64.b64encode(sign(_read_seed(engine), _signed(fields))).decode()
    text = json.dumps(msgspec.to_builtins(msgspec.structs.replace(fields, signature=signature)), indent=2)
    try:
        write_file(path, text.encode() + b"\n")
    except OSError as error:
        raise InvalidConfig(f"cannot write {path}: {error.strerror}") from None


def read_validator_file(path: Path) -> ValidatorFile:
    """Read such a file and check its signature. Raises `InvalidConfig` that names the file."""
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES)
    except OSError as error:
        raise InvalidConfig(f"cannot read {path}: {error.strerror}") from None
    try:
        fields = msgspec.json.decode(text, type=_Fields)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{path} is not a file that `cairn validator init` makes: {error}") from None
    try:
        found = ValidatorFile(
            fields.name,
            parse_public_key(fields.public_key),
            fields.node_id,
            fields.address,
            parse_address(fields.fee_recipient, "feeRecipient"),
            None if fields.admin is None else parse_address(fields.admin, "admin"),
        )
        _check(found)
        signature = base64.b64decode(fields.signature, validate=True)
    except NodeError as error:
        raise InvalidConfig(f"{path}: {error.detail}") from None
    except ValueError:
        raise InvalidConfig(f"{path}: the signature is not base64") from None
    if not verify(found.public_key, _signed(_fields(found)), signature):
        raise InvalidConfig(
            f"{path} is not signed with its own publicKey: it was changed; ask its operator for it again"
        )
    return found


def find_own_file(home: Path) -> ValidatorFile | None:
    """The file of a home that `cairn validator init` made. Raises `InvalidConfig` if the home has other keys by now."""
    path = home / VALIDATOR_FILE
    if not is_there(path):
        return None
    found = read_validator_file(path)
    engine = CometBFT(Path(), home / COMETBFT_DIRECTORY)
    if found.public_key != read_public_key(engine.home) or found.node_id != read_node_id(engine):
        raise InvalidConfig(f"{path} is not of the keys in {engine.home / 'config'}")
    return found


def _check(file: ValidatorFile) -> None:
    try:
        check_validator(file.record(1), least_power=1)
    except NodeError as error:
        raise InvalidConfig(error.detail) from None
    if not file.name:
        raise InvalidConfig("name: a validator needs one, so that people can tell it from the others")
    if not _NODE_ID.fullmatch(file.node_id):
        raise InvalidConfig("nodeId: expected 40 hexadecimal digits")
    port = _ADDRESS.fullmatch(file.address)
    if port is None or not 2 <= int(port[1]) <= 65_535:
        raise InvalidConfig(f"address: expected HOST:PORT, at which other machines reach it, not {file.address!r}")


def _fields(file: ValidatorFile) -> _Fields:
    return _Fields(
        file.name,
        encode_public_key(file.public_key),
        file.node_id,
        file.address,
        checksum_address(file.fee_recipient),
        None if file.admin is None else checksum_address(file.admin),
    )


def _signed(fields: _Fields) -> bytes:
    """However the file is written: the same fields have the same bytes."""
    stated = msgspec.to_builtins(msgspec.structs.replace(fields, signature=""))
    return _TAG + json.dumps(stated, sort_keys=True, separators=(",", ":")).encode()


def _read_seed(engine: CometBFT) -> bytes:
    path = engine.home / "config" / "priv_validator_key.json"
    try:
        key = base64.b64decode(json.loads(path.read_bytes())["priv_key"]["value"], validate=True)
    except OSError as error:
        raise InvalidConfig(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        # Without the reason, which may show a part of the key.
        raise InvalidConfig(f"{path} holds no Ed25519 key of CometBFT") from None
    # An Ed25519 key in Go is the private half, then the public one.
    return key[:SEED_BYTES]
