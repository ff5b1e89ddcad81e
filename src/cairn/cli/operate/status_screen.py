"""How `cairn status` shows a node to a person: one screen, then what is wrong and what to do about it."""

import time
from collections.abc import Iterator

from rich.text import Text

from cairn.build import SHOWN_DIGITS
from cairn.cli.operate.findings import print_findings
from cairn.cli.operate.processes import STOPPED, WAITS_FOR_DISK
from cairn.cli.operate.status import ProcessStatus, Status
from cairn.cli.screen import Line, ago, print_line, print_pairs, shortened, when

_STATES = {STOPPED: ", stopped", WAITS_FOR_DISK: ", waits for the disk"}


def print_status(status: Status) -> None:
    print_pairs(list(_pairs(status)))
    if status.findings:
        print_line("")
        print_findings(status.findings)


def _pairs(status: Status) -> Iterator[tuple[str, Line]]:
    yield "node", _node(status)
    if status.home is not None:
        yield "home", status.home
    if status.chain_id is not None:
        yield "chain", f"{status.chain_id}, {status.engine}"
    if (head := status.head) is not None:
        yield "head", f"block {head.block_height:,}, {ago(head.timestamp)}, {shortened(head.hash)}"
    yield "ready", _readiness(status)
    if (pool := status.mempool) is not None:
        yield "mempool", f"{pool.pending:,} pending, {pool.queued:,} queued, room for {pool.limit:,}"
    if (open_now := status.connections) is not None:
        yield (
            "connections",
            f"{open_now.active} active, {open_now.idle} idle, {open_now.websockets} WebSockets",
        )
    for index, process in enumerate(status.processes):
        yield "" if index else "processes", _process(process)
    if (disk := _disk(status)) is not None:
        yield "disk", disk
    if status.certificate_expires_at is not None:
        yield "certificate", f"valid until {time.strftime('%Y-%m-%d', time.gmtime(status.certificate_expires_at))}"
    yield from _network(status)
    if status.backup is not None:
        yield "backup", f"{when(status.backup.made_at)}, {status.backup.backup}"


def _node(status: Status) -> str:
    if not status.is_running:
        return "does not run" if status.url is None else f"{status.url}, does not answer"
    commit = f" ({status.commit[:SHOWN_DIGITS]})" if status.commit else ""
    version = f", Cairn {status.version}{commit}" if status.version else ""
    started = f", started {ago(status.started_at)}" if status.started_at else ""
    return f"{status.url}{version}{started}"


def _readiness(status: Status) -> Text:
    if status.is_ready:
        return Text("yes", "green")
    if status.readiness is None:
        return Text("no", "red")
    parts = ", ".join(status.readiness.failing()) or status.readiness.status
    return Text(f"no: {parts}", "red")


def _process(process: ProcessStatus) -> str:
    restarts = f", started again {process.restarts} times" if process.restarts else ""
    state = _STATES.get(process.state, "")
    return f"{process.name}, process {process.pid}, {process.resident_bytes / 1e6:.0f} MB{state}{restarts}"


def _disk(status: Status) -> str | None:
    known = [
        *([] if status.data_bytes is None else [f"{status.data_bytes / 1e6:,.0f} MB of data"]),
        *([] if status.free_bytes is None else [f"{status.free_bytes / 1e9:,.1f} GB free"]),
    ]
    return ", ".join(known) or None


def _network(status: Status) -> Iterator[tuple[str, Line]]:
    if status.peers is not None:
        yield "peers", str(status.peers)
    if (listed := status.validators) is None:
        return
    for index, each in enumerate(listed.validators):
        name = each.name or shortened(each.address)
        missed = f"missed {each.missed_blocks} of the latest {listed.voted_blocks} blocks"
        yield "" if index else "validators", f"{name}, power {each.power}, {missed}"
