"""docs/follow-events.md: every way to follow that it shows, on a real node."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.node_process import NodeProcess, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.pages import Page, Terminal

PAGE = Page("docs/follow-events.md")
AS_A_BROWSER = """
import { WebSocket as Socket } from "ws";
const sockets = [];
globalThis.WebSocket = class extends Socket {
  constructor(url) {
    super(url);
    sockets.push(this);
  }
};
FOLLOW
const seen = [];
follow(({ blockHeight }) => {
  seen.push(blockHeight);
  // Cut off once: it must go on where it was.
  if (seen.length === 1) sockets[0].terminate();
  if (seen.length === 2) { console.log(seen.join()); process.exit(); }
});
"""


@pytest.fixture(scope="module")
def node() -> Iterator[NodeProcess]:
    with NodeProcess.start_dev("--block-time", "0.01") as process:
        yield process


@pytest.fixture
def terminal(node: NodeProcess, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path, node.url)


def test_python(terminal: Terminal) -> None:
    """The first on this node, so that it makes the first block."""
    [text] = PAGE.code("python", "follow.py")
    terminal.save("follow.py", text)
    one, *others = terminal.run("python follow.py").splitlines()
    assert one.startswith("one transaction: Confirmed(")
    assert others == [
        "to some accounts: 1 coin in block 1",
        "every block: 0 with 0 transactions",
        "every block: 1 with 1 transactions",
    ]


def test_a_browser(terminal: Terminal, js_packages: Path) -> None:
    [text] = PAGE.code("javascript", "follow.js")
    (terminal.directory / "node_modules").symlink_to(js_packages)
    terminal.save("follow.mjs", AS_A_BROWSER.replace("FOLLOW", text))
    assert terminal.run("node follow.mjs") == "0,1\n"


def test_the_watch_command(terminal: Terminal, tmp_path: Path) -> None:
    [(line, _)] = PAGE.steps()
    assert line == "cairn watch"
    printed = tmp_path / "printed"
    with printed.open("w") as out:
        watching = subprocess.Popen(
            terminal.own(".venv/bin/cairn watch").split(), stdout=out, env=terminal.environment, cwd=tmp_path
        )
    try:
        wait_until(lambda: bool(printed.read_text()), PATIENCE_S, "a block")
        watching.send_signal(signal.SIGINT)
        watching.wait(PATIENCE_S)
    finally:
        watching.kill()
        watching.wait()
