"""How a report is shown: one screen that needs no other, and JSON for scripts."""

from typing import Any

from cairn.cli.proofs.report import (
    CheckedFile,
    Report,
    block_pairs,
    finality_pairs,
    fork_headline,
    fork_limits,
    limits,
)
from cairn.cli.proofs.statement_lines import HEADINGS
from cairn.cli.screen import print_lines, print_pairs, print_table
from cairn.domain.evidence import ProvenFork
from cairn.domain.genesis import Genesis, genesis_digest
from cairn.domain.proof_checks import (
    FinalBlock,
    Finality,
    ProvenAccount,
    ProvenBlock,
    ProvenHistory,
    ProvenPayment,
)
from cairn.domain.references import reference_of
from cairn.domain.statement_checks import Proven, ProvenStatement, StatementEntry
from cairn.domain.types import Tx

SHOWN_ROWS = 40
"""Of a statement on the screen; the table and the page have all of them."""


def print_report(report: Report) -> None:
    print_lines([report.headline, ""])
    print_pairs([*report.subject, *report.finality, *report.file])
    if report.lines:
        print_lines([""])
        print_table(HEADINGS, [line.cells() for line in report.lines[:SHOWN_ROWS]])
        if len(report.lines) > SHOWN_ROWS:
            print_lines([f"and {len(report.lines) - SHOWN_ROWS:,} more; --csv and --html have all of them"])
    _print_limits(report.limits)


def print_fork(fork: ProvenFork, genesis: Genesis, file: CheckedFile) -> None:
    """Show two signed blocks of one height, and who signed each of them."""
    print_lines([fork_headline(fork)])
    for name, half in (("one", fork.first), ("other", fork.second)):
        print_lines([""])
        print_pairs([*block_pairs(name, half.block), *finality_pairs(half.finality, genesis)])
    print_lines([""])
    print_pairs(file.pairs())
    _print_limits(fork_limits(fork, genesis))


def _print_limits(texts: list[str]) -> None:
    print_lines(["", "NOT PROVEN:", *(f"- {text}" for text in texts)])


# For scripts.


def fork_json(fork: ProvenFork, genesis: Genesis, file: CheckedFile) -> dict[str, Any]:
    halves = [
        {"block": block_json(half.block), "finality": finality_json(half.finality, genesis)}
        for half in (fork.first, fork.second)
    ]
    return {"proven": "fork", "blocks": halves, **file_json(file), "notProven": fork_limits(fork, genesis)}


def verdict_json(proven: Proven, genesis: Genesis, file: CheckedFile) -> dict[str, Any]:
    subject: dict[str, Any]
    match proven:
        case ProvenPayment():
            subject = {"proven": "payment", "block": block_json(proven.block)} | payment_json(proven.tx, proven.index)
        case ProvenAccount():
            subject = {
                "proven": "account",
                "address": "0x" + proven.address.hex(),
                "height": proven.height,
                "balance": proven.account.balance,
                "nonce": proven.account.nonce,
            } | ({} if proven.last_touch is None else {"lastTouch": proven.last_touch})
        case ProvenStatement():
            subject = {
                "proven": "statement",
                "address": "0x" + proven.address.hex(),
                "from": proven.first,
                "to": proven.last,
                "opening": {"balance": proven.opening.balance, "nonce": proven.opening.nonce},
                "closing": {"balance": proven.closing.balance, "nonce": proven.closing.nonce},
                "ends": [block_json(block) for block in proven.ends],
                "changes": [entry_json(entry) for entry in proven.entries],
            }
        case FinalBlock():
            subject = {"proven": "block", "block": block_json(proven.block)}
        case ProvenHistory():
            subject = {"proven": "history", "first": block_json(proven.first), "second": block_json(proven.second)}
    reasons = {"finality": finality_json(proven.finality, genesis), **file_json(file)}
    return subject | reasons | {"notProven": list(limits(proven, genesis))}


def file_json(file: CheckedFile) -> dict[str, Any]:
    return {"sha256": file.sha256, "checkedAt": file.at}


def payment_json(tx: Tx, index: int) -> dict[str, Any]:
    reference = reference_of(tx.data)
    return {
        "txHash": "0x" + tx.hash.hex(),
        "from": "0x" + tx.sender.hex(),
        "to": "0x" + tx.to.hex(),
        "value": tx.value,
        "fee": tx.fee,
        "nonce": tx.nonce,
        "transactionIndex": index,
        **({"data": "0x" + tx.data.hex()} if tx.data else {}),
        **({} if reference is None else {"reference": reference}),
    }


def entry_json(entry: StatementEntry) -> dict[str, Any]:
    return {
        "block": block_json(entry.block),
        "before": {"balance": entry.before.balance, "nonce": entry.before.nonce},
        "after": {"balance": entry.after.balance, "nonce": entry.after.nonce},
        "payments": [payment_json(payment.tx, payment.index) for payment in entry.payments],
        "feesEarned": entry.fees_earned,
        "setByHand": entry.set_by_hand,
    }


def block_json(block: ProvenBlock) -> dict[str, Any]:
    return {
        "blockHeight": block.header.height,
        "hash": "0x" + block.hash.hex(),
        "timestamp": block.header.timestamp,
    }


def finality_json(finality: Finality, genesis: Genesis) -> dict[str, Any]:
    signed = finality.signed
    facts: dict[str, Any] = {
        "chainId": genesis.chain_id,
        "genesis": "0x" + genesis_digest(genesis).hex(),
        "block": block_json(finality.block),
    }
    if finality.trusted is not None:
        facts["trusted"] = block_json(finality.trusted)
    if signed is not None:
        facts |= {
            "signers": ["0x" + key.hex() for key in signed.signed.signers],
            "power": signed.signed.power,
            "totalPower": signed.signed.total,
            "changesOfValidators": signed.changes,
            "everybodyHasTheKey": signed.is_public_key,
        }
    facts["witnesses"] = [
        {"publicKey": "0x" + each.public_key.hex(), "named": each.is_named, "block": block_json(each.block)}
        for each in finality.witnesses
    ]
    return facts
