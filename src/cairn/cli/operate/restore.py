"""`cairn restore`: a home directory from a backup."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from cairn.build import DATA_FORMAT
from cairn.cli.network.peers import own_address
from cairn.cli.node.home import GENESIS_FILE, Home
from cairn.cli.operate.engine_copy import VALIDATOR_KEY
from cairn.cli.operate.progress_bar import byte_progress_bar
from cairn.cli.operate.scratch import scratch_directory
from cairn.cli.operate.second_history import warn_of_second_history
from cairn.cli.options import AsJson
from cairn.cli.report import DataUnusable, reported_errors, warn
from cairn.cli.screen import print_json, print_pairs
from cairn.cometbft import COMETBFT_DIRECTORY, CometBFT, find_binary
from cairn.config import load_settings
from cairn.domain.errors import Corrupt, Fatal, InvalidConfig, reason_of
from cairn.domain.genesis import Genesis
from cairn.log import configure_logging
from cairn.store import backups
from cairn.store.backups import FACTS_FILE, SUMS_FILE, Backup, SourceFile
from cairn.store.directory import (
    BEGUN_TEXT,
    check_room,
    is_there,
    make_directory,
    names_in,
    sync_directory,
    write_file,
)

UNFINISHED = ".restoring"
RESTORED_SUFFIX = "-restored"


NOT_RESTORED = (FACTS_FILE, f"{COMETBFT_DIRECTORY}/{VALIDATOR_KEY}")
"""What stays in the backup. With its key, a restored validator could sign a second block at a height."""


class Restored(msgspec.Struct, frozen=True, rename="camel"):
    """What was restored, as --json prints it."""

    home: str
    backup: str
    made_at: int
    block_height: int
    hash: str
    pending: int
    has_keys: bool


def restore(
    backup: Annotated[
        Path,
        typer.Argument(
            help="A backup, or a directory of backups: then the latest is used.", metavar="BACKUP", show_default=False
        ),
    ],
    directory: Annotated[Path, typer.Argument(help="The home directory to create.", metavar="DIR", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Create a home directory from a backup, after checking all of it. An existing home is never touched."""
    configure_logging("warning", "text")
    with reported_errors(as_json):
        try:
            found = find_backup(backup)
            restore_home(found, directory)
        except Fatal as failure:
            raise DataUnusable(f"nothing was restored: {failure.detail}") from None
        except OSError as failure:
            raise InvalidConfig(f"cannot restore to {directory}: {reason_of(failure)}") from None
    if as_json:
        facts = found.facts
        made = (facts.made_at, facts.height, facts.hash, facts.pending, facts.has_keys)
        print_json(Restored(str(directory.absolute()), str(found.path.absolute()), *made))
    else:
        print_restored(found, directory)
    warn_of_the_past(found, Home(directory))


def find_backup(path: Path) -> Backup:
    """The backup there, or the one made last of a directory of backups. Raises `InvalidConfig` or `Corrupt`."""
    if is_there(path / SUMS_FILE):
        return backups.read_backup(path)
    names = backups.backups_in(path)
    if not names:
        raise InvalidConfig(f"{path} is neither a backup nor a directory with backups")
    found = backups.readable_backups(path)
    known = [each.path for each in found]
    later = names[names.index(known[-1]) + 1 :] if known else names
    for unreadable in (name for name in later if name not in known):
        # It may be the latest: its owner decides. This raises what is wrong with it.
        backups.read_backup(unreadable)
    if len({each.facts.genesis for each in found}) > 1:
        raise InvalidConfig(f"{path} has backups of several chains: name the one to restore")
    return found[-1]


def restore_home(backup: Backup, directory: Path) -> None:
    """Make the home, of which `genesis.json` comes last: no node starts without it.

    Raises `InvalidConfig`, `Corrupt` or another `Fatal`, `StoreUnavailable` or `OSError`.
    """
    sizes = backups.sizes_of(backup)
    make_directory(directory)
    with scratch_directory(directory / UNFINISHED) as scratch:
        if names_in(directory) != [UNFINISHED]:
            raise InvalidConfig(f"{directory} is not empty; nothing was written")
        with byte_progress_bar("Checking", sum(sizes.values())) as on_bytes:
            backups.check_files(backup, on_bytes)
        check_room(directory, sum(sizes.values()))
        draft = scratch / "home"
        files = {
            name: SourceFile(backup.path / name, size, size) for name, size in sizes.items() if name not in NOT_RESTORED
        }
        with byte_progress_bar("Copying", sum(sizes.values())) as on_bytes:
            written = backups.write_backup(draft, files, None, on_bytes)
        for name, digest in written.sums.items():
            if digest != backup.sums[name]:
                raise Corrupt(f"{backup.path / name} was read differently a moment ago: its disk fails")
        check_restored(backup, Home(draft), Home(draft).read_genesis())
        write_file(Home(draft).begun_file, BEGUN_TEXT.encode())
        if backup.facts.engine == "cometbft":
            make_full_node(Home(draft))
        move_in(draft, directory)


def check_restored(backup: Backup, home: Home, genesis: Genesis) -> None:
    """Open what was copied as a node would. Raises `Corrupt`."""
    if backup.facts.data_format != DATA_FORMAT:
        warn(f"the backup is in data format {backup.facts.data_format}, this version uses {DATA_FORMAT}: not opened")
        return
    head = backups.check_data(home.data_dir, genesis).chain.head
    if (head.height, "0x" + head.hash.hex()) != (backup.facts.height, backup.facts.hash):
        raise Corrupt(f"{backup.path} says that it ends with block {backup.facts.height}, not {head.height}")


def make_full_node(home: Home) -> None:
    """Give CometBFT a key that has never signed anything. Raises `InvalidConfig`."""
    settings = load_settings(home.read_config())
    engine = CometBFT(find_binary(settings.cometbft_binary), home.directory / COMETBFT_DIRECTORY)
    engine.check_version()
    if settings.cometbft_home:
        warn(f"cairn.toml names {settings.cometbft_home} as cometbft_home, but it is restored to cometbft/ in the home")
    # It makes the keys that are missing, and the record of what they have signed, and leaves all else as it is.
    engine.run("init")
    # A validator of the network has the old name and the old key, and a remote signer would still give that.
    engine.configure({"moniker": f"{engine.moniker()}{RESTORED_SUFFIX}", "priv_validator_laddr": ""})
    for path in (engine.home / "config", engine.home / "data"):
        sync_directory(path)


def move_in(draft: Path, directory: Path) -> None:
    for path in sorted(draft.iterdir(), key=lambda path: path.name == GENESIS_FILE):
        if path.name == GENESIS_FILE:
            # All others are certainly there before it.
            sync_directory(directory)
        path.rename(directory / path.name)
    sync_directory(directory)


def print_restored(backup: Backup, directory: Path) -> None:
    facts = backup.facts
    print_pairs(
        [
            ("Home", str(directory)),
            ("Backup", f"{backup.path}, checked"),
            ("Block", f"{facts.height:,}  {facts.hash}"),
            ("Pending", f"{facts.pending:,} transactions"),
            ("Start", f"cairn run --home {directory}"),
        ]
    )


def warn_of_the_past(backup: Backup, home: Home) -> None:
    """What an operator must know before the node is started."""
    if backup.facts.engine == "cometbft":
        warn(
            "this is a full node with a new validator key, which the network does not know. The old key is not "
            "restored: a validator must never sign with a copy of its key; see docs/backup.md"
        )
        if not backup.facts.has_keys:
            own = own_address(CometBFT(Path(), home.directory / COMETBFT_DIRECTORY))
            warn(f"its peers know it by another id: those that are closed must list it: cairn peers --add {own}")
        return
    if not is_there(home.key_files.current):
        warn(f"the backup has no signing key: put your copy at {home.key_files.current}, mode 600, before you start")
    warn_of_second_history(backup.facts.height)
