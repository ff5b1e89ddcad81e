"""What to know before a copy of a chain that one node signs alone is started."""

from cairn.cli.report import warn


def warn_of_second_history(height: int) -> None:
    """`height` is the latest block of the copy."""
    warn(
        f"if the node has made blocks after block {height}, a second signed history begins when this home "
        "is started: do so only if those blocks are lost, and never while the old home runs; see docs/backup.md"
    )
