"""Certificates of a network: blocks with the signatures of the validators, as CometBFT has them."""

import asyncio

import msgspec

from cairn.domain.certificates import Certificate, engine_chain_id
from cairn.domain.errors import EngineUnavailable, InvalidProof, NotSignedYet
from cairn.domain.headers import encode_header
from cairn.domain.json_fields import hex_text
from cairn.domain.lru_cache import LruCache
from cairn.domain.types import BlockHash, BlockHeader
from cairn.engine.network.commits import CommitSource, EngineCommit, signed_header
from cairn.engine.network.rpc import RpcAway
from cairn.engine.network.steps import ValidatorSteps
from cairn.store.chain import ChainStore

KEPT = 64
"""Certificates that are kept in memory. With a hundred validators each has about 30 kB, without the steps."""
MOST_AT_ONE_HEAD = 8
"""Old blocks whose own signatures are looked for before the next block comes: with a hundred validators that takes a
tenth of a second. For more of them the newest signatures serve as well, whoever asks."""
RETRY_S = 1.0
"""So long the newest signatures are not asked for again if they were of no use, unless there is a new block."""


class _Known(msgspec.Struct, frozen=True):
    block: int
    """The height of the block that the certificate is for."""
    certificate: Certificate


class _Miss(msgspec.Struct, frozen=True):
    """The newest signatures are of no use yet."""

    head: int
    until: float
    why: str | None
    """They prove nothing; None if only what they name is missing here."""


class Certificates:
    """Whoever asks again for the same block, or for the newest before there is a new one, costs CometBFT nothing."""

    def __init__(self, chain: ChainStore, steps: ValidatorSteps, rpc: CommitSource) -> None:
        self._chain = chain
        self._steps = steps
        self._rpc = rpc
        self._chain_id = engine_chain_id(chain.genesis)
        self._asking = asyncio.Lock()
        self._kept: LruCache[int, _Known] = LruCache(KEPT)
        """Those that name their block directly, by its height."""
        self._newest: tuple[int, _Known] | None = None
        """With the head at which it was asked for."""
        self._miss: _Miss | None = None
        self._looked_at = self._looks = 0
        """How many old blocks were looked for at this head."""
        self._failures = 0

    async def certificate(self, height: int | None) -> Certificate:
        """One that names the block itself, or else the newest, if that is not for an older block.

        Raises `NotSignedYet` or `EngineUnavailable`.
        """
        failures = self._failures
        async with self._asking:
            # Who has waited behind a time-out does not wait for one more.
            if failures != self._failures:
                raise EngineUnavailable("CometBFT does not answer")
            try:
                found = None if height is None else await self._find_direct(height)
                found = found or await self._find_newest()
            except (RpcAway, TimeoutError) as away:
                self._failures += 1
                raise EngineUnavailable(f"CometBFT does not answer: {str(away) or 'it takes too long'}") from None
            except InvalidProof as wrong:
                self._failures += 1
                raise EngineUnavailable(f"CometBFT's signatures prove nothing: {wrong}") from None
        if found is None or (height is not None and found.block < height):
            raise NotSignedYet.of(height, None if found is None else found.block)
        return found.certificate

    async def _find_direct(self, height: int) -> _Known | None:
        known = self._kept.use(height)
        block = self._chain.find_header(height)
        if known is not None or block is None or not self._is_named(height, block[1]) or not self._may_look():
            return known
        commit = await self._rpc.commit(height + 1)
        # CometBFT may not have it any more.
        return None if commit is None else await self._certify(commit)

    def _is_named(self, height: int, header: BlockHeader) -> bool:
        """Whether the header of CometBFT after this block exists and names it: it changed the state."""
        is_change = header.tx_count > 0 or height == 0 or self._chain.has_governance(height)
        return is_change and height < self._chain.visible

    def _may_look(self) -> bool:
        if self._looked_at != self._chain.visible:
            self._looked_at, self._looks = self._chain.visible, 0
        self._looks += 1
        return self._looks <= MOST_AT_ONE_HEAD

    async def _find_newest(self) -> _Known | None:
        head, now = self._chain.visible, asyncio.get_running_loop().time()
        if self._newest is not None and self._newest[0] == head:
            return self._newest[1]
        miss = self._miss
        if miss is None or miss.head != head or now >= miss.until:
            try:
                commit = await self._rpc.commit()
                known = None if commit is None else await self._certify(commit)
                why = None
            except InvalidProof as wrong:
                known, why = None, str(wrong)
            if known is not None:
                self._newest = head, known
                return known
            # Each look may take a call of CometBFT and a hundred verifications, whoever asks.
            self._miss = miss = _Miss(head, now + RETRY_S, why)
        if miss.why is not None:
            raise InvalidProof(miss.why)
        return None

    async def _certify(self, commit: EngineCommit) -> _Known | None:
        """None if the block that it names is not here any more, or a change of validators before it is not final."""
        height = self._chain.find_height(BlockHash(commit.header.app_hash))
        block = None if height is None else self._chain.find_header(height)
        if self._steps.up_to(commit.header.height) is None:
            await self._steps.collect()
        signers = self._steps.up_to(commit.header.height)
        if block is None or signers is None:
            return None
        steps, validators = signers
        signed = await signed_header(commit, validators, self._chain_id)
        header = block[1]
        known = _Known(header.height, Certificate(tuple(steps), signed, hex_text(encode_header(header))))
        if commit.is_canonical and commit.header.height == header.height + 1:
            self._kept.keep(header.height, known)
        return known
