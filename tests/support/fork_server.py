"""The process that `forked.py` has fork `cairn`: `python -m tests.support.fork_server SOCKET`.

It has imported all that a node or a command imports, which takes most of the time of their start, and does nothing
else: it has one thread and no file. What it forks gets the arguments, the environment and the files of the program that
was asked for, runs `cairn` and ends as that does.
"""

import ctypes
import gc
import importlib
import io
import os
import pickle
import pkgutil
import resource
import runpy
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from typing import TextIO

import cairn
from cairn.cli.main import app
from tests.support.forked import LENGTH_BYTES, Request

RECURSION_LIMIT = 1_000
"""eth_account, which some commands import, raises it."""
DONE = b"!"
LATE = ("anyio._backends._asyncio", "encodings.ascii", "encodings.idna", "httpcore", "linkify_it", "rich.markdown")
"""What libraries import when they are first used."""
SET_NAME = 15
"""Of prctl(2)."""


def import_everything() -> None:
    for module in pkgutil.walk_packages(cairn.__path__, "cairn."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in LATE:
        importlib.import_module(name)


def receive(server: socket.socket) -> tuple[Request, list[int]]:
    """The next request, and its files. Raises `EOFError` when nobody is there any more."""
    length, files, _, _ = socket.recv_fds(server, LENGTH_BYTES, 3)
    if not length:
        raise EOFError
    body = b""
    while len(body) < int.from_bytes(length):
        body += server.recv(int.from_bytes(length) - len(body))
    return pickle.loads(body), files


def fork_orphan(server: socket.socket) -> bool:
    """Fork a process whose parent becomes the one that asked. True in that process, once that is so."""
    waiting, go = os.pipe()
    between = os.fork()
    if between == 0:
        pid = os.fork()
        if pid:
            server.sendall(pid.to_bytes(LENGTH_BYTES))
            os._exit(0)
        os.read(waiting, 1)
        return True
    os.waitpid(between, 0)
    server.sendall(DONE)
    os.write(go, DONE)
    os.close(waiting)
    os.close(go)
    return False


def become(request: Request, files: list[int]) -> None:
    """Make this process what a start of the program would have made."""
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    for limit, values in request.limits.items():
        resource.setrlimit(limit, values)
    os.chdir(request.directory)
    if request.has_own_session:
        os.setsid()
    if request.prepare is not None:
        request.prepare()
    os.environ.clear()
    os.environ.update(request.environment)
    tempfile.tempdir = None
    ctypes.CDLL(None).prctl(SET_NAME, os.path.basename(request.args[0]).encode(), 0, 0, 0)
    sys.setrecursionlimit(RECURSION_LIMIT)
    own = (sys.stdin, sys.stdout, sys.stderr)
    sys.stdin, sys.stdout, sys.stderr = (opened(number, file) for number, file in enumerate(own))
    vars(sys).update(__stdin__=sys.stdin, __stdout__=sys.stdout, __stderr__=sys.stderr)


def run(args: list[str]) -> None:
    """As the installed script does, or `python -m`. The interpreter ends as it would after that."""
    if args[1:2] == ["-m"]:
        sys.argv[:], sys.path[0] = args[2:], os.getcwd()
        runpy.run_module(args[2], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:], sys.path[0] = args, os.path.dirname(args[0])
        # The program is named in its help, as it was started.
        vars(sys.modules["__main__"]).update(__file__=args[0], __package__=None, __spec__=None)
        sys.exit(app())


def opened(number: int, own: TextIO) -> TextIO:
    """A standard file, as Python has opened this process's own."""
    raw = io.FileIO(number, "r" if number == 0 else "w", closefd=False)
    # What Python shows of it.
    vars(raw)["name"] = own.name
    return io.TextIOWrapper(
        io.BufferedReader(raw) if number == 0 else io.BufferedWriter(raw),
        encoding=own.encoding,
        errors=own.errors,
        line_buffering=number == 2 or raw.isatty(),
    )


def main() -> None:
    server = socket.socket(fileno=int(sys.argv[1]))
    import_everything()
    gc.collect()
    gc.freeze()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Whoever asks decides when it ends. A program gets back what it would have had.
        signal.signal(number, signal.SIG_IGN)
    with suppress(EOFError):
        while True:
            request, files = receive(server)
            if fork_orphan(server):
                signal.signal(signal.SIGINT, signal.default_int_handler)
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                signal.signal(signal.SIGHUP, signal.SIG_DFL)
                become(request, files)
                run(request.args)
                return
            for file in files:
                os.close(file)


if __name__ == "__main__":
    main()
