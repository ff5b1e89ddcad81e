"""Signatures by the accounts of a dev chain. On any other chain no node holds keys, and these methods do not exist."""

import asyncio
import json
import re
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

from cairn.api.rpc.block_tags import RpcChain
from cairn.api.rpc.call_objects import own_account, own_draft
from cairn.api.rpc.dispatch import Method
from cairn.api.rpc.errors import InvalidParams
from cairn.api.rpc.objects import Json, transaction_object
from cairn.api.rpc.values import data, parse_account, parse_data
from cairn.domain.crypto import keccak256
from cairn.domain.transactions import encode_tx

MOST_FIELDS_READ = 50_000
"""The library reads all types again for each object of typed data; so many fields take about a quarter of a second."""
MOST_ITEMS = 5_000
"""Items in arrays. Each takes the library up to 35 µs."""
TYPED_PARTS = ("types", "primaryType", "domain", "message")
_ARRAY = re.compile(r"(.+)\[([0-9]*)\]")
_importing = Lock()


class SigningMethods:
    def __init__(self, chain: RpcChain) -> None:
        self._chain = chain
        self._thread = ThreadPoolExecutor(1, "typed-data")

    def methods(self) -> dict[str, Method]:
        return {
            "eth_sign": self.sign,
            "personal_sign": self.personal_sign,
            "eth_signTypedData": self.sign_typed_data,
            "eth_signTypedData_v4": self.sign_typed_data,
            "eth_signTransaction": self.sign_transaction,
        }

    async def _sign(self, account: object, digest: bytes) -> str:
        address = own_account(self._chain, parse_account(account, "address"))
        signature = await self._chain.gateway.make_signature(address, digest)
        return data(signature[:64] + bytes((27 + signature[64],)))

    async def sign(self, account: object, message: object) -> str:
        return await self._sign(account, message_digest(parse_data(message, "data")))

    async def personal_sign(self, message: object, account: object, password: object = None) -> str:
        """Like `sign`, with the arguments in the other order. The password is ignored."""
        return await self._sign(account, message_digest(parse_data(message, "data")))

    async def sign_typed_data(self, account: object, typed_data: object) -> str:
        # The digest of the largest data that is allowed takes a quarter of a second, the first import seconds on a
        # busy core. In a thread, so that other requests are served meanwhile; in one, so that they wait for one.
        loop = asyncio.get_running_loop()
        return await self._sign(account, await loop.run_in_executor(self._thread, typed_data_digest, typed_data))

    async def sign_transaction(self, transfer: object) -> Json:
        """Fields that are left out get the same values as in `eth_sendTransaction`."""
        tx = await self._chain.gateway.sign_draft(own_draft(self._chain, transfer))
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
    """Raises `InvalidParams` for typed data that would keep this worker busy for too long."""
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
