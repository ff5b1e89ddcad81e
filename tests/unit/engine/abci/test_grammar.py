"""The grammar checker itself: what the specification allows and what it forbids."""

import json

import pytest

from tests.support.abci_grammar import Call, GrammarViolation, check_run, read_runs


def run(text: str) -> list[Call]:
    """`Info:0 InitChain:1 Commit` as calls."""
    parts = [part.partition(":") for part in text.split()]
    return [Call(name, int(height) if height else None) for name, _, height in parts]


HEIGHT_1 = "PrepareProposal:1 ProcessProposal:1 FinalizeBlock:1 Commit"
ALLOWED = {
    "a clean start": f"Info:0 InitChain:1 {HEIGHT_1} ProcessProposal:2 FinalizeBlock:2 Commit",
    "a clean start to the letter": f"InitChain:1 {HEIGHT_1}",
    "another first height": "Info:0 InitChain:100 FinalizeBlock:100 Commit FinalizeBlock:101",
    "calls outside the grammar": "Info:0 Echo InitChain:1 CheckTx Query FinalizeBlock:1 ListSnapshots Commit Flush",
    "several rounds": "Info:0 InitChain:1 PrepareProposal:1 ProcessProposal:1 ProcessProposal:1 FinalizeBlock:1",
    "a vote extended": "Info:7 VerifyVoteExtension:8 ProcessProposal:8 ExtendVote:8 VerifyVoteExtension:8",
    "a recovery": "Info:7 FinalizeBlock:8 Commit FinalizeBlock:9 Commit PrepareProposal:10",
    "killed before the first commit": "Info:0 InitChain:1 PrepareProposal:1",
    "killed at once": "",
    "Info over RPC": f"Info:0 InitChain:1 {HEIGHT_1} Info:1 FinalizeBlock:2 Info:1 Commit Info:2 FinalizeBlock:3",
    "state sync": "Info:0 OfferSnapshot:9 ApplySnapshotChunk ApplySnapshotChunk Info:9 FinalizeBlock:10 Commit",
    "state sync after some attempts": "Info:0 OfferSnapshot:9 OfferSnapshot:8 ApplySnapshotChunk OfferSnapshot:7 "
    "Info:0 ApplySnapshotChunk Info:7 ProcessProposal:8",
    "state sync as CometBFT does it": "OfferSnapshot:9 ApplySnapshotChunk Info:9 FinalizeBlock:10",
    "state sync to the letter": "InitChain:1 OfferSnapshot:9 ApplySnapshotChunk Info:9 FinalizeBlock:10",
}
FORBIDDEN = {
    "consensus without a handshake": "FinalizeBlock:1",
    "consensus on a chain that was not initialized": "Info:0 FinalizeBlock:1",
    "InitChain on a chain that has blocks": "Info:3 InitChain:1",
    "InitChain twice": "Info:0 InitChain:1 InitChain:1",
    "a height skipped": f"Info:0 InitChain:1 {HEIGHT_1} FinalizeBlock:3",
    "a height again": f"Info:0 InitChain:1 {HEIGHT_1} FinalizeBlock:1",
    "a proposal of another height": f"Info:0 InitChain:1 {HEIGHT_1} ProcessProposal:1",
    "a replay that leaves out a block": "Info:7 FinalizeBlock:9",
    "Commit without a decision": "Info:0 InitChain:1 Commit",
    "Commit twice": "Info:7 FinalizeBlock:8 Commit Commit",
    "two decisions": "Info:7 FinalizeBlock:8 FinalizeBlock:9",
    "a proposal between decision and Commit": "Info:7 FinalizeBlock:8 ProcessProposal:9",
    "a chunk of nothing": "Info:0 ApplySnapshotChunk",
    "a snapshot offered to a chain that has blocks": "Info:3 OfferSnapshot:9",
    "state sync without a chunk": "Info:0 OfferSnapshot:9 FinalizeBlock:10",
    "state sync without Info": "Info:0 OfferSnapshot:9 ApplySnapshotChunk FinalizeBlock:10",
    "a call that does not exist": "Info:0 InitChain:1 BeginBlock:1",
}


@pytest.mark.parametrize("text", ALLOWED.values(), ids=ALLOWED.keys())
def test_a_run_that_the_specification_allows_passes(text: str) -> None:
    check_run(run(text))


@pytest.mark.parametrize("text", FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_a_run_that_the_specification_forbids_fails(text: str) -> None:
    calls = run(text)
    check_run(calls[:-1])
    with pytest.raises(GrammarViolation, match=f"call {len(calls) - 1}: "):
        check_run(calls)


def test_runs_are_read_from_a_debug_log() -> None:
    connected: dict[str, object] = {"event": "CometBFT connected", "level": "debug"}
    entries: list[dict[str, object]] = [
        connected,
        {"event": "ABCI call", "call": "Info", "height": 0},
        {"event": "something else"},
        {"event": "ABCI call", "call": "Commit", "height": None},
        connected,
        {"event": "ABCI call", "call": "Info", "height": 1},
    ]
    log = "\n".join(map(json.dumps, entries)) + '\nTraceback:\n{"event": "ABCI ca'
    assert read_runs(log) == [[Call("Info", 0), Call("Commit")], [Call("Info", 1)]]
