"""Errors in the use of a command."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from cairn.cli.shared.amounts import UNITS
from cairn.cli.shared.report import ExitCode, WrongUsage, reported_exit
from cairn.cli.shared.streams import is_text, prepare_streams
from cairn.config import ENV_PREFIX
from cairn.domain.errors import InvalidConfig

_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""The exception for every usage error; its name depends on the version."""
_is_negative = re.compile(r"-[0-9].*").fullmatch
_is_number = re.compile(r"[0-9.]+").fullmatch


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
        except _UsageError as wrong:
            if not for_script:
                raise
            sys.exit(reported_exit(WrongUsage(wrong.format_message()), as_json=True).exit_code)  # type: ignore[attr-defined]
        except typer.Abort:
            if not for_script:
                raise
            sys.exit(ExitCode.REFUSED)


def check_text(args: Sequence[str], environ: Mapping[str, str]) -> None:
    """Raises `InvalidConfig` for bytes that are not UTF-8, of which Python makes what no other program understands."""
    for given in args:
        if not is_text(given):
            raise InvalidConfig(f"the argument {os.fsencode(given)!r} is not text in UTF-8")
    for name, value in environ.items():
        if name.startswith(ENV_PREFIX) and not is_text(value):
            raise InvalidConfig(f"the environment variable {name} is not text in UTF-8")


class PayingCommand(TyperCommand):
    """A command that takes an amount: -1 is a wrong one, unless it is the value of an option; so is `1 coin`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        as_json = "--json" in args
        before_dashes = args[: args.index("--")] if "--" in args else args
        valued = {name for option in self.params if not getattr(option, "is_flag", True) for name in option.opts}
        for before, given in zip(["", *before_dashes], before_dashes, strict=False):
            if _is_negative(given) and before not in valued:
                raise reported_exit(WrongUsage(f"AMOUNT: {given!r} is negative; an amount is 0 or more"), as_json)
        try:
            return super().parse_args(ctx, list(args))
        except _UsageError:
            for number, unit in pairwise(before_dashes):
                if _is_number(number) and unit in UNITS:
                    raise reported_exit(WrongUsage(f"write {number}{unit}, without a space"), as_json) from None
            raise
