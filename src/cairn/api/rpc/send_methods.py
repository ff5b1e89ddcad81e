"""Transactions in: the same way, mempool and promise as POST /tx. The hash is answered once it is on disk."""

import asyncio

from cairn.api.rpc.block_methods import ReadingMethods
from cairn.api.rpc.block_tags import Chain
from cairn.api.rpc.call_objects import NO_CONTRACTS, NO_CREATION, draft_to_sign, parse_call, type_to_sign
from cairn.api.rpc.dispatch import Handler
from cairn.api.rpc.errors import SERVER_ERROR, RpcError, refusal
from cairn.api.rpc.objects import Json
from cairn.api.rpc.values import Params, check_count, data, given, parse_data, parse_quantity
from cairn.api.submitter import Submitter
from cairn.core.gateway import Admission
from cairn.domain.errors import InvalidField

NOT_FOR_TRANSFERS = {
    "to": NO_CREATION,
    "data": f"transactions with data are not supported: {NO_CONTRACTS}",
    "accessList": f"access lists are not supported: {NO_CONTRACTS}",
}
"""What is refused for one of its fields, though the bytes are a transaction of Ethereum's."""
DEFAULT_WAIT_S = 20.0
MAX_WAIT_S = 60.0
"""How long a receipt is waited for, as in geth: unless asked otherwise, and at most."""
NOT_PROCESSED = 4
"""EIP-7966: it is in the mempool, and not in a block in time."""


class SendingMethods:
    def __init__(self, chain: Chain, intake: Submitter, reading: ReadingMethods) -> None:
        self._chain = chain
        self._intake = intake
        self._reading = reading

    def methods(self) -> dict[str, Handler]:
        return {
            "eth_accounts": self.accounts,
            "eth_sendRawTransaction": self.send_raw_transaction,
            "eth_sendRawTransactionSync": self.send_raw_transaction_sync,
            "eth_sendTransaction": self.send_transaction,
        }

    async def accounts(self, params: Params) -> list[str]:
        """Those whose keys the node holds: the ten of a dev chain, none elsewhere."""
        check_count(params, 0, 0)
        return [data(address) for address in self._chain.info.signs_for]

    async def send_raw_transaction(self, params: Params) -> str:
        check_count(params, 1, 1)
        return _hash_of(await self._admit_raw(params[0]))

    async def send_raw_transaction_sync(self, params: Params) -> Json:
        """EIP-7966: the receipt, once there is one; also of a transaction that was sent before."""
        check_count(params, 1, 2)
        limit_ms = given(params, 1)
        wait_s = DEFAULT_WAIT_S if limit_ms is None else min(parse_quantity(limit_ms, "timeout") / 1000, MAX_WAIT_S)
        tx_hash = (await self._admit_raw(params[0])).tx_hash
        with self._chain.view.watching(tx_hash) as ended:
            found = await self._chain.find_tx(tx_hash)
            if not isinstance(found, tuple):
                await asyncio.wait([ended], timeout=wait_s)
                found = await self._chain.find_tx(tx_hash)
        if isinstance(found, tuple):
            return self._reading.receipt_at(*found)
        raise RpcError(
            NOT_PROCESSED,
            f"The transaction was added to the transaction pool but wasn't processed in {wait_s:g}s.",
            data(tx_hash),
        )

    async def _admit_raw(self, text: object) -> Admission:
        raw = parse_data(text, "transaction")
        try:
            admitting = self._intake.admit_raw(raw)
        except InvalidField as refused:
            words = refused.detail if refused.field == "rlp" else refused.why
            raise refusal(NOT_FOR_TRANSFERS.get(refused.field, words), refused.code) from None
        return await admitting

    async def send_transaction(self, params: Params) -> str:
        check_count(params, 1, 1)
        kind = type_to_sign(params[0])
        info = self._chain.info
        call = parse_call(params[0], info.chain_id)
        if call.sender is None or call.sender not in info.signs_for:
            raise refusal("unknown account", InvalidField.code)
        draft = draft_to_sign(call, call.sender, kind, info.gas_price)
        return _hash_of(await self._intake.admit_draft(draft))


def _hash_of(admission: Admission) -> str:
    """Raises `RpcError` for one that is here already: that is where a client of geth looks for it."""
    if admission.confirmed or admission.known:
        raise RpcError(SERVER_ERROR, "already known", {"txHash": data(admission.tx_hash)})
    return data(admission.tx_hash)
