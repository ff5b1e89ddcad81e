"""`cairn import`: makes a home from an export, and executes every block of it again."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from cairn.cli.node.home import Home
from cairn.cli.operate.progress_bar import progress_bar
from cairn.cli.operate.second_history import warn_of_second_history
from cairn.cli.options import AsJson
from cairn.cli.report import CommandFailed, DataUnusable, NewerVersionNeeded, reported_errors
from cairn.cli.screen import counted, print_json, print_line
from cairn.domain.errors import AnotherVersionNeeded, DirectoryInUse, Fatal, InvalidConfig
from cairn.domain.genesis import Genesis, encode_genesis, genesis_digest
from cairn.log import configure_logging
from cairn.store.chain_import import ExportReader, Imported, import_chain, lines_of
from cairn.store.directory import has_files, is_there, make_directory, sync_directory, write_file

STANDARD_INPUT = "-"


def import_(
    file: Annotated[
        str,
        typer.Argument(
            help="The file that `cairn export` wrote; - is standard input.", metavar="FILE", show_default=False
        ),
    ],
    directory: Annotated[
        Path,
        typer.Argument(help="The home to create, or one without a data/ directory.", metavar="DIR", show_default=False),
    ],
    as_json: AsJson = False,
) -> None:
    """Rebuild a node's data from an export: execute every block again, and refuse any whose hash differs.

    Nothing is overwritten. The data is in data.importing until the import is complete. If interrupted, run it again.
    """
    configure_logging("warning", "text")
    home, draft = Home(directory), directory / "data.importing"
    with reported_errors(as_json):
        if has_files(home.data_dir):
            raise InvalidConfig(f"{home.data_dir} exists already; nothing was written")
        with _opened(file) as lines:
            reader = _read_first(lines)
            _check_genesis(home, reader.genesis)
            try:
                make_directory(draft)
                with progress_bar("Importing") as report:
                    done = import_chain(reader, draft, report)
                _put_in_place(home, draft, reader.genesis)
            except DirectoryInUse as failure:
                raise CommandFailed(failure.detail) from None
            except Fatal as failure:
                raise DataUnusable(f"{failure.detail}; remove {draft} to start over") from None
            except OSError as failure:
                raise InvalidConfig(f"cannot write {failure.filename or directory}: {failure.strerror}") from None
        _tell(done, home, reader.genesis, as_json)


@contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    if file == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    try:
        with Path(file).open("rb") as lines:
            yield lines
    except (FileNotFoundError, IsADirectoryError, PermissionError) as failure:
        if failure.filename != file:
            raise
        raise InvalidConfig(f"cannot read {file}: {failure.strerror}") from None


def _read_first(lines: BinaryIO) -> ExportReader:
    try:
        return ExportReader(lines_of(lines))
    except AnotherVersionNeeded as failure:
        raise NewerVersionNeeded(f"{failure.detail}; nothing was written") from None


def _check_genesis(home: Home, genesis: Genesis) -> None:
    if is_there(home.genesis_file) and genesis_digest(home.read_genesis()) != genesis_digest(genesis):
        raise InvalidConfig(f"{home.genesis_file} is of another chain than the export; nothing was written")


def _put_in_place(home: Home, draft: Path, genesis: Genesis) -> None:
    # On disk before the chain: one whose genesis is lost can never be opened again.
    if not is_there(home.genesis_file):
        write_file(home.genesis_file, encode_genesis(genesis))
    if is_there(home.data_dir):
        # An empty directory; one that has become something else meanwhile is left alone.
        home.data_dir.rmdir()
    draft.rename(home.data_dir)
    sync_directory(home.directory)


def _tell(done: Imported, home: Home, genesis: Genesis, as_json: bool) -> None:
    if genesis.signer is not None:
        warn_of_second_history(done.head)
    if as_json:
        fields = {"oldest": done.oldest, "head": {"blockHeight": done.head, "hash": f"0x{done.head_hash.hex()}"}}
        print_json(
            {"home": str(home.directory)} | fields | {"transactions": done.transactions, "pending": done.pending}
        )
        return
    print_line(
        f"Imported the blocks {done.oldest} to {done.head}, {counted(done.transactions, 'transaction')} and "
        f"{counted(done.pending, 'pending one')}. Head: 0x{done.head_hash.hex()}"
    )
    if genesis.signer is not None and not is_there(home.key_files.current):
        print_line(f"Put the node's signing key to {home.key_files.current} before you start it: an export has no keys")
    if not is_there(home.config_file):
        print_line(f"It runs with default settings: an export has none, and there is no {home.config_file}")
