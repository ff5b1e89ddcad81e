"""What is wrong with the settings of a node, as far as files and environment tell."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cairn.api.server.certificates import Pair
from cairn.cli.network.homes import check_engine_genesis
from cairn.cli.node.home import Home
from cairn.cli.node.run import check_identity
from cairn.cli.operate.findings import Finding, error, warning
from cairn.cli.operate.idle_settings import find_idle
from cairn.cli.report import CommandFailed
from cairn.cometbft import COMETBFT_DIRECTORY, CometBFT, find_binary
from cairn.config import GivenSettings, Settings, read_settings
from cairn.domain.errors import InvalidConfig, StoreUnavailable
from cairn.domain.genesis import DEV_SIGNER, Genesis
from cairn.domain.types import ZERO_ADDRESS
from cairn.loopback import is_loopback
from cairn.store.directory import is_there


@dataclass(frozen=True, slots=True)
class SettingsReview:
    """The settings of a home directory, and what is wrong with them."""

    given: GivenSettings
    settings: Settings
    """With defaults for those that are wrong."""
    genesis: Genesis | None
    """None if it cannot be read."""
    findings: list[Finding]

    @property
    def is_network(self) -> bool:
        return self.settings.engine == "cometbft"


def review_settings(home: Home, environ: Mapping[str, str]) -> SettingsReview:
    findings: list[Finding] = []
    genesis = text = None
    try:
        genesis = home.read_genesis()
    except InvalidConfig as wrong:
        is_missing = not home.genesis_file.exists()
        findings.append(
            error(
                "GENESIS_MISSING" if is_missing else "GENESIS_INVALID",
                wrong.detail,
                "name the node's home with --home, or put back the genesis.json of its chain, byte for byte",
            )
        )
    try:
        text = home.read_config()
    except InvalidConfig as wrong:
        findings.append(error("CONFIG_INVALID", wrong.detail, f"let the node's user read {home.config_file}"))
    given = read_settings(text, environ)
    settings = given.settled()
    findings += [error("CONFIG_INVALID", wrong, "correct it: the node does not start with it") for wrong in given.wrong]
    # Of settings that are wrong, nobody knows what was meant.
    if not given.wrong:
        findings += _review_effects(given, settings)
        findings += _review_certificate(settings)
        findings += _review_engine(home, genesis, settings)
    return SettingsReview(given, settings, genesis, findings)


def engine_home(home: Home, settings: Settings) -> Path:
    return Path(settings.cometbft_home or home.directory / COMETBFT_DIRECTORY).absolute()


def _review_effects(given: GivenSettings, settings: Settings) -> Iterator[Finding]:
    for idle in find_idle(given.given, settings):
        yield warning(
            "SETTING_WITHOUT_EFFECT",
            f"{idle.name} has no effect: {idle.reason}",
            f"remove it from {idle.source}, or change what it depends on",
        )
    if is_loopback(settings.host) and settings.allowed_hosts and not settings.trusted_proxies:
        yield warning(
            "PROXY_NOT_TRUSTED",
            "allowed_hosts names hosts, so a proxy on this machine passes requests on, but trusted_proxies is empty: "
            "all its clients are one client to the node, and none is limited",
            'set trusted_proxies = ["127.0.0.1"], and have the proxy set X-Forwarded-For',
        )


def _review_certificate(settings: Settings) -> Iterator[Finding]:
    if not settings.tls_cert:
        return
    try:
        Pair(settings.tls_cert, settings.tls_key).load()
    except InvalidConfig as wrong:
        yield error(
            "CERTIFICATE_UNUSABLE",
            wrong.detail,
            "name a certificate and its own key, both in PEM, that the node's user can read",
        )


def _review_engine(home: Home, genesis: Genesis | None, settings: Settings) -> Iterator[Finding]:
    if genesis is None:
        return
    needed = "cometbft" if genesis.validators else "embedded"
    if settings.engine != needed:
        names = "names validators" if genesis.validators else "names no validators"
        yield error(
            "ENGINE_MISMATCH",
            f'{home.genesis_file} {names}, and engine is "{settings.engine}"',
            f'set engine = "{needed}" in {home.config_file}',
        )
    elif needed == "embedded":
        yield from _review_lone_node(genesis, settings)
    else:
        yield from _review_cometbft(home, genesis, settings)


def _review_lone_node(genesis: Genesis, settings: Settings) -> Iterator[Finding]:
    if settings.proposer == ZERO_ADDRESS:
        yield warning(
            "FEES_LOST",
            "no proposer is set, so all fees go to the zero address and are lost",
            "set proposer to an account of yours",
        )
    if genesis.signer == DEV_SIGNER:
        yield warning(
            "DEV_SIGNER",
            "the signer in genesis.json is a dev chain's, and everybody has its key: what it signs proves nothing",
            "make a chain for production with `cairn init`",
        )


def _review_cometbft(home: Home, genesis: Genesis, settings: Settings) -> Iterator[Finding]:
    engine = CometBFT(Path(), engine_home(home, settings))
    if not settings.cometbft_attach:
        yield from _review_program(engine.home, settings)
    try:
        if not settings.cometbft_rpc:
            engine.configured_rpc()
        engine.check_key()
    except InvalidConfig as wrong:
        yield error("COMETBFT_HOME", wrong.detail, "restore the home of CometBFT, or make a new home with `cairn join`")
        return
    try:
        check_engine_genesis(engine, genesis)
    except InvalidConfig as wrong:
        yield error("GENESIS_MISMATCH", wrong.detail, "take both from one node of the network")
    try:
        if is_there(home.begun_file) and not settings.cometbft_attach:
            check_identity(engine)
    except (CommandFailed, StoreUnavailable) as wrong:
        yield error("IDENTITY_MISSING", str(wrong), "see docs/production.md, 'Recover from damage'")


def _review_program(directory: Path, settings: Settings) -> Iterator[Finding]:
    try:
        binary = find_binary(settings.cometbft_binary)
    except InvalidConfig as wrong:
        yield error("COMETBFT_MISSING", wrong.detail, "install CometBFT (docs/cometbft.md), or set cometbft_binary")
        return
    try:
        CometBFT(binary, directory).check_version()
    except InvalidConfig as wrong:
        yield error("COMETBFT_VERSION", wrong.detail, "install the series that this node works with: docs/cometbft.md")
