"""Why a transfer is not confirmed yet: earlier nonces of its sender are missing, or the node no longer holds it."""

from collections.abc import Iterable, Sequence

from cairn.cli.shared.report import TimedOut
from cairn.client import AsyncClient
from cairn.client.errors import ConfirmationTimeout
from cairn.client.models import ConfirmedTransaction, MempoolItem, PendingTransaction


async def find_queued(node: AsyncClient, items: Sequence[MempoolItem]) -> set[str]:
    """The hashes of the queued transactions."""
    senders = {item.sender for item in items}
    following = {sender: (await node.account(sender)).pending_nonce for sender in senders}
    return {item.tx_hash for item in items if item.nonce > following[item.sender]}


async def find_missing(node: AsyncClient, sender: str, nonce: int) -> list[range]:
    """The nonces that `sender` has to send before one with `nonce` can be in a block."""
    following = (await node.account(sender)).pending_nonce
    if nonce <= following:
        return []
    held = {item.nonce async for item in node.pending(sender)}
    return gaps_between(following, nonce, held)


def gaps_between(first: int, nonce: int, held: Iterable[int]) -> list[range]:
    """The nonces from `first` up to `nonce` that are not `held`, as ranges, since there may be very many."""
    gaps = []
    for taken in [*sorted(each for each in held if first <= each < nonce), nonce]:
        gaps.append(range(first, taken))
        first = taken + 1
    return [gap for gap in gaps if gap]


def tell_missing(gaps: Sequence[range]) -> str:
    """`nonce 7 is missing`, `nonces 7 to 9, 12 are missing`."""
    told = ", ".join(str(gap[0]) if gap[0] == gap[-1] else f"{gap[0]} to {gap[-1]}" for gap in gaps)
    is_one = len(gaps) == 1 and gaps[0][0] == gaps[0][-1]
    return f"nonce {told} is missing" if is_one else f"nonces {told} are missing"


def tell_not_held(tx: PendingTransaction) -> str:
    """`replaced here by 0x12…: another node may still confirm it`."""
    by = f" by {tx.replaced_by}" if tx.replaced_by else ""
    return f"{tx.not_held} here{by}: another node may still confirm it"


async def wait_confirmed(node: AsyncClient, tx_hash: str, timeout_s: float) -> ConfirmedTransaction:
    """Raises `TimedOut` with the missing nonces, if any, and whatever the client raises."""
    try:
        return await node.wait(tx_hash, timeout_s)
    except ConfirmationTimeout as timeout:
        tx = await node.transaction(tx_hash)
        if isinstance(tx, PendingTransaction) and tx.not_held is not None:
            raise TimedOut(f"{timeout}: {tell_not_held(tx)}", tx_hash=tx_hash) from None
        missing = await find_missing(node, tx.sender, tx.nonce)
        if not missing:
            raise
        advice = "no block can take it before they are sent; `cairn send` without --nonce sends the first of them"
        raise TimedOut(f"{timeout}: {tell_missing(missing)}, and {advice}", tx_hash=tx_hash) from None
