"""How long CometBFT pauses after a block, by its configuration."""

import re
import tomllib
from pathlib import Path

_UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")


def read_block_pause_s(home: Path) -> float:
    """The least time between a block and the next proposal; 0 if the file does not say, or cannot be read."""
    try:
        consensus = tomllib.loads((home / "config" / "config.toml").read_text())["consensus"]
        if consensus.get("skip_timeout_commit"):
            return 0.0
        return _duration_s(consensus["timeout_commit"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        # CometBFT says what is wrong with it. Here it only decides how early a transaction is sent, and what is shown.
        return 0.0


def _duration_s(text: str) -> float:
    """As Go writes it: 300ms, 1m30s. Raises `ValueError`."""
    parts = _PART.findall(text)
    if "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration")
    return float(sum(float(number) * _UNITS_S[unit] for number, unit in parts))
