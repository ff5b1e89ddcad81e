"""The engine of the node in a home directory: completes the settings, and finds its CometBFT."""

from dataclasses import replace
from pathlib import Path

from cairn.cli.network.homes import check_engine_genesis
from cairn.cli.node.home import Home
from cairn.cometbft import COMETBFT_DIRECTORY, CometBFT, find_binary
from cairn.config import Settings
from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import Genesis


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
    return replace(settings, cometbft_home=str(directory), cometbft_rpc=rpc), engine
