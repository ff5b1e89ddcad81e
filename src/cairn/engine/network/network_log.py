"""Tells the log what happens on the network: peers that come and go, blocks that stop and go on, other validators."""

import re
from collections.abc import Collection, Mapping, Sequence

import structlog

from cairn.domain.governance import Governance, ValidatorRecord

_VOTE = re.compile(r"Vote\{[0-9]+:([0-9A-F]{12}) ")
"""A vote, as CometBFT prints it: the index of the validator, and the beginning of its address."""

HALT_TOLD_EACH_S = 60.0
"""Whoever reads the log during a long halt must find it there."""

log = structlog.get_logger("cairn.network")


class NetworkLog:
    """Remembers what was told, so that each change is told once."""

    def __init__(self) -> None:
        self._peers: Mapping[str, str] = {}
        self._missing: Sequence[str] | None = None
        """Who was missing when it was last told that there are no blocks; None while there are."""
        self._told_for_s = 0.0

    def saw_peers(self, peers: Mapping[str, str]) -> None:
        """`peers` are the names of the connected nodes, by the ids of their keys."""
        for peer_id in self._peers.keys() - peers.keys():
            log.warning("a peer is lost", peer=self._peers[peer_id], id=peer_id, left=len(peers))
        for peer_id in peers.keys() - self._peers.keys():
            log.info("a peer is connected", peer=peers[peer_id], id=peer_id, peers=len(peers))
        self._peers = peers

    def halted(self, height: int, for_s: float, missing: Sequence[str]) -> None:
        """There has been no block for `for_s`; `missing` are the validators that do not vote, as far as is known."""
        if missing != self._missing or for_s >= self._told_for_s + HALT_TOLD_EACH_S:
            self._missing, self._told_for_s = missing, for_s
            log.error(
                "the network makes no blocks", height=height, for_s=round(for_s), missing=list(missing) or "not known"
            )

    def made_block(self, height: int, after_s: float) -> None:
        if self._missing is not None:
            self._missing = None
            log.info("the network makes blocks again", height=height, after_s=round(after_s))


def tell_validator_changes(before: Governance, after: Governance, height: int) -> None:
    """Log what the block at `height` has changed about the validators, if anything."""
    were, are = ({each.public_key: each for each in set_.validators} for set_ in (before, after))
    added = [f"{name_of(are[key])} with power {are[key].power}" for key in are.keys() - were.keys()]
    removed = [name_of(were[key]) for key in were.keys() - are.keys()]
    changed = [
        f"{name_of(are[key])} from power {were[key].power} to {are[key].power}"
        for key in are.keys() & were.keys()
        if are[key].power != were[key].power
    ]
    if added or removed or changed:
        log.info("the validators change", added=added, removed=removed, changed=changed, block=height)


def find_missing(
    validators: Sequence[ValidatorRecord], votes: Sequence[Sequence[str]], connected: Collection[str]
) -> list[str]:
    """The names of the validators that do not vote at this height.

    `votes` are those of each step, the latest last, as CometBFT prints them: whoever prevoted and did not precommit may
    have ended in between. Without any, those that no connected node is named after.
    """
    latest = next((found for found in (set(_VOTE.findall(" ".join(each))) for each in reversed(votes)) if found), None)
    if latest is None:
        return [name_of(each) for each in validators if each.name not in connected]
    return [name_of(each) for each in validators if each.engine_address.hex().upper()[:12] not in latest]


def name_of(validator: ValidatorRecord) -> str:
    return validator.name or validator.engine_address.hex().upper()
