"""A node's home directory: genesis.json with the chain's rules, cairn.toml with the node's settings, data/.

A node that makes its blocks alone signs them with the key in signing-key.json. The file chain-begun is there once data/
has held a chain.
"""

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cairn.config import CONFIG_FILE, encode_settings
from cairn.domain.crypto import parse_address
from cairn.domain.errors import InvalidConfig, InvalidField, MalformedJson, StoreUnavailable, reason_of
from cairn.domain.genesis import Genesis, encode_genesis, parse_genesis
from cairn.domain.types import MAX_DATA_BYTES, Address
from cairn.store.directory import has_files, make_directory, write_file
from cairn.store.signing_key import KeyFiles, SigningKey

GENESIS_FILE = "genesis.json"
SIGNING_KEY_FILE = "signing-key.json"

_PREAMBLE = """\
# Settings of this node, read by `cairn run`. Each key is shown with its default: take the '#' away to set it.
# A flag (--block-time 2) overrides the environment (CAIRN_BLOCK_TIME_S=2), which overrides this file.
#
# The rules of the chain are not here but in genesis.json, the same file on every node of the network. Once the node
# has run they can no longer be changed:
#   chainId        Included in every signature, so that no transaction of another chain is valid on this one.
#   timestamp      Time of block 0, in Unix seconds.
#   gasPrice       Minimum price of a unit of gas, in wei; a transfer takes 21,000 units.
#   blockGasLimit  Maximum gas in one block: 21,000 times the transfers that fit in it.
#   maxDataBytes   Maximum length of a transfer's data (its reference), in bytes; 0 allows none.
#   alloc          Balance of each account at the start, in wei (1 coin is 10^18); all money there will ever be.
#   signer         Public half of the key in signing-key.json, which the node signs its blocks with.
#   validators     On a network: who makes its blocks at first.
#   admins         On a network: whose keys may change that, and how many of them must sign.

"""


@dataclass(frozen=True, slots=True)
class Home:
    directory: Path

    @property
    def genesis_file(self) -> Path:
        return self.directory / GENESIS_FILE

    @property
    def config_file(self) -> Path:
        return self.directory / CONFIG_FILE

    @property
    def begun_file(self) -> Path:
        """Made when the chain is first on disk. It is not in data/, so it is still there when that is not."""
        return self.directory / "chain-begun"

    @property
    def key_files(self) -> KeyFiles:
        """With the key that blocks are signed with, on a chain whose blocks one node makes alone."""
        return KeyFiles(self.directory / SIGNING_KEY_FILE, self.directory / "next-signing-key.json")

    @property
    def data_dir(self) -> Path:
        return self.directory / "data"

    def create(self, genesis: Genesis, chosen: Mapping[str, object], key: SigningKey | None = None) -> None:
        """Write the files, with the `chosen` settings. Raises `InvalidConfig` rather than touch one that exists."""
        # Not beside a chain either, whose genesis may just have been lost.
        try:
            for path in (self.genesis_file, self.config_file, *self.key_files, self.begun_file, self.data_dir):
                if has_files(path):
                    raise InvalidConfig(f"{path} exists already; nothing was written")
            make_directory(self.directory)
            # First: nobody could ever sign for a genesis whose key is lost.
            if key is not None:
                key.save(self.key_files.current)
            # On disk before any block: a chain whose genesis is lost can never be opened again.
            write_file(self.genesis_file, encode_genesis(genesis))
            write_file(self.config_file, (_PREAMBLE + encode_settings(chosen)).encode())
        except OSError as error:
            raise InvalidConfig(f"cannot write {error.filename}: {error.strerror}") from None
        except StoreUnavailable as error:
            raise InvalidConfig(error.detail) from None

    def read_genesis(self) -> Genesis:
        try:
            return parse_genesis(self.genesis_file.read_bytes())
        except FileNotFoundError:
            raise InvalidConfig(f"{self.genesis_file} is missing; `cairn init {self.directory}` makes one") from None
        except OSError as error:
            raise InvalidConfig(f"cannot read {self.genesis_file}: {error.strerror}") from None
        except (InvalidField, MalformedJson) as error:
            raise InvalidConfig(f"{self.genesis_file}: {error.detail}") from None

    def read_config(self) -> str | None:
        """The text of the settings file, or None if there is none: every setting has a default."""
        try:
            return self.config_file.read_text()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InvalidConfig(f"cannot read {self.config_file}: {reason_of(error)}") from None
        except UnicodeDecodeError:
            raise InvalidConfig(f"{self.config_file} is not text in UTF-8") from None


def make_data_directory(path: Path) -> None:
    """Make it readable by its owner only, whatever the umask. An existing one keeps its permissions."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidConfig(f"cannot use {path} as data directory: {error.strerror}") from None


def random_chain_id() -> int:
    """Random, so that no transaction of another chain is valid on this one."""
    return secrets.randbelow(2**31) + 2**20


def build_genesis(
    chain_id: int,
    gas_price: int,
    block_gas_limit: int,
    balances: Mapping[Address, int],
    signer: bytes,
    max_data_bytes: int = MAX_DATA_BYTES,
) -> Genesis:
    """A genesis with the current time. Raises `InvalidConfig` that names what is out of range."""
    genesis = Genesis(
        chain_id,
        int(time.time()),
        gas_price,
        block_gas_limit,
        dict(balances),
        signer=signer,
        max_data_bytes=max_data_bytes,
    )
    try:
        return parse_genesis(encode_genesis(genesis))
    except InvalidField as error:
        raise InvalidConfig(error.detail) from None


def read_address(text: str, option: str) -> Address:
    try:
        return parse_address(text, option)
    except InvalidField as error:
        raise InvalidConfig(error.detail) from None
