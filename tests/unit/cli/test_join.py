"""`cairn join`: what it asks for, refuses and writes. tests/e2e/network/test_join.py joins a real network."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cairn.cli.join import split_peers, trust
from cairn.cli.main import app
from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import dev_genesis, encode_genesis

PEER = "ab12@10.0.0.1:8651"


def test_peers_are_an_id_and_an_address_each() -> None:
    assert split_peers(f"{PEER}, cd@[::1]:9") == [PEER, "cd@[::1]:9"]
    for wrong in ("", "10.0.0.1:8651", "ab12@10.0.0.1", f"{PEER},"):
        with pytest.raises(InvalidConfig, match="expected ID@HOST:PORT"):
            split_peers(wrong)


def test_an_address_where_nobody_answers_is_not_trusted() -> None:
    with pytest.raises(InvalidConfig, match="--state-sync 127.0.0.1:1: CometBFT does not answer there"):
        trust("127.0.0.1:1")


def test_what_cannot_be_joined_is_refused_and_nothing_written(tmp_path: Path) -> None:
    genesis, home = tmp_path / "genesis.json", tmp_path / "home"
    args = ["join", str(home), "--genesis", str(genesis), "--peers", PEER]
    missing = CliRunner().invoke(app, args)
    assert (missing.exit_code, missing.stderr) == (2, f"cairn: cannot read {genesis}: No such file or directory\n")
    genesis.write_text("{}")
    assert "chainId: missing" in CliRunner().invoke(app, args).stderr
    genesis.write_bytes(encode_genesis(dev_genesis()))
    assert "names no validators: it is no network's" in CliRunner().invoke(app, args).stderr
    assert not home.exists()
