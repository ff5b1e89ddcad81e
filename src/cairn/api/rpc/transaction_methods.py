"""Transactions and messages: submitting, and signing for the accounts of a dev chain.

A submission is handled like POST /tx: the answer comes once the transaction is in the mempool and on disk.
"""

import asyncio
import json
import re
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

import msgspec

from cairn.api.chain_view import wait_until
from cairn.api.rest.submissions import Submitter
from cairn.api.rpc.block_methods import BlockMethods
from cairn.api.rpc.call_objects import NO_CONTRACTS, NO_CREATION, own_account, own_draft
from cairn.api.rpc.caller import current_caller
from cairn.api.rpc.dispatch import Promised, rpc_method
from cairn.api.rpc.objects import Json, transaction_object
from cairn.api.rpc.rpc_chain import MethodGroup, RpcChain
from cairn.api.rpc.values import (
    RESOURCE_UNAVAILABLE,
    SERVER_ERROR,
    InvalidParams,
    RpcError,
    data,
    parse_account,
    parse_data,
    parse_number,
    refusal,
)
from cairn.core.gateway import Admission, DroppedTx, PendingTx
from cairn.domain.crypto import keccak256
from cairn.domain.errors import InvalidField, ShuttingDown
from cairn.domain.transactions import encode_tx
from cairn.domain.types import TxHash

NOT_FOR_TRANSFERS = {
    "to": NO_CREATION,
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
MOST_FIELDS_READ = 50_000
"""The library reads all types again for each object of typed data; so many fields take about a quarter of a second."""
MOST_ITEMS = 5_000
"""Items in arrays. Each takes the library up to 35 µs."""
TYPED_PARTS = ("types", "primaryType", "domain", "message")
_ARRAY = re.compile(r"(.+)\[([0-9]*)\]")
_importing = Lock()


class SendingMethods(MethodGroup):
    def __init__(self, chain: RpcChain, submitter: Submitter, blocks: BlockMethods) -> None:
        super().__init__(chain)
        self._submitter = submitter
        self._blocks = blocks

    @rpc_method("eth_accounts")
    def accounts(self) -> list[str]:
        """The accounts whose keys the node holds: ten on a dev chain, none on any other chain."""
        return [data(address) for address in self._chain.info.signs_for]

    @rpc_method("eth_sendRawTransaction")
    def send_raw_transaction(self, raw: object) -> Promised:
        return Promised(self._submit_raw(parse_data(raw, "transaction")), _hash_of)

    @rpc_method("eth_sendRawTransactionSync")
    async def send_raw_transaction_sync(self, raw: object, limit_ms: object = None) -> msgspec.Raw:
        """EIP-7966: submit, and wait for the receipt; even for a transaction that was sent before."""
        wait_ms = receipt_wait_ms(limit_ms)
        # Without a name for the future: it keeps a refusal, whose traceback would keep it.
        tx_hash = (await self._submit_raw(parse_data(raw, "transaction"))).tx_hash
        found = await self._await_end(tx_hash, wait_ms / 1000)
        if isinstance(found, tuple):
            return await self._blocks.receipt_at(*found)
        if isinstance(found, PendingTx):
            message = f"{ADDED} but wasn't processed in {go_duration(wait_ms)}"
            raise RpcError(NOT_IN_TIME, message, data(tx_hash))
        if found is None and self._view.phase == "draining":
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
            with self._view.watching(tx_hash) as ended:
                found = await self._chain.locate(tx_hash)
                if not isinstance(found, PendingTx):
                    return found
                await wait_until(ended, deadline - loop.time(), current_caller.get().has_left)
                if self._view.phase == "draining":
                    # The core is stopping, too, and may not answer any more.
                    return self._view.find_location(tx_hash)
                if not ended.done():
                    return found

    def _submit_raw(self, raw: bytes) -> asyncio.Future[Admission]:
        try:
            return self._submitter.admit_raw(raw)
        except InvalidField as refused:
            words = refused.detail if refused.field == "rlp" else refused.why
            raise refusal(NOT_FOR_TRANSFERS.get(refused.field, words), refused.code) from None

    @rpc_method("eth_sendTransaction")
    async def send_transaction(self, transfer: object) -> str:
        try:
            draft = own_draft(self._chain, transfer)
        except RpcError as refused:
            code = refused.data["code"] if isinstance(refused.data, dict) else refused.code
            self._submitter.note_refusal(str(code), refused.message)
            raise
        return _hash_of(await self._submitter.admit_draft(draft))


def _hash_of(admission: Admission) -> str:
    """The hash of a new transaction. Raises `RpcError` for a known one, as clients of geth expect."""
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


class SigningMethods(MethodGroup):
    """On dev chains only: on any other chain no node holds keys, and these methods do not exist."""

    def __init__(self, chain: RpcChain) -> None:
        super().__init__(chain)
        self._thread = ThreadPoolExecutor(1, "typed-data")

    async def _sign(self, account: object, digest: bytes) -> str:
        address = own_account(self._chain, parse_account(account, "address"))
        signature = await self._gateway.make_signature(address, digest)
        return data(signature[:64] + bytes((27 + signature[64],)))

    @rpc_method("eth_sign")
    async def sign(self, account: object, message: object) -> str:
        return await self._sign(account, message_digest(parse_data(message, "data")))

    @rpc_method("personal_sign")
    async def personal_sign(self, message: object, account: object, password: object = None) -> str:
        """Like `sign`, with the arguments in the other order. The password is ignored."""
        return await self._sign(account, message_digest(parse_data(message, "data")))

    @rpc_method("eth_signTypedData", "eth_signTypedData_v4")
    async def sign_typed_data(self, account: object, typed_data: object) -> str:
        # The digest of the largest data that is allowed takes a quarter of a second, the first import seconds on a
        # busy core. In a thread, so that other requests are served meanwhile; in one, so that they wait for one.
        loop = asyncio.get_running_loop()
        return await self._sign(account, await loop.run_in_executor(self._thread, typed_data_digest, typed_data))

    @rpc_method("eth_signTransaction")
    async def sign_transaction(self, transfer: object) -> Json:
        """Fields that are left out get the same values as in `eth_sendTransaction`."""
        tx = await self._gateway.sign_draft(own_draft(self._chain, transfer))
        chain_id = self._chain.info.chain_id
        return {"raw": data(encode_tx(tx, chain_id)), "tx": transaction_object(tx, chain_id, None)}


def message_digest(message: bytes) -> bytes:
    """EIP-191, version E. Because of the prefix, a signed message can never be used as a signed transaction."""
    return keccak256(b"\x19Ethereum Signed Message:\n%d" % len(message) + message)


def typed_data_digest(value: object) -> bytes:
    """The EIP-712 digest of typed data, which is an object or its JSON in a string. Raises `InvalidParams`."""
    try:
        content = json.loads(value) if isinstance(value, str) else value
        if not isinstance(content, dict):
            raise InvalidParams("typed data: expected an object, or its JSON in a string")
        for part in TYPED_PARTS:
            if part not in content:
                raise InvalidParams(f"typed data: {part} is missing")
        _check_cost(content)
        typed = import_encoder()(full_message=content)
        return keccak256(b"\x19" + typed.version + typed.header + typed.body)
    except InvalidParams:
        raise
    except Exception as invalid:
        # The library raises all kinds of exceptions; each means that the data is malformed.
        raise InvalidParams(f"typed data: {str(invalid)[:200]}") from None


def import_encoder() -> Callable[..., Any]:
    """The library's `encode_typed_data`. It brings a hundred modules, which only signing typed data needs."""
    with _importing:
        # One of the modules lets Python recurse so deep that input which is nested far enough overflows the C stack and
        # ends the process. The event loop may be reading such input right now, so the limit must never change.
        set_limit = sys.setrecursionlimit
        sys.setrecursionlimit = lambda limit, /: None
        try:
            from eth_account.messages import encode_typed_data  # noqa: PLC0415
        finally:
            sys.setrecursionlimit = set_limit
    return encode_typed_data


def _check_cost(content: dict[str, Any]) -> None:
    """Check that hashing the typed data does not keep this worker busy for too long. Raises `InvalidParams`."""
    types = content["types"]
    objects, items = _count(types, content["primaryType"], content["message"])
    if objects * sum(1 + len(fields) for fields in types.values()) > MOST_FIELDS_READ:
        raise InvalidParams("typed data: too many objects for so many types")
    if items > MOST_ITEMS:
        raise InvalidParams(f"typed data: more than {MOST_ITEMS} items in arrays")


def _count(types: Mapping[str, Any], kind: str, value: object) -> tuple[int, int]:
    """How many objects there are, and how many items in arrays.

    Raises `InvalidParams` for an array of another size than its type says: the library does not check that.
    """
    array = _ARRAY.fullmatch(kind)
    if array is not None and isinstance(value, list):
        if array[2] and int(array[2]) != len(value):
            raise InvalidParams(
                f"typed data: Expected {array[2]} items for array type {kind[:80]}, got {len(value)} items"
            )
        objects, items = 0, len(value)
        parts = [(array[1], item) for item in value]
    elif isinstance(value, dict):
        objects, items = 1, 0
        parts = [(field["type"], value.get(field["name"])) for field in types.get(kind, ())]
    else:
        return 0, 0
    counts = [_count(types, *part) for part in parts]
    return objects + sum(each[0] for each in counts), items + sum(each[1] for each in counts)
