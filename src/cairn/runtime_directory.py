"""Where a running node has its sockets and scratch files: a private directory that is removed at its end."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cairn.domain.errors import InvalidConfig
from cairn.running_node import core_socket_in
from cairn.temporary import temporary_directory

RUNTIME_PREFIX = "cairn-run-"
RUN_DIRECTORY = "run"


@contextmanager
def runtime_directory(home: Path) -> Iterator[Path]:
    """The first place in which a socket can be made: not every root is writable, and a socket's path must be short.

    Raises `InvalidConfig` that names them all when there is none.
    """
    in_home = home.absolute() / RUN_DIRECTORY
    with ExitStack() as kept:
        refused = []
        for parent in [*candidates(), in_home]:
            with ExitStack() as tried:
                try:
                    if parent == in_home:
                        parent.mkdir(mode=0o700, exist_ok=True)
                    path = tried.enter_context(temporary_directory(RUNTIME_PREFIX, parent))
                    _make_a_socket(path)
                except OSError as failure:
                    refused.append(f"{parent}: {failure.strerror or failure}")
                    continue
                kept.push(tried.pop_all())
                break
        else:
            raise InvalidConfig(
                f"there is no directory for the node's sockets ({'; '.join(refused)}): "
                "make one of them writable, or set TMPDIR to one that is, with a path of at most 70 bytes"
            )
        yield path


def candidates() -> list[Path]:
    """The service manager's directory, and those for temporary files. Behind them comes the home itself."""
    given = os.environ.get("RUNTIME_DIRECTORY", "").split(":")[0]
    named = [given, *(os.environ.get(name, "") for name in ("TMPDIR", "TEMP", "TMP"))]
    return [*map(Path, filter(None, named)), Path("/tmp"), Path("/var/tmp")]


def _make_a_socket(directory: Path) -> None:
    """Make one and remove it. Raises `OSError` where the path is too long, or the file system has no sockets."""
    path = core_socket_in(directory)
    with socket.socket(socket.AF_UNIX) as tried:
        tried.bind(str(path))
    path.unlink()
