"""The lines of README.md and docs/ that install something, run as they are printed, and a payment with what they give.

Nothing is published yet: constraints say that `cairn-node` and `cairn-node-client` are the wheels built here. What they
need comes in the versions that were tested. With `-s` it prints how long each way takes.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from cairn.build import described
from tests.support.node_process import NodeProcess
from tests.support.pages import PROGRAMS, ROOT, Page, Terminal
from tests.support.stopwatch import timed
from tools.release import UV

[(FROM_CLONE, OR_FROM_CLONE)] = [line.split("# or: ") for line in Page("README.md").code("sh")[0].splitlines()]
[IN_A_CLONE, FROM_INDEX] = Page("docs/running.md").code("sh")
[PIPX, UV_TOOL, UVX] = FROM_INDEX.splitlines()
CLIENT_LINES = Page("docs/client.md").code("sh")[0].splitlines()
INSTALL_TIMEOUT_S = 1_500
HAS_KEYSTORES = "import eth_account, cairn.client; print(cairn.client.__file__)"


def constraints(target: Path, wheels: Path | None) -> Path:
    """The locked versions, and our wheels. Without hashes: pip would ask for those of everything that it installs."""
    pins = [
        line.removesuffix(" \\")
        for line in (ROOT / "requirements" / "runtime.txt").read_text().splitlines()
        if not line.startswith(" ")
    ]
    built = [] if wheels is None else sorted(wheels.glob("*.whl"))
    ours = [f"{wheel.name.split('-')[0].replace('_', '-')} @ {wheel.as_uri()}" for wheel in built]
    target.write_text("\n".join([*pins, *ours, ""]))
    return target


def environment(directory: Path, wheels: Path | None) -> dict[str, str]:
    """That of a user with uv and pipx who has installed nothing with them yet."""
    commands = directory / "bin"
    pins = str(constraints(directory / "constraints.txt", wheels))
    return {
        "PATH": os.pathsep.join([str(commands), str(UV.parent), str(PROGRAMS), os.environ["PATH"]]),
        "UV_TOOL_DIR": str(directory / "uv"),
        "UV_TOOL_BIN_DIR": str(commands),
        "UV_CONSTRAINT": pins,
        "UV_PYTHON": sys.executable,
        "PIPX_HOME": str(directory / "pipx"),
        "PIPX_BIN_DIR": str(commands),
        "PIPX_MAN_DIR": str(directory / "man"),
        # Its own choice where there is uv, and much cheaper than pip.
        "PIPX_DEFAULT_BACKEND": "uv",
        "PIP_CONSTRAINT": pins,
    }


def pay_once(directory: Path, program: list[str], env: Mapping[str, str]) -> None:
    """Start a dev chain on any free port, pay as README.md does with curl, and see it confirmed."""
    send, look, _ = Page("README.md").steps("curl ")
    with NodeProcess(["--port", "0"], env, program) as node:
        terminal = Terminal(directory, node.url)
        assert '"status":"pending"' in terminal.run(send.line)
        assert '"status":"confirmed"' in terminal.run(look.line)


def test_both_pages_install_from_a_clone_in_the_same_way() -> None:
    assert Page("README.md").code("sh")[0] == IN_A_CLONE


@pytest.mark.parametrize(
    ("line", "is_clone"),
    [(FROM_CLONE, True), (OR_FROM_CLONE, True), (UV_TOOL, False), (PIPX, False)],
    ids=["uv tool, from a clone", "pipx, from a clone", "uv tool", "pipx"],
)
def test_an_installed_node_takes_a_payment(line: str, is_clone: bool, distributions: Path, tmp_path: Path) -> None:
    env = environment(tmp_path, None if is_clone else distributions)
    installed = tmp_path / "bin" / "cairn"
    with timed(f"{line.strip()}, cairn dev and a payment, until it is confirmed"):
        Terminal(ROOT if is_clone else tmp_path, "", env, timeout_s=INSTALL_TIMEOUT_S).run(line)
        pay_once(tmp_path, [str(installed), "dev"], {})
    told = subprocess.run([installed, "--version"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert told.stdout == f"cairn {described()}\n"


def test_a_node_takes_a_payment_without_being_installed(distributions: Path, tmp_path: Path) -> None:
    command = shlex.split(UVX, comments=True)
    assert command[-1] == "dev"
    with timed(f"{shlex.join(command)} and a payment, until it is confirmed"):
        pay_once(tmp_path, [str(UV.parent / command[0]), *command[1:]], environment(tmp_path, distributions))
    assert not (tmp_path / "bin").exists()


def test_the_client_is_installed_alone_and_with_keystores(distributions: Path, tmp_path: Path) -> None:
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run([UV, "venv", "--quiet", "--no-project", "--python", sys.executable, tmp_path / "env"], check=True)
    # The pip is that of the tests, and installs into the environment just made.
    env = environment(tmp_path, distributions) | {"PIP_PYTHON": str(python)}
    terminal = Terminal(tmp_path, "", env, timeout_s=INSTALL_TIMEOUT_S)
    for line in CLIENT_LINES:
        terminal.run(line)
    found = subprocess.run([python, "-c", HAS_KEYSTORES], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert found.stdout.startswith(str(tmp_path / "env"))
