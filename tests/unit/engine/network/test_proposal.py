"""Which transactions make a block, and that choosing and judging agree with applying."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cairn.domain.errors import (
    InsufficientFunds,
    InvalidBlock,
    InvalidField,
    NonceTooHigh,
    NonceTooLow,
    TxRejected,
    UpdateRefused,
)
from cairn.domain.genesis import Genesis, genesis_outcome
from cairn.domain.governance import Before, Governance, Update, ValidatorRecord, ValidatorUpdate
from cairn.domain.transition import Ledger, build_block
from cairn.domain.types import TRANSFER_GAS, Account, Address, Rules, Tx
from cairn.engine.abci.wire import proposed_size_bytes
from cairn.engine.network.bundle import MOST, Bundle, encode_bundle, is_bundle, open_bundle
from cairn.engine.network.parsed_txs import Parsed
from cairn.engine.network.proposal import BUNDLE_HEAD_BYTES, propose, read_offer, read_strictly, sift
from tests.support.memory_state import MemoryState
from tests.support.transfers import RULES, Accounts, address, transfer
from tests.support.tx_data import gas_of

NEW = Before(0, 0, 0, 0)
UPDATE = ValidatorUpdate(0, ValidatorRecord(b"\x05" * 32, 7, address(9)), NEW)
OTHER_UPDATE = ValidatorUpdate(0, ValidatorRecord(b"\x05" * 32, 8, address(9)), NEW)
AFTER = Governance(1, (UPDATE.validator,))
PLENTY_BYTES = 10**9


def apply_update(update: Update) -> Governance:
    if update != UPDATE:
        raise UpdateRefused("not that one")
    return AFTER


@pytest.fixture
def state() -> Accounts:
    accounts = Accounts()
    for sender in (1, 2, 3):
        accounts.put(address(sender), balance=10**9, nonce=0)
    return accounts


def raw_of(item: Parsed) -> bytes:
    return b"r" + item.hash if isinstance(item, Tx) else repr(item).encode()


def bundle_of(*txs: Tx) -> Bundle:
    return Bundle(tuple(map(raw_of, txs)), txs)


def opened(batches: Sequence[bytes]) -> list[bytes]:
    return [raw for batch in batches for raw in (open_bundle(batch) if is_bundle(batch) else [batch])]


def proposed(
    items: Sequence[Parsed], state: Accounts, rules: Rules = RULES, max_bytes: int = PLENTY_BYTES
) -> list[Parsed]:
    by_raw = {raw_of(item): item for item in items}
    raws = [raw_of(item) for item in items]
    return [by_raw[raw] for raw in opened(propose(raws, items, state, rules, max_bytes, apply_update))]


def test_each_senders_by_nonce_and_the_best_price_first_among_senders(state: Accounts) -> None:
    cheap, dear, middle = transfer(1, 0, gas_price=10), transfer(1, 1, gas_price=90), transfer(2, 0, gas_price=20)
    assert proposed([dear, cheap, middle], state) == [middle, cheap, dear]


def test_equal_prices_go_by_arrival(state: Accounts) -> None:
    txs = [transfer(sender, 0) for sender in (3, 1, 2)]
    assert proposed(txs, state) == txs


def test_of_two_with_one_nonce_the_better_paid_is_proposed(state: Accounts) -> None:
    old, new, later = transfer(1, 0, gas_price=10), transfer(1, 0, gas_price=11), transfer(1, 1)
    assert proposed([old, later, new], state) == [new, later]


def test_invalid_transactions_are_not_proposed(state: Accounts) -> None:
    state.put(address(2), balance=10, nonce=0)
    state.put(address(3), balance=10**9, nonce=5)
    bad: list[Parsed] = [
        transfer(1, 1),  # behind a gap
        transfer(2, 0),  # cannot be paid for
        transfer(3, 4),  # was mined before
        transfer(3, 5, gas_price=1),  # pays too little
        InvalidField("raw", "rubbish"),
    ]
    assert proposed(bad, state) == []
    assert proposed([*bad, transfer(3, 5)], state) == [transfer(3, 5)]


def test_a_proposal_stays_within_gas_and_bytes(state: Accounts) -> None:
    txs = [transfer(1, nonce) for nonce in range(5)]
    small = Rules(RULES.chain_id, RULES.gas_price, 3 * TRANSFER_GAS)
    assert proposed(txs, state, small) == txs[:3]
    size_bytes = 2 * proposed_size_bytes(raw_of(txs[0])) + BUNDLE_HEAD_BYTES
    assert proposed(txs, state, max_bytes=size_bytes) == txs[:2]
    assert proposed(txs, state, max_bytes=size_bytes - 1) == txs[:1]


@pytest.mark.parametrize("count", [1, 2, MOST, MOST + 1, 2 * MOST - 30])
def test_a_proposal_uses_few_bundles_within_the_byte_limit(state: Accounts, count: int) -> None:
    txs = [transfer(1 + nonce % 3, nonce // 3, value=0) for nonce in range(count)]
    raws = [raw_of(tx) for tx in txs]
    one = proposed_size_bytes(raws[0])
    for max_bytes in (PLENTY_BYTES, 20_000, *range((count - 1) * one, (count + 1) * one)):
        batches = propose(raws, txs, state, RULES, max_bytes, apply_update)
        left_bytes = max_bytes - sum(map(proposed_size_bytes, batches))
        assert left_bytes >= 0
        assert opened(batches) == raws[: len(opened(batches))]
        assert len(batches) == -(-len(opened(batches)) // MOST)
        # None is left out that would have found room, but for a few bytes for each bundle.
        needed_bytes = one + (len(batches) + 1) * BUNDLE_HEAD_BYTES
        assert len(opened(batches)) == count or left_bytes < needed_bytes


def test_an_offer_of_one_price_is_proposed_unchanged(state: Accounts) -> None:
    first, second, other = transfer(1, 0), transfer(1, 1), transfer(2, 0)
    parsed: list[Parsed] = [bundle_of(first, other), second]
    raws = [encode_bundle([raw_of(first), raw_of(other)]), raw_of(second)]
    size_bytes = sum(map(proposed_size_bytes, raws))
    assert read_offer(raws, parsed, RULES, size_bytes) == [first, other, second]
    assert read_offer(raws, parsed, RULES, size_bytes - 1) is None
    assert read_offer([], [], RULES, 0) == []
    dear = transfer(3, 0, gas_price=90)
    assert read_offer([*raws, raw_of(dear)], [*parsed, dear], RULES, PLENTY_BYTES) is None
    for item in (UPDATE, InvalidField("raw", "rubbish")):
        assert read_offer([*raws, raw_of(item)], [*parsed, item], RULES, PLENTY_BYTES) is None


def test_a_transfer_in_two_bundles_is_proposed_once(state: Accounts) -> None:
    first, second, third, other = transfer(1, 0), transfer(1, 1), transfer(1, 2), transfer(2, 0)
    parsed: list[Parsed] = [bundle_of(second, other), bundle_of(first, second), third]
    raws = [b"a batch", b"another", raw_of(third)]
    chosen = propose(raws, parsed, state, RULES, PLENTY_BYTES, apply_update)
    assert chosen == [encode_bundle([raw_of(tx) for tx in (other, first, second, third)])]


def test_the_transfers_of_a_bundle_are_the_block_s(state: Accounts) -> None:
    first, second, other = transfer(1, 0), transfer(1, 1), transfer(2, 0)
    assert read_strictly([bundle_of(first, second), other], apply_update) == ([first, second, other], None)
    assert sift([bundle_of(first, second), other], state, RULES, apply_update).refusals == [None, None]
    state.put(address(3), balance=10, nonce=0)
    items: list[Parsed] = [bundle_of(first, transfer(1, 2), other, transfer(3, 0)), second]
    content = sift(items, state, RULES, apply_update)
    assert content.txs == [first, other, second]
    assert isinstance(content.refusals[0], NonceTooHigh)
    assert content.refusals[1] is None


def test_a_block_holds_at_most_one_validator_update(state: Accounts) -> None:
    tx = transfer(1, 0)
    assert proposed([tx, OTHER_UPDATE, UPDATE], state) == [UPDATE, tx]
    assert proposed([OTHER_UPDATE], state) == []
    assert proposed([UPDATE, tx], state, max_bytes=proposed_size_bytes(raw_of(tx)) + BUNDLE_HEAD_BYTES) == [tx]


def test_a_proposal_with_an_invalid_item_is_refused() -> None:
    tx = transfer(1, 0)
    assert read_strictly([tx, UPDATE], apply_update) == ([tx], AFTER)
    with pytest.raises(UpdateRefused, match="room for one"):
        read_strictly([UPDATE, UPDATE], apply_update)
    with pytest.raises(UpdateRefused, match="not that one"):
        read_strictly([OTHER_UPDATE], apply_update)
    with pytest.raises(InvalidField):
        read_strictly([tx, InvalidField("raw", "rubbish")], apply_update)


def test_sifting_leaves_out_what_breaks_a_rule_and_says_why(state: Accounts) -> None:
    state.put(address(2), balance=10, nonce=0)
    good, later = transfer(1, 0), transfer(1, 1)
    items: list[Parsed] = [
        InvalidField("raw", "rubbish"),
        good,
        good,
        transfer(1, 2),
        UPDATE,
        UPDATE,
        transfer(2, 0),
        later,
    ]
    content = sift(items, state, RULES, apply_update)
    assert content.txs == [good, later]
    assert content.governance == AFTER
    kinds = [type(refusal) for refusal in content.refusals]
    nothing = type(None)
    assert kinds == [
        InvalidField, nothing, NonceTooLow, NonceTooHigh, nothing, UpdateRefused, InsufficientFunds, nothing,
    ]  # fmt: skip


def test_a_proposal_ends_where_the_next_transfer_has_no_room_for_its_data(state: Accounts) -> None:
    txs = [transfer(1, 0), transfer(2, 0, data=b"\xff" * 256), transfer(3, 0)]
    exact = 21_000 + 21_000 + 16 * 256
    raws = list(map(raw_of, txs))
    for limit, count in ((exact, 2), (exact - 1, 1), (exact + 21_000, 3)):
        small = Rules(RULES.chain_id, RULES.gas_price, limit)
        assert proposed(txs, state, small) == txs[:count]
        assert (read_offer(raws, txs, small, PLENTY_BYTES) is None) == (count < 3)


def test_sifting_leaves_out_what_has_no_room_for_its_data(state: Accounts) -> None:
    small = Rules(RULES.chain_id, RULES.gas_price, 2 * TRANSFER_GAS + 15)
    txs = [transfer(1, 0), transfer(2, 0, data=b"x"), transfer(3, 0)]
    content = sift(txs, state, small, apply_update)
    assert content.txs == [txs[0], txs[2]]
    assert isinstance(content.refusals[1], InvalidBlock)


def test_sifting_stops_at_the_gas_limit(state: Accounts) -> None:
    small = Rules(RULES.chain_id, RULES.gas_price, 2 * TRANSFER_GAS)
    content = sift([transfer(1, nonce) for nonce in range(3)], state, small, apply_update)
    assert len(content.txs) == 2
    assert isinstance(content.refusals[2], InvalidBlock)


TRANSFERS = st.builds(
    transfer,
    st.integers(1, 3),
    st.integers(0, 3),
    gas_price=st.sampled_from([9, 10, 11, 30]),
    value=st.sampled_from([0, 1, 10**6, 2 * 10**6]),
    gas=st.sampled_from([None, TRANSFER_GAS - 1, TRANSFER_GAS, 6 * TRANSFER_GAS, 10**8]),
    to=st.integers(1, 4),
    data=st.sampled_from([b"", b"", b"\0", b"\xff" * 256, bytes(257)]),
)
GENESIS = Genesis(
    RULES.chain_id, 0, RULES.gas_price, 6 * TRANSFER_GAS, {address(sender): 3 * 10**6 for sender in (1, 2, 3)}
)


class GenesisState:
    def account(self, address: Address) -> Account:
        return Account(GENESIS.alloc.get(address, 0))


def applies(txs: Sequence[Tx]) -> bool:
    start = genesis_outcome(GENESIS)
    header, first_hash = start.block.header, start.block.hash
    try:
        build_block(header, first_hash, MemoryState(start), txs, 1, address(4), GENESIS.rules)
    except InvalidBlock:
        return False
    return True


@given(st.lists(TRANSFERS, max_size=12))
def test_a_proposed_or_sifted_block_can_be_applied(txs: list[Tx]) -> None:
    raws = list(map(raw_of, txs))
    by_raw: dict[bytes, Tx] = dict(zip(raws, txs, strict=True))
    chosen = opened(propose(raws, txs, GenesisState(), GENESIS.rules, PLENTY_BYTES, apply_update))
    assert applies([by_raw[raw] for raw in chosen])
    # What makes a block as it is offered is what would be chosen.
    offered = read_offer(raws, txs, GENESIS.rules, PLENTY_BYTES)
    if offered is not None and applies(offered):
        assert list(map(raw_of, offered)) == chosen
    content = sift(txs, GenesisState(), GENESIS.rules, apply_update)
    assert applies(content.txs)
    # A block is acceptable exactly when nothing of it would be left out.
    assert applies(txs) == (len(content.txs) == len(txs))


@given(st.lists(st.lists(TRANSFERS, min_size=2, max_size=4, unique_by=raw_of), max_size=4))
def test_a_proposal_does_not_depend_on_how_transfers_are_bundled(groups: list[list[Tx]]) -> None:
    txs = [tx for group in groups for tx in group]
    bundles: list[Parsed] = [bundle_of(*group) for group in groups]
    assert read_strictly(bundles, apply_update)[0] == txs
    state, rules = GenesisState(), GENESIS.rules
    assert sift(bundles, state, rules, apply_update).txs == sift(txs, state, rules, apply_update).txs
    batches = [encode_bundle(list(map(raw_of, group))) for group in groups]
    offered = read_offer(list(map(raw_of, txs)), txs, rules, PLENTY_BYTES)
    assert read_offer(batches, bundles, rules, PLENTY_BYTES) == offered
    chosen = propose(list(map(raw_of, txs)), txs, state, rules, PLENTY_BYTES, apply_update)
    assert propose(batches, bundles, state, rules, PLENTY_BYTES, apply_update) == chosen


@given(st.lists(TRANSFERS, max_size=12))
def test_every_sender_with_a_valid_transaction_is_proposed(txs: list[Tx]) -> None:
    raws = list(map(raw_of, txs))
    chosen = set(opened(propose(raws, txs, GenesisState(), GENESIS.rules, PLENTY_BYTES, apply_update)))
    served = {tx.sender for tx in txs if raw_of(tx) in chosen}
    used, longest = sum(gas_of(tx.data) for tx in txs if raw_of(tx) in chosen), gas_of(b"\xff" * 257)
    for tx in txs:
        if tx.sender not in served and used + longest <= GENESIS.block_gas_limit:
            with pytest.raises(TxRejected):
                Ledger(GenesisState(), GENESIS.rules).apply(tx)
