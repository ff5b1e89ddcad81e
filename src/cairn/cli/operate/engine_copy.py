"""The files of a network node's CometBFT for a backup, even while it runs.

CometBFT cannot be asked for a copy. It is stopped (SIGSTOP) for the milliseconds in which its tables get further names
and its logs are copied: what is on disk then is what a killed CometBFT would leave, and goes on from. The node's own
copy is made before, so its blocks are among CometBFT's, which replays the rest at the start.

Left out are its log of votes, and `priv_validator_state.json`: an old record of what a validator has signed lets it
sign a second block at the same height.
"""

import fcntl
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from cairn.cli.node.home import Home
from cairn.cli.operate.processes import PROCESSES, STOPPED, processes_of
from cairn.cli.operate.scratch import scratch_directory
from cairn.cli.report import CommandFailed, Unreachable
from cairn.cometbft import COMETBFT_DIRECTORY, CometBFT
from cairn.config import load_settings
from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import Genesis
from cairn.running_node import RunningNode
from cairn.store.backups import TABLE_SUFFIXES, SourceFile, home_files
from cairn.store.directory import is_directory, is_there, names_in
from cairn.store.hot_copy import COPY_DIRECTORY

STORES = ("blockstore.db", "state.db", "evidence.db")
"""Its blocks, its state, and evidence of fraud."""
CONFIGURATION = ("config/config.toml", "config/genesis.json")
NODE_KEY = "config/node_key.json"
VALIDATOR_KEY = "config/priv_validator_key.json"
LONGEST_STOP_S = 2.0
"""How long it may take until all of its threads stand still. The node's supervisor takes ten seconds for a hang."""
POLL_S = 0.001


def engine_of(home: Home, genesis: Genesis) -> CometBFT | None:
    """The CometBFT in or beside a home; None on a chain without validators. Its program is not looked for."""
    if not genesis.validators:
        return None
    chosen = load_settings(home.read_config()).cometbft_home
    return CometBFT(Path(), Path(chosen or home.directory / COMETBFT_DIRECTORY))


def engine_files(engine: CometBFT, stores: Path, with_keys: bool) -> dict[str, SourceFile]:
    """Its configuration and its stores, by their names in a backup. Raises `InvalidConfig`."""
    keys = key_names(engine) if with_keys else ()
    for name in keys:
        if not is_there(engine.home / name):
            raise InvalidConfig(f"{engine.home / name} is missing: restore it from an earlier backup with keys")
    files = {f"{COMETBFT_DIRECTORY}/{name}": engine.home / name for name in (*CONFIGURATION, *keys)}
    for store in STORES:
        if not is_directory(stores / store):
            raise InvalidConfig(f"{stores / store} is missing: CometBFT has not run yet, or keeps it elsewhere")
        for name in sorted(names_in(stores / store)):
            if name not in ("LOCK", "LOG", "LOG.old"):
                files[f"{COMETBFT_DIRECTORY}/data/{store}/{name}"] = stores / store / name
    return home_files(files)


def key_names(engine: CometBFT) -> tuple[str, ...]:
    """The files with its keys, without that of a validator whose key is with a remote signer."""
    return (NODE_KEY,) if engine.signer_address() else (NODE_KEY, VALIDATOR_KEY)


@contextmanager
def still_stores(engine: CometBFT, node: RunningNode | None) -> Iterator[Path]:
    """A directory with CometBFT's stores that do not change. Raises `CommandFailed` or `Unreachable`."""
    data = engine.home / "data"
    found = [] if node is None else [each.pid for each in processes_of(node.pid) if each.name == "cometbft"]
    if not found:
        # It is stopped, or somebody else runs it.
        with ExitStack() as locks:
            for store in STORES:
                locks.enter_context(_locked(data / store / "LOCK"))
            yield data
        return
    with scratch_directory(data / COPY_DIRECTORY) as place:
        with _standing_still(found[0]):
            for store in STORES:
                _copy_store(data / store, place / store)
        yield place


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of a store, as CometBFT does while it runs."""
    if not path.exists():
        yield
        return
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandFailed(f"{path.parent} is in use by a CometBFT that this node did not start") from None
        yield
    finally:
        os.close(file)


@contextmanager
def _standing_still(pid: int) -> Iterator[None]:
    """Stop a process. If this one is killed meanwhile, the node's supervisor replaces the one that stands still."""
    os.kill(pid, signal.SIGSTOP)
    try:
        until = time.monotonic() + LONGEST_STOP_S
        while not all(_is_stopped(thread) for thread in (PROCESSES / str(pid) / "task").iterdir()):
            if time.monotonic() > until:
                raise Unreachable("CometBFT waits for its disk, and cannot be copied now: try again")
            time.sleep(POLL_S)
        yield
    except FileNotFoundError:
        raise Unreachable("CometBFT ended while it was copied: try again") from None
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _is_stopped(thread: Path) -> bool:
    return (thread / "stat").read_text().rpartition(")")[2].split()[0] == STOPPED


def _copy_store(source: Path, place: Path) -> None:
    place.mkdir(mode=0o700)
    for name in names_in(source):
        if name.endswith(TABLE_SUFFIXES):
            os.link(source / name, place / name)
        elif name != "LOCK":
            shutil.copyfile(source / name, place / name)
