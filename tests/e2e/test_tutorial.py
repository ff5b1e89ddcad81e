"""docs/tutorial.md, step by step: its own program, its own commands, and what it says they print."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.node_process import NodeProcess, await_sleep, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.pages import Page, Terminal
from tests.support.ports import free_ports

PAGE = Page("docs/tutorial.md")


@contextmanager
def shop_open(directory: Path) -> Iterator[Path]:
    """Run the shop as the page does; what it prints is in the file. Leaving closes it with Ctrl-C."""
    printed = directory / "printed"
    with printed.open("wb") as out:
        shop = subprocess.Popen([sys.executable, "shop.py"], cwd=directory, stdout=out, stderr=subprocess.PIPE)
    try:
        yield printed
        await_sleep(shop.pid)
        shop.send_signal(signal.SIGINT)
        _, complaint = shop.communicate(timeout=PATIENCE_S)
        assert (shop.returncode, complaint) == (0, b"")
    finally:
        shop.kill()
        shop.communicate()


def await_text(printed: Path, expected: str) -> None:
    wait_until(lambda: printed.read_text() == expected, PATIENCE_S, f"{expected!r}: {printed.read_text()!r}")


def test_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [port] = free_ports(1)
    (make, _), (open_shop, opened), (first, _), (second, _), (third, _), (_, found), (last, _) = PAGE.steps()
    _, told, told_after_restart = PAGE.code("text")
    # `make dev` is `cairn dev` with these options; nobody needs to wait a second for each block here.
    start = ["dev", "--port", str(port), "--block-time", "0.1", *make.partition('"')[2].rstrip('"').split()]
    [program] = PAGE.code("python", "shop.py")
    terminal = Terminal(tmp_path, f"http://127.0.0.1:{port}")
    terminal.save("shop.py", program)
    assert open_shop == ".venv/bin/python shop.py"
    monkeypatch.chdir(tmp_path)

    with NodeProcess.start(start) as node:
        node.wait_ready()
        with shop_open(tmp_path) as printed:
            await_text(printed, opened)
            terminal.run(first)
            await_text(printed, opened + told)
        terminal.run(second)
        terminal.run(third)
        with shop_open(tmp_path) as printed:
            await_text(printed, found)
            node.kill_group()
            with NodeProcess.start(start) as restarted:
                restarted.wait_ready()
                terminal.run(last)
                await_text(printed, found + told_after_restart)
