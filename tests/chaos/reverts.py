"""Snapshots of a dev chain and ways back to them, with whatever happens to the node in between."""

import threading
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass

import httpx

from tests.chaos.ledger import Ledger, PatientNode
from tests.chaos.load import Load, Sender, finish_all
from tests.chaos.node import ChaosNode
from tests.chaos.promises import check_told, is_followed
from tests.support.follower import Follower

LOOKED_AT = 200
"""Void transfers that are asked for after a revert."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What was true when a snapshot was taken."""

    snapshot: object
    ledger: Ledger
    nonces: tuple[int, ...]


class Reverts:
    """Senders rest while a snapshot is taken and while the chain goes back, so that it is known what is void."""

    def __init__(self, node: ChaosNode, load: Load, senders: Sequence[Sender], told: list[Follower]) -> None:
        """`told` has one follower, of which another takes the place when the chain has gone back."""
        self._node, self._load, self._senders, self._told = node, load, senders, told
        self.done = 0
        self.undone = 0
        """Killed before they were decided."""

    def mark(self, ledger: Ledger) -> Mark:
        with self._load.held(), closing(PatientNode(self._node.url)) as reader:
            finish_all(self._senders, self._node.url)
            ledger.read_blocks(reader)
            snapshot = call(reader, "evm_snapshot")
            kept = ledger.copy()
            kept.note_dropped(reader)
            return Mark(snapshot, kept, tuple(sender.nonce for sender in self._senders))

    def go_back(self, mark: Mark, ledger: Ledger, killed_after_s: float | None) -> None:
        """To what was marked; when the node is killed in the middle, perhaps not."""
        with self._load.held(), closing(PatientNode(self._node.url)) as reader:
            finish_all(self._senders, self._node.url)
            ledger.read_blocks(reader)
            check_told(self._told[0], ledger)
            self._told[0].close()
            number = number_of_reverts(reader)
            self._revert(reader, mark, killed_after_s)
            self._node.await_ready()
            is_done = number_of_reverts(reader) > number
            assert is_done or killed_after_s is not None, "a revert was answered and is not done"
            check_whole(reader, ledger, mark, is_done)
            if is_done:
                self._forget_since(mark, ledger)
            self.done, self.undone = self.done + is_done, self.undone + (not is_done)
            self._told[0] = self._follow_anew(ledger)
            ledger.check_kept(reader)

    def _revert(self, reader: PatientNode, mark: Mark, killed_after_s: float | None) -> None:
        if killed_after_s is None:
            assert call(reader, "evm_revert", mark.snapshot) is True
            return
        killer = threading.Timer(killed_after_s, self._node.kill)
        killer.start()
        with suppress(httpx.TransportError):
            call(reader, "evm_revert", mark.snapshot)
        killer.join()

    def _forget_since(self, mark: Mark, ledger: Ledger) -> None:
        ledger.go_back_to(mark.ledger)
        for sender, nonce in zip(self._senders, mark.nonces, strict=True):
            sender.nonce = nonce

    def _follow_anew(self, ledger: Ledger) -> Follower:
        """From the first block on."""
        follower = Follower(self._node.url)
        for transfer in ledger.signed.values():
            if is_followed(transfer):
                follower.follow(transfer.tx_hash)
        return follower


def call(node: PatientNode, method: str, *params: object) -> object:
    answer = node.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, "/rpc").json()
    return answer["result"]


def number_of_reverts(node: PatientNode) -> int:
    return int(node.read("/chain").get("lastRevert", {"number": 0})["number"])


def check_whole(node: PatientNode, ledger: Ledger, mark: Mark, is_done: bool) -> None:
    """Check that nothing is left of what came after the snapshot, or all of it."""
    since = sorted(tx_hash for tx_hash in ledger.accepted - mark.ledger.accepted if not ledger.is_replaced(tx_hash))
    for tx_hash in since[:LOOKED_AT]:
        is_there = node.get(f"/tx/{tx_hash}").status_code != 404
        assert is_there is not is_done, f"a revert is half done: of {tx_hash}"
