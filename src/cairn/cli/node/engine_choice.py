"""The engine of the node in a home directory: completes the settings, and finds its CometBFT."""

from dataclasses import replace
from pathlib import Path

from cairn.cli.network.homes import check_engine_genesis
from cairn.cli.node.home import Home
from cairn.cli.shared.report import DataUnusable
from cairn.cometbft import COMETBFT_DIRECTORY, CometBFT, find_binary
from cairn.config import Settings
from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import Genesis
from cairn.store.directory import is_there


def check_identity(engine: CometBFT) -> None:
    """Raise `DataUnusable` if a file is missing that says who this node is, or what it has signed.

    CometBFT would make a new key for the node, and its peers would not know it. Without the record of its last vote
    CometBFT does not start, and a record made anew could let it sign a second block at the same height.
    """
    needed = ["config/node_key.json"]
    if not engine.signer_address():
        needed.append("data/priv_validator_state.json")
    for name in needed:
        if not is_there(path := engine.home / name):
            raise DataUnusable(
                f"{path} is missing, though this node has run with it: mount its disk or restore a backup; "
                "to replace the node, make a new home with `cairn join`"
            )


def settle_engine(home: Home, genesis: Genesis, settings: Settings) -> tuple[Settings, CometBFT | None]:
    """The settings completed from CometBFT's home, and the CometBFT to start, if any. Raises `InvalidConfig`."""
    if settings.engine == "embedded":
        if genesis.validators:
            raise InvalidConfig(f'{home.genesis_file} names validators: such a chain needs engine = "cometbft"')
        return settings, None
    if not genesis.validators:
        raise InvalidConfig(f'{home.genesis_file} names no validators: such a chain needs engine = "embedded"')
    directory = Path(settings.cometbft_home or home.directory / COMETBFT_DIRECTORY).absolute()
    if settings.cometbft_attach:
        rpc = settings.cometbft_rpc or CometBFT(Path(), directory).configured_rpc()
        return replace(settings, cometbft_home=str(directory), cometbft_rpc=rpc), None
    engine = CometBFT(find_binary(settings.cometbft_binary), directory)
    engine.check_version()
    rpc = settings.cometbft_rpc or engine.configured_rpc()
    engine.check_key()
    check_engine_genesis(engine, genesis)
    if is_there(home.begun_file):
        check_identity(engine)
    return replace(settings, cometbft_home=str(directory), cometbft_rpc=rpc), engine
