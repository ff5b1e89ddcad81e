"""Changes of validators: each as a header that those before it signed, from genesis on, kept forever.

Block H changes the validators from CometBFT's block H+2 on. The header of H+1 names them, and those before sign it. Its
votes are final with block H+2, which holds them: so every node keeps the same. CometBFT keeps that header until it is
stored here. What is missing after a crash follows from the store: it has the validators of every block that changed
them.
"""

import asyncio
from collections import deque
from collections.abc import Callable

import msgspec
import structlog

from cairn.domain.certificates import (
    SetMember,
    Step,
    engine_chain_id,
    first_validators,
    members_of,
    signed_height,
    validator_set_hash,
)
from cairn.domain.errors import Corrupt, InvalidProof
from cairn.domain.transition import BlockOutcome
from cairn.engine.network.commits import CommitSource, signed_header
from cairn.engine.network.rpc import RpcAway
from cairn.store.chain import ChainStore

RETRY_S = 1.0
"""While CometBFT does not answer."""
NONE_MISSING = 2**63
"""Above every height."""

log = structlog.get_logger("cairn.certificates")


class _Change(msgspec.Struct, frozen=True):
    """A block that changed the validators, and those after it."""

    height: int
    validators: tuple[SetMember, ...]


class ValidatorSteps:
    def __init__(self, chain: ChainStore, rpc: CommitSource, on_added: Callable[[], None]) -> None:
        """`on_added` is called when a step was stored."""
        self._chain = chain
        self._rpc = rpc
        self._on_added = on_added
        self._chain_id = engine_chain_id(chain.genesis)
        self._asking = asyncio.Lock()
        self._due = asyncio.Event()
        self.load()

    def load(self) -> None:
        """Take what the store has, at a start or after a snapshot was restored. Raises `Corrupt`."""
        chain = self._chain
        self._steps = [(signed_height(step.signed), step) for step in chain.steps()]
        """The height of its header, and the step; ascending."""
        self._missing: deque[_Change] = deque()
        last_height, last_set = self._last()
        for height, governance in chain.governance_from(last_height):
            validators = members_of(governance)
            if validators != last_set:
                self._missing.append(_Change(height, validators))
                last_set = validators
        expected = 0 if chain.governance is None else chain.governance.set_changes
        if len(self._steps) + len(self._missing) != expected:
            raise Corrupt(
                f"the validators have changed {expected} times, and the store has {len(self._steps)} of the signed "
                f"headers of that; {len(self._missing)} are yet to come"
            )
        self._note_missing()

    def _last(self) -> tuple[int, tuple[SetMember, ...]]:
        """The height of the newest step's header, and who signs after it."""
        if not self._steps:
            return 0, first_validators(self._chain.genesis)
        height, step = self._steps[-1]
        return height, step.validators

    def _note_missing(self) -> None:
        # One number, which a thread may read at any time.
        self.oldest_missing = self._missing[0].height if self._missing else NONE_MISSING
        """The oldest block whose change of validators has no step here."""
        if self._is_due():
            self._due.set()
        else:
            self._due.clear()

    def _is_due(self) -> bool:
        """Whether the votes for the next step are final."""
        return self.oldest_missing + 2 <= self._chain.visible

    def committed(self, outcome: BlockOutcome) -> None:
        if outcome.governance is not None:
            validators = members_of(outcome.governance)
            before = self._missing[-1].validators if self._missing else self._last()[1]
            if validators != before:
                self._missing.append(_Change(outcome.block.header.height, validators))
        if self._missing:
            self._note_missing()

    def up_to(self, height: int) -> tuple[list[Step], tuple[SetMember, ...]] | None:
        """The steps before the engine's header of this height, and who signs it; None if one is missing."""
        if self.oldest_missing + 1 < height:
            return None
        steps = [step for at, step in self._steps if at < height]
        return steps, steps[-1].validators if steps else first_validators(self._chain.genesis)

    async def run(self) -> None:
        """Store each step as soon as it is final, until cancelled. Raises `StoreUnavailable` or `Corrupt`."""
        told = ""
        while True:
            await self._due.wait()
            try:
                await self.collect()
                told = ""
            except (RpcAway, TimeoutError, InvalidProof) as failure:
                reason = str(failure) or "it takes too long"
                if reason != told:
                    log.warning("CometBFT gives no signatures for a change of validators", reason=reason)
                told = reason
            if self._due.is_set():
                await asyncio.sleep(RETRY_S)

    async def collect(self) -> None:
        """Store the steps that are final. Raises `RpcAway`, `TimeoutError`, or `InvalidProof` for a wrong one."""
        async with self._asking:
            while self._missing and await self._store_next(self._missing[0]):
                self._missing.popleft()
                self._note_missing()
                self._on_added()

    async def _store_next(self, change: _Change) -> bool:
        """Store the step of a change; False if the votes for it are not final."""
        commit = await self._rpc.commit(change.height + 1)
        if commit is None and self._is_due():
            raise InvalidProof(
                f"CometBFT does not have header {change.height + 1} any more: nothing can be proven here until this "
                "node starts from a snapshot"
            )
        if commit is None or not commit.is_canonical:
            return False
        if commit.header.next_validators_hash != validator_set_hash(change.validators):
            raise InvalidProof(f"the validators after block {change.height} are not those that CometBFT names")
        signed = await signed_header(commit, self._last()[1], self._chain_id)
        step = Step(signed, change.validators)
        self._chain.add_step(step)
        self._steps.append((commit.header.height, step))
        log.info("stored the signatures for a change of validators", block=change.height)
        return True
