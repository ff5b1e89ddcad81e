"""What is read from CometBFT's log: another state, another network, and nothing twice."""

import json
from pathlib import Path

import pytest

from cairn.cometbft import MOST_AT_ONCE_BYTES, CometBftLog, Findings

NOTHING = Findings(has_diverged=False, other_network=None)

# As CometBFT 0.38.25 writes them.
WRONG = b"wrong Block.Header.AppHash.  Expected 2F, got 11"
BLOCKSYNC = b'E[2026-11-17|11:00:00.000] Error in validation  module=blocksync height=7 hash=AB err="%b"\n' % WRONG
FAILURE = b"E[2026-11-17|11:00:00.000] CONSENSUS FAILURE!!!                         module=consensus "
PRECOMMIT = FAILURE + b'err="precommit step; +2/3 prevoted for an invalid block: %b" stack="goroutine 1"\n' % WRONG
COMMIT = FAILURE + b'err="+2/3 committed an invalid block: wrong Block.Header.LastResultsHash.  Expected 2F, got 11"\n'
REPLAY = b"panic: state.AppHash does not match AppHash after replay. Got\n2F, expected 11.\n"
JSON = b'{"_msg":"%b","err":"%b","height":7,"level":"error","module":"%b","ts":"2026-11-17T11:00:00Z"}\n'
JSON_BLOCKSYNC = JSON % (b"Error in validation", WRONG, b"blocksync")
JSON_PRECOMMIT = JSON % (
    b"CONSENSUS FAILURE!!!",
    b"precommit step; +2/3 prevoted for an invalid block: " + WRONG,
    b"consensus",
)
JSON_COMMIT = JSON % (b"CONSENSUS FAILURE!!!", b"+2/3 committed an invalid block: " + WRONG, b"consensus")
PROPOSAL = b'E[2026-11-17|11:00:00.000] prevote step: consensus deems this block invalid; err="%b"\n' % WRONG
STRANGER = (
    b"E[2026-11-17|11:00:00.000] Error dialing peer module=p2p "
    b'err="incompatible: peer is on a different network. Got cairn-1-ab, expected cairn-1-cd"\n'
)


@pytest.mark.parametrize("line", [BLOCKSYNC, PRECOMMIT, COMMIT, REPLAY, JSON_BLOCKSYNC, JSON_PRECOMMIT, JSON_COMMIT])
def test_a_signed_block_after_another_state_is_a_divergence(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "cometbft.log"
    path.write_bytes(b"")
    log = CometBftLog(path)
    path.write_bytes(b"I started\n" + line)
    assert log.look().has_diverged
    assert log.look() == NOTHING


@pytest.mark.parametrize("claimed", [BLOCKSYNC, PRECOMMIT, COMMIT, REPLAY])
def test_text_of_a_peer_in_the_log_is_not_a_divergence(tmp_path: Path, claimed: bytes) -> None:
    """A peer chooses the name of its network, and the content of a block that it sends; both are written to the log."""
    escaped = claimed.replace(b'"', rb"\"").replace(b"\n", rb"\n")
    network = b'Error dialing peer  module=p2p err="incompatible: peer is on a different network. Got %b, expected a"\n'
    block = b'Peer sent us invalid block  module=blocksync peer="Peer{}" msg="block:{txs:\\"\\n%b\\"}" err="wrong"\n'
    path = tmp_path / "cometbft.log"
    log = CometBftLog(path)
    path.write_bytes(b"".join(b"E[2026-11-17|11:00:00.000] " + line % escaped for line in (network, block)))
    assert not log.look().has_diverged


@pytest.mark.parametrize("claimed", [BLOCKSYNC, PRECOMMIT, COMMIT, REPLAY, JSON_BLOCKSYNC, JSON_COMMIT])
def test_text_of_a_peer_in_a_json_log_is_not_a_divergence(tmp_path: Path, claimed: bytes) -> None:
    fields = {"_msg": "Error dialing peer", "level": "error", "module": "p2p", "err": claimed.decode()}
    lines = [
        fields,
        fields | {"err": "x", "peer": claimed.decode()},
        # What only one validator has proposed, or what is another error of the same module.
        fields | {"_msg": "prevote step: consensus deems this block invalid", "module": "consensus"},
        fields | {"_msg": "CONSENSUS FAILURE!!!", "module": "consensus", "err": "x " + WRONG.decode()},
        fields | {"_msg": "Error in validation", "module": "blocksync", "err": "x " + WRONG.decode()},
        fields | {"_msg": "Error in validation", "module": "blocksync", "err": WRONG.decode(), "level": "info"},
    ]
    path = tmp_path / "cometbft.log"
    log = CometBftLog(path)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + "{wrong Block.Header.AppHash.}\n")
    assert not log.look().has_diverged


def test_the_rest_of_a_line_that_was_skipped_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "cometbft.log"
    log = CometBftLog(path)
    path.write_bytes(b"E" + REPLAY.replace(b"\n", b" ") + b"x" * (MOST_AT_ONCE_BYTES - len(REPLAY)) + b"\n")
    assert log.look() == NOTHING


def test_a_wrong_proposal_of_one_validator_is_no_divergence(tmp_path: Path) -> None:
    path = tmp_path / "cometbft.log"
    log = CometBftLog(path)
    path.write_bytes(PROPOSAL)
    assert log.look() == NOTHING


def test_a_peer_of_another_network_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cometbft.log"
    log = CometBftLog(path)
    path.write_bytes(STRANGER)
    assert log.look() == Findings(has_diverged=False, other_network="cairn-1-ab")


def test_lines_from_before_the_start_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "cometbft.log"
    path.write_bytes(PRECOMMIT)
    assert CometBftLog(path).look() == NOTHING


def test_a_line_written_in_two_parts_is_read_once_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "cometbft.log"
    log = CometBftLog(path)
    path.write_bytes(STRANGER[:60])
    assert log.look() == NOTHING
    path.write_bytes(STRANGER)
    assert log.look().other_network == "cairn-1-ab"
    assert log.look() == NOTHING


def test_a_log_that_was_put_aside_is_read_from_its_new_beginning(tmp_path: Path) -> None:
    path = tmp_path / "cometbft.log"
    path.write_bytes(b"long ago\n" * 1_000)
    log = CometBftLog(path)
    path.replace(tmp_path / "cometbft.log.1")
    path.write_bytes(STRANGER)
    assert log.look().other_network == "cairn-1-ab"


def test_only_the_newest_part_of_a_long_log_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cometbft.log"
    log = CometBftLog(path)
    path.write_bytes(b"noise\n" * MOST_AT_ONCE_BYTES + STRANGER)
    assert log.look().other_network == "cairn-1-ab"
    assert log.look() == NOTHING
