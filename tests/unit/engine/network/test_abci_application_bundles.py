"""The application where transfers come in bundles: in CometBFT's mempool and in its blocks."""

from typing import Any

import msgspec
import pytest

from cairn.domain.crypto import address_of_key
from cairn.domain.errors import Fatal, GasPriceTooLow, InsufficientFunds, InvalidSignature, NodeError, NonceTooHigh
from cairn.domain.transactions import encode_tx, sign_draft
from cairn.domain.transition import BlockOutcome
from cairn.domain.types import DYNAMIC_FEE, TRANSFER_GAS, ZERO_ADDRESS, Draft
from cairn.engine.abci import requests as m
from cairn.engine.application import Application
from cairn.engine.network.bundle import encode_bundle
from tests.support.abci_node import FEES, SECOND, Node, bundle, raw, settle, update
from tests.support.core_fixtures import ACCOUNTS, CHAIN_ID, GWEI, MIXED_PRICES, signed, signed_of_each_type

POOR = [bytes([number + 1]) * 32 for number in range(3)]


def draft_of_poor(number: int) -> Draft:
    sender = address_of_key(POOR[number])
    return Draft(sender=sender, to=ACCOUNTS[0], value=1, gas=TRANSFER_GAS, gas_price=GWEI, nonce=0)


def test_the_transfers_of_a_bundle_are_pending_and_the_bundle_is_proposed_unchanged(node: Node) -> None:
    assert node.check(bundle(0, 1, 2)).code == 0
    assert node.pending_count() == 3
    assert node.prepare([bundle(0, 1, 2)]) == [bundle(0, 1, 2)]


def test_a_bundled_transfer_whose_nonce_a_block_used_is_dropped(node: Node) -> None:
    node.check(bundle(0, 1))
    node.finalize([raw(0, value=99)])
    node.app.commit()
    assert node.events.drops == [(signed(0).hash, "nonce used")]
    assert node.pool.drops.get(signed(0).hash) == "nonce used"
    assert node.events.shown_before == [{signed(0).hash, signed(1).hash}]
    assert [entry.tx for entry in node.pool.page(10).entries] == [signed(1)]


def test_a_bundle_stays_while_one_in_it_can_be_mined(node: Node) -> None:
    node.check(bundle(0, 1))
    node.finalize([raw(0)])
    node.app.commit()
    assert node.check(bundle(0, 1), recheck=True).code == 0
    node.finalize([raw(1)])
    node.app.commit()
    refused = node.check(bundle(0, 1), recheck=True)
    assert (refused.code, refused.log) == (7, "its transactions have had their turn, or come with others")


def test_a_valid_transfer_makes_only_one_bundle_acceptable(node: Node) -> None:
    assert node.check(encode_bundle([raw(0), raw(1)])).code == 0
    again = node.check(encode_bundle([raw(1), raw(0)]))
    assert (again.code, again.log) == (NodeError.abci_code, "it brings nothing new")
    # Behind it nothing else comes in.
    poor = [encode_tx(sign_draft(draft_of_poor(number), POOR[number], CHAIN_ID), CHAIN_ID) for number in range(3)]
    assert node.check(encode_bundle([raw(0), *poor])).code == InsufficientFunds.abci_code


def test_a_bundle_of_mostly_rubbish_is_refused_and_has_no_effect(node: Node) -> None:
    mostly = encode_bundle([raw(0), raw(7), raw(8)])
    assert node.check(mostly).code == 8
    assert node.pending_count() == 0
    # As much that can be mined as what cannot: honest nodes may see things differently for a moment.
    assert node.check(encode_bundle([raw(0), raw(7)])).code == 0
    assert node.pending_count() == 1


def test_a_bundle_behind_a_gap_is_refused(node: Node) -> None:
    assert node.check(bundle(1, 2)).code == 8
    assert node.pending_count() == 0


def test_local_transfers_of_a_refused_bundle_are_returned(node: Node) -> None:
    for nonce in (0, 7, 8):
        node.pool.admit(signed(nonce), 0)
    assert node.check(encode_bundle([raw(0), raw(7), raw(8)])).code == 8
    assert node.returned() == [signed(0), signed(7), signed(8)]
    assert len(node.pool.order.entries) == 3


def test_a_bundle_with_another_chains_transaction_is_refused_whole(node: Node) -> None:
    foreign = encode_tx(signed(1), CHAIN_ID + 1)
    assert node.check(encode_bundle([raw(0), foreign])).code == InvalidSignature.abci_code
    assert node.pool.find(signed(0).hash) is None


def test_a_forged_transfer_in_a_bundle_is_left_out(node: Node) -> None:
    """Another signature is another sender's, who has no money."""
    forged = bytearray(raw(1))
    forged[-1] ^= 1
    assert node.check(encode_bundle([raw(0), bytes(forged)])).code == 0
    assert node.pending_count() == 1
    assert node.prepare([encode_bundle([raw(0), bytes(forged)])]) == [raw(0)]


def test_a_bundle_with_a_stale_transfer_is_sent_again(node: Node) -> None:
    for nonce in (0, 1):
        node.pool.admit(signed(nonce), 0)
    node.check(bundle(0, 1))
    node.finalize([])
    node.app.commit()
    node.events.stale.add(signed(1).hash)
    assert node.check(bundle(0, 1), recheck=True).code == NodeError.abci_code
    assert node.returned() == [signed(0), signed(1)]
    # It comes back, and is taken as if it were new.
    node.events.stale.clear()
    assert node.check(bundle(0, 1)).code == 0
    # What was mined meanwhile does not.
    node.finalize([raw(0)])
    node.app.commit()
    node.events.stale.add(signed(1).hash)
    assert node.check(bundle(0, 1), recheck=True).code == NodeError.abci_code
    assert node.returned() == [signed(1)]


@pytest.mark.parametrize("is_judged", [True, False])
def test_a_block_holds_what_is_in_its_bundles(node: Node, is_judged: bool) -> None:
    items = [bundle(0, 1), raw(0, sender=1), update(0, SECOND, 0, 1)]
    for item in items:
        node.check(item)
    if is_judged:
        assert node.process(items)
    gas = [2 * TRANSFER_GAS, TRANSFER_GAS, 0]
    results = node.finalize(items).tx_results
    assert [(result.code, result.gas_wanted, result.gas_used) for result in results] == [
        (0, used, used) for used in gas
    ]
    node.app.commit()
    assert node.mined(1) == [signed(0), signed(1), signed(0, sender=1)]
    assert node.pending_count() == 0


def test_gas_in_results_counts_the_data_of_each_transfer(node: Node) -> None:
    txs = [signed(0, data=b"invoice"), signed(1), signed(0, sender=1, data=bytes(256))]
    first, second, third = (encode_tx(tx, CHAIN_ID) for tx in txs)
    items = [encode_bundle([first, second]), third]
    assert [node.check(item).code for item in items] == [0, 0]
    assert node.prepare(items) == items
    assert node.process(items)
    results = node.finalize(items).tx_results
    gas = [21_000 + 7 * 16 + 21_000, 21_000 + 256 * 4]
    assert [(result.gas_wanted, result.gas_used) for result in results] == [(used, used) for used in gas]
    node.app.commit()
    assert node.mined(1) == txs


def test_a_bundle_of_every_type_is_listed_proposed_and_mined(node: Node) -> None:
    txs = signed_of_each_type()
    item = encode_bundle([encode_tx(tx, CHAIN_ID) for tx in txs])
    sender, fees = node.chain.account(ACCOUNTS[0]).balance, node.chain.account(FEES).balance
    assert node.check(item).code == 0
    assert [entry.tx for entry in node.pool.page(10).entries] == txs
    assert node.prepare([item]) == [item]
    assert node.process([item])
    assert node.finalize([item]).tx_results[0].gas_used == 4 * TRANSFER_GAS
    node.app.commit()
    assert node.mined(1) == txs
    paid = TRANSFER_GAS * sum(MIXED_PRICES)
    assert node.chain.account(ACCOUNTS[0]).balance == sender - 4 - paid
    assert node.chain.account(FEES).balance == fees + paid


def test_a_cap_below_the_base_fee_is_in_no_block(node: Node) -> None:
    """Its tip does not make up for that."""
    low = raw(1, gas_price=GWEI - 1, kind=DYNAMIC_FEE, max_fee=GWEI - 1, max_tip=GWEI - 1)
    item = encode_bundle([raw(0), low, raw(0, sender=1)])
    assert node.prepare([item]) == [encode_bundle([raw(0), raw(0, sender=1)])]
    assert not node.process([item])
    assert node.finalize([item]).tx_results[0].code == GasPriceTooLow.abci_code
    node.app.commit()
    assert node.mined(1) == [signed(0), signed(0, sender=1)]


def test_a_block_is_refused_for_any_in_a_bundle_and_if_decided_holds_the_others(node: Node) -> None:
    items = [encode_bundle([raw(0), raw(2), raw(0, sender=1)])]
    assert not node.process(items)
    assert node.finalize(items).tx_results[0].code == NonceTooHigh.abci_code
    node.app.commit()
    assert node.mined(1) == [signed(0), signed(0, sender=1)]
    # One that cannot be read at all has nothing to give.
    assert not node.process([bundle(1, 2)[:-1]])
    assert node.finalize([bundle(1, 2)[:-1]]).tx_results[0].code != 0
    node.app.commit()
    assert node.mined(2) == []


def test_a_proposal_of_ours_is_computed_once(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    built = 0
    build = Application.build

    def counted(self: Application, *args: Any) -> BlockOutcome:
        nonlocal built
        built += 1
        return build(self, *args)

    monkeypatch.setattr(Application, "build", counted)
    items = node.prepare([bundle(0, 1)])
    assert node.process(items, time_s=1)
    node.finalize(items, time_s=1)
    assert (built, node.events.decided_upon) == (1, 1)
    # Another time makes another block, and so does another proposer, who gets the fees.
    node.finalize(items, time_s=2)
    assert built == 2
    assert node.process(items, time_s=3)
    by_another = msgspec.structs.replace(node.block(m.FinalizeBlockRequest, items, 3), proposer_address=bytes(20))
    settle(lambda: node.app.finalize_block(by_another))
    assert built == 4
    node.app.commit()
    assert node.chain.head_header.proposer == ZERO_ADDRESS


def test_a_proposal_out_of_step_is_refused_even_if_it_is_known(node: Node) -> None:
    items = node.prepare([bundle(0, 1)])
    with pytest.raises(Fatal, match="CometBFT is at block 5, but the store ends at 0"):
        settle(lambda: node.app.process_proposal(node.block(m.ProcessProposalRequest, items, 1, height=5)))


def test_only_the_transfers_of_a_bundle_that_became_invalid_are_dropped(node: Node) -> None:
    """CometBFT's mempool lost what the first two follow."""
    together = encode_bundle([raw(1), raw(2), raw(0, sender=1)])
    for item in (raw(0), together):
        assert node.check(item).code == 0
    node.finalize([])
    node.app.commit()
    assert node.check(together, recheck=True).code == 0
    assert node.returned() == [signed(1), signed(2)]


def test_where_prices_differ_the_best_come_first_in_one_bundle(node: Node) -> None:
    dear = raw(0, sender=1, gas_price=2 * GWEI)
    assert node.prepare([bundle(0, 1), dear]) == [encode_bundle([dear, raw(0), raw(1)])]
    assert node.process(node.prepare([bundle(0, 1), dear]))


def test_a_bundle_whose_transfers_came_with_others_leaves_cometbft(node: Node) -> None:
    for item in (bundle(0, 1), raw(2)):
        node.check(item)
    node.finalize([])
    node.app.commit()
    assert [node.check(raw(nonce), recheck=True).code for nonce in (0, 1)] == [0, 0]
    assert node.check(bundle(0, 1), recheck=True).code == 7
    assert node.returned() == []
    assert node.check(raw(2), recheck=True).code == 0
