"""The program `cairn`: all commands in one group. What each exit code means is in cairn.cli.report."""

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Annotated, Any, Literal

import typer

# Typer's own options only know the shell that runs them, and take no other: so the command uses what they use.
from typer._completion_classes import completion_init
from typer._completion_shared import get_completion_script, install
from typer.core import TyperGroup

from cairn.build import described
from cairn.cli.forward.forward_command import forward
from cairn.cli.look import look_commands as look
from cairn.cli.network.genesis_commands import genesis
from cairn.cli.network.governance_commands import admins, validators
from cairn.cli.network.join import join
from cairn.cli.network.peers import peers
from cairn.cli.network.testnet import make_testnet
from cairn.cli.network.validator_commands import validator
from cairn.cli.node.dev import dev
from cairn.cli.node.new_signing_key import new_signing_key
from cairn.cli.node.run import discard_pending, init, run
from cairn.cli.operate.backup import backup
from cairn.cli.operate.compact import compact
from cairn.cli.operate.config_commands import config
from cairn.cli.operate.doctor_command import doctor
from cairn.cli.operate.export import export
from cairn.cli.operate.import_command import import_
from cairn.cli.operate.restore import restore
from cairn.cli.operate.status_command import status
from cairn.cli.operate.verify import verify
from cairn.cli.options import CommandWithSettings
from cairn.cli.proofs import proof_commands as proofs
from cairn.cli.report import (
    EXIT_CODES,
    CommandFailed,
    ExitCode,
    UsageError,
    WrongUsage,
    reported_errors,
    reported_exit,
)
from cairn.cli.screen import is_text, prepare_streams
from cairn.cli.wallet import key_commands as keys
from cairn.cli.wallet import transfer_commands as wallet
from cairn.cli.witness.witness_command import witness
from cairn.config import ENV_PREFIX
from cairn.domain.errors import InvalidConfig

NODE, OPERATE, NETWORK, SHELL = "Node", "Operate a node", "Network", "Help"
"""Panels of --help; commands in other modules have theirs there."""
_RANGE = re.compile(r"(\S+) is not in the range (?:x>=)?([0-9.]+)(?:<=x<=([0-9.]+))?")
"""How typer tells of a number that is out of range."""
PROGRAM, COMPLETION_VARIABLE = "cairn", "_CAIRN_COMPLETE"


class Program(TyperGroup):
    """The group of all commands. A usage error is told as every other one: a line, or JSON with --json."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for argument in arguments_of(self):
            name_plainly(argument)

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
        as_json = "--json" in given
        try:
            check_text(given, os.environ)
            result = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
            return sys.exit(result) if standalone_mode else result
        except InvalidConfig as wrong:
            sys.exit(reported_exit(WrongUsage(wrong.detail), as_json).exit_code)
        except UsageError as wrong:
            if not standalone_mode:
                raise
            # Without a text it is a group without a command, and its help was shown instead.
            if text := usage_text(wrong):
                sys.exit(reported_exit(WrongUsage(text), as_json).exit_code)
            sys.exit(ExitCode.USAGE)
        except typer.Abort:
            if not standalone_mode:
                raise
            sys.exit(reported_exit(CommandFailed("stopped: nothing was done"), as_json).exit_code)


def arguments_of(command: Any) -> Iterator[Any]:
    """Those of a command and of all below it."""
    for below in getattr(command, "commands", {}).values():
        yield from arguments_of(below)
    yield from (each for each in command.params if each.param_type_name == "argument")


def name_plainly(argument: Any) -> None:
    """Have --help write FILE, as the documentation does. Typer has {FILE} in the usage, and <path> beside the name."""
    name = argument.metavar.strip("[].") + ("..." if argument.nargs == -1 else "")
    argument.get_usage_pieces = lambda ctx: [name if argument.required else f"[{name}]"]
    # Others have the same one.
    argument.type = copy(argument.type)
    argument.type.get_metavar = lambda param, ctx: ""


def usage_text(wrong: Any) -> str:
    """What is wrong with the command line, in the style of our own errors: the option, the reason, what to do."""
    parameter, context = getattr(wrong, "param", None), wrong.ctx
    text = str(wrong.format_message() if parameter is None or not wrong.message else wrong.message).strip().rstrip(".")
    text = _RANGE.sub(_in_words, text)
    if not text:
        return ""
    if parameter is not None and wrong.message:
        options = [name for name in parameter.opts if name.startswith("--")]
        text = f"{options[0] if options else parameter.make_metavar(context)}: {text}"
    else:
        text = text[0].lower() + text[1:]
    return text if context is None else f"{text}{'' if text[-1] == '?' else '.'} See `{context.command_path} --help`"


def _in_words(found: re.Match[str]) -> str:
    """A range as the settings of a node tell it."""
    given, least, most = found.groups()
    return f"expected {least} {f'to {most}' if most else 'or more'}, got {given}"


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
        print(f"cairn {described()}")
        raise typer.Exit


@app.callback()
def cairn(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def version() -> None:
    """Show the version."""
    _show_version(True)


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
        print(f"Installed {path}, for the shells that you start from now on.")
    else:
        print(get_completion_script(prog_name=PROGRAM, complete_var=COMPLETION_VARIABLE, shell=shell))


# --help lists the panels in this order. Typer puts an app's own commands before the apps that it includes, so the last
# four panels are included.
app.command(rich_help_panel=NODE, cls=CommandWithSettings)(dev)
app.command(rich_help_panel=NODE, cls=CommandWithSettings)(run)
app.command(rich_help_panel=NODE)(init)
app.command(rich_help_panel=NODE)(new_signing_key)
app.command(rich_help_panel=NODE)(discard_pending)
app.command(rich_help_panel=OPERATE)(status)
app.command(rich_help_panel=OPERATE)(doctor)
app.add_typer(config, name="config", rich_help_panel=OPERATE)
app.command(rich_help_panel=OPERATE)(backup)
app.command(rich_help_panel=OPERATE)(restore)
app.command(rich_help_panel=OPERATE)(verify)
app.command(rich_help_panel=OPERATE)(export)
app.command("import", rich_help_panel=OPERATE)(import_)
app.command(rich_help_panel=OPERATE)(compact)
app.command("testnet", rich_help_panel=NETWORK)(make_testnet)
app.add_typer(validator, name="validator", rich_help_panel=NETWORK)
app.add_typer(genesis, name="genesis", rich_help_panel=NETWORK)
app.command(rich_help_panel=NETWORK)(join)
app.command(rich_help_panel=NETWORK)(peers)
app.add_typer(validators, name="validators", rich_help_panel=NETWORK)
app.add_typer(admins, name="admins", rich_help_panel=NETWORK)
app.add_typer(keys.app, name="keys", rich_help_panel=wallet.PANEL)
app.add_typer(wallet.app)
look.app.command(rich_help_panel=look.PANEL)(forward)
app.add_typer(look.app)
proofs.app.command(rich_help_panel=proofs.PANEL)(witness)
app.add_typer(proofs.app)
about = typer.Typer()
about.command("help", rich_help_panel=SHELL)(show_help)
about.command(rich_help_panel=SHELL)(version)
about.command(rich_help_panel=SHELL)(completion)
app.add_typer(about)
# From here on the program answers what the completion scripts ask.
completion_init()
