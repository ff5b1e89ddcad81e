"""A toy network with something of everything, and what its proofs prove."""

from functools import cache
from typing import Any

from cairn.domain.genesis import parse_genesis
from cairn.domain.proof_checks import BlockName, Trust
from cairn.domain.proof_files import read_file
from cairn.domain.statement_checks import Proven, check_file
from cairn.domain.types import BlockHash
from tests.support.proof_chain import COIN, ProofChain, encode, wallet

ALICE, BOB, CAROL = wallet("alice"), wallet("bob"), wallet("carol")
NOBODY = wallet("nobody").address
REFERENCE = "invoice 4711"


@cache
def toy_network() -> ProofChain:
    """Ten blocks: payments of every type in block 2, 3 and 5, other validators from block 4 on."""
    balances = {ALICE.address: 100 * COIN, BOB.address: COIN}
    chain = ProofChain("network", {"a": 10, "b": 10, "c": 10, "d": 10}, balances=balances)
    earner = chain.proposer_named("a")
    chain.add()
    chain.add(
        [
            chain.pay(ALICE, BOB.address, 2 * COIN, 0, data=REFERENCE.encode()),
            chain.pay(BOB, CAROL.address, 5, 0, kind=1),
            chain.pay(ALICE, ALICE.address, 7, 1, kind=2, prices=(10**9, 3 * 10**9)),
        ],
        earner,
    )
    chain.add([chain.pay(ALICE, CAROL.address, COIN, 2)], earner)
    chain.add()
    chain.change_validators({"b": 10, "c": 10, "d": 25}, 5)
    chain.add([chain.pay(CAROL, earner, 3, 0)], earner)
    for _ in range(5):
        chain.add()
    return chain


def prove(
    chain: ProofChain,
    file: dict[str, Any],
    at: tuple[int, bytes] | None = None,
    witnesses: tuple[bytes, ...] = (),
) -> Proven:
    name = None if at is None else BlockName(at[0], BlockHash(at[1]))
    trust = Trust(parse_genesis(chain.genesis), name, witnesses)
    return check_file(read_file(encode(file), without_signatures=at is not None), trust)
