"""A core whose blocks come from the real CometBFT: one validator, the core in this process."""

import asyncio
import base64
import json
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from cairn.core.gateway import ConfirmedTx, PendingTx
from cairn.core.opening import open_core
from cairn.core.service import Core
from cairn.domain.answers import Checks
from cairn.domain.certificates import BlockSignature
from cairn.domain.crypto import address_of_key, keccak256
from cairn.domain.errors import EngineUnavailable, MempoolFull, StoreUnavailable, WrongGenesis
from cairn.domain.genesis import Genesis, chain_identity, dev_genesis, encode_genesis
from cairn.domain.governance import MAX_ADMINS, Admins, decode_update, encode_update, first_governance
from cairn.domain.transactions import decode_record, encode_tx
from cairn.domain.transition import BlockOutcome
from cairn.domain.types import Tx
from cairn.domain.updates import sign_update, update_admins
from cairn.engine.abci.requests import CheckTxRequest
from cairn.engine.network.bundle import is_bundle, open_bundle
from cairn.engine.network.engine import NetworkEngine
from cairn.store.chain import PreparedBlock
from tests.support.abci_node import GENESIS, SECOND, update
from tests.support.audit import audit
from tests.support.cometbft import FAST, CometBFT
from tests.support.core_fixtures import (
    ACCOUNTS,
    CHAIN_ID,
    KEYS,
    MIXED_PRICES,
    Told,
    settings,
    signed,
    signed_of_each_type,
)
from tests.support.pace import PATIENCE_S
from tests.support.scratch import scratch_parent
from tests.support.tx_data import data_by_number


class Validator:
    """One home with everything that survives a restart."""

    def __init__(self, home: Path, genesis: Genesis) -> None:
        self.home = home
        self.genesis = genesis
        self.abci_socket = home / "abci.sock"
        self.comet = CometBFT(home, self.abci_socket)
        self.comet.init(FAST | {"consensus.create_empty_blocks_interval": "1s"})
        path = home / "config" / "genesis.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"app_state": json.loads(encode_genesis(genesis))}))
        self.announced: list[int] = []

    @asynccontextmanager
    async def core(self, **changes: object) -> AsyncIterator[Core]:
        chosen = settings(engine="cometbft", cometbft_rpc=f"unix://{self.home}/rpc.sock", **changes)
        core = open_core(self.genesis, self.home / "node", chosen, KEYS, Told(), self.abci_socket)
        core.feed.subscribe(self.announced.append)
        core.start()
        try:
            await until(self.abci_socket.exists, "the core to listen")
            yield core
        finally:
            await core.stop()

    @asynccontextmanager
    async def running(self, **changes: object) -> AsyncIterator[Core]:
        async with self.core(**changes) as core:
            self.comet.start()
            try:
                yield core
            finally:
                await asyncio.to_thread(self.comet.end)


async def until(condition: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"waited {PATIENCE_S} s for {what}") from None


async def says(core: Core, condition: str) -> None:
    """Return once the core's own check says that of CometBFT, which may be slow to answer."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not re.fullmatch(condition, said_of_network(await core.check())):
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"waited {PATIENCE_S} s for: {condition}") from None


def said_of_network(checks: Checks) -> str:
    return checks.peers if checks.engine == "ok" else checks.engine


@pytest.fixture
def validator(cometbft_tools: Path) -> Iterator[Validator]:
    # Not pytest's own directory: its path is too long for a unix socket.
    with tempfile.TemporaryDirectory(prefix="cairn-", dir=scratch_parent()) as directory:
        made = Validator(Path(directory), dev_genesis())
        try:
            yield made
        finally:
            made.comet.end()


async def confirmed(core: Core, nonces: int, sender: int = 0) -> None:
    await until(lambda: core._chain.account(ACCOUNTS[sender]).nonce == nonces, f"{nonces} transactions to be confirmed")


def raw_of(tx: Tx) -> str:
    return base64.b64encode(encode_tx(tx, CHAIN_ID)).decode()


async def check_against_cometbft(validator: Validator, core: Core) -> None:
    """Each block of CometBFT is the block of ours with its height, and it signed the hash of every change."""
    audit(core._chain)
    changed = core._chain.find_header(0)
    assert changed is not None
    for height in range(1, core.head + 1):
        block = (await asyncio.to_thread(validator.comet.call, "block", height=str(height)))["block"]
        assert bytes.fromhex(block["header"]["app_hash"]) == changed[0]
        items = [base64.b64decode(item) for item in block["data"]["txs"] or ()]
        raws = [raw for item in items for raw in (open_bundle(item) if is_bundle(item) else [item])]
        theirs = b"".join(map(keccak256, raws))
        assert core._chain.tx_hashes(height) == theirs
        if theirs:
            changed = core._chain.find_header(height)
            assert changed is not None


async def test_a_submitted_transaction_is_confirmed_in_a_block_of_cometbft(validator: Validator) -> None:
    async with validator.running() as core:
        # A gap first: it waits with us, and CometBFT never hears of it until it is closed.
        for nonce in (5, 4, 3, 2, 1):
            assert (await core.submit(signed(nonce))).waits_for_nonce == 0
        assert (await core.submit(signed(0))).waits_for_nonce is None
        await confirmed(core, 6)
        for nonce in range(6):
            assert isinstance(await core.find_tx(signed(nonce).hash), ConfirmedTx)
        status = await core.status()
        assert (status.pending, status.queued) == (0, 0)
        await says(core, "ok")
        assert core.info().engine == "cometbft"
        assert validator.announced == list(range(1, core.head + 1))
        await check_against_cometbft(validator, core)


async def test_a_transaction_accepted_before_cometbft_ran_is_confirmed_when_it_does(validator: Validator) -> None:
    async with validator.core() as core:
        for nonce in range(3):
            await core.submit(signed(nonce))
        await says(core, "cometbft is not answering")
    async with validator.running() as core:
        await confirmed(core, 3)


async def test_every_type_passes_the_journal_bundles_and_blocks_of_cometbft(validator: Validator) -> None:
    txs = signed_of_each_type()
    async with validator.core() as core:
        for tx in txs:
            await core.submit(tx)
    async with validator.running() as core:
        await confirmed(core, len(txs))
        for tx in txs:
            assert isinstance(await core.find_tx(tx.hash), ConfirmedTx)
        mined = [record for height in range(1, core.head + 1) for record in core._chain.records(height)]
        assert list(map(decode_record, mined)) == txs
        paid = len(txs) + 21_000 * sum(MIXED_PRICES)
        assert core._chain.account(ACCOUNTS[0]).balance == validator.genesis.alloc[ACCOUNTS[0]] - paid
        await check_against_cometbft(validator, core)
        assert audit(core._chain) == 0


async def test_data_passes_the_journal_bundles_and_blocks_of_cometbft(validator: Validator) -> None:
    txs = [signed(nonce, data=data_by_number(nonce)) for nonce in range(30)]
    async with validator.core() as core:
        for tx in txs:
            await core.submit(tx)
    async with validator.running() as core:
        await confirmed(core, len(txs))
        mined = [record for height in range(1, core.head + 1) for record in core._chain.records(height)]
        assert list(map(decode_record, mined)) == txs
        await check_against_cometbft(validator, core)
        assert audit(core._chain) == 0


async def test_a_killed_cometbft_gets_everything_again(validator: Validator) -> None:
    async with validator.running() as core:
        await core.submit(signed(0))
        await confirmed(core, 1)
        await asyncio.to_thread(validator.comet.end)
        for nonce in range(1, 20):
            await core.submit(signed(nonce))
        await says(core, "cometbft is not answering")
        validator.comet.start()
        await confirmed(core, 20)
        await says(core, "ok")
        assert validator.announced == list(range(1, core.head + 1))
        await check_against_cometbft(validator, core)


async def test_a_transaction_of_another_node_is_confirmed_or_refused_by_the_same_rules(validator: Validator) -> None:
    async with validator.running() as core:
        await until(lambda: core.head >= 1, "the first block")

        async def send(tx: Tx) -> tuple[int, str]:
            answer = await asyncio.to_thread(validator.comet.call, "broadcast_tx_sync", tx=raw_of(tx))
            return answer["code"], answer["codespace"]

        assert await send(signed(0)) == (0, "")
        await confirmed(core, 1)
        assert isinstance(await core.find_tx(signed(0).hash), ConfirmedTx)
        assert await send(signed(9)) == (8, "cairn")
        assert await core.find_tx(signed(9).hash) is None


async def test_only_transactions_submitted_to_this_node_survive_a_restart(validator: Validator) -> None:
    """A transaction that another node sent is listed; submitted here as well, this node answers for it."""
    async with validator.core() as core:
        assert isinstance(core.engine, NetworkEngine)
        for sender in (0, 1):
            request = CheckTxRequest(encode_tx(signed(0, sender=sender), CHAIN_ID), recheck=False)
            answer = core.engine._application.check_tx(request)
            assert isinstance(answer, Awaitable)
            assert (await answer).code == 0
        assert not (await core.submit(signed(0))).confirmed
        assert (await core.status()).pending == 2
    async with validator.core() as core:
        assert isinstance(await core.find_tx(signed(0).hash), PendingTx)
        assert await core.find_tx(signed(0, sender=1).hash) is None


async def test_a_validator_update_that_is_submitted_here_passes_while_strangers_flood(validator: Validator) -> None:
    validator.genesis = GENESIS
    submitted, sent_by_another = (update(0, SECOND, *signers) for signers in ((0, 1), (1, 2)))
    async with validator.core() as core:
        assert isinstance(core.engine, NetworkEngine)
        application = core.engine._application

        async def check(raw: bytes) -> int:
            answer = application.check_tx(CheckTxRequest(raw, recheck=False))
            return (await answer if isinstance(answer, Awaitable) else answer).code

        # CometBFT does not run: only what the core does before it asks matters.
        with pytest.raises(EngineUnavailable):
            await core.submit_update(decode_update(submitted))
        application._checks._refusals.add(10**9)
        assert await check(sent_by_another) == MempoolFull.abci_code
        assert await check(submitted) == 0


async def test_the_longest_update_that_there_can_be_is_read_by_every_node(validator: Validator) -> None:
    """Else its own proposals would carry what every other node refuses."""
    keys = [number.to_bytes(32, "big") for number in range(1, MAX_ADMINS + 1)]
    admins = Admins(MAX_ADMINS, tuple(address_of_key(key) for key in keys))
    validator.genesis = genesis = msgspec.structs.replace(GENESIS, admins=admins)
    unsigned = update_admins(first_governance(genesis.validators, admins), Admins(1, admins.addresses))
    longest = sign_update(unsigned, keys, chain_identity(genesis))
    async with validator.core() as core:
        assert isinstance(core.engine, NetworkEngine)
        # CometBFT does not run: only what the core does before it asks matters.
        with pytest.raises(EngineUnavailable):
            await core.submit_update(longest)
        assert core.engine._parsed_txs.find(encode_update(longest)) == longest


@pytest.mark.parametrize("written", [False, True], ids=["before the write", "after the write"])
async def test_a_disk_that_fails_in_a_commit_changes_no_hash(validator: Validator, written: bool) -> None:
    """CometBFT replays the block when it is not in our store, and does not when it is."""
    async with validator.core() as core:
        commit = core._chain.commit

        def failing(
            outcome: BlockOutcome,
            absent: Sequence[bytes] | None = None,
            signed: BlockSignature | None = None,
            prepared: PreparedBlock | None = None,
        ) -> None:
            if written or not outcome.block.txs:
                commit(outcome, absent, signed, prepared)
            if outcome.block.txs:
                raise StoreUnavailable("no space left")

        core._chain.commit = failing  # type: ignore[method-assign]
        validator.comet.start()
        await core.submit(signed(0))
        await asyncio.wait([core.failed], timeout=PATIENCE_S)
        assert isinstance(core.failed.exception(), StoreUnavailable)
    await asyncio.to_thread(validator.comet.end)
    before = len(validator.announced)
    async with validator.running() as core:
        opened_at = core.head
        await core.submit(signed(1))
        await confirmed(core, 2)
        assert validator.announced[before:] == list(range(opened_at + 1, core.head + 1))
        await check_against_cometbft(validator, core)


async def test_a_cometbft_of_another_chain_is_refused(validator: Validator) -> None:
    validator.genesis = msgspec.structs.replace(validator.genesis, gas_price=7)
    async with validator.core() as core:
        validator.comet.start()
        await asyncio.wait([core.failed], timeout=PATIENCE_S)
        failure = core.failed.exception()
        assert isinstance(failure, WrongGenesis)
        assert "app_state in CometBFT's genesis is of genesis 0x" in failure.detail


async def test_a_cometbft_that_lost_its_blocks_is_told_apart_from_one_that_is_away(validator: Validator) -> None:
    async with validator.running() as core:
        await core.submit(signed(0))
        await confirmed(core, 1)
        await asyncio.to_thread(validator.comet.end)
        for store in ("blockstore.db", "state.db", "cs.wal"):
            shutil.rmtree(validator.home / "data" / store)
        for _ in range(3):
            validator.comet.start()
            await until(lambda: not validator.comet.running, "CometBFT to give up")
        await says(core, ".*it ends at its handshake with the chain at height.*")
