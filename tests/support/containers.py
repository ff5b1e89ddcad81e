"""Podman with images and containers of its own, in which the image of the node is built without a network.

The base is the bare Debian of `tools/clean_root.sh`, which also has the packages and wheels that the image needs.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.machine import CLEAN_ROOT, need_machine
from tests.support.pace import PATIENCE_S
from tests.support.pages import ROOT
from tests.support.programs import need_program

BUILD_TIMEOUT_S = 1_500
COMETBFT = ROOT / ".tools" / "bin" / "cometbft"


class Containers:
    """`scratch` holds all of it; `close` unmounts what is mounted there."""

    def __init__(self, scratch: Path) -> None:
        need_machine()
        for program in ("podman", "buildah", "runc", "catatonit"):
            need_program(program)
        self._scratch = scratch
        storage, settings = scratch / "storage.conf", scratch / "containers.conf"
        storage.write_text(
            f'[storage]\ndriver = "overlay"\ngraphroot = "{scratch}/images"\nrunroot = "{scratch}/running"\n'
        )
        # Not every machine lets a container have as many as Podman gives it.
        settings.write_text(
            '[containers]\ndefault_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]\n'
            '[engine]\nruntime = "runc"\nevents_logger = "file"\ncgroup_manager = "cgroupfs"\n'
        )
        # Docker's name for it, as on the pages.
        (scratch / "bin").mkdir()
        (scratch / "bin" / "docker").symlink_to(need_program("podman"))
        self._environment = os.environ | {
            "CONTAINERS_STORAGE_CONF": str(storage),
            "CONTAINERS_CONF": str(settings),
            # Whole images pass through it.
            "TMPDIR": str(scratch),
            "PATH": f"{scratch / 'bin'}:{os.environ['PATH']}",
        }

    def run(self, command: str, timeout_s: float = PATIENCE_S, names: Mapping[str, str] | None = None) -> str:
        """What a command prints. Raises `AssertionError` when it fails."""
        for name, value in (names or {}).items():
            command = command.replace(name, value)
        # However long a node takes to start here: whoever reads the page has a machine with less to do.
        command = re.sub(r"--retry \d+", f"--retry {PATIENCE_S:.0f}", command)
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            start_new_session=True,
        )
        assert done.returncode == 0, f"{command}\nexit code {done.returncode}: {done.stdout[-3000:]}"
        return done.stdout

    def build(self) -> None:
        """Build the image by the shipped Dockerfile, with the wheels and CometBFT that are here already."""
        pip = self._scratch / "pip.conf"
        pip.write_text("[global]\nno-index = true\nfind-links = /srv/wheels\n")
        cometbft = self._scratch / "cometbft"
        cometbft.mkdir()
        shutil.copy(COMETBFT, cometbft)
        self.run(f"tar -C {CLEAN_ROOT}/root -c . | docker import - localhost/base", BUILD_TIMEOUT_S)
        flags = (
            "--build-arg BASE=localhost/base "
            f"--build-context cometbft={cometbft} "
            f"--volume {CLEAN_ROOT}/wheels:/srv/wheels:ro --volume {pip}:/etc/pip.conf:ro "
            "--isolation chroot --format docker"
        )
        self.run(f"make image BUILDER='buildah' ARGS='{flags}'", BUILD_TIMEOUT_S)

    def close(self) -> None:
        self.run("docker rm --all --force --time 0; docker rmi --all --force; docker system reset --force")
