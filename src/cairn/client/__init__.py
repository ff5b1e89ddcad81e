"""A client for a Cairn node: `AsyncClient` for asyncio, `Client` with the same methods for everything else.

It uses the public API only and needs no part of the node. `models` has the types of its results, `errors` its
exceptions.
"""

from cairn.client import errors, models
from cairn.client.account import Account, SignedTransfer
from cairn.client.async_client import AsyncClient
from cairn.client.errors import ApiError, ClientError, NodeUnreachable
from cairn.client.models import Confirmed, Dropped
from cairn.client.sync_client import Client, Wallet
from cairn.client.wallet import AsyncWallet
from cairn.domain.genesis import COIN, GWEI

__all__ = [
    "COIN",
    "GWEI",
    "Account",
    "ApiError",
    "AsyncClient",
    "AsyncWallet",
    "Client",
    "ClientError",
    "Confirmed",
    "Dropped",
    "NodeUnreachable",
    "SignedTransfer",
    "Wallet",
    "errors",
    "models",
]
