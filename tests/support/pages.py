"""What README.md and docs/ show: commands with their output, and code, so that tests can run exactly that."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCUMENTED_ADDRESS = "127.0.0.1:8645"
COMMAND = re.compile(
    r"""
    ^\$\ (                                # the prompt
        .*<<'END'\n (?:.*\n)*? END         # input that is given along, to its end
      | (?:.*\\\n)* .*                    # a line, and those that it goes on in
    )\n
    ((?:(?!\$\ ).*\n)*)                    # what it prints
    """,
    re.MULTILINE | re.VERBOSE,
)


class Step(NamedTuple):
    """A command of a console block, and the output that is shown below it."""

    line: str
    output: str


class Page:
    """One page, named by its path in the repository."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = ROOT / name
        self.text = self.path.read_text()

    def steps(self, program: str = "") -> list[Step]:
        """The commands that start with `program`, wherever it is installed."""
        steps = [
            Step(line.replace("\\\n", ""), output)
            for block in self.code("console")
            for line, output in COMMAND.findall(block)
        ]
        return [step for step in steps if step.line.removeprefix(".venv/bin/").startswith(program)]

    def code(self, language: str, title: str = "") -> list[str]:
        """The blocks of one language; with a title only those that carry it."""
        titled = rf' title="{re.escape(title)}"' if title else "[^\n]*"
        return re.findall(rf"^```{language}{titled}\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)

    def broken_links(self) -> list[str]:
        links = re.findall(r"\]\((?!http)([^)#]+)[^)]*\)", self.text)
        return [link for link in links if not self.path.parent.joinpath(link).exists()]


def every_page() -> list[str]:
    return ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").glob("*.md")))]
