"""The node's own check decides each vector as `verify.py` does, and proves the same."""

import pytest

from cairn.domain.errors import InvalidField, InvalidProof, MalformedJson
from cairn.domain.genesis import parse_exact_genesis
from cairn.domain.proof_checks import BlockName, Trust
from cairn.domain.proof_files import read_file
from cairn.domain.statement_checks import Proven, check_file
from cairn.domain.types import BlockHash
from tests.proofs.vectors import Case, read_vectors

CASES = read_vectors()


def proven_by(case: Case) -> Proven:
    at = None
    if case.at is not None:
        height, block_hash = case.at.split(":")
        at = BlockName(int(height), BlockHash(bytes.fromhex(block_hash[2:])))
    witnesses = () if case.witness is None else (bytes.fromhex(case.witness[2:]),)
    trust = Trust(parse_exact_genesis(case.genesis), at, witnesses)
    return check_file(read_file(case.file, without_signatures=at is not None), trust)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_vector_is_decided_as_meant(case: Case) -> None:
    if case.valid:
        signed = proven_by(case).finality.signed
        assert (signed is not None and signed.is_public_key) == case.is_public
        return
    with pytest.raises((InvalidProof, InvalidField, MalformedJson)):
        proven_by(case)
