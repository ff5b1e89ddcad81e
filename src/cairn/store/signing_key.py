"""The keys that a node signs its blocks with, when it makes them alone.

signing-key.json        the key that signs now
next-signing-key.json   its successor: the next block hands over to it, and then takes the place of the other file

Which of the two signs is what the chain says: the step of the hand-over is in the block's batch. The files follow. So a
kill at any point leaves a key that the chain goes on with. No block hands over to a key that cannot be read back from
its file at that moment: after a stop nobody could sign the next block.
"""

import base64
import os
import secrets
import stat
from pathlib import Path
from typing import NamedTuple

import msgspec
import structlog

from cairn import metrics
from cairn.domain.ed25519 import SEED_BYTES, public_key_of, signer
from cairn.domain.errors import InvalidConfig, NoSigningKey, StoreUnavailable
from cairn.domain.genesis import DEV_SIGNING_SEED
from cairn.store.directory import is_there, sync_directory, write_file

_OTHERS = stat.S_IRWXG | stat.S_IRWXO

log = structlog.get_logger("cairn.store")


class SigningKey:
    """No text shows it, so that no log does either."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self.public_key = public_key_of(seed)
        self.sign = signer(seed)

    @classmethod
    def new(cls) -> "SigningKey":
        return cls(secrets.token_bytes(SEED_BYTES))

    def save(self, path: Path) -> None:
        """Write it to a file that only its owner can read. Raises `InvalidConfig`."""
        content = _Content(key_text(self.public_key), key_text(self._seed))
        try:
            write_file(path, msgspec.json.format(msgspec.json.encode(content)) + b"\n")
        except OSError as error:
            raise InvalidConfig(f"cannot write {path}: {error.strerror}") from None

    @classmethod
    def load(cls, path: Path) -> "SigningKey":
        """Read the key. Raises `InvalidConfig` that names the file, including when others can read it."""
        try:
            with path.open("rb") as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                if mode & _OTHERS:
                    raise InvalidConfig(
                        f"{path} can be read by others (mode {mode:o}), and whoever has this key signs in your name: "
                        f"`chmod 600 {path}`, and if it may have been read, `cairn new-signing-key`"
                    )
                content = msgspec.json.decode(file.read(), type=_Content)
            key = cls(base64.b64decode(content.seed, validate=True))
        except OSError as error:
            raise InvalidConfig(f"cannot read the signing key {path}: {error.strerror}") from None
        except (ValueError, msgspec.MsgspecError):
            # Without the reason, which may show a part of the key.
            raise InvalidConfig(f"{path} holds no signing key: restore it from your backup") from None
        if key_text(key.public_key) != content.public_key:
            raise InvalidConfig(f"the two halves of the key in {path} are not of one key: restore your backup of it")
        return key


class KeyFiles(NamedTuple):
    current: Path
    successor: Path


class SigningKeys:
    """The keys that a node has, read once: they outlive a disk that fails. Everybody has that of a dev chain."""

    def __init__(self, files: KeyFiles | None = None) -> None:
        """Read the files, if there are any. Raises `NoSigningKey` for one that cannot be used."""
        self._files = files
        self._keys = [SigningKey(DEV_SIGNING_SEED)]
        self._successor: SigningKey | None = None
        self._told_flaw: str | None = None
        """Why there was no hand-over the last time."""
        if files is None:
            return
        try:
            if is_there(files.current):
                self._keys.append(SigningKey.load(files.current))
            if is_there(files.successor):
                self._successor = SigningKey.load(files.successor)
                self._keys.append(self._successor)
        except (InvalidConfig, StoreUnavailable) as error:
            raise NoSigningKey(error.detail) from None

    def key_of(self, public_key: bytes) -> SigningKey:
        """The key that signs the chain's blocks now. Raises `NoSigningKey`."""
        for key in self._keys:
            if key.public_key == public_key:
                return key
        wanted = f"this chain's blocks are signed with the key {key_text(public_key)}"
        if self._files is None:
            raise NoSigningKey(f"{wanted}, which this node does not have")
        path = self._files.current
        if len(self._keys) == 1:
            raise NoSigningKey(f"{path} is missing, and {wanted}: restore it from your backup")
        held = " and ".join(key_text(key.public_key) for key in self._keys[1:])
        raise NoSigningKey(f"{wanted}; the home holds {held}: restore {path} from your backup")

    def successor_to(self, public_key: bytes) -> SigningKey | None:
        """The key that the next block is to hand over to: one that can be read back from its file now."""
        if self._successor is None or self._successor.public_key == public_key:
            return None
        flaw = self._find_flaw(self._successor)
        metrics.HAND_OVER_REFUSED.set(flaw is not None)
        if flaw is not None and flaw != self._told_flaw:
            log.error("blocks are signed with the old key: the new one is not on disk", reason=flaw)
        self._told_flaw = flaw
        return self._successor if flaw is None else None

    def _find_flaw(self, successor: SigningKey) -> str | None:
        """Why the node could not sign with it after a restart."""
        assert self._files is not None, "it was read from a file"
        try:
            is_same = SigningKey.load(self._files.successor).public_key == successor.public_key
        except InvalidConfig as error:
            return error.detail
        return None if is_same else f"{self._files.successor} holds another key than at the start of the node"

    def settle(self, public_key: bytes) -> None:
        """The chain says that this key signs now: if it is the successor, its file takes the other's place."""
        if self._files is None or self._successor is None or self._successor.public_key != public_key:
            return
        try:
            # From memory: its file may have gone since it was read back.
            self._successor.save(self._files.current)
            self._files.successor.unlink(missing_ok=True)
            sync_directory(self._files.current.parent)
        except (OSError, InvalidConfig, StoreUnavailable) as failure:
            # Nothing is lost: the next start finds both, and tries again.
            log.warning("cannot put the new signing key in the place of the old one", reason=str(failure))


def key_text(content: bytes) -> str:
    """A key as files and messages have it."""
    return base64.b64encode(content).decode()


class _Content(msgspec.Struct, frozen=True, rename="camel"):
    """What the file holds, both in base64."""

    public_key: str
    seed: str

    def __repr__(self) -> str:
        """For tracebacks that show variables."""
        return "<signing key>"
