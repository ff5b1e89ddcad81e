"""Options that commands share: one for each setting of a node, made from `Settings`; the node; the keys."""

import inspect
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperOption

from cairn.cli.wallet.key_files import Keystore, default_directory
from cairn.config import FIELDS, TYPES, env_name, flag_name
from cairn.domain.genesis import DEV_KEYS
from cairn.domain.types import TRANSFER_GAS, Address

MORE_SETTINGS = "More settings"
"""The panel for the options that few people need: only --help-all shows it."""

Command = TypeVar("Command", bound=Callable[..., None])


def made_by(kind: type[TyperCommand]) -> Callable[[Command], Command]:
    """Have the program make the command by this class (cairn.cli.main)."""

    def mark(command: Command) -> Command:
        command.made_by = kind  # type: ignore[attr-defined]
        return command

    return mark


class CommandWithSettings(TyperCommand):
    """A command that `with_settings` gave options: --help fits a screen, and --help-all shows all of them."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for each in self.params:
            if isinstance(each, TyperOption) and each.rich_help_panel == MORE_SETTINGS:
                each.hidden = not ctx.meta.get(_SHOWS_ALL, False)
        super().format_help(ctx, formatter)


_SHOWS_ALL = "cairn.shows_all"


def _show_all(ctx: typer.Context, is_asked: bool | None) -> None:
    if is_asked:
        ctx.meta[_SHOWS_ALL] = True
        typer.echo(ctx.get_help())
        raise typer.Exit


def with_settings(*first: str, idle: Collection[str] = ()) -> Callable[[Command], Command]:
    """Give a command, which takes `**flags`, one option for each setting, and --help-all.

    --help shows the `first` ones. The `idle` ones mean nothing to this command: they are taken, and never shown.
    """

    def give(command: Command) -> Command:
        signature = inspect.signature(command)
        own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        names = sorted(FIELDS, key=lambda name: name not in first)
        options = [_option(name, "Options" if name in first else MORE_SETTINGS, name in idle) for name in names]
        command.__signature__ = signature.replace(parameters=[*own, *options, _HELP_ALL])  # type: ignore[attr-defined]
        return made_by(CommandWithSettings)(command)

    return give


def _flag(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


_HELP_ALL = _flag(
    "help_all",
    Annotated[
        bool | None,
        typer.Option("--help-all", callback=_show_all, is_eager=True, help="Show all settings.", show_default=False),
    ],
)


def flags_given(flags: Mapping[str, Any]) -> dict[str, object]:
    """The settings that the command line names; the others stay with the environment and the file."""
    return {name: value for name, value in flags.items() if value not in (None, [])}


def _option(name: str, panel: str, is_idle: bool) -> inspect.Parameter:
    each = FIELDS[name]
    kind = TYPES[name]
    flag = flag_name(name)
    option = typer.Option(
        f"{flag}/--no-{flag[2:]}" if kind is bool else flag,
        help=rf"{each.metadata['help']} \[{env_name(name)}{_shown(each.default)}]",
        show_default=False,
        metavar="SECONDS" if name.endswith("_s") else _METAVARS.get(kind),
        rich_help_panel=None if is_idle else panel,
        hidden=is_idle,
    )
    spelled = list[str] if kind == tuple[str, ...] else str if kind is Address else kind
    return _flag(name, Annotated[spelled | None, option])


_METAVARS: dict[Any, str] = {Address: "ADDRESS", tuple[str, ...]: "TEXT", int: "N", float: "N", str: "TEXT"}


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
        help="Read the password from the first line of this file. Without it, CAIRN_PASSWORD is used, or you are "
        "asked.",
        metavar="FILE",
        show_default=False,
    ),
]
# The rules of a new chain.
NewChainId = Annotated[
    int | None, typer.Option("--chain-id", help="A number that no other chain uses; random by default.", metavar="N")
]
GasPrice = Annotated[int, typer.Option(help="Minimum price of a unit of gas, in wei.", metavar="WEI")]
BlockGasLimit = Annotated[int, typer.Option(help="Maximum gas in one block; a transfer uses 21,000.", metavar="N")]
DEFAULT_BLOCK_GAS_LIMIT = 10_000 * TRANSFER_GAS
MaxDataBytes = Annotated[
    int, typer.Option(help="Maximum bytes of data in a transfer, 0 to 256; 0 forbids data.", metavar="N")
]
CometbftBinary = Annotated[
    str,
    typer.Option(help="Path of the cometbft program; searched for by default.", metavar="FILE", show_default=False),
]


def keystore_in(directory: Path | None) -> Keystore:
    return Keystore(default_directory() if directory is None else directory)
