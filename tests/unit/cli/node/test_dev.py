"""`cairn dev`: what it makes of its options, without a node."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cairn.cli.main import app
from cairn.node import Node


def test_only_a_chain_in_a_directory_of_the_user_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody opens another one after a power loss, so it is not synced."""
    temporary: list[bool] = []

    def run(node: Node, on_ready: Callable[[str], None]) -> int:
        temporary.append(node.is_temporary)
        return 0

    monkeypatch.setattr(Node, "run", run)
    for options in ((), ("--data-dir", str(tmp_path / "kept"))):
        assert CliRunner().invoke(app, ["dev", "--quiet", *options]).exit_code == 0
    assert temporary == [True, False]
