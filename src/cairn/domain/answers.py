"""What a node answers, as types. The node writes them, its client reads them, and OpenAPI and AsyncAPI describe them.

In JSON the fields have the names of the REST API. Integers are exact at any size. Hashes and addresses are strings of
`0x` and lower-case hexadecimal digits. Amounts are in wei. Fields that a later node adds are ignored.
"""

from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from cairn.domain.errors import InvalidProof, Rejected
from cairn.domain.governance import KEPT_EVIDENCE, VOTED_BLOCKS, EvidenceKind
from cairn.domain.headers import block_hash
from cairn.domain.json_fields import (
    AddressText,
    ChainId,
    DataText,
    EngineAddress,
    Gas,
    GasPrice,
    GenesisText,
    HashText,
    Height,
    MaxFee,
    MaxTip,
    Nonce,
    Position,
    Power,
    PublicKeyText,
    Queued,
    QueuedReason,
    ReferenceText,
    Sequence,
    Time,
    TxType,
    ValidatorName,
    Value,
    about,
    find_data,
    hex_bytes,
    hex_text,
    integer,
    ref,
    wei,
)
from cairn.domain.merkle import verify_inclusion
from cairn.domain.references import reference_of
from cairn.domain.transactions import build_tx, price_terms
from cairn.domain.types import (
    LEGACY,
    MAX_DATA_BYTES,
    Address,
    BlockHash,
    BlockHeader,
    Draft,
    DropReason,
    Phase,
    intrinsic_gas,
)

PROBLEM_TYPE = "urn:cairn:problem:"
EVIDENCE_KINDS = {
    EvidenceKind.UNKNOWN: "unknown",
    EvidenceKind.DUPLICATE_VOTE: "duplicateVote",
    EvidenceKind.LIGHT_CLIENT_ATTACK: "lightClientAttack",
}


class Unproven:
    """What a node says of itself or of this moment: no signature covers it, and nothing proves it.

    A client with a genesis proves every answer but these.
    """

    __slots__ = ()


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error (RFC 9457)."""

    type: Annotated[str, about("The code as a URI.", pattern=f"^{PROBLEM_TYPE}[A-Z_]+$")] = "about:blank"
    title: Annotated[str, about("The kind of error, for people.")]
    status: Annotated[int, integer("The HTTP status.", 599, 400)]
    detail: Annotated[str, about("What is wrong with this request, for people.")]
    code: Annotated[str, Meta(extra_json_schema=ref("ProblemCode"))]
    field: Annotated[str | None, about("The field that is wrong. INVALID_FIELD only.")] = None
    reason: Annotated[
        str | None, about("Why the transaction was dropped. TX_DROPPED only.", enum=sorted(get_args(DropReason)))
    ] = None


# Transactions.


def queued_reason(missing_nonce: int) -> str:
    """Why a queued transaction cannot be mined yet."""
    return f"waits for nonce {missing_nonce}"


class Submitted(Unproven, msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The transaction is valid, accepted and on disk."""

    status: Annotated[
        Literal["pending", "confirmed"],
        about("`confirmed` if this transaction was sent before and is already in a block."),
    ]
    tx_hash: HashText
    queued: Queued = False
    queued_reason: QueuedReason = None


class Transfer(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """The fields that every transaction has."""

    tx_hash: HashText
    sender: AddressText = msgspec.field(name="from")
    to: AddressText
    value: Value
    nonce: Nonce
    gas: Gas
    gas_price: GasPrice
    type: TxType = LEGACY
    max_fee_per_gas: MaxFee = None
    max_priority_fee_per_gas: MaxTip = None
    data: DataText = None
    reference: ReferenceText = None

    @property
    def cost(self) -> int:
        """What the sender must own for it to be accepted: the value, and the gas limit at the highest price."""
        return self.value + self.gas * (self.gas_price if self.max_fee_per_gas is None else self.max_fee_per_gas)


class PendingTransaction(Unproven, Transfer, frozen=True, kw_only=True, tag_field="status", tag="pending"):
    """A transaction that is not in a block yet."""

    not_held: Annotated[
        Literal["replaced", "evicted", "expired"] | None,
        about("Why the mempool of this node no longer holds it. Another node may still confirm it. Networks only."),
    ] = None
    replaced_by: Annotated[
        str | None,
        hex_bytes(32, "If it is no longer held: the transaction that is, with the same sender and nonce."),
    ] = None
    queued: Queued = False
    queued_reason: QueuedReason = None

    @property
    def status(self) -> Literal["pending"]:
        return "pending"


class ConfirmedTransaction(Transfer, frozen=True, kw_only=True, tag_field="status", tag="confirmed"):
    """A transaction in a block. This is final."""

    block_height: Height
    block_hash: HashText
    transaction_index: Position
    fee: Annotated[int, wei("What the sender paid to the proposer of the block, in wei.")]

    @property
    def status(self) -> Literal["confirmed"]:
        return "confirmed"


Transaction = PendingTransaction | ConfirmedTransaction


class MempoolItem(Unproven, Transfer, frozen=True, kw_only=True):
    """A transaction in the mempool."""

    received_at: Time
    queued: Queued = False
    queued_reason: QueuedReason = None


class SignedFields(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """What the sender signed, in the form of `POST /tx`. The transaction's hash covers all of it."""

    sender: AddressText = msgspec.field(name="from")
    to: AddressText
    value: Value
    nonce: Nonce
    gas: Gas
    gas_price: Annotated[int | None, wei("Wei paid per unit of gas.")] = None
    signature: Annotated[str, hex_bytes(65, "r, s and v (0 or 1).")]
    type: TxType = LEGACY
    max_fee_per_gas: MaxFee = None
    max_priority_fee_per_gas: MaxTip = None
    data: DataText = None

    @property
    def data_bytes(self) -> bytes:
        """The data, empty if there is none. Raises `ValueError` if it is malformed."""
        if self.data is None:
            return b""
        found = find_data(self.data)
        if not found or self.data != self.data.lower():
            raise ValueError("data is not 0x and lower-case hexadecimal digits")
        return found

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
            draft = Draft(sender, to, self.value, self.gas, price, self.nonce, self.type, *caps, self.data_bytes)
            tx = build_tx(draft, signature, chain_id)
        except Rejected as refused:
            raise ValueError(refused.detail) from None
        return "0x" + tx.hash.hex()


# Blocks and the chain.


class Header(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A block without its transactions: everything that its hash covers."""

    block_height: Height
    hash: Annotated[
        str,
        hex_bytes(32, "keccak-256 of the header in RLP, with the fields of Ethereum's headers since London "
                  "(docs/formats.md)."),
    ]  # fmt: skip
    previous_hash: Annotated[str, hex_bytes(32, "Hash of the parent block; 32 zero bytes for the genesis block.")]
    timestamp: Time
    transactions_root: Annotated[
        str,
        hex_bytes(
            32, "RFC 6962 Merkle root (SHA-256) of the transaction hashes; Ethereum's empty root if there are none."
        ),
    ]
    receipts_root: Annotated[
        str, hex_bytes(32, "RFC 6962 Merkle root of the accounts that the block touches, before and after it.")
    ]
    state_root: Annotated[str, hex_bytes(32, "RFC 6962 Merkle root of all accounts after this block.")]
    mix_hash: Annotated[str, hex_bytes(32, "RFC 6962 Merkle root of the hashes of all earlier blocks.")]
    transaction_count: Annotated[int, integer("How many transactions the block holds.")]
    gas_used: Annotated[int, integer("The gas of all transactions.")]
    proposer: AddressText
    chain_id: ChainId
    gas_limit: Annotated[int, integer("The most gas that a block can use: the chain's blockGasLimit.")]
    base_fee_per_gas: Annotated[int, wei("The least that a unit of gas costs, in wei: the chain's gasPrice.")]

    @classmethod
    def of(cls, block_hash: BlockHash, header: BlockHeader) -> "Header":
        return Header(
            block_height=header.height,
            hash=hex_text(block_hash),
            previous_hash=hex_text(header.previous_hash),
            timestamp=header.timestamp,
            transactions_root=hex_text(header.tx_root),
            receipts_root=hex_text(header.changes_root),
            state_root=hex_text(header.state_root),
            mix_hash=hex_text(header.history_root),
            transaction_count=header.tx_count,
            gas_used=header.gas_used,
            proposer=hex_text(header.proposer),
            chain_id=header.chain_id,
            gas_limit=header.gas_limit,
            base_fee_per_gas=header.base_fee,
        )

    def computed_hash(self) -> str:
        """The hash that these fields give, whatever `hash` says. Raises `ValueError` for a malformed field."""
        fields = BlockHeader(
            height=self.block_height,
            previous_hash=BlockHash(_raw(self.previous_hash)),
            timestamp=self.timestamp,
            tx_root=_raw(self.transactions_root),
            changes_root=_raw(self.receipts_root),
            state_root=_raw(self.state_root),
            history_root=_raw(self.mix_hash),
            gas_used=self.gas_used,
            proposer=Address(_raw(self.proposer)),
            chain_id=self.chain_id,
            gas_limit=self.gas_limit,
            base_fee=self.base_fee_per_gas,
            tx_count=self.transaction_count,
        )
        return "0x" + block_hash(fields).hex()


class Block(Header, frozen=True, kw_only=True):
    """A block with the hashes of its transactions, in their order."""

    transactions: list[HashText]


class FullBlock(Header, frozen=True, kw_only=True):
    """A block with its transactions, in their order."""

    transactions: list[ConfirmedTransaction]


class Proof(msgspec.Struct, frozen=True, rename="camel"):
    """Shows that a block holds a transaction: the Merkle path to the transactions root in the header."""

    tx_hash: HashText
    transaction: SignedFields
    transaction_index: Position
    proof: Annotated[list[HashText], about("Sibling hashes of the Merkle path, lowest level first (RFC 6962).")]
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
        # The header says how many there are: the path alone would fit trees of several sizes.
        if not verify_inclusion(leaf, self.transaction_index, self.header.transaction_count, siblings, root):
            raise InvalidProof(f"the path does not lead from {self.tx_hash} to the block's transactions root")
        if computed != self.header.hash:
            raise InvalidProof(f"the header's fields give {computed}, not {self.header.hash}")
        if trusted_hash is not None and computed != trusted_hash.lower():
            raise InvalidProof(f"the proof is for block {computed}, not for {trusted_hash}")

    def check_same(self, tx: ConfirmedTransaction) -> None:
        """Check that `tx` has the same fields as this proof, which must be verified. Raises `InvalidProof`."""
        signed = self.transaction
        price, data = signed.computed_price(self.header.base_fee_per_gas), signed.data_bytes
        proven = {
            **{name: getattr(signed, name) for name in ("sender", "to", "value", "nonce", "gas", "type")},
            **{name: getattr(signed, name) for name in ("max_fee_per_gas", "max_priority_fee_per_gas")},
            "gas_price": price,
            "tx_hash": self.tx_hash,
            "block_height": self.header.block_height,
            "block_hash": self.header.hash,
            "transaction_index": self.transaction_index,
            "fee": intrinsic_gas(data) * price,
            "data": signed.data,
        }
        for name, value in proven.items():
            if getattr(tx, name) != value:
                raise InvalidProof(f"{name} is {getattr(tx, name)} in the answer, and {value} in its proof")
        if tx.reference != reference_of(data) and not self._may_read(tx.reference, data):
            raise InvalidProof(f"reference is {tx.reference!r} in the answer, and its data in its proof is {data!r}")

    @staticmethod
    def _may_read(reference: str | None, data: bytes) -> bool:
        """Whether a node with other tables of Unicode, in which other characters are printable, may say so."""
        return not data.isascii() and (reference is None or reference.encode(errors="surrogatepass") == data)


class Head(msgspec.Struct, frozen=True, rename="camel"):
    """The latest block."""

    block_height: Height
    hash: HashText
    timestamp: Time


class MempoolSize(msgspec.Struct, frozen=True):
    """How full the mempool is."""

    pending: Annotated[int, integer("Transactions that can be mined now.")]
    queued: Annotated[int, integer("Transactions that wait for a missing nonce of their sender.")]
    limit: Annotated[int, integer("The most transactions that the mempool holds.")]


class Revert(msgspec.Struct, frozen=True, rename="camel"):
    """The last revert of a dev chain. Left out if there was none."""

    number: Annotated[int, integer("How many reverts there have been.", least=1)]
    block_height: Annotated[int, integer("The latest block after the revert. Blocks above it are void.")]


class Chain(Unproven, msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The chain's rules and its latest block."""

    chain_id: ChainId
    gas_price: Annotated[int, wei("The least gas price that is accepted, in wei.")]
    block_gas_limit: Annotated[int, integer("The most gas that a block can use.")]
    block_time: Annotated[
        float,
        about(
            "Seconds between blocks while there is something to include, by the settings of this node; 0 if each "
            "submission gets a block at once. On a network, the pause after each block before the validators begin to "
            "agree on the next.",
            minimum=0,
        ),
    ]
    max_data_bytes: Annotated[
        int, integer("The most data that a transfer can carry, in bytes; 0 if none.", MAX_DATA_BYTES)
    ]
    engine: Annotated[str, about("What makes the blocks: `embedded` or `cometbft`.")]
    version: Annotated[str, about("Version of the node.")]
    head: Head
    mempool: MempoolSize
    last_revert: Revert | None = None
    commit: Annotated[str, about("The commit that the node was built from. Left out if it is not known.")] = ""
    supply: Annotated[
        int | None,
        wei(
            "Wei in all accounts together. Genesis sets it for good: fees move coins, and destroy none. Setting a "
            "balance, on a dev chain, changes it; a dev chain that has removed old blocks leaves it out."
        ),
    ] = None


class AccountState(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An account. One that was never used has balance 0 and nonce 0."""

    address: AddressText
    balance: Annotated[int, wei("Wei that the account holds.")]
    nonce: Annotated[int, integer("How many transactions of the account are confirmed.")]
    pending_nonce: Annotated[
        int,
        integer(
            "The nonce for the account's next transaction: after the confirmed and the pending ones. As of an earlier "
            "block it is the same as `nonce`."
        ),
    ]
    block_height: Annotated[
        int | None, integer("With `height` or `time`: the block after which the account was so. Otherwise left out.")
    ] = None


class ListedAccount(msgspec.Struct, frozen=True):
    """An account as of the end of a block."""

    address: AddressText
    balance: Annotated[int, wei("Wei that the account holds.")]
    nonce: Annotated[int, integer("How many transactions of the account are confirmed.")]


class AccountList(msgspec.Struct, frozen=True, rename="camel"):
    """Accounts, all of them as of the end of the same block."""

    block_height: Height
    accounts: list[ListedAccount]


# The validators of a network.


class Validator(msgspec.Struct, frozen=True, rename="camel"):
    """A node that votes on blocks."""

    address: EngineAddress
    public_key: PublicKeyText
    power: Power
    fee_recipient: AddressText
    name: ValidatorName
    missed_blocks: Annotated[int, integer("In how many of the latest `votedBlocks` blocks its vote is missing.")]
    evidence: Annotated[int, integer("How many of the listed pieces of evidence are against it.")]


class Evidence(msgspec.Struct, frozen=True, rename="camel"):
    """Proof that a validator broke the rules of consensus, verified by CometBFT and held in a block."""

    address: EngineAddress
    name: Annotated[str, about("Its name at that time; empty if it was no validator any more.")]
    kind: Annotated[
        str,
        about(
            "`duplicateVote`: it signed two votes of one round. `lightClientAttack`: it signed a false block.",
            enum=sorted(EVIDENCE_KINDS.values()),
        ),
    ]
    block_height: Height
    timestamp: Time


class Validators(Unproven, msgspec.Struct, frozen=True, rename="camel"):
    """The validators of the network."""

    chain_id: ChainId
    genesis: GenesisText
    block_height: Height
    sequence: Sequence
    threshold: Annotated[int, integer("How many administrators must sign an update; 0 if the chain has none.")]
    admins: Annotated[list[AddressText], about("The administrators.")]
    validators: list[Validator]
    voted_blocks: Annotated[int, integer("How many of the latest blocks `missedBlocks` is counted in.", VOTED_BLOCKS)]
    evidence_count: Annotated[int, integer("How many pieces of evidence the chain has had in all.")]
    evidence: Annotated[list[Evidence], about("The latest pieces, newest first.", maxItems=KEPT_EVIDENCE)]


class UpdateSubmitted(msgspec.Struct, frozen=True):
    """The update is valid, and CometBFT has it."""

    status: Annotated[Literal["submitted"], about("Always `submitted`.")]
    sequence: Sequence


# The probes.


class Probe(Unproven, msgspec.Struct, frozen=True):
    """The result of a probe."""

    status: Annotated[str, about("`alive`, `starting` or `started`.")]


NOT_KNOWN = "unknown"
"""The result for a part that nobody can tell about now."""


class Checks(msgspec.Struct, frozen=True):
    """The result for each part: `ok`, what is wrong, or `unknown` if nobody can tell now.

    `disk`, `core`, `engine` and `peers` name the part at fault. `store` and `mempool` are what suffers by it.
    """

    store: Annotated[str, about("The store: blocks and accounts.")]
    mempool: Annotated[str, about("The mempool and its journal.")]
    disk: Annotated[str, about("The disk: it takes what is written, and has space.")] = "ok"
    core: Annotated[str, about("The process that writes: it runs and answers.")] = "ok"
    engine: Annotated[str, about("What makes the blocks: this node, or its CometBFT.")] = "ok"
    peers: Annotated[str, about("The other nodes of the network: enough of them are there to make blocks.")] = "ok"


class Readiness(Unproven, msgspec.Struct, frozen=True):
    """The result of the probe `/ready`."""

    status: Annotated[Phase, about("`ready` if the node accepts transactions.")]
    checks: Checks


# Events of the WebSocket `/events`.


class NewBlock(msgspec.Struct, frozen=True, rename="camel", tag_field="event", tag="newBlock"):
    """There is a new block, and it is on disk."""

    block_height: Height
    hash: HashText


class Confirmed(msgspec.Struct, frozen=True, rename="camel", tag_field="event", tag="txConfirmed"):
    """A followed transaction is in a block. This is final."""

    tx_hash: HashText
    block_height: Height


class Dropped(Unproven, msgspec.Struct, frozen=True, rename="camel", tag_field="event", tag="txDropped"):
    """A followed transaction ended without being confirmed. On a network the reason is always `nonce used`."""

    tx_hash: HashText
    reason: DropReason


class Payment(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, tag_field="event", tag="payment"
):
    """A transfer from or to a followed address is in a block. This is final."""

    tx_hash: HashText
    block_height: Height
    transaction_index: Position
    sender: AddressText = msgspec.field(name="from")
    to: AddressText
    value: Value
    data: DataText = None
    reference: ReferenceText = None


class TxQueued(msgspec.Struct, frozen=True, rename="camel", tag_field="event", tag="txQueued"):
    """A transaction is queued at the time when it is followed with `queued`."""

    tx_hash: HashText
    queued_reason: Annotated[str, about("What it waits for, such as `waits for nonce 3`.")]


Outcome = Confirmed | Dropped
"""How a followed transaction ended."""


def _raw(text: str) -> bytes:
    if not text.startswith("0x"):
        raise ValueError(f"{text!r} does not start with 0x")
    return bytes.fromhex(text[2:])
