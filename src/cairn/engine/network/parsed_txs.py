"""A cache of parsed transactions: recovering the sender is the main cost of a check."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from cairn.domain.errors import InvalidField, Rejected
from cairn.domain.governance import Update, decode_update, is_update
from cairn.domain.lru_cache import LruCache
from cairn.domain.transactions import decode_tx
from cairn.domain.types import Tx
from cairn.engine.network.bundle import Bundle, first_in, is_bundle, open_bundle

Single = Tx | Update
"""A CometBFT transaction that is not a bundle."""
Parsed = Single | Bundle | Rejected
"""A transfer, a validator update, a bundle of transfers, or the reason why the bytes are invalid."""

REMEMBERED = 131_072
"""More than the mempool holds, so that rechecks after a block need no recovery."""
BUNDLED = 32_768
"""The most transfers in all cached bundles together."""
THREADS = 2
FEW = 128
"""Up to this many of a block are recovered on the event loop: a thread would cost more."""
FEW_CHECKED = 32
"""Up to this many checks are recovered on the event loop. Checks may come without end, and must not hold up blocks."""
CHUNK = 64
"""How many a thread takes at once."""


def parse(raw: bytes, chain_id: int, base_fee: int) -> Single | Rejected:
    """Parse untrusted bytes that are not a bundle."""
    try:
        return decode_update(raw) if is_update(raw) else decode_tx(raw, chain_id, base_fee)
    except Rejected as refusal:
        return refusal


class ParsedTxs:
    """A bounded cache of transactions by their bytes: accepted ones, and those in blocks.

    Refused ones are not cached: an attacker can make any number of them, and they must not displace what is checked
    again after every block. Bundles have their own cache: the same transfers can be in any number of bundles, which
    must not displace transfers.
    """

    def __init__(self, chain_id: int, base_fee: int) -> None:
        self._chain_id = chain_id
        self._base_fee = base_fee
        self._bundles: LruCache[bytes, Bundle] = LruCache(BUNDLED, weigh=lambda bundle: len(bundle.txs))
        self._known: LruCache[bytes, Single] = LruCache(REMEMBERED)
        # libsecp256k1 releases the interpreter lock, so the event loop continues.
        self._threads = ThreadPoolExecutor(THREADS, "parse")
        # Separate threads: a block must never wait for transactions from peers.
        self._block_threads = ThreadPoolExecutor(THREADS, "parse-block")

    def find(self, raw: bytes) -> Single | Bundle | None:
        """The parsed transaction, if it needs no recovery."""
        if not is_bundle(raw):
            return self._known.get(raw)
        if (bundle := self._bundles.get(raw)) is not None:
            return bundle
        try:
            # Mostly the first transfer of a new bundle is new: then the rest need not be unpacked.
            if not self.known(first_in(raw, 1)):
                return None
            found = gather(open_bundle(raw), self._known)
        except (Rejected, KeyError):
            return None
        if not isinstance(found, Bundle):
            return None
        self.remember_bundle(raw, found)
        return found

    def keep(self, raw: bytes, accepted: Single | Bundle) -> None:
        """Cache an accepted transaction."""
        if isinstance(accepted, Bundle):
            for inner, tx in zip(accepted.raws, accepted.txs, strict=True):
                self.remember(inner, tx)
            self.remember_bundle(raw, accepted)
        else:
            self.remember(raw, accepted)

    def remember(self, raw: bytes, single: Single) -> None:
        self._known.keep(raw, single)

    def remember_bundle(self, raw: bytes, bundle: Bundle) -> None:
        self._bundles.keep(raw, bundle)

    def find_all(self, raws: Sequence[bytes]) -> list[Parsed] | None:
        """All of them parsed, if none needs a recovery."""
        found: list[Parsed] = []
        for raw in raws:
            opened = self.find(raw)
            if opened is None:
                return None
            found.append(opened)
        return found

    def known(self, raws: Iterable[bytes]) -> dict[bytes, Single | Rejected]:
        """Those that need no recovery, parsed; none may be a bundle."""
        known = self._known
        return {raw: single for raw in raws if (single := known.get(raw)) is not None}

    async def read(self, raws: Sequence[bytes]) -> dict[bytes, Single | Rejected]:
        """Each of them parsed; none may be a bundle. Nothing is cached, since they are untrusted."""
        return dict(zip(raws, await self._parse_all(raws, self._threads, FEW_CHECKED), strict=True))

    async def resolve(self, raws: Sequence[bytes]) -> list[Parsed]:
        """Each item of a block parsed, in order, without waiting for transactions from peers."""
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
        singles = await self._recover(dict.fromkeys(single + [raw for opened in inside.values() for raw in opened]))
        resolved |= singles
        for raw, opened in inside.items():
            found = gather(opened, singles)
            if isinstance(found, Bundle):
                self.remember_bundle(raw, found)
            resolved[raw] = found
        return [resolved[raw] for raw in raws]

    async def _recover(self, raws: Iterable[bytes]) -> dict[bytes, Single | Rejected]:
        # A copy: the cache may forget entries while others are recovered.
        resolved = self.known(raws)
        missing = [raw for raw in raws if raw not in resolved]
        for raw, parsed in zip(missing, await self._parse_all(missing, self._block_threads, FEW), strict=True):
            resolved[raw] = parsed
            if not isinstance(parsed, Rejected):
                self.remember(raw, parsed)
        return resolved

    async def _parse_all(self, raws: Sequence[bytes], threads: ThreadPoolExecutor, few: int) -> list[Single | Rejected]:
        if len(raws) <= few:
            return self._parse_chunk(raws)
        loop = asyncio.get_running_loop()
        chunks = [raws[start : start + CHUNK] for start in range(0, len(raws), CHUNK)]
        parsed = await asyncio.gather(*(loop.run_in_executor(threads, self._parse_chunk, chunk) for chunk in chunks))
        return [item for chunk in parsed for item in chunk]

    def _parse_chunk(self, raws: Sequence[bytes]) -> list[Single | Rejected]:
        return [parse(raw, self._chain_id, self._base_fee) for raw in raws]

    def close(self) -> None:
        for threads in (self._threads, self._block_threads):
            threads.shutdown(wait=True, cancel_futures=True)


def gather(opened: Sequence[bytes], singles: Mapping[bytes, Single | Rejected]) -> Bundle | Rejected:
    """A bundle of parsed transfers. One invalid transfer makes it invalid, since its maker must have known.

    Raises `KeyError` if one is not in `singles`.
    """
    txs = []
    for raw in opened:
        tx = singles[raw]
        if isinstance(tx, Rejected):
            return tx
        if not isinstance(tx, Tx):
            return InvalidField("bundle", "holds what is no transfer")
        txs.append(tx)
    return Bundle(tuple(opened), tuple(txs))
