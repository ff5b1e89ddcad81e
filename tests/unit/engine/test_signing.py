"""The blocks of a lone node: each signed in its batch, provable from genesis alone, also over hand-overs and kills."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from cairn import metrics
from cairn.domain.certificates import check_certificate
from cairn.domain.ed25519 import verify
from cairn.domain.errors import Corrupt, EngineUnavailable, NoSigningKey, NotSignedYet
from cairn.domain.genesis import Genesis, genesis_digest
from cairn.domain.types import ZERO_ADDRESS
from cairn.engine.application import Application, Feed
from cairn.engine.signing import BlockSigner
from cairn.store import keys
from cairn.store.chain import ChainStore
from cairn.store.rocks import WriteBatch
from cairn.store.signing_key import KeyFiles, SigningKey, SigningKeys
from tests.support.blocks import store_genesis
from tests.support.disk import database_of
from tests.support.metrics import Scrape
from tests.support.transfers import address, transfer


class Node:
    """One life after another of a node that makes its blocks alone."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.files = KeyFiles(home / "signing-key.json", home / "next-signing-key.json")
        self.first = SigningKey.new()
        self.first.save(self.files.current)
        self.genesis: Genesis = msgspec.structs.replace(store_genesis(), signer=self.first.public_key)
        self.start()

    def start(self) -> None:
        self.chain = ChainStore.open(self.home / "data", self.genesis)
        try:
            self.signer = BlockSigner(self.chain, SigningKeys(self.files))
        except BaseException:
            self.chain.close()
            raise
        self.application = Application(self.chain, Feed(), self.signer)

    def restart(self) -> None:
        self.chain.close()
        self.start()

    def make_block(self) -> None:
        header = self.chain.head_header
        nonce = self.chain.account(address(1)).nonce
        self.application.finalize([transfer(1, nonce)], header.timestamp + 1, ZERO_ADDRESS)
        self.application.commit()

    def make_successor(self) -> SigningKey:
        key = SigningKey.new()
        key.save(self.files.successor)
        return key

    def signers(self) -> list[bytes]:
        """Who signed each block, as genesis and the certificate prove it."""
        found = []
        for height in range(1, self.chain.visible + 1):
            proven = check_certificate(self.signer.certificate(height), self.genesis)
            assert (proven.header.height, proven.hash) == (height, self.chain.find_header(height)[0])  # type: ignore[index]
            [signer] = proven.signed.signers
            found.append(signer)
        return found


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.chain.close()


def test_each_block_is_signed_and_proven_from_genesis_alone(node: Node) -> None:
    for _ in range(3):
        node.make_block()
    assert node.signers() == [node.first.public_key] * 3
    node.restart()
    assert node.signers() == [node.first.public_key] * 3


def test_the_newest_certificate_is_that_of_the_head(node: Node) -> None:
    node.make_block()
    node.make_block()
    assert node.signer.certificate() == node.signer.certificate(2)
    # No signature names block 0; each block after it proves it.
    assert node.signer.certificate(0) == node.signer.certificate(2)


def test_before_the_first_block_and_beyond_the_head_nothing_is_signed(node: Node) -> None:
    for height in (None, 0, 1):
        with pytest.raises(NotSignedYet):
            node.signer.certificate(height)
    node.make_block()
    with pytest.raises(NotSignedYet, match="block 2 is not made yet"):
        node.signer.certificate(2)


def test_a_pruned_block_is_proven_by_the_newest(node: Node) -> None:
    for _ in range(4):
        node.make_block()
    node.chain.prune(3, lambda: None)
    assert node.signer.certificate(1) == node.signer.certificate(4)
    assert database_of(node.chain).get(keys.SIGNATURES, keys.encode_height(2)) is None
    assert check_certificate(node.signer.certificate(3), node.genesis).header.height == 3


def test_a_hand_over_is_signed_by_the_old_key_and_then_the_new_one_signs(node: Node) -> None:
    node.make_block()
    second = node.make_successor()
    node.restart()
    for _ in range(3):
        node.make_block()
    assert node.signers() == [node.first.public_key] * 2 + [second.public_key] * 2
    assert not node.files.successor.exists()
    assert SigningKey.load(node.files.current).public_key == second.public_key
    assert [len(node.signer.certificate(height).steps) for height in (1, 2, 3, 4)] == [0, 0, 1, 1]
    node.restart()
    node.make_block()
    assert node.signers()[-1] == second.public_key


def test_hand_overs_follow_each_other_and_outlive_pruning(node: Node) -> None:
    signers = [node.first]
    for _ in range(3):
        signers.append(node.make_successor())
        node.restart()
        node.make_block()
        node.make_block()
    node.chain.prune(node.chain.visible, lambda: None)
    node.restart()
    proven = check_certificate(node.signer.certificate(), node.genesis)
    assert (proven.changes, proven.signed.signers) == (3, (signers[-1].public_key,))


def test_a_kill_before_the_block_of_the_hand_over_leaves_the_old_key_in_charge(node: Node) -> None:
    second = node.make_successor()
    node.restart()
    # Signed, and never committed.
    node.application.finalize([], node.chain.head_header.timestamp + 1, ZERO_ADDRESS)
    assert node.signer.sign(node.application._finalized.block).step is not None  # type: ignore[union-attr]
    node.restart()
    assert SigningKey.load(node.files.current).public_key == node.first.public_key
    node.make_block()
    node.make_block()
    assert node.signers() == [node.first.public_key, second.public_key]


def test_a_kill_between_the_block_of_the_hand_over_and_the_files_leaves_the_new_key_in_charge(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = node.make_successor()
    node.restart()
    with monkeypatch.context() as killed:
        killed.setattr(SigningKeys, "settle", lambda keys, public_key: None)
        node.make_block()
    assert node.files.successor.exists()
    node.restart()
    assert not node.files.successor.exists()
    assert SigningKey.load(node.files.current).public_key == second.public_key
    node.make_block()
    assert node.signers() == [node.first.public_key, second.public_key]


def is_refusal_shown() -> bool:
    return Scrape(metrics.HAND_OVER_REFUSED.rendered(metrics.PAGE)).total("cairn_signing_key_not_on_disk") == 1


@pytest.mark.parametrize("loss", ["missing", "damaged", "another key", "open to others"])
def test_no_block_hands_over_to_a_key_that_cannot_be_read_back(node: Node, loss: str) -> None:
    second = node.make_successor()
    kept = node.files.successor.read_bytes()
    node.restart()
    if loss == "another key":
        SigningKey.new().save(node.files.successor)
    elif loss == "damaged":
        node.files.successor.write_bytes(kept[:-20])
    elif loss == "open to others":
        node.files.successor.chmod(0o644)
    else:
        node.files.successor.unlink()
    with capture_logs() as logs:
        node.make_block()
        node.make_block()
    assert [line["log_level"] for line in logs if "not on disk" in line["event"]] == ["error"], "said once"
    assert is_refusal_shown()
    assert node.signers() == [node.first.public_key] * 2
    assert node.signer.certificate().steps == ()
    # It is signed with another key as soon as that is there again, and a restart goes on either way.
    node.files.successor.unlink(missing_ok=True)
    node.restart()
    node.make_block()
    second.save(node.files.successor)
    node.restart()
    node.make_block()
    node.make_block()
    assert node.signers()[-2:] == [node.first.public_key, second.public_key]
    assert not is_refusal_shown()


def test_a_file_that_is_put_back_is_handed_over_to_without_a_restart(node: Node) -> None:
    second = node.make_successor()
    node.restart()
    node.files.successor.unlink()
    node.make_block()
    second.save(node.files.successor)
    node.make_block()
    node.make_block()
    assert node.signers() == [node.first.public_key] * 2 + [second.public_key]


def test_a_file_that_goes_between_the_signature_and_the_block_is_written_again(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = node.make_successor()
    node.restart()
    commit = node.chain.commit

    def lose_and_commit(*given: Any, **more: Any) -> None:
        node.files.successor.unlink()
        commit(*given, **more)

    monkeypatch.setattr(node.chain, "commit", lose_and_commit)
    node.make_block()
    monkeypatch.undo()
    node.restart()
    node.make_block()
    assert node.signers() == [node.first.public_key, second.public_key]


def test_a_failed_write_of_the_hand_over_is_made_again_with_the_keys_in_memory(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the core does: it opens the chain again, with the keys that it read at its start."""
    second = node.make_successor()
    held = SigningKeys(node.files)
    node.chain.close()
    node.files.current.unlink()
    node.chain = ChainStore.open(node.home / "data", node.genesis)
    node.signer = BlockSigner(node.chain, held)
    node.application = Application(node.chain, Feed(), node.signer)
    node.make_block()
    node.make_block()
    assert node.signers() == [node.first.public_key, second.public_key]


def test_the_old_key_alone_no_longer_starts_the_node_after_a_hand_over(node: Node) -> None:
    old = node.files.current.read_bytes()
    node.make_successor()
    node.restart()
    node.make_block()
    node.files.current.write_bytes(old)
    node.chain.close()
    with pytest.raises(NoSigningKey, match="the home holds"):
        node.start()


def test_a_missing_key_stops_the_start(node: Node) -> None:
    node.files.current.unlink()
    node.chain.close()
    with pytest.raises(NoSigningKey, match="signing-key.json is missing"):
        node.start()


@pytest.mark.parametrize("damage", ["gone", "altered", "of the block before"])
def test_a_head_without_its_signature_stops_the_start(node: Node, damage: str) -> None:
    node.make_block()
    node.make_block()
    batch = WriteBatch(database_of(node.chain))
    before = node.chain.find_signature(1)
    assert before is not None
    if damage == "gone":
        batch.delete(keys.SIGNATURES, keys.encode_height(2))
    else:
        batch.put(keys.SIGNATURES, keys.encode_height(2), before if damage.startswith("of") else bytes(64))
    database_of(node.chain).write(batch)
    node.chain.close()
    with pytest.raises(Corrupt, match=r"block 2 has no signature|the signature of block 2 in the store is not valid"):
        node.start()


def test_a_step_that_cannot_be_read_stops_the_start(node: Node) -> None:
    batch = WriteBatch(database_of(node.chain))
    batch.put(keys.STEPS, keys.encode_height(7), b"{}")
    database_of(node.chain).write(batch)
    node.chain.close()
    with pytest.raises(Corrupt, match="the change of signers at height 7"):
        node.start()


def test_a_block_without_a_signature_is_never_written(node: Node) -> None:
    node.application.finalize([], node.chain.head_header.timestamp + 1, ZERO_ADDRESS)
    outcome = node.application._finalized
    assert outcome is not None
    with pytest.raises(AssertionError, match="must be signed"):
        node.chain.commit(outcome)
    assert node.chain.visible == 0


def test_a_block_that_cannot_be_signed_is_not_made_and_its_transactions_are_not_at_fault(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(message: bytes) -> bytes:
        raise MemoryError

    monkeypatch.setattr(node.signer._key, "sign", fail)
    with pytest.raises(EngineUnavailable, match="cannot be signed"):
        node.make_block()
    assert node.chain.visible == 0


def test_the_signature_is_of_the_stated_header(node: Node) -> None:
    """As docs/formats.md spells it out, byte by byte."""
    node.make_block()
    certificate = node.signer.certificate()
    leaves = [bytes.fromhex(leaf[2:]) for leaf in certificate.signed.header]
    assert leaves[0] == bytes.fromhex("080b")
    assert leaves[2] == bytes.fromhex("0802")
    assert leaves[4] == bytes.fromhex("1200")
    assert leaves[5] == leaves[6] == leaves[9] == leaves[11] == leaves[12] == b""
    assert leaves[7] == leaves[8]
    assert leaves[10] == b"\x0a\x20" + node.chain.head_hash
    chain_id = f"cairn-{node.genesis.chain_id}-{genesis_digest(node.genesis)[:12].hex()}".encode()
    assert leaves[1] == bytes((0x0A, len(chain_id))) + chain_id
    time = leaves[3]
    block_id = b"\x0a\x20" + merkle(leaves) + b"\x12\x00"
    vote = b"\x08\x02\x11" + (2).to_bytes(8, "little") + b"\x22" + bytes((len(block_id),)) + block_id
    vote += b"\x2a" + bytes((len(time),)) + time + b"\x32" + bytes((len(chain_id),)) + chain_id
    signature = bytes.fromhex(certificate.signed.signatures[0].signature[2:])
    # A length of 128 or more has two bytes.
    prefix = bytes((len(vote) & 0x7F | 0x80, len(vote) >> 7)) if len(vote) > 0x7F else bytes((len(vote),))
    assert verify(node.first.public_key, prefix + vote, signature)


def merkle(leaves: list[bytes]) -> bytes:
    """RFC 6962, from the top."""
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    half = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + merkle(leaves[:half]) + merkle(leaves[half:])).digest()
