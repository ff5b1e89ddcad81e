"""What `cairn status` shows: a node that runs, from its answers and this machine; one that does not, from its home."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from cairn.api.server.certificates import read_validity
from cairn.cli.node.home import Home
from cairn.cli.operate.case import Case
from cairn.cli.operate.examination import CHECKS, DOCTOR_ONLY, run_checks
from cairn.cli.operate.findings import Finding, error
from cairn.cli.operate.live_checks import check_live, check_processes
from cairn.cli.operate.live_node import LiveNode, SaidReadiness, look_at
from cairn.cli.operate.machine import Machine
from cairn.cli.operate.processes import NodeProcess, processes_of
from cairn.cli.operate.settings_review import review_settings
from cairn.domain.answers import Head, MempoolSize, Validators
from cairn.domain.errors import NodeError
from cairn.domain.json_fields import hex_text
from cairn.running_node import RunningNode, find_running
from cairn.store.directory import size_on_disk
from cairn.store.follower import FollowerStore
from cairn.store.last_backup import LastBackup, find_last_backup

BACKUP_DAYS = 7


class Connections(msgspec.Struct, frozen=True):
    active: int
    idle: int
    websockets: int


class ProcessStatus(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    pid: int
    state: str
    """A letter, as in `ps`."""
    resident_bytes: int
    restarts: int | None
    """How often it was started again; None without metrics."""


class Status(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A node as it is now. What nobody can tell is None."""

    home: str | None = None
    url: str | None = None
    is_running: bool
    version: str | None = None
    commit: str | None = None
    started_at: int | None = None
    chain_id: int | None = None
    engine: str | None = None
    head: Head | None = None
    readiness: SaidReadiness | None = None
    mempool: MempoolSize | None = None
    connections: Connections | None = None
    processes: list[ProcessStatus] = []
    data_bytes: int | None = None
    free_bytes: int | None = None
    certificate_expires_at: int | None = None
    peers: int | None = None
    validators: Validators | None = None
    backup: LastBackup | None = None
    findings: list[Finding] = []

    @property
    def is_ready(self) -> bool:
        return self.readiness is not None and self.readiness.status == "ready"


def status_of_url(url: str, machine: Machine) -> Status:
    """The status of a node that may be on another machine."""
    live = look_at(url, None, is_ours=False)
    return _of_live(live, list(check_live(live, machine.now())))


def status_of_home(home: Home, environ: Mapping[str, str], machine: Machine) -> Status:
    """The status of the node in a home, whether it runs or not. Raises `StoreUnavailable`."""
    running = find_running(home.directory)
    case = Case(home, machine, review_settings(home, environ), running, BACKUP_DAYS)
    findings = run_checks(case, [name for name in CHECKS if name not in DOCTOR_ONLY])
    if running is None:
        stopped = error("NODE_STOPPED", "the node does not run", f"start it: cairn run --home {home.directory}")
        status = Status(is_running=False, findings=[stopped, *findings])
        status = msgspec.structs.replace(status, head=_stored_head(home.data_dir), data_bytes=_data_bytes(home))
    else:
        processes = processes_of(running.pid)
        live = look_at(running.url, running.metrics_url, is_ours=True)
        findings += [*check_processes(running, processes), *check_live(live, machine.now())]
        status = _with_machine(_of_live(live, findings), running, processes, live)
    return _with_home(status, case)


def _of_live(live: LiveNode, findings: list[Finding]) -> Status:
    expires = live.metrics and live.metrics.value("cairn_certificate_expiry_timestamp_seconds")
    status = Status(
        url=live.url,
        is_running=live.failure is None,
        head=live.head,
        readiness=live.readiness,
        connections=_connections(live),
        data_bytes=live.data_bytes,
        certificate_expires_at=int(expires) if expires else None,
        validators=live.validators,
        findings=findings,
    )
    if (chain := live.chain) is None:
        return status
    return msgspec.structs.replace(
        status,
        version=chain.version,
        commit=chain.commit or None,
        chain_id=chain.chain_id,
        engine=chain.engine,
        mempool=chain.mempool,
        peers=None if chain.engine == "embedded" else live.peers,
    )


def _connections(live: LiveNode) -> Connections | None:
    if live.metrics is None:
        return None
    by_state = live.metrics.values("cairn_http_connections", "state")
    websockets = live.metrics.value("cairn_websocket_connections") or 0
    return Connections(int(by_state.get("active", 0)), int(by_state.get("idle", 0)), int(websockets))


def _with_machine(status: Status, running: RunningNode, processes: Sequence[NodeProcess], live: LiveNode) -> Status:
    restarts = live.metrics.values("cairn_process_restarts_total", "process") if live.metrics else None
    listed = [
        ProcessStatus(*process, None if restarts is None else int(restarts.get(process.name, 0)))
        for process in processes
    ]
    return msgspec.structs.replace(
        status,
        url=running.url,
        # Its processes are there, whether it answers or not.
        is_running=True,
        version=status.version or running.version,
        started_at=running.started_at,
        processes=listed,
    )


def _with_home(status: Status, case: Case) -> Status:
    genesis = case.review.genesis
    try:
        free_bytes = case.machine.space(case.disk_path).free_bytes
    except OSError:
        free_bytes = None
    return msgspec.structs.replace(
        status,
        home=str(case.home.directory),
        chain_id=status.chain_id or (genesis and genesis.chain_id),
        engine=status.engine or case.settings.engine,
        free_bytes=free_bytes,
        certificate_expires_at=status.certificate_expires_at or _expiry(case.settings.tls_cert),
        backup=find_last_backup(case.home.directory),
    )


def _stored_head(data_dir: Path) -> Head | None:
    """The latest block on disk, read as the workers read it: nothing is changed there."""
    try:
        with tempfile.TemporaryDirectory(prefix="cairn-status-") as scratch:
            store = FollowerStore.open(data_dir, Path(scratch))
            try:
                found = store.find_header(store.visible)
            finally:
                store.close()
    except (NodeError, OSError):
        return None
    return None if found is None else Head(found[1].height, hex_text(found[0]), found[1].timestamp)


def _data_bytes(home: Home) -> int | None:
    try:
        return size_on_disk(home.data_dir)
    except NodeError:
        return None


def _expiry(certificate: str) -> int | None:
    try:
        return int(read_validity(Path(certificate).read_bytes())[1].timestamp()) if certificate else None
    except (OSError, ValueError):
        return None
