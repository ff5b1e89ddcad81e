"""Tells the log how many requests were refused, by the code of the error: once a minute, and of a flood at once."""

import structlog

from cairn import metrics

LOOK_S = 2.0
SUMMARY_S = 60.0
FLOOD_PER_S = 50.0
"""So many refusals a second, over one look, are a flood."""

log = structlog.get_logger("cairn.node")

Counts = dict[str, int]


class RefusalLog:
    """Reads what all workers have counted. The supervisor calls it."""

    def __init__(self, now: float) -> None:
        self._looked_at = self._summed_up_at = now
        self._seen = self._summed_up = count_refusals()

    def look(self, now: float) -> None:
        if now - self._looked_at < LOOK_S:
            return
        counts = count_refusals()
        new, passed_s = difference(counts, self._seen), now - self._looked_at
        self._looked_at, self._seen = now, counts
        if sum(new.values()) >= FLOOD_PER_S * passed_s:
            log.warning("many requests are refused", in_s=round(passed_s, 1), codes=new)
        if now - self._summed_up_at >= SUMMARY_S:
            self.sum_up(now)

    def sum_up(self, now: float) -> None:
        """Tell of those since the last time, if there were any."""
        codes = difference(self._seen, self._summed_up)
        if codes:
            log.info("requests were refused", in_s=round(now - self._summed_up_at), codes=codes)
        self._summed_up_at, self._summed_up = now, self._seen


def count_refusals() -> Counts:
    totals = metrics.PAGE.total_counts(metrics.HTTP_REFUSALS)
    return {code: total for (code,), total in zip(metrics.HTTP_REFUSALS.keys, totals, strict=True)}


def difference(counts: Counts, before: Counts) -> Counts:
    """What has come since, the most frequent first."""
    new = {code: count - before[code] for code, count in counts.items() if count > before[code]}
    return dict(sorted(new.items(), key=lambda each: -each[1]))
