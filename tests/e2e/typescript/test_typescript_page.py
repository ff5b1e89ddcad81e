"""docs/typescript.md, command by command: a stock generator makes types from the node's own document, and they hold."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.node_process import NodeProcess
from tests.support.pages import DOCUMENTED_ADDRESS, Page
from tests.support.typescript import run, untested_packages

PAGE = Page("docs/typescript.md")
PROGRAMS = ("pay.mts", "signed.mts")
MISTAKES = """
import createClient from "openapi-fetch";
import type { components, paths } from "./cairn.js";

const node = createClient<paths>();
type Schemas = components["schemas"];

// @ts-expect-error a code that no node sends
const code: Schemas["Problem"]["code"] = "NO_SUCH_CODE";
// @ts-expect-error a path that is not served
void node.GET("/transactions");
// @ts-expect-error an amount that is neither a number nor digits
const unsigned: Schemas["Submission"] = { from: "0x00", to: "0x00", value: 1n, gas: 21000 };
// @ts-expect-error a form of amounts that is not offered
void node.GET("/chain", { params: { query: { amounts: "hex" } } });
// @ts-expect-error a batch of anything
const batch: Schemas["SubmissionBatch"] = [1];
// @ts-expect-error a pending transaction has no height
const height = (tx: Schemas["PendingTransaction"]): number => tx.blockHeight;
"""
"""Each line is wrong, and `tsc` must say so: an unused expectation is an error too."""


@pytest.fixture(scope="module")
def node() -> Iterator[NodeProcess]:
    with NodeProcess.start_dev("--block-time", "0.01") as process:
        yield process


def test_the_page_works_as_it_stands(node: NodeProcess, js_packages: Path, tmp_path: Path) -> None:
    address = node.url.removeprefix("http://")
    install, *steps = PAGE.steps()
    assert install.line.startswith("npm install "), "the versions that are tested are those of tests/js"
    tmp_path.joinpath("node_modules").symlink_to(js_packages)
    tmp_path.joinpath("mistakes.mts").write_text(MISTAKES)
    for program in PROGRAMS:
        [text] = PAGE.code("typescript", program)
        tmp_path.joinpath(program).write_text(text.replace(DOCUMENTED_ADDRESS, address))
    for line, shown in steps:
        printed = run(line.replace(DOCUMENTED_ADDRESS, address).replace(" pay.mts", " pay.mts mistakes.mts"), tmp_path)
        assert not shown or printed == shown


def test_the_named_versions_are_the_tested_ones() -> None:
    [install] = PAGE.steps("npm install")
    assert untested_packages(install.line) == []
