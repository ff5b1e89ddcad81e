"""A real PostgreSQL server for a test: a cluster of its own in a temporary directory, on a Unix socket only."""

import os
import pwd
import signal
import subprocess
import tempfile
from glob import glob
from pathlib import Path

import psycopg

from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S

INITDB = (os.environ.get("INITDB", "initdb"), *sorted(glob("/usr/lib/postgresql/*/bin/initdb"), reverse=True))
"""Debian keeps the server's programs off the path."""
ORDINARY_USER = "nobody"
"""PostgreSQL refuses to run as root."""
OPTIONS = ("--auth=trust", "--username=cairn", "--encoding=UTF8", "--locale=C", "--no-sync")


class PostgreSQL:
    """Leaving the `with` block ends the server and deletes the cluster."""

    def __init__(self, initdb: str) -> None:
        self.programs = Path(initdb).resolve().parent
        self._scratch = tempfile.TemporaryDirectory(prefix="cairn-pg-")
        self._directory = Path(self._scratch.name)
        self._log = self._directory / "log"
        data = str(self._directory / "data")
        if os.geteuid() == 0:
            os.chown(self._directory, pwd.getpwnam(ORDINARY_USER).pw_uid, -1)
        self._spawn("initdb", "-D", data, *OPTIONS).wait(PATIENCE_S)
        socket = ("-c", "listen_addresses=", "-c", f"unix_socket_directories={self._directory}")
        # It is never killed, and the machine does not lose its power: it need not wait for the disk.
        self._server = self._spawn("postgres", "-D", data, *socket, "-c", "fsync=off")

    @property
    def environment(self) -> dict[str, str]:
        """What makes `psql`, `createdb` and every driver find the server."""
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}"
        return {"PGHOST": str(self._directory), "PGPORT": "5432", "PGUSER": "cairn", "PATH": path}

    def connect(self, database: str) -> psycopg.Connection:
        return psycopg.connect(host=str(self._directory), port=5432, user="cairn", dbname=database, autocommit=True)

    def _spawn(self, program: str, *arguments: str) -> "subprocess.Popen[bytes]":
        command = [str(self.programs / program), *arguments]
        with self._log.open("ab") as log:
            if os.geteuid() != 0:
                return subprocess.Popen(command, stdout=log, stderr=log)
            user = pwd.getpwnam(ORDINARY_USER)
            return subprocess.Popen(
                command, stdout=log, stderr=log, cwd="/", user=user.pw_uid, group=user.pw_gid, extra_groups=[]
            )

    def _answers(self) -> bool:
        assert self._server.poll() is None, self._log.read_text()
        try:
            self.connect("postgres").close()
        except psycopg.OperationalError:
            return False
        return True

    def __enter__(self) -> "PostgreSQL":
        try:
            wait_until(self._answers, PATIENCE_S, "PostgreSQL to answer")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        # Its clients need not leave first.
        self._server.send_signal(signal.SIGINT)
        self._server.wait(PATIENCE_S)
        self._scratch.cleanup()
