"""What the bytes of a transaction mean, remembered: recovering the sender is what checking a transaction costs."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from cairn.domain.codec import decode_tx
from cairn.domain.errors import InvalidField, Rejected
from cairn.domain.governance import ValidatorUpdate, decode_update, is_update
from cairn.domain.types import Tx
from cairn.engine.network.bundle import Bundle, is_bundle, open_bundle

Meaning = Tx | ValidatorUpdate | Bundle
Parsed = Meaning | Rejected
"""A transfer, a validator update, a bundle of transfers, or the reason why the bytes are none of them."""

REMEMBERED = 32_768
THREADS = 2
FEW = 128
"""So many are recovered at once: handing them to a thread and back costs more than the moment that the loop waits."""
CHUNK = 64
"""How many a thread takes at once."""


def parse(raw: bytes, chain_id: int) -> Tx | ValidatorUpdate | Rejected:
    """Read bytes of anybody's making that are no bundle."""
    try:
        return decode_update(raw) if is_update(raw) else decode_tx(raw, chain_id)
    except Rejected as refusal:
        return refusal


class Senders:
    """A bounded memory of transactions by their bytes. What is refused is not remembered: it may be anything."""

    def __init__(self, chain_id: int, remembered: int = REMEMBERED) -> None:
        self._chain_id = chain_id
        self._remembered = remembered
        self._known: dict[bytes, Meaning] = {}
        # libsecp256k1 runs without the interpreter lock, so the event loop goes on meanwhile.
        self._threads = ThreadPoolExecutor(THREADS, "senders")

    def find(self, raw: bytes) -> Meaning | None:
        return self._known.get(raw)

    def remember(self, raw: bytes, meaning: Meaning) -> None:
        known = self._known
        known[raw] = meaning
        if len(known) > self._remembered:
            del known[next(iter(known))]

    def find_all(self, raws: Sequence[bytes]) -> list[Parsed] | None:
        """What all of them mean, when every one is remembered."""
        known = self._known
        found: list[Parsed] = []
        for raw in raws:
            meaning = known.get(raw)
            if meaning is None:
                return None
            found.append(meaning)
        return found

    async def resolve(self, raws: Sequence[bytes]) -> list[Parsed]:
        """What each of them means, in their order."""
        resolved: dict[bytes, Parsed] = {}
        inside: dict[bytes, list[bytes]] = {}
        for raw in raws:
            known = self._known.get(raw)
            if known is not None:
                # Its own copy: what is remembered may be forgotten while others are recovered.
                resolved[raw] = known
            elif is_bundle(raw):
                try:
                    inside[raw] = open_bundle(raw)
                except Rejected as refusal:
                    resolved[raw] = refusal
        single = [raw for raw in raws if raw not in resolved and raw not in inside]
        resolved |= await self._recover(dict.fromkeys(single + [raw for opened in inside.values() for raw in opened]))
        for raw, opened in inside.items():
            resolved[raw] = self._gathered(raw, opened, resolved)
        return [resolved[raw] for raw in raws]

    async def _recover(self, raws: Iterable[bytes]) -> dict[bytes, Parsed]:
        known = self._known
        resolved: dict[bytes, Parsed] = {}
        missing = []
        for raw in raws:
            if (meaning := known.get(raw)) is None:
                missing.append(raw)
            else:
                resolved[raw] = meaning
        for raw, parsed in zip(missing, await self._parse_all(missing), strict=True):
            resolved[raw] = parsed
            if not isinstance(parsed, Rejected):
                self.remember(raw, parsed)
        return resolved

    def _gathered(self, raw: bytes, opened: list[bytes], resolved: Mapping[bytes, Parsed]) -> Parsed:
        """A bundle is what all in it are: one that is no transfer spoils it, since whoever made it must have known."""
        txs = []
        for inner in opened:
            meaning = resolved[inner]
            if not isinstance(meaning, Tx):
                return meaning if isinstance(meaning, Rejected) else InvalidField("bundle", "holds no mere transfers")
            txs.append(meaning)
        bundle = Bundle(tuple(opened), tuple(txs))
        self.remember(raw, bundle)
        return bundle

    async def _parse_all(self, raws: list[bytes]) -> list[Tx | ValidatorUpdate | Rejected]:
        if len(raws) <= FEW:
            return self._parse_chunk(raws)
        loop = asyncio.get_running_loop()
        chunks = [raws[start : start + CHUNK] for start in range(0, len(raws), CHUNK)]
        parsed = await asyncio.gather(
            *(loop.run_in_executor(self._threads, self._parse_chunk, chunk) for chunk in chunks)
        )
        return [item for chunk in parsed for item in chunk]

    def _parse_chunk(self, raws: list[bytes]) -> list[Tx | ValidatorUpdate | Rejected]:
        return [parse(raw, self._chain_id) for raw in raws]

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
