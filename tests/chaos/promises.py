"""What a node must do after faults, besides what the ledger says: go on, and tell its followers of everything once."""

from collections.abc import Sequence
from contextlib import closing

from tests.chaos.ledger import Ledger, PatientNode, Transfer
from tests.chaos.load import REPLACED, Load, Sender, finish_all
from tests.chaos.node import ChaosNode
from tests.support.follower import Follower
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S

FOLLOWED = 50
"""Of so many nonces of a sender two are followed by their events: one of them may be replaced."""
GOES_ON = 20
"""Transfers that must be accepted after faults, before the next."""


def is_followed(transfer: Transfer) -> bool:
    return transfer.nonce % FOLLOWED in (0, REPLACED)


def follow_some(senders: list[Sender], followers: Sequence[Follower]) -> None:
    def follow(transfer: Transfer) -> None:
        if is_followed(transfer):
            for follower in followers:
                follower.follow(transfer.tx_hash)

    for sender in senders:
        sender.before_send = follow


def await_accepted(node: ChaosNode, load: Load, ledger: Ledger) -> None:
    """Some transfers are accepted."""
    enough = len(ledger.accepted) + GOES_ON

    def goes_on() -> bool:
        load.check()
        node.tend()
        return len(ledger.accepted) >= enough

    wait_until(goes_on, PATIENCE_S, "transfers to be accepted")


def await_progress(node: ChaosNode, load: Load, ledger: Ledger) -> None:
    """Transfers are accepted again, and come into blocks."""
    await_accepted(node, load, ledger)
    with closing(PatientNode(node.url)) as reader:
        height = int(reader.read("/chain")["head"]["blockHeight"])

        def is_higher() -> bool:
            node.mine()
            return int(reader.read("/chain")["head"]["blockHeight"]) > height

        wait_until(is_higher, PATIENCE_S, "a block")


def check_end(node: ChaosNode, senders: list[Sender], follower: Follower, ledger: Ledger) -> None:
    """Everything that was signed is confirmed and told; it still is after a clean stop and a start."""
    finish_all(senders, node.url)
    with closing(PatientNode(node.url)) as reader:

        def is_all_mined() -> bool:
            node.mine()
            return not reader.read("/chain")["mempool"]["pending"]

        wait_until(is_all_mined, PATIENCE_S, "an empty mempool")
        ledger.check_final(reader)
        assert ledger.places(ledger.signed) == ledger.places(ledger.heights), (
            "something that was signed is not confirmed"
        )
        check_told(follower, ledger)
        assert node.stop() == 0, node.log()
        node.tend()
        node.await_ready()
        ledger.check_final(reader)


def check_told(follower: Follower, ledger: Ledger) -> None:
    """The follower heard of every block, in order, once; and of every transfer that it followed, once.

    That is its confirmation, unless another one for its place is confirmed.
    """
    follower.await_height(len(ledger.block_hashes) - 1)
    assert follower.blocks[: len(ledger.block_hashes)] == list(enumerate(ledger.block_hashes))
    followed = {tx_hash for tx_hash in ledger.heights if is_followed(ledger.signed[tx_hash])}
    follower.await_confirmed(followed)
    assert set(follower.confirmed.values()) <= {1}, "a confirmation was told twice"
    assert all(follower.heights[tx_hash] == ledger.heights[tx_hash] for tx_hash in followed)
    ledger.check_dropped(follower.dropped)
    assert not follower.errors, follower.errors
