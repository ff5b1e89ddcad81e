"""tools/prose.py: each rule finds what it is for, and lets plain sentences pass."""

from pathlib import Path

import pytest

from tools import prose


def findings(path: Path, text: str) -> list[str]:
    path.write_text(text)
    check = prose.check_page if path.suffix == ".md" else prose.check_source
    return [finding.text for finding in check(path)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("# A page\n\n[there](missing.md)\n", "broken link: missing.md"),
        ("# A page\n\n[there](#nowhere)\n", "broken anchor: #nowhere"),
        ("# A Page Like This\n", "heading in sentence case, please: Page, Like, This"),
        ("# A page\n\nIt is is here.\n", "twice: is"),
        ("# A page\n\nThe folders are the stages of\nits way.\n", "'stages of its way': say what the folders hold"),
        ("# A page\n\nEvents come without a hole.\n", "'without a hole': no gap; none is skipped"),
        ("# A page\n\nIt is kept, also\nwhen it stops.\n", "', also when': even, or including"),
        ("# A page\n\nIt is kept (also for one node).\n", "'(also for': even, or including"),
        ("# A page\n\nIt waits in vain.\n", "'in vain': say what fails"),
        ("# A page\n\nIt is public for ever.\n", "'for ever': forever, or permanently"),
        ("# A page\n\nIt begins anew.\n", "'anew': again; or start over, rewrite, reopen"),
        ("# A page\n\nA copy is all that there is.\n", "'all that there is': say what it is"),
        ("# A page\n\nOne place, none skipped.\n", "'One place, none': a sentence with a verb, not a maxim"),
        (
            "# A page\n\nTo one whose key nobody has.\n",
            "'whose key nobody has': say what follows from it: the fees are lost",
        ),
        ("# A page\n\nAs many as are still free.\n", "'As many as are still free': give the number, or the share"),
        ("# A page\n\nIt shall stop.\n", "'shall': must, will or should"),
    ],
)
def test_what_is_wrong_on_a_page_is_found(tmp_path: Path, text: str, found: str) -> None:
    assert findings(tmp_path / "page.md", text) == [found]


@pytest.mark.parametrize(
    "text",
    [
        "# Run a node with CometBFT\n\n[above](#run-a-node-with-cometbft)\n",
        '<a id="old"></a>\n\n# A page: `GET /It` here\n\n[above](#old)\n',
        "# A page\n\n```text\nthe the [x](missing.md)\n```\n\nIn code: `simply simply`.\n",
        "# 1. Run it\n\n## Formats: What is here\n",
        "# A page\n\nIt also works in a pipe. It reads, and also writes. Also, it stops. Wait for every block.\n",
        "# A page\n\nWith `--run`, also `also when` is code. One node is enough, and none needs more.\n",
    ],
)
def test_what_is_right_on_a_page_passes(tmp_path: Path, text: str) -> None:
    assert findings(tmp_path / "page.md", text) == []


def test_a_message_that_goes_on_in_the_next_line_is_read_whole(tmp_path: Path) -> None:
    source = 'help = (\n    "Change a validator. It is meant "\n    "by its key."\n)\n'
    assert findings(tmp_path / "help.py", source) == ["'is meant \" \"by its': identify it by …"]


def test_a_message_that_sounds_translated_is_found(tmp_path: Path) -> None:
    source = 'warn("remove it to begin anew, also "\n    "after a crash")\n'
    assert findings(tmp_path / "help.py", source) == [
        "'anew': again; or start over, rewrite, reopen",
        "', also \" \"after': even, or including",
    ]


@pytest.mark.parametrize(
    ("docstring", "found"),
    [
        ("Raises `ValueError`.", "say first what it is or does: 'Raises'"),
        ("The same, but later.", "say first what it is or does: 'The same'"),
        ("Of the newest one.", "say first what it is or does: 'Of'"),
        ("As above, for all.", "say first what it is or does: 'As above'"),
        ("Pay. `amont` is in wei.", "there is no 'amont' here"),
        ("Pay.\n\n    `other` must be set.", "there is no 'other' here"),
    ],
)
def test_a_docstring_that_is_a_riddle_is_found(tmp_path: Path, docstring: str, found: str) -> None:
    source = tmp_path / "code.py"
    source.write_text(f'def pay(amount: int) -> None:\n    """{docstring}"""\n\n\ndef look(other: int) -> None: ...\n')
    assert [finding.text for finding in prose.check_code(source)] == [found]


@pytest.mark.parametrize(
    "docstring",
    ["Pay. Raises `ValueError`.", "`amount` is in wei.", "Pay. `pay` is called once; `FEE` is more.", "Offers it."],
)
def test_a_docstring_that_says_what_it_does_passes(tmp_path: Path, docstring: str) -> None:
    source = tmp_path / "code.py"
    source.write_text(f'FEE = 1\n\n\ndef pay(amount: int) -> None:\n    """{docstring}"""\n')
    assert list(prose.check_code(source)) == []


def test_an_example_is_read_like_a_page(tmp_path: Path) -> None:
    example = tmp_path / "example.py"
    example.write_text("pay()  # in order to pay\n")
    assert [finding.text for finding in prose.check_example(example)] == ["'in order to': to"]
    assert prose.ROOT / "examples" / "pay.py" in prose.examples()


SECTIONS = "\n\n## Context\n\n## Decision\n\n## Alternatives\n\n## Consequences\n"


@pytest.mark.parametrize(
    ("page", "found"),
    [
        ("# 1\n\nStatus: accepted 2026-11-15" + SECTIONS, []),
        ("# 1\n\nStatus: rejected 2026-11-15" + SECTIONS, []),
        ("# 1\n\nStatus: accepted 2026-11-15, superseded 2026-11-17 by [002](002-b.md)" + SECTIONS, []),
        ("# 1\n\nStatus: superseded" + SECTIONS, ["a status and its date, please"]),
        ("# 1\n\nStatus: accepted 2026-11-15\n\n## Context\n", ["sections are Context, Decision, Consequences"]),
    ],
)
def test_a_decision_has_a_status_a_date_and_three_sections(tmp_path: Path, page: str, found: list[str]) -> None:
    (tmp_path / "README.md").write_text("[001 A](001-a.md)")
    (tmp_path / "001-a.md").write_text(page)
    texts = [finding.text for finding in prose.check_decision(tmp_path / "001-a.md")]
    assert len(texts) == len(found)
    assert all(text.startswith(start) for text, start in zip(texts, found, strict=True))


def test_a_decision_that_the_index_does_not_name_is_found(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("")
    (tmp_path / "001-a.md").write_text("# 1\n\nStatus: accepted 2026-11-15" + SECTIONS)
    assert [finding.text for finding in prose.check_decision(tmp_path / "001-a.md")] == [
        "missing in docs/adr/README.md"
    ]


def test_the_readme_of_the_client_is_a_page() -> None:
    assert prose.ROOT / "packaging" / "client" / "README.md" in prose.pages()


def test_the_place_is_told(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n```\ncode\n```\n\nIt is is here.\n")
    assert [str(finding) for finding in prose.check_page(page)] == [f"{page}:7: twice: is"]
