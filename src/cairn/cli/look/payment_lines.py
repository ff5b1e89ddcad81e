"""`cairn watch --account`: the payments of some accounts, until Ctrl-C."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

from cairn.cli.amounts import format_amount
from cairn.cli.look.display import Names
from cairn.cli.look.live_view import Lines, poll, run_until, stop_at_broken_pipe, stop_signals
from cairn.cli.remote import connect, explained_errors
from cairn.cli.screen import data_text, print_json, print_line
from cairn.cli.wallet.key_files import Keystore
from cairn.cli.wallet.parties import find_party
from cairn.client import AsyncClient
from cairn.client.errors import ChainChanged, ChainReverted
from cairn.client.models import Payment


def watch_payments(
    url: str, accounts: Sequence[str], from_height: int | None, keystore: Keystore, as_json: bool
) -> None:
    """Run until Ctrl-C. Raises `CommandFailed` if there is no node at the start."""
    addresses = [find_party(account, keystore, "--account").spelled for account in accounts]
    asyncio.run(_watch(url, addresses, from_height, PaymentLines(Names(keystore), as_json)))


async def _watch(url: str, addresses: Sequence[str], from_height: int | None, view: "PaymentLines") -> None:
    with explained_errors(url):
        async with connect(url) as node, stop_signals() as stopping:
            await node.health()
            stop_at_broken_pipe(stopping)
            await run_until(stopping, [follow_payments(node, addresses, from_height, view), poll(url, view)])


async def follow_payments(
    node: AsyncClient, addresses: Sequence[str], from_height: int | None, view: "PaymentLines"
) -> None:
    start = from_height
    while True:
        try:
            async with aclosing(node.payments(addresses, start, direction="both")) as payments:
                async for payment in payments:
                    view.saw_payment(payment)
        except ChainReverted as reverted:
            view.reverted_chain(reverted.height)
            start = reverted.height + 1
        except ChainChanged as changed:
            start = view.changed_chain(str(changed), 0)


class PaymentLines(Lines):
    """A line for each payment; JSON for programs."""

    def __init__(self, names: Names, as_json: bool) -> None:
        super().__init__(as_json)
        self._names = names

    def saw_payment(self, payment: Payment) -> None:
        if self._as_json:
            print_json(payment)
            return
        parties = f"{self._names.short(payment.sender)} → {self._names.short(payment.to)}"
        said = "" if payment.data is None else f"  {data_text(payment.reference, payment.data)}"
        told = f"block {payment.block_height}  {parties}  {format_amount(payment.value)}  {payment.tx_hash}{said}"
        print_line(told)
