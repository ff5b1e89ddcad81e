"""Transactions in: the same way, mempool and promise as POST /tx. The hash is answered once it is on disk."""

from cairn.api.rpc.block_tags import Chain
from cairn.api.rpc.call_objects import NO_CONTRACTS, NO_CREATION, draft_to_sign, parse_call, type_to_sign
from cairn.api.rpc.dispatch import Handler
from cairn.api.rpc.errors import SERVER_ERROR, RpcError, refusal
from cairn.api.rpc.values import Params, check_count, data, parse_data
from cairn.api.submitter import Submitter
from cairn.core.gateway import Admission
from cairn.domain.errors import InvalidField

NOT_FOR_TRANSFERS = {
    "to": NO_CREATION,
    "data": f"transactions with data are not supported: {NO_CONTRACTS}",
    "accessList": f"access lists are not supported: {NO_CONTRACTS}",
}
"""What is refused for one of its fields, though the bytes are a transaction of Ethereum's."""


class SendingMethods:
    def __init__(self, chain: Chain, intake: Submitter) -> None:
        self._chain = chain
        self._intake = intake

    def methods(self) -> dict[str, Handler]:
        return {
            "eth_accounts": self.accounts,
            "eth_sendRawTransaction": self.send_raw_transaction,
            "eth_sendTransaction": self.send_transaction,
        }

    async def accounts(self, params: Params) -> list[str]:
        """Those whose keys the node holds: the ten of a dev chain, none elsewhere."""
        check_count(params, 0, 0)
        return [data(address) for address in self._chain.info.signs_for]

    async def send_raw_transaction(self, params: Params) -> str:
        check_count(params, 1, 1)
        raw = parse_data(params[0], "transaction")
        try:
            admitting = self._intake.admit_raw(raw)
        except InvalidField as refused:
            words = refused.detail if refused.field == "rlp" else refused.why
            raise refusal(NOT_FOR_TRANSFERS.get(refused.field, words), refused.code) from None
        return _hash_of(await admitting)

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
