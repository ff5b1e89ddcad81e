"""Options that commands share: one for each setting of a node, made from `Settings`; the node; the keys."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from cairn.cli.wallet.key_files import Keystore, default_directory
from cairn.config import FIELDS, TYPES, env_name, flag_name
from cairn.domain.genesis import DEV_KEYS
from cairn.domain.types import Address

MORE_SETTINGS = "More settings"
"""The panel of --help for the options that few people need."""

Command = TypeVar("Command", bound=Callable[..., None])


def with_settings(*first: str) -> Callable[[Command], Command]:
    """Give a command, which takes `**flags`, one option for each setting; --help shows the `first` ones first."""

    def give(command: Command) -> Command:
        signature = inspect.signature(command)
        own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        names = sorted(FIELDS, key=lambda name: name not in first)
        options = [_option(name, "Options" if name in first else MORE_SETTINGS) for name in names]
        command.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
        return command

    return give


def flags_given(flags: Mapping[str, Any]) -> dict[str, object]:
    """The settings that the command line names; the others stay with the environment and the file."""
    return {name: value for name, value in flags.items() if value not in (None, [])}


def _option(name: str, panel: str) -> inspect.Parameter:
    each = FIELDS[name]
    kind = TYPES[name]
    flag = flag_name(name)
    option = typer.Option(
        f"{flag}/--no-{flag[2:]}" if kind is bool else flag,
        help=rf"{each.metadata['help']} \[{env_name(name)}{_shown(each.default)}]",
        show_default=False,
        metavar=_METAVARS.get(kind),
        rich_help_panel=panel,
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


# Options that several commands share.


def complete_party(incomplete: str) -> list[str]:
    names = Keystore(default_directory()).names() + [f"dev{index}" for index in range(len(DEV_KEYS))]
    return [name for name in names if name.startswith(incomplete)]


def party_argument(metavar: str, help: str) -> Any:
    """An argument that names an account: an address, the name of a key, or dev0 to dev9."""
    return typer.Argument(help=help, metavar=metavar, show_default=False, autocompletion=complete_party)


DEFAULT_NODE = f"http://{FIELDS['host'].default}:{FIELDS['port'].default}"
NodeUrl = Annotated[str, typer.Option("--node", help="URL of the node.", metavar="URL", envvar="CAIRN_NODE")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts, with the API's field names.")]
KeysDirectory = Annotated[
    Path | None,
    typer.Option(
        "--keys",
        help=r"Directory of the keys. \[CAIRN_KEYS, else cairn/keys in XDG_DATA_HOME or ~/.local/share]",
        metavar="DIR",
        show_default=False,
    ),
]
PasswordFile = Annotated[
    Path | None,
    typer.Option(
        help="Read the password from the first line of this file; else from CAIRN_PASSWORD, else you are asked.",
        metavar="FILE",
        show_default=False,
    ),
]
CometbftBinary = Annotated[
    str,
    typer.Option(help="Path of the cometbft program; searched for unless given.", metavar="TEXT", show_default=False),
]


def keystore_in(directory: Path | None) -> Keystore:
    return Keystore(default_directory() if directory is None else directory)
