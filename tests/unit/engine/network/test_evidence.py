"""Validators that break the rules of consensus, or are not there: kept in the state, in the store, and told."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from cairn.core.service import validator_set
from cairn.domain.governance import Admins, EvidenceKind, encode_update
from cairn.domain.updates import sign_update, update_admins
from cairn.engine.abci import requests as m
from tests.support.abci_node import FIRST_GOVERNANCE, GENESIS, NS, SECOND, VALIDATOR, Node, raw, update
from tests.support.audit import audit
from tests.support.core_fixtures import ACCOUNTS, KEYS

TWICE = m.Misbehavior(1, VALIDATOR.engine_address, 7, 5 * NS + 1)
STRANGER = bytes(range(20))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    opened = Node(tmp_path / "data")
    yield opened
    opened.close()


def decide(node: Node, *found: m.Misbehavior, absent: tuple[bytes, ...] | None = ()) -> m.FinalizeBlockResponse:
    answer = node.finalize([], misbehavior=found, absent=absent)
    node.app.commit()
    return answer


def test_double_signing_is_in_the_state_with_name_height_kind_and_time(node: Node) -> None:
    root = node.chain.head_header.state_root
    answer = decide(node, TWICE)
    governance = node.chain.governance
    assert governance is not None
    [piece] = governance.evidence
    assert (piece.kind, piece.engine_address, piece.height) == (EvidenceKind.DUPLICATE_VOTE, TWICE.engine_address, 7)
    assert (piece.timestamp, piece.name, governance.evidence_count) == (5, "first", 1)
    # The validators sign it: every node has the same, also one that starts from a snapshot.
    assert answer.app_hash == node.chain.head_hash
    assert node.chain.head_header.state_root != root
    assert governance.validators == GENESIS.validators
    assert answer.validator_updates == []
    audit(node.chain)


def test_evidence_is_logged_by_name_once_for_each_validator_and_kind(node: Node) -> None:
    found = [
        TWICE,
        msgspec.structs.replace(TWICE, height=3),
        m.Misbehavior(2, STRANGER, 4, NS),
        m.Misbehavior(9, STRANGER, 4, NS),
    ]
    with capture_logs() as logs:
        decide(node, *found)
        decide(node)
    lines = [line for line in logs if line["event"] == "a validator broke the rules of consensus"]
    shown = {(line["validator"], line["kind"]): (line["heights"], line["pieces"], line["block"]) for line in lines}
    assert shown == {
        ("first", "duplicate_vote"): ([3, 7], 2, 1),
        ("not known", "light_client_attack"): ([4], 1, 1),
        ("not known", "unknown"): ([4], 1, 1),
    }
    assert {line["log_level"] for line in lines} == {"error"}
    assert {line["address"] for line in lines} == {VALIDATOR.engine_address.hex().upper(), STRANGER.hex().upper()}


def test_a_flood_of_evidence_is_one_line_and_a_hundred_records(node: Node) -> None:
    with capture_logs() as logs:
        decide(node, *(msgspec.structs.replace(TWICE, height=height) for height in range(1_000)))
    [line] = (line for line in logs if line["log_level"] == "error")
    assert (line["pieces"], len(line["heights"])) == (100, 5)
    governance = node.chain.governance
    assert governance is not None
    assert (len(governance.evidence), governance.evidence_count) == (100, 1_000)
    audit(node.chain)


def test_a_proposal_with_evidence_is_judged_and_made_with_it(node: Node) -> None:
    """What was computed for a proposal without it must not be taken for the block with it."""
    assert node.process([raw(0)])
    answer = node.finalize([raw(0)], misbehavior=(TWICE,))
    node.app.commit()
    assert node.chain.governance is not None
    assert node.chain.governance.evidence_count == 1
    assert node.process([raw(1)], misbehavior=(TWICE,))
    answer = node.finalize([raw(1)])
    node.app.commit()
    assert node.chain.governance.evidence_count == 1
    assert answer.app_hash == node.chain.head_hash


def test_an_update_and_evidence_in_one_block_both_count(node: Node) -> None:
    node.finalize([update(0, SECOND, 0, 1)], misbehavior=(TWICE,))
    node.app.commit()
    governance = node.chain.governance
    assert governance is not None
    assert [each.name for each in governance.validators] == ["first", "second"]
    assert (governance.sequence, governance.evidence_count) == (1, 1)
    audit(node.chain)


def test_administrators_change_themselves_in_a_block(node: Node) -> None:
    wanted = Admins(1, (ACCOUNTS[5],))
    signed = sign_update(
        update_admins(FIRST_GOVERNANCE, wanted), [KEYS[ACCOUNTS[0]], KEYS[ACCOUNTS[1]]], node.chain.identity
    )
    item = encode_update(signed)
    assert node.check(item).code == 0
    assert node.prepare([item]) == [item]
    assert node.process([item])
    answer = node.finalize([item])
    node.app.commit()
    assert answer.validator_updates == []
    assert answer.app_hash == node.chain.head_hash
    assert node.chain.governance is not None
    assert node.chain.governance.admins == wanted
    assert node.check(update(1, SECOND, 0, 1)).code != 0
    assert node.check(update(1, SECOND, 5)).code == 0
    audit(node.chain)


def test_missing_votes_are_counted_in_the_last_hundred_blocks_and_outlive_a_restart(tmp_path: Path) -> None:
    node = Node(tmp_path / "data")
    decide(node, absent=None)
    for height in range(2, 6):
        decide(node, absent=(VALIDATOR.engine_address,) if height % 2 else ())
    shown = validator_set(node.chain)
    assert (shown.voted_blocks, shown.missed) == (4, [2])
    node.close()
    node = Node(tmp_path / "data")
    assert validator_set(node.chain) == shown
    root = node.chain.head_header.state_root
    for _ in range(98):
        decide(node, absent=(STRANGER,))
    shown = validator_set(node.chain)
    # The block of height 3 is no longer among them; that of height 5 is.
    assert (shown.voted_blocks, shown.missed) == (100, [1])
    assert node.chain.head_header.state_root == root
    node.close()
    node = Node(tmp_path / "data")
    assert validator_set(node.chain) == shown
    audit(node.chain)
    node.close()
