"""examples/: each program does what docs/client.md says, on a real node."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.node_process import NodeProcess
from tests.support.pages import ROOT, Page, Terminal

PAGE = Page("docs/client.md")
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))


@pytest.fixture
def node() -> Iterator[NodeProcess]:
    """A chain of its own for each: what they print tells of its first blocks."""
    with NodeProcess.start_dev("--block-time", "0.01") as process:
        yield process


def steady(text: str) -> str:
    """Without what depends on the moment: hashes, and how many transactions a block happens to have."""
    text = re.sub(r"0x[0-9a-f]{8,}", "0x…", text)
    return re.sub(r"by \d+ hashes for \d+", "by … hashes for …", text)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_prints_what_the_page_shows(node: NodeProcess, tmp_path: Path, example: str) -> None:
    terminal = Terminal(tmp_path, node.url)
    terminal.save(example, (ROOT / "examples" / example).read_text())
    [shown] = [step.output for step in PAGE.steps("python ") if step.line.endswith(f"examples/{example}")]
    assert steady(terminal.run(f"python -W error {example}")) == steady(shown)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_page_shows_the_example_as_it_is(example: str) -> None:
    [shown] = PAGE.code("python", f"examples/{example}")
    assert shown == (ROOT / "examples" / example).read_text()


def test_every_program_on_the_page_is_an_example() -> None:
    assert len(PAGE.code("python")) == len(PAGE.steps()) == len(EXAMPLES)
