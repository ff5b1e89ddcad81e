"""The program `cairn`: all commands in one group. What each exit code means is in cairn.cli.report."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import typer

# Typer's own options only know the shell that runs them, and take no other: so the command uses what they use.
from typer._completion_classes import completion_init
from typer._completion_shared import get_completion_script, install
from typer.core import TyperGroup

from cairn import __version__
from cairn.cli.forward.forward_command import forward
from cairn.cli.look import look_commands as look
from cairn.cli.network.governance_commands import admins, validators
from cairn.cli.network.join import join
from cairn.cli.network.peers import peers
from cairn.cli.network.testnet import make_testnet
from cairn.cli.node.dev import dev
from cairn.cli.node.new_signing_key import new_signing_key
from cairn.cli.node.run import discard_pending, init, run
from cairn.cli.proofs import proof_commands as proofs
from cairn.cli.report import EXIT_CODES, ExitCode, UsageError, WrongUsage, reported_exit
from cairn.cli.screen import is_text, prepare_streams
from cairn.cli.wallet import key_commands as keys
from cairn.cli.wallet import transfer_commands as wallet
from cairn.cli.witness.witness_command import witness
from cairn.config import ENV_PREFIX
from cairn.domain.errors import InvalidConfig

NODE, NETWORK, SHELL = "Node", "Network", "Shell"
"""Panels of --help; commands in other modules have theirs there."""
PROGRAM, COMPLETION_VARIABLE = "cairn", "_CAIRN_COMPLETE"


class Program(TyperGroup):
    """The group of all commands. With --json, a usage error is JSON, too, and not a box for people."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        prepare_streams()
        given = sys.argv[1:] if args is None else list(args)
        for_script = standalone_mode and "--json" in given
        try:
            check_text(given, os.environ)
            result = super().main(
                args, prog_name, complete_var, standalone_mode and not for_script, windows_expand_args, **extra
            )
            return sys.exit(result) if for_script else result
        except InvalidConfig as wrong:
            sys.exit(reported_exit(WrongUsage(wrong.detail), for_script).exit_code)
        except UsageError as wrong:
            if not for_script:
                raise
            sys.exit(reported_exit(WrongUsage(wrong.format_message()), as_json=True).exit_code)  # type: ignore[attr-defined]
        except typer.Abort:
            if not for_script:
                raise
            sys.exit(ExitCode.REFUSED)


def check_text(args: Sequence[str], environ: Mapping[str, str]) -> None:
    """Check that arguments and variables are UTF-8: Python decodes other bytes to what no other program understands.

    Raises `InvalidConfig`.
    """
    for given in args:
        if not is_text(given):
            raise InvalidConfig(f"the argument {os.fsencode(given)!r} is not text in UTF-8")
    for name, value in environ.items():
        if name.startswith(ENV_PREFIX) and not is_text(value):
            raise InvalidConfig(f"the environment variable {name} is not text in UTF-8")


app = typer.Typer(
    cls=Program,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A blockchain node for moving money on a chain of your own.\n\n"
    "`cairn dev` runs a dev chain, `cairn send dev0 dev1 1coin` pays on it, and `cairn watch` shows its blocks.",
    epilog=EXIT_CODES,
)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"cairn {__version__}")
        raise typer.Exit


@app.callback()
def cairn(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


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
        _, path = install(shell, PROGRAM, COMPLETION_VARIABLE)
        print(f"Installed {path}, for the shells that you start from now on.")
    else:
        print(get_completion_script(prog_name=PROGRAM, complete_var=COMPLETION_VARIABLE, shell=shell))


# --help lists them in this order.
app.command(rich_help_panel=NODE)(dev)
app.command(rich_help_panel=NODE)(run)
app.command(rich_help_panel=NODE)(init)
app.command(rich_help_panel=NODE)(new_signing_key)
app.command(rich_help_panel=NODE)(discard_pending)
app.command("testnet", rich_help_panel=NETWORK)(make_testnet)
app.command(rich_help_panel=NETWORK)(join)
app.command(rich_help_panel=NETWORK)(peers)
app.add_typer(validators, name="validators", rich_help_panel=NETWORK)
app.add_typer(admins, name="admins", rich_help_panel=NETWORK)
app.add_typer(keys.app, name="keys", rich_help_panel=wallet.PANEL)
app.add_typer(wallet.app)
app.add_typer(look.app)
app.command(rich_help_panel=look.PANEL)(forward)
app.add_typer(proofs.app)
app.command(rich_help_panel=proofs.PANEL)(witness)
app.command(rich_help_panel=SHELL)(completion)
# From here on the program answers what the completion scripts ask.
completion_init()
