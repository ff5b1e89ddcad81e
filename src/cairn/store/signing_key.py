"""The file with the key that a node signs its blocks with, when it makes them alone."""

import base64
import os
import secrets
import stat
from pathlib import Path

import msgspec

from cairn.domain.ed25519 import SEED_BYTES, public_key_of, sign
from cairn.domain.errors import InvalidConfig
from cairn.store.directory import write_file

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class SigningKey:
    """No text shows it, so that no log does either."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self.public_key = public_key_of(seed)

    @classmethod
    def new(cls) -> "SigningKey":
        return cls(secrets.token_bytes(SEED_BYTES))

    def sign(self, message: bytes) -> bytes:
        return sign(self._seed, message)

    def save(self, path: Path) -> None:
        """Write it to a file that only its owner can read. Raises `InvalidConfig`."""
        content = _Content(_text(self.public_key), _text(self._seed))
        try:
            write_file(path, msgspec.json.format(msgspec.json.encode(content)) + b"\n")
        except OSError as error:
            raise InvalidConfig(f"cannot write {path}: {error.strerror}") from None

    @classmethod
    def load(cls, path: Path) -> "SigningKey":
        """Read the key. Raises `InvalidConfig` that names the file, also when others can read it."""
        try:
            with path.open("rb") as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                if mode & _OTHERS:
                    raise InvalidConfig(
                        f"{path} can be read by others (mode {mode:o}): whoever has this key signs in your name. "
                        f"`chmod 600 {path}`, and if it was read: `cairn new-signing-key`"
                    )
                content = msgspec.json.decode(file.read(), type=_Content)
            key = cls(base64.b64decode(content.seed, validate=True))
        except OSError as error:
            raise InvalidConfig(f"cannot read the signing key {path}: {error.strerror}") from None
        except (ValueError, msgspec.MsgspecError):
            # Without the reason, which may show a part of the key.
            raise InvalidConfig(f"{path} holds no signing key: restore it from your backup") from None
        if _text(key.public_key) != content.public_key:
            raise InvalidConfig(f"the two halves of the key in {path} are not of one key: restore your backup of it")
        return key


class _Content(msgspec.Struct, frozen=True, rename="camel"):
    """What the file holds, both in base64."""

    public_key: str
    seed: str


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
