"""A disk that fills up is told of below the threshold, at each halving, and when it has space again."""

from structlog.testing import capture_logs

from cairn.core.disk_space import DiskSpace


def told(free: list[int], warning_bytes: int) -> list[tuple[str, int]]:
    left = iter(free)
    space = DiskSpace(lambda: next(left), warning_bytes)
    with capture_logs() as lines:
        for _ in free:
            space.look()
    return [(line["log_level"], line["free_bytes"]) for line in lines]


def test_a_disk_below_the_threshold_is_told_of_once_and_again_at_half_of_it() -> None:
    free = [200, 100, 99, 98, 60, 49, 40, 24, 30, 99, 100, 150, 50]
    expected = [("warning", 99), ("warning", 49), ("warning", 24), ("info", 100), ("warning", 50)]
    assert told(free, 100) == expected


def test_without_a_threshold_nothing_is_told() -> None:
    assert told([100, 1, 0], 0) == []
