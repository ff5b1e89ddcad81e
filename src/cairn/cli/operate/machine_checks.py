"""Checks of the machine that a node runs on: clock, limits, memory, ports, and where its sockets are."""

import resource
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from cairn.cli.operate.case import Case
from cairn.cli.operate.findings import Finding, error, warning
from cairn.cometbft import CometBFT
from cairn.domain.errors import InvalidConfig
from cairn.node import FILES_BESIDES_CONNECTIONS, open_listener
from cairn.runtime_directory import runtime_directory

AHEAD_S = 60
YEARS_S = 10 * 365 * 86_400
FEWEST_PROCESSES = 64
"""A node's processes and threads, CometBFT's included."""

NODE_BYTES = 100 << 20
WORKER_BYTES = 10 << 20
STORED_TX_BYTES = 650
BYTES_A_TX_AND_PROCESS = 7.5
"""docs/production.md has the measurements behind these figures."""


def check_clock(case: Case) -> Iterator[Finding]:
    now = case.machine.now()
    advice = "set the clock, and have it kept right: timedatectl set-ntp true, or chrony"
    seen = _newest_time(case)
    if seen is not None and seen > now + AHEAD_S:
        yield error(
            "CLOCK_BEHIND",
            f"the clock is {seen - now:,.0f} s behind the newest file of {case.home.directory}: it was set back, or "
            "was ahead before; blocks get no earlier time than those before them",
            advice,
        )
    elif seen is not None and now - seen > YEARS_S:
        yield error(
            "CLOCK_AHEAD",
            f"the clock is more than ten years ahead of the newest file of {case.home.directory}; with such a clock "
            "the node makes no block",
            advice,
        )
    if case.machine.clock_is_kept() is False:
        yield warning("CLOCK_NOT_KEPT", "no program keeps the clock of this machine right", advice)


def _newest_time(case: Case) -> float | None:
    """When something was last written here, by the clock of that time."""
    home = case.home
    times = []
    for path in (home.genesis_file, home.begun_file, home.data_dir / "watermark", home.data_dir / "journal"):
        try:
            times.append(path.stat().st_mtime)
        except OSError:
            continue
    return max(times, default=None)


def check_limits(case: Case) -> Iterator[Finding]:
    wanted = case.settings.max_connections + FILES_BESIDES_CONNECTIONS
    files = case.machine.hard_limit(resource.RLIMIT_NOFILE, case.pid)
    if files is not None and files < wanted:
        yield warning(
            "FILE_LIMIT_LOW",
            f"a process may open {files:,} files; max_connections = {case.settings.max_connections} needs {wanted:,}",
            f"raise the limit (LimitNOFILE={wanted} in the service, or ulimit -n), or lower max_connections",
        )
    processes = case.machine.hard_limit(resource.RLIMIT_NPROC, case.pid)
    if processes is not None and processes < FEWEST_PROCESSES + case.settings.workers:
        yield warning(
            "PROCESS_LIMIT_LOW",
            f"the user may have {processes} processes and threads",
            "raise the limit: LimitNPROC or TasksMax in the service, or ulimit -u",
        )


def check_memory(case: Case) -> Iterator[Finding]:
    allowed = case.machine.memory_bytes(case.pid)
    needed = memory_needed(case)
    if allowed is not None and allowed < needed:
        yield warning(
            "MEMORY_LOW",
            f"the node may use {allowed >> 20:,} MiB of memory, and needs about {needed >> 20:,} MiB",
            "give it more (MemoryMax in the service, the container's limit), or set workers = 1",
        )


def memory_needed(case: Case) -> int:
    """About what a node with so much data needs."""
    stored = 0
    for path in (case.home.data_dir / "chain").glob("*.sst"):
        try:
            stored += path.stat().st_size
        except OSError:
            continue
    processes = 1 + case.settings.workers
    filters = stored / STORED_TX_BYTES * BYTES_A_TX_AND_PROCESS * processes
    return NODE_BYTES + WORKER_BYTES * case.settings.workers + int(filters)


def check_ports(case: Case) -> Iterator[Finding]:
    """Whether the node could listen where it wants to. One that runs does so already."""
    if case.running is not None:
        return
    for name, host, port in _addresses(case):
        if port == 0:
            continue
        try:
            open_listener(host, port).close()
        except InvalidConfig as wrong:
            holder = case.machine.listener_of(port)
            yield error(
                "PORT_UNAVAILABLE",
                f"{name}: {wrong.detail.partition('; ')[0]}{f', by {holder}' if holder else ''}",
                "stop what listens there, or choose another port or address",
            )


def _addresses(case: Case) -> Iterator[tuple[str, str, int]]:
    """What the node and its CometBFT listen on."""
    settings = case.settings
    yield "port", settings.host, settings.port
    yield "metrics_port", settings.metrics_host, settings.metrics_port
    if not case.review.is_network or settings.cometbft_attach:
        return
    try:
        config = CometBFT(Path(), case.engine_home).config()
    except InvalidConfig:
        # Said by the review of the settings.
        return
    for section, key in (("p2p", "laddr"), ("rpc", "laddr"), ("instrumentation", "prometheus_listen_addr")):
        values = config.get(section, {})
        if section == "instrumentation" and not values.get("prometheus"):
            continue
        address = urlsplit(text if "://" in (text := str(values.get(key, ""))) else f"tcp://{text}")
        if address.scheme == "tcp" and address.port:
            yield f"{section}.{key} of CometBFT", address.hostname or "0.0.0.0", address.port


def check_runtime_directory(case: Case) -> Iterator[Finding]:
    """The processes of a node meet at sockets there."""
    if case.running is not None:
        return
    try:
        with runtime_directory(case.home.directory):
            pass
    except InvalidConfig as wrong:
        yield error("RUNTIME_DIRECTORY", wrong.detail, "in a service, set RuntimeDirectory=cairn")
