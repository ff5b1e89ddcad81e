"""Refusals are summed up once a minute by code, and a flood of them is told of at once."""

from structlog.testing import capture_logs

from cairn import metrics
from cairn.refusal_log import FLOOD_PER_S, LOOK_S, SUMMARY_S, RefusalLog


def test_refusals_of_a_minute_are_one_line_by_code_with_the_most_frequent_first() -> None:
    refusals = RefusalLog(0.0)
    with capture_logs() as lines:
        for second in range(1, 2 * int(SUMMARY_S) + 1):
            if second <= 50:
                metrics.HTTP_REFUSALS.inc("RATE_LIMITED")
            if second <= 10:
                metrics.HTTP_REFUSALS.inc("NONCE_TOO_LOW")
            refusals.look(float(second))
    [line] = lines
    assert (line["event"], line["log_level"]) == ("requests were refused", "info")
    assert list(line["codes"].items()) == [("RATE_LIMITED", 50), ("NONCE_TOO_LOW", 10)]


def test_a_flood_is_told_of_at_the_next_look() -> None:
    refusals = RefusalLog(0.0)
    metrics.HTTP_REFUSALS.add(int(FLOOD_PER_S * LOOK_S) - 1, "MEMPOOL_FULL")
    with capture_logs() as lines:
        refusals.look(LOOK_S)
        assert lines == []
        metrics.HTTP_REFUSALS.add(int(FLOOD_PER_S * LOOK_S), "MEMPOOL_FULL")
        refusals.look(1.5 * LOOK_S)
        refusals.look(2 * LOOK_S)
    [line] = lines
    assert (line["event"], line["log_level"]) == ("many requests are refused", "warning")
    assert line["codes"] == {"MEMPOOL_FULL": 100}
