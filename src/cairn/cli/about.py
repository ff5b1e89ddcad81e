"""`cairn help`, `cairn version` and `cairn completion`."""

from typing import Annotated, Literal

import typer
from typer._completion_shared import get_completion_script, install
from typer.core import TyperGroup

from cairn.build import described
from cairn.cli.report import WrongUsage, reported_errors
from cairn.cli.screen import print_line

PROGRAM, COMPLETION_VARIABLE = "cairn", "_CAIRN_COMPLETE"


def show_version(asked: bool) -> None:
    if asked:
        print_line(f"cairn {described()}")
        raise typer.Exit


def version() -> None:
    """Show the version."""
    show_version(True)


def show_help(
    ctx: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(help="A command, such as send or keys new.", metavar="COMMAND", show_default=False),
    ] = None,
) -> None:
    """Show the help of a command, or the list of commands."""
    with reported_errors():
        shown = ctx.find_root()
        for name in command or ():
            group = shown.command
            below = group.get_command(shown, name) if isinstance(group, TyperGroup) else None
            if below is None:
                raise WrongUsage(f"there is no command {' '.join(command or ())}; `cairn help` lists them")
            shown = typer.Context(below, info_name=name, parent=shown)
        typer.echo(shown.get_help())


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], typer.Argument(help="bash, zsh or fish.", metavar="SHELL", show_default=False)
    ],
    set_up: Annotated[
        bool, typer.Option("--install", help="Install it for new shells instead of printing the script.")
    ] = False,
) -> None:
    """Print a shell script that completes commands, options and the names of your keys."""
    if set_up:
        _, path = install(shell, PROGRAM, COMPLETION_VARIABLE)
        print_line(f"Installed {path}, for the shells that you start from now on.")
    else:
        typer.echo(get_completion_script(prog_name=PROGRAM, complete_var=COMPLETION_VARIABLE, shell=shell))
