"""What a check has found, in words: one report behind the screen, the JSON and the page to print."""

import base64
import hashlib
import time
from collections.abc import Iterator
from typing import NamedTuple

from cairn.cli.amounts import exact_amount, format_amount
from cairn.cli.proofs.statement_lines import StatementLine, purpose, statement_lines
from cairn.cli.screen import counted, utc
from cairn.domain.certificates import SignedBlock
from cairn.domain.crypto import checksum_address
from cairn.domain.evidence import ProvenFork
from cairn.domain.genesis import Genesis, find_supply, genesis_digest
from cairn.domain.proof_checks import (
    FinalBlock,
    Finality,
    ProvenAccount,
    ProvenBlock,
    ProvenHistory,
    ProvenPayment,
)
from cairn.domain.statement_checks import Proven, ProvenStatement

Pairs = list[tuple[str, str]]

SHOWN_SIGNERS = 10


class CheckedFile(NamedTuple):
    """Which file was checked, and when."""

    name: str | None
    """None if it was not saved."""
    sha256: str
    """Of its bytes, as sha256sum prints it."""
    at: int

    @classmethod
    def of(cls, content: bytes, name: str | None) -> "CheckedFile":
        return cls(name, hashlib.sha256(content).hexdigest(), int(time.time()))

    def pairs(self) -> Pairs:
        file = "not saved" if self.name is None else f"{self.name}, SHA-256 {self.sha256}"
        return [("file", file), ("checked", utc(self.at))]


class Report(NamedTuple):
    headline: str
    """Whether it holds, by whose word, and what is claimed."""
    subject: Pairs
    """What was proven, without the reasons."""
    finality: Pairs
    """Why to believe it."""
    file: Pairs
    lines: list[StatementLine]
    """Of a statement."""
    limits: list[str]
    """What is not proven."""


def report_of(proven: Proven, genesis: Genesis, file: CheckedFile) -> Report:
    return Report(
        f"{standing(proven, genesis)}: {claim(proven)}",
        subject_pairs(proven, genesis),
        finality_pairs(proven.finality, genesis),
        file.pairs(),
        statement_lines(proven) if isinstance(proven, ProvenStatement) else [],
        list(limits(proven, genesis)),
    )


# In one line.


def standing(proven: Proven, genesis: Genesis) -> str:
    """What the proof is worth: by whose word it is, and whether anybody could have made it."""
    signed = proven.finality.signed
    is_public = signed is not None and signed.is_public_key
    notes = ["its key is public"] if is_public else []
    if isinstance(proven, ProvenStatement) and proven.has_balances_set:
        notes.append("balances were set by hand")
    worth = "PROVEN BY THE WORD OF ONE NODE" if signed is not None and _is_alone(proven.finality, genesis) else "PROVEN"
    if is_public:
        worth = "VALID, BUT NO PROOF"
    return f"{worth} (a dev chain: {', and '.join(notes)})" if notes else worth


def _is_alone(finality: Finality, genesis: Genesis) -> bool:
    """Whether a single node says so, and no witness that was named has seen it."""
    return genesis.signer is not None and not any(each.is_named for each in finality.witnesses)


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


# What was proven.


def subject_pairs(proven: Proven, genesis: Genesis) -> Pairs:
    match proven:
        case ProvenPayment(block=block, tx=tx):
            place = f"block {block.header.height} 0x{block.hash.hex()}"
            return [
                ("paid", exact_amount(tx.value)),
                ("from", checksum_address(tx.sender)),
                ("to", checksum_address(tx.to)),
                ("for", purpose(tx) or "(no reference)"),
                ("when", utc(block.header.timestamp)),
                ("fee", f"{format_amount(tx.fee)}, which the sender paid on top of the amount"),
                ("in", f"{place}, transaction {proven.index + 1} of {block.header.tx_count}"),
                ("hash", f"0x{tx.hash.hex()}, the sender's nonce {tx.nonce}"),
            ]
        case ProvenAccount(account=account):
            touch = proven.last_touch
            return [
                ("account", checksum_address(proven.address)),
                ("held", exact_amount(account.balance)),
                ("nonce", f"{account.nonce}: the account had sent {counted(account.nonce, 'payment')}"),
                ("after", f"block {proven.height}"),
                ("changed", "never: the account did not exist" if touch is None else f"last in block {touch}"),
            ]
        case ProvenStatement():
            return statement_pairs(proven, genesis)
        case FinalBlock(block=block):
            return [*block_pairs("block", block), ("holds", counted(block.header.tx_count, "transaction"))]
        case ProvenHistory():
            return [*block_pairs("earlier", proven.first), *block_pairs("later", proven.second)]


def statement_pairs(proven: ProvenStatement, genesis: Genesis) -> Pairs:
    times = known_times(proven, genesis)
    first, last = proven.first, proven.last
    begin, end = _end_text(times, first), _end_text(times, last)
    if first - 1 in times:
        begin += f"; the block before it is of {utc(times[first - 1])}"
    if last + 1 in times:
        end += f"; the block after it is of {utc(times[last + 1])}"
    elif last == proven.finality.block.header.height:
        end += ", the newest block that is signed here"
    return [
        ("account", checksum_address(proven.address)),
        ("first", begin),
        ("last", end),
        ("opening", f"{exact_amount(proven.opening.balance)}, before block {first}"),
        ("closing", f"{exact_amount(proven.closing.balance)}, after block {last}"),
        ("changes", _changes(proven)),
    ]


def known_times(proven: ProvenStatement, genesis: Genesis) -> dict[int, int]:
    """The times of blocks that the file proves, by their heights."""
    blocks = (proven.finality.block, *(entry.block for entry in proven.entries), *proven.ends)
    return {0: genesis.timestamp} | {block.header.height: block.header.timestamp for block in blocks}


def _end_text(times: dict[int, int], height: int) -> str:
    return f"block {height} of {utc(times[height])}" if height in times else f"block {height}, whose time is not proven"


def _changes(proven: ProvenStatement) -> str:
    if not proven.entries:
        return "none"
    first, last = (utc(entry.block.header.timestamp) for entry in (proven.entries[0], proven.entries[-1]))
    return f"{len(proven.entries):,}, from {first} to {last}; none is left out"


def block_pairs(name: str, block: ProvenBlock) -> Pairs:
    return [(name, f"{block.header.height} 0x{block.hash.hex()}"), ("", utc(block.header.timestamp))]


# Why to believe it.


def finality_pairs(finality: Finality, genesis: Genesis) -> Pairs:
    head, signed = finality.block, finality.signed
    pairs: Pairs = [("chain", f"{genesis.chain_id}, genesis 0x{genesis_digest(genesis).hex()}")]
    if finality.trusted is not None:
        trusted = finality.trusted
        pairs += [("final", f"by block {trusted.header.height} 0x{trusted.hash.hex()}, which you trust")]
    if signed is not None:
        pairs += _signer_pairs(signed, genesis)
        pairs.append(("signed", f"block {head.header.height} 0x{head.hash.hex()} of {utc(head.header.timestamp)}"))
        pairs.append(("", _keys_text(signed.changes, genesis)))
    for witness in finality.witnesses:
        seen = witness.block
        what = f"0x{witness.public_key.hex()} saw block {seen.header.height} 0x{seen.hash.hex()}"
        pairs.append(("witness", what) if witness.is_named else ("", f"a key that you did not name: {what}"))
    return pairs


def _signer_pairs(signed: SignedBlock, genesis: Genesis) -> Pairs:
    """Who signed, with how much of the power; a validator has its name in genesis.json, where it has one."""
    signers = signed.signed.signers
    if genesis.signer is not None:
        return [("final", "signed by the node that makes the blocks alone"), ("", f"key {_key_text(signers[0])}")]
    share = f"{len(signers)} of {len(signed.validators)}"
    power = f"{signed.signed.power:,} of {signed.signed.total:,} of the power"
    pairs: Pairs = [("final", f"signed by {share} validators with {power}; more than two thirds are needed")]
    names = {validator.public_key: validator.name for validator in genesis.validators}
    powers = {validator.key: validator.power for validator in signed.validators}
    for key in signers[:SHOWN_SIGNERS]:
        name = names.get(key) or "(no name in genesis.json)"
        pairs.append(("", f"{name} {_key_text(key)}, power {powers[key]:,}"))
    if len(signers) > SHOWN_SIGNERS:
        pairs.append(("", f"and {len(signers) - SHOWN_SIGNERS:,} more; --json names all of them"))
    return pairs


def _key_text(key: bytes) -> str:
    """As proofs have it, and as genesis.json does, to compare by eye."""
    return f"0x{key.hex()} ({base64.b64encode(key).decode()})"


def _keys_text(changes: int, genesis: Genesis) -> str:
    if not changes:
        return f"with {'the key' if genesis.signer is not None else 'keys'} that genesis.json names"
    return f"{counted(changes, 'change')} of keys followed from genesis.json, each signed with those before it"


# What is not proven.


def limits(proven: Proven, genesis: Genesis) -> Iterator[str]:
    """Each in a line, the first one what everything else depends on."""
    signed = proven.finality.signed
    if signed is None:
        yield "that the block which you trust is the right one: all else follows from it"
    elif signed.is_public_key:
        yield "anything at all: this is a dev chain, and everybody has the key that signs its blocks"
    else:
        yield (
            f"that this genesis.json is the right one: compare its digest, 0x{genesis_digest(genesis).hex()}, with one "
            "that you have from somebody you trust"
        )
        yield from _limits_of_signatures(proven.finality, signed, genesis)
    yield "who owns an address; a text in quotes is what the payer wrote"
    if isinstance(proven, ProvenStatement):
        yield from _limits_of_statement(proven, genesis)
    yield f"what happened after block {_last_height(proven)}"


def _limits_of_signatures(finality: Finality, signed: SignedBlock, genesis: Genesis) -> Iterator[str]:
    keys = "the node's signing key" if genesis.signer is not None else "the validators' signing keys"
    earlier = ", or earlier ones," if signed.changes else ""
    yield (
        f"that the signatures are from the time they claim: whoever has stolen or bought {keys}{earlier} since can "
        "sign another past. Check with --at and a block that you kept, or with --witness"
    )
    if _is_alone(finality, genesis):
        yield (
            "that its operator shows everybody the same chain: one node signs alone, and no witness that you "
            "named did. Check with --witness"
        )


def _limits_of_statement(proven: ProvenStatement, genesis: Genesis) -> Iterator[str]:
    missing = sorted({proven.first, proven.last} - known_times(proven, genesis).keys())
    if missing:
        unknown = " and ".join(f"block {height}" for height in missing)
        yield f"of which days it is: the file does not have the time of {unknown}"
    if any(each.fees_earned for each in proven.entries):
        yield (
            "which part of the fees earned was fees, unless the file has all payments of the block: a payment to the "
            f"account could be among them. {_earned_by_word(genesis)}"
        )
    yield "that every payment of nothing (0 wei) to the account is listed"


def _earned_by_word(genesis: Genesis) -> str:
    """By whose word an account earned fees, whose payments the file does not have."""
    whose = "the node" if genesis.signer is not None else "the validators"
    supply = find_supply(genesis)
    bound = "" if supply is None else f", up to all coins that genesis.json gives, {format_amount(supply)}"
    return f"Their amount is the word of {whose} that signed{bound}"


def _last_height(proven: Proven) -> int:
    match proven:
        case ProvenPayment(block=block) | FinalBlock(block=block) | ProvenHistory(second=block):
            return block.header.height
        case ProvenAccount(height=height) | ProvenStatement(last=height):
            return height


# Evidence.


def fork_headline(fork: ProvenFork) -> str:
    signed, height = fork.first.finality.signed, fork.first.block.header.height
    is_public = signed is not None and signed.is_public_key
    worth = "VALID, BUT NO PROOF (a dev chain: its key is public)" if is_public else "PROVEN"
    return f"{worth}: two different blocks {height} were signed, so history was rewritten"


def fork_limits(fork: ProvenFork, genesis: Genesis) -> list[str]:
    return [
        f"that this genesis.json is the right one: compare its digest, 0x{genesis_digest(genesis).hex()}",
        "which of the two is right, and whether by intent or by a restored backup",
    ]
