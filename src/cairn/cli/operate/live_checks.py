"""Checks of a node that runs: what is wrong with it now, and what to do about it."""

from collections.abc import Iterator, Sequence

from cairn.build import VERSION
from cairn.cli.operate.findings import Finding, error, warning
from cairn.cli.operate.live_node import LiveNode
from cairn.cli.operate.processes import STOPPED, NodeProcess
from cairn.running_node import RunningNode

AHEAD_S = 60
NO_BLOCK_S = 60
NEARLY_FULL = 0.9

_PARTS = {
    "disk": "free some space, or look at the disk (dmesg); submissions are taken again by themselves after that",
    "core": "a core that hangs is started again within 15 s; if this stays, look at the log and at the disk",
    "engine": "look at the end of cometbft/cometbft.log; CometBFT is started again by itself",
    "peers": "see which validators are away (`cairn validators list`) and whether this machine reaches them",
    "clock": "set the clock of this machine, and have it kept right: timedatectl set-ntp true, or chrony",
}
_ANY_PART = "look at the log of the node: it names the cause; `cairn doctor --home DIR` looks at the machine"


def check_live(live: LiveNode, now: float) -> Iterator[Finding]:
    if live.failure is not None:
        yield error(
            "NODE_SILENT",
            f"{live.url} does not answer: {live.failure}",
            "start it, or name another address; if its process runs, look at its log",
        )
        return
    yield from _check_readiness(live)
    yield from _check_blocks(live, now)
    yield from _check_validators(live)
    yield from _check_metrics(live)


def _check_readiness(live: LiveNode) -> Iterator[Finding]:
    if live.is_ready:
        return
    if live.readiness is None:
        yield error("NOT_READY", "/ready does not answer", _ANY_PART)
        return
    said: dict[str, list[str]] = {}
    for part, problem in live.readiness.failing().items():
        said.setdefault(problem, []).append(part)
    for problem, parts in said.items():
        advice = next((_PARTS[part] for part in parts if part in _PARTS), _ANY_PART)
        yield error("NOT_READY", f"{', '.join(parts)}: {problem}", advice)
    if not said:
        yield error("NOT_READY", f"the node is {live.readiness.status}", "wait: it says so when it is ready")


def _check_blocks(live: LiveNode, now: float) -> Iterator[Finding]:
    if live.head is None:
        return
    age_s = now - live.head.timestamp
    if age_s < -AHEAD_S:
        yield error(
            "CLOCK_BEHIND",
            f"the latest block is {-age_s:,.0f} s ahead of this machine's clock",
            "set the clock, and have it kept right: timedatectl set-ntp true, or chrony",
        )
    if live.chain is None:
        return
    pool = live.chain.mempool
    if live.is_ready and pool.pending and age_s > NO_BLOCK_S:
        yield error(
            "NO_BLOCKS",
            f"{pool.pending:,} transactions are pending, and the latest block is {age_s:,.0f} s old",
            "look at the log; on a network, see which validators are away: `cairn validators list`",
        )
    held = pool.pending + pool.queued
    if held >= NEARLY_FULL * pool.limit:
        yield warning(
            "MEMPOOL_FULL",
            f"the mempool holds {held:,} of {pool.limit:,} transactions; when it is full, new ones are refused",
            "if blocks are made, wait; otherwise look at /ready; mempool_size sets the limit",
        )


def _check_validators(live: LiveNode) -> Iterator[Finding]:
    if live.validators is None:
        return
    voted = live.validators.voted_blocks
    away = [each.name or each.address for each in live.validators.validators if 2 * each.missed_blocks > voted]
    if away:
        yield warning(
            "VALIDATORS_AWAY",
            f"{', '.join(away)} missed more than half of the latest {voted} blocks",
            "ask their operators; the network halts once validators with a third of the power are away",
        )
    if count := live.validators.evidence_count:
        yield warning(
            "EVIDENCE",
            f"there are {count} pieces of evidence that a validator signed what it must not sign",
            "find out who else runs with its key: docs/network.md, 'See who misbehaves'",
        )


def _check_metrics(live: LiveNode) -> Iterator[Finding]:
    if live.metrics is None:
        return
    restarts = {
        name: int(count) for name, count in live.metrics.values("cairn_process_restarts_total", "process").items()
    }
    restarted = {name: count for name, count in restarts.items() if count}
    if restarted:
        shown = ", ".join(f"{name} {count} times" for name, count in restarted.items())
        yield warning(
            "RESTARTS", f"started again since the node started: {shown}", "look in the log for why; nothing was lost"
        )

    if live.metrics.value("cairn_signing_key_not_on_disk"):
        yield error(
            "HAND_OVER_REFUSED",
            "the node signs with its old key: it cannot read the new one back from next-signing-key.json",
            "put that file back from your backup of it, mode 600, and the next block hands over; its log says what is "
            "wrong with it",
        )


def check_processes(running: RunningNode, processes: Sequence[NodeProcess]) -> Iterator[Finding]:
    for process in processes:
        if process.state == STOPPED:
            yield error(
                "PROCESS_STOPPED",
                f"{process.name} (process {process.pid}) is stopped, as by SIGSTOP or a debugger",
                f"kill -CONT {process.pid}, unless somebody examines it",
            )
    # Without the commit, which an older running.json does not have.
    if running.version.partition(" ")[0] != VERSION:
        yield warning(
            "VERSION_DIFFERS",
            f"the node runs {running.version}, and this program is {VERSION}",
            "restart the node to run the version that is installed",
        )
