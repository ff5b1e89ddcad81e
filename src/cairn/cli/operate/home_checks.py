"""Checks of a home directory: its files, their owner and permissions, its disk, and its backup."""

import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from cairn.cli.node.public_keys import describe_public_keys
from cairn.cli.operate.case import Case
from cairn.cli.operate.findings import Finding, error, warning
from cairn.domain.errors import InvalidConfig, StoreUnavailable, WrongFormat
from cairn.running_node import RUNNING_FILE
from cairn.store.directory import LEAST_FREE_BYTES, check_format, holds_chain, is_there
from cairn.store.last_backup import find_last_backup
from cairn.store.signing_key import SigningKey

MOST_FILES = 20_000
"""How many files of a home are looked at for their owner."""
FEW_FILES = 1_000
SLOW_SYNC_S = 0.1
DAY_S = 86_400
OTHERS, EVERYBODY = stat.S_IRWXG | stat.S_IRWXO, stat.S_IRWXO


def check_owner(case: Case) -> Iterator[Finding]:
    """One start as another user leaves files that the node's own user cannot write."""
    directory, machine = case.home.directory, case.machine
    try:
        owner = machine.owner(directory)
        if machine.user() not in (0, owner):
            yield warning(
                "ANOTHER_USER",
                f"{directory} is another user's, so not everything can be looked at",
                f"run it as that user: sudo -u '#{owner}' cairn doctor --home {directory}",
            )
        paths = islice(_files_in(directory), MOST_FILES)
        foreign = [path for path in paths if machine.owner(path) != owner]
    except OSError as failure:
        yield error(
            "HOME_UNREADABLE", f"cannot look into {directory}: {failure.strerror}", "run it as the user of the node"
        )
        return
    if foreign:
        yield error(
            "WRONG_OWNER",
            f"{len(foreign)} files of the home belong to another user than {directory}, as {foreign[0]}",
            f"stop the node, then chown -R --reference={directory} {directory}",
        )


def _files_in(directory: Path) -> Iterator[Path]:
    for parent, directories, names in os.walk(directory):
        yield from (Path(parent, name) for name in (*directories, *names))


def check_permissions(case: Case) -> Iterator[Finding]:
    engine = case.engine_home / "config"
    own = [*case.home.key_files, engine / "priv_validator_key.json", engine / "node_key.json"]
    secrets = [(path, OTHERS) for path in own]
    if case.settings.tls_key:
        # Services that share a certificate have a group for it.
        secrets.append((Path(case.settings.tls_key), EVERYBODY))
    for path, forbidden in secrets:
        if (mode := _mode(path)) is not None and mode & forbidden:
            yield error(
                "KEY_READABLE",
                f"{path} is a secret key, and others can read or change it (mode {mode:o})",
                f"chmod 600 {path}; if somebody may have read it, replace the key (docs/production.md)",
            )
    for path in (case.home.directory, case.home.data_dir, case.home.config_file, case.home.genesis_file):
        if (mode := _mode(path)) is not None and mode & stat.S_IWOTH:
            yield error("WRITABLE_BY_ALL", f"everybody can change {path} (mode {mode:o})", f"chmod o-w {path}")


def _mode(path: Path) -> int | None:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None


def check_signing_key(case: Case) -> Iterator[Finding]:
    genesis = case.review.genesis
    if genesis is None or genesis.signer is None:
        return
    path = case.home.key_files.current
    if (mode := _mode(path)) is not None and mode & OTHERS:
        # Said by `check_permissions`.
        return
    try:
        key = SigningKey.load(path)
        is_begun = is_there(case.home.begun_file)
    except (InvalidConfig, StoreUnavailable) as wrong:
        yield error("SIGNING_KEY", wrong.detail, f"restore {path} from its backup: the node does not start without it")
        return
    if not is_begun and key.public_key != genesis.signer:
        yield error(
            "SIGNING_KEY",
            f"the key in {path} is not the signer that genesis.json names",
            "take both files from the same `cairn init`",
        )


def check_public_keys(case: Case) -> Iterator[Finding]:
    genesis = case.review.genesis
    described = None if genesis is None else describe_public_keys(genesis, case.settings.proposer)
    if described is not None:
        yield warning(
            "PUBLIC_KEYS",
            described,
            "use this chain for tests only: anybody can use these keys; make a real one with keys of your own",
        )


def check_data(case: Case) -> Iterator[Finding]:
    data = case.home.data_dir
    try:
        if holds_chain(data):
            check_format(data)
        elif is_there(case.home.begun_file):
            yield error(
                "CHAIN_MISSING",
                f"{case.home.begun_file} says that the chain was begun, but there is none in {data}",
                "mount its disk, or restore a backup: docs/production.md, 'Recover from damage'",
            )
    except WrongFormat as wrong:
        yield error("DATA_FORMAT", wrong.detail, "run the version of cairn that wrote it, or see docs/upgrades.md")
    except StoreUnavailable as wrong:
        yield error("DATA_UNREADABLE", wrong.detail, "look at the disk (dmesg), its mount, and its permissions")


def check_disk(case: Case) -> Iterator[Finding]:
    path = case.disk_path
    try:
        space = case.machine.space(path)
    except OSError as failure:
        yield error(
            "DISK_UNREADABLE",
            f"cannot look at the disk of {path}: {failure.strerror}",
            "mount it, or name another home",
        )
        return
    left = f"the disk of {path} has {space.free_bytes >> 20:,} MiB left"
    advice = "free some space, take a larger disk, or keep fewer blocks with retain_blocks"
    if space.is_read_only or not os.access(path, os.W_OK):
        yield error(
            "DISK_READ_ONLY",
            f"nothing can be written to {path}",
            "mount it writable, or give it to the node's user; after an error of the disk (dmesg) check it first",
        )
        return
    if space.free_bytes < LEAST_FREE_BYTES:
        yield error("DISK_FULL", f"{left}: the node takes no transactions", advice)
    elif space.free_bytes < case.settings.disk_warning_bytes:
        yield warning("DISK_LOW", left, advice)
    if space.free_files is not None and space.free_files < FEW_FILES:
        yield warning("DISK_FILES_LOW", f"the disk of {path} has room for {space.free_files} more files", advice)


def check_syncs(case: Case) -> Iterator[Finding]:
    path = case.disk_path
    try:
        took_s = case.machine.sync_seconds(path)
    except OSError:
        # Said by `check_disk`.
        return
    if took_s > SLOW_SYNC_S:
        yield warning(
            "DISK_SLOW",
            f"{path}: a small write takes {1_000 * took_s:.0f} ms to be on disk, and each accepted batch waits for one",
            "use a local SSD; look for what else uses the disk (iostat -x 1)",
        )


def check_running_file(case: Case) -> Iterator[Finding]:
    path = case.home.directory / RUNNING_FILE
    if case.running is None and path.exists():
        yield warning(
            "NODE_KILLED",
            f"{path} is there, but its node does not run: it was killed, or the machine was",
            "look at the end of its log for the reason, then start it: nothing accepted is lost",
        )


def check_backup(case: Case) -> Iterator[Finding]:
    """On a network every node has the chain. A node that makes its blocks alone has the only copy."""
    if not case.backup_days or case.review.is_network or not case.home.begun_file.exists():
        return
    advice = f"cairn backup DIRECTORY --home {case.home.directory}, regularly; --backup-days 0 if you do it otherwise"
    last = find_last_backup(case.home.directory)
    if last is None:
        yield warning("BACKUP_MISSING", "no backup of this chain was made with `cairn backup`", advice)
        return
    days = (case.machine.now() - last.made_at) / DAY_S
    if days > case.backup_days:
        yield warning("BACKUP_OLD", f"the latest backup, {last.backup}, is {days:.0f} days old", advice)
