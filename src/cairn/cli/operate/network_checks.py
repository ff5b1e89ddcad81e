"""Checks of a node of a network: whether it reaches its peers, and who may connect to it."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cairn.cli.network.homes import read_public_key
from cairn.cli.network.peers import read_peers
from cairn.cli.operate.case import Case
from cairn.cli.operate.findings import Finding, error, warning
from cairn.cometbft import CometBFT
from cairn.domain.errors import InvalidConfig

AT_ONCE = 16


def check_network(case: Case) -> Iterator[Finding]:
    if not case.review.is_network:
        return
    engine = CometBFT(Path(), case.engine_home)
    try:
        known = read_peers(engine)
        pause = engine.config().get("consensus", {}).get("create_empty_blocks_interval", "")
    except InvalidConfig:
        # Said by the review of the settings.
        return
    yield from _check_peers(case, known.listed)
    if _is_validator(case) and not known.is_closed:
        yield warning(
            "VALIDATOR_OPEN",
            "unknown nodes may connect to this validator",
            f"cairn peers --home {case.home.directory} --closed, then restart it",
        )
    if (interval := re.fullmatch(r"(\d+)s", str(pause))) and int(interval[1]) >= case.settings.halt_after_s:
        yield warning(
            "HALT_AFTER_SHORT",
            f"halt_after_s is {case.settings.halt_after_s:g}, and without transactions there is a block only every "
            f"{interval[0]}: /ready would say that the network has halted",
            "set halt_after_s to more than twice create_empty_blocks_interval of CometBFT's config.toml",
        )


def _check_peers(case: Case, listed: tuple[str, ...]) -> Iterator[Finding]:
    addresses = [peer.partition("@")[2] for peer in listed]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        reasons = list(pool.map(lambda address: _why_not(case, address), addresses))
    silent = {address: reason for address, reason in zip(addresses, reasons, strict=True) if reason is not None}
    if not silent:
        return
    shown = ", ".join(f"{address} ({reason})" for address, reason in silent.items())
    finding = error if len(silent) == len(addresses) else warning
    yield finding(
        "PEERS_UNREACHABLE",
        f"{len(silent)} of {len(addresses)} listed peers cannot be reached: {shown}",
        "ask whether they run; let the firewall pass their p2p port; correct addresses with `cairn peers`",
    )


def _why_not(case: Case, address: str) -> str | None:
    host, _, port = address.rpartition(":")
    return case.machine.reaches(host.strip("[]"), int(port)) if port.isdigit() else "no address"


def _is_validator(case: Case) -> bool:
    """As far as genesis says: later changes of the validators are in the chain."""
    try:
        own = read_public_key(case.engine_home)
    except InvalidConfig:
        return False
    genesis = case.review.genesis
    return genesis is not None and any(each.public_key == own for each in genesis.validators)
