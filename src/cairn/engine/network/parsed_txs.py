"""What the bytes of a transaction mean, remembered: recovering the sender is what checking a transaction costs."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from cairn.domain.codec import decode_tx
from cairn.domain.errors import InvalidField, Rejected
from cairn.domain.governance import ValidatorUpdate, decode_update, is_update
from cairn.domain.types import Tx
from cairn.engine.network.bundle import Bundle, first_in, is_bundle, open_bundle

Meaning = Tx | ValidatorUpdate
Parsed = Meaning | Bundle | Rejected
"""A transfer, a validator update, a bundle of transfers, or the reason why the bytes are none of them."""

REMEMBERED = 131_072
"""More than the mempool holds: what is checked again after every block must not be recovered again."""
BUNDLED = 32_768
"""How many transfers the remembered bundles hold at most, all together."""
THREADS = 2
FEW = 128
"""So many of a block are recovered on the loop: to hand them to a thread and back costs more than the loop loses."""
FEW_CHECKED = 32
"""The same for what is checked: it may come without end, and the loop has blocks to see to."""
CHUNK = 64
"""How many a thread takes at once."""


def parse(raw: bytes, chain_id: int, base_fee: int) -> Meaning | Rejected:
    """Read bytes of anybody's making that are no bundle."""
    try:
        return decode_update(raw) if is_update(raw) else decode_tx(raw, chain_id, base_fee)
    except Rejected as refusal:
        return refusal


class ParsedTxs:
    """A bounded memory of transactions by their bytes: those that were accepted, and those of blocks.

    What was refused is not remembered: anybody can make any number of transactions that nobody can pay for, and they
    must not push out what is checked again after every block. Bundles have a memory of their own: the same transfers
    make any number of bundles, and none may push transfers out.
    """

    def __init__(self, chain_id: int, base_fee: int, remembered: int = REMEMBERED, bundled: int = BUNDLED) -> None:
        self._chain_id = chain_id
        self._base_fee = base_fee
        self._remembered = remembered
        self._most_bundled = bundled
        self._bundles: OrderedDict[bytes, Bundle] = OrderedDict()
        self._bundled = 0
        """How many transfers they hold."""
        # Ordered: the first key of a plain dict is found past all that were ever removed before it.
        self._known: OrderedDict[bytes, Meaning] = OrderedDict()
        # libsecp256k1 runs without the interpreter lock, so the event loop goes on meanwhile.
        self._threads = ThreadPoolExecutor(THREADS, "senders")
        # A block must never stand in a line behind whatever peers put into the mempool.
        self._block_threads = ThreadPoolExecutor(THREADS, "block-senders")

    def find(self, raw: bytes) -> Meaning | Bundle | None:
        """What the bytes mean, when that needs no recovery."""
        if not is_bundle(raw):
            return self._known.get(raw)
        if (bundle := self._bundles.get(raw)) is not None:
            return bundle
        try:
            # A bundle of others is mostly new from its first transfer on: then the rest need not be opened.
            if not self.known(first_in(raw, 1)):
                return None
            found = gather(open_bundle(raw), self._known)
        except (Rejected, KeyError):
            return None
        if not isinstance(found, Bundle):
            return None
        self.remember_bundle(raw, found)
        return found

    def keep(self, raw: bytes, accepted: Meaning | Bundle) -> None:
        """Remember what was read of anybody's bytes and then accepted."""
        if isinstance(accepted, Bundle):
            for inner, tx in zip(accepted.raws, accepted.txs, strict=True):
                self.remember(inner, tx)
            self.remember_bundle(raw, accepted)
        else:
            self.remember(raw, accepted)

    def remember(self, raw: bytes, meaning: Meaning) -> None:
        known = self._known
        known[raw] = meaning
        # What is sent once more must not be the next one that is forgotten.
        known.move_to_end(raw)
        if len(known) > self._remembered:
            known.popitem(last=False)

    def remember_bundle(self, raw: bytes, bundle: Bundle) -> None:
        bundles = self._bundles
        if raw in bundles:
            return
        bundles[raw] = bundle
        self._bundled += len(bundle.txs)
        while self._bundled > self._most_bundled:
            _, forgotten = bundles.popitem(last=False)
            self._bundled -= len(forgotten.txs)

    def find_all(self, raws: Sequence[bytes]) -> list[Parsed] | None:
        """What all of them mean, when no recovery is needed for any."""
        found: list[Parsed] = []
        for raw in raws:
            opened = self.find(raw)
            if opened is None:
                return None
            found.append(opened)
        return found

    def known(self, raws: Iterable[bytes]) -> dict[bytes, Meaning | Rejected]:
        """What those of them mean, none a bundle, that need no recovery."""
        known = self._known
        return {raw: meaning for raw in raws if (meaning := known.get(raw)) is not None}

    async def read(self, raws: Sequence[bytes]) -> dict[bytes, Meaning | Rejected]:
        """What each of them means, none a bundle. Nothing is remembered: it may be anybody's."""
        return dict(zip(raws, await self._parse_all(raws, self._threads, FEW_CHECKED), strict=True))

    async def resolve(self, raws: Sequence[bytes]) -> list[Parsed]:
        """What each item of a block means, in their order, without a wait for what peers put into the mempool."""
        resolved: dict[bytes, Parsed] = {}
        inside: dict[bytes, list[bytes]] = {}
        single: list[bytes] = []
        for raw in raws:
            if not is_bundle(raw):
                single.append(raw)
                continue
            if (bundle := self._bundles.get(raw)) is not None:
                resolved[raw] = bundle
                continue
            try:
                inside[raw] = open_bundle(raw)
            except Rejected as refusal:
                resolved[raw] = refusal
        meanings = await self._recover(dict.fromkeys(single + [raw for opened in inside.values() for raw in opened]))
        resolved |= meanings
        for raw, opened in inside.items():
            found = gather(opened, meanings)
            if isinstance(found, Bundle):
                self.remember_bundle(raw, found)
            resolved[raw] = found
        return [resolved[raw] for raw in raws]

    async def _recover(self, raws: Iterable[bytes]) -> dict[bytes, Meaning | Rejected]:
        # Its own copy: what is remembered may be forgotten while others are recovered.
        resolved = self.known(raws)
        missing = [raw for raw in raws if raw not in resolved]
        for raw, parsed in zip(missing, await self._parse_all(missing, self._block_threads, FEW), strict=True):
            resolved[raw] = parsed
            if not isinstance(parsed, Rejected):
                self.remember(raw, parsed)
        return resolved

    async def _parse_all(
        self, raws: Sequence[bytes], threads: ThreadPoolExecutor, few: int
    ) -> list[Meaning | Rejected]:
        if len(raws) <= few:
            return self._parse_chunk(raws)
        loop = asyncio.get_running_loop()
        chunks = [raws[start : start + CHUNK] for start in range(0, len(raws), CHUNK)]
        parsed = await asyncio.gather(*(loop.run_in_executor(threads, self._parse_chunk, chunk) for chunk in chunks))
        return [item for chunk in parsed for item in chunk]

    def _parse_chunk(self, raws: Sequence[bytes]) -> list[Meaning | Rejected]:
        return [parse(raw, self._chain_id, self._base_fee) for raw in raws]

    def close(self) -> None:
        for threads in (self._threads, self._block_threads):
            threads.shutdown(wait=True, cancel_futures=True)


def gather(opened: Sequence[bytes], meanings: Mapping[bytes, Meaning | Rejected]) -> Bundle | Rejected:
    """A bundle is what all in it are: one that is refused spoils it, since whoever made it must have known.

    Raises `KeyError` when the meaning of one is missing.
    """
    txs = []
    for raw in opened:
        meaning = meanings[raw]
        if isinstance(meaning, Rejected):
            return meaning
        if not isinstance(meaning, Tx):
            return InvalidField("bundle", "holds what is no transfer")
        txs.append(meaning)
    return Bundle(tuple(opened), tuple(txs))
