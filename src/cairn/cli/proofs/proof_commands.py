"""The commands about proofs: their options only, so that --help needs no HTTP client."""

from pathlib import Path
from typing import Annotated

import typer

from cairn.cli.options import DEFAULT_NODE, AsJson, KeysDirectory, NodeUrl, keystore_in, party_argument
from cairn.cli.report import reported_errors

WAIT_S = 60.0
"""How long a node may take to get a block signed."""

TrustedGenesis = Annotated[
    Path | None,
    typer.Option(
        "--genesis",
        help="genesis.json to check the proof with before it is saved. Without it, the node's own is used.",
        metavar="FILE",
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]
Wait = Annotated[
    float, typer.Option(help="Wait for signatures for at most this many seconds.", metavar="SECONDS", min=0)
]
WitnessUrls = Annotated[
    list[str] | None,
    typer.Option(
        "--witness",
        help="URL of a witness whose signature is added. May be repeated.",
        metavar="URL",
        show_default=False,
    ),
]
OutputFile = Annotated[
    Path | None, typer.Option("--output", "-o", help="Save the proof here.", metavar="FILE", show_default=False)
]


def receipt(
    tx_hash: Annotated[str, typer.Argument(help="The transaction's hash.", metavar="HASH", show_default=False)],
    output: OutputFile = None,
    genesis: TrustedGenesis = None,
    witness: WitnessUrls = None,
    wait: Wait = WAIT_S,
    force: Force = False,
    node: NodeUrl = DEFAULT_NODE,
    as_json: AsJson = False,
) -> None:
    """Prove that a payment is final. Anyone can check the file offline, with only genesis.json.

    The proof is checked here before it is saved.
    """
    from cairn.cli.proofs.saving import ProofSource

    with reported_errors(as_json):
        ProofSource(node, genesis, witness or [], wait, as_json).save_receipt(tx_hash, output, force)


def statement(
    who: Annotated[str, party_argument("ACCOUNT", "An address, the name of a key, or dev0 to dev9.")],
    first: Annotated[
        str, typer.Option("--from", help="First block, or first day in UTC, such as 2026-01-31.", metavar="WHEN")
    ] = "0",
    last: Annotated[
        str, typer.Option("--to", help="Last block, last day in UTC, or latest.", metavar="WHEN")
    ] = "latest",
    output: OutputFile = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", help="Write a table for spreadsheets here.", metavar="FILE")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page to print here.", metavar="FILE")] = None,
    genesis: TrustedGenesis = None,
    witness: WitnessUrls = None,
    wait: Wait = WAIT_S,
    force: Force = False,
    keys: KeysDirectory = None,
    node: NodeUrl = DEFAULT_NODE,
    as_json: AsJson = False,
) -> None:
    """Prove everything that happened to an account: every change with its payments, opening and closing balance.

    The proof is checked before anything is written. The table and the page are made from what it proves.
    """
    from cairn.cli.proofs.files import StatementOutputs
    from cairn.cli.proofs.saving import ProofSource

    with reported_errors(as_json):
        source = ProofSource(node, genesis, witness or [], wait, as_json)
        source.save_statement(who, keystore_in(keys), (first, last), StatementOutputs(output, csv, html), force)


def check(
    file: Annotated[Path, typer.Argument(help="The proof.", metavar="FILE", show_default=False)],
    genesis: Annotated[
        Path, typer.Option("--genesis", help="genesis.json of the chain.", metavar="FILE", show_default=False)
    ],
    at: Annotated[
        str | None,
        typer.Option(
            help="A block that you already trust. The proof must lead to it; then no signature is needed.",
            metavar="HEIGHT:HASH",
            show_default=False,
        ),
    ] = None,
    witness: Annotated[
        list[str] | None,
        typer.Option(
            help="Public key of a witness that must have signed, in hex or base64. May be repeated.",
            metavar="KEY",
            show_default=False,
        ),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", help="For a statement: write a table for spreadsheets here.", metavar="FILE")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="For a statement: write a page to print here.", metavar="FILE")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Check a proof offline: what it proves, by whose signatures, and what it does not prove. Needs no node."""
    from cairn.cli.proofs.checking import check_proof
    from cairn.cli.proofs.files import StatementOutputs

    with reported_errors(as_json):
        check_proof(file, genesis, at, witness or [], StatementOutputs(None, csv, html), force, as_json)
