"""What a command line that cannot be meant is answered with."""

import re
import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from cairn.cli.shared.report import ExitCode, print_problem

_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""Of every wrong use; it has no name that does not depend on the version."""
_is_negative = re.compile(r"-[0-9].*").fullmatch


class Program(TyperGroup):
    """All commands: with --json, also a wrong use is JSON, and not a box for people."""

    def main(self, args: Sequence[str] | None = None, *more: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        given = sys.argv[1:] if args is None else list(args)
        if not standalone_mode or "--json" not in given:
            return super().main(args, *more, standalone_mode=standalone_mode, **extra)
        try:
            sys.exit(super().main(given, *more, standalone_mode=False, **extra))
        except _UsageError as wrong:
            print_problem(ExitCode.USAGE, wrong.format_message(), {"code": ExitCode.USAGE.name}, as_json=True)  # type: ignore[attr-defined]
            sys.exit(ExitCode.USAGE)
        except typer.Abort:
            sys.exit(ExitCode.REFUSED)


class PayingCommand(TyperCommand):
    """Has no option that is a number: -1 is an amount, and a wrong one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for given in args[: args.index("--")] if "--" in args else args:
            if _is_negative(given):
                raise typer.BadParameter(f"{given!r} is negative; nobody can be paid that", ctx=ctx)
        return super().parse_args(ctx, args)
