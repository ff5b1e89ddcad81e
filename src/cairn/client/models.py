"""What a node answers, as types. In JSON the fields have the names of the REST API. Integers are exact at any size.

Hashes and addresses are strings, `0x` and lower-case hexadecimal digits, as the node writes them. Amounts are in wei.
Fields that a later node adds are ignored.
"""

from typing import Literal

import msgspec

from cairn.client.errors import InvalidProof
from cairn.domain.errors import Rejected
from cairn.domain.headers import block_hash
from cairn.domain.merkle import verify_inclusion
from cairn.domain.prices import price_terms
from cairn.domain.txs import build_tx
from cairn.domain.types import LEGACY, TRANSFER_GAS, Address, BlockHash, Draft, DropReason
from cairn.domain.types import Header as DomainHeader


class Submitted(msgspec.Struct, frozen=True, rename="camel"):
    """The transaction is valid, accepted and on the node's disk."""

    status: Literal["pending", "confirmed"]
    """`confirmed` if this transaction was confirmed before."""
    tx_hash: str


class Transfer(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """The fields that every transaction has."""

    tx_hash: str
    sender: str = msgspec.field(name="from")
    to: str
    value: int
    nonce: int
    gas: int
    """The gas limit; a transfer uses 21,000."""
    gas_price: int
    """What it pays for a unit of gas."""
    type: int = LEGACY
    """Type of the transaction: 0 (legacy), 1 (EIP-2930) or 2 (EIP-1559)."""
    max_fee_per_gas: int | None = None
    """The most that a type 2 transaction pays for a unit of gas; None for other types."""
    max_priority_fee_per_gas: int | None = None
    """The most of that above the chain's gas price, for type 2; None for other types."""

    @property
    def cost(self) -> int:
        """What the sender must own for it to be accepted: the value, and the gas limit at the highest price."""
        return self.value + self.gas * (self.gas_price if self.max_fee_per_gas is None else self.max_fee_per_gas)


class PendingTransaction(Transfer, frozen=True, kw_only=True, tag_field="status", tag="pending"):
    """A transaction that is in no block yet."""

    not_held: Literal["replaced", "evicted", "expired"] | None = None
    """On a network: why the mempool of this node no longer holds it. Another node may still confirm it."""
    replaced_by: str | None = None
    """If it is no longer held: the transaction that is, with the same sender and nonce."""

    @property
    def status(self) -> Literal["pending"]:
        return "pending"


class ConfirmedTransaction(Transfer, frozen=True, kw_only=True, tag_field="status", tag="confirmed"):
    """A transaction that is in a block. That is final."""

    block_height: int
    block_hash: str
    transaction_index: int
    """Its position in the block, from 0."""
    fee: int
    """What the sender paid to the block's proposer."""

    @property
    def status(self) -> Literal["confirmed"]:
        return "confirmed"


Transaction = PendingTransaction | ConfirmedTransaction


class MempoolItem(Transfer, frozen=True, kw_only=True):
    """An entry of the mempool."""

    received_at: int
    """Unix time in whole seconds."""


class Header(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Everything that a block's hash covers."""

    block_height: int
    hash: str
    previous_hash: str
    timestamp: int
    """Unix time in whole seconds."""
    transactions_root: str
    state_root: str
    gas_used: int
    proposer: str
    chain_id: int
    gas_limit: int
    base_fee_per_gas: int

    def computed_hash(self) -> str:
        """The hash that these fields give, whatever `hash` says. Raises `ValueError` for a malformed field."""
        fields = DomainHeader(
            height=self.block_height,
            previous_hash=BlockHash(_raw(self.previous_hash)),
            timestamp=self.timestamp,
            tx_root=_raw(self.transactions_root),
            state_root=_raw(self.state_root),
            gas_used=self.gas_used,
            proposer=Address(_raw(self.proposer)),
            chain_id=self.chain_id,
            gas_limit=self.gas_limit,
            base_fee=self.base_fee_per_gas,
        )
        return "0x" + block_hash(fields).hex()


class Block(Header, frozen=True, kw_only=True):
    """A block and the hashes of its transactions, in their order."""

    transactions: list[str]


class BlockSummary(Header, frozen=True, kw_only=True):
    """A block without its transactions."""

    transaction_count: int


class Head(msgspec.Struct, frozen=True, rename="camel"):
    block_height: int
    hash: str
    timestamp: int


class MempoolSize(msgspec.Struct, frozen=True):
    pending: int
    """Transactions that can be mined now."""
    queued: int
    """Transactions that wait for a missing nonce."""
    limit: int


class Revert(msgspec.Struct, frozen=True, rename="camel"):
    """The latest revert of a dev chain."""

    number: int
    """Number of this revert: 1 for the first."""
    block_height: int
    """Height of the latest block right after it; the blocks above are gone."""


class Chain(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The chain's rules and its current state."""

    chain_id: int
    gas_price: int
    """The least gas price that is accepted, and what a transfer pays by default."""
    block_gas_limit: int
    engine: str
    version: str
    head: Head
    mempool: MempoolSize
    last_revert: Revert | None = None
    """The latest revert of a dev chain; None if there was none."""


class AccountState(msgspec.Struct, frozen=True, rename="camel"):
    """An account. One that was never used has balance 0 and nonce 0."""

    address: str
    balance: int
    nonce: int
    """How many transactions of the account are confirmed."""
    pending_nonce: int
    """Nonce for the account's next transaction: after the confirmed and the pending ones."""


class SignedFields(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the sender of a transaction signed, in the form of `POST /tx`. The hash covers all of it."""

    sender: str = msgspec.field(name="from")
    to: str
    value: int
    nonce: int
    gas: int
    signature: str
    gas_price: int | None = None
    """None for type 2, which has the two below instead."""
    type: int = LEGACY
    max_fee_per_gas: int | None = None
    max_priority_fee_per_gas: int | None = None

    def computed_price(self, base_fee: int) -> int:
        """What it pays for a unit of gas. Raises `ValueError` unless it has the fields of its type."""
        try:
            terms = price_terms(
                self.type, self.gas_price, self.max_fee_per_gas, self.max_priority_fee_per_gas, base_fee
            )
        except Rejected as refused:
            raise ValueError(refused.detail) from None
        return terms.gas_price

    def computed_hash(self, chain_id: int) -> str:
        """The hash of the transaction. Raises `ValueError` unless `sender` signed these fields for that chain."""
        sender, to = Address(_raw(self.sender)), Address(_raw(self.to))
        signature = _raw(self.signature)
        try:
            price, caps = self.gas_price or 0, (self.max_fee_per_gas or 0, self.max_priority_fee_per_gas or 0)
            draft = Draft(sender, to, self.value, self.gas, price, self.nonce, self.type, *caps)
            tx = build_tx(draft, signature, chain_id)
        except Rejected as refused:
            raise ValueError(refused.detail) from None
        return "0x" + tx.hash.hex()


class Proof(msgspec.Struct, frozen=True, rename="camel"):
    """Shows that a block holds a transaction: what was signed, and the Merkle path to the transactions root."""

    tx_hash: str
    transaction: SignedFields
    transaction_index: int
    transaction_count: int
    proof: list[str]
    """Sibling hashes, lowest first (RFC 6962)."""
    header: Header

    def verify(self, tx_hash: str, trusted_hash: str | None = None) -> None:
        """Check that the block holds the transaction `tx_hash`, and that it is as `transaction` says.

        Raises `InvalidProof`.
        Without `trusted_hash` the proof is checked against the header that came with it, which shows only that the
        node does not contradict itself. Give the hash of a block that you trust, from another node or from earlier, to
        believe nothing that this node says.
        """
        try:
            siblings = [_raw(sibling) for sibling in self.proof]
            root, leaf = _raw(self.header.transactions_root), _raw(self.tx_hash)
            computed = self.header.computed_hash()
            signed = self.transaction.computed_hash(self.header.chain_id)
            self.transaction.computed_price(self.header.base_fee_per_gas)
        except (ValueError, OverflowError) as error:
            raise InvalidProof(f"the proof cannot be read: {error}") from None
        if not self.tx_hash == signed == tx_hash.lower():
            raise InvalidProof(f"the proof is of transaction {signed}, not of {tx_hash}")
        if self.header.gas_used != TRANSFER_GAS * self.transaction_count:
            # The path alone does not say how many there are: trees of several sizes have the same one.
            raise InvalidProof(
                f"a block of {self.transaction_count} transactions does not use {self.header.gas_used} gas"
            )
        if not verify_inclusion(leaf, self.transaction_index, self.transaction_count, siblings, root):
            raise InvalidProof(f"the path does not lead from {self.tx_hash} to the block's transactions root")
        if computed != self.header.hash:
            raise InvalidProof(f"the header's fields give {computed}, not {self.header.hash}")
        if trusted_hash is not None and computed != trusted_hash.lower():
            raise InvalidProof(f"the proof is for block {computed}, not for {trusted_hash}")

    def check_same(self, tx: ConfirmedTransaction) -> None:
        """Check that `tx` has the same fields as this proof, which must be verified. Raises `InvalidProof`."""
        signed = self.transaction
        price = signed.computed_price(self.header.base_fee_per_gas)
        proven = {
            **{name: getattr(signed, name) for name in ("sender", "to", "value", "nonce", "gas", "type")},
            **{name: getattr(signed, name) for name in ("max_fee_per_gas", "max_priority_fee_per_gas")},
            "gas_price": price,
            "tx_hash": self.tx_hash,
            "block_height": self.header.block_height,
            "block_hash": self.header.hash,
            "transaction_index": self.transaction_index,
            "fee": TRANSFER_GAS * price,
        }
        for name, value in proven.items():
            if getattr(tx, name) != value:
                raise InvalidProof(f"{name} is {getattr(tx, name)} in the answer, and {value} in its proof")


class Validator(msgspec.Struct, frozen=True, rename="camel"):
    address: str
    """The validator's address in CometBFT."""
    public_key: str
    power: int
    fee_recipient: str
    name: str
    missed_blocks: int
    """In how many of the latest `voted_blocks` blocks its vote is missing."""
    evidence: int
    """How many of the listed pieces of evidence are against it."""


class Evidence(msgspec.Struct, frozen=True, rename="camel"):
    """Proof that a validator broke the rules of consensus."""

    address: str
    """The validator's address in CometBFT."""
    name: str
    """Its name at that time; empty if it was no validator any more."""
    kind: str
    """`duplicateVote`, `lightClientAttack` or `unknown`."""
    block_height: int
    timestamp: int
    """Unix time of that block."""


class Validators(msgspec.Struct, frozen=True, rename="camel"):
    """The validators of a network, who may change them, and who of them broke the rules."""

    chain_id: int
    genesis: str
    """Digest of genesis.json, which tells chains with the same id apart."""
    block_height: int
    sequence: int
    threshold: int
    admins: list[str]
    validators: list[Validator]
    voted_blocks: int
    """How many of the latest blocks missing votes are counted in."""
    evidence_count: int
    """How many pieces of evidence the chain has had in all."""
    evidence: list[Evidence]
    """The latest pieces, newest first."""


class Probe(msgspec.Struct, frozen=True):
    """The result of a probe."""

    status: str


class Checks(msgspec.Struct, frozen=True):
    """`ok`, or what is wrong."""

    store: str
    mempool: str


class Readiness(msgspec.Struct, frozen=True):
    status: Literal["ready", "starting", "unavailable", "draining"]
    checks: Checks


class Confirmed(msgspec.Struct, frozen=True, rename="camel", tag_field="event", tag="txConfirmed"):
    """A followed transaction is in a block. That is final."""

    tx_hash: str
    block_height: int


class Dropped(msgspec.Struct, frozen=True, rename="camel", tag_field="event", tag="txDropped"):
    """A followed transaction ended without being confirmed."""

    tx_hash: str
    reason: DropReason


Outcome = Confirmed | Dropped
"""How a followed transaction ended."""


def _raw(text: str) -> bytes:
    if not text.startswith("0x"):
        raise ValueError(f"{text!r} does not start with 0x")
    return bytes.fromhex(text[2:])
