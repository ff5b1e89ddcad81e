"""Defects to be planted, and the machine that must find each: a machine that does not find them finds nothing.

A defect is a change of the source's text. Where the text is another by now, say here how the same mistake looks in it.
"""

from dataclasses import dataclass
from pathlib import Path

SOURCE = Path("src")


@dataclass(frozen=True)
class Defect:
    name: str
    path: str
    before: str
    """Occurs once in the file."""
    after: str
    tests: tuple[str, ...] = ()
    """Of these at least one must fail; without any, the simulator must find it."""
    shown_as: tuple[str, ...] = ()
    """The kinds of violation that it may show itself as."""
    seeds: tuple[int, ...] = ()
    """These are tried first; where none of them finds it any more, others are."""
    arguments: tuple[str, ...] = ()
    """For the simulator."""


DEFECTS = (
    Defect(
        "a known transaction is answered before its first sync",
        "src/cairn/core/admission.py",
        """        # A known transaction may still wait for the sync of its first submission.
""",
        """        if not admitted.added:
            reply(Admission(tx.hash, known=True))
            return
""",
        shown_as=("lost",),
        seeds=(726208580,),
    ),
    Defect(
        "a drop is told before its sync",
        "src/cairn/core/admission.py",
        "        self._drops += journal_left(self._journal, self._pool, drops)\n",
        """        for tx_hash, reason in journal_left(self._journal, self._pool, drops):
            self._listener.on_dropped(tx_hash, reason)
""",
        shown_as=("told",),
        seeds=(271041745,),
    ),
    Defect(
        "the journal's start is raised after the removals",
        "src/cairn/store/journal.py",
        """        self._bounds.raise_journal_start(self._firsts[kept])
        for number in numbers:
            segment_path(self._directory, number).unlink()
            # One by one, so that after a power loss the newer part remains, without a gap: a DROP must not be removed
            # before its ADD.
            sync_directory(self._directory)
""",
        """        for number in numbers:
            segment_path(self._directory, number).unlink()
            sync_directory(self._directory)
        self._bounds.raise_journal_start(self._firsts[kept])
""",
        tests=("tests/unit/store/test_power_loss.py",),
    ),
    Defect(
        "a journal that is cut short passes as whole",
        "src/cairn/store/journal.py",
        "if self.next_sequence >= end:",
        "if True:",
        tests=("tests/unit/store/test_journal.py",),
    ),
    Defect(
        "a follower does not look at the MANIFEST",
        "src/cairn/store/follower.py",
        "        if self._manifest_stamp() != before:\n            return False\n",
        "",
        tests=("tests/unit/store/test_follower.py",),
    ),
    Defect(
        "the parts of a snapshot are not synced",
        "src/cairn/store/snapshot.py",
        "        sync_file(stream.fileno())\n",
        "",
        tests=("tests/unit/store/test_power_loss.py",),
    ),
    Defect(
        "a saved dev chain is not synced before it is renamed",
        "src/cairn/store/state_file.py",
        "            sync_file(file.fileno())\n",
        "",
        shown_as=("state file",),
        seeds=(271041745,),
    ),
    Defect(
        "the directory of a file that was replaced is not synced",
        "src/cairn/store/directory.py",
        "    draft.rename(path)\n    if is_synced:\n        sync_directory(path.parent)\n",
        "    draft.rename(path)\n",
        tests=("tests/unit/store/test_power_loss.py",),
    ),
    Defect(
        "a backup does not say where its journal ends",
        "src/cairn/store/backups.py",
        "copied.journal.start, copied.journal.end)",
        "copied.journal.start, 0)",
        tests=("tests/unit/core/test_copy_store.py",),
    ),
    Defect(
        "the shelf of snapshots is read before the plan",
        "src/cairn/engine/network/state_sync.py",
        """        planned = self._planned()
        return min(self._oldest_missing(), min([*planned, *self._shelf.heights()], default=0))
""",
        """        there = self._shelf.heights()
        return min(self._oldest_missing(), min([*self._planned(), *there], default=0))
""",
        tests=("tests/unit/engine/network/test_snapshot_serving.py",),
    ),
    Defect(
        "the memory of the head is switched before it is written",
        "src/cairn/store/directory.py",
        """        _SLOT.pack_into(self._memory, _offset(slot), head.height, head.reverts, head.hash)
        self._memory[_NEWEST_AT] = slot
""",
        """        self._memory[_NEWEST_AT] = slot
        _SLOT.pack_into(self._memory, _offset(slot), head.height, head.reverts, head.hash)
""",
        tests=("tests/unit/store/test_power_loss.py",),
    ),
    Defect(
        "arrivals are still watched for a worker that left",
        "src/cairn/core/link_server.py",
        "        self.watch_arrivals(connection, on=False)\n",
        "",
        tests=("tests/unit/core/test_link.py",),
    ),
    Defect(
        "a socket that is read again does not wake the hub",
        "src/cairn/api/server/websocket_protocol.py",
        "        if not self.paused:\n            self._resume_listener()\n",
        "",
        tests=(
            "tests/unit/api/server/test_hostile_clients.py"
            "::test_a_socket_that_is_read_again_wakes_all_that_waited_for_it",
        ),
    ),
    Defect(
        "payments of a block that a new socket begins with are told again",
        "src/cairn/client/events.py",
        "        if self._next is not None and place < self._next:\n            return False\n",
        "",
        tests=("tests/unit/client/test_events.py", "tests/unit/client/test_load_balancer.py"),
    ),
    Defect(
        "pruning removes the only version of an account",
        "src/cairn/store/prune.py",
        """        newest = cursor.seek(keys.version_key(address, height))
        if newest is None or not newest[0].startswith(address):
            continue
        older = cursor.next()
""",
        """        older = cursor.seek(keys.version_key(address, height - 1)) if height else None
""",
        shown_as=("account", "audit", "agreement", "exit"),
        seeds=(26,),
    ),
    Defect(
        "what leaves one mempool of many counts as dropped",
        "src/cairn/mempool/pool.py",
        "        if not self.is_shared:\n            return self.drops.add(left.tx.hash, left.reason)\n",
        "        return self.drops.add(left.tx.hash, left.reason)\n",
        shown_as=("ending", "lost"),
        seeds=(4133025703,),
    ),
    Defect(
        "the data of a transfer costs nothing in a block",
        "src/cairn/domain/transition.py",
        "        gas_used = self.gas_used + gas\n",
        "        gas_used = self.gas_used + TRANSFER_GAS\n",
        shown_as=("model",),
        seeds=(726208580,),
    ),
    Defect(
        "the account before a new one keeps its leaf after a kill",
        "src/cairn/store/state_recovery.py",
        """            if version.number >= size:
                below = accounts.below(address)
                before = accounts.find(below)
                assert before is not None
                renewed[before.number] = accounts.leaf(below, before)
""",
        "",
        shown_as=("exit",),
        seeds=(17,),
    ),
    Defect(
        "the file of the state tree is not synced before it is renamed",
        "src/cairn/store/tree_file.py",
        "            sync_file(file)\n",
        "",
        tests=("tests/unit/store/test_power_loss.py",),
    ),
    Defect(
        "a snapshot's accounts count as touched by its block",
        "src/cairn/store/keys.py",
        "        return self.touched_before if self.index == RESTORED else self.height\n",
        "        return self.height\n",
        tests=("tests/unit/store/test_snapshot_restore.py",),
    ),
    Defect(
        "CometBFT may prune the header of a change of validators before it is stored",
        "src/cairn/engine/network/state_sync.py",
        "        return min(self._oldest_missing(), min([*planned, *self._shelf.heights()], default=0))\n",
        "        return min([*planned, *self._shelf.heights()], default=0)\n",
        tests=("tests/unit/engine/network/test_snapshot_serving.py",),
    ),
    Defect(
        "a change of validators is stored with votes that only this node has seen",
        "src/cairn/engine/network/steps.py",
        "        if commit is None or not commit.is_canonical:\n",
        "        if commit is None:\n",
        tests=("tests/unit/engine/network/test_certificates.py",),
    ),
    Defect(
        "a snapshot may leave out changes of validators",
        "src/cairn/store/snapshot_steps.py",
        "        if len(self.records) != expected:\n",
        "        if len(self.records) > expected:\n",
        tests=("tests/unit/store/test_snapshot_steps.py",),
    ),
    Defect(
        "a snapshot is taken before all changes of validators are stored",
        "src/cairn/engine/network/state_sync.py",
        "        return due is not None and due.height <= self._oldest_missing()\n",
        "        return due is not None\n",
        tests=("tests/unit/engine/network/test_snapshot_serving.py",),
    ),
    Defect(
        "the simulator waits for what never comes",
        "tests/simulation/world.py",
        "    async def _submit(self, rng: random.Random) -> None:\n",
        "    async def _submit(self, rng: random.Random) -> None:\n"
        "        await asyncio.get_running_loop().create_future()\n",
        shown_as=("hang",),
        seeds=(271041745,),
    ),
)


def find_defect(name: str) -> Defect:
    [defect] = [each for each in DEFECTS if each.name == name]
    return defect
