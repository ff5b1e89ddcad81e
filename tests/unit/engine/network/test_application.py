"""The application under the calls of CometBFT, on a real chain, with real signatures."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from cairn.domain.codec import decode_record, encode_tx
from cairn.domain.crypto import address_of_key
from cairn.domain.errors import Fatal, InsufficientFunds, InvalidSignature, NonceTooHigh, UpdateRefused, WrongGenesis
from cairn.domain.genesis import Genesis, dev_genesis, encode_genesis, genesis_digest
from cairn.domain.governance import Admins, Validator, ValidatorUpdate, decode_governance, encode_update, sign_update
from cairn.domain.transition import BlockOutcome
from cairn.domain.txs import sign_draft
from cairn.domain.types import TRANSFER_GAS, ZERO_ADDRESS, Draft, DropReason, Tx, TxHash
from cairn.engine.abci import messages as m
from cairn.engine.application import Application
from cairn.engine.network.application import APP_VERSION, NetworkApplication
from cairn.engine.network.bundle import encode_bundle
from cairn.engine.network.codes import REFUSED, code_of
from cairn.engine.network.overlay import Overlay
from cairn.engine.network.senders import Senders
from cairn.feed.feed import Feed
from cairn.mempool.policy import PoolLimits
from cairn.mempool.pool import Mempool
from cairn.store.chain import ChainStore
from tests.support.core_fixtures import ACCOUNTS, CHAIN_ID, GWEI, KEYS, signed

NS = 1_000_000_000
FEES = ACCOUNTS[9]
VALIDATOR = Validator(b"\x07" * 32, 10, FEES, "first")
SECOND = Validator(b"\x08" * 32, 10, ACCOUNTS[8], "second")
GENESIS = msgspec.structs.replace(
    dev_genesis(), validators=(VALIDATOR,), admins=Admins(2, (ACCOUNTS[0], ACCOUNTS[1], ACCOUNTS[2]))
)
_T = TypeVar("_T")


class Recorder:
    """Does on a commit what the core does, and notes the rest."""

    def __init__(self, pool: Mempool) -> None:
        self._pool = pool
        self.committed_heights: list[int] = []
        self.drops: list[tuple[TxHash, DropReason]] = []
        self.refusals: list[Tx] = []
        self.stale: set[TxHash] = set()
        self.decided_upon = 0
        self.is_watched = False
        """Whether somebody wants to know of all that is pending."""
        self.shown_before: list[set[TxHash]] = []
        """What was pending before each commit."""

    def deciding(self) -> None:
        self.decided_upon += 1

    def committing(self) -> None:
        self.shown_before.append(
            {entry.tx.hash for entry in self._pool.page(1_000).entries} if self.is_watched else set()
        )

    def committed(self, outcome: BlockOutcome) -> int:
        self.committed_heights.append(outcome.block.header.height)
        self.drops += self._pool.confirm(outcome.block.txs)
        return 0

    def dropped(self, drops: Sequence[tuple[TxHash, DropReason]]) -> None:
        self.drops += drops

    def refused(self, tx: Tx) -> None:
        self.refusals.append(tx)

    def must_go_round_again(self, tx: Tx) -> bool:
        return tx.hash in self.stale


class Node:
    def __init__(self, directory: Path, genesis: Genesis = GENESIS) -> None:
        self.chain = ChainStore.open(directory, genesis)
        self.pool = Mempool(genesis.rules, PoolLimits(), self.chain)
        self.senders = Senders(genesis.chain_id)
        self.events = Recorder(self.pool)
        self.heard: list[int] = []
        feed = Feed()
        feed.subscribe(self.heard.append)
        self.app = NetworkApplication(
            Application(self.chain, feed),
            self.chain,
            self.pool,
            Overlay(self.chain, 10),
            self.senders,
            self.events,
            lambda: 1_000.0,
        )

    def close(self) -> None:
        self.app.close()
        self.chain.close()

    def check(self, raw: bytes, recheck: bool = False) -> m.TxResult:
        return settle(lambda: self.app.check_tx(m.CheckTxRequest(raw, recheck)))

    def prepare(self, raws: Sequence[bytes], max_tx_bytes: int = 10**6) -> Sequence[bytes]:
        request = m.PrepareProposalRequest(max_tx_bytes, raws, (), self.next_height, NS, b"", VALIDATOR.engine_address)
        return settle(lambda: self.app.prepare_proposal(request))

    def process(self, raws: Sequence[bytes], time_s: float = 2e9) -> bool:
        return settle(lambda: self.app.process_proposal(self.block(m.ProcessProposalRequest, raws, time_s)))

    def finalize(self, raws: Sequence[bytes], time_s: float = 2e9) -> m.FinalizeBlockResponse:
        return settle(lambda: self.app.finalize_block(self.block(m.FinalizeBlockRequest, raws, time_s)))

    def block(self, kind: Callable[..., _T], raws: Sequence[bytes], time_s: float, height: int | None = None) -> _T:
        return kind(
            txs=raws,
            misbehavior=(),
            hash=b"",
            height=self.next_height if height is None else height,
            time_ns=int(time_s * NS),
            next_validators_hash=b"",
            proposer_address=VALIDATOR.engine_address,
        )

    def mined(self, height: int) -> list[Tx]:
        return [decode_record(record) for record in self.chain.records(height)]

    @property
    def next_height(self) -> int:
        return self.chain.head_header.height + 1


def settle(call: Callable[[], _T | Awaitable[_T]]) -> _T:
    async def answer() -> _T:
        result = call()
        return await result if isinstance(result, Awaitable) else result

    return asyncio.run(answer())


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path / "data")
    yield made
    made.close()


def raw(nonce: int, **fields: int) -> bytes:
    return encode_tx(signed(nonce, **fields), CHAIN_ID)


def update(sequence: int, validator: Validator, *signers: int) -> bytes:
    keys = [KEYS[ACCOUNTS[signer]] for signer in signers]
    return encode_update(sign_update(ValidatorUpdate(sequence, validator), keys, CHAIN_ID))


def init(app_state: bytes, **changes: object) -> m.InitChainRequest:
    validators = (m.ValidatorUpdate(VALIDATOR.public_key, VALIDATOR.power),)
    request = m.InitChainRequest(0, "cairn-1337", m.ConsensusParams(), validators, app_state, 1)
    return msgspec.structs.replace(request, **changes)


INFO = m.InfoRequest("0.38.25", 11, 8, "2.0.0")


# The start.


def test_info_tells_what_is_committed(node: Node) -> None:
    assert node.app.info(INFO).last_block_height == 0
    node.finalize([raw(0)])
    assert node.app.info(INFO).last_block_height == 0
    node.app.commit()
    info = node.app.info(INFO)
    assert (info.last_block_height, info.last_block_app_hash) == (1, node.chain.head_hash)
    assert info.app_version == APP_VERSION


def test_the_chain_starts_with_the_hash_of_its_genesis_block(node: Node) -> None:
    answer = node.app.init_chain(init(encode_genesis(GENESIS)))
    assert answer.app_hash == node.chain.head_hash
    digest = json.dumps("0x" + genesis_digest(GENESIS).hex()).encode()
    assert node.app.init_chain(init(digest)) == answer


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
    assert node.app.query(m.QueryRequest(b"", "snapshots", 0, False)).value == b"[]"
    answer = node.app.query(m.QueryRequest(b"", "governance", 0, False))
    assert decode_governance(answer.value) == node.chain.governance
    assert node.app.query(m.QueryRequest(b"", "balances", 0, False)).code == REFUSED


# The mempool.


def test_what_others_took_in_is_listed_but_not_ours(node: Node) -> None:
    assert node.check(raw(0)).code == 0
    entry = node.pool.find(signed(0).hash)
    assert entry is not None
    assert (entry.local, entry.received_at) == (False, 1_000)


def test_what_is_ours_stays_ours(node: Node) -> None:
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
        node.senders.remember(raw(200), signed(200))
        answers.append(node.app.check_tx(m.CheckTxRequest(raw(200), False)))
        return [await answer if isinstance(answer, Awaitable) else answer for answer in answers]

    assert {result.code for result in asyncio.run(check_all())} == {0}
    assert node.pool.pending_count == 201


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


POOR = [bytes([number + 1]) * 32 for number in range(3)]


def draft_of_poor(number: int) -> Draft:
    sender = address_of_key(POOR[number])
    return Draft(sender=sender, to=ACCOUNTS[0], value=1, gas=TRANSFER_GAS, gas_price=GWEI, nonce=0)


def bundle(*nonces: int, sender: int = 0) -> bytes:
    return encode_bundle([raw(nonce, sender=sender) for nonce in nonces])


def test_a_good_proposal_is_told_and_a_bad_one_is_not(node: Node) -> None:
    assert not node.process([raw(3)])
    assert node.events.decided_upon == 0
    assert node.process([raw(0)])
    assert node.events.decided_upon == 1


def test_what_comes_in_a_bundle_is_listed_one_by_one_and_proposed_as_it_is(node: Node) -> None:
    assert node.check(bundle(0, 1, 2)).code == 0
    assert node.pool.pending_count == 3
    assert node.prepare([bundle(0, 1, 2)]) == [bundle(0, 1, 2)]


@pytest.mark.parametrize("is_watched", [True, False])
def test_what_lost_its_place_to_a_block_is_told_whoever_asked_before(node: Node, is_watched: bool) -> None:
    node.events.is_watched = is_watched
    node.check(bundle(0, 1))
    node.finalize([raw(0, value=99)])
    node.app.commit()
    assert node.events.drops == [(signed(0).hash, "nonce used")]
    assert node.pool.reason_dropped(signed(0).hash) == "nonce used"
    assert node.events.shown_before == [{signed(0).hash, signed(1).hash} if is_watched else set()]
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


def test_one_transfer_that_pays_carries_in_one_bundle_only(node: Node) -> None:
    assert node.check(encode_bundle([raw(0), raw(1)])).code == 0
    again = node.check(encode_bundle([raw(1), raw(0)]))
    assert (again.code, again.log) == (REFUSED, "it brings nothing new")
    # Behind it nothing else comes in.
    poor = [encode_tx(sign_draft(draft_of_poor(number), POOR[number], CHAIN_ID), CHAIN_ID) for number in range(3)]
    assert node.check(encode_bundle([raw(0), *poor])).code == code_of(InsufficientFunds(""))


def test_a_bundle_of_mostly_rubbish_is_refused_and_has_no_effect(node: Node) -> None:
    mostly = encode_bundle([raw(0), raw(7), raw(8)])
    assert node.check(mostly).code == 8
    assert node.pool.pending_count == 0
    assert node.events.refusals == [signed(7), signed(8), signed(0)]
    # As much that can be mined as what cannot: honest nodes may see things differently for a moment.
    assert node.check(encode_bundle([raw(0), raw(7)])).code == 0
    assert node.pool.pending_count == 1


def test_a_bundle_behind_a_gap_is_refused(node: Node) -> None:
    assert node.check(bundle(1, 2)).code == 8
    assert node.events.refusals == [signed(1), signed(2)]
    assert node.pool.pending_count == 0


def test_a_bundle_with_another_chains_transaction_is_refused_whole(node: Node) -> None:
    foreign = encode_tx(signed(1), CHAIN_ID + 1)
    assert node.check(encode_bundle([raw(0), foreign])).code == code_of(InvalidSignature(""))
    assert node.pool.find(signed(0).hash) is None


def test_a_forged_one_in_a_bundle_is_left_out(node: Node) -> None:
    """Another signature is another sender's, who has no money."""
    forged = bytearray(raw(1))
    forged[-1] ^= 1
    assert node.check(encode_bundle([raw(0), bytes(forged)])).code == 0
    assert node.pool.pending_count == 1
    assert node.prepare([encode_bundle([raw(0), bytes(forged)])]) == [raw(0)]


def test_a_bundle_with_one_that_peers_may_have_missed_goes_round_again(node: Node) -> None:
    node.check(bundle(0, 1))
    node.finalize([])
    node.app.commit()
    node.events.stale.add(signed(1).hash)
    assert node.check(bundle(0, 1), recheck=True).code == REFUSED
    assert node.events.refusals == [signed(0), signed(1)]
    # It comes back, and is taken as if it were new.
    node.events.stale.clear()
    assert node.check(bundle(0, 1)).code == 0
    # What was mined meanwhile does not.
    node.finalize([raw(0)])
    node.app.commit()
    node.events.stale.add(signed(1).hash)
    assert node.check(bundle(0, 1), recheck=True).code == REFUSED
    assert node.events.refusals == [signed(0), signed(1), signed(1)]


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
    assert node.pool.pending_count == 0


def test_a_block_is_refused_for_any_in_a_bundle_and_if_decided_holds_the_others(node: Node) -> None:
    items = [encode_bundle([raw(0), raw(2), raw(0, sender=1)])]
    assert not node.process(items)
    assert node.finalize(items).tx_results[0].code == code_of(NonceTooHigh(""))
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


def test_what_of_a_bundle_can_no_longer_be_mined_is_given_up_by_itself(node: Node) -> None:
    """CometBFT's mempool lost what the first two follow."""
    together = encode_bundle([raw(1), raw(2), raw(0, sender=1)])
    for item in (raw(0), together):
        assert node.check(item).code == 0
    node.finalize([])
    node.app.commit()
    assert node.check(together, recheck=True).code == 0
    assert node.events.refusals == [signed(1), signed(2)]


def test_where_prices_differ_the_best_come_first_in_one_bundle(node: Node) -> None:
    dear = raw(0, sender=1, gas_price=2 * GWEI)
    assert node.prepare([bundle(0, 1), dear]) == [encode_bundle([dear, raw(0), raw(1)])]
    assert node.process(node.prepare([bundle(0, 1), dear]))


def test_a_bundle_that_another_ticket_makes_needless_leaves_cometbft(node: Node) -> None:
    for item in (bundle(0, 1), raw(2)):
        node.check(item)
    node.finalize([])
    node.app.commit()
    assert [node.check(raw(nonce), recheck=True).code for nonce in (0, 1)] == [0, 0]
    assert node.check(bundle(0, 1), recheck=True).code == 7
    assert node.events.refusals == []
    assert node.check(raw(2), recheck=True).code == 0


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


def test_a_transaction_that_only_came_out_of_turn_stays(node: Node) -> None:
    for nonce in (0, 1):
        node.check(raw(nonce))
    node.finalize([])
    node.app.commit()
    # CometBFT's mempool lost the first one.
    assert node.check(raw(1), recheck=True).code == 8
    assert node.events.refusals == [signed(1)]
    assert node.pool.find(signed(1).hash) is not None


def test_what_must_go_round_again_leaves_cometbft_but_not_the_pool(node: Node) -> None:
    for nonce in (0, 1):
        node.pool.admit(signed(nonce), 0)
        node.check(raw(nonce))
    node.events.stale.add(signed(0).hash)
    assert node.check(raw(0)).code == 0
    node.finalize([])
    node.app.commit()
    assert [node.check(raw(nonce), recheck=True).code for nonce in (0, 1)] == [REFUSED, 8]
    assert node.events.refusals == [signed(0), signed(1)]
    assert node.pool.pending_count == 2
    assert [node.check(raw(nonce)).code for nonce in (0, 1)] == [0, 0]


def test_replacements_need_a_tenth_more(node: Node) -> None:
    node.check(raw(0))
    assert node.check(raw(0, value=5)).code == 10
    assert node.check(raw(0, gas_price=2 * GWEI)).code == 0
    assert node.events.drops == [(signed(0).hash, "replaced")]


def test_rubbish_is_refused(node: Node) -> None:
    assert node.check(b"").code == 2
    assert node.check(b"\x01rubbish").code == 2
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
    node.chain.audit()


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


def test_what_was_decided_is_applied_without_what_breaks_a_rule(node: Node) -> None:
    decided = [b"rubbish", raw(0), raw(0), raw(5), raw(1), update(0, SECOND, 0)]
    answer = node.finalize(decided)
    codes = [result.code for result in answer.tx_results]
    assert codes == [2, 0, 7, 8, 0, code_of(UpdateRefused(""))]
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
        assert node.app.info(INFO).last_block_app_hash == answers[0].app_hash
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
    assert node.app.info(INFO).last_block_app_hash == genesis_hash
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


def test_administrators_change_the_validators(node: Node) -> None:
    added = update(0, SECOND, 0, 1)
    assert node.check(added).code == 0
    assert node.prepare([added]) == [added]
    assert node.process([added])
    answer = node.finalize([added])
    assert answer.validator_updates == [m.ValidatorUpdate(SECOND.public_key, 10)]
    node.app.commit()
    assert answer.app_hash == node.chain.head_hash
    assert node.check(added, recheck=True).code != 0
    removed = update(1, msgspec.structs.replace(VALIDATOR, power=0), 1, 2)
    answer = node.finalize([removed])
    assert answer.validator_updates == [m.ValidatorUpdate(VALIDATOR.public_key, 0)]
    node.app.commit()
    assert node.chain.governance is not None
    assert node.chain.governance.validators == (SECOND,)
    node.chain.audit()


def test_a_chain_without_administrators_has_fixed_validators(tmp_path: Path) -> None:
    node = Node(tmp_path / "fixed", dev_genesis())
    assert node.check(update(0, SECOND, 0, 1)).code == 13
    assert node.finalize([raw(0)]).tx_results[0].code == 0
    node.app.commit()
    assert node.chain.head_header.proposer == ZERO_ADDRESS
    node.close()


def test_votes_carry_nothing_of_ours(node: Node) -> None:
    request = node.block(m.ExtendVoteRequest, [], 2e9)
    assert node.app.extend_vote(request) == b""
    assert node.app.verify_vote_extension(m.VerifyVoteExtensionRequest(b"", b"", 1, b""))
    assert not node.app.verify_vote_extension(m.VerifyVoteExtensionRequest(b"", b"", 1, b"x"))


def test_without_snapshots_none_are_given_or_taken(node: Node) -> None:
    snapshot = m.Snapshot(1, 1, 1, b"")
    assert node.app.list_snapshots() == ()
    assert node.app.offer_snapshot(m.OfferSnapshotRequest(snapshot, b"")) is m.OfferSnapshotResult.ABORT
    assert node.app.load_snapshot_chunk(m.LoadSnapshotChunkRequest(1, 1, 0)) == b""
    applied = settle(lambda: node.app.apply_snapshot_chunk(m.ApplySnapshotChunkRequest(0, b"", "")))
    assert applied.result is m.ApplySnapshotChunkResult.ABORT
