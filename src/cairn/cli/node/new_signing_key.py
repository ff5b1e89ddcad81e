"""`cairn new-signing-key`: the successor of the key that a node signs its blocks with."""

from pathlib import Path
from typing import Annotated

import typer

from cairn.cli.node.home import Home
from cairn.cli.report import reported_errors
from cairn.cli.screen import print_line
from cairn.domain.errors import DirectoryInUse, InvalidConfig, StoreUnavailable
from cairn.store.directory import DirectoryLock, is_directory, is_there
from cairn.store.signing_key import SigningKey, key_text


def new_signing_key(
    home: Annotated[
        Path, typer.Option(help="The home directory of a node that is stopped.", metavar="DIR", show_default=False)
    ],
) -> None:
    """Create a new key for signing blocks. The old key signs one more block, which hands over to the new key."""
    with reported_errors():
        try:
            old, new = make_successor(Home(home))
        except (DirectoryInUse, StoreUnavailable) as failure:
            raise InvalidConfig(f"{failure.detail}: stop the node first") from None
    print_line(f"Wrote {Home(home).key_files.successor}: back it up where nobody else can read it")
    print_line(f"Old key  {key_text(old.public_key)}")
    print_line(f"New key  {key_text(new.public_key)}")
    print_line("The next block after the start hands over. The old key is removed then.")


def make_successor(home: Home) -> tuple[SigningKey, SigningKey]:
    """The key that signs until the next block, and the one after it. Raises `InvalidConfig`.

    Raises `DirectoryInUse` while the node runs: it reads its keys when it starts.
    """
    files = home.key_files
    if home.read_genesis().signer is None:
        raise InvalidConfig(f"{home.genesis_file} names validators: they sign, each with the key of its CometBFT")
    lock = DirectoryLock.acquire(home.data_dir) if is_directory(home.data_dir) else None
    try:
        if is_there(files.successor):
            raise InvalidConfig(f"{files.successor} exists already: start the node, and the next block hands over")
        old, new = SigningKey.load(files.current), SigningKey.new()
        new.save(files.successor)
    finally:
        if lock is not None:
            lock.release()
    return old, new
