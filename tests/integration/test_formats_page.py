"""docs/formats.md: the values of its worked example, computed from the example files of the API."""

import re
from hashlib import sha256
from pathlib import Path

from cairn.api.description.examples import OF_BLOCK
from cairn.domain.certificates import (
    check_certificate,
    engine_chain_id,
    first_validators,
    header_hash,
    validator_set_hash,
    vote_bytes,
)
from cairn.domain.crypto import keccak256
from cairn.domain.ed25519 import verify
from cairn.domain.genesis import dev_genesis, encode_genesis
from cairn.domain.proof_files import ReceiptFile, read_file
from tests.support.example_chain import example_file

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"


def shown() -> dict[str, str]:
    """The rows of the table."""
    section = PAGE.read_text().partition("### Worked example\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| (.+?) \| `(.+?)` \|$", section, re.MULTILINE))


def test_the_worked_example_has_the_values_that_follow_from_its_file() -> None:
    genesis, file = dev_genesis(), read_file(example_file("ReceiptFile"))
    assert isinstance(file, ReceiptFile)
    signed = file.certificate.signed
    leaves = [bytes.fromhex(leaf[2:]) for leaf in signed.header]
    [vote], [validator] = signed.signatures, first_validators(genesis)
    message = vote_bytes(header_hash(leaves), height=2, chain_id=engine_chain_id(genesis), seconds=vote.seconds)
    header, tx = bytes.fromhex(file.block.header[2:]), bytes.fromhex(file.payment.transaction[2:])
    assert verify(validator.key, message, bytes.fromhex(vote.signature[2:]))
    assert check_certificate(file.certificate, genesis).header.tx_root == sha256(b"\0" + keccak256(tx)).digest()
    values = {
        "keccak-256 of genesis.json": keccak256(encode_genesis(genesis)).hex(),
        "engine chain id": engine_chain_id(genesis),
        "public key of the signer, from `signer` in genesis.json": validator.public_key,
        "the validator's leaf": b"\x0a\x22\x0a\x20".hex() + validator.key.hex() + "1001",
        "hash of the validator set": validator_set_hash([validator]).hex(),
        "leaf 1 of `signed.header`, the chain id": leaves[1].hex(),
        "leaf 2, the height of the engine's header": leaves[2].hex(),
        "leaf 7, the validators": leaves[7].hex(),
        "leaf 10, the app hash": leaves[10].hex(),
        "hash of the engine's header: the root over all 14 leaves": header_hash(leaves).hex(),
        "what is signed": message.hex(),
        "its signature": vote.signature,
        "keccak-256 of `certificate.header`, the hash of block 1": keccak256(header).hex(),
        "keccak-256 of `payment.transaction`": keccak256(tx).hex(),
        "leaf 0 of the transactions root, and the root itself": sha256(b"\0" + keccak256(tx)).hexdigest(),
    }
    expected = {
        name: value if name == "engine chain id" or value.startswith("0x") else "0x" + value
        for name, value in values.items()
    }
    assert shown() == expected, "\n".join(f"| {name} | `{value}` |" for name, value in expected.items())
    assert OF_BLOCK["Header"]["hash"] == expected["keccak-256 of `certificate.header`, the hash of block 1"]
