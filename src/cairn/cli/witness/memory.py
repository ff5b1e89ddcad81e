"""What a witness remembers: its key, the newest block that it signed, and evidence. A few kilobytes.

    DIR/witness-key.json       its key, which only its owner can read
    DIR/witness.json           the newest block that it signed, who signed that, and its own signature
    DIR/evidence-HEIGHT.json   two signed blocks of one height; `cairn check` reads it
    DIR/cairn.lock             held while it runs, so that no second one signs with its key

A block is on disk before its signature is served: a witness that ends in between never signs another one of that
height.
"""

from pathlib import Path

import msgspec

from cairn.cli.report import DataUnusable
from cairn.cli.user_directories import user_state
from cairn.domain.certificates import read_hex
from cairn.domain.errors import DirectoryInUse, InvalidConfig, InvalidProof, StoreUnavailable
from cairn.domain.evidence import EvidenceFile
from cairn.domain.genesis import Genesis, genesis_digest
from cairn.domain.json_fields import hex_text
from cairn.domain.proof_checks import ProvenBlock, Trust, check_finality, witness_message
from cairn.domain.proof_files import FinalityFile
from cairn.store.directory import DirectoryLock, is_there, write_file
from cairn.store.signing_key import SigningKey


def default_directory(genesis: Genesis) -> Path:
    """One for each chain, in the user's state: the digest tells chains with one id from each other."""
    return user_state() / "witness" / f"{genesis.chain_id}-{genesis_digest(genesis).hex()[:16]}"


class SeenHead(msgspec.Struct, frozen=True, rename="camel", tag_field="format", tag="cairn-witness-1"):
    """The newest block that the witness signed."""

    genesis: str
    """Digest of the chain's genesis."""
    finality: FinalityFile
    signature: str


class Memory:
    def __init__(self, directory: Path, genesis: Genesis) -> None:
        """Read what is there, or make the key. Raises `InvalidConfig` or `DataUnusable`."""
        self._directory = directory
        self._genesis = genesis
        self._digest = genesis_digest(genesis)
        try:
            # Two with one key could sign two blocks of one height, each without knowing of the other.
            self._lock = DirectoryLock.acquire(directory)
        except (DirectoryInUse, StoreUnavailable) as failure:
            raise InvalidConfig(failure.detail) from None
        try:
            key_file = directory / "witness-key.json"
            if not is_there(key_file):
                if is_there(self._head_file):
                    raise DataUnusable(f"{key_file} is missing, though this witness has signed blocks: restore it")
                SigningKey.new().save(key_file)
            self.key = SigningKey.load(key_file)
            self.head = self._load() if is_there(self._head_file) else None
        except OSError as failure:
            raise InvalidConfig(f"cannot use {directory}: {failure.strerror}") from None

    @property
    def _head_file(self) -> Path:
        return self._directory / "witness.json"

    @property
    def block(self) -> ProvenBlock | None:
        """The newest block that was signed."""
        if self.head is None:
            return None
        return check_finality(self.head.finality, Trust(self._genesis)).block

    def close(self) -> None:
        self._lock.release()

    def sign(self, finality: FinalityFile, block: ProvenBlock) -> None:
        """Remember and sign a block that was checked, and that extends the one before. Raises `OSError`."""
        last = self.block
        assert last is None or block.header.height > last.header.height, "a witness signs one block of a height"
        message = witness_message(self._digest, block.header.height, block.hash)
        head = SeenHead(hex_text(self._digest), finality, hex_text(self.key.sign(message)))
        write_file(self._head_file, msgspec.json.encode(head) + b"\n")
        self.head = head

    def keep_evidence(self, evidence: EvidenceFile, height: int) -> Path:
        """Write two contradicting blocks to a file. The first evidence of a height stays. Raises `OSError`."""
        path = self._directory / f"evidence-{height}.json"
        if not is_there(path):
            write_file(path, msgspec.json.encode(evidence) + b"\n")
        return path

    def evidence(self) -> list[Path]:
        return sorted(self._directory.glob("evidence-*.json"))

    def _load(self) -> SeenHead:
        path = self._head_file
        try:
            head = msgspec.json.decode(path.read_bytes(), type=SeenHead)
            if read_hex(head.genesis, "the genesis") != self._digest:
                raise InvalidConfig(f"{path} is of another chain, with genesis {head.genesis}")
            check_finality(head.finality, Trust(self._genesis))
        except (msgspec.MsgspecError, InvalidProof) as error:
            raise DataUnusable(
                f"{path} is damaged: restore it, or remove it to start over with the next block; "
                f"what was seen before is then forgotten ({error})"
            ) from None
        return head
