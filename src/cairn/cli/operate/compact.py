"""`cairn compact`: gives the disk space back that a stopped node's store no longer needs."""

import time

from cairn.cli.operate.chain_directory import ChainHome, GenesisFile, find_chain_directory
from cairn.cli.operate.progress_bar import progress_bar
from cairn.cli.options import AsJson
from cairn.cli.report import CommandFailed, DataUnusable, reported_errors
from cairn.cli.screen import print_json, print_line, print_pairs
from cairn.domain.errors import DirectoryInUse, Fatal
from cairn.log import configure_logging
from cairn.store.compacting import compact_directory


def compact(home: ChainHome, genesis: GenesisFile = None, as_json: AsJson = False) -> None:
    """Rewrite a stopped node's tables without the entries that were removed. Shows the size before and after."""
    configure_logging("warning", "text")
    begun_at = time.monotonic()
    with reported_errors(as_json):
        data, chain_genesis = find_chain_directory(home, genesis)
        try:
            with progress_bar("Compacting") as report:
                done = compact_directory(data, chain_genesis, report)
        except DirectoryInUse as failure:
            raise CommandFailed(
                f"{failure.detail}: stop it first. A node that runs and prunes gives space back by itself"
            ) from None
        except Fatal as failure:
            raise DataUnusable(f"nothing was changed: {failure.detail}") from None
    seconds = round(time.monotonic() - begun_at, 3)
    if as_json:
        print_json({"beforeBytes": done.before_bytes, "afterBytes": done.after_bytes, "seconds": seconds})
        return
    print_pairs(
        [
            ("Data", str(data)),
            ("Before", f"{done.before_bytes:,} bytes"),
            ("After", f"{done.after_bytes:,} bytes, in {seconds:.1f} s"),
        ]
    )
    if done.after_bytes >= done.before_bytes:
        print_line("There was nothing to give back. A small store may become a little larger.")
