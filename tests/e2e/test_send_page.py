"""docs/send.md: every way to pay that it shows, on a real node."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.node_process import NodeProcess
from tests.support.pages import Page, Terminal

PAGE = Page("docs/send.md")
PROGRAMS = ("client_pay.py", "rest_pay.py", "rest_reference.py")


@pytest.fixture(scope="module")
def node() -> Iterator[NodeProcess]:
    with NodeProcess.start_dev("--block-time", "0.01") as process:
        yield process


@pytest.fixture
def terminal(node: NodeProcess, tmp_path: Path) -> Terminal:
    # At a terminal the password would be asked for.
    return Terminal(tmp_path, node.url, {"CAIRN_KEYS": str(tmp_path / "keys"), "CAIRN_PASSWORD": "of this test"})


def test_the_commands_work_in_their_order(terminal: Terminal) -> None:
    printed = [terminal.run(step.line) for step in PAGE.steps()]
    assert "confirmed" in printed[2]
    assert all('"status":"pending"' in each for each in printed[-2:])


def test_the_payment_that_the_node_signs_is_made_once(terminal: Terminal) -> None:
    step = PAGE.steps()[-1]
    assert "idempotency-key" in step.line
    assert terminal.run(step.line) == terminal.run(step.line)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_programs_pay(terminal: Terminal, program: str) -> None:
    [text] = PAGE.code("python", program)
    terminal.save(program, text)
    assert terminal.run(f"python {program}").startswith("confirmed in block ")


def test_every_program_is_known_to_this_test() -> None:
    assert len(PAGE.code("python")) == len(PROGRAMS)
