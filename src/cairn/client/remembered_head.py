"""The newest signed block that a client has checked, in memory and, if wanted, in a file that survives a restart."""

import os
from pathlib import Path

import msgspec
from msgspec.json import Decoder

from cairn.client.errors import InvalidField
from cairn.domain.answers import Head
from cairn.domain.json_fields import HashText

FORMAT = "cairn-head-1"


class HeadFile(msgspec.Struct, frozen=True, rename="camel"):
    format: str
    genesis: HashText
    """The digest of the chain's genesis."""
    head: Head


_HEAD_FILE = Decoder(HeadFile)


class RememberedHead:
    """`digest` is that of the chain's genesis. Raises `InvalidField` for a file that is none, or of another chain."""

    def __init__(self, digest: bytes, file: Path | None) -> None:
        self._digest = "0x" + digest.hex()
        self._file = file
        self.head = None if file is None or not file.exists() else self._load(file)

    def _load(self, file: Path) -> Head:
        try:
            found = _HEAD_FILE.decode(file.read_bytes())
        except msgspec.DecodeError as error:
            raise InvalidField("head_file", f"{file} holds no remembered block: {error}") from None
        if found.format != FORMAT:
            raise InvalidField("head_file", f"{file} has the format {found.format!r}, not {FORMAT!r}")
        if found.genesis != self._digest:
            raise InvalidField("head_file", f"{file} is of the chain with genesis {found.genesis}, not {self._digest}")
        return found.head

    def remember(self, head: Head) -> None:
        """On disk first: what was believed is still known after a crash."""
        if self._file is not None:
            self._save(self._file, msgspec.json.encode(HeadFile(FORMAT, self._digest, head)) + b"\n")
        self.head = head

    @staticmethod
    def _save(file: Path, content: bytes) -> None:
        written = file.with_name(file.name + ".new")
        with written.open("wb") as new:
            new.write(content)
            new.flush()
            os.fsync(new.fileno())
        written.replace(file)
        directory = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
