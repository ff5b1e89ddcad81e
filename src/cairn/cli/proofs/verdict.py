"""What a proof proves, for people: one screen that needs no other. And for scripts, as JSON."""

import base64
import time
from collections.abc import Iterator
from typing import Any

from cairn.cli.amounts import format_amount
from cairn.cli.screen import Line, data_text, print_lines, print_pairs, print_table
from cairn.domain.certificates import SignedBlock
from cairn.domain.crypto import checksum_address
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
from cairn.domain.types import LATEST_TIME, Address, Tx

Pairs = list[tuple[str, Line]]
Row = tuple[str, str, str, str, str, str, str]

SHOWN_SIGNERS = 10
SHOWN_ROWS = 40
"""Of a statement on the screen; the table and the page have all of them."""


def print_verdict(proven: Proven, genesis: Genesis) -> None:
    print_lines([f"{standing_of(proven)}: {claim(proven)}", ""])
    print_pairs([*subject_pairs(proven), *finality_pairs(proven.finality, genesis)])
    if isinstance(proven, ProvenStatement) and proven.entries:
        rows = statement_rows(proven)
        print_lines([""])
        print_table(("block", "time", "", "amount", "balance", "account", "for"), rows[:SHOWN_ROWS])
        if len(rows) > SHOWN_ROWS:
            print_lines([f"and {len(rows) - SHOWN_ROWS:,} more; --csv and --html have all of them"])
    print_lines(["", "NOT PROVEN:", *(f"- {text}" for text in limits(proven, genesis))])


def print_fork(fork: ProvenFork, genesis: Genesis) -> None:
    """Show two signed blocks of one height, and who signed each of them."""
    height = fork.first.block.header.height
    print_lines(
        [f"{standing(fork.first.finality)}: two different blocks {height} were signed, so history was rewritten"]
    )
    for name, half in (("one", fork.first), ("other", fork.second)):
        print_lines([""])
        print_pairs([*_block_pairs(name, half.block), *finality_pairs(half.finality, genesis)])
    print_lines(["", "NOT PROVEN:", "- which of the two is right, and whether by intent or by a restored backup"])


def fork_json(fork: ProvenFork, genesis: Genesis) -> dict[str, Any]:
    halves = [
        {"block": block_json(half.block), "finality": finality_json(half.finality, genesis)}
        for half in (fork.first, fork.second)
    ]
    return {"proven": "fork", "blocks": halves}


def standing_of(proven: Proven) -> str:
    return standing(proven.finality, isinstance(proven, ProvenStatement) and proven.has_balances_set)


def standing(finality: Finality, has_balances_set: bool = False) -> str:
    signed, reasons = finality.signed, []
    if signed is not None and signed.is_public_key:
        reasons.append("a dev chain: its key is public")
    if has_balances_set:
        reasons.append("balances were set by hand, as only a dev chain may")
    return f"VALID, BUT NO PROOF ({'; '.join(reasons)})" if reasons else "PROVEN"


def claim(proven: Proven) -> str:
    match proven:
        case ProvenPayment():
            return "this payment was made, and it is final"
        case ProvenAccount():
            return f"what this account held after block {proven.height}"
        case ProvenStatement():
            return f"all that happened to this account in blocks {proven.first} to {proven.last}"
        case FinalBlock():
            return "this block is final"
        case ProvenHistory():
            return "the history at the later block begins with all of the history at the earlier one"


def subject_pairs(proven: Proven) -> Pairs:
    """What was proven, without the reasons."""
    match proven:
        case ProvenPayment(block=block, tx=tx):
            place = f"block {block.header.height} 0x{block.hash.hex()}"
            return [
                ("paid", exact_amount(tx.value)),
                ("from", checksum_address(tx.sender)),
                ("to", checksum_address(tx.to)),
                ("for", purpose(tx) or "(no reference)"),
                ("when", utc(block.header.timestamp)),
                ("fee", f"{format_amount(tx.fee)}, paid by the sender beside the amount"),
                ("in", f"{place}, transaction {proven.index + 1} of {block.header.tx_count}"),
                ("hash", f"0x{tx.hash.hex()}, number {tx.nonce} of its sender's"),
            ]
        case ProvenAccount(account=account):
            touched = "no block touched it: it did not exist" if proven.last_touch is None else f"{proven.last_touch}"
            return [
                ("account", checksum_address(proven.address)),
                ("held", exact_amount(account.balance)),
                ("nonce", f"{account.nonce}, as many payments it had sent"),
                ("after", f"block {proven.height}"),
                ("changed", f"last in block {touched}" if proven.last_touch is not None else touched),
            ]
        case ProvenStatement():
            return [
                ("account", checksum_address(proven.address)),
                ("opening", f"{exact_amount(proven.opening.balance)}, before block {proven.first}"),
                ("closing", f"{exact_amount(proven.closing.balance)}, after block {proven.last}"),
                ("changes", f"{len(proven.entries):,}, and none is left out"),
            ]
        case FinalBlock(block=block):
            return [*_block_pairs("block", block), ("holds", f"{block.header.tx_count:,} transactions")]
        case ProvenHistory():
            return [*_block_pairs("earlier", proven.first), *_block_pairs("later", proven.second)]


def _block_pairs(name: str, block: ProvenBlock) -> Pairs:
    return [(name, f"{block.header.height} 0x{block.hash.hex()}"), ("", utc(block.header.timestamp))]


def finality_pairs(finality: Finality, genesis: Genesis) -> Pairs:
    """Why to believe it."""
    head, signed = finality.block, finality.signed
    pairs: Pairs = [("chain", f"{genesis.chain_id}, genesis 0x{genesis_digest(genesis).hex()}")]
    if finality.trusted is not None:
        trusted = finality.trusted
        pairs += [("final", f"by block {trusted.header.height} 0x{trusted.hash.hex()}, which you trust")]
    if signed is not None:
        pairs += signer_pairs(signed, genesis)
        pairs.append(("signed", f"block {head.header.height} 0x{head.hash.hex()} of {utc(head.header.timestamp)}"))
        pairs.append(("", changes_text(signed.changes)))
    for witness in finality.witnesses:
        seen = witness.block
        told = f"0x{witness.public_key.hex()} saw block {seen.header.height} 0x{seen.hash.hex()}"
        pairs.append(("witness", told) if witness.is_named else ("", f"a key that you did not name: {told}"))
    return pairs


def signer_pairs(signed: SignedBlock, genesis: Genesis) -> Pairs:
    """Who signed, with how much of the power; a validator has its name in genesis.json, where it has one."""
    signers = signed.signed.signers
    if genesis.signer is not None:
        return [("final", "signed by the node that makes the blocks alone"), ("", f"key {key_text(signers[0])}")]
    share = f"{len(signers)} of {len(signed.validators)}"
    power = f"{signed.signed.power:,} of {signed.signed.total:,} of the power"
    pairs: Pairs = [("final", f"signed by {share} validators with {power}; more than two thirds are needed")]
    names = {validator.public_key: validator.name for validator in genesis.validators}
    powers = {validator.key: validator.power for validator in signed.validators}
    for key in signers[:SHOWN_SIGNERS]:
        name = names.get(key) or "(no name in genesis.json)"
        pairs.append(("", f"{name} {key_text(key)}, power {powers[key]:,}"))
    if len(signers) > SHOWN_SIGNERS:
        pairs.append(("", f"and {len(signers) - SHOWN_SIGNERS:,} more; --json names all of them"))
    return pairs


def key_text(key: bytes) -> str:
    """As proofs have it, and as genesis.json does, to compare by eye."""
    return f"0x{key.hex()} ({base64.b64encode(key).decode()})"


def changes_text(changes: int) -> str:
    if not changes:
        return "with keys that genesis.json names"
    followed = "1 change" if changes == 1 else f"{changes:,} changes"
    return f"{followed} of keys followed from genesis.json, each signed with those before it"


def limits(proven: Proven, genesis: Genesis) -> Iterator[str]:
    """What the file does not prove, each in a line."""
    signed = proven.finality.signed
    if signed is not None and signed.is_public_key:
        yield "anything at all: this is a dev chain, and everybody has the key that signs its blocks"
    elif signed is not None:
        yield (
            "that the signatures are from the time they claim: who has stolen or bought the keys of old validators "
            "since can sign another past. Check with --at and a block that you kept, or with --witness"
        )
        if genesis.signer is not None and not any(each.is_named for each in proven.finality.witnesses):
            yield (
                "that its operator shows everybody the same chain: one node signs alone, and no witness that you "
                "named did. Check with --witness"
            )
    yield "who owns an address; a text in quotes is what the payer wrote"
    if isinstance(proven, ProvenStatement) and any(each.fees_earned for each in proven.entries):
        yield (
            "which part of the fees earned was fees: a payment to the account could be among them. "
            "The balances are exact all the same"
        )
    if isinstance(proven, ProvenStatement):
        yield "that every payment of nothing (0 wei) to the account is listed"
    yield "what happened after the signed block"


# Statements.


def statement_rows(proven: ProvenStatement) -> list[Row]:
    return [row for entry in proven.entries for row in entry_rows(entry, proven.address)]


def entry_rows(entry: StatementEntry, address: Address) -> Iterator[Row]:
    """A line for each payment of a block, and for what no payment explains. The last one has the balance."""
    place = (str(entry.block.header.height), utc(entry.block.header.timestamp))
    lines = list(_entry_lines(entry, address)) or [("touched", "", "", "")]
    for number, (kind, amount, other, told) in enumerate(lines, 1):
        balance = format_amount(entry.after.balance) if number == len(lines) else ""
        yield (*place, kind, amount, balance, other, told)


def _entry_lines(entry: StatementEntry, address: Address) -> Iterator[tuple[str, str, str, str]]:
    for payment in entry.payments:
        tx = payment.tx
        if tx.sender == address:
            fee = f"and {format_amount(tx.fee)} fee"
            yield "sent", f"{format_amount(tx.value)} {fee}", checksum_address(tx.to), purpose(tx)
        else:
            yield "received", format_amount(tx.value), checksum_address(tx.sender), purpose(tx)
    if entry.fees_earned:
        yield "earned", format_amount(entry.fees_earned), "", "fees of the block"
    if entry.set_by_hand:
        yield "set", f"to {format_amount(entry.after.balance)}", "", set_text(entry)


def set_text(entry: StatementEntry) -> str:
    """Who gave the account what no payment explains, in a block without payments."""
    return "by hand, on a dev chain" if entry.block.header.height else "by genesis.json"


# Values.


def purpose(tx: Tx) -> str:
    """What the payer says it is for, escaped; empty if nothing."""
    return data_text(reference_of(tx.data), "0x" + tx.data.hex()) if tx.data else ""


def exact_amount(wei: int) -> str:
    shown = format_amount(wei)
    return shown if shown.endswith(" wei") else f"{shown} ({wei} wei)"


def utc(timestamp_s: int) -> str:
    """In UTC: whoever reads it is somewhere else."""
    if timestamp_s > LATEST_TIME:
        return f"{timestamp_s} s after 1970"
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(timestamp_s))


# For scripts.


def verdict_json(proven: Proven, genesis: Genesis) -> dict[str, Any]:
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
                "changes": [entry_json(entry) for entry in proven.entries],
            }
        case FinalBlock():
            subject = {"proven": "block", "block": block_json(proven.block)}
        case ProvenHistory():
            subject = {"proven": "history", "first": block_json(proven.first), "second": block_json(proven.second)}
    return subject | {"finality": finality_json(proven.finality, genesis), "notProven": list(limits(proven, genesis))}


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
