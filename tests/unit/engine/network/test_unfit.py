"""On a network, a transfer with which no block can be made, though it breaks no rule: the others are decided."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from cairn.domain import transition
from cairn.domain.errors import StoreUnavailable
from cairn.domain.transactions import encode_tx
from cairn.domain.types import Tx
from cairn.engine import application
from cairn.engine.network.bundle import encode_bundle
from tests.support.abci_node import Node, raw
from tests.support.core_fixtures import CHAIN_ID, signed

BAD = signed(0, sender=3, value=7)
GOOD = [signed(nonce, sender=sender) for sender in (0, 1, 2) for nonce in range(5)]


def encoded(txs: Sequence[Tx]) -> list[bytes]:
    return [encode_tx(tx, CHAIN_ID) for tx in txs]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.close()


def spoil(monkeypatch: pytest.MonkeyPatch, fails: Callable[[Sequence[Tx]], Exception | None]) -> None:
    def block_steps(*arguments: Any) -> Any:
        failure = fails(arguments[3])
        if failure is not None:
            raise failure
        return transition.block_steps(*arguments)

    monkeypatch.setattr(application, "block_steps", block_steps)


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Every block with `BAD` fails, in a way that nobody expects."""
    spoil(monkeypatch, lambda txs: ZeroDivisionError("a defect") if BAD in txs else None)
    with capture_logs() as lines:
        yield lines


@pytest.mark.parametrize("place", [0, 7, 15])
@pytest.mark.parametrize("is_bundled", [False, True])
def test_an_unfit_transfer_is_left_out_of_a_proposal(node: Node, logs: list[Any], place: int, is_bundled: bool) -> None:
    offer = encoded([*GOOD[:place], BAD, *GOOD[place:]])
    proposed = node.prepare([encode_bundle(offer)] if is_bundled else offer)
    assert node.process(proposed)
    node.finalize(proposed)
    node.app.commit()
    assert {tx.hash for tx in node.mined(1)} == {tx.hash for tx in GOOD}
    (told,) = [line for line in logs if line["log_level"] == "error"]
    assert told["tx"] == "0x" + BAD.hash.hex()
    # It is known by now: nothing is tried, and nothing told, a second time.
    assert node.prepare(encoded([BAD])) == []
    assert len([line for line in logs if line["log_level"] == "error"]) == 1


def test_a_proposal_with_an_unfit_transfer_is_refused(node: Node, logs: list[Any]) -> None:
    assert not node.process(encoded([*GOOD, BAD]))
    assert node.process(node.prepare(encoded([BAD, *GOOD])))


def test_a_failure_without_a_transfer_at_fault_refuses_the_proposal_only(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched, capture_logs() as logs:
        spoil(patched, lambda _: ZeroDivisionError("a defect"))
        assert not node.process(encoded(GOOD))
        assert not node.process([])
    assert {line["tx"] for line in logs} == {None}
    assert node.process(encoded(GOOD))


def test_a_disk_that_fails_is_no_fault_of_a_transfer(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, lambda _: StoreUnavailable("the disk is gone"))
    for ask in (node.process, node.prepare):
        with pytest.raises(StoreUnavailable):
            ask([raw(0)])
