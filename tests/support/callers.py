"""Clients of JSON-RPC for tests without a connection."""

from cairn.api.rpc.caller import Caller
from cairn.api.server.access import RateLimiter
from cairn.config import Settings

UNLIMITED = RateLimiter(Settings(), lambda: 0.0)


def local_caller() -> Caller:
    """A client on this machine, which nothing limits."""
    return Caller("", UNLIMITED)
