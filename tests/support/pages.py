"""What README.md and docs/ show: commands with their output, and code, so that tests can run exactly that."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.support.node_process import clean_environment
from tests.support.pace import PATIENCE_S
from tests.support.programs import need_program

ROOT = Path(__file__).parents[2]
DOCUMENTED_ADDRESS = "127.0.0.1:8645"
DOCUMENTED_NETWORK_ADDRESS = "127.0.0.1:8650"
"""Of a node of a network."""
PROGRAMS = Path(sys.executable).parent
COMMAND = re.compile(
    r"""
    ^\$\ (                                # the prompt
        (?:.*\\\n)* .*                    # a line, and those that it goes on in
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
    """One page, named by its path in the repository, or a section of it."""

    def __init__(self, name: str, text: str | None = None) -> None:
        self.name = name
        self.path = ROOT / name
        self.text = self.path.read_text() if text is None else text

    def headings(self) -> list[str]:
        return re.findall(r"^## (.*)$", self.text, re.MULTILINE)

    def section(self, heading: str) -> "Page":
        """What stands below the heading. Raises `LookupError`."""
        found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", self.text, re.MULTILINE | re.DOTALL)
        if found is None:
            raise LookupError(f"{self.name} has no section {heading}")
        return Page(self.name, found[1])

    def steps(self, program: str = "") -> list[Step]:
        """The commands that start with `program`, wherever it is installed."""
        steps = [
            Step(line.replace("\\\n", ""), output)
            for block in self.code("console")
            for line, output in COMMAND.findall(block)
        ]
        return [step for step in steps if step.line.removeprefix(".venv/bin/").startswith(program)]

    def titled_steps(self) -> list[tuple[str, Step]]:
        """The commands with the titles of their blocks, which say who types them."""
        blocks = re.findall(r'^```console title="([^"]+)"\n(.*?)^```$', self.text, re.MULTILINE | re.DOTALL)
        return [
            (title, Step(line.replace("\\\n", ""), output))
            for title, block in blocks
            for line, output in COMMAND.findall(block)
        ]

    def code(self, language: str, title: str = "") -> list[str]:
        """The blocks of one language; with a title only those that carry it."""
        titled = rf' title="{re.escape(title)}"' if title else "[^\n]*"
        return re.findall(rf"^```{language}{titled}\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)

    def broken_links(self) -> list[str]:
        links = re.findall(r"\]\((?!http)([^)#]+)[^)]*\)", self.text)
        return [link for link in links if not self.path.parent.joinpath(link).exists()]


def every_page() -> list[str]:
    return ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]


def patient(program: str) -> str:
    """A program of a page that gives the node more time to answer than a reader's machine needs."""
    url = f'Client("http://{DOCUMENTED_ADDRESS}"'
    assert url in program
    return program.replace(url, f"{url}, timeout_s={PATIENCE_S}")


class Terminal:
    """Where a reader types: in a directory, with this environment's programs, and with another node than the page's."""

    def __init__(
        self,
        directory: Path,
        node_url: str,
        environment: Mapping[str, str] | None = None,
        programs: Path = PROGRAMS,
        timeout_s: float = PATIENCE_S,
        documented: str = DOCUMENTED_ADDRESS,
    ) -> None:
        """`documented` is the address of the page's node."""
        self.directory = directory
        self._documented = documented
        self._address = node_url.removeprefix("http://")
        self._programs = programs
        self._timeout_s = timeout_s
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        self.environment = clean_environment({"PATH": path, "CAIRN_NODE": node_url} | dict(environment or {}))

    def own(self, text: str) -> str:
        """A command or a program of a page, as it has to be here."""
        return text.replace(self._documented, self._address).replace(".venv/bin/", f"{self._programs}/")

    def save(self, name: str, text: str) -> None:
        path = self.directory / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(self.own(text))

    def run(self, line: str) -> str:
        """What the command prints. Raises `AssertionError` when it fails."""
        if "curl" in line.split():
            need_program("curl")
        # However long a block takes here: whoever reads the page has a machine with less to do.
        patient_line = re.sub(r"\?wait=\d+", "?wait=60", self.own(line))
        patient_line = re.sub(r"--wait \d+", f"--wait {PATIENCE_S:.0f}", patient_line)
        done = subprocess.run(
            patient_line,
            shell=True,
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=self._timeout_s,
            # Linux shares the processors out by session (sched_autogroup_enabled). In that of the tests, beside a few
            # programs that are busy, a command that computes for seconds took minutes.
            start_new_session=True,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout


class Hashes:
    """Those of a page, and what stands for them here: a block's depends on its time, a payment's on its signature.

    The page and the run must agree on which of them are the same.
    """

    FIXED = re.compile("0x8e38739a")
    """The first block of a dev chain, the same everywhere."""
    EACH = re.compile(r"0x[0-9a-f]{64}\b")

    def __init__(self) -> None:
        self._here: dict[str, str] = {}

    def translate(self, text: str) -> str:
        """A text of the page with the hashes of this run."""
        return self.EACH.sub(lambda found: self._here.get(found[0], found[0]), text)

    def learn(self, shown: str, printed: str) -> str:
        """Take in what stands for those that were not seen before. Returns what should have been printed."""
        for theirs, ours in zip(self.EACH.findall(shown), self.EACH.findall(printed), strict=False):
            if not self.FIXED.match(theirs) and ours not in self._here.values():
                self._here.setdefault(theirs, ours)
        return self.translate(shown)


def steady(text: str) -> str:
    """Without what depends on the moment: the time, which is in every block's hash but the first."""
    text = re.sub(r'"(blockHash|hash)":"0x(?!8e38739a)[0-9a-f]{64}"', r'"\1":"…"', text)
    return re.sub(r"\d+\.\d s\b", "… s", text)
