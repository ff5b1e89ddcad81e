"""Which build of the program this is: its version, the commit it was made from, and the data format it writes."""

import re
from pathlib import Path

from cairn import __version__

VERSION = __version__

DATA_FORMAT = 6
"""The format of data directories. It changes when another version could misread a file in them."""

COMMIT_FILE = "COMMIT"
"""Beside this module in what is published: packaging/commit_hook.py writes it. A checkout has none."""
SHOWN_DIGITS = 8

_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def find_commit(package: Path) -> str:
    """The commit that the package in this directory was made from; empty if nothing says so."""
    written = _read(package / COMMIT_FILE) or _head_of(package.parent.parent / ".git")
    return written if _HASH.fullmatch(written) else ""


def _head_of(git: Path) -> str:
    """The commit of a checkout. Its files are read, since git may not be installed, or may refuse another's files."""
    if git.is_file():
        # A worktree or a submodule: the file names its directory.
        git = git.parent / _read(git).removeprefix("gitdir:").strip()
    head = _read(git / "HEAD")
    if not head.startswith("ref:"):
        return head
    branch = head.removeprefix("ref:").strip()
    # All worktrees have their branches in one place.
    shared = git / _read(git / "commondir")
    return _read(git / branch) or _read(shared / branch) or _packed(_read(shared / "packed-refs"), branch)


def _packed(references: str, branch: str) -> str:
    found = re.search(rf"^([0-9a-f]+) {re.escape(branch)}$", references, re.MULTILINE)
    return found[1] if found else ""


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


COMMIT = find_commit(Path(__file__).parent)


def described() -> str:
    """The version for people, with the first digits of the commit, if it is known."""
    return f"{VERSION} ({COMMIT[:SHOWN_DIGITS]})" if COMMIT else VERSION
