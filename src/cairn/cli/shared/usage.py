"""Errors in the use of a command."""

import re
import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from cairn.cli.shared.report import ExitCode, print_problem
from cairn.cli.shared.streams import prepare_streams

_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""The exception for every usage error; its name depends on the version."""
_is_negative = re.compile(r"-[0-9].*").fullmatch


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
            result = super().main(
                args, prog_name, complete_var, standalone_mode and not for_script, windows_expand_args, **extra
            )
            return sys.exit(result) if for_script else result
        except _UsageError as wrong:
            if not for_script:
                raise
            print_problem(ExitCode.USAGE, wrong.format_message(), {"code": ExitCode.USAGE.name}, as_json=True)  # type: ignore[attr-defined]
            sys.exit(ExitCode.USAGE)
        except typer.Abort:
            if not for_script:
                raise
            sys.exit(ExitCode.REFUSED)


class PayingCommand(TyperCommand):
    """A command without numeric options: -1 is a wrong amount, unless it is the value of an option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        before_dashes = args[: args.index("--")] if "--" in args else args
        valued = {name for option in self.params if not getattr(option, "is_flag", True) for name in option.opts}
        for before, given in zip(["", *before_dashes], before_dashes, strict=False):
            if _is_negative(given) and before not in valued:
                raise typer.BadParameter(f"{given!r} is negative; an amount is 0 or more", ctx=ctx)
        return super().parse_args(ctx, args)
