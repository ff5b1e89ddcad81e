"""What the pages have from the program and from README.md: up to date, complete, and linked from where it stands."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from cairn import client
from cairn.api.description.asyncapi import asyncapi_document
from cairn.cli.main import app
from cairn.config import FIELDS, as_toml
from cairn.domain.errors import ANSWERED
from cairn.live_settings import LIVE
from tests.support.described import DOCUMENT
from tests.support.pages import ROOT, Page
from tools.reference.places import filled, pages
from tools.reference.wording import anchor

REFERENCES = list(pages())


def test_no_page_ends_where_a_reference_should_stand() -> None:
    for page in REFERENCES:
        assert "-->\n<!-- end of reference" not in page.read_text(), page


def headings(*names: str) -> list[str]:
    return [heading for name in names for heading in re.findall(r"^#+ `?(.*?)`?$", Page(name).text, re.MULTILINE)]


def test_every_endpoint_has_one_place_and_is_listed() -> None:
    topics = [str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "rest").glob("*.md")]
    described = headings(*topics)
    listed = Page("docs/rest.md").text
    endpoints = [f"{method.upper()} {path}" for path, item in DOCUMENT["paths"].items() for method in item]
    assert len(endpoints) > 20
    for endpoint in endpoints:
        assert described.count(endpoint) == 1, endpoint
        assert f"[`{endpoint}`](" in listed
    assert len({anchor(endpoint) for endpoint in endpoints}) == len(endpoints)
    assert set(DOCUMENT["components"]["schemas"]) - set(headings("docs/rest/schemas.md")) == set()


def test_every_code_and_every_message_has_its_place() -> None:
    codes = re.findall(r'<a id="(\w+)"></a>`(\w+)`', Page("docs/errors.md").text)
    assert all(name == code.lower() for name, code in codes)
    assert {code for _, code in codes} == {error.code for error in ANSWERED}
    assert set(asyncapi_document()["components"]["messages"]) - set(headings("docs/events.md")) == set()


def test_every_class_of_the_client_has_its_place() -> None:
    in_tables = re.findall(r"^\| `(\w+)` \| `\w+` \|", Page("docs/client-reference.md").text, re.MULTILINE)
    described = {*headings("docs/client-reference.md"), *in_tables}
    public = {name for name in client.__all__ if isinstance(getattr(client, name), type)} - set(client.models.__all__)
    answers = {f"models.{name}" for name in client.models.__all__}
    raised = {name for name in client.errors.__all__ if is_exception(getattr(client.errors, name))}
    assert len(answers) > 20
    assert len(raised) > 20
    assert (public | answers | raised) - described == set()


def is_exception(thing: object) -> bool:
    return isinstance(thing, type) and issubclass(thing, Exception)


def test_the_client_s_reference_says_what_a_field_means() -> None:
    page = Page("docs/client-reference.md").text
    described = DOCUMENT["components"]["schemas"]["Account"]["properties"]["balance"]["description"]
    assert described in page
    assert "Annotated" not in page
    assert "typing." not in page


def test_every_setting_has_one_line_with_default_range_and_sighup() -> None:
    rows = {
        cells[0].strip("`"): cells[1:]
        for line in Page("docs/settings.md").text.splitlines()
        if line.startswith("| `") and (cells := line.strip("| ").split(" | "))
    }
    assert list(rows) == list(FIELDS)
    assert rows["port"][:3] == ["`8645`", "0 to 65,535", "restart"]
    assert {name for name, cells in rows.items() if cells[2] == "applied"} == set(LIVE)
    assert rows["block_time_s"][3].endswith("Flag: `--block-time`.")
    # The number of processors of whoever runs `make generate` is not the default.
    assert rows["workers"][0] == "one for each processor, at most 4"
    assert {name for name, cells in rows.items() if cells[0] != f"`{as_toml(FIELDS[name].default)}`"} == {"workers"}


def test_every_command_and_its_options_are_described() -> None:
    described = headings("docs/commands.md")
    commands = {name for name, _ in leaf_commands("cairn", typer.main.get_command(app))}
    assert "cairn testnet" in commands
    assert commands - set(described) == set()
    assert {"cairn keys new", "cairn config check", "cairn send"} - set(described) == set()
    page = Page("docs/commands.md").text
    # In the order of `cairn --help`.
    panels = ["Node", "Operate a node", "Network", "Wallet", "Look", "Prove", "Help"]
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == panels
    assert "\\[" not in page
    # Those of a node are settings, which have a page.
    assert "--mempool-size" not in page


def test_each_visible_option_is_with_its_command_or_among_the_settings_of_a_node() -> None:
    page = Page("docs/commands.md").text
    for name, command in leaf_commands("cairn", typer.main.get_command(app)):
        section = page.split(f"### `{name}`\n")[1].split("\n### ")[0]
        options = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
        missing = {each.name for each in options if f"`{each.opts[0]}" not in section}
        assert missing <= set(FIELDS), name
        if missing:
            assert name in ("cairn dev", "cairn run"), f"{name}: {missing}"
        assert ("are also options" in section) == bool(missing), name
    # `cairn dev` hides those that mean nothing to it.
    assert page.count("All [settings]") == page.count("Most [settings]") == 1
    assert "| `--full-nodes N` | `0` |" in page


def leaf_commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield name, command
        return
    for each in command.commands.values():
        yield from leaf_commands(f"{name} {each.name}", each)


def test_a_place_that_nothing_is_made_for_is_named(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- reference: no such thing -->\n<!-- end of reference -->\n")
    with pytest.raises(LookupError, match="'no such thing'"):
        filled(page)
    page.write_text("<!-- reference: errors -->\nThis has no end.\n")
    with pytest.raises(LookupError, match="no end"):
        filled(page)


def test_links_lead_from_the_page_to_where_they_led(tmp_path: Path) -> None:
    page = ROOT / "docs" / "rest" / "schemas.md"
    assert "](#" in page.read_text()
    assert "](docs/" not in page.read_text()
    assert "](../errors.md#" in (ROOT / "docs" / "rest" / "accounts.md").read_text()


def test_the_first_page_has_its_text_from_the_readme() -> None:
    page = Page("docs/index.md").text
    for shared in ("README lead", "README introduction", "README, What it promises", "README, How it compares"):
        assert f"<!-- reference: {shared} -->" in page
    lead = Page("README.md").text.split("\n\n")[1]
    assert lead in page
    assert page.count("\n## How it compares\n") == 1
