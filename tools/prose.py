"""What a program can check of the texts that people read: `make check` runs it. Prints FILE:LINE and what is wrong.

Pages: relative links and their anchors, headings in sentence case, words twice in a row, and words that have a plainer
one, including in the example programs, which pages show. Decisions: a status with its date, and the sections. Texts
in the source: phrases that readers stumbled over, and words that sound translated. Codespell looks at the spelling.
Docstrings of the source, tests and tools: those that begin like an afterthought, and parameters that do not exist.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
WORDS = tomllib.loads(Path(__file__).with_name("prose.toml").read_text())

FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
INLINE_CODE = re.compile(r"`[^`\n]*`")
TARGET = re.compile(r"\]\([^)\n]*\)")
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#{1,6} +(.*?)(?: *\{[^}]*\})?$", re.MULTILINE)
ANCHOR = re.compile(r'<a id="([^"]+)"|\{ *#([\w-]+) *\}')
GAP = r"""[\s"'#]+"""
"""Between two words, even where a text goes on in the next line of a string or comment."""
TWICE = re.compile(r"\b([a-z]+)\s+\1\b", re.IGNORECASE)
AFTERTHOUGHT = re.compile(r"(?:Raises|As above|The same|Of)\b")
ABOUT_A_NAME = re.compile(
    r"(?:^|[.;:]\s+|\n\n)`([a-z_][a-z0-9_]*)` (?:is|are|has|have|must|may|can|says|tells|names|gives)\b"
)
Function = ast.FunctionDef | ast.AsyncFunctionDef

DATE, DECISION = r"\d{4}-\d\d-\d\d", r"\[\d{3}\]\(\d{3}-[^)]*\)"
STATUS = re.compile(
    rf"Status: (rejected {DATE}"
    rf"|accepted {DATE}(, withdrawn {DATE}|, superseded {DATE} by {DECISION}|, supersedes {DECISION})?)"
)
SECTIONS = ["Context", "Decision", "Consequences"]


class Finding(NamedTuple):
    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return (
            f"{self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path}:{self.line}: {self.text}"
        )


def blanked(pattern: re.Pattern[str], text: str, filling: str = " ") -> str:
    """`text` without what matches, and with every line where it was."""
    return pattern.sub(lambda found: re.sub(r"[^\n]", filling, found[0]), text)


def prose_of(markdown: str) -> str:
    """Only what is read as sentences: no code, comments or link targets."""
    for pattern in (FENCE, COMMENT, TARGET):
        markdown = blanked(pattern, markdown)
    # A name stands between the words around it.
    return blanked(INLINE_CODE, markdown, "0")


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def slug(heading: str) -> str:
    """As MkDocs names the anchor of a heading."""
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


@cache
def anchors_of(page: Path) -> frozenset[str]:
    text = page.read_text()
    named = {first or second for first, second in ANCHOR.findall(text)}
    return frozenset(named | {slug(heading) for heading in HEADING.findall(blanked(FENCE, text))})


def broken_links(page: Path, text: str) -> Iterator[Finding]:
    readable = blanked(INLINE_CODE, blanked(FENCE, text))
    for link in LINK.finditer(readable):
        target = page.parent / link[1] if link[1] else page
        line = line_of(readable, link.start())
        if not target.exists():
            yield Finding(page, line, f"broken link: {link[1]}")
        elif link[2] and target.suffix == ".md" and link[2] not in anchors_of(target.resolve()):
            yield Finding(page, line, f"broken anchor: {link[1]}#{link[2]}")


def headings_in_title_case(page: Path, text: str) -> Iterator[Finding]:
    names = set(WORDS["names"])
    for heading in HEADING.finditer(blanked(FENCE, text)):
        title = blanked(INLINE_CODE, heading[1])
        # A sentence may begin after a colon, a full stop or a number.
        rest = re.sub(r"(?:^[\d.]+ +|^\W*|[:.] +)\w[\w'-]*", "", title)
        capitals = [word for word in re.findall(r"[\w.]+", rest) if word[0].isupper() and word.strip(".") not in names]
        if capitals:
            yield Finding(
                page, line_of(text, heading.start()), f"heading in sentence case, please: {', '.join(capitals)}"
            )


@cache
def patterns_of(table: str) -> list[tuple[re.Pattern[str], str]]:
    return [
        # A pattern that begins with punctuation begins at no word's boundary.
        (
            re.compile((pattern if pattern[0] == "[" else rf"\b{pattern}").replace(" ", GAP) + r"\b", re.IGNORECASE),
            advice,
        )
        for pattern, advice in WORDS[table].items()
    ]


def phrases(path: Path, text: str, table: str) -> Iterator[Finding]:
    for pattern, advice in patterns_of(table):
        for found in pattern.finditer(text):
            yield Finding(path, line_of(text, found.start()), f"{' '.join(found[0].split())!r}: {advice}")


def repeated_words(page: Path, text: str) -> Iterator[Finding]:
    for found in TWICE.finditer(text):
        if found[1].lower() not in WORDS["twice"]:
            yield Finding(page, line_of(text, found.start()), f"twice: {found[1]}")


def check_page(page: Path) -> Iterator[Finding]:
    text = page.read_text()
    prose = prose_of(text)
    yield from broken_links(page, text)
    yield from headings_in_title_case(page, text)
    yield from repeated_words(page, prose)
    for table in ("riddles", "translated", "plainer"):
        yield from phrases(page, prose, table)


def check_decision(page: Path) -> Iterator[Finding]:
    text = page.read_text()
    status = text.split("\n")[2]
    if not STATUS.fullmatch(status):
        yield Finding(page, 3, "a status and its date, please: 'Status: accepted 2026-11-15', as in docs/adr/README.md")
    sections = [heading for heading in HEADING.findall(text)[1:] if heading != "Alternatives"]
    if sections != SECTIONS:
        yield Finding(page, 1, f"sections are {', '.join(SECTIONS)} (and Alternatives), not {', '.join(sections)}")
    if page.name not in page.with_name("README.md").read_text():
        yield Finding(page, 1, "missing in docs/adr/README.md")


def check_source(path: Path) -> Iterator[Finding]:
    """Help texts, messages, docstrings and comments alike."""
    for table in ("riddles", "translated"):
        yield from phrases(path, path.read_text(), table)


def docstrings(path: Path, tree: ast.Module) -> Iterator[Finding]:
    """Those that do not say what it is or does, and those about a parameter that the function does not have."""
    for node in ast.walk(tree):
        if not isinstance(node, Function | ast.ClassDef | ast.Module) or not (text := ast.get_docstring(node)):
            continue
        line = node.body[0].lineno
        if begins := AFTERTHOUGHT.match(text):
            yield Finding(path, line, f"say first what it is or does: {begins[0]!r}")
        if isinstance(node, Function) and (named := ABOUT_A_NAME.findall(text)):
            own = {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
            own |= {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
            for name in set(named) - own - names_of(tree):
                yield Finding(path, line, f"there is no {name!r} here")


def names_of(tree: ast.Module) -> set[str]:
    """What a docstring may speak of from anywhere in the file: not the variables of other functions."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                names.add(node.name)
            case ast.ClassDef() | ast.Module():
                fields = [part for part in node.body if isinstance(part, ast.Assign | ast.AnnAssign)]
                names |= {part.id for field in fields for part in ast.walk(field) if isinstance(part, ast.Name)}
            case ast.Attribute():
                names.add(node.attr)
            case ast.alias():
                names.add(node.asname or node.name)
    return names


def check_code(path: Path) -> Iterator[Finding]:
    yield from docstrings(path, ast.parse(path.read_text()))


def check_example(path: Path) -> Iterator[Finding]:
    """A program that a page shows: its comments are read like the page."""
    text = path.read_text()
    for table in ("riddles", "translated", "plainer"):
        yield from phrases(path, text, table)


def pages() -> list[Path]:
    written = [path for place in ("docs", "packaging") for path in (ROOT / place).rglob("*.md")]
    return sorted([*ROOT.glob("*.md"), *written])


def sources() -> list[Path]:
    code = ROOT / "src" / "cairn"
    files = [path for kind in ("py", "js", "html") for path in code.rglob(f"*.{kind}")]
    return sorted(files)


def code() -> list[Path]:
    """Python that people wrote: not what is generated, or brought along by tools."""
    files = [path for place in ("src", "tests", "tools", "bench", "examples") for path in (ROOT / place).rglob("*.py")]
    return sorted(path for path in files if "node_modules" not in path.parts and not path.stem.endswith("_pb2"))


def examples() -> list[Path]:
    return sorted((ROOT / "examples").rglob("*.py"))


def check_all() -> list[Finding]:
    checks: Iterable[Iterator[Finding]] = (
        *map(check_page, pages()),
        *map(check_decision, (ROOT / "docs" / "adr").glob("0*.md")),
        *map(check_source, sources()),
        *map(check_example, examples()),
        *map(check_code, code()),
    )
    return [finding for found in checks for finding in found]


def main() -> int:
    findings = check_all()
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
