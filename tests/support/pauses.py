"""Whether what a test has started is paused, as by SIGSTOP: `Pace` asks, so that nobody counts that time."""

import os

from tests.support.descendants import descendants
from tests.support.node_process import is_stopped


def is_any_child_paused() -> bool:
    """Whether any process is paused that this one started, or that those started."""
    return any(map(is_stopped, descendants(os.getpid())))
