"""Why transactions will not be confirmed."""

from collections import OrderedDict

from cairn.domain.types import DropReason, TxHash

DROPS_REMEMBERED = 100_000

Drop = tuple[TxHash, DropReason]


class RecentDrops(OrderedDict[TxHash, DropReason]):
    """The newest ones only."""

    def note(self, tx_hash: TxHash, reason: DropReason) -> Drop:
        self[tx_hash] = reason
        if len(self) > DROPS_REMEMBERED:
            self.popitem(last=False)
        return tx_hash, reason
