"""What the documentation says of the tests and of the settings is true."""

import re

import pytest

from cairn.config import load_settings
from tests.support.pages import ROOT, Page

INVARIANTS = Page("docs/invariants.md").text
NAMED = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", INVARIANTS)


@pytest.mark.parametrize(("file", "test"), sorted(set(NAMED)))
def test_every_test_that_an_invariant_names_exists(file: str, test: str) -> None:
    text = (ROOT / "tests" / file).read_text()
    assert not test or re.search(rf"^def {test}\(", text, re.MULTILINE)


def test_every_invariant_names_a_test() -> None:
    paragraphs = re.findall(r"^\*\*(I\d+)\.(.*?)(?=\n\n|\Z)", INVARIANTS, re.MULTILINE | re.DOTALL)
    assert [number for number, _ in paragraphs] == [f"I{number}" for number in range(1, len(paragraphs) + 1)]
    assert [number for number, said in paragraphs if ".py" not in said] == []


def test_the_settings_for_production_are_taken() -> None:
    [shown] = Page("docs/production.md").code("toml")
    settings = load_settings(shown)
    assert (settings.allowed_hosts, settings.drain_delay_s) == (("node.example.org",), 5)
