"""What must hold of every node after every step: it shows what the model says, and only that."""

import random

from cairn.domain.transactions import decode_record
from cairn.domain.types import Account, Address
from tests.simulation.ledger import Ledger
from tests.simulation.node import Node, Violation
from tests.simulation.setup import Tally

KEPT_EVIDENCE = 100


class Invariants:
    def __init__(self, ledger: Ledger, tally: Tally) -> None:
        self._ledger = ledger
        self._tally = tally
        self._hashes: dict[int, bytes] = {}
        """Of each block, as the first node had it."""
        self._checked: dict[int, int] = {}
        self._looked_at: dict[int, tuple[int, int, int, int]] = {}
        self._bases: dict[int, int] = {}

    def forget(self, node: Node) -> None:
        self._checked.pop(node.number, None)
        self._looked_at.pop(node.number, None)
        self._bases.pop(node.number, None)

    def check(self, node: Node, rng: random.Random) -> None:
        core = node.core
        if core is None or core.failed.done():
            return
        chain = core._chain
        if chain.visible < node.told:
            raise Violation("lost", f"{node.name} told of block {node.told} and ends at {chain.visible}")
        if chain.visible > self._ledger.height:
            raise Violation("agreement", f"{node.name} has block {chain.visible}, which was never decided")
        first = max(self._checked.get(node.number, -1) + 1, chain.base)
        for height in range(first, chain.visible + 1):
            self._check_block(node, height)
        self._checked[node.number] = chain.visible
        self._tally.count("prunes", chain.base > self._bases.get(node.number, chain.base))
        self._bases[node.number] = chain.base
        # Nothing that is on disk changes without an operation of the disk's.
        now = (node.life, chain.visible, chain.base, node.disk.ops)
        if self._looked_at.get(node.number) != now:
            self._looked_at[node.number] = now
            self._check_accounts(node, rng)

    def reverted(self, node: Node, height: int) -> None:
        """A dev chain went back: what was above is void."""
        self._hashes = {each: found for each, found in self._hashes.items() if each <= height}
        self._checked[node.number] = min(self._checked.get(node.number, -1), height)
        self._looked_at.pop(node.number, None)

    def check_hash(self, node: Node, height: int, block_hash: bytes) -> None:
        if self._hashes.setdefault(height, block_hash) != block_hash:
            raise Violation("agreement", f"{node.name} has another block {height} than was seen before")

    def expect_confirmed(self, node: Node, tx_hash: bytes, height: int) -> None:
        if self._ledger.confirmed.get(tx_hash, height) != height:
            raise Violation("events", f"{node.name} tells that 0x{tx_hash[:6].hex()} is in block {height}")

    def expect_account(self, node: Node, address: bytes, height: int, shown: Account) -> None:
        if height > self._ledger.height:
            return
        expected = self._ledger.states[height].account(address)
        if (shown.balance, shown.nonce) != expected:
            raise Violation(
                "account", f"{node.name} shows {shown} for 0x{address.hex()} at block {height}; it is {expected}"
            )

    def _check_block(self, node: Node, height: int) -> None:
        core = node.core
        assert core is not None
        chain = core._chain
        found = chain.find_header(height)
        if found is None:
            raise Violation("lost", f"{node.name} does not have block {height}, between {chain.base} and its head")
        block_hash, header = found
        self.check_hash(node, height, block_hash)
        model = self._ledger.blocks[height]
        hashes = b"".join(transfer.hash for transfer in model.transfers)
        gas_used = sum(transfer.gas_used for transfer in model.transfers)
        if chain.tx_hashes(height) != hashes or (header.gas_used, header.tx_count) != (gas_used, len(model.transfers)):
            raise Violation("model", f"{node.name} has other transfers in block {height}")
        stored = [decode_record(record).data for record in chain.records(height)]
        if stored != [transfer.data for transfer in model.transfers]:
            raise Violation("model", f"{node.name} has other data in block {height}")
        if height and header.proposer != model.proposer:
            raise Violation("model", f"{node.name} gives the fees of block {height} to another")
        previous = self._hashes.get(height - 1)
        if previous is not None and header.previous_hash != previous:
            raise Violation("agreement", f"block {height} of {node.name} does not follow block {height - 1}")

    def _check_accounts(self, node: Node, rng: random.Random) -> None:
        core = node.core
        assert core is not None
        chain = core._chain
        state = self._ledger.states[chain.visible]
        total = 0
        for address in state.balances.keys() | state.nonces.keys():
            stored, cached = chain.account_at(Address(address), chain.visible), chain.account(Address(address))
            total += stored.balance
            self.expect_account(node, address, chain.visible, stored)
            self.expect_account(node, address, chain.visible, cached)
        if total != self._ledger.total:
            raise Violation("money", f"{node.name} has {total} in all; there is {self._ledger.total}")
        height = rng.randint(chain.base, chain.visible)
        for address in state.balances:
            self.expect_account(node, address, height, chain.account_at(Address(address), height))
        governance = chain.governance
        if governance is not None:
            shown = {each.public_key: (each.power, bytes(each.fee_recipient)) for each in governance.validators}
            if shown != dict(state.validators) or governance.sequence != state.sequence:
                raise Violation("validators", f"{node.name} has other validators at block {chain.visible}")
            admins = governance.admins
            if (None if admins is None else (admins.threshold, admins.addresses)) != state.admins:
                raise Violation("administrators", f"{node.name} has other administrators at block {chain.visible}")
            kept = tuple((each.kind, each.engine_address, each.height) for each in governance.evidence)
            if kept != state.evidence[-KEPT_EVIDENCE:] or governance.evidence_count != len(state.evidence):
                raise Violation("evidence", f"{node.name} has other evidence at block {chain.visible}")
