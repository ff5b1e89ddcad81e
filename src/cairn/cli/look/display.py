"""What `cairn tx`, `block`, `account`, `mempool` and `chain` show: tables for people, the API's JSON for scripts."""

import re
from collections.abc import AsyncGenerator, Sequence
from typing import TypeVar

from cairn.cli.amounts import format_amount
from cairn.cli.remote import ask_node, describe_not_held, describe_pending, wait_confirmed
from cairn.cli.screen import (
    Line,
    ago,
    cut,
    data_text,
    print_json,
    print_line,
    print_pairs,
    print_table,
    shortened,
    when,
)
from cairn.cli.wallet.key_files import Keystore
from cairn.cli.wallet.parties import find_party
from cairn.client import AsyncClient
from cairn.client.async_reads import Direction
from cairn.client.models import (
    Block,
    ConfirmedTransaction,
    MempoolItem,
    PendingTransaction,
    Transaction,
    Transfer,
)
from cairn.domain.crypto import checksum_address, parse_address
from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import DEV_KEYS
from cairn.domain.types import TRANSFER_GAS

T = TypeVar("T")

REFERENCE_WIDTH = 40
"""Of a table's column; a transaction alone is shown with all of it."""

_is_hash = re.compile(r"0x[0-9a-fA-F]{64}").fullmatch
_is_height = re.compile(r"[0-9]{1,20}").fullmatch


class Names:
    """The names of addresses: those of stored keys and of dev accounts."""

    def __init__(self, keystore: Keystore) -> None:
        self._names = {key.address: key.name for key in keystore.load_all()}
        # A dev account is the same for everybody, whatever somebody calls its key.
        self._names |= {address: f"dev{index}" for index, (address, _) in enumerate(DEV_KEYS)}

    def full(self, spelled: str) -> str:
        address = parse_address(spelled, "address")
        name = self._names.get(address)
        return f"{checksum_address(address)} ({name})" if name else checksum_address(address)

    def short(self, spelled: str) -> str:
        """The name, or both ends of the address."""
        address = parse_address(spelled, "address")
        return self._names.get(address) or shortened(checksum_address(address))


class Display:
    def __init__(self, url: str, keystore: Keystore, as_json: bool) -> None:
        self._url = url
        self._keystore = keystore
        self._as_json = as_json

    def show_tx(self, tx_hash: str, wait_s: float | None) -> None:
        check_hash(tx_hash, "HASH")

        async def fetch(node: AsyncClient) -> Transaction:
            return await (node.transaction(tx_hash) if wait_s is None else wait_confirmed(node, tx_hash, wait_s))

        tx = ask_node(self._url, fetch)
        if self._as_json:
            print_json(tx)
        else:
            print_pairs(tx_pairs(tx, Names(self._keystore)))

    def show_block(self, name: str, limit: int) -> None:
        if name != "latest" and not _is_height(name):
            check_hash(name, "BLOCK", "a height, latest, or ")
        block = ask_node(self._url, lambda node: node.block(name))
        if self._as_json:
            print_json(block)
        else:
            print_pairs(block_pairs(block, limit, Names(self._keystore)))

    def show_account(self, who: str, height: int | None) -> None:
        address = self._address_of(who)
        state = ask_node(self._url, lambda node: node.account(address, height=height))
        if self._as_json:
            print_json(state)
            return
        waiting = state.pending_nonce - state.nonce
        print_pairs(
            [
                ("account", Names(self._keystore).full(state.address)),
                ("balance", format_amount(state.balance)),
                ("nonce", f"{state.nonce}, and {waiting} pending" if waiting else str(state.nonce)),
                *([] if height is None else [("as of", f"block {height}")]),
            ]
        )

    def show_history(
        self,
        who: str,
        limit: int,
        direction: Direction | None,
        counterparty: str | None,
        reference: str | None,
    ) -> None:
        address = self._address_of(who)
        other = None if counterparty is None else find_party(counterparty, self._keystore, "--counterparty").spelled
        history = ask_node(
            self._url,
            lambda node: collected(
                node.history(
                    address,
                    limit,
                    direction=direction,
                    counterparty=other,
                    reference=reference,
                )
            ),
        )
        is_filtered = any(given is not None for given in (other, reference)) or direction in ("in", "out")
        if self._as_json:
            print_json(history)
        elif history:
            print_history(history, address, Names(self._keystore))
        else:
            what = "no such transaction" if is_filtered else "sent and received nothing"
            print_line(f"{Names(self._keystore).full(address)} has {what}.")

    def show_mempool(self, sender: str | None, limit: int) -> None:
        address = None if sender is None else self._address_of(sender)

        async def fetch(node: AsyncClient) -> tuple[list[MempoolItem], int]:
            size = (await node.chain()).mempool
            return await collected(node.pending(address, limit)), size.pending + size.queued

        items, total = ask_node(self._url, fetch)
        if self._as_json:
            print_json(items)
            return
        if items:
            print_pending(items, Names(self._keystore))
        else:
            print_line("No transaction is pending.")
        if address is None and total > len(items):
            print_line(f"and {total - len(items):,} more; --limit shows them")

    def show_chain(self) -> None:
        chain = ask_node(self._url, lambda node: node.chain())
        if self._as_json:
            print_json(chain)
            return
        pool, head = chain.mempool, chain.head
        print_pairs(
            [
                ("node", f"{self._url}, Cairn {chain.version}, {chain.engine}"),
                ("chain id", str(chain.chain_id)),
                ("gas price", format_amount(chain.gas_price)),
                ("a transfer", f"costs {format_amount(TRANSFER_GAS * chain.gas_price)}"),
                ("a block", f"holds {chain.block_gas_limit // TRANSFER_GAS:,} transfers at most"),
                *([] if chain.supply is None else [("supply", format_amount(chain.supply))]),
                ("reference", f"{chain.max_data_bytes} bytes at most" if chain.max_data_bytes else "not allowed"),
                ("head", f"block {head.block_height} {head.hash}"),
                ("", when(head.timestamp)),
                ("mempool", f"{pool.pending:,} pending, {pool.queued:,} queued, room for {pool.limit:,}"),
            ]
        )

    def _address_of(self, who: str) -> str:
        return find_party(who, self._keystore, "ACCOUNT").spelled


def check_hash(text: str, label: str, otherwise: str = "") -> None:
    if not _is_hash(text):
        raise InvalidConfig(f"{label}: {text!r} is not {otherwise}0x and 64 hexadecimal digits")


async def collected(items: AsyncGenerator[T, None]) -> list[T]:
    return [item async for item in items]


def tx_pairs(tx: Transaction, names: Names) -> list[tuple[str, Line]]:
    pairs: list[tuple[str, Line]] = [
        ("transaction", tx.tx_hash),
        ("status", _status(tx)),
        ("from", names.full(tx.sender)),
        ("to", names.full(tx.to)),
        ("amount", format_amount(tx.value)),
        *data_pairs(tx),
        ("nonce", str(tx.nonce)),
        ("gas price", format_amount(tx.gas_price)),
    ]
    if tx.max_fee_per_gas is not None and tx.max_priority_fee_per_gas is not None:
        tip = format_amount(tx.max_priority_fee_per_gas)
        pairs.append(("at most", f"{format_amount(tx.max_fee_per_gas)}, with a tip of {tip} at most"))
    if isinstance(tx, ConfirmedTransaction):
        place = f"{tx.block_height} {tx.block_hash}, transaction {tx.transaction_index + 1}"
        pairs += [("fee", format_amount(tx.fee)), ("block", place)]
    return pairs


def data_pairs(tx: Transfer) -> list[tuple[str, Line]]:
    """What it is for, if its sender says so: on a line of its own, where text from right to left moves nothing else."""
    if tx.reference is not None:
        return [("reference", data_text(tx.reference, tx.data))]
    return [] if tx.data is None else [("data", tx.data)]


def _status(tx: Transaction) -> str:
    if not isinstance(tx, PendingTransaction):
        return tx.status
    return describe_pending(tx.queued_reason) if tx.not_held is None else f"pending, {describe_not_held(tx)}"


def block_pairs(block: Block, limit: int, names: Names) -> list[tuple[str, Line]]:
    count = len(block.transactions)
    more = [] if count <= limit else [("", f"and {count - limit:,} more; --limit shows them")]
    return [
        ("block", str(block.block_height)),
        ("hash", block.hash),
        ("previous", block.previous_hash),
        ("time", when(block.timestamp)),
        ("proposer", names.full(block.proposer)),
        ("gas used", f"{block.gas_used:,}"),
        ("changes root", block.receipts_root),
        ("state root", block.state_root),
        ("history root", block.mix_hash),
        ("transactions", f"{count:,}" if count else "none"),
        *(("", tx_hash) for tx_hash in block.transactions[:limit]),
        *more,
    ]


def print_history(history: Sequence[ConfirmedTransaction], address: str, names: Names) -> None:
    rows = []
    for tx in history:
        is_sent = tx.sender == address.lower()
        other = names.short(tx.to if is_sent else tx.sender)
        # Who receives pays none.
        fee = format_amount(tx.fee) if is_sent else ""
        way, amount = "to" if is_sent else "from", format_amount(tx.value)
        rows.append((str(tx.block_height), way, other, amount, fee, tx.tx_hash))
    print_transfers(("block", "", "account", "amount", "fee", "transaction"), rows, history)


def print_pending(items: Sequence[MempoolItem], names: Names) -> None:
    rows = [
        (
            names.short(item.sender),
            names.short(item.to),
            format_amount(item.value),
            str(item.nonce),
            describe_pending(item.queued_reason),
            format_amount(item.gas_price),
            ago(item.received_at),
            item.tx_hash,
        )
        for item in items
    ]
    headings = ("from", "to", "amount", "nonce", "status", "gas price", "received", "transaction")
    print_transfers(headings, rows, items)


def print_transfers(headings: Sequence[str], rows: Sequence[Sequence[str]], transfers: Sequence[Transfer]) -> None:
    """A table; if there are references, they are its last column, where text from right to left moves nothing else."""
    if any(tx.data is not None for tx in transfers):
        headings = (*headings, "reference")
        rows = [
            (*row, cut(data_text(tx.reference, tx.data), REFERENCE_WIDTH))
            for row, tx in zip(rows, transfers, strict=True)
        ]
    print_table(headings, rows)
