"""A chain of a network in which a test decides the blocks, and CometBFT's headers of it, signed with real keys."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from cairn.domain.certificates import SetMember, engine_chain_id, first_validators, in_engine_order
from cairn.domain.genesis import Genesis, dev_genesis
from cairn.domain.governance import ValidatorRecord
from cairn.domain.types import Address, Tx
from cairn.engine.application import Application, Feed
from cairn.engine.network.certificates import Certificates
from cairn.engine.network.commits import EngineCommit
from cairn.engine.network.rpc import RpcAway
from cairn.engine.network.steps import ValidatorSteps
from cairn.store.chain import ChainStore
from tests.support.commits import engine_header, key_of, seed_of, sign_commit
from tests.support.core_fixtures import ACCOUNTS

FOUR = dict.fromkeys(range(4), 10)
"""The first validators: numbers and powers."""
SEEDS = {key_of(number): seed_of(number) for number in range(8)}


def record(number: int, power: int) -> ValidatorRecord:
    return ValidatorRecord(key_of(number), power, ACCOUNTS[9], f"v{number}")


def network_genesis(powers: Mapping[int, int] = FOUR) -> Genesis:
    validators = tuple(record(*each) for each in powers.items())
    return msgspec.structs.replace(dev_genesis(), validators=validators, signer=None)


class ScriptedRpc:
    """Answers `commit` as the CometBFT of the chain would."""

    def __init__(self, chain: "SignedChain") -> None:
        self._chain = chain
        self.asked: list[int | None] = []
        self.is_away = False
        self.base = 1
        self.is_ahead = False
        """The next block is decided, and not yet committed here."""
        self.absent: Callable[[int], list[bytes]] = lambda height: []
        """Who has not voted on a height."""

    @property
    def height(self) -> int:
        return self._chain.store.visible + self.is_ahead

    async def commit(self, height: int | None = None) -> EngineCommit | None:
        self.asked.append(height)
        if self.is_away:
            raise RpcAway("scripted")
        at = self.height if height is None else height
        if not self.base <= at <= self.height or at == 0:
            return None
        validators = self._chain.validators_at(at)
        following = self._chain.validators_at(at + 1)
        header = engine_header(self._chain.engine_id, at, self._chain.app_hashes[at - 1], validators, following)
        return sign_commit(header, validators, SEEDS, self.absent(at), is_canonical=at < self.height)


class SignedChain:
    """Like `NetworkEngine`, as far as signatures go."""

    def __init__(self, directory: Path, genesis: Genesis | None = None) -> None:
        self.genesis = genesis or network_genesis()
        self.engine_id = engine_chain_id(self.genesis)
        self._directory = directory
        self._sets = [first_validators(self.genesis)]
        """After each block."""
        self.app_hashes: list[bytes] = []
        self.rpc = ScriptedRpc(self)
        self.added = 0
        self.open()
        self.app_hashes.append(self.store.state_block_hash)

    def open(self) -> None:
        self.store = ChainStore.open(self._directory, self.genesis)
        self._blocks = Application(self.store, Feed())
        self.steps = ValidatorSteps(self.store, self.rpc, self._count)
        self.certificates = Certificates(self.store, self.steps, self.rpc)

    def reopen(self, directory: Path | None = None) -> None:
        """Open the store again, or that of another node."""
        self.store.close()
        self._directory = directory or self._directory
        self.open()

    def _count(self) -> None:
        self.added += 1

    def validators_at(self, height: int) -> tuple[SetMember, ...]:
        """Who signs CometBFT's header of this height: a block acts two heights later."""
        return self._sets[max(0, height - 2)]

    def decide(
        self,
        *txs: Tx,
        powers: Mapping[int, int] | None = None,
        is_known: bool = True,
        absent: Sequence[bytes] | None = None,
    ) -> int:
        """A block of these transactions, or one that sets the validators. Returns its height.

        Unless `is_known`, the node ends before it has looked at it. `absent` did not vote on the block before.
        """
        before = self.store.governance
        assert before is not None
        change = None
        if powers is not None:
            validators = tuple(sorted((record(*each) for each in powers.items()), key=lambda each: each.public_key))
            changes = before.set_changes + (validators != before.validators)
            changed_at = self.store.visible + 1 if changes > before.set_changes else before.set_changed_at
            after = {
                "sequence": before.sequence + 1,
                "validators": validators,
                "set_changes": changes,
                "set_changed_at": changed_at,
            }
            change = before, msgspec.structs.replace(before, **after)
        outcome = self._blocks.build(txs, 0, Address(bytes(20)), change)
        self._blocks.hold(outcome, absent)
        self._blocks.commit()
        assert self.store.governance is not None
        self._sets.append(in_engine_order((each.public_key, each.power) for each in self.store.governance.validators))
        self.app_hashes.append(self.store.state_block_hash)
        self.rpc.is_ahead = False
        if is_known:
            self.steps.committed(outcome)
        return outcome.block.header.height
