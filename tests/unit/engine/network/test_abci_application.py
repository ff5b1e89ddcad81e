"""The application under the calls of CometBFT."""

import asyncio
import json
from collections.abc import Awaitable
from pathlib import Path

import msgspec
import pytest

from cairn.domain.errors import AnotherVersionNeeded, Fatal, NodeError, UpdateRefused, WrongGenesis
from cairn.domain.genesis import dev_genesis, encode_genesis, genesis_digest
from cairn.domain.governance import decode_governance
from cairn.domain.rules import RULES_VERSION
from cairn.domain.types import TRANSFER_GAS, ZERO_ADDRESS
from cairn.engine.abci import requests as m
from cairn.engine.network.bundle import encode_bundle
from tests.support.abci_node import (
    FEES,
    FIRST_GOVERNANCE,
    GENESIS,
    SECOND,
    VALIDATOR,
    Node,
    bundle,
    raw,
    settle,
    update,
)
from tests.support.audit import audit
from tests.support.core_fixtures import ACCOUNTS, GWEI, signed


def init(app_state: bytes, **changes: object) -> m.InitChainRequest:
    validators = (m.ValidatorPower(VALIDATOR.public_key, VALIDATOR.power),)
    request = m.InitChainRequest(validators, app_state, 1, RULES_VERSION)
    return msgspec.structs.replace(request, **changes)


# The start.


def test_info_tells_what_is_committed(node: Node) -> None:
    assert node.app.info().last_block_height == 0
    node.finalize([raw(0)])
    assert node.app.info().last_block_height == 0
    node.app.commit()
    info = node.app.info()
    assert (info.last_block_height, info.last_block_app_hash) == (1, node.chain.head_hash)
    assert info.app_version == RULES_VERSION


def test_the_chain_starts_with_the_hash_of_its_genesis_block(node: Node) -> None:
    assert node.app.init_chain(init(encode_genesis(GENESIS))) == node.chain.head_hash
    digest = json.dumps("0x" + genesis_digest(GENESIS).hex()).encode()
    assert node.app.init_chain(init(digest)) == node.chain.head_hash


def test_a_genesis_may_leave_out_the_version_of_the_rules_but_not_name_another(node: Node) -> None:
    assert node.app.init_chain(init(encode_genesis(GENESIS), app_version=0)) == node.chain.head_hash
    with pytest.raises(AnotherVersionNeeded, match=f"begun with rules of version {RULES_VERSION + 1}"):
        node.app.init_chain(init(encode_genesis(GENESIS), app_version=RULES_VERSION + 1))


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (init(b""), "app_state in CometBFT's genesis is not the chain's genesis"),
        (init(b"{}"), "app_state in CometBFT's genesis is not the chain's genesis: chainId: missing"),
        (init(encode_genesis(dev_genesis())), "app_state in CometBFT's genesis is of genesis 0x[0-9a-f]{64}, not 0x"),
        (init(encode_genesis(GENESIS), initial_height=7), "initial_height in CometBFT's genesis is 7, not 1"),
        (init(encode_genesis(GENESIS), validators=()), "the validators in CometBFT's genesis are not those"),
    ],
)
def test_another_genesis_is_refused(node: Node, request_: m.InitChainRequest, message: str) -> None:
    with pytest.raises(WrongGenesis, match=message):
        node.app.init_chain(request_)


def test_a_cometbft_that_lost_its_blocks_is_refused(node: Node) -> None:
    node.finalize([])
    node.app.commit()
    with pytest.raises(Fatal, match="CometBFT starts a new chain, but the store is at block 1"):
        node.app.init_chain(init(encode_genesis(GENESIS)))


def test_a_block_out_of_step_is_refused(node: Node) -> None:
    with pytest.raises(Fatal, match="CometBFT is at block 5, but the store ends at 0"):
        settle(lambda: node.app.finalize_block(node.block(m.FinalizeBlockRequest, [], 2e9, height=5)))


def test_governance_and_snapshots_can_be_asked_for(node: Node) -> None:
    assert node.app.query("snapshots").value == b"[]"
    answer = node.app.query("governance")
    assert decode_governance(answer.value) == node.chain.governance
    assert node.app.query("balances").code == NodeError.abci_code


# The mempool.


def test_a_checked_transaction_is_pending_but_not_local(node: Node) -> None:
    assert node.check(raw(0)).code == 0
    entry = node.pool.find(signed(0).hash)
    assert entry is not None
    assert (entry.local, entry.received_at) == (False, 1_000)


def test_a_local_transaction_stays_local_after_its_check(node: Node) -> None:
    node.pool.admit(signed(0), 5)
    assert node.check(raw(0)).code == 0
    entry = node.pool.find(signed(0).hash)
    assert entry is not None
    assert entry.local


def test_nonces_count_up_within_the_mempool(node: Node) -> None:
    assert [node.check(raw(nonce)).code for nonce in (0, 1, 2)] == [0, 0, 0]
    refused = node.check(raw(4))
    assert (refused.code, refused.log) == (8, "nonce is 4; the sender's next one is 3")
    assert node.pool.find(signed(4).hash) is None
    assert node.check(raw(1)).code == 0


def test_order_is_kept_while_senders_are_recovered(node: Node) -> None:
    async def check_all() -> list[m.TxResult]:
        answers = [node.app.check_tx(m.CheckTxRequest(raw(nonce), False)) for nonce in range(200)]
        # Known already, but it must not overtake those before it.
        node.parsed_txs.remember(raw(200), signed(200))
        answers.append(node.app.check_tx(m.CheckTxRequest(raw(200), False)))
        return [await answer if isinstance(answer, Awaitable) else answer for answer in answers]

    assert {result.code for result in asyncio.run(check_all())} == {0}
    assert node.pending_count() == 201


def test_checks_of_a_lost_connection_have_no_effect(node: Node) -> None:
    async def scenario() -> None:
        lost = asyncio.ensure_future(_awaitable(node.app.check_tx(m.CheckTxRequest(raw(0), False))))
        kept = _awaitable(node.app.check_tx(m.CheckTxRequest(raw(0, sender=1), False)))
        lost.cancel()
        assert (await kept).code == 0

    asyncio.run(scenario())
    assert node.pool.find(signed(0).hash) is None


def _awaitable(answer: m.TxResult | Awaitable[m.TxResult]) -> "asyncio.Future[m.TxResult]":
    assert isinstance(answer, asyncio.Future)
    return answer


def test_a_good_proposal_is_told_and_a_bad_one_is_not(node: Node) -> None:
    assert not node.process([raw(3)])
    assert node.events.decided_upon == 0
    assert node.process([raw(0)])
    assert node.events.decided_upon == 1


def test_after_a_commit_the_rest_is_checked_again(node: Node) -> None:
    for nonce in range(3):
        node.check(raw(nonce))
    node.finalize([raw(0)])
    node.app.commit()
    assert [node.check(raw(nonce), recheck=True).code for nonce in (1, 2)] == [0, 0]
    assert node.check(raw(3)).code == 0


def test_a_nonce_that_a_block_used_makes_others_void(node: Node) -> None:
    for nonce in (0, 1):
        node.check(raw(nonce))
    node.finalize([raw(0, value=2)])
    node.app.commit()
    assert node.events.drops == [(signed(0).hash, "nonce used")]
    assert node.check(raw(0), recheck=True).code == 7
    assert node.check(raw(1), recheck=True).code == 0


def test_a_transaction_refused_for_a_high_nonce_stays_in_the_mempool(node: Node) -> None:
    for nonce in (0, 1):
        node.check(raw(nonce))
    node.finalize([])
    node.app.commit()
    # CometBFT's mempool lost the first one.
    assert node.check(raw(1), recheck=True).code == 8
    assert node.returned() == [signed(1)]
    assert node.pool.find(signed(1).hash) is not None


def test_a_stale_transaction_leaves_cometbft_but_not_the_mempool(node: Node) -> None:
    for nonce in (0, 1):
        node.pool.admit(signed(nonce), 0)
        node.check(raw(nonce))
    node.events.stale.add(signed(0).hash)
    assert node.check(raw(0)).code == 0
    node.finalize([])
    node.app.commit()
    assert [node.check(raw(nonce), recheck=True).code for nonce in (0, 1)] == [NodeError.abci_code, 8]
    assert node.returned() == [signed(0), signed(1)]
    assert node.pending_count() == 2
    assert [node.check(raw(nonce)).code for nonce in (0, 1)] == [0, 0]


def test_replacements_need_a_tenth_more(node: Node) -> None:
    node.check(raw(0))
    assert node.check(raw(0, value=5)).code == 10
    assert node.check(raw(0, gas_price=2 * GWEI)).code == 0
    assert node.events.drops == [(signed(0).hash, "replaced")]


def test_rubbish_is_refused(node: Node) -> None:
    assert node.check(b"").code == 2
    assert node.check(b"\x81rubbish").code == 2
    assert node.check(raw(0, gas_price=GWEI - 1)).code == 6
    forged = bytearray(raw(0))
    forged[-1] ^= 1
    # The signature of somebody without money.
    assert node.check(bytes(forged)).code != 0


# Blocks.


def test_a_proposal_of_ours_is_acceptable_and_applies(node: Node) -> None:
    raws = [raw(1), raw(0), raw(7), b"rubbish", raw(0, sender=1, gas_price=2 * GWEI)]
    chosen = node.prepare(raws)
    assert chosen == [encode_bundle([raws[4], raws[1], raws[0]])]
    assert node.process(chosen)
    answer = node.finalize(chosen)
    assert [(result.code, result.gas_used) for result in answer.tx_results] == [(0, 3 * TRANSFER_GAS)]
    assert node.app.commit() == 0
    assert (node.heard, node.events.committed_heights) == ([1], [1])
    head = node.chain.head_header
    assert (head.timestamp, head.proposer, answer.app_hash) == (2_000_000_000, FEES, node.chain.head_hash)
    audit(node.chain)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param([raw(1)], id="nonce ahead"),
        pytest.param([raw(0), raw(0)], id="twice"),
        pytest.param([raw(0, value=10**23)], id="overspent"),
        pytest.param([raw(0, gas_price=1)], id="price too low"),
        pytest.param([b"rubbish"], id="rubbish"),
        pytest.param([bundle(0, 1), raw(1)], id="twice, once in a bundle"),
        pytest.param([bundle(0, 1), encode_bundle([raw(1), raw(2)])], id="in two bundles"),
        pytest.param([bundle(0)], id="a bundle of one"),
        pytest.param([bundle(0, 1)[:-1]], id="a bundle cut short"),
        pytest.param([encode_bundle([raw(0), b"rubbish"])], id="rubbish in a bundle"),
        pytest.param([encode_bundle([bundle(0, 1), raw(2)])], id="a bundle in a bundle"),
        pytest.param([encode_bundle([raw(0), update(0, SECOND, 0, 1)])], id="an update in a bundle"),
        pytest.param([b""], id="empty"),
        pytest.param([update(0, SECOND, 0)], id="too few signatures"),
        pytest.param([update(0, SECOND, 0, 1), update(0, SECOND, 1, 2)], id="two updates"),
    ],
)
def test_a_proposal_that_breaks_a_rule_is_refused(node: Node, bad: list[bytes]) -> None:
    assert not node.process([*bad, raw(0, sender=3)])
    assert node.process([raw(0, sender=3)])


def test_a_block_above_the_gas_limit_is_refused(tmp_path: Path) -> None:
    node = Node(tmp_path / "small", msgspec.structs.replace(GENESIS, block_gas_limit=2 * TRANSFER_GAS))
    assert node.process([raw(0), raw(1)])
    assert not node.process([raw(0), raw(1), raw(2)])
    node.close()


def test_a_decided_block_is_applied_without_invalid_transactions(node: Node) -> None:
    decided = [b"rubbish", raw(0), raw(0), raw(5), raw(1), update(0, SECOND, 0)]
    answer = node.finalize(decided)
    codes = [result.code for result in answer.tx_results]
    assert codes == [2, 0, 7, 8, 0, UpdateRefused.abci_code]
    node.app.commit()
    assert node.chain.account(ACCOUNTS[0]).nonce == 2
    assert not answer.validator_updates


def test_a_judged_block_and_one_never_seen_before_come_out_alike(tmp_path: Path, node: Node) -> None:
    late = Node(tmp_path / "late")
    for height, raws in enumerate([[raw(0)], [], [raw(1), update(0, SECOND, 0, 2)], [raw(2)]]):
        assert node.process([raw(0, sender=4)])
        assert node.process(raws, time_s=2e9 + height)
        answers = [each.finalize(raws, time_s=2e9 + height) for each in (node, late)]
        assert answers[0] == answers[1]
        for each in (node, late):
            each.app.commit()
        assert node.chain.head_hash == late.chain.head_hash
        assert node.app.info().last_block_app_hash == answers[0].app_hash
    late.close()


def test_finalizing_writes_nothing_and_may_be_repeated(node: Node) -> None:
    first = node.finalize([raw(0)])
    assert node.chain.head_header.height == 0
    assert node.finalize([raw(0)]) == first
    other = node.finalize([raw(0, sender=1)])
    node.app.commit()
    assert node.chain.head_hash == other.app_hash


def test_an_empty_block_leaves_the_app_hash(node: Node) -> None:
    genesis_hash = node.chain.head_hash
    assert node.finalize([]).app_hash == genesis_hash
    node.app.commit()
    assert node.chain.head_hash != genesis_hash
    assert node.app.info().last_block_app_hash == genesis_hash
    changed = node.finalize([raw(0)], time_s=2e9 + 1).app_hash
    node.app.commit()
    assert changed == node.chain.head_hash
    assert node.finalize([], time_s=2e9 + 2).app_hash == changed


def test_time_never_runs_back_and_strangers_earn_nothing(node: Node) -> None:
    node.finalize([raw(0)], time_s=1.9e9 + 0.999)
    node.app.commit()
    assert node.chain.head_header.timestamp == 1_900_000_000
    request = msgspec.structs.replace(
        node.block(m.FinalizeBlockRequest, [raw(1)], 1.8e9), proposer_address=SECOND.engine_address
    )
    settle(lambda: node.app.finalize_block(request))
    node.app.commit()
    assert node.chain.head_header.timestamp == 1_900_000_000
    assert node.chain.head_header.proposer == ZERO_ADDRESS


def test_the_state_counts_changes_of_powers_and_names_the_block_of_the_newest(node: Node) -> None:
    seen = []
    governance = FIRST_GOVERNANCE
    elsewhere = msgspec.structs.replace(SECOND, fee_recipient=ACCOUNTS[7])
    for wanted in (None, SECOND, elsewhere, None, msgspec.structs.replace(elsewhere, power=11)):
        raws = [] if wanted is None else [update(governance.sequence, wanted, 0, 1, governance=governance)]
        node.finalize(raws)
        node.app.commit()
        assert node.chain.governance is not None
        governance = node.chain.governance
        seen.append((governance.set_changes, governance.set_changed_at))
    assert seen == [(0, 0), (1, 2), (1, 2), (1, 2), (2, 5)]


def test_administrators_change_the_validators(node: Node) -> None:
    added = update(0, SECOND, 0, 1)
    assert node.check(added).code == 0
    assert node.prepare([added]) == [added]
    assert node.process([added])
    answer = node.finalize([added])
    assert answer.validator_updates == [m.ValidatorPower(SECOND.public_key, 10)]
    node.app.commit()
    assert answer.app_hash == node.chain.head_hash
    assert node.check(added, recheck=True).code != 0
    assert node.chain.governance is not None
    removed = update(1, msgspec.structs.replace(VALIDATOR, power=0), 1, 2, governance=node.chain.governance)
    answer = node.finalize([removed])
    assert answer.validator_updates == [m.ValidatorPower(VALIDATOR.public_key, 0)]
    node.app.commit()
    assert node.chain.governance is not None
    assert node.chain.governance.validators == (SECOND,)
    audit(node.chain)


def test_a_removed_validator_is_paid_for_the_block_that_it_still_proposes(node: Node) -> None:
    """CometBFT lets go of it two blocks after the update, and nothing is burnt."""
    for sequence, wanted in enumerate((SECOND, msgspec.structs.replace(VALIDATOR, power=0))):
        assert node.chain.governance is not None
        node.finalize([update(sequence, wanted, 0, 1, governance=node.chain.governance)])
        node.app.commit()
    before = node.chain.account(FEES).balance
    node.finalize([raw(0)])
    node.app.commit()
    assert node.chain.head_header.proposer == VALIDATOR.fee_recipient
    assert node.chain.account(FEES).balance == before + TRANSFER_GAS * GENESIS.gas_price
    audit(node.chain)


def test_one_validator_update_waits_for_its_block_at_a_time(node: Node) -> None:
    first = update(0, SECOND, 0, 1)
    other = update(0, msgspec.structs.replace(VALIDATOR, power=20), 0, 1)
    codes = [node.check(each).code for each in (first, first, other)]
    assert codes == [0, 0, UpdateRefused.abci_code]
    node.finalize([])
    node.app.commit()
    assert node.check(other).code == 0


def test_a_chain_without_administrators_has_fixed_validators(tmp_path: Path) -> None:
    node = Node(tmp_path / "fixed", msgspec.structs.replace(dev_genesis(), signer=None))
    assert node.check(update(0, SECOND, 0, 1)).code == 13
    assert node.finalize([raw(0)]).tx_results[0].code == 0
    node.app.commit()
    assert node.chain.head_header.proposer == ZERO_ADDRESS
    node.close()


def test_votes_carry_nothing_of_ours(node: Node) -> None:
    assert node.app.extend_vote() == b""
    assert node.app.verify_vote_extension(b"")
    assert not node.app.verify_vote_extension(b"x")


def test_without_snapshots_none_are_given_or_taken(node: Node) -> None:
    offer = m.OfferSnapshotRequest(m.Snapshot(1, 1, 1, b""), b"")
    assert node.app.list_snapshots() == []
    offered = asyncio.run(node.app.offer_snapshot(offer))
    assert offered is m.OfferSnapshotResult.REJECT_FORMAT
    assert node.app.load_snapshot_chunk(m.LoadSnapshotChunkRequest(1, 1, 0)) == b""
    applied = asyncio.run(node.app.apply_snapshot_chunk(m.ApplySnapshotChunkRequest(0, b"", "")))
    assert applied.result is m.ApplySnapshotChunkResult.RETRY_SNAPSHOT
