"""Chains that live through everything that a node may: payments, other signers, pruning, backups, syncs, imports."""

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cairn.domain.certificates import (
    SetMember,
    check_certificate,
    engine_address,
    engine_chain_id,
    first_validators,
    lone_certificate,
    sign_block,
)
from cairn.domain.errors import NotSignedYet
from cairn.domain.genesis import Genesis, dev_genesis, encode_genesis, parse_genesis
from cairn.domain.history import history_path
from cairn.domain.transactions import encode_record
from cairn.domain.transition import build_block
from cairn.domain.types import Address, Tx
from cairn.store.backups import check_data, complete_copy, data_files, write_backup
from cairn.store.chain import ChainStore
from cairn.store.chain_export import export_chain
from cairn.store.chain_import import ExportReader, import_chain
from cairn.store.directory import journal_path
from cairn.store.history import Search, search_history
from cairn.store.hot_copy import COPY_DIRECTORY, CopiedStore
from cairn.store.journal import Journal
from cairn.store.signing_key import SigningKey
from cairn.store.state_proofs import prove_account
from tests.support.signed_chain import FOUR, SignedChain, network_genesis
from tests.support.signing import KEY
from tests.support.snapshots import PEOPLE, pay, restore_snapshot, take_snapshot
from tests.support.tx_data import data_by_number

SEGMENT_BYTES = 4_096
WAITS = 8
"""The account whose transactions stay in the mempool."""


class Life:
    """One node after the other that has the same chain, each in a directory of its own."""

    genesis: Genesis

    def __init__(self, root: Path) -> None:
        self._root = root
        self._places = 0
        self._paid = 0
        self.directory = self._new_place()

    @property
    def chain(self) -> ChainStore:
        raise NotImplementedError

    @property
    def oldest_prunable(self) -> int:
        """A node removes no block from this one on."""
        raise NotImplementedError

    # What may happen.

    def pay(self, count: int = 2) -> None:
        """A block of payments, some with data and some to new accounts."""
        txs: list[Tx] = []
        for _ in range(count):
            self._paid += 1
            to = PEOPLE[self._paid % 10] if self._paid % 3 else Address(bytes(16) + self._paid.to_bytes(4, "little"))
            txs.append(pay(self.chain, self._paid % 3, to, self._paid, txs, data_by_number(self._paid)))
        self.decide(txs)

    def rest(self) -> None:
        """A block in which nothing happens."""
        self.decide([])

    def change_signers(self) -> None:
        raise NotImplementedError

    def decide(self, txs: Sequence[Tx]) -> None:
        raise NotImplementedError

    def accept(self) -> None:
        """A transaction that stays in the mempool."""
        journal = self._journal(self.directory, self.chain)
        tx = pay(self.chain, WAITS, PEOPLE[1], 1, [entry.tx for entry in journal.recovered])
        journal.append_add(7, tx, encode_record(tx))
        journal.sync()
        journal.close()

    def prune(self, blocks: int) -> None:
        """Remove so many blocks, if the node may."""
        self.chain.prune(max(self.chain.base, min(self.chain.base + blocks, self.oldest_prunable)), lambda: None)

    def back_up_and_restore(self) -> None:
        """Go on with a hot backup."""
        chain = self.chain
        journal = self._journal(self.directory, chain)
        place = self.directory / COPY_DIRECTORY
        place.mkdir()
        extent = chain.hot_copy.link(journal)
        copied = CopiedStore(chain.visible, chain.head_hash, chain.base, extent, len(journal.recovered))
        complete_copy(place, copied)
        backup = self._new_place()
        write_backup(backup, data_files(place, extent), None, lambda size: None)
        journal.close()
        shutil.rmtree(place)
        assert check_data(backup / "data", self.genesis).pending == copied.pending
        self.reopen(backup / "data")

    def export_and_import(self) -> None:
        """Go on with what an import makes of an export."""
        lines, place = self.exported(), self._new_place()
        import_chain(ExportReader(lines), place)
        self.reopen(place)

    def reopen(self, directory: Path | None = None) -> None:
        raise NotImplementedError

    # What it is compared by.

    def exported(self, directory: Path | None = None) -> list[bytes]:
        """The lines of an export beside the node, or of what is in another directory."""
        lines: list[bytes] = []
        export_chain(directory or self.directory, self.genesis, lines.append, "test")
        return lines

    def answers(self) -> dict[str, Any]:
        """All that can be asked of the blocks that are kept."""
        chain = self.chain
        heights = range(chain.base, chain.visible + 1)
        # First: a node of a network may store changes of validators when it is asked.
        signed = [self.signed(height) for height in heights if height]
        people = [address for address, _ in chain.accounts_at(chain.visible)]
        missed = chain.missed_votes
        return {
            "head": (chain.base, chain.visible, chain.head_hash, chain.tree.root, chain.history.root),
            "signers": (chain.steps(), chain.governance, [chain.has_governance(height) for height in heights]),
            "votes": (missed.blocks, missed.by_validator()),
            "blocks": [(chain.find_header(height), list(chain.records(height))) for height in heights],
            "paths": [history_path(chain.read_history_node, chain.visible, height) for height in heights[:-1]],
            "accounts": [chain.account_at(address, height) for address in people for height in heights],
            "proofs": [prove_account(chain, address, chain.head_header) for address in [*people, Address(b"?" * 20)]],
            "changes": [self._touches(address) for address in people],
            "searches": [list(search_history(chain, Search(address))) for address in people],
            "signed": signed,
        }

    def _touches(self, address: Address) -> list[Any]:
        """What each block but the oldest did to the account, as proofs of it have it."""
        chain = self.chain
        found = chain.versions_between(address, chain.base + bool(chain.base), chain.visible, 1_000)
        return [
            (version.height, version.account, version.touched_before, version.index, version.uses) for version in found
        ]

    def signed(self, height: int) -> Any:
        """The certificate of a block; it was checked."""
        raise NotImplementedError

    def _journal(self, directory: Path, chain: ChainStore) -> Journal:
        return Journal.open(journal_path(directory), chain.watermark, SEGMENT_BYTES)

    def _new_place(self) -> Path:
        self._places += 1
        return self._root / str(self._places)


class LoneLife(Life):
    """A node that makes its blocks alone, and whose key changes."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.genesis = dev_genesis()
        self._key = KEY
        self._chain = ChainStore.open(self.directory, self.genesis)
        self._keys = 0

    @property
    def chain(self) -> ChainStore:
        return self._chain

    @property
    def oldest_prunable(self) -> int:
        return self._chain.visible

    def decide(
        self, txs: Sequence[Tx], successor: SigningKey | None = None, balances: dict[Address, int] | None = None
    ) -> None:
        chain = self._chain
        header, rules = chain.head_header, self.genesis.rules
        made = build_block(
            header, chain.head_hash, chain, txs, header.timestamp + 1, PEOPLE[9], rules, balances=balances
        )
        following = None if successor is None else successor.public_key
        chain_id, key = engine_chain_id(self.genesis), self._key
        chain.commit(
            made, signed=sign_block(made.block.header, made.block.hash, chain_id, key.public_key, key.sign, following)
        )
        self._key = successor or key

    def change_signers(self) -> None:
        self._keys += 1
        self.decide([], SigningKey(self._keys.to_bytes(32, "big")))

    def set_balances(self) -> None:
        self.decide([], balances={PEOPLE[7]: 12_345, PEOPLE[4]: 10**20 + self._chain.visible})

    def reopen(self, directory: Path | None = None) -> None:
        self._chain.close()
        self.directory = directory or self.directory
        self._chain = ChainStore.open(self.directory, self.genesis)

    def signed(self, height: int) -> Any:
        chain, genesis = self._chain, self.genesis
        found, signature = chain.find_header(height), chain.find_signature(height)
        assert found is not None
        assert signature is not None
        certificate = lone_certificate(
            found[1], signature, engine_chain_id(genesis), first_validators(genesis), chain.steps()
        )
        check_certificate(certificate, genesis)
        return certificate


class NetworkLife(Life):
    """A node of a network whose validators change, and miss votes."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        # Its validators in the order in which every file has them.
        self.genesis = parse_genesis(encode_genesis(network_genesis()))
        self._network = SignedChain(self.directory, self.genesis)
        self._powers = dict(FOUR)
        self._changes = 0
        self._last_changed: list[int] = [0]
        """Heights of the blocks that changed the state."""

    @property
    def chain(self) -> ChainStore:
        return self._network.store

    @property
    def oldest_prunable(self) -> int:
        signed = max(height for height in self._last_changed if height < max(1, self.chain.visible))
        return min(signed, self._network.steps.oldest_missing)

    def decide(self, txs: Sequence[Tx], powers: dict[int, int] | None = None) -> None:
        network = self._network
        height = network.decide(*txs, powers=powers, absent=self._absent(network.validators_at(self.chain.visible)))
        if txs or powers:
            self._last_changed.append(height)

    def _absent(self, validators: Sequence[SetMember]) -> list[bytes]:
        number = self.chain.visible % (len(validators) + 1)
        return [] if number == len(validators) else [engine_address(validators[number].key)]

    def change_signers(self) -> None:
        """Another validator comes, or goes, or a name changes and nobody comes or goes."""
        self._changes += 1
        number = self._changes % 3 + 3
        if number == 3:
            self.decide([], self._powers)
            return
        self._powers = {each: power for each, power in self._powers.items() if each != number} | (
            {} if number in self._powers else {number: 5}
        )
        self.decide([], self._powers)

    def collect(self) -> None:
        """Store the signed headers of changes of validators that are final."""
        asyncio.run(self._network.steps.collect())

    def sync_another(self) -> None:
        """Go on with a node that starts from a snapshot of this one's latest block."""
        self.pay()
        while self._network.steps.oldest_missing < self.chain.visible:
            self.pay()
            self.collect()
        parcel, place = take_snapshot(self.chain), self._new_place()
        joining = ChainStore.open(place, self.genesis)
        self._journal(place, joining).close()
        restore_snapshot(joining, parcel)
        joining.close()
        self.reopen(place)

    def reopen(self, directory: Path | None = None) -> None:
        self.directory = directory or self.directory
        self._network.reopen(self.directory)

    def answers(self) -> dict[str, Any]:
        found = super().answers()
        return found | {"app hash": self.chain.state_block_hash, "missing": self._network.steps.oldest_missing}

    def signed(self, height: int) -> Any:
        try:
            certificate = asyncio.run(self._network.certificates.certificate(height))
        except NotSignedYet as refusal:
            return str(refusal)
        check_certificate(certificate, self.genesis)
        return certificate
