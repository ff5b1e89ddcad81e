"""docs/json-rpc.md, command by command."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cairn.api.chain_view import ChainView
from cairn.api.rpc.methods import make_methods
from cairn.domain.errors import ANSWERED
from tests.support.node_process import NodeProcess
from tests.support.pages import Page, Terminal
from tests.support.scripted_gateway import ScriptedGateway

PAGE = Page("docs/json-rpc.md")
PROGRAMS = {"pay_web3.py": "python", "pay_ethers.mjs": "javascript", "pay_viem.mjs": "javascript"}


@pytest.fixture(scope="module")
def node() -> Iterator[NodeProcess]:
    with NodeProcess.start_dev("--block-time", "0", "--workers", "2") as process:
        yield process


def test_the_page_works_as_it_stands(node: NodeProcess, js_packages: Path, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, node.url)
    tmp_path.joinpath("node_modules").symlink_to(js_packages)
    for name, language in PROGRAMS.items():
        [text] = PAGE.code(language, name)
        terminal.save(name, text)
    start, *steps = PAGE.steps()
    assert start.line.endswith(" dev --block-time 0")
    for line, shown in steps:
        # curl ends no line.
        assert terminal.run(line).rstrip("\n") == shown.rstrip("\n"), line


def test_every_method_is_listed_and_no_other() -> None:
    listed = set(re.findall(r"\b(?:cairn|debug|eth|net|personal|rpc|txpool|web3)_\w+", PAGE.section("Methods").text))
    served = set(make_methods(ScriptedGateway(), ChainView(Path("unused"))))
    assert listed == {name for name in served if not name.startswith(("evm_", "anvil_", "hardhat_"))}


def test_every_wording_is_listed() -> None:
    errors = PAGE.section("Errors").text
    assert [error.rpc_text for error in ANSWERED if error.rpc_text and f"`{error.rpc_text}`" not in errors] == []
