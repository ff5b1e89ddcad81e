"""`cairn backup`: a copy of a node's home, even while the node runs."""

import os
import pwd
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import typer

from cairn.build import DATA_FORMAT, described
from cairn.cli.node.home import SIGNING_KEY_FILE, Home
from cairn.cli.operate.engine_copy import NODE_KEY, engine_files, engine_of, still_stores
from cairn.cli.operate.progress_bar import byte_progress_bar
from cairn.cli.operate.scratch import scratch_directory
from cairn.cli.options import AsJson
from cairn.cli.report import CommandFailed, DataUnusable, reported_errors, warn
from cairn.cli.screen import print_json, print_pairs
from cairn.cometbft import COMETBFT_DIRECTORY
from cairn.domain.errors import DirectoryInUse, Fatal, InvalidConfig, reason_of
from cairn.domain.genesis import DEV_SIGNER, Genesis
from cairn.log import configure_logging
from cairn.running_node import RunningNode, find_running
from cairn.store import backups
from cairn.store.backups import Backup, BackupFacts, CheckedData, SourceFile
from cairn.store.directory import (
    DirectoryLock,
    check_room,
    holds_chain,
    is_directory,
    is_there,
    make_directory,
    sync_directory,
)
from cairn.store.hot_copy import COPY_DIRECTORY, CopiedStore
from cairn.store.last_backup import LastBackup, last_backup_path, note_backup
from cairn.store.signing_key import SigningKey, key_text

UNFINISHED = ".unfinished"
NICENESS = 10
"""The node comes first."""


class Source(NamedTuple):
    """What is copied, and stays as it is meanwhile."""

    files: dict[str, SourceFile]
    copied: CopiedStore | None
    """What the core said of it; None if the node is stopped."""


class Made(msgspec.Struct, frozen=True, rename="camel"):
    """What was made, as --json prints it."""

    backup: str
    made_at: int
    block_height: int
    hash: str
    pending: int
    size_bytes: int
    copied_bytes: int
    shared_bytes: int
    has_keys: bool
    node_ran: bool
    seconds: float
    removed: list[str]


def backup(
    target: Annotated[
        Path, typer.Argument(help="The directory for all backups of this node.", metavar="DIR", show_default=False)
    ],
    home: Annotated[Path, typer.Option(help="The home directory of the node.", metavar="DIR", show_default=False)],
    with_keys: Annotated[
        bool, typer.Option("--with-keys", help="Include the key that the node signs with. Keep such a backup secret.")
    ] = False,
    keep: Annotated[
        int | None, typer.Option(help="Afterwards, keep only this many of the latest backups.", min=1, metavar="N")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Back up a node, running or stopped: its chain, everything it has accepted, its genesis and its settings."""
    configure_logging("warning", "text")
    with reported_errors(as_json):
        try:
            made = make_backup(Home(home), target, with_keys, keep)
        except DirectoryInUse as failure:
            raise CommandFailed(f"{failure.detail}, which does not say that it runs: stop it first") from None
        except Fatal as failure:
            raise DataUnusable(f"no backup was made: {failure.detail}") from None
        except OSError as failure:
            raise InvalidConfig(f"cannot make a backup in {target}: {reason_of(failure)}") from None
    if as_json:
        print_json(made)
    else:
        print_made(made)


def make_backup(home: Home, target: Path, with_keys: bool, keep: int | None) -> Made:
    begun_at = time.monotonic()
    genesis = home.read_genesis()
    check_owner(home.data_dir)
    make_directory(target)
    with scratch_directory(target / UNFINISHED) as scratch:
        draft_path = scratch / "backup"
        with source_of(home, genesis, with_keys) as source:
            made_at = int(time.time())
            present = backups.readable_backups(target)
            of_chain = [each for each in present if backups.is_of_chain(each, genesis)]
            earlier = of_chain[-1] if of_chain else None
            check_room(target, backups.bytes_to_copy(source.files, earlier))
            with byte_progress_bar("Copying", sum(each.size for each in source.files.values())) as on_bytes:
                written = backups.write_backup(draft_path, source.files, earlier, on_bytes)
        found = checked_copy(genesis, source.copied, draft_path)
        if with_keys and found.signer is not None:
            written.sums.update(copy_signing_keys(home, found.signer, draft_path))
        number = 1 + max((each.facts.number for each in present), default=0)
        facts = facts_of(found, genesis, made_at, holds_keys(written.sums), written.tables, number)
        draft = backups.finish_backup(draft_path, facts, written.sums)
        sizes = backups.sizes_of(draft)
        with byte_progress_bar("Checking", sum(sizes.values()) - sum(written.shared.values())) as on_bytes:
            # Those that are shared were read before.
            backups.check_files(draft, on_bytes, but=written.shared)
        path = backups.name_of_backup(target, made_at)
        draft.path.rename(path)
        sync_directory(target)
        removed = [] if keep is None else remove_old(of_chain, keep, facts.has_keys, scratch)
    note_made(home, path, facts)
    if earlier is not None and earlier.facts.made_at > made_at:
        warn(
            f"the clock was ahead when {earlier.path} was made, or it is behind now: that name is later than this one's"
        )
    for damaged in written.damaged:
        warn(f"{damaged} of an earlier backup is damaged, and was copied again: its disk fails")
    return Made(
        str(path.absolute()),
        made_at,
        facts.height,
        facts.hash,
        facts.pending,
        sum(sizes.values()),
        written.copied_bytes,
        sum(written.shared.values()),
        facts.has_keys,
        source.copied is not None,
        round(time.monotonic() - begun_at, 3),
        removed,
    )


def check_owner(data_dir: Path) -> None:
    """Another user could neither read all files, nor make one that the node can use. Raises `InvalidConfig`."""
    if not is_directory(data_dir):
        raise InvalidConfig(f"{data_dir} is missing: the node has not run yet, or its disk is not mounted")
    owner = data_dir.stat().st_uid
    if owner != os.geteuid():
        try:
            name = pwd.getpwuid(owner).pw_name
        except KeyError:
            name = str(owner)
        raise InvalidConfig(f"{data_dir} belongs to the user {name}: run the command as that user")


@contextmanager
def source_of(home: Home, genesis: Genesis, with_keys: bool) -> Iterator[Source]:
    """Files that do not change: further names of a running node's, or those of a stopped node.

    Raises `InvalidConfig`, `CommandFailed`, or `DirectoryInUse`.
    """
    if not holds_chain(home.data_dir):
        raise InvalidConfig(f"{home.data_dir} holds no chain yet")
    running, engine = find_running(home.directory), engine_of(home, genesis)
    with ExitStack() as held:
        if running is None:
            held.callback(DirectoryLock.acquire(home.data_dir).release)
            files, copied = backups.data_files(home.data_dir), None
        else:
            place = held.enter_context(scratch_directory(home.data_dir / COPY_DIRECTORY))
            copied = copy_of_running(running, place)
            files = backups.data_files(place, copied.journal)
        beside = backups.home_files({path.name: path for path in (home.genesis_file, home.config_file)})
        if engine is not None:
            # After the node's own: CometBFT must have every block that the node has.
            beside |= engine_files(engine, held.enter_context(still_stores(engine, running)), with_keys)
        yield Source(files | beside, copied)


def copy_of_running(node: RunningNode, place: Path) -> CopiedStore:
    """Have the core put its files into `place`. Raises `Unreachable`."""
    # Loaded here, since it brings in a part of the node: --help should answer at once.
    from cairn.cli.operate.core_link import ask_core

    os.nice(NICENESS)
    copied = ask_core(node, lambda core: core.copy_store())
    backups.complete_copy(place, copied)
    return copied


def checked_copy(genesis: Genesis, copied: CopiedStore | None, draft: Path) -> CheckedData:
    """Open the copy as a node would. Raises `Corrupt`, or another `Fatal` if it is not what the node said."""
    found = backups.check_data(draft / backups.DATA_DIRECTORY, genesis)
    head = found.chain.head
    if copied is not None and (head.height, head.hash) != (copied.height, copied.hash):
        raise Fatal(f"the copy ends with block {head.height}, and the node was at block {copied.height}")
    return found


def copy_signing_keys(home: Home, signer: bytes, draft: Path) -> dict[str, str]:
    """Copy the key that signs the block after the copy's last one, and its successor if there is one.

    Returns the digests of the files. Raises `InvalidConfig` or `OSError`.
    """
    # Which file has it, the copy says: the node may hand over between the copy of the chain and this one.
    current, successor = home.key_files
    held = {SigningKey.load(path).public_key: path for path in home.key_files if is_there(path)}
    if signer == DEV_SIGNER and signer not in held:
        # Everybody has it.
        return {}
    files = {current.name: held[signer]} if signer in held else {}
    if successor in held.values() and successor not in files.values():
        files[successor.name] = successor
    sums = backups.write_backup(draft, backups.home_files(files), None, lambda _: None).sums
    copy = draft / current.name
    if not is_there(copy) or SigningKey.load(copy).public_key != signer:
        raise InvalidConfig(
            f"no backup was made: the copied chain goes on with the key {key_text(signer)}, and {current} does not "
            "hold it. If the node has just handed over to another key, try again; otherwise restore that file from an "
            "earlier backup with keys"
        )
    return sums


def facts_of(
    found: CheckedData,
    genesis: Genesis,
    made_at: int,
    has_keys: bool,
    tables: dict[str, backups.TableOrigin],
    number: int,
) -> BackupFacts:
    head = found.chain.head
    return BackupFacts(
        made_at=made_at,
        version=described(),
        data_format=DATA_FORMAT,
        chain_id=genesis.chain_id,
        genesis=backups.digest_text(genesis),
        engine="cometbft" if genesis.validators else "embedded",
        height=head.height,
        hash="0x" + head.hash.hex(),
        pending=found.pending,
        has_keys=has_keys,
        tables=tables,
        number=number,
    )


def remove_old(earlier: list[Backup], keep: int, is_key_kept: bool, scratch: Path) -> list[str]:
    """Remove all but the latest `keep - 1` of the earlier backups; returns which.

    Unless those or the one just made have the keys, the latest with keys is kept, too.
    """
    count = max(0, len(earlier) - (keep - 1))
    old, kept = earlier[:count], earlier[count:]
    if not is_key_kept and not any(holds_keys(each.sums) for each in kept):
        with_keys = [each for each in old if holds_keys(each.sums)]
        old = [each for each in old if each not in with_keys[-1:]]
    for each in old:
        # First it loses its name, so that what is half removed is not taken for a backup.
        each.path.rename(scratch / each.path.name)
    return [str(each.path.absolute()) for each in old]


def holds_keys(sums: Mapping[str, str]) -> bool:
    """Whether a backup of these files does: older versions said that they included a key which was not there."""
    names = (SIGNING_KEY_FILE, f"{COMETBFT_DIRECTORY}/{NODE_KEY}")
    return any(name in sums for name in names)


def note_made(home: Home, path: Path, facts: BackupFacts) -> None:
    """For commands that say when the latest backup was made."""
    try:
        note_backup(home.directory, LastBackup(str(path.absolute()), facts.made_at, facts.height))
    except OSError as failure:
        noted = last_backup_path(home.directory)
        warn(f"the backup is whole, but {noted} cannot be written: {reason_of(failure)}")


def print_made(made: Made) -> None:
    state = "while the node ran" if made.node_ran else "of a stopped node"
    print_pairs(
        [
            ("Backup", made.backup),
            ("Made", f"{state}, in {made.seconds:.1f} s, and checked"),
            ("Block", f"{made.block_height:,}  {made.hash}"),
            ("Pending", f"{made.pending:,} transactions"),
            ("Size", f"{made.size_bytes:,} bytes: {made.copied_bytes:,} copied, {made.shared_bytes:,} shared"),
            ("Keys", "included: keep this backup secret" if made.has_keys else "not included"),
            *(("Removed", path) for path in made.removed),
        ]
    )
