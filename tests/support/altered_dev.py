"""`cairn` that ends itself in the middle of a revert: `python altered_dev.py core|node DIR dev --data-dir ...`.

Each life ends with SIGKILL at the next of the crash points, for the core alone or for the whole node. Those that were
reached are one file each in DIR.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cairn.cli.main import app
from cairn.store import chain
from cairn.store import dev_snapshots as rewind
from cairn.store.dev_snapshots import DevDirectory

CRASH_POINTS = ("undecided", "decided", "chain-moved", "all-moved", "finished")
"""In the order in which a revert comes to them. From `decided` on there is no way back."""


class Crash:
    def __init__(self, directory: Path, whole_node: bool) -> None:
        self._directory = directory
        self._whole_node = whole_node

    def reach(self, point: str) -> None:
        done = len(list(self._directory.iterdir()))
        if done < len(CRASH_POINTS) and CRASH_POINTS[done] == point:
            (self._directory / point).touch(exist_ok=False)
            if self._whole_node:
                os.killpg(0, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)


def after(crash: Crash, point: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def altered(*args: object) -> Any:
        result = function(*args)
        crash.reach(point)
        return result

    return altered


def before(crash: Crash, point: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def altered(*args: object) -> Any:
        crash.reach(point)
        return function(*args)

    return altered


def alter(crash: Crash) -> None:
    decide = before(crash, "undecided", after(crash, "decided", DevDirectory.decide_revert))
    finish_revert, put_back, save_state = rewind.finish_revert, rewind._put_back, rewind._save_state

    def finish(directory: Path) -> int:
        is_due = DevDirectory(directory).state.reverting is not None
        if is_due:
            vars(rewind)["_put_back"] = after(crash, "chain-moved", put_back)
            vars(rewind)["_save_state"] = before(crash, "all-moved", save_state)
        reverts = finish_revert(directory)
        if is_due:
            crash.reach("finished")
        vars(rewind)["_save_state"] = save_state
        return reverts

    for owner, name, altered in ((DevDirectory, "decide_revert", decide), (chain, "finish_revert", finish)):
        setattr(owner, name, altered)


def main() -> None:
    _, victim, directory, *args = sys.argv
    sys.argv = [sys.argv[0], *args]
    alter(Crash(Path(directory), whole_node=victim == "node"))
    app()


if __name__ == "__main__":
    main()
