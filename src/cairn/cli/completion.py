"""`cairn completion`: the script that makes a shell complete commands, options and the names of keys."""

from typing import Annotated, Literal

import typer

# Typer's own options only know the shell that runs them, and take no other: so the command uses what they use.
from typer._completion_classes import completion_init
from typer._completion_shared import get_completion_script, install

PROGRAM, VARIABLE = "cairn", "_CAIRN_COMPLETE"


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], typer.Argument(help="bash, zsh or fish.", metavar="SHELL", show_default=False)
    ],
    set_up: Annotated[
        bool, typer.Option("--install", help="Set it up for your next shells, rather than print the script.")
    ] = False,
) -> None:
    """Print the script that completes commands, options and the names of your keys."""
    if set_up:
        _, path = install(shell, PROGRAM, VARIABLE)
        print(f"Installed {path}, for the shells that you start from now on.")
    else:
        print(get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell))


def answer_shells() -> None:
    """What the scripts ask while somebody types, this program can answer from here on."""
    completion_init()
