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


@pytest.mark.parametrize(
    "line",
    [
        b'E[2026-11-17|11:00:00.000] Error in validation  module=blocksync height=7 hash=AB err="%b"\n',
        b"E[2026-11-17|11:00:00.000] CONSENSUS FAILURE!!!  module=consensus "
        b'err="precommit step; +2/3 prevoted for an invalid block: %b"\n',
        b'{"_msg":"Error in validation","err":"%b","level":"error","module":"blocksync"}\n',
    ],
)
def test_a_signed_block_by_other_rules_is_told_with_both_versions(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "cometbft.log"
    log = CometBftLog(path)
    path.write_bytes(line % b"wrong Block.Header.Version. Expected {11 2}, got {11 3}")
    assert log.look().other_rules == (2, 3)


@pytest.mark.parametrize(
    "line",
    [
        b'E[2026-11-18|10:00:00.000] State sync failed                            module=statesync err="%b"\n',
        b'{"_msg":"State sync failed","err":"%b","level":"error","module":"statesync"}\n',
    ],
)
def test_a_snapshot_of_a_network_with_other_rules_is_told_with_both_versions(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "cometbft.log"
    log = CometBftLog(path)
    path.write_bytes(line % b"snapshot restoration failed: app version mismatch. Expected: 3, got: 2")
    assert log.look().other_rules == (2, 3)
    path.write_bytes(line % b"snapshot restoration failed: no route to host")
    assert log.look() == NOTHING


def test_a_proposal_by_other_rules_that_is_not_signed_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "cometbft.log"
    log = CometBftLog(path)
    path.write_bytes(
        b"E[2026-11-17|11:00:00.000] prevote step: consensus deems this block invalid; prevoting nil  module=consensus "
        b'err="wrong Block.Header.Version. Expected {11 2}, got {11 3}"\n'
    )
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


def test_its_last_words_are_the_errors_of_its_present_life(tmp_path: Path) -> None:
    path = tmp_path / "cometbft.log"
    path.write_bytes(b"E[2026-11-18|11:00:00.000] of an earlier life\n")
    log = CometBftLog(path)
    log.begin_life()
    assert log.last_words() == []
    with path.open("ab") as file:
        file.write(b"I[2026-11-18|11:00:00.000] started\n")
        file.write(b"E[2026-11-18|11:00:00.000] first\n" + b"E[2026-11-18|11:00:00.000] %b\n" % (b"x" * 1_000))
        file.write(b'{"level":"error","_msg":"as JSON"}\npanic: no disk\ngoroutine 1 [running]:\n')
    words = log.last_words()
    assert [word[:7] for word in words] == ["E[2026-", '{"level', "panic: "]
    assert max(map(len, words)) <= 500
    log.begin_life()
    assert log.last_words() == []


def test_a_log_that_is_too_long_is_put_aside_and_written_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cairn.cometbft.LARGEST_LOG_BYTES", 100)
    path = tmp_path / "cometbft.log"
    with path.open("ab", buffering=0) as file:
        log = CometBftLog(path)
        for life in range(5):
            file.write(b"I[2026-11-18|11:00:00.000] %d %b\n" % (life, b"x" * 90))
            assert log.look() == NOTHING
            assert path.stat().st_size == 0
            assert (tmp_path / "cometbft.log.1").read_bytes().startswith(b"I[2026-11-18|11:00:00.000] %d" % life)
        file.write(STRANGER)
        assert log.look().other_network == "cairn-1-ab"
    assert {each.name for each in tmp_path.iterdir()} == {"cometbft.log", "cometbft.log.1"}
