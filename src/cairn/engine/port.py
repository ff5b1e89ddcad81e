"""What the core drives: whatever orders transactions into blocks, alone or with others."""

from typing import Protocol

from cairn.domain.governance import ValidatorUpdate
from cairn.domain.types import TxHash

OK = "ok"


class Engine(Protocol):
    @property
    def name(self) -> str:
        """What `GET /chain` calls it."""

    async def run(self) -> None:
        """Work until `stop`. Raises what ended it: `StoreUnavailable`, or a fault of our own."""

    def wake(self) -> None:
        """Tell that the pool may have something new."""

    def stop(self) -> None:
        """Let `run` return. A block is never left half made."""

    def condition(self) -> str:
        """`ok`, or why no blocks are to be expected just now."""

    def adopt(self, tx_hash: TxHash) -> bool:
        """Take charge of a transaction that the pool holds; True when only others had answered for it so far."""

    def vouch_for(self, update: ValidatorUpdate) -> None:
        """Have a change of the validators, which this node hands in, checked whatever peers send meanwhile.

        Raises `InvalidField` for one that no node can read.
        """
