"""docs/test-your-app.md: its app, its tests and what pytest prints for them; and what happens where no node starts."""

import re
import select
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cairn import testing
from cairn.client import Client
from cairn.testing import NodeNotStarted, find_program, running_node
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S
from tests.support.pages import Page, Terminal

PAGE = Page("docs/test-your-app.md")


def without_time(printed: str) -> str:
    return re.sub(r"in \d+\.\d\ds( \(.*\))?", "in … s", printed)


def test_the_page_as_it_is_printed(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "http://127.0.0.1:1")
    for name in ("shop.py", "conftest.py", "test_shop.py"):
        [program] = PAGE.code("python", name)
        terminal.save(name, program)
    [step] = PAGE.steps()
    assert without_time(terminal.run(step.line)) == without_time(step.output)


def test_a_node_that_does_not_start_says_why() -> None:
    with pytest.raises(NodeNotStarted, match="exit code 2: cairn: chainId: 0 is not between"):
        running_node(["--chain-id", "0"]).__enter__()


def test_a_node_that_hangs_is_not_awaited_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = tmp_path / "said"
    hanging = f"echo so slow >&2; touch {said}; exec sleep 600"

    def select_once_said(*waiting: Any) -> Any:
        # However long the machine takes to start it: its words are to be told.
        wait_until(said.exists, PATIENCE_S, "the first words")
        return select.select(*waiting)

    monkeypatch.setattr(testing, "find_program", lambda: ["sh", "-c", hanging])
    monkeypatch.setattr(testing, "select", SimpleNamespace(select=select_once_said))
    monkeypatch.setattr(testing, "START_TIMEOUT_S", 0.2)
    with pytest.raises(NodeNotStarted, match="says nothing for 0.2 s: so slow"):
        running_node().__enter__()


def test_where_only_the_client_is_installed_the_path_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NodeNotStarted, match="install cairn-node"):
        find_program()
    (tmp_path / "cairn").touch(mode=0o755)
    assert find_program() == [str(tmp_path / "cairn")]


def test_a_proxy_in_the_environment_is_not_asked_for_a_node_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with running_node() as chain, Client(chain.url, timeout_s=PATIENCE_S) as client:
        chain.mine()
        assert client.chain().head.block_height == 1
        with closing(client.blocks(from_height=1)) as blocks:
            assert next(blocks).block_height == 1
