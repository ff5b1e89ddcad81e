"""The reference of the command line: what `--help` of every command says, as a page."""

import re
from collections.abc import Iterator
from typing import Any

import typer

from cairn.cli.about import PROGRAM
from cairn.cli.main import app
from cairn.config import FIELDS
from tools.reference.wording import table

MOST_SETTINGS = 10
"""A command with more of them runs a node, and its settings are told on their own page."""


def commands() -> str:
    """Every command, under the headings of `cairn --help`."""
    program: Any = typer.main.get_command(app)
    panels: dict[str, list[Any]] = {}
    for command in program.commands.values():
        panels.setdefault(command.rich_help_panel, []).append(command)
    return "\n\n".join(part for title, members in panels.items() for part in _panel_parts(title, members))


def _panel_parts(title: str, members: list[Any]) -> Iterator[str]:
    yield f"## {title}"
    for command in members:
        yield from _command_parts(f"{PROGRAM} {command.name}", command)


def _command_parts(name: str, command: Any) -> Iterator[str]:
    if hasattr(command, "commands"):
        for each in command.commands.values():
            yield from _command_parts(f"{name} {each.name}", each)
        return
    yield f"### `{name}`"
    yield _markdown(command.help or "")
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    usage = [name, *command.collect_usage_pieces(typer.Context(command))]
    yield f"```text\n{' '.join(usage)}\n```"
    if any(each.help for each in arguments):
        yield table(
            ("argument", "meaning"), [(f"`{_metavar(each)}`", _markdown(each.help or "")) for each in arguments]
        )
    options = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
    settings = [each for each in options if each.name in FIELDS]
    runs_a_node = len(settings) > MOST_SETTINGS
    told = [each for each in options if each not in settings] if runs_a_node else options
    if told:
        yield table(("option", "default", "meaning"), [_option_row(each) for each in told])
    if runs_a_node:
        share = "All" if len(settings) == len(FIELDS) else "Most"
        yield f"{share} [settings](docs/settings.md) are also options."


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _option_row(option: Any) -> tuple[str, str, str]:
    value = "" if option.is_flag else f" {option.metavar or option.type.name.upper()}"
    names = [*sorted(option.opts, key=lambda name: not name.startswith("--")), *option.secondary_opts]
    spelled = ", ".join(f"`{name}{value}`" for name in names)
    meaning = _markdown(option.help or "")
    if option.envvar:
        meaning += f" Variable: `{option.envvar}`."
    return spelled, _default(option), meaning


def _default(option: Any) -> str:
    if option.required:
        return "required"
    default = option.default
    # A number may be 0, which equals False.
    if not option.show_default or default is False or default in (None, "", ()) or callable(default):
        return ""
    return f"`{default}`"


def _markdown(help: str) -> str:
    """A help text without what it has for the terminal only."""
    return re.sub(r"\\\[", "[", help).replace("<", "&lt;")
