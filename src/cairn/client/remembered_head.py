"""The newest signed block that a client has checked, in memory and, if wanted, in a file that survives a restart."""

import os
from pathlib import Path

import msgspec
from msgspec.json import Decoder

from cairn.client.errors import InvalidField, InvalidProof
from cairn.client.proven_answers import head_of
from cairn.domain.answers import Head
from cairn.domain.certificates import HexText
from cairn.domain.genesis import Genesis, genesis_digest
from cairn.domain.headers import encode_header
from cairn.domain.json_fields import HashText, hex_text
from cairn.domain.proof_checks import ProvenBlock, read_block

FORMAT = "cairn-head-1"


class HeadFile(msgspec.Struct, frozen=True, rename="camel"):
    format: str
    genesis: HashText
    """The digest of the chain's genesis."""
    head: Head
    header: HexText
    """The block's own: with it, a node that has removed the block can still show what was appended to it."""


_HEAD_FILE = Decoder(HeadFile)


class RememberedHead:
    """The head of the chain with this genesis. Raises `InvalidField` for a file that is none, or of another chain."""

    def __init__(self, genesis: Genesis, file: Path | None) -> None:
        self._chain_id = genesis.chain_id
        self._digest = hex_text(genesis_digest(genesis))
        self._file = file
        self.block = None if file is None or not file.exists() else self._load(file)

    @property
    def head(self) -> Head | None:
        return None if self.block is None else head_of(self.block)

    def _load(self, file: Path) -> ProvenBlock:
        try:
            found = _HEAD_FILE.decode(file.read_bytes())
        except msgspec.DecodeError as error:
            raise InvalidField("head_file", f"{file} holds no remembered block: {error}") from None
        if found.format != FORMAT:
            raise InvalidField("head_file", f"{file} has the format {found.format!r}, not {FORMAT!r}")
        if found.genesis != self._digest:
            raise InvalidField("head_file", f"{file} is of the chain with genesis {found.genesis}, not {self._digest}")
        try:
            block = read_block(found.header, self._chain_id)
        except InvalidProof as error:
            raise InvalidField("head_file", f"{file} holds no remembered block: {error}") from None
        if head_of(block) != found.head:
            raise InvalidField("head_file", f"{file} holds the header of another block than {found.head.hash}")
        return block

    def remember(self, block: ProvenBlock) -> None:
        """On disk first: what was believed is still known after a crash."""
        if self._file is not None:
            file = HeadFile(FORMAT, self._digest, head_of(block), hex_text(encode_header(block.header)))
            self._save(self._file, msgspec.json.encode(file) + b"\n")
        self.block = block

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
