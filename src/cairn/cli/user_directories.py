"""Where commands keep what is the user's: the places that the XDG base directory specification names."""

import os
from pathlib import Path


def user_home() -> Path:
    """The user's home directory, or / for one who has none, as container runtimes choose it."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


def user_data() -> Path:
    return _named("XDG_DATA_HOME", user_home() / ".local" / "share")


def user_state() -> Path:
    return _named("XDG_STATE_HOME", user_home() / ".local" / "state")


def _named(variable: str, otherwise: Path) -> Path:
    base = os.environ.get(variable, "")
    # A relative path there is invalid and is to be ignored, says the specification.
    return (Path(base) if base.startswith("/") else otherwise) / "cairn"
