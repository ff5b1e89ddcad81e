"""`cairn config check`: whether a node would start with its settings, and which of them have no effect."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from cairn.cli.node.home import Home
from cairn.cli.operate.findings import has_error, print_findings
from cairn.cli.options import AsJson
from cairn.cli.report import ExitCode, reported_errors
from cairn.cli.screen import print_json, print_line, print_table
from cairn.config import FIELDS, GivenSettings, Settings, as_toml

config = typer.Typer(help="Check the settings of a node.", no_args_is_help=True)

HomeDirectory = Annotated[
    Path, typer.Option("--home", help="The node's home directory.", metavar="DIR", show_default="the current one")
]
HERE = Path()


@config.callback()
def settings_commands() -> None:
    pass


@config.command()
def check(
    home: HomeDirectory = HERE,
    show: Annotated[bool, typer.Option("--show", help="Show every setting, and where its value comes from.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check cairn.toml and the environment for mistakes and for settings that have no effect.

    Exit code 2 means that the node would not start; 1, that a setting has no effect or looks like a mistake.
    """
    # Loaded here, since it brings in a part of the node: --help should answer at once.
    from cairn.cli.operate.settings_review import review_settings

    with reported_errors(as_json):
        review = review_settings(Home(home), os.environ)
        rows = settings_rows(review.given, review.settings) if show else []
        if as_json:
            document: dict[str, Any] = {"home": str(home), "findings": review.findings}
            print_json(document | ({"settings": rows} if show else {}))
        else:
            if show:
                print_table(
                    ["setting", "value", "from", "meaning"],
                    [[row["name"], as_toml(row["value"]), row["source"], row["help"]] for row in rows],
                )
            print_findings(review.findings)
            if not review.findings:
                print_line("The settings are good.")
    if has_error(review.findings):
        raise typer.Exit(ExitCode.USAGE)
    if review.findings:
        raise typer.Exit(ExitCode.REFUSED)


def settings_rows(given: GivenSettings, settings: Settings) -> list[dict[str, Any]]:
    rows = []
    for name, field in FIELDS.items():
        values = given.given.get(name, [])
        overridden = "".join(f", overrides {each.source}" for each in values[-2::-1])
        source = values[-1].source + overridden if values else "default"
        rows.append(
            {"name": name, "value": shown(getattr(settings, name)), "source": source, "help": field.metadata["help"]}
        )
    return rows


def shown(value: object) -> object:
    """A value as cairn.toml has it."""
    return "0x" + value.hex() if isinstance(value, bytes) else value
