"""CometBFT's files in a backup: with the keys, or none is made."""

from pathlib import Path

import pytest

from cairn.cli.operate.engine_copy import NODE_KEY, STORES, VALIDATOR_KEY, engine_files
from cairn.cometbft import CometBFT
from cairn.domain.errors import InvalidConfig


@pytest.mark.parametrize("lost", [NODE_KEY, VALIDATOR_KEY])
def test_a_backup_with_keys_is_refused_where_one_is_missing(tmp_path: Path, lost: str) -> None:
    engine = CometBFT(Path(), tmp_path)
    config = tmp_path / "config" / "config.toml"
    config.parent.mkdir()
    config.write_text("")
    for store in STORES:
        (tmp_path / store).mkdir()
    for name in {NODE_KEY, VALIDATOR_KEY} - {lost}:
        (tmp_path / name).write_text("{}")
    assert not any("key" in name for name in engine_files(engine, tmp_path, with_keys=False))
    with pytest.raises(InvalidConfig, match=lost):
        engine_files(engine, tmp_path, with_keys=True)
    # Only a remote signer has that of the validator.
    config.write_text('priv_validator_laddr = "tcp://127.0.0.1:1"\n')
    if lost == VALIDATOR_KEY:
        assert f"cometbft/{NODE_KEY}" in engine_files(engine, tmp_path, with_keys=True)
    else:
        with pytest.raises(InvalidConfig, match=lost):
            engine_files(engine, tmp_path, with_keys=True)
