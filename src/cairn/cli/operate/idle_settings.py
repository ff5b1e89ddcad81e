"""Settings that somebody set and that have no effect together with the others."""

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_network
from typing import NamedTuple

from cairn.config import FIELDS, Given, Settings
from cairn.loopback import is_loopback

_ALONE = 'it is for networks, and with engine = "embedded" this node makes its blocks alone'
_OF_NETWORK = {
    "block_time_s": "the validators' CometBFT decides: consensus.timeout_commit in its config.toml",
    "empty_blocks": "the validators' CometBFT decides: consensus.create_empty_blocks in its config.toml",
    "proposer": "on a network the fees go to the fee recipients that genesis.json and later updates name",
}
FOR_NETWORK = (
    "cometbft_binary",
    "cometbft_home",
    "cometbft_rpc",
    "cometbft_attach",
    "abci_socket",
    "halt_after_s",
    "halt_height",
    "snapshot_interval",
)
_PER_CLIENT = ("max_connections_per_client", "rate_limit_per_s", "rate_limit_burst")


class IdleSetting(NamedTuple):
    name: str
    source: str
    """Where it was set."""
    reason: str


def find_idle(given: Mapping[str, Sequence[Given]], settings: Settings) -> list[IdleSetting]:
    """Those that were set to something else than their default, and change nothing."""
    reasons: dict[str, str] = {}
    for name, reason in _reasons(settings):
        reasons.setdefault(name, reason)
    return [
        IdleSetting(name, given[name][-1].source, reason)
        for name, reason in reasons.items()
        if name in given and getattr(settings, name) != FIELDS[name].default
    ]


def _reasons(settings: Settings) -> Iterator[tuple[str, str]]:
    """Each setting that is without effect, if it was set."""
    if settings.engine == "embedded":
        yield from ((name, _ALONE) for name in FOR_NETWORK)
        if settings.block_time_s == 0:
            yield "empty_blocks", "with block_time_s = 0 there is a block after each submission, and never without one"
    else:
        yield from _OF_NETWORK.items()
        if settings.cometbft_attach:
            yield "cometbft_binary", "with cometbft_attach the operator starts CometBFT"
    if not settings.metrics_port:
        yield "metrics_host", "metrics_port is 0: no metrics are served"
    if is_loopback(settings.host):
        yield from _on_loopback(settings)
    if settings.rate_limit_per_s == 0:
        yield "rate_limit_burst", "rate_limit_per_s is 0: there is no rate limit"
    if settings.max_connections_per_client >= settings.max_connections:
        yield "max_connections_per_client", "max_connections is not more, and is reached first"
    if settings.mempool_per_sender >= settings.mempool_size:
        yield "mempool_per_sender", "mempool_size is not more, and is reached first"
    for name in ("allowed_hosts", "cors_origins"):
        if "*" in (listed := getattr(settings, name)) and len(listed) > 1:
            yield name, "'*' allows all, so the other entries say nothing"


def _on_loopback(settings: Settings) -> Iterator[tuple[str, str]]:
    if not settings.trusted_proxies:
        limit = f"host is {settings.host}, and without trusted_proxies clients on loopback are not limited"
        yield from ((name, limit) for name in _PER_CLIENT)
    elif not any(network.is_loopback for network in map(ip_network, settings.trusted_proxies)):
        yield (
            "trusted_proxies",
            f"host is {settings.host}, so all connections come from loopback, and none from the listed addresses",
        )
