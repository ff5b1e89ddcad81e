"""How long CometBFT pauses after a block, as its config.toml says it."""

from pathlib import Path

import pytest

from cairn.engine.network.block_pause import read_block_pause_s


@pytest.mark.parametrize(
    ("consensus", "seconds"),
    [
        ('timeout_commit = "300ms"', 0.3),
        ('timeout_commit = "1.5s"', 1.5),
        ('timeout_commit = "0s"', 0),
        ('timeout_commit = "250000us"', 0.25),
        ('timeout_commit = "1s20ms"', 1.02),
        ('timeout_commit = "1h"', 3_600),
        ('timeout_commit = "300ms"\nskip_timeout_commit = true', 0),
        ('timeout_commit = "soon"', 0),
        ('timeout_commit = "300"', 0),
        ("timeout_commit = 300", 0),
        ("", 0),
        ("timeout_commit = ", 0),
    ],
)
def test_the_pause_is_read_from_the_configuration(tmp_path: Path, consensus: str, seconds: float) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text(f"[consensus]\n{consensus}\n")
    assert read_block_pause_s(tmp_path) == pytest.approx(seconds)


def test_without_a_configuration_there_is_no_pause_to_count_on(tmp_path: Path) -> None:
    assert read_block_pause_s(tmp_path) == 0
