"""Commands in this process: where only what they leave behind matters, starting one for each takes too long."""

import os
from collections.abc import Sequence

from typer.testing import CliRunner

from cairn.cli.main import app


def run_here(args: Sequence[str], code: int = 0) -> str:
    """What `cairn ARGS` prints. Raises `AssertionError` when it ends with another code."""
    # Without any setting of a node that the developer may have exported.
    unset = {name: None for name in os.environ if name.startswith("CAIRN_")}
    done = CliRunner().invoke(app, list(args), env=unset)
    assert done.exit_code == code, done.output
    return done.output
