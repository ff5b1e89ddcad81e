"""The files that prove what the chain holds, from a whole node in process; each is checked from genesis alone."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from cairn.api import proof_reads
from cairn.api.description.examples import OF_BLOCK
from cairn.api.proof_reads import ProofReads, Signed
from cairn.api.rest import statements
from cairn.core import service
from cairn.core.gateway import DevCalls
from cairn.core.service import Core
from cairn.domain.certificates import Certificate
from cairn.domain.crypto import keccak256
from cairn.domain.errors import NotSignedYet
from cairn.domain.genesis import DEV_SIGNING_SEED, dev_genesis, encode_genesis, genesis_digest
from cairn.domain.proof_checks import FinalBlock, ProvenAccount, ProvenHistory, ProvenPayment, Trust
from cairn.domain.proof_files import AccountFile, ChangePath, FinalityFile, HistoryFile, StatementFile, read_file
from cairn.domain.statement_checks import ProvenStatement, check_file
from cairn.domain.types import Address, Tx
from cairn.store import keys
from cairn.store.chain import ChainStore
from cairn.store.keys import Version
from cairn.store.rocks import WriteBatch
from cairn.store.signing_key import SigningKey
from tests.support.core_fixtures import ACCOUNTS, settings, signed, signed_of_each_type
from tests.support.described import assert_described
from tests.support.disk import database_of
from tests.support.example_chain import example_answers
from tests.support.proofs import proven
from tests.support.public import assert_problem
from tests.support.rest_node import RestNode, body_of, hash_of, rest_node
from tests.support.signing import dev_signature
from tests.support.snapshots import add_block, restore_snapshot, take_snapshot
from tests.support.snapshots import pay as pay_once

SENDER, RECIPIENT, BYSTANDER = ("0x" + account.hex() for account in ACCOUNTS[:3])
STRANGER = "0x" + "77" * 20
UNKNOWN = "0x" + "ab" * 32


async def pay(node: RestNode, *txs: Tx, base: int | None = None) -> None:
    """Pay in the next block; blocks below `base` are removed before it is made."""
    for tx in txs:
        assert (await node.post(body_of(tx))).status_code == 200
    if base is None:
        node.mine()
    else:
        node.mine_after_pruning(base)


async def chain_of(node: RestNode, blocks: int) -> list[Tx]:
    """Blocks of one payment each, by the first account to the second."""
    txs = [signed(nonce, value=nonce + 1) for nonce in range(blocks)]
    for tx in txs:
        await pay(node, tx)
    return txs


async def refused(node: RestNode, path: str, status: int, code: str) -> str:
    answer = await node.get(path)
    assert_described(answer)
    detail = assert_problem(answer, status, code)["detail"]
    assert isinstance(detail, str)
    return detail


async def test_genesis_is_the_file_that_init_writes_and_is_tagged_with_its_digest(node: RestNode) -> None:
    answer = await node.get("/genesis")
    assert_described(answer)
    assert answer.status_code == 200
    assert answer.content == encode_genesis(dev_genesis())
    assert keccak256(answer.content) == genesis_digest(dev_genesis())
    assert answer.headers["etag"] == f'"0x{genesis_digest(dev_genesis()).hex()}"'
    assert (await node.get("/genesis", if_none_match=answer.headers["etag"])).status_code == 304


# Blocks.


async def test_every_block_is_final_by_height_hash_and_latest(node: RestNode) -> None:
    await chain_of(node, 5)
    for height in range(6):
        block_hash = (await node.read(f"/block/{height}"))["hash"]
        for named in (str(height), block_hash):
            final = await proven(node, f"/block/{named}/finality", FinalBlock)
            assert (final.block.header.height, "0x" + final.block.hash.hex()) == (height, block_hash)
            assert final.finality.signed is not None
            assert final.finality.signed.is_public_key, "everybody has the key of a dev chain"
    latest = await proven(node, "/block/latest/finality", FinalBlock)
    assert latest.block.header.height == 5


async def test_the_file_of_a_block_that_is_signed_itself_has_no_path(node: RestNode) -> None:
    await chain_of(node, 3)
    file = read_file((await node.get("/block/2/finality")).content)
    assert isinstance(file, FinalityFile)
    assert file.block.history == []
    assert file.block.header == file.certificate.header


async def test_finality_of_an_unknown_block_is_404(node: RestNode) -> None:
    await refused(node, "/block/1/finality", 404, "BLOCK_NOT_FOUND")
    await refused(node, f"/block/{UNKNOWN}/finality", 404, "BLOCK_NOT_FOUND")
    await refused(node, "/block/newest/finality", 400, "INVALID_HASH")


async def test_nothing_is_proven_of_a_chain_without_a_signed_block(node: RestNode) -> None:
    for path in ("/block/latest/finality", "/block/0/finality", "/history/proof"):
        await refused(node, path, 404, "NOT_SIGNED_YET")
    for path in (f"/account/{SENDER}/proof", f"/account/{SENDER}/statement"):
        await refused(node, path, 404, "NOT_SIGNED_YET")
        await refused(node, f"{path}?{'height' if path.endswith('proof') else 'from'}=1", 404, "BLOCK_NOT_FOUND")


async def test_history_is_proven_between_any_two_blocks(node: RestNode) -> None:
    await chain_of(node, 9)
    for first in range(9):
        for last in range(first + 1, 10):
            found = await proven(node, f"/history/proof?from={first}&to={last}", ProvenHistory)
            assert (found.first.header.height, found.second.header.height) == (first, last)
    found = await proven(node, "/history/proof", ProvenHistory)
    assert (found.first.header.height, found.second.header.height) == (0, 9)


async def test_a_history_proof_refuses_blocks_that_are_not_there_or_do_not_ascend(node: RestNode) -> None:
    await chain_of(node, 3)
    for query in ("from=2&to=2", "from=3&to=2", "from=3", "from=4"):
        assert "from must be below to" in await refused(node, f"/history/proof?{query}", 400, "INVALID_QUERY")
    await refused(node, "/history/proof?from=0&to=4", 404, "BLOCK_NOT_FOUND")
    for query in ("from=-1", "to=1.0", "height=1"):
        await refused(node, f"/history/proof?{query}", 400, "INVALID_QUERY")


# Payments.


async def test_a_receipt_proves_a_payment_of_each_type_at_its_place_in_its_block(node: RestNode) -> None:
    txs = [*signed_of_each_type(), signed(0, sender=4, data=b"invoice 4711")]
    for tx in txs:
        await node.core.submit(tx)
    node.mine()
    await chain_after(node, 3)
    for tx in txs:
        shown = await node.read(f"/tx/{hash_of(tx)}")
        receipt = await proven(node, f"/tx/{hash_of(tx)}/receipt", ProvenPayment)
        assert receipt.tx == tx
        assert (receipt.block.header.height, receipt.index) == (shown["blockHeight"], shown["transactionIndex"])


async def chain_after(node: RestNode, blocks: int) -> None:
    for nonce in range(blocks):
        await pay(node, signed(nonce, sender=6))


async def test_a_receipt_of_a_pending_or_unknown_transaction_is_404(node: RestNode) -> None:
    tx = signed(0)
    await node.post(body_of(tx))
    assert "is pending" in await refused(node, f"/tx/{hash_of(tx)}/receipt", 404, "TX_NOT_FOUND")
    await refused(node, f"/tx/{UNKNOWN}/receipt", 404, "TX_NOT_FOUND")
    await refused(node, "/tx/0x12/receipt", 400, "INVALID_HASH")


# Accounts.


async def test_an_account_is_proven_now_and_after_every_block(node: RestNode) -> None:
    await pay(node, signed(0, value=5))
    await chain_after(node, 2)
    await pay(node, signed(1, value=7))
    head = node.mine()
    for account in (SENDER, RECIPIENT, BYSTANDER, STRANGER):
        now = await proven(node, f"/account/{account}/proof", ProvenAccount)
        shown = await node.read(f"/account/{account}")
        assert now.height == head
        assert (now.account.balance, now.account.nonce) == (shown["balance"], shown["nonce"])
        for height in range(head + 1):
            found = await proven(node, f"/account/{account}/proof?height={height}", ProvenAccount)
            shown = await node.read(f"/account/{account}?height={height}")
            assert found.height == height
            assert (found.account.balance, found.account.nonce) == (shown["balance"], shown["nonce"])


async def test_an_address_that_nobody_ever_named_holds_nothing_by_proof(node: RestNode) -> None:
    await chain_of(node, 2)
    for account in (STRANGER, "0x" + "00" * 19 + "01", "0x" + "ff" * 20):
        found = await proven(node, f"/account/{account}/proof", ProvenAccount)
        assert (found.account.balance, found.account.nonce, found.last_touch) == (0, 0, None)


async def test_an_account_at_a_height_is_proven_by_its_next_change_or_by_the_state(node: RestNode) -> None:
    await chain_of(node, 3)
    node.mine()
    before, after = [
        read_file((await node.get(f"/account/{SENDER}/proof?height={height}")).content) for height in (2, 3)
    ]
    assert isinstance(before, AccountFile)
    assert isinstance(after, AccountFile)
    assert before.change is not None
    assert after.state is not None


async def test_an_account_proof_refuses_what_is_not_there(node: RestNode) -> None:
    await chain_of(node, 2)
    await refused(node, f"/account/{SENDER}/proof?height=3", 404, "BLOCK_NOT_FOUND")
    await refused(node, f"/account/{SENDER}/proof?height=x", 400, "INVALID_QUERY")
    await refused(node, "/account/0x12/proof", 400, "INVALID_FIELD")


# Statements.


async def test_a_statement_has_every_change_with_its_payments_and_the_balances_at_both_ends(node: RestNode) -> None:
    txs = await chain_of(node, 6)
    await chain_after(node, 2)
    statement = await proven(node, f"/account/{SENDER}/statement?from=2&to=5", ProvenStatement)
    assert (statement.first, statement.last) == (2, 5)
    assert [entry.block.header.height for entry in statement.entries] == [2, 3, 4, 5]
    assert [payment.tx for entry in statement.entries for payment in entry.payments] == txs[1:5]
    for height, held in ((1, statement.opening), (5, statement.closing)):
        shown = await node.read(f"/account/{SENDER}?height={height}")
        assert (held.balance, held.nonce) == (shown["balance"], shown["nonce"])


async def test_a_statement_is_of_all_blocks_if_nothing_else_is_asked_for(node: RestNode) -> None:
    await chain_of(node, 4)
    for account, heights in ((SENDER, range(5)), (BYSTANDER, [0]), (STRANGER, [])):
        statement = await proven(node, f"/account/{account}/statement", ProvenStatement)
        assert (statement.first, statement.last) == (0, 4)
        assert [entry.block.header.height for entry in statement.entries] == list(heights)


async def test_a_statement_refuses_heights_that_are_not_there_or_do_not_ascend(node: RestNode) -> None:
    await chain_of(node, 3)
    path = f"/account/{SENDER}/statement"
    await refused(node, f"{path}?from=3&to=2", 400, "INVALID_QUERY")
    await refused(node, f"{path}?from=4", 404, "BLOCK_NOT_FOUND")
    await refused(node, f"{path}?to=4", 404, "BLOCK_NOT_FOUND")
    await refused(node, f"{path}?fromHeight=1", 400, "INVALID_QUERY")


async def test_a_statement_that_is_too_long_says_where_to_cut_it(
    node: RestNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    await chain_of(node, 9)
    monkeypatch.setattr(statements, "MAX_CHANGES", 4)
    for counted in (1, 3, 4, 100):
        monkeypatch.setattr(statements, "COUNTED_AT_ONCE", counted)
        detail = await refused(node, f"/account/{SENDER}/statement?from=2", 422, "STATEMENT_TOO_LONG")
        assert "end this statement at block 5," in detail
        statement = await proven(node, f"/account/{SENDER}/statement?from=2&to=5", ProvenStatement)
        assert len(statement.entries) == 4


async def test_a_statement_is_the_same_file_in_however_small_pieces_it_is_sent(
    node: RestNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pay(node, *[signed(nonce, value=nonce) for nonce in range(40)])
    await chain_after(node, 3)
    whole = await node.get(f"/account/{SENDER}/statement")
    sent: list[bytes] = []
    pieces = statements.Statement.pieces

    async def recorded(statement: statements.Statement, file: StatementFile) -> AsyncIterator[bytes]:
        async for piece in pieces(statement, file):
            sent.append(piece)
            yield piece

    monkeypatch.setattr(statements.Statement, "pieces", recorded)
    monkeypatch.setattr(statements, "SLICE_S", -1.0)
    assert (await node.get(f"/account/{SENDER}/statement")).content == whole.content == b"".join(sent)
    assert len(sent) > 40, "one payment at a time"


async def test_a_statement_is_made_only_as_far_as_it_is_read(node: RestNode, monkeypatch: pytest.MonkeyPatch) -> None:
    await chain_of(node, 30)
    monkeypatch.setattr(statements, "SLICE_S", -1.0)
    read: list[int] = []
    change = ProofReads.change

    async def counted(reads: ProofReads, address: Address, version: Version, signed: Signed) -> ChangePath:
        read.append(version.height)
        return await change(reads, address, version, signed)

    monkeypatch.setattr(ProofReads, "change", counted)
    reads = ProofReads(node.core, node.view)
    held = await reads.held(ACCOUNTS[0], None)
    file = StatementFile(
        certificate=held.signed.certificate, address=SENDER, first=1, last=30, changes=[], state=held.state
    )
    pieces = statements.Statement(node.view, reads, ACCOUNTS[0], held).pieces(file)
    for _ in range(10):
        await anext(pieces)
    assert 0 < len(read) < 10


async def test_the_parts_of_a_cut_statement_continue_each_other(node: RestNode) -> None:
    await chain_of(node, 8)
    parts = [
        await proven(node, f"/account/{SENDER}/statement?from={first}&to={first + 2}", ProvenStatement)
        for first in (0, 3, 6)
    ]
    assert [part.closing for part in parts[:-1]] == [part.opening for part in parts[1:]]


async def test_a_proposer_earns_the_fees_of_its_blocks(tmp_path: Path) -> None:
    async with rest_node(tmp_path, settings(proposer=bytes.fromhex(STRANGER[2:]))) as node:
        txs = await chain_of(node, 3)
        statement = await proven(node, f"/account/{STRANGER}/statement", ProvenStatement)
        assert [entry.fees_earned for entry in statement.entries] == [tx.fee for tx in txs]


# Dev chains.


async def test_a_balance_that_a_dev_chain_sets_is_said_to_be_set(node: RestNode) -> None:
    await chain_of(node, 2)
    controls: DevCalls = node.core
    await controls.set_balance(ACCOUNTS[0], 5)
    statement = await proven(node, f"/account/{SENDER}/statement?from=3", ProvenStatement)
    assert statement.closing.balance == 5
    assert statement.entries[-1].set_by_hand < 0


async def test_what_a_node_proved_before_a_restart_it_proves_after_it(tmp_path: Path) -> None:
    async with rest_node(tmp_path) as node:
        await chain_of(node, 2)
        before = await node.read("/block/2")
    async with rest_node(tmp_path) as node:
        assert (await proven(node, "/block/2/finality", FinalBlock)).block.hash.hex() == before["hash"][2:]
        await pay(node, signed(2))
        assert (await proven(node, f"/tx/{hash_of(signed(2))}/receipt", ProvenPayment)).tx == signed(2)


async def test_a_file_whose_parts_are_of_two_chains_is_never_given(node: RestNode) -> None:
    txs = await chain_of(node, 2)
    of_accounts = (f"/account/{SENDER}/proof", f"/account/{SENDER}/statement")
    for path in (f"/tx/{hash_of(txs[0])}/receipt", "/block/1/finality", "/history/proof", *of_accounts):
        with reverting_in_between(node):
            answer = await node.get(path)
        assert "reverted meanwhile" in assert_problem(answer, 503, "STORE_UNAVAILABLE")["detail"], path


@contextmanager
def reverting_in_between(node: RestNode) -> Iterator[None]:
    """As if a dev chain were reverted after the certificate was made."""
    get_header = type(node.view).get_header

    def counted(view: object, height: int) -> object:
        node.view.reverts += 1
        return get_header(node.view, height)

    with patch.object(type(node.view), "get_header", counted):
        yield


# What is not signed yet, and what is not kept.


@contextmanager
def signed_up_to(node: RestNode, newest: int) -> Iterator[None]:
    """As on a network, where the latest block has no signature yet: only blocks up to `newest` have."""
    certificate = type(node.core).certificate

    async def limited(core: object, height: int | None, known_steps: int | None = None) -> object:
        if height is not None and height > newest:
            raise NotSignedYet(f"no signature covers block {height} yet")
        return await certificate(node.core, newest, known_steps)

    with patch.object(type(node.core), "certificate", limited):
        yield


async def test_what_is_newer_than_the_signed_block_is_404_and_what_is_older_hangs_on_it(node: RestNode) -> None:
    txs = await chain_of(node, 6)
    with signed_up_to(node, 4):
        for height in (5, 6):
            await refused(node, f"/block/{height}/finality", 404, "NOT_SIGNED_YET")
            await refused(node, f"/tx/{hash_of(txs[height - 1])}/receipt", 404, "NOT_SIGNED_YET")
            for path in (f"proof?height={height}", f"statement?to={height}"):
                detail = await refused(node, f"/account/{SENDER}/{path}", 404, "NOT_SIGNED_YET")
                assert "the latest that one covers is 4. A block with payments is signed" in detail
            await refused(node, f"/history/proof?to={height}", 404, "NOT_SIGNED_YET")
        assert (await proven(node, "/block/latest/finality", FinalBlock)).block.header.height == 4
        for height in range(1, 5):
            receipt = await proven(node, f"/tx/{hash_of(txs[height - 1])}/receipt", ProvenPayment)
            assert receipt.finality.block.header.height == 4
            assert receipt.block.header.height == height
        statement = await proven(node, f"/account/{SENDER}/statement?to=3", ProvenStatement)
        assert statement.last == 3
        assert statement.finality.block.header.height == 4
        found = await proven(node, "/history/proof?from=1&to=2", ProvenHistory)
        assert found.second.header.height == 2


# Who signs changes.


class HandOvers:
    """Keys in the order in which they sign; each block hands over to the next while `is_due`."""

    def __init__(self, count: int) -> None:
        self._keys = [SigningKey(DEV_SIGNING_SEED), *(SigningKey.new() for _ in range(count))]
        self.is_due = True

    def key_of(self, public_key: bytes) -> SigningKey:
        return next(key for key in self._keys if key.public_key == public_key)

    def successor_to(self, public_key: bytes) -> SigningKey | None:
        later = self._keys[1 + self._keys.index(self.key_of(public_key)) :]
        return later[0] if later and self.is_due else None

    def settle(self, public_key: bytes) -> None:
        pass


async def test_files_have_all_changes_of_signers_however_few_the_core_sends_at_once(
    node: RestNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (service, proof_reads):
        monkeypatch.setattr(module, "STEPS_AT_ONCE", 2)
    signer: Any = node.core.engine._application._signer  # type: ignore[attr-defined]
    signer._keys = HandOvers(5)
    txs = await chain_of(node, 3)
    changes = {height: height - 1 for height in (1, 2, 3)}
    # Those of an old block first: the worker knows a part of the steps then.
    for height in (2, 1, 3):
        receipt = await proven(node, f"/tx/{hash_of(txs[height - 1])}/receipt", ProvenPayment)
        assert receipt.finality.signed is not None
        assert receipt.finality.signed.changes == changes[height]
    for nonce in range(3, 8):
        await pay(node, signed(nonce))
    sent: list[int] = []
    certificate = type(node.core).certificate

    async def counted(core: Core, height: int | None, known_steps: int | None = None) -> Certificate:
        found = await certificate(core, height, known_steps)
        sent.append(len(found.steps))
        return found

    monkeypatch.setattr(type(node.core), "certificate", counted)
    for _ in range(2):
        for path in (f"/account/{SENDER}/proof", f"/account/{SENDER}/statement", "/block/latest/finality"):
            file = read_file((await node.get(path)).content)
            assert len(file.certificate.steps) == 5
            await proven(node, path, object)
    assert sum(sent) == 5 - 2, "each step was sent once"
    await proven(node, "/block/1/finality", FinalBlock)


BASE, HEAD = 5, 9


async def test_a_pruned_node_proves_what_its_blocks_show(node: RestNode) -> None:
    """Each block has a payment of the third account to the fourth; blocks 2 and 7 one of the first to the second."""
    for height in range(1, HEAD + 1):
        extra = [signed((2, 7).index(height))] if height in (2, 7) else []
        await pay(node, signed(height - 1, sender=2), *extra, base=BASE if height == HEAD else None)
    for height in range(BASE):
        await refused(node, f"/block/{height}/finality", 404, "BLOCK_NOT_KEPT")
    for height in range(BASE, HEAD + 1):
        assert (await proven(node, f"/block/{height}/finality", FinalBlock)).block.header.height == height
    await refused(node, f"/tx/{hash_of(signed(0))}/receipt", 404, "TX_NOT_KEPT")
    assert (await proven(node, f"/tx/{hash_of(signed(1))}/receipt", ProvenPayment)).tx == signed(1)
    # The first account was touched by blocks 0, 2 and 7: from 2 on everything is known.
    for height in (0, 1):
        detail = await refused(node, f"/account/{SENDER}/proof?height={height}", 404, "BLOCK_NOT_KEPT")
        assert "it can from block 2 on" in detail
    for height in range(2, HEAD + 1):
        found = await proven(node, f"/account/{SENDER}/proof?height={height}", ProvenAccount)
        assert found.account.nonce == (1 if height < 7 else 2)
    assert (await proven(node, f"/account/{STRANGER}/proof?height=0", ProvenAccount)).account.balance == 0
    statement = await proven(node, f"/account/{SENDER}/statement", ProvenStatement)
    assert (statement.first, statement.last) == (3, HEAD)
    assert [entry.block.header.height for entry in statement.entries] == [7]
    detail = await refused(node, f"/account/{SENDER}/statement?from=2", 404, "BLOCK_NOT_KEPT")
    assert "begin at block 3 at the earliest" in detail
    third = "0x" + ACCOUNTS[2].hex()
    # What the oldest block did to whom cannot be proven any more: no import of this chain could.
    statement = await proven(node, f"/account/{third}/statement", ProvenStatement)
    assert statement.first == BASE + 1
    detail = await refused(node, f"/account/{third}/proof?height={BASE - 1}", 404, "BLOCK_NOT_KEPT")
    assert f"it can from block {BASE} on" in detail
    # Of one that nobody named, all of history.
    assert (await proven(node, f"/account/{STRANGER}/statement?from=0", ProvenStatement)).first == 0
    assert (await proven(node, "/history/proof", ProvenHistory)).first.header.height == BASE


async def test_a_block_that_was_removed_since_is_proven_to_whoever_remembers_its_header(node: RestNode) -> None:
    await chain_of(node, 4)
    remembered = read_file((await node.get("/block/4/finality")).content)
    assert isinstance(remembered, FinalityFile)
    for nonce in range(4, 8):
        await pay(node, signed(nonce), base=5 if nonce == 7 else None)
    assert (await node.get("/history/proof?from=4")).json()["code"] == "BLOCK_NOT_KEPT"
    file = read_file((await node.get("/history/proof?from=4&known=true")).content)
    assert isinstance(file, HistoryFile)
    assert file.first == "0x"
    whole = msgspec.structs.replace(file, first=remembered.block.header)
    found = check_file(whole, Trust(dev_genesis()))
    assert isinstance(found, ProvenHistory)
    assert (found.first.header.height, found.second.header.height) == (4, 8)


async def test_the_examples_of_the_api_are_what_a_node_answers(tmp_path: Path) -> None:
    """If the formats have changed: `python -m tests.support.example_chain`."""
    assert await example_answers(tmp_path) == OF_BLOCK


def start_from_snapshot(directory: Path, height: int, payers: Mapping[int, Sequence[int]]) -> None:
    """A data directory that begins with the state after block `height`; `payers` by the height of their payments."""
    with (
        closing(ChainStore.open(directory / "source", dev_genesis())) as source,
        closing(ChainStore.open(directory / "data", dev_genesis())) as copy,
    ):
        for number in range(1, height + 1):
            outcome = add_block(source, [pay_once(source, payer, ACCOUNTS[payer + 1]) for payer in payers[number]])
        restore_snapshot(copy, take_snapshot(source, height))
        batch = WriteBatch(database_of(copy))
        signature = dev_signature(dev_genesis(), outcome)
        assert signature is not None
        batch.put(keys.SIGNATURES, keys.encode_height(height), signature.signature)
        database_of(copy).write(batch)


async def test_a_node_that_began_with_a_snapshot_proves_what_came_after_it(tmp_path: Path) -> None:
    base, head = 6, 9
    start_from_snapshot(tmp_path, base, {1: [0], 2: [4], 3: [2], 4: [4], 5: [4], 6: [0, 4]})
    async with rest_node(tmp_path) as node:
        await pay(node, signed(2))
        await pay(node, signed(1, sender=2))
        node.mine()
        for height in range(base):
            await refused(node, f"/block/{height}/finality", 404, "BLOCK_NOT_KEPT")
        for first in range(base, head):
            assert (await proven(node, f"/block/{first}/finality", FinalBlock)).block.header.height == first
            assert (await proven(node, f"/history/proof?from={first}", ProvenHistory)).second.header.height == head
        # It has not what came before, but what continues it: a question about that is no damage.
        for first in range(base):
            await refused(node, f"/history/proof?from={first}", 404, "BLOCK_NOT_KEPT")
        assert (await proven(node, f"/tx/{hash_of(signed(2))}/receipt", ProvenPayment)).tx == signed(2)
        # Touched by blocks 0, 1, 6 and 7: what block 6 changed is not known here, only what it left.
        for height in range(base):
            detail = await refused(node, f"/account/{SENDER}/proof?height={height}", 404, "BLOCK_NOT_KEPT")
            assert "from block 6 on" in detail
        for height, nonce in ((6, 2), (7, 3), (8, 3), (9, 3)):
            found = await proven(node, f"/account/{SENDER}/proof?height={height}", ProvenAccount)
            assert found.account.nonce == nonce
        statement = await proven(node, f"/account/{SENDER}/statement", ProvenStatement)
        assert (statement.first, [entry.block.header.height for entry in statement.entries]) == (7, [7])
        # Touched by blocks 0, 3 and 8, and by genesis only: all since then is known.
        for account, touched in ((ACCOUNTS[2], 3), (ACCOUNTS[8], 0)):
            for height in range(touched, head + 1):
                found = await proven(node, f"/account/0x{account.hex()}/proof?height={height}", ProvenAccount)
                assert found.last_touch == (8 if touched and height >= 8 else touched)
            statement = await proven(node, f"/account/0x{account.hex()}/statement", ProvenStatement)
            assert statement.first == touched + 1
        assert (await proven(node, f"/account/{STRANGER}/statement?from=0", ProvenStatement)).entries == ()
