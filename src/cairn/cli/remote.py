"""The node that a command uses, by the Python client: its errors as advice, and why a transfer is not confirmed."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from cairn.cli.report import CommandFailed, NoSuchItem, TimedOut, Unreachable
from cairn.client import AsyncClient, errors
from cairn.client.errors import ConfirmationTimeout
from cairn.client.models import ConfirmedTransaction, PendingTransaction
from cairn.domain.errors import InvalidConfig

T = TypeVar("T")

PATIENCE_S = 10.0
"""How long a node that has answered once may be busy or unreachable before a command gives up."""

_AFTER_DROP = {
    "replaced": ": another transaction with the same nonce took its place",
    "nonce used": ": a block holds another transaction with the same nonce; sign a new one with the next nonce",
    "evicted": " unless it is sent again",
    "cannot be applied": ": no block can hold it; the node's log says why",
    "expired": " unless it is sent again, with the earlier nonces that were missing",
}
"""Advice by the reason of the drop. A transaction whose nonce was used is never valid again."""


def ask_node(url: str, action: Callable[[AsyncClient], Awaitable[T]], chain_id: int | None = None) -> T:
    """Run `action` with the node at `url`. Raises `CommandFailed` that says what to do next, or `InvalidConfig`.

    With `chain_id` nothing is signed for another chain.
    """
    return asyncio.run(_ask(url, action, chain_id))


async def _ask(url: str, action: Callable[[AsyncClient], Awaitable[T]], chain_id: int | None) -> T:
    with explained_errors(url):
        async with connect(url, chain_id) as node:
            # One attempt: that there is no node should be said at once, not after all of a client's attempts.
            await node.health()
            return await action(node)


def connect(url: str, chain_id: int | None = None) -> AsyncClient:
    try:
        return AsyncClient(url, timeout_s=PATIENCE_S, chain_id=chain_id)
    except ValueError:
        raise InvalidConfig(f"--node {url}: expected a URL, such as http://127.0.0.1:8645") from None


@contextmanager
def explained_errors(url: str) -> Iterator[None]:
    """Turn the client's errors into those of the command line: an exit code for each kind, and advice."""
    try:
        yield
    except errors.ConfirmationTimeout as error:
        advice = f"the node keeps it; `cairn tx {error.tx_hash} --wait 60` waits longer"
        raise TimedOut(f"{error}; {advice}", tx_hash=error.tx_hash) from None
    except errors.NodeUnreachable as error:
        raise Unreachable(_no_answer(url, error), "NODE_UNREACHABLE", error.tx_hash) from None
    except errors.OutcomeUnknown as error:
        advice = f"before you pay again, run `cairn tx {error.tx_hash}` at a node that keeps all blocks"
        raise Unreachable(f"{error}; {advice}", "OUTCOME_UNKNOWN", error.tx_hash) from None
    except errors.UnexpectedAnswer as error:
        raise Unreachable(f"{error}; check --node{_maybe_accepted(error)}", tx_hash=error.tx_hash) from None
    except (errors.InvalidHash, errors.InvalidField, errors.InvalidQuery) as error:
        raise InvalidConfig(error.detail) from None
    except errors.TxDropped as error:
        after = _AFTER_DROP.get(error.reason or "", "")
        raise NoSuchItem(f"{error.detail}; it will not be confirmed{after}", error.code) from None
    except errors.ApiError as error:
        raise _refusal(error) from None
    except errors.ClientError as error:
        raise CommandFailed(str(error)) from None


def _no_answer(url: str, error: errors.NodeUnreachable) -> str:
    if error.tx_hash is not None:
        return (
            f"{url} stopped answering, so it is not known whether it accepted the transfer; "
            f"once it answers, `cairn tx {error.tx_hash}` shows it"
        )
    return f"{error}. Is it running? `cairn dev` starts a node; --node URL or CAIRN_NODE names another"


def _refusal(error: errors.ApiError) -> CommandFailed:
    kind: type[CommandFailed] = CommandFailed
    if isinstance(error, errors.NotFound):
        kind = NoSuchItem
    elif isinstance(error, errors.Unavailable | errors.Internal):
        kind = Unreachable
    detail = f"{error.detail}; {error.hint}" if error.hint else error.detail
    return kind(detail + _maybe_accepted(error), error.code, error.tx_hash)


def _maybe_accepted(error: errors.ClientError) -> str:
    if error.tx_hash is None:
        return ""
    return f"; it is not known whether the transfer was accepted: `cairn tx {error.tx_hash}` shows it"


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


def describe_missing(gaps: Sequence[range]) -> str:
    """`nonce 7 is missing`, `nonces 7 to 9, 12 are missing`."""
    told = ", ".join(str(gap[0]) if gap[0] == gap[-1] else f"{gap[0]} to {gap[-1]}" for gap in gaps)
    is_one = len(gaps) == 1 and gaps[0][0] == gaps[0][-1]
    return f"nonce {told} is missing" if is_one else f"nonces {told} are missing"


def describe_pending(queued_reason: str | None) -> str:
    """`pending`, or `pending (queued: waits for nonce 3)`."""
    return "pending" if queued_reason is None else f"pending (queued: {queued_reason})"


def describe_not_held(tx: PendingTransaction) -> str:
    """`replaced here by 0x12…: another node may still confirm it`."""
    by = f" by {tx.replaced_by}" if tx.replaced_by else ""
    return f"{tx.not_held} here{by}: another node may still confirm it"


async def wait_confirmed(node: AsyncClient, tx_hash: str, timeout_s: float) -> ConfirmedTransaction:
    """The transaction once a block holds it. Raises `TimedOut` with the missing nonces, and the client's errors."""
    try:
        return await node.wait(tx_hash, timeout_s)
    except ConfirmationTimeout as timeout:
        tx = await node.transaction(tx_hash)
        if isinstance(tx, PendingTransaction) and tx.not_held is not None:
            raise TimedOut(f"{timeout}: {describe_not_held(tx)}", tx_hash=tx_hash) from None
        missing = await find_missing(node, tx.sender, tx.nonce)
        if not missing:
            raise
        advice = "no block can take it before they are sent; `cairn send` without --nonce sends the first of them"
        raise TimedOut(f"{timeout}: {describe_missing(missing)}, and {advice}", tx_hash=tx_hash) from None
