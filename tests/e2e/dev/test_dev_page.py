"""docs/dev-chain.md: every command and program on it, on a node that has just been started."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.node_process import NodeProcess
from tests.support.pages import Page, Terminal

PAGE = Page("docs/dev-chain.md")


@pytest.fixture(scope="module")
def node() -> Iterator[NodeProcess]:
    with NodeProcess.start_dev() as process:
        yield process


@pytest.fixture
def terminal(node: NodeProcess, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path, node.url)


def test_the_commands_print_what_is_shown(terminal: Terminal) -> None:
    steps = PAGE.steps()
    assert len(steps) > 10
    for step in steps:
        assert terminal.run(step.line).strip() == step.output.strip(), step.line


def test_the_node_stops_with_the_program_that_holds_its_input(tmp_path: Path) -> None:
    [line] = PAGE.code("sh")
    assert line.startswith("sleep 60 | ")
    # The page waits for a minute, in which a slow machine may not get ready. Whenever `sleep` ends, the input does.
    pipeline = f"{line.partition('#')[0].rstrip()} --port 0".replace("sleep 60", "sleep 86400")
    with NodeProcess(["-c", pipeline], Terminal(tmp_path, "").environment, program=["sh"]) as shell:
        shell.wait_ready()
        [sleep] = [pid for pid, name in shell.children().items() if name == "sleep"]
        os.kill(sleep, signal.SIGTERM)
        assert shell.wait_exit() == 0
        assert "Listening on " in shell.stdout


def printed_by(program: str) -> str:
    """What the page says right below the program's section."""
    [_, after] = PAGE.text.split(f'title="{program}"')
    return Page(PAGE.name, after).code("text")[0]


def test_viem(terminal: Terminal, js_packages: Path) -> None:
    [program] = PAGE.code("javascript", "viem_dev.mjs")
    (terminal.directory / "node_modules").symlink_to(js_packages)
    terminal.save("viem_dev.mjs", program)
    assert terminal.run("node viem_dev.mjs") == printed_by("viem_dev.mjs")


def test_web3py(terminal: Terminal) -> None:
    [program] = PAGE.code("python", "web3_dev.py")
    terminal.save("web3_dev.py", program)
    assert terminal.run("python web3_dev.py") == printed_by("web3_dev.py")
