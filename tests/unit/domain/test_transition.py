"""Block application: who pays, who receives, and what makes a block invalid."""

from collections.abc import Sequence

import msgspec
import pytest

from cairn.domain.errors import InvalidBlock, NonceTooHigh
from cairn.domain.genesis import DEV_SIGNER, Genesis, genesis_outcome
from cairn.domain.governance import Governance, ValidatorRecord, encode_governance
from cairn.domain.headers import block_hash
from cairn.domain.merkle import EMPTY_ROOT, tx_root
from cairn.domain.transition import BlockOutcome, GovernanceChange, Ledger, build_block
from cairn.domain.types import (
    DYNAMIC_FEE,
    MAX_UINT256,
    TRANSFER_GAS,
    ZERO_ADDRESS,
    Account,
    Address,
    BlockHash,
    SealedBlock,
    Tx,
    TxHash,
)
from tests.support.memory_state import MemoryState, naive_root, naive_state_root
from tests.support.verified_block import verify_block

ALICE, BOB, CAROL, PROPOSER = (Address(bytes([number]) * 20) for number in (1, 2, 3, 9))
FUNDS = 10**9
FEE = TRANSFER_GAS * 10
GENESIS = Genesis(
    chain_id=7,
    timestamp=1_000,
    gas_price=10,
    block_gas_limit=5 * TRANSFER_GAS,
    alloc={ALICE: FUNDS, BOB: FUNDS, PROPOSER: FUNDS},
    signer=DEV_SIGNER,
)
START = genesis_outcome(GENESIS)
STATE = MemoryState(START)
GOVERNANCE = Governance(0, (ValidatorRecord(b"\x05" * 32, 1, PROPOSER),))


def transfer(
    sender: Address, to: Address, value: int, nonce: int = 0, gas_price: int = 10, gas: int = TRANSFER_GAS
) -> Tx:
    tx_hash = TxHash(bytes([nonce]) + sender[:1] + to[:1] + bytes(29))
    return Tx(tx_hash, sender, to, nonce, gas, gas_price, value, bytes(65))


def build(txs: Sequence[Tx], timestamp: int = 2_000, proposer: Address = PROPOSER) -> BlockOutcome:
    head = START.block
    return build_block(head.header, head.hash, STATE, txs, timestamp, proposer, GENESIS.rules)


def build_with(governance: GovernanceChange) -> BlockOutcome:
    head = START.block
    return build_block(head.header, head.hash, STATE, [], 2_000, PROPOSER, GENESIS.rules, governance)


def verify(block: SealedBlock) -> BlockOutcome:
    head = START.block
    return verify_block(head.header, head.hash, STATE, block, GENESIS.rules)


def test_an_empty_block_changes_nothing_but_the_height() -> None:
    outcome = build([])
    header = outcome.block.header
    assert outcome.accounts == {}
    assert outcome.state.tree.root == STATE.tree.root
    assert (header.height, header.previous_hash) == (1, START.block.hash)
    assert (header.tx_root, header.state_root) == (EMPTY_ROOT, START.block.header.state_root)
    assert (header.gas_used, header.proposer, header.chain_id) == (0, PROPOSER, 7)


def test_a_block_says_whether_the_state_changes() -> None:
    assert not build([]).changes_state
    assert build([transfer(ALICE, CAROL, 1_000)]).changes_state
    assert build_with(governance=(GOVERNANCE, Governance(1, GOVERNANCE.validators))).changes_state


def test_a_change_of_the_validators_is_part_of_the_block() -> None:
    after = Governance(1, GOVERNANCE.validators)
    outcome = build_with(governance=(GOVERNANCE, after))
    assert outcome.governance == after
    state = MemoryState(START, outcome)
    assert outcome.block.header.state_root == naive_state_root(state, encode_governance(after)) != STATE.tree.root
    assert build([]).governance is None


def test_a_transfer_may_allow_all_the_gas_of_a_block() -> None:
    assert build([transfer(ALICE, CAROL, 1, gas=5 * TRANSFER_GAS)]).accounts[CAROL] == Account(1, 0)


def test_a_transfer_moves_the_value_and_pays_the_proposer() -> None:
    tx = transfer(ALICE, CAROL, 1_000)
    outcome = build([tx])
    assert outcome.accounts == {
        ALICE: Account(FUNDS - 1_000 - FEE, 1),
        CAROL: Account(1_000, 0),
        PROPOSER: Account(FUNDS + FEE, 0),
    }
    header = outcome.block.header
    assert header.gas_used == TRANSFER_GAS
    assert header.tx_root == tx_root([tx.hash])
    assert header.state_root == naive_state_root(MemoryState(START, outcome))
    assert header.history_root == naive_root([START.block.hash])
    assert outcome.block.hash == block_hash(header)
    assert outcome.block.txs == (tx,)


def test_gas_beyond_a_transfer_is_not_charged() -> None:
    outcome = build([transfer(ALICE, CAROL, 1, gas=2 * TRANSFER_GAS)])
    assert outcome.accounts[ALICE].balance == FUNDS - 1 - FEE
    assert outcome.block.header.gas_used == TRANSFER_GAS


def test_a_transfer_to_oneself_costs_the_fee() -> None:
    outcome = build([transfer(ALICE, ALICE, FUNDS - FEE)])
    assert outcome.accounts == {ALICE: Account(FUNDS - FEE, 1), PROPOSER: Account(FUNDS + FEE, 0)}


def test_a_proposer_that_sends_gets_its_fee_back() -> None:
    outcome = build([transfer(PROPOSER, BOB, 1_000)])
    assert outcome.accounts == {PROPOSER: Account(FUNDS - 1_000, 1), BOB: Account(FUNDS + 1_000, 0)}


def test_a_proposer_that_receives_gets_both() -> None:
    outcome = build([transfer(ALICE, PROPOSER, 1_000)])
    assert outcome.accounts[PROPOSER] == Account(FUNDS + 1_000 + FEE, 0)


def test_a_proposer_that_sends_to_itself_only_counts_up() -> None:
    assert build([transfer(PROPOSER, PROPOSER, 5)]).accounts == {PROPOSER: Account(FUNDS, 1)}


def test_a_proposer_cannot_spend_the_fees_of_its_own_block() -> None:
    with pytest.raises(InvalidBlock, match="holds 210000"):
        build([transfer(ALICE, CAROL, FEE), transfer(CAROL, BOB, 1)], proposer=CAROL)


def test_the_zero_address_is_an_account_like_any_other() -> None:
    outcome = build([transfer(ALICE, ZERO_ADDRESS, 5)], proposer=ZERO_ADDRESS)
    assert outcome.accounts[ZERO_ADDRESS] == Account(5 + FEE, 0)


def test_a_transfer_of_nothing_makes_an_empty_account() -> None:
    assert build([transfer(ALICE, CAROL, 0)]).accounts[CAROL] == Account()


def test_an_account_may_be_emptied_and_keeps_its_nonce() -> None:
    assert build([transfer(ALICE, BOB, FUNDS - FEE)]).accounts[ALICE] == Account(0, 1)


def test_what_was_received_in_a_block_can_be_spent_in_it() -> None:
    outcome = build([transfer(ALICE, CAROL, FEE + 5), transfer(CAROL, BOB, 5)])
    assert outcome.accounts[CAROL] == Account(0, 1)


def test_a_block_takes_exactly_its_gas_limit() -> None:
    txs = [transfer(ALICE, BOB, 1, nonce) for nonce in range(5)]
    assert build(txs).block.header.gas_used == GENESIS.block_gas_limit
    with pytest.raises(InvalidBlock, match="126000 gas would be used; the block's limit is 105000"):
        build([*txs, transfer(ALICE, BOB, 1, 5)])


def test_data_counts_for_the_gas_limit_and_its_fee_goes_to_the_proposer() -> None:
    txs = [transfer(ALICE, BOB, 1, nonce, gas=TRANSFER_GAS + 32) for nonce in range(5)]
    txs[1] = msgspec.structs.replace(txs[1], data=b"ab")
    built = build(txs[:4])
    assert (built.block.header.gas_used, built.block.header.tx_count) == (4 * TRANSFER_GAS + 32, 4)
    assert built.accounts[PROPOSER] == Account(FUNDS + 4 * FEE + 320)
    assert built.accounts[ALICE] == Account(FUNDS - 4 - 4 * FEE - 320, 4)
    with pytest.raises(InvalidBlock, match="105032 gas would be used; the block's limit is 105000"):
        build(txs)


def test_a_ledger_knows_the_accounts_so_far() -> None:
    ledger = Ledger(STATE, GENESIS.rules)
    assert ledger.account(ALICE) == Account(FUNDS)
    ledger.apply(transfer(ALICE, BOB, 3, nonce=0))
    assert ledger.account(ALICE) == Account(FUNDS - 3 - FEE, 1)
    assert ledger.account(BOB) == Account(FUNDS + 3)
    # Fees come last, and who was only asked for has not changed.
    assert ledger.account(PROPOSER) == STATE.account(PROPOSER)
    assert [address for address, _, _ in ledger.close(ALICE)] == [ALICE, BOB]
    assert ledger.account(ALICE) == Account(FUNDS - 3, 1)


def test_a_ledger_is_full_after_as_many_as_the_gas_limit_holds() -> None:
    ledger = Ledger(STATE, GENESIS.rules)
    with pytest.raises(NonceTooHigh, match="nonce is 1; the account's next one is 0"):
        ledger.apply(transfer(ALICE, BOB, 1, nonce=1))
    for nonce in range(5):
        assert not ledger.is_full
        ledger.apply(transfer(ALICE, BOB, 1, nonce))
    assert ledger.is_full
    with pytest.raises(InvalidBlock, match="126000 gas would be used"):
        ledger.apply(transfer(ALICE, BOB, 1, 5))
    # What was refused left nothing behind.
    assert ledger.close(PROPOSER) == [
        (ALICE, Account(FUNDS), Account(FUNDS - 5 - 5 * FEE, 5)),
        (BOB, Account(FUNDS), Account(FUNDS + 5)),
        (PROPOSER, Account(FUNDS), Account(FUNDS + 5 * FEE)),
    ]


@pytest.mark.parametrize(
    ("txs", "why"),
    [
        ([transfer(ALICE, BOB, 1, nonce=1)], "nonce is 1; the account's next one is 0"),
        ([transfer(ALICE, BOB, 1), transfer(ALICE, CAROL, 1)], "nonce is 0; the account's next one is 1"),
        ([transfer(ALICE, BOB, FUNDS - FEE + 1)], "the account holds 1000000000"),
        ([transfer(CAROL, BOB, 0)], "the account holds 0"),
        ([transfer(ALICE, BOB, MAX_UINT256, gas_price=MAX_UINT256)], "the account holds"),
        ([transfer(ALICE, BOB, 1, gas=20_999)], "gas is 20999"),
        ([transfer(ALICE, BOB, 1, gas=5 * TRANSFER_GAS + 1)], "a block has 105000"),
        ([transfer(ALICE, BOB, 1, gas_price=9)], "gasPrice is 9"),
    ],
)
def test_a_transaction_that_cannot_be_applied_is_named(txs: list[Tx], why: str) -> None:
    with pytest.raises(InvalidBlock, match=why) as caught:
        build(txs)
    assert f"block 1: transaction 0x{txs[-1].hash.hex()} cannot be applied" in caught.value.detail


def test_a_free_chain_pays_nobody() -> None:
    free = msgspec.structs.replace(GENESIS, gas_price=0)
    start = genesis_outcome(free)
    tx = transfer(ALICE, BOB, 5, gas_price=0)
    outcome = build_block(start.block.header, start.block.hash, MemoryState(start), [tx], 0, PROPOSER, free.rules)
    assert outcome.accounts == {ALICE: Account(FUNDS - 5, 1), BOB: Account(FUNDS + 5, 0)}


def test_time_never_runs_backwards() -> None:
    assert build([], timestamp=2_000).block.header.timestamp == 2_000
    assert build([], timestamp=1_000).block.header.timestamp == 1_000
    assert build([], timestamp=999).block.header.timestamp == 1_000


def test_a_right_block_is_verified_to_the_same_outcome() -> None:
    outcome = build([transfer(ALICE, BOB, 5), transfer(BOB, CAROL, 7)])
    assert verify(outcome.block) == outcome


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"height": 2}, "height is 2, but it follows as 1"),
        ({"previous_hash": BlockHash(bytes(32))}, "previous_hash is 0x0000"),
        ({"timestamp": 999}, "timestamp is 999, but it follows as 1000"),
        ({"tx_root": EMPTY_ROOT}, "tx_root is 0x56e8"),
        ({"state_root": bytes(32)}, "state_root is 0x0000"),
        ({"gas_used": 0}, "gas_used is 0, but it follows as 21000"),
        ({"proposer": BOB}, "changes_root is"),
        ({"changes_root": EMPTY_ROOT}, "changes_root is 0x56e8"),
        ({"history_root": bytes(32)}, "history_root is 0x0000"),
        ({"chain_id": 8}, "chain_id is 8, but it follows as 7"),
        ({"gas_limit": 1}, "gas_limit is 1, but it follows as"),
        ({"base_fee": 12}, "base_fee is 12, but it follows as"),
    ],
)
def test_a_block_that_claims_something_else_is_refused(changes: dict[str, object], why: str) -> None:
    block = build([transfer(ALICE, CAROL, 5)]).block
    header = msgspec.structs.replace(block.header, **changes)
    with pytest.raises(InvalidBlock, match=why):
        verify(SealedBlock(header, block_hash(header), block.txs))


def test_a_block_under_a_wrong_hash_is_refused() -> None:
    block = build([transfer(ALICE, CAROL, 5)]).block
    with pytest.raises(InvalidBlock, match="block 1: hash is 0x0000"):
        verify(SealedBlock(block.header, BlockHash(bytes(32)), block.txs))


def set_balances(balances: dict[Address, int], txs: Sequence[Tx] = ()) -> BlockOutcome:
    return build_block(START.block.header, START.block.hash, STATE, txs, 2_000, PROPOSER, GENESIS.rules, None, balances)


def test_balances_that_are_set_are_part_of_the_block() -> None:
    outcome = set_balances({ALICE: 5, CAROL: 7})
    assert outcome.accounts == {ALICE: Account(5, 0), CAROL: Account(7, 0)}
    assert outcome.changes_state
    assert outcome.balances == {ALICE: 5, CAROL: 7}
    assert build([]).balances == {}
    assert outcome.block.header.state_root == naive_state_root(MemoryState(START, outcome)) != STATE.tree.root
    arguments = (START.block.header, START.block.hash, STATE, outcome.block, GENESIS.rules, None)
    assert verify_block(*arguments, {ALICE: 5, CAROL: 7}) == outcome
    with pytest.raises(InvalidBlock, match="changes_root"):
        verify_block(*arguments)
    with pytest.raises(InvalidBlock, match="changes_root"):
        verify_block(*arguments, {ALICE: 6, CAROL: 7})


def test_a_balance_that_is_set_to_what_it_was_changes_no_account() -> None:
    outcome = set_balances({BOB: FUNDS})
    assert outcome.accounts == {}
    assert outcome.state.tree.root == STATE.tree.root


def test_a_block_that_sets_balances_holds_no_transactions() -> None:
    with pytest.raises(InvalidBlock, match="must not hold transactions"):
        set_balances({ALICE: 5}, [transfer(BOB, CAROL, 1)])


def test_a_block_may_hold_what_its_sender_can_pay_though_not_at_the_highest_price() -> None:
    """No mempool accepts it, but what it pays is decided, and the rule of a chain's blocks never changes."""
    plain = transfer(ALICE, BOB, FUNDS - FEE)
    lean = msgspec.structs.replace(plain, gas=90_000, kind=DYNAMIC_FEE, max_fee=50, max_tip=0)
    assert lean.cost > FUNDS
    assert build([lean]).accounts[ALICE] == Account(0, 1)
