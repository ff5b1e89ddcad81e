"""Every setting as an option of the command line, made from the one place that describes it."""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

import typer

from cairn.config import FIELDS, TYPES, env_name, flag_name
from cairn.domain.types import Address

COMMON = ("host", "port", "workers", "block_time_s", "empty_blocks", "proposer", "engine", "log_level")
"""Shown first in --help; the others are for operators who know what they are after."""

Command = TypeVar("Command", bound=Callable[..., None])


def with_settings(command: Command) -> Command:
    """Give `command`, which takes `**flags`, one option for each setting."""
    signature = inspect.signature(command)
    own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    options = [_option(name) for name in sorted(FIELDS, key=lambda name: name not in COMMON)]
    command.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    return command


def flags_given(flags: Mapping[str, Any]) -> dict[str, object]:
    """The settings that the command line names; the others stay with the environment and the file."""
    return {name: value for name, value in flags.items() if value not in (None, [])}


def _option(name: str) -> inspect.Parameter:
    each = FIELDS[name]
    kind = TYPES[name]
    flag = flag_name(name)
    option = typer.Option(
        f"{flag}/--no-{flag[2:]}" if kind is bool else flag,
        help=rf"{each.metadata['help']} \[{env_name(name)}{_shown(each.default)}]",
        show_default=False,
        metavar=_METAVARS.get(kind),
        rich_help_panel="Options" if name in COMMON else "More settings",
    )
    spelled = list[str] if kind == tuple[str, ...] else str if kind is Address else kind
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[spelled | None, option]
    )


_METAVARS: dict[Any, str] = {Address: "ADDRESS", tuple[str, ...]: "TEXT", int: "N", float: "X", str: "TEXT"}


def _shown(default: object) -> str:
    if isinstance(default, bool | bytes | tuple) or default == "":
        return ""
    return f"={default}"
