"""Submissions, handled like POST /tx: the answer comes once the transaction is in the mempool and on disk."""

import asyncio

from cairn.api.rest.lookups import wait_until
from cairn.api.rpc.block_methods import ReadingMethods
from cairn.api.rpc.block_tags import RpcChain
from cairn.api.rpc.call_objects import NO_CONTRACTS, NO_CREATION, own_draft
from cairn.api.rpc.caller import current_caller
from cairn.api.rpc.dispatch import Method
from cairn.api.rpc.errors import RESOURCE_UNAVAILABLE, SERVER_ERROR, RpcError, refusal
from cairn.api.rpc.objects import Json
from cairn.api.rpc.values import data, parse_data, parse_number
from cairn.api.submitter import Submitter
from cairn.core.gateway import Admission, DroppedTx, PendingTx
from cairn.domain.errors import InvalidField, ShuttingDown
from cairn.domain.types import TxHash

NOT_FOR_TRANSFERS = {
    "to": NO_CREATION,
    "data": f"transactions with data are not supported: {NO_CONTRACTS}",
    "accessList": f"access lists are not supported: {NO_CONTRACTS}",
}
"""Refusals of valid Ethereum transactions that this chain does not support, by field."""
DEFAULT_WAIT_MS = 20_000
MAX_WAIT_MS = 60_000
"""How long to wait for a receipt, as in geth: by default, and at most."""
NOT_IN_TIME = 4
"""EIP-7966: the transaction is still pending when the time-out is over."""
NOT_POSSIBLE = 5
"""EIP-7966: the transaction was dropped from the mempool."""
ADDED = "The transaction was added to the transaction pool"


class SendingMethods:
    def __init__(self, chain: RpcChain, intake: Submitter, reading: ReadingMethods) -> None:
        self._chain = chain
        self._intake = intake
        self._reading = reading

    def methods(self) -> dict[str, Method]:
        return {
            "eth_accounts": self.accounts,
            "eth_sendRawTransaction": self.send_raw_transaction,
            "eth_sendRawTransactionSync": self.send_raw_transaction_sync,
            "eth_sendTransaction": self.send_transaction,
        }

    async def accounts(self) -> list[str]:
        """The accounts whose keys the node holds: ten on a dev chain, none on any other chain."""
        return [data(address) for address in self._chain.info.signs_for]

    async def send_raw_transaction(self, raw: object) -> str:
        return _hash_of(await self._admit_raw(raw))

    async def send_raw_transaction_sync(self, raw: object, limit_ms: object = None) -> Json:
        """EIP-7966: submit, and wait for the receipt; also for a transaction that was sent before."""
        wait_ms = receipt_wait_ms(limit_ms)
        tx_hash = (await self._admit_raw(raw)).tx_hash
        found = await self._await_end(tx_hash, wait_ms / 1000)
        if isinstance(found, tuple):
            return self._reading.receipt_at(*found)
        if isinstance(found, PendingTx):
            message = f"{ADDED} but wasn't processed in {go_duration(wait_ms)}"
            raise RpcError(NOT_IN_TIME, message, data(tx_hash))
        if found is None and self._chain.view.phase == "draining":
            message = "resource unavailable: the node is stopping; it keeps the transaction, and goes on with it later"
            raise RpcError(RESOURCE_UNAVAILABLE, message, {"code": ShuttingDown.code, "txHash": data(tx_hash)})
        why = "not known any more" if found is None else found.reason
        raise RpcError(NOT_POSSIBLE, f"{ADDED} but was dropped from it: {why}", data(tx_hash))

    async def _await_end(self, tx_hash: TxHash, wait_s: float) -> PendingTx | DroppedTx | tuple[int, int] | None:
        """The status once it is not pending any more, the time is over, the client has gone, or the node stops."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        while True:
            # Watch first, then look: nothing can be missed in between.
            with self._chain.view.watching(tx_hash) as ended:
                found = await self._chain.locate(tx_hash)
                if not isinstance(found, PendingTx):
                    return found
                await wait_until(ended, deadline - loop.time(), current_caller.get().has_left)
                if self._chain.view.phase == "draining":
                    # The core is stopping, too, and may not answer any more.
                    return self._chain.view.find_location(tx_hash)
                if not ended.done():
                    return found

    async def _admit_raw(self, text: object) -> Admission:
        # Without a name for the future: it keeps a refusal, whose traceback would keep it.
        return await self._submit_raw(parse_data(text, "transaction"))

    def _submit_raw(self, raw: bytes) -> asyncio.Future[Admission]:
        try:
            return self._intake.admit_raw(raw)
        except InvalidField as refused:
            words = refused.detail if refused.field == "rlp" else refused.why
            raise refusal(NOT_FOR_TRANSFERS.get(refused.field, words), refused.code) from None

    async def send_transaction(self, transfer: object) -> str:
        return _hash_of(await self._intake.admit_draft(own_draft(self._chain, transfer)))


def _hash_of(admission: Admission) -> str:
    """Raises `RpcError` for a transaction that is already known, as clients of geth expect."""
    if admission.confirmed or admission.known:
        raise RpcError(SERVER_ERROR, "already known", {"txHash": data(admission.tx_hash)})
    return data(admission.tx_hash)


def receipt_wait_ms(limit_ms: object) -> int:
    """The time-out: a plain number as in geth, or a quantity. 0 means the default."""
    asked = 0 if limit_ms is None else parse_number(limit_ms, "timeout")
    return min(asked, MAX_WAIT_MS) or DEFAULT_WAIT_MS


def go_duration(duration_ms: int) -> str:
    """As Go writes it: 250ms, 1.5s, 1m0s."""
    if duration_ms < 1_000:
        return f"{duration_ms}ms"
    minutes, rest_ms = divmod(duration_ms, 60_000)
    return f"{minutes}m{rest_ms / 1_000:g}s" if minutes else f"{rest_ms / 1_000:g}s"
