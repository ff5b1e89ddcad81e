"""The interface of an engine, which puts transactions into blocks."""

from typing import Protocol

from cairn.domain.governance import Update
from cairn.domain.types import TxHash

OK = "ok"


class Engine(Protocol):
    @property
    def name(self) -> str:
        """The name in `GET /chain`."""

    @property
    def peers(self) -> int:
        """How many nodes of the network this one is connected to."""

    async def run(self) -> None:
        """Work until `stop`. Raises what ended it: `StoreUnavailable`, or a bug."""

    def wake(self) -> None:
        """The pool may have something new."""

    def stop(self) -> None:
        """Let `run` return. A block is never left half made."""

    def condition(self) -> str:
        """`ok`, or why no blocks can be expected now."""

    def adopt(self, tx_hash: TxHash) -> bool:
        """Answer for a transaction in the pool from now on. True if only other nodes did so far."""

    def vouch_for(self, update: Update) -> None:
        """Make sure that this node's validator update is checked, even while peers flood the node.

        Raises `InvalidField` for one that no node can read.
        """
