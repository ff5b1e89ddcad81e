"""What statements prove, and that nothing can be left out of them."""

from copy import deepcopy
from typing import Any

import pytest

from cairn.domain.errors import InvalidProof
from cairn.domain.statement_checks import ProvenStatement
from tests.support.proof_chain import COIN, Held, ProofChain, understand
from tests.support.proven import ALICE, BOB, CAROL, NOBODY, prove, toy_network

HEAD = 10


@pytest.fixture
def chain() -> ProofChain:
    return toy_network()


def stated(chain: ProofChain, address: bytes, first: int, last: int, head: int = HEAD) -> ProvenStatement:
    proven = prove(chain, chain.statement(address, first, last, head))
    assert isinstance(proven, ProvenStatement)
    return proven


def refusal(chain: ProofChain, file: dict[str, Any]) -> str:
    with pytest.raises(InvalidProof) as refused:
        prove(chain, file)
    return str(refused.value)


def test_every_range_of_every_account_has_its_opening_closing_and_changes(chain: ProofChain) -> None:
    accounts = [ALICE.address, BOB.address, CAROL.address, NOBODY, chain.proposer_named("a")]
    for address in accounts:
        for first in range(HEAD + 1):
            for last in range(first, HEAD + 1):
                proven = stated(chain, address, first, last)
                opening = chain.blocks[first - 1].held.get(address) if first else None
                closing = chain.blocks[last].held.get(address)
                assert proven.opening.balance == (opening.balance if opening else 0)
                assert proven.closing.balance == (closing.balance if closing else 0)
                assert proven.closing.nonce == (closing.nonce if closing else 0)
                heights = [entry.block.header.height for entry in proven.entries]
                assert heights == chain.touches(address, first, last)


def test_a_change_has_all_payments_that_name_the_account_in_their_order(chain: ProofChain) -> None:
    (entry,) = stated(chain, ALICE.address, 1, 2).entries
    assert [payment.index for payment in entry.payments] == [0, 2]
    assert [payment.tx.value for payment in entry.payments] == [2 * COIN, 7]
    assert (entry.fees_earned, entry.set_by_hand) == (0, 0)


def test_fees_are_shown_as_earned_beside_what_the_proposer_received(chain: ProofChain) -> None:
    entries = stated(chain, chain.proposer_named("a"), 0, HEAD).entries
    fees = [sum(paid.fee for paid in chain.blocks[height].paid) for height in (2, 3, 5)]
    assert [entry.fees_earned for entry in entries] == fees
    assert [payment.tx.value for payment in entries[2].payments] == [3]


def test_balances_that_a_dev_chain_sets_are_shown_as_set() -> None:
    chain = ProofChain("dev", is_dev=True, balances={ALICE.address: 7})
    chain.set_balances({ALICE.address: 5, BOB.address: 9})
    genesis, lowered = stated(chain, ALICE.address, 0, 1, 1).entries
    assert (genesis.set_by_hand, lowered.set_by_hand, lowered.fees_earned) == (7, -2, 0)
    assert stated(chain, BOB.address, 0, 1, 1).entries[0].set_by_hand == 9


def without(file: dict[str, Any], change: int, payment: int | None = None) -> dict[str, Any]:
    copied = deepcopy(file)
    if payment is None:
        del copied["changes"][change]
    else:
        del copied["changes"][change]["payments"][payment]
    return copied


def test_no_change_can_be_left_out_at_the_begin_in_the_middle_or_at_the_end(chain: ProofChain) -> None:
    # Carol is touched in blocks 2, 3 and 5.
    file = chain.statement(CAROL.address, 2, 5, HEAD)
    assert "block 2 touched the account before block 3, and is left out" in refusal(chain, without(file, 0))
    assert "block 5 names block 3 as the change before it, not block 2" in refusal(chain, without(file, 1))
    assert "block 5 touched the account last, not block 3" in refusal(chain, without(file, 2))
    ends_early = chain.statement(CAROL.address, 2, 4, HEAD)
    assert "block 5 names block 3 as the change before it, not block 2" in refusal(chain, without(ends_early, 1))
    assert "block 5 touched the account, and is left out" in refusal(chain, file | {"changes": []})
    none = chain.statement(CAROL.address, 4, 4, HEAD) | {"from": 3}
    assert "block 3 touched the account before block 5, and is left out" in refusal(chain, none)


def test_no_payment_can_be_left_out_of_a_change_nor_added(chain: ProofChain) -> None:
    alice, bob = chain.statement(ALICE.address, 0, HEAD, HEAD), chain.statement(BOB.address, 2, 2, HEAD)
    assert "are not those that the account sent" in refusal(chain, without(alice, 1, 0))
    assert "are not those that the account sent" in refusal(chain, without(bob, 0, 1))
    assert "do not explain the balance: 2000000000000000000 wei" in refusal(chain, without(bob, 0, 0))
    foreign = deepcopy(alice)
    foreign["changes"][1]["payments"].insert(1, chain.payment(2, 1))
    assert "the transaction at index 1 of block 2 is of other accounts" in refusal(chain, foreign)
    twice = deepcopy(bob)
    twice["changes"][0]["payments"].append(twice["changes"][0]["payments"][-1])
    assert "not in their order" in refusal(chain, twice)


def test_a_proposer_cannot_have_earned_less_than_nothing() -> None:
    chain = ProofChain("robbed", is_dev=True, balances={ALICE.address: COIN, BOB.address: 9})
    before = chain.newest.held
    paid = understand(chain.pay(ALICE, CAROL.address, 0, 0), chain.gas_price)
    robbed = {BOB.address: Held(8, 0, 0), ALICE.address: Held(before[ALICE.address].balance - paid.fee, 1, 0)}
    chain._seal([paid], robbed | {CAROL.address: Held()}, BOB.address)
    assert "do not explain the balance: -1 wei" in refusal(chain, chain.statement(BOB.address, 1, 1, 1))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"from": 6}, "do not ascend"),
        ({"to": 11}, "do not ascend"),
        ({"to": 4}, "block 5 is not among those from 2 to 4"),
        ({"from": 3}, "block 2 is not among those from 3 to 5"),
        ({"state": None}, "exactly one"),
    ],
)
def test_ends_that_do_not_fit_the_changes_are_refused(chain: ProofChain, changed: dict[str, Any], why: str) -> None:
    file = chain.statement(CAROL.address, 2, 5, HEAD) | changed
    assert why in refusal(chain, {key: value for key, value in file.items() if value is not None})


def test_a_statement_must_not_end_with_both_or_with_another_account(chain: ProofChain) -> None:
    file = chain.statement(CAROL.address, 2, 3, HEAD)
    both = file | {"state": chain.state(CAROL.address, HEAD)}
    assert "exactly one" in refusal(chain, both)
    ended = chain.statement(CAROL.address, 2, 5, HEAD)
    assert "another account" in refusal(chain, ended | {"state": chain.state(BOB.address, HEAD)})
    other = file | {"next": chain.change(chain.proposer_named("a"), 5, HEAD)}
    assert "is of account" in refusal(chain, other)
    early = file | {"to": 5, "next": chain.change(CAROL.address, 5, HEAD)}
    assert "not above 5" in refusal(chain, early)


def test_changes_out_of_order_are_refused(chain: ProofChain) -> None:
    file = deepcopy(chain.statement(CAROL.address, 2, 5, HEAD))
    file["changes"].reverse()
    assert "block 3 touched the account before block 5, and is left out" in refusal(chain, file)
    file = deepcopy(chain.statement(CAROL.address, 2, 5, HEAD))
    file["changes"].insert(1, file["changes"][0])
    assert "does not come after" in refusal(chain, file)


def test_validators_that_sign_a_balance_out_of_nothing_are_refused() -> None:
    chain = ProofChain("inflated", is_dev=True, balances={ALICE.address: COIN, BOB.address: 9})
    chain.add([chain.pay(ALICE, BOB.address, 1, 0)])
    # The toy chain goes on from here, whatever the block did.
    chain.newest.held[BOB.address] = chain.newest.held[BOB.address]._replace(balance=11)
    chain.add()
    chain.add([chain.pay(ALICE, BOB.address, 1, 1)])
    by_change = chain.statement(BOB.address, 1, 3, 3)
    assert "block 3 begins with another balance or nonce than block 1 ended with" in refusal(chain, by_change)
    by_next = chain.statement(BOB.address, 1, 2, 3)
    assert "block 3 begins with another balance or nonce than block 1 ended with" in refusal(chain, by_next)
    by_state = chain.statement(BOB.address, 1, 2, 2)
    assert "the leaf at the end has another balance or nonce" in refusal(chain, by_state)
