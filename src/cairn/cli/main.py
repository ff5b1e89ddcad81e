"""The program `cairn`: all commands in one group. What each exit code means is in cairn.cli.report.

The module of a command is imported when that command is looked up by its name. So `cairn keys list` neither waits for
what a network or a backup needs, nor takes the memory. --help looks all of them up, for the first line of each.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from importlib import import_module
from typing import Annotated, Any

import typer

# Typer's own options only know the shell that runs them, and take no other: so `cairn completion` has its own.
from typer._completion_classes import completion_init
from typer.core import TyperGroup

from cairn.cli.about import show_version
from cairn.cli.report import EXIT_CODES, CommandFailed, ExitCode, UsageError, WrongUsage, reported_exit
from cairn.cli.screen import is_text, prepare_streams
from cairn.config import ENV_PREFIX
from cairn.domain.errors import InvalidConfig

PANELS = {
    "Node": {
        "dev": "node.dev:dev",
        "run": "node.run:run",
        "init": "node.run:init",
        "new-signing-key": "node.new_signing_key:new_signing_key",
        "discard-pending": "node.run:discard_pending",
    },
    "Operate a node": {
        "status": "operate.status_command:status",
        "doctor": "operate.doctor_command:doctor",
        "backup": "operate.backup:backup",
        "restore": "operate.restore:restore",
        "verify": "operate.verify:verify",
        "export": "operate.export:export",
        "import": "operate.import_command:import_",
        "compact": "operate.compact:compact",
        "config": "operate.config_commands:config",
    },
    "Network": {
        "testnet": "network.testnet:make_testnet",
        "join": "network.join:join",
        "peers": "network.peers:peers",
        "validator": "network.validator_commands:validator",
        "genesis": "network.genesis_commands:genesis",
        "validators": "network.governance_commands:validators",
        "admins": "network.governance_commands:admins",
    },
    "Wallet": {
        "keys": "wallet.key_commands:app",
        "send": "wallet.transfer_commands:send",
        "sign": "wallet.transfer_commands:sign",
    },
    "Look": {
        "tx": "look.look_commands:tx",
        "block": "look.look_commands:block",
        "account": "look.look_commands:account",
        "mempool": "look.look_commands:mempool",
        "chain": "look.look_commands:chain",
        "watch": "look.look_commands:watch",
        "forward": "forward.forward_command:forward",
    },
    "Prove": {
        "receipt": "proofs.proof_commands:receipt",
        "statement": "proofs.proof_commands:statement",
        "check": "proofs.proof_commands:check",
        "witness": "witness.witness_command:witness",
    },
    "Help": {
        "help": "about:show_help",
        "version": "about:version",
        "completion": "about:completion",
    },
}
"""The panels of --help, and their commands in the order shown: the module in cairn.cli, and in it a function or, for a
command that has others below it, a `Typer`."""
_RANGE = re.compile(r"(\S+) is not in the range (?:x>=)?([0-9.]+)(?:<=x<=([0-9.]+))?")
"""How typer tells of a number that is out of range."""


class Commands(Mapping[str, Any]):
    """The commands by name. To look one up imports its module."""

    def __getitem__(self, name: str) -> Any:
        for panel, places in PANELS.items():
            if name in places:
                return make_command(name, panel, places[name])
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for places in PANELS.values() for name in places)

    def __len__(self) -> int:
        return sum(map(len, PANELS.values()))


def make_command(name: str, panel: str, place: str) -> Any:
    module, attribute = place.split(":")
    found = getattr(import_module(f"cairn.cli.{module}"), attribute)
    made: Any = typer.Typer(add_completion=False)
    if isinstance(found, typer.Typer):
        made.add_typer(found, name=name, rich_help_panel=panel)
    else:
        made.command(name, rich_help_panel=panel, cls=getattr(found, "made_by", None))(found)
    command = typer.main.get_group(made).commands[name]
    for argument in arguments_of(command):
        name_plainly(argument)
    return command


class Program(TyperGroup):
    """The group of all commands. A usage error is told as every other one: a line, or JSON with --json."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given | {"commands": Commands()})

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

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


@app.callback()
def cairn(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


# From here on the program answers what the completion scripts ask.
completion_init()
