"""docs/cli.md as a reader follows it: every command, with the output that the page shows."""

import re
from pathlib import Path

from tests.support.node_process import NodeProcess
from tests.support.pages import DOCUMENTED_ADDRESS, Hashes, Page, Terminal

PAGE = Page("docs/cli.md")
FILES = ("words.txt", "password.txt")


def steady(text: str) -> str:
    """Without what depends on the moment."""
    text = re.sub(r"\d{4}-\d\d-\d\d[T ][\d:]{8} ?([+-]\d{4}|UTC)", "TIME", text)
    text = re.sub(r"\d+ \w+ ago|\bnow\b", "AGO", text)
    text = re.sub(r"SHA-256 [0-9a-f]{64}", "SHA-256 …", text)
    return re.sub(r"after \d+\.\d s", "after … s", text).strip()


def test_every_command_prints_what_the_page_shows(node: NodeProcess, tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "XDG_DATA_HOME": ""}
    reader = Terminal(tmp_path, node.url, home)
    for name in FILES:
        [text] = PAGE.code("text", name)
        reader.save(name, text)
    steps = PAGE.steps()
    assert {step.line.split()[0] for step in steps} == {"cairn", "curl"}
    hashes = Hashes()
    for line, shown in steps:
        printed = reader.run(hashes.translate(line))
        printed = printed.replace(str(tmp_path), "~").replace(node.url, f"http://{DOCUMENTED_ADDRESS}")
        assert steady(printed) == steady(hashes.learn(shown, printed)), line


def test_every_command_has_its_place_on_the_page() -> None:
    looking = ("tx", "block", "account", "mempool", "chain", "watch")
    for name in ("send", "sign", "keys", *looking, "receipt", "statement", "check"):
        assert f"`cairn {name}" in PAGE.text
