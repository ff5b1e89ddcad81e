"""Starts of `cairn`, and of programs of tests, forked from a process that has imported everything (`fork_server.py`).

A node is there in a quarter of the time, and takes a quarter of the processor time. What is started is a child of this
process, as with subprocess, and behaves like the program: tests need not know. A test, or a file, with the mark
`installed` has the real program; so have all that are started by a shell, with `python -m cairn.cli`, with another
interpreter's settings or another library before it, and everything on other systems than Linux.
"""

import atexit
import ctypes
import os
import pickle
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CAIRN = Path(sys.executable).with_name("cairn")
INTERPRETERS = ("PYTHON", "LD_", "LC_", "LANG", "MALLOC_", "GLIBC_")
"""Variables that a process reads when it starts, and never again."""
SUBREAPER = 36
"""Of prctl(2): processes whose parents have ended become children of this one."""
LENGTH_BYTES = 4
LIMITS = (
    resource.RLIMIT_AS,
    resource.RLIMIT_CORE,
    resource.RLIMIT_CPU,
    resource.RLIMIT_DATA,
    resource.RLIMIT_FSIZE,
    resource.RLIMIT_NOFILE,
    resource.RLIMIT_NPROC,
    resource.RLIMIT_STACK,
)


@dataclass(frozen=True)
class Request:
    """A start of `cairn`, as it would have been for subprocess; its standard files come along."""

    args: list[str]
    environment: dict[str, str]
    directory: str
    has_own_session: bool
    limits: dict[int, tuple[int, int]]
    prepare: Callable[[], object] | None
    """Called in the new process, by its name: a function of a module."""


class ForkServer:
    """Started with the first request; it ends with this process."""

    def __init__(self) -> None:
        self.is_used = True
        self._lock = threading.Lock()
        self._servers: dict[int, socket.socket] = {}
        """By the process that uses it: one that was forked from this one has its own."""

    def can_start(self, args: object, prepare: object, environment: Mapping[str, str] | None) -> bool:
        if not (sys.platform == "linux" and self.is_used and isinstance(args, list | tuple) and _is_ours(args)):
            return False
        is_named = prepare is None or getattr(prepare, "__name__", "<lambda>") != "<lambda>"
        return is_named and (environment is None or _interpreters_own(environment) == _interpreters_own(os.environ))

    def start(self, request: Request, files: list[int]) -> int:
        """The id of the new process."""
        with self._lock:
            server = self._servers.get(os.getpid()) or self._start_server()
            body = pickle.dumps(request)
            prctl = ctypes.CDLL(None).prctl
            # Only now: what a node leaves behind when it is killed is nothing that a test waits for.
            prctl(SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(server, [len(body).to_bytes(LENGTH_BYTES)], files)
                server.sendall(body)
                pid = int.from_bytes(server.recv(LENGTH_BYTES))
                done = server.recv(1)
            finally:
                prctl(SUBREAPER, 0, 0, 0, 0)
        if not done:
            raise RuntimeError("the server of forks has ended")
        return pid

    def _start_server(self) -> socket.socket:
        mine, its = socket.socketpair()
        with its:
            # With `pass_fds` it is no fork of itself.
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.fork_server", str(its.fileno())],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
            )
        self._servers[os.getpid()] = mine
        atexit.register(self._end, os.getpid(), process)
        return mine

    def _end(self, owner: int, process: "subprocess.Popen[bytes]") -> None:
        if owner == os.getpid():
            self._servers[owner].close()
            process.wait()


FORK_SERVER = ForkServer()


def _is_ours(args: Sequence[Any]) -> bool:
    """Whether it is the installed command, or a program of tests that does what a part of it does."""
    program, *words = map(str, args)
    return program == str(CAIRN) or (
        program == sys.executable and words[:1] == ["-m"] and words[1].startswith("tests.support.")
    )


def _interpreters_own(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(INTERPRETERS)}


class ForkedPopen(subprocess.Popen[Any]):
    """subprocess.Popen, which has `cairn` forked where that is possible."""

    def _execute_child(
        self,
        args: Any,
        executable: Any,
        preexec_fn: Callable[[], object] | None,
        close_fds: bool,
        pass_fds: Any,
        cwd: Any,
        env: Mapping[str, str] | None,
        startupinfo: Any,
        creationflags: int,
        shell: bool,
        p2cread: int,
        p2cwrite: int,
        c2pread: int,
        c2pwrite: int,
        errread: int,
        errwrite: int,
        *rest: Any,
    ) -> None:
        _, *of_another, has_own_session, process_group = rest
        is_plain = (
            not (shell or pass_fds or executable) and of_another == [None, None, None, -1] and process_group == -1
        )
        if not is_plain or not FORK_SERVER.can_start(args, preexec_fn, env):
            super()._execute_child(  # type: ignore[misc]
                *(args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell),
                *(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *rest),
            )
            return
        request = Request(
            args=[os.fsdecode(arg) for arg in args],
            environment=dict(os.environ if env is None else env),
            directory=os.fspath(cwd or os.getcwd()),
            has_own_session=bool(has_own_session),
            limits={limit: resource.getrlimit(limit) for limit in LIMITS},
            prepare=preexec_fn,
        )
        files = [given if given >= 0 else number for number, given in enumerate((p2cread, c2pwrite, errwrite))]
        self.pid = FORK_SERVER.start(request, files)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]
