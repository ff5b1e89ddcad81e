"""The commands that show a node's chain: their options only, so that --help needs no HTTP client."""

from typing import Annotated, Literal

import typer

from cairn.cli.options import DEFAULT_NODE, AsJson, KeysDirectory, NodeUrl, complete_party, keystore_in, party_argument
from cairn.cli.proofs.proof_commands import WAIT_S, Force, OutputFile, TrustedGenesis, Wait, WitnessUrls
from cairn.cli.report import reported_errors
from cairn.domain.errors import InvalidConfig

Limit = Annotated[int, typer.Option(help="Maximum number of items to show.", metavar="N", min=1)]


def tx(
    tx_hash: Annotated[str, typer.Argument(help="The transaction's hash.", metavar="HASH", show_default=False)],
    wait: Annotated[
        float | None,
        typer.Option(help="Wait until it is confirmed, for at most this many seconds.", metavar="SECONDS", min=0),
    ] = None,
    keys: KeysDirectory = None,
    node: NodeUrl = DEFAULT_NODE,
    as_json: AsJson = False,
) -> None:
    """Show a transaction: what it pays, to whom, and whether it is confirmed."""
    from cairn.cli.look.display import Display

    with reported_errors(as_json):
        Display(node, keystore_in(keys), as_json).show_tx(tx_hash, wait)


def block(
    name: Annotated[str, typer.Argument(help="A hash, a height, or latest.", metavar="[BLOCK]")] = "latest",
    limit: Limit = 20,
    keys: KeysDirectory = None,
    node: NodeUrl = DEFAULT_NODE,
    as_json: AsJson = False,
) -> None:
    """Show a block and its transactions; by default, the latest block."""
    from cairn.cli.look.display import Display

    with reported_errors(as_json):
        Display(node, keystore_in(keys), as_json).show_block(name, limit)


def account(
    who: Annotated[str, party_argument("ACCOUNT", "An address, the name of a key, or dev0 to dev9.")],
    history: Annotated[bool, typer.Option("--history", help="Show its transactions, newest first.")] = False,
    direction: Annotated[
        Literal["in", "out", "both"] | None,
        typer.Option(
            help=r"In the history, show only what it received (in) or sent (out). \[default: both]", metavar="WHICH"
        ),
    ] = None,
    counterparty: Annotated[
        str | None,
        typer.Option(
            help="In the history, show only what it exchanged with this account.",
            metavar="ACCOUNT",
            autocompletion=complete_party,
        ),
    ] = None,
    reference: Annotated[
        str | None, typer.Option(help="In the history, show only what has this reference.", metavar="TEXT")
    ] = None,
    height: Annotated[
        int | None, typer.Option(help="Show its balance and nonce as of the end of this block.", metavar="N", min=0)
    ] = None,
    proof: Annotated[bool, typer.Option("--proof", help="Prove the balance. --output saves the proof.")] = False,
    output: OutputFile = None,
    genesis: TrustedGenesis = None,
    witness: WitnessUrls = None,
    wait: Wait = WAIT_S,
    force: Force = False,
    limit: Limit = 20,
    keys: KeysDirectory = None,
    node: NodeUrl = DEFAULT_NODE,
    as_json: AsJson = False,
) -> None:
    """Show an account's balance and nonce, or its history."""
    from cairn.cli.look.display import Display
    from cairn.cli.proofs.saving import ProofSource

    with reported_errors(as_json):
        display = Display(node, keystore_in(keys), as_json)
        is_history = history or direction or counterparty is not None or reference is not None
        if height is not None and is_history:
            raise InvalidConfig("--height: is for the balance, not for the history")
        if proof:
            if is_history:
                raise InvalidConfig("--proof: is for the balance; cairn statement proves a history")
            source = ProofSource(node, genesis, witness or [], wait, as_json)
            source.save_account(who, keystore_in(keys), height, output, force)
        elif output is not None or genesis is not None or witness:
            raise InvalidConfig("--output, --genesis and --witness are for --proof")
        elif is_history:
            display.show_history(who, limit, direction, counterparty, reference)
        else:
            display.show_account(who, height)


def mempool(
    sender: Annotated[
        str | None,
        typer.Option(
            "--from", help="Only transactions from this account.", metavar="ACCOUNT", autocompletion=complete_party
        ),
    ] = None,
    limit: Limit = 20,
    keys: KeysDirectory = None,
    node: NodeUrl = DEFAULT_NODE,
    as_json: AsJson = False,
) -> None:
    """List pending transactions in mining order, then the queued ones, which wait for a missing nonce."""
    from cairn.cli.look.display import Display

    with reported_errors(as_json):
        Display(node, keystore_in(keys), as_json).show_mempool(sender, limit)


def chain(node: NodeUrl = DEFAULT_NODE, as_json: AsJson = False) -> None:
    """Show the chain: its rules, its latest block, and how full the mempool is."""
    from cairn.cli.look.display import Display

    with reported_errors(as_json):
        Display(node, keystore_in(None), as_json).show_chain()


def watch(
    from_height: Annotated[
        int | None, typer.Option(help="Start with this block instead of the latest.", metavar="N", min=0)
    ] = None,
    account: Annotated[
        list[str] | None,
        typer.Option(
            help="Show the payments of this account instead. May be repeated.",
            metavar="ACCOUNT",
            autocompletion=complete_party,
        ),
    ] = None,
    keys: KeysDirectory = None,
    node: NodeUrl = DEFAULT_NODE,
    as_json: AsJson = False,
) -> None:
    """Show blocks and the mempool live, until Ctrl-C. Waits if the node is down, and skips no block.

    At a terminal, this is a live view. In a pipe, it prints a line for each block; with --json, each block as GET
    /block returns it. With --account, it prints a line for each payment from or to one of the accounts; with --json,
    the event of /events.
    """
    from cairn.cli.look.live_view import watch_node
    from cairn.cli.look.payment_lines import watch_payments

    with reported_errors(as_json):
        if account:
            watch_payments(node, account, from_height, keystore_in(keys), as_json)
        else:
            watch_node(node, from_height, keystore_in(keys), as_json)
