"""What files of proof prove, on a toy chain that shares no code with the node, and what is refused."""

from copy import deepcopy
from typing import Any

import pytest

from cairn.domain.errors import InvalidProof
from cairn.domain.proof_checks import FinalBlock, ProvenAccount, ProvenHistory, ProvenPayment
from cairn.domain.references import reference_of
from tests.support.proof_chain import COIN, ProofChain, Validator, seeded
from tests.support.proven import ALICE, BOB, CAROL, NOBODY, REFERENCE, prove, toy_network

HEAD = 10
WITNESS = Validator(seeded("a witness"), 1)


@pytest.fixture
def chain() -> ProofChain:
    return toy_network()


def paid(chain: ProofChain, height: int = 2, index: int = 0, head: int = HEAD, **trust: Any) -> ProvenPayment:
    proven = prove(chain, chain.receipt(height, index, head), **trust)
    assert isinstance(proven, ProvenPayment)
    return proven


# Receipts.


def test_a_receipt_says_who_paid_whom_how_much_what_for_when_and_by_whose_signatures(chain: ProofChain) -> None:
    proven = paid(chain)
    tx, header, block = proven.tx, proven.block.header, chain.blocks[2]
    assert (tx.sender, tx.to, tx.value, tx.nonce) == (ALICE.address, BOB.address, 2 * COIN, 0)
    assert reference_of(tx.data) == REFERENCE
    assert tx.fee == block.paid[0].fee
    assert (header.height, header.timestamp, proven.block.hash, proven.index) == (2, block.time, block.hash, 0)
    signed = proven.finality.signed
    assert signed is not None
    assert (signed.signed.power, signed.signed.total, signed.changes, signed.is_public_key) == (45, 45, 1, False)
    assert len(signed.signed.signers) == 3
    assert proven.finality.block.hash == chain.blocks[HEAD].hash


@pytest.mark.parametrize("index", [0, 1, 2])
@pytest.mark.parametrize("head", [2, 3, 4, HEAD])
def test_a_payment_of_any_type_is_proven_by_its_own_block_or_a_later_one(
    chain: ProofChain, index: int, head: int
) -> None:
    known = chain.blocks[2].paid[index]
    tx = paid(chain, 2, index, head).tx
    assert (tx.sender, tx.to, tx.value, tx.fee) == (known.sender, known.to, known.value, known.fee)


def test_a_dev_chains_receipt_says_that_everybody_has_the_key() -> None:
    chain = ProofChain("dev", is_dev=True, balances={ALICE.address: COIN})
    chain.add([chain.pay(ALICE, BOB.address, 1, 0)])
    signed = paid(chain, 1, 0, 1).finality.signed
    assert signed is not None
    assert signed.is_public_key


def refusal(chain: ProofChain, file: dict[str, Any], **trust: Any) -> str:
    with pytest.raises(InvalidProof) as refused:
        prove(chain, file, **trust)
    return str(refused.value)


def other_network() -> ProofChain:
    return ProofChain("other", {"a": 10}, balances={ALICE.address: 100 * COIN})


def altered(file: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The file with another value at `a.b.0.c`."""
    copied = deepcopy(file)
    *way, last = path.split(".")
    at: Any = copied
    for step in way:
        at = at[int(step)] if isinstance(at, list) else at[step]
    if isinstance(at, list):
        at[int(last)] = value
    elif value is None:
        del at[last]
    else:
        at[last] = value
    return copied


def test_a_receipt_of_another_chain_is_refused(chain: ProofChain) -> None:
    other = other_network()
    other.add([other.pay(ALICE, BOB.address, 1, 0)])
    assert "another chain" in refusal(chain, other.receipt(1, 0, 1))


@pytest.mark.parametrize(
    ("path", "other", "why"),
    [
        ("payment.index", 1, "is not at index 1 of block 2"),
        ("payment.index", 2**53 - 1, "is not at index 9007199254740991 of block 2"),
        ("payment.transaction", "0x", "is not at index 0 of block 2"),
        ("payment.transaction", "0xAB", "lower-case"),
        ("payment.path", [], "is not at index 0 of block 2"),
        ("payment.path.0", "0x00", "has 1 bytes, not 32"),
        ("block.history", [], "block 2 is not in the history of block 10"),
        ("block.header", "0xc0", "cannot be read"),
        ("certificate.header", "0xc0", "cannot be read"),
        ("certificate.steps", [], "other validators"),
    ],
)
def test_an_altered_receipt_is_refused_by_name(chain: ProofChain, path: str, other: Any, why: str) -> None:
    assert why in refusal(chain, altered(chain.receipt(2, 0, HEAD), path, other))


def test_another_payment_of_the_same_block_is_refused(chain: ProofChain) -> None:
    file = chain.receipt(2, 0, HEAD)
    other = altered(file, "payment.transaction", chain.payment(2, 1)["transaction"])
    assert "is not at index 0" in refusal(chain, other)


def test_a_block_that_is_not_an_ancestor_is_refused(chain: ProofChain) -> None:
    file = chain.receipt(5, 0, 5)
    assert "not in the history" in refusal(chain, file | {"certificate": chain.certificate(4)})
    with_path = altered(chain.receipt(5, 0, 5), "block.history", ["0x" + "00" * 32])
    assert "has a path" in refusal(chain, with_path)


def test_two_thirds_of_the_power_are_not_enough_and_more_are() -> None:
    chain = ProofChain("thirds", {"a": 10, "b": 10, "c": 10}, balances={ALICE.address: COIN})
    chain.add([chain.pay(ALICE, BOB.address, 1, 0)])
    file = chain.receipt(1, 0, 1)
    assert "20 of 30" in refusal(chain, file | {"certificate": chain.certificate(1, signers=[0, 1])})
    chain = ProofChain("more than thirds", {"a": 11, "b": 10, "c": 10}, balances={ALICE.address: COIN})
    chain.add([chain.pay(ALICE, BOB.address, 1, 0)])
    file = chain.receipt(1, 0, 1) | {"certificate": chain.certificate(1, signers=[0, 1])}
    proven = prove(chain, file)
    assert proven.finality.signed is not None
    assert (proven.finality.signed.signed.power, proven.finality.signed.signed.total) == (21, 31)


# Accounts.


def held(chain: ProofChain, address: bytes, height: int, head: int = HEAD) -> tuple[int, int, int | None]:
    proven = prove(chain, chain.account(address, height, head))
    assert isinstance(proven, ProvenAccount)
    assert (proven.address, proven.height) == (address, height)
    return proven.account.balance, proven.account.nonce, proven.last_touch


@pytest.mark.parametrize("height", range(HEAD + 1))
@pytest.mark.parametrize(
    "address", [ALICE.address, BOB.address, CAROL.address, NOBODY], ids=["alice", "bob", "carol", "x"]
)
def test_a_balance_is_proven_after_every_block(chain: ProofChain, address: bytes, height: int) -> None:
    known = chain.blocks[height].held.get(address)
    expected = (0, 0, None) if known is None else (known.balance, known.nonce, known.touched)
    assert held(chain, address, height) == expected


def test_every_gap_proves_that_nobody_is_there_and_only_that() -> None:
    chain = ProofChain("gaps", balances={bytes([n]) * 20: n for n in (0x20, 0x80, 0xC0)})
    inside = {1: (0x21, 0x7F), 2: (0x81, 0xBF), 3: (0xC1, 0xFF, 0x00, 0x1F)}
    for number, addresses in inside.items():
        for first in range(0, 256, 1):
            address = bytes([first]) * 20
            file = chain.account(address, 0, 0) | {"state": chain.state_at(number, 0)}
            if any(min(pair) <= first <= max(pair) for pair in zip(addresses[::2], addresses[1::2], strict=True)):
                assert prove(chain, file, at=(0, chain.blocks[0].hash)).finality.signed is None
            elif bytes([first]) * 20 != bytes([(0x20, 0x80, 0xC0)[number - 1]]) * 20:
                assert "another account" in refusal(chain, file, at=(0, chain.blocks[0].hash))


def test_a_single_account_leaves_out_all_others() -> None:
    chain = ProofChain("single", balances={ALICE.address: 1})
    proven = prove(chain, chain.account(BOB.address, 0, 0), at=(0, chain.blocks[0].hash))
    assert isinstance(proven, ProvenAccount)
    assert (proven.account.balance, proven.last_touch) == (0, None)


def test_an_older_balance_is_refused(chain: ProofChain) -> None:
    # Touched in blocks 2 and 3.
    stale = chain.account(ALICE.address, 2, 2) | {"certificate": chain.certificate(HEAD)}
    assert "not under the state root" in refusal(chain, stale)
    assert "block 3 touched" in refusal(chain, altered(chain.account(ALICE.address, HEAD, HEAD), "height", 2))
    assert "not above height 2" in refusal(chain, altered(chain.account(ALICE.address, 1, HEAD), "height", 2))
    newer = chain.account(ALICE.address, 2, HEAD)
    assert "block 2 touched the account after height 1" in refusal(chain, altered(newer, "height", 1))


def test_an_account_file_must_end_in_exactly_one_way(chain: ProofChain) -> None:
    file = chain.account(ALICE.address, 1, HEAD)
    assert "exactly one" in refusal(chain, file | {"state": chain.state(ALICE.address, HEAD)})
    assert "exactly one" in refusal(chain, altered(file, "change", None))


def test_a_leaf_of_another_account_is_refused(chain: ProofChain) -> None:
    file = chain.account(ALICE.address, HEAD, HEAD)
    assert "another account" in refusal(chain, file | {"state": chain.state(BOB.address, HEAD)})
    past = chain.account(ALICE.address, 1, HEAD)
    assert "is of account" in refusal(chain, past | {"change": chain.change(BOB.address, 2, HEAD)})
    assert "is not an account" in refusal(chain, altered(file, "state.number", 0))
    assert "not under" in refusal(chain, altered(file, "state.size", file["state"]["size"] * 4))
    assert "has 32 bytes, not 88" in refusal(chain, altered(file, "state.leaf", "0x" + "00" * 32))
    assert "above 10" in refusal(chain, altered(file, "height", HEAD + 1))


# Blocks and history.


def test_blocks_are_final_and_history_was_only_appended_to(chain: ProofChain) -> None:
    for height in range(HEAD + 1):
        block = prove(chain, chain.finality(height, HEAD))
        assert isinstance(block, FinalBlock)
        assert block.block.hash == chain.blocks[height].hash
        for later in range(height + 1, HEAD + 1):
            proven = prove(chain, chain.history(height, later, HEAD))
            assert isinstance(proven, ProvenHistory)
            assert (proven.first.hash, proven.second.hash) == (chain.blocks[height].hash, chain.blocks[later].hash)


def test_a_history_that_was_rewritten_is_refused(chain: ProofChain) -> None:
    file = chain.history(5, 9, HEAD)
    assert "does not begin with" in refusal(chain, altered(file, "consistency", file["consistency"][:-1]))
    assert "not in the history" in refusal(chain, altered(file, "inclusion", file["inclusion"][:-1]))
    assert "not below" in refusal(chain, altered(file, "first", chain.history(9, 10, HEAD)["first"]))
    assert "not in the history" in refusal(chain, altered(file, "first", chain.history(4, 9, HEAD)["first"]))


# Trusted blocks and witnesses.


def test_a_trusted_block_stands_in_for_the_signatures(chain: ProofChain) -> None:
    file = chain.receipt(2, 0, HEAD)
    unsigned = altered(altered(file, "certificate.signed", 0), "certificate.steps", 0)
    proven = prove(chain, unsigned, at=(HEAD, chain.blocks[HEAD].hash))
    assert proven.finality.signed is None
    assert proven.finality.trusted == proven.finality.block
    assert "does not hold block 9" in refusal(chain, unsigned, at=(9, chain.blocks[9].hash))
    assert "does not hold block 10" in refusal(chain, unsigned, at=(10, chain.blocks[9].hash))
    assert "does not hold block 11" in refusal(chain, unsigned, at=(11, chain.blocks[10].hash))


def test_a_trusted_descendant_stands_in_for_the_signatures(chain: ProofChain) -> None:
    file = chain.receipt(2, 0, 5) | {"descendants": [chain.descendant(9, 5)]}
    proven = prove(chain, file, at=(9, chain.blocks[9].hash))
    assert proven.finality.trusted is not None
    assert proven.finality.trusted.header.height == 9
    assert proven.finality.block.header.height == 5


@pytest.mark.parametrize("height", [5, 6, HEAD])
def test_a_witness_of_the_signed_block_or_of_a_later_one_is_named(chain: ProofChain, height: int) -> None:
    file = chain.receipt(2, 0, 5) | {"descendants": [chain.descendant(height, 5, [WITNESS])]}
    (seen,) = prove(chain, file, witnesses=(WITNESS.key,)).finality.witnesses
    assert (seen.public_key, seen.block.header.height) == (WITNESS.key, height)


def test_a_witness_that_is_asked_for_and_did_not_sign_refuses_the_file(chain: ProofChain) -> None:
    file = chain.receipt(2, 0, 5)
    assert "signed no block" in refusal(chain, file, witnesses=(WITNESS.key,))
    other = file | {"descendants": [chain.descendant(6, 5, [Validator(seeded("another"), 1)])]}
    assert "signed no block" in refusal(chain, other, witnesses=(WITNESS.key,))
    assert len(prove(chain, other).finality.witnesses) == 1


def test_a_wrong_signature_of_a_witness_counts_for_nothing(chain: ProofChain) -> None:
    wrong = chain.descendant(7, 5, [WITNESS]) | {"witnesses": chain.descendant(6, 5, [WITNESS])["witnesses"]}
    file = chain.receipt(2, 0, 5) | {"descendants": [wrong]}
    assert prove(chain, file).finality.witnesses == ()
    assert "signed no block" in refusal(chain, file, witnesses=(WITNESS.key,))


def test_a_descendant_of_another_block_is_refused(chain: ProofChain) -> None:
    file = chain.receipt(2, 0, 5)
    assert "not in the history" in refusal(chain, file | {"descendants": [chain.descendant(9, 6, [WITNESS])]})
    below = chain.descendant(5, 5, [WITNESS]) | {"header": chain.finality(4, 4)["certificate"]["header"]}
    assert "is not above" in refusal(chain, file | {"descendants": [below]})
    with_path = chain.descendant(5, 5) | {"history": ["0x" + "00" * 32]}
    assert "has a path" in refusal(chain, file | {"descendants": [with_path]})
