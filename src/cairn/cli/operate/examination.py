"""Everything that `cairn doctor` checks, one after the other."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from cairn.cli.node.home import Home
from cairn.cli.operate.case import Case
from cairn.cli.operate.certificate_checks import check_certificate
from cairn.cli.operate.findings import Finding, error
from cairn.cli.operate.home_checks import (
    check_backup,
    check_data,
    check_disk,
    check_owner,
    check_permissions,
    check_public_keys,
    check_running_file,
    check_signing_key,
    check_syncs,
)
from cairn.cli.operate.live_checks import check_live, check_processes
from cairn.cli.operate.live_node import look_at
from cairn.cli.operate.machine import Machine
from cairn.cli.operate.machine_checks import (
    check_clock,
    check_limits,
    check_memory,
    check_ports,
    check_runtime_directory,
)
from cairn.cli.operate.network_checks import check_network
from cairn.cli.operate.processes import processes_of
from cairn.cli.operate.settings_review import review_settings
from cairn.running_node import find_running


def check_settings(case: Case) -> Iterator[Finding]:
    yield from case.review.findings


def check_running(case: Case) -> Iterator[Finding]:
    if case.running is None:
        return
    yield from check_processes(case.running, processes_of(case.running.pid))
    live = look_at(case.running.url, case.running.metrics_url, is_ours=True)
    yield from check_live(live, case.machine.now())


CHECKS: dict[str, Callable[[Case], Iterator[Finding]]] = {
    "settings": check_settings,
    "owner": check_owner,
    "permissions": check_permissions,
    "signing key": check_signing_key,
    "public keys": check_public_keys,
    "data": check_data,
    "disk": check_disk,
    "syncs": check_syncs,
    "backup": check_backup,
    "certificate": check_certificate,
    "clock": check_clock,
    "limits": check_limits,
    "memory": check_memory,
    "ports": check_ports,
    "runtime directory": check_runtime_directory,
    "network": check_network,
    "last run": check_running_file,
    "running node": check_running,
}


DOCTOR_ONLY = ("owner", "public keys", "syncs", "backup", "network", "running node")
"""`cairn status` leaves them out: they take long, or tell of no fault that is there now."""


def examine(
    home: Home, environ: Mapping[str, str], backup_days: int, machine: Machine | None = None
) -> tuple[list[Finding], list[str]]:
    """All findings, and the names of the checks. Raises `StoreUnavailable` when not even running.json can be read."""
    if not home.directory.is_dir():
        missing = f"there is no directory {home.directory}"
        return [error("HOME_MISSING", missing, "name the node's home with --home, or make one: `cairn init`")], ["home"]
    case = Case(home, machine or Machine(), review_settings(home, environ), find_running(home.directory), backup_days)
    return run_checks(case, CHECKS), list(CHECKS)


def run_checks(case: Case, names: Iterable[str]) -> list[Finding]:
    return [finding for name in names for finding in CHECKS[name](case)]
