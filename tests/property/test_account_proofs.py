"""Proofs of accounts on random chains against a naive ledger: every account, every height, statements of any range.

The ledger shares no code with the node. Blocks pay known and new accounts, nothing at all, and the sender itself; a
proposer earns fees or not; balances are set; in the end old blocks are removed.
"""

import os
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cairn.domain.proof_checks import ProvenAccount
from cairn.domain.statement_checks import ProvenStatement
from cairn.domain.transactions import sign_draft
from cairn.domain.types import TRANSFER_GAS, Account, Address, Draft, Tx
from tests.support.core_fixtures import ACCOUNTS, CHAIN_ID, GWEI, KEYS, settings
from tests.support.proofs import proven
from tests.support.public import assert_problem
from tests.support.rest_node import RestNode, rest_node

SEED = int(os.environ.get("PROOFS_SEED", random.SystemRandom().randrange(2**32)))
CHAINS = 4
BLOCKS = 14
NEW = [Address(bytes([number]) * 20) for number in (0, 1, 0x77, 0xAA, 0xFF)]
EVERYBODY = [*ACCOUNTS[:4], *NEW, Address(b"\x99" * 20)]
"""The last one is never paid."""


@dataclass
class Ledger:
    """What each account holds after each block, and which blocks touched it."""

    accounts: list[dict[Address, Account]]
    touches: dict[Address, list[int]] = field(default_factory=dict)
    payments: dict[tuple[Address, int], list[Tx]] = field(default_factory=dict)

    @property
    def height(self) -> int:
        return len(self.accounts) - 1

    def held(self, address: Address, height: int) -> Account:
        return self.accounts[height].get(address, Account())

    def add(self, txs: list[Tx], proposer: Address | None, balances: dict[Address, int] | None = None) -> None:
        now, touched = dict(self.accounts[-1]), set()
        height = len(self.accounts)
        for tx in txs:
            fee = TRANSFER_GAS * tx.gas_price
            for address, gain, used in ((tx.sender, -tx.value - fee, 1), (tx.to, tx.value, 0)):
                before = now.get(address, Account())
                now[address] = Account(before.balance + gain, before.nonce + used)
                touched.add(address)
            for address in {tx.sender, tx.to}:
                self.payments.setdefault((address, height), []).append(tx)
            if proposer is not None:
                before = now.get(proposer, Account())
                now[proposer] = Account(before.balance + fee, before.nonce)
                touched.add(proposer)
        for address, balance in (balances or {}).items():
            before = now.get(address, Account())
            if before.balance != balance:
                now[address] = Account(balance, before.nonce)
                touched.add(address)
        self.accounts.append(now)
        for address in touched:
            self.touches.setdefault(address, []).append(height)


async def play(node: RestNode, chance: random.Random, proposer: Address) -> Ledger:
    """Make random blocks."""
    first = {address: Account((await held_now(node, address)).balance) for address in ACCOUNTS}
    ledger = Ledger([first], {address: [0] for address in first})
    for _ in range(BLOCKS):
        if chance.random() < 0.15:
            address, balance = chance.choice(EVERYBODY[:-1]), chance.choice((0, 5, 10**18))
            await node.core.set_balance(address, balance)
            ledger.add([], None, {address: balance})
            continue
        txs = random_payments(chance, ledger)
        for tx in txs:
            await node.core.submit(tx)
        height = node.mine()
        # The node decides the order within a block.
        hashes = (await node.read(f"/block/{height}"))["transactions"]
        by_hash = {"0x" + tx.hash.hex(): tx for tx in txs}
        ledger.add([by_hash[each] for each in hashes], proposer)
    return ledger


def random_payments(chance: random.Random, ledger: Ledger) -> list[Tx]:
    txs: list[Tx] = []
    for sender in ACCOUNTS[:4]:
        held = ledger.held(sender, ledger.height)
        for nonce in range(held.nonce, held.nonce + chance.choice((0, 0, 1, 2))):
            value = chance.choice((0, 1, 10**9))
            if held.balance > 10 * (value + TRANSFER_GAS * GWEI):
                to = chance.choice([sender, *EVERYBODY[:-1]])
                txs.append(sign_draft(Draft(sender, to, value, TRANSFER_GAS, GWEI, nonce), KEYS[sender], CHAIN_ID))
    return txs


async def held_now(node: RestNode, address: Address) -> Account:
    shown = await node.read(f"/account/0x{address.hex()}")
    return Account(shown["balance"], shown["nonce"])


@pytest.mark.parametrize("number", range(CHAINS))
async def test_every_account_is_proven_at_every_height(tmp_path: Path, number: int) -> None:
    chance = random.Random(SEED + number)
    proposer = chance.choice(EVERYBODY[:-1])
    async with rest_node(tmp_path, settings(proposer=proposer)) as node:
        try:
            ledger = await play(node, chance, proposer)
            await check_accounts(node, ledger, 0)
            await check_statements(node, ledger, chance, 0)
            base = chance.randrange(1, ledger.height)
            node.mine_after_pruning(base)
            ledger.add([], None)
            # What the oldest block did to an account is not proven.
            await check_accounts(node, ledger, base + 1)
            await check_statements(node, ledger, chance, base + 1)
        except BaseException:
            print(f"PROOFS_SEED={SEED + number}")
            raise


def earliest(ledger: Ledger, address: Address, proven_from: int, last: int) -> int:
    """Where a statement up to `last` can begin."""
    gone = [height for height in ledger.touches.get(address, []) if height < proven_from and height <= last]
    return gone[-1] + 1 if gone else 0


async def check_accounts(node: RestNode, ledger: Ledger, proven_from: int) -> None:
    for address in EVERYBODY:
        path = f"/account/0x{address.hex()}/proof"
        for height in range(ledger.height + 1):
            # The last touch before that height is known by the one after it; those before are gone.
            gone = [touch for touch in ledger.touches.get(address, []) if height < touch < proven_from]
            if gone:
                assert_problem(await node.get(f"{path}?height={height}"), 404, "BLOCK_NOT_KEPT")
                continue
            found = await proven(node, f"{path}?height={height}", ProvenAccount)
            assert found.account == ledger.held(address, height)
            touches = [touch for touch in ledger.touches.get(address, []) if touch <= height]
            assert found.last_touch == (touches[-1] if touches else None)
        assert (await proven(node, path, ProvenAccount)).account == ledger.held(address, ledger.height)


async def check_statements(node: RestNode, ledger: Ledger, chance: random.Random, proven_from: int) -> None:
    for address in EVERYBODY:
        path = f"/account/0x{address.hex()}/statement"
        for _ in range(6):
            first, last = sorted(chance.choices(range(ledger.height + 1), k=2))
            gone = [touch for touch in ledger.touches.get(address, []) if last < touch < proven_from]
            if gone or first < earliest(ledger, address, proven_from, last):
                assert_problem(await node.get(f"{path}?from={first}&to={last}"), 404, "BLOCK_NOT_KEPT")
                continue
            check_statement(await proven(node, f"{path}?from={first}&to={last}", ProvenStatement), ledger, first, last)
        begins = earliest(ledger, address, proven_from, ledger.height)
        if begins <= ledger.height:
            check_statement(await proven(node, path, ProvenStatement), ledger, begins, ledger.height)


def check_statement(statement: ProvenStatement, ledger: Ledger, first: int, last: int) -> None:
    address = statement.address
    assert (statement.first, statement.last) == (first, last)
    assert statement.closing == ledger.held(address, last)
    assert statement.opening == (ledger.held(address, first - 1) if first else Account())
    touches = [touch for touch in ledger.touches.get(address, []) if first <= touch <= last]
    assert [entry.block.header.height for entry in statement.entries] == touches
    for height, entry in zip(touches, statement.entries, strict=True):
        assert [payment.tx for payment in entry.payments] == ledger.payments.get((address, height), [])
        assert entry.after == ledger.held(address, height)
