"""The log says when the node is not ready and why, once for each reason, and when it is ready again."""

import pytest
from structlog.testing import capture_logs

from cairn.board import PARTS, Board, Fault
from cairn.readiness import NOT_YET_S, ReadinessLog


def told(*looks: tuple[float, Fault | None], is_ready: bool = True) -> list[str]:
    """Text, part and reason of each line."""
    watch = ReadinessLog(0.0)
    with capture_logs() as lines:
        if is_ready:
            watch.became_ready(0.0, "http://localhost")
        for now, fault in looks:
            watch.take(now, fault)
    return [
        " ".join(str(line[name]) for name in ("event", "part", "reason", "after_s") if name in line) for line in lines
    ]


def test_each_cause_is_told_once_and_the_end_of_all_of_them() -> None:
    full, silent = Fault("disk", "it has 12 bytes left"), Fault("core", "the core is stopped")
    less = Fault("disk", "it has 11 bytes left")
    assert told((1, None), (2, full), (3, full), (4, less), (5, silent), (6, silent), (9.5, None), (10, None)) == [
        "the node is ready 0.0",
        "the node is not ready disk it has 12 bytes left",
        "the node is not ready core the core is stopped",
        "the node is ready again 7.5",
    ]


def test_a_start_that_takes_long_is_told_of_with_its_cause() -> None:
    opening, behind = Fault("core", "the store is being opened"), Fault("engine", "catching up, height 7")
    looks = [(0.5, opening), (1.0, None), (1.5, behind), (NOT_YET_S, behind), (NOT_YET_S + 1, behind)]
    assert told(*looks, is_ready=False) == ["the node is not ready yet engine catching up, height 7"]


@pytest.mark.parametrize("reason", ["short", "é" * 2_000, ""])
def test_the_board_shows_what_is_wrong_until_it_is_not(reason: str) -> None:
    board = Board()
    for part in PARTS:
        board.show_fault(Fault(part, reason))
        shown = board.fault
        assert shown is not None
        assert shown.part == part
        assert reason.startswith(shown.reason)
        assert len(shown.reason) >= min(len(reason), 500)
    board.show_fault(None)
    assert board.fault is None
