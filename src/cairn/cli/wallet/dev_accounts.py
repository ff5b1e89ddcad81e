"""The dev accounts of a node's chain, which `cairn dev` may have made others than the usual ones."""

from collections.abc import Sequence

import msgspec
from msgspec.json import Decoder

from cairn.cli.shared.remote import PATIENCE_S
from cairn.cli.wallet.parties import Party
from cairn.client import AsyncClient
from cairn.client.errors import ClientError
from cairn.client.transport import Transport
from cairn.domain.crypto import checksum_address, parse_address
from cairn.domain.errors import InvalidField
from cairn.domain.genesis import DEV_KEYS
from cairn.domain.types import Address


class _Answer(msgspec.Struct):
    result: list[str]


_ANSWER = Decoder(_Answer)
_CALL = {"jsonrpc": "2.0", "id": 1, "method": "eth_accounts", "params": []}


async def find_dev_accounts(url: str) -> list[Address]:
    """The accounts that the node signs for: dev0, dev1 and so on of its chain.

    None on a chain that is not a dev chain. A node that does not say counts as one of those.
    """
    transport = Transport(url, timeout_s=PATIENCE_S, silence_timeout_s=PATIENCE_S, tls=None)
    try:
        answer = await transport.post("/rpc", _CALL, _ANSWER)
        return [parse_address(spelled, "eth_accounts") for spelled in answer.result]
    except (ClientError, InvalidField):
        return []
    finally:
        await transport.close()


async def find_giver(node: AsyncClient, accounts: Sequence[Address], receiver: Address, cost: int) -> str | None:
    """The name of the first dev account that can pay `cost` to `receiver`, and whose key everybody has."""
    for index, (address, _) in enumerate(DEV_KEYS):
        is_asked = address in accounts and address != receiver
        if is_asked and (await node.account(checksum_address(address))).balance >= cost:
            return f"dev{index}"
    return None


def tell_other_account(party: Party, accounts: Sequence[Address]) -> str | None:
    """Which account has the name of `party` on this chain, if `party` was named as a dev account and is none there."""
    index = party.dev_index
    if index is None or not accounts:
        return None
    shown = index if index < len(accounts) else 0
    if accounts[shown] == DEV_KEYS[shown][0]:
        return None
    return f"this chain has its own dev accounts (--mnemonic): its dev{shown} is {checksum_address(accounts[shown])}"
