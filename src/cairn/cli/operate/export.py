"""`cairn export`: writes a chain as lines of JSON, for whatever reads or imports it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from cairn.build import described
from cairn.cli.operate.backup import NICENESS
from cairn.cli.operate.chain_directory import ChainHome, GenesisFile, find_chain_directory
from cairn.cli.operate.progress_bar import progress_bar
from cairn.cli.options import AsJson
from cairn.cli.report import DataUnusable, WrongUsage, reported_errors
from cairn.cli.screen import counted, print_json, print_line
from cairn.domain.errors import Fatal, InvalidConfig
from cairn.log import configure_logging
from cairn.store.chain_export import Exported, export_chain

STANDARD_OUTPUT = "-"


def export(
    file: Annotated[
        str, typer.Argument(help="The file to write; - is standard output.", metavar="FILE", show_default=False)
    ],
    home: ChainHome,
    genesis: GenesisFile = None,
    as_json: AsJson = False,
) -> None:
    """Write a chain to a file of JSON lines: genesis, every block with its signed transactions, and what is pending.

    The node may keep running. `cairn import`, in any later version, rebuilds the chain from it with the same hashes.
    """
    configure_logging("warning", "text")
    with reported_errors(as_json):
        if as_json and file == STANDARD_OUTPUT:
            raise InvalidConfig("--json and - both mean standard output: give a file, or leave --json out")
        data, chain_genesis = find_chain_directory(home, genesis)
        os.nice(NICENESS)
        try:
            with _opened(file) as output, progress_bar("Exporting") as report:
                done = export_chain(data, chain_genesis, output.write, f"cairn {described()}", report)
        except Fatal as failure:
            raise DataUnusable(failure.detail) from None
        _tell(done, file, as_json)


@contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    """Where to write: the file appears when all of it is on disk."""
    if file == STANDARD_OUTPUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path, draft = Path(file), Path(f"{file}.part")
    if path.exists():
        raise InvalidConfig(f"{path} exists already; nothing was written")
    try:
        opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise InvalidConfig(
            f"{draft} exists: another export writes it, or a killed one has left it; remove it if none runs"
        ) from None
    except OSError as failure:
        raise WrongUsage(f"cannot write {draft}: {failure.strerror}") from None
    try:
        with open(opened, "wb") as output:
            yield output
            output.flush()
            os.fsync(output.fileno())
        # Not `rename`, which would replace a file that has been made meanwhile.
        path.hardlink_to(draft)
    except OSError as failure:
        raise WrongUsage(f"cannot write {failure.filename or path}: {failure.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)


def _tell(done: Exported, file: str, as_json: bool) -> None:
    if as_json:
        fields = {"oldest": done.oldest, "head": {"blockHeight": done.head, "hash": done.head_hash}}
        print_json({"file": file} | fields | {"transactions": done.transactions, "pending": done.pending})
        return
    # With - the lines of the chain are on standard output.
    stream = sys.stderr if file == STANDARD_OUTPUT else sys.stdout
    print_line(
        f"Exported the blocks {done.oldest} to {done.head}, {counted(done.transactions, 'transaction')} and "
        f"{counted(done.pending, 'pending one')}. Head: {done.head_hash}",
        stream,
    )
