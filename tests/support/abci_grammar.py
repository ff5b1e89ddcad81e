"""The call grammar of the ABCI 2.0 specification (`abci++_comet_expected_behavior.md`) as a state machine over a trace.

    start               = clean-start / recovery
    clean-start         = init-chain [state-sync] consensus-exec
    state-sync          = *state-sync-attempt success-sync info
    state-sync-attempt  = offer-snapshot *apply-chunk
    success-sync        = offer-snapshot 1*apply-chunk
    recovery            = info consensus-exec
    consensus-exec      = (inf)consensus-height
    consensus-height    = *consensus-round decide commit
    consensus-round     = proposer / non-proposer
    proposer            = *got-vote [prepare-proposal [process-proposal]] [extend]
    extend              = *got-vote extend-vote *got-vote
    non-proposer        = *got-vote [process-proposal] [extend]

Every part of a round is optional and rounds repeat, so within a height the four calls of a round come in any order.
What binds them is the height that they carry, which is checked too. A trace may stop anywhere: processes get killed.

Two things differ from the letter, as CometBFT 0.38 does: its handshake asks Info before a clean start too, and a node
that starts by state sync makes no handshake, so it gets neither InitChain nor Info before the first OfferSnapshot. Info
tells a clean start (height 0) from a recovery, and since anyone may ask it over RPC at any time, it is allowed
everywhere.
"""

import json
from collections import Counter
from collections.abc import Iterable
from enum import Enum, auto
from typing import NamedTuple

ROUND_CALLS = frozenset({"PrepareProposal", "ProcessProposal", "ExtendVote", "VerifyVoteExtension"})
OUTSIDE_THE_GRAMMAR = frozenset({"Echo", "Flush", "Query", "CheckTx", "ListSnapshots", "LoadSnapshotChunk"})


class Call(NamedTuple):
    name: str
    height: int | None = None
    """That of the request; for Info the one answered, for InitChain the first height of the chain."""


class GrammarViolation(AssertionError):
    """CometBFT would never send this, or it was recorded out of order."""


class _State(Enum):
    START = auto()
    FRESH = auto()
    INITIALIZED = auto()
    OFFERED = auto()
    APPLYING = auto()
    CONSENSUS = auto()
    DECIDED = auto()


class Grammar:
    """Takes one call after the other, from one start of CometBFT on."""

    def __init__(self) -> None:
        self._state = _State.START
        self._height = 0
        """The height that is next to be decided, once consensus runs."""
        self._position = 0

    def feed(self, call: Call) -> None:
        """Take the next call. Raises `GrammarViolation` where the specification allows none like it."""
        if call.name not in OUTSIDE_THE_GRAMMAR:
            following = self._follow(call)
            if following is None:
                raise GrammarViolation(f"call {self._position}: {call} in state {self._state.name}, {self._height=}")
            self._state = following
        self._position += 1

    def _follow(self, call: Call) -> _State | None:
        """The next state, or None when `call` is not allowed in this one."""
        if call.name == "Info":
            return self._after_info(call.height or 0)
        match self._state, call.name:
            case ((_State.START | _State.FRESH), "InitChain"):
                self._height = call.height or 1
                return _State.INITIALIZED
            case (
                (_State.START | _State.FRESH | _State.INITIALIZED | _State.OFFERED | _State.APPLYING),
                "OfferSnapshot",
            ):
                return _State.OFFERED
            case ((_State.OFFERED | _State.APPLYING), "ApplySnapshotChunk"):
                return _State.APPLYING
            case ((_State.INITIALIZED | _State.CONSENSUS), name) if name in ROUND_CALLS and call.height == self._height:
                return _State.CONSENSUS
            case ((_State.INITIALIZED | _State.CONSENSUS), "FinalizeBlock") if call.height == self._height:
                return _State.DECIDED
            case _State.DECIDED, "Commit":
                self._height += 1
                return _State.CONSENSUS
        return None

    def _after_info(self, height: int) -> _State:
        if self._state is _State.START and height == 0:
            return _State.FRESH
        if self._state is _State.START or (self._state is _State.APPLYING and height > 0):
            self._height = height + 1
            return _State.CONSENSUS
        return self._state


def check_run(calls: Iterable[Call]) -> None:
    """Hold the calls since one start of CometBFT against the grammar. Raises `GrammarViolation`."""
    grammar = Grammar()
    for call in calls:
        grammar.feed(call)


def rounds_of(run: Iterable[Call]) -> int:
    """The most proposals of one height that were put before the application: each is of another round."""
    seen = Counter(call.height for call in run if call.name == "ProcessProposal")
    return max(seen.values(), default=0)


def read_runs(log: str) -> list[list[Call]]:
    """The calls in a node's debug log written as JSON, one list for each time that CometBFT connected."""
    runs: list[list[Call]] = []
    for line in log.splitlines():
        if not line.startswith("{") or not line.endswith("}"):
            continue  # A killed process may leave half a line, a crash its traceback.
        entry = json.loads(line)
        if entry.get("event") == "CometBFT connected":
            runs.append([])
        elif entry.get("event") == "ABCI call":
            runs[-1].append(Call(entry["call"], entry["height"]))
    return runs
