"""A bare Debian with a real systemd, in a container without a network: `tools/clean_root.sh` makes it, once.

Whatever a test does to it is forgotten at its end.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S
from tests.support.pages import ROOT
from tests.support.programs import need_program

CLEAN_ROOT = ROOT / ".tools" / "clean-root"
MAKE_TIMEOUT_S = 1_500
LINES = 40
"""Of a log, for a failure."""
SHUT_DOWN = signal.SIGRTMIN + 4
"""Has systemd power the machine off."""
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
    "SYSTEMD_PAGER": "",
    # What pip would fetch is here already, and nothing else.
    "PIP_NO_INDEX": "1",
    "PIP_FIND_LINKS": "/srv/wheels /srv/ours",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
}


def need_machine() -> None:
    """Skip the test where no container can be booted, and say what lacks."""
    if os.geteuid() != 0 or not _may_mount():
        pytest.skip("systemd-nspawn needs root that may mount: run `sudo make test`")
    need_program("systemd-nspawn")
    need_program("debootstrap")
    subprocess.run(
        ["sh", "tools/again.sh", "sh", "tools/clean_root.sh"],
        cwd=ROOT,
        env=os.environ | {"PYTHON": sys.executable},
        timeout=MAKE_TIMEOUT_S,
        check=True,
        start_new_session=True,
    )


def _may_mount() -> bool:
    unshare = shutil.which("unshare")
    return unshare is not None and subprocess.run([unshare, "-mn", "true"], capture_output=True).returncode == 0


def build_wheel(version: str, target: Path, scratch: Path) -> None:
    """The node of this checkout, by another number."""
    source = scratch / version
    ignored = shutil.ignore_patterns("__pycache__")
    for part in ("src/cairn", "packaging"):
        shutil.copytree(ROOT / part, source / part, ignore=ignored)
    for name in ("CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, source)
    named = source / "src" / "cairn" / "__init__.py"
    named.write_text(re.sub('__version__ = ".*"', f'__version__ = "{version}"', named.read_text()))
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    subprocess.run(command, cwd=source, stdout=subprocess.DEVNULL, check=True, start_new_session=True)


class Machine:
    """One that runs. `wheels` is a directory of packages that pip finds there besides what the node needs."""

    def __init__(self, wheels: Path) -> None:
        self._init = 0
        # No pipe: nobody reads it, and once it is full, the machine's first process would wait for ever.
        self._console = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [
                "systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit", "--private-network",
                "--volatile=overlay", "--console=pipe", f"--machine=cairn-test-{os.getpid()}",
                f"--directory={CLEAN_ROOT / 'root'}",
                f"--bind-ro={CLEAN_ROOT / 'wheels'}:/srv/wheels",
                f"--bind-ro={wheels}:/srv/ours",
            ],
            stdin=subprocess.DEVNULL, stdout=self._console, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def __enter__(self) -> "Machine":
        try:
            wait_until(self._find_init, PATIENCE_S, "the machine's first process")
            self.wait_for("systemctl is-system-running | grep -E 'running|degraded'")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._init and self._process.poll() is None:
            os.kill(self._init, SHUT_DOWN)
        else:
            self._process.kill()
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._console.close()

    def _find_init(self) -> bool:
        """Look for the machine's first process. Others come before it, and still see this machine's files."""
        if self._process.poll() is not None:
            self._console.seek(0)
            raise AssertionError(f"systemd-nspawn has ended: {self._console.read()}")
        with suppress(OSError):
            for pid in Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split():
                is_inside = Path("/proc", pid, "root", "srv", "ours").is_mount()
                if is_inside and Path(f"/proc/{pid}/comm").read_text() == "systemd\n":
                    self._init = int(pid)
        return self._init != 0

    def try_to(self, command: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command as root's shell would."""
        variables = [f"{name}={value}" for name, value in (ENVIRONMENT | dict(environment or {})).items()]
        enter = ["nsenter", f"--target={self._init}", "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"]
        return subprocess.run(
            [*enter, "env", "-i", *variables, "sh", "-c", f"cd && {command}"],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            start_new_session=True,
        )

    def run(self, command: str) -> str:
        """What the command prints. Raises `AssertionError` when it fails."""
        done = self.try_to(command)
        if done.returncode != 0:
            latest = self.try_to(f"journalctl --no-pager -n {LINES}").stdout
            raise AssertionError(f"{command}\nexit code {done.returncode}: {done.stdout}\n{latest}")
        return done.stdout

    def wait_for(self, command: str) -> None:
        """Return once the command succeeds."""
        self.run(f"until {command}; do sleep 0.1; done >/dev/null 2>&1")

    def journal(self) -> str:
        """The last lines of the node's log, with all that was written before."""
        return self.run(f"journalctl --sync && journalctl --no-pager -o cat -u cairn -n {LINES}")

    def shows(self, name: str) -> str:
        """A property of the node's service, as systemd has it."""
        return self.run(f"systemctl show cairn -p {name} --value").strip()

    def wait_until_shown(self, name: str, value: str) -> None:
        """Return once the property is so: systemd learns of it, or takes it back, a moment later."""
        self.wait_for(f'test "$(systemctl show cairn -p {name} --value)" = {shlex.quote(value)}')

    def pid_of(self, name: str) -> int:
        """The id of the only process with that name."""
        listed = self.run("cat /proc/[0-9]*/stat 2>/dev/null; true")
        [pid] = re.findall(rf"^(\d+) \({re.escape(name)}\) ", listed, re.MULTILINE)
        return int(pid)

    def write(self, path: str, text: str) -> None:
        self.run(f"mkdir -p $(dirname {path}) && printf %s {shlex.quote(text)} > {path}")

    def append(self, path: str, text: str) -> None:
        self.run(f"printf %s {shlex.quote(text)} >> {path}")
