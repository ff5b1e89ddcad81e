"""What the documentation says of the tests is true."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", (ROOT / "docs" / "invariants.md").read_text())


@pytest.mark.parametrize(("file", "test"), sorted(set(NAMED)))
def test_every_test_that_an_invariant_names_exists(file: str, test: str) -> None:
    text = (ROOT / "tests" / file).read_text()
    assert not test or re.search(rf"^def {test}\(", text, re.MULTILINE)


def test_every_invariant_names_a_test() -> None:
    text = (ROOT / "docs" / "invariants.md").read_text()
    paragraphs = re.findall(r"^\*\*(I\d+)\.(.*?)(?=\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    assert [number for number, _ in paragraphs] == [f"I{number}" for number in range(1, 16)]
    assert [number for number, said in paragraphs if ".py" not in said] == []
