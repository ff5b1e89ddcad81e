"""`python -m cairn.cli` is `cairn`, of this very environment."""

from cairn.cli.main import app

app(prog_name="cairn")
