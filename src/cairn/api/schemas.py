"""The public JSON, as types: its fields, what each means, and its text in the OpenAPI and AsyncAPI documents.

A type has the name of its schema, with `Json` added where another type already has that name. Descriptions, patterns
and bounds are for those documents only. They are not checked when JSON is read, so they cost nothing.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from cairn.core.gateway import Phase
from cairn.domain.governance import (
    KEPT_EVIDENCE,
    MAX_ADMINS,
    MAX_NAME_BYTES,
    MAX_POWER,
    MAX_VALIDATORS,
    NAME_PATTERN,
)
from cairn.domain.types import TRANSFER_GAS, DropReason
from cairn.domain.update_text import PUBLIC_KEY_PATTERN, SIGNATURE_PATTERN
from cairn.store.attendance import WINDOW

INTERFACE_VERSION = "1.0.0"
MAX_BATCH = 100
MAX_INT64 = 2**63 - 1
"""The largest integer of generated clients. The node's own go to 2^64-1, but no count comes near that."""
MAX_POSITION = 2**32 - 1
PROBLEM_TYPE = "urn:cairn:problem:"
ADDRESS_FORMAT = "ethereum-address"
ANY_HASH = "^0x[0-9a-fA-F]{64}$"
CHECKSUMMED = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"


def about(description: str, **schema: Any) -> Meta:
    return Meta(description=description, extra_json_schema=schema)


def ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def described(name: str) -> Any:
    """A type whose schema is declared elsewhere under this name."""
    return Annotated[Any, Meta(extra_json_schema=ref(name))]


def wei(description: str) -> Meta:
    """An amount. A client that reads it as a number needs 256 bits."""
    return about(description, **ref("Amount"))


def integer(description: str, most: int = MAX_INT64, least: int = 0) -> Meta:
    return about(description, format="int64", minimum=least, maximum=most)


def hex_bytes(size: int, description: str, digits: str = "0-9a-f") -> Meta:
    return about(description, pattern=f"^0x[{digits}]{{{2 * size}}}$")


AddressText = Annotated[str, hex_bytes(20, "0x and 40 lower-case hexadecimal digits.")]
AnyAddressText = Annotated[
    str,
    about(
        "0x and 40 hexadecimal digits. In mixed case, the EIP-55 checksum must be correct.",
        # A pattern cannot express the checksum.
        format=ADDRESS_FORMAT,
        pattern="^0x[0-9a-fA-F]{40}$",
        examples=[CHECKSUMMED],
    ),
]
HashText = Annotated[str, hex_bytes(32, "0x and 64 lower-case hexadecimal digits.")]
AnyHashText = Annotated[str, Meta(pattern=ANY_HASH)]
GenesisText = Annotated[str, hex_bytes(32, "Digest of genesis.json, which tells chains with the same id apart.")]
Height = Annotated[int, integer("Height of the block; 0 is the genesis block.")]
Time = Annotated[int, integer("Unix time in whole seconds.")]
ChainId = Annotated[int, integer("Chain id (EIP-155).")]
Position = Annotated[int, integer("Position in the block, from 0.", MAX_POSITION)]
Value = Annotated[int, wei("Wei transferred.")]
Nonce = Annotated[int, integer("Number of the transaction among its sender's, from 0.")]
Gas = Annotated[int, integer(f"Gas limit; a transfer uses {TRANSFER_GAS}.")]
GasPrice = Annotated[int, wei("Wei paid per unit of gas.")]
TxType = Annotated[
    int | UnsetType,
    integer("Type of the transaction: 2 (EIP-1559), 1 (EIP-2930), or 0 (legacy), which may be left out.", 2),
]
MaxFee = Annotated[int | UnsetType, wei("Type 2 only: the most that it pays per unit of gas, in wei.")]
MaxTip = Annotated[
    int | UnsetType, wei("Type 2 only: the most that it pays above the base fee, per unit of gas, in wei.")
]


class Problem(msgspec.Struct, frozen=True):
    """An error (RFC 9457)."""

    type: Annotated[str, about("The code as a URI.", pattern=f"^{PROBLEM_TYPE}[A-Z_]+$")]
    title: Annotated[str, about("The kind of error, for people.")]
    status: Annotated[int, integer("The HTTP status.", 599, 400)]
    detail: Annotated[str, about("What is wrong with this request, for people.")]
    code: Annotated[str, Meta(extra_json_schema=ref("ProblemCode"))]
    field: Annotated[str | UnsetType, about("The field that is wrong. INVALID_FIELD only.")] = UNSET
    reason: Annotated[DropReason | UnsetType, about("Why the transaction was dropped. TX_DROPPED only.")] = UNSET


class SubmissionJson(msgspec.Struct, forbid_unknown_fields=True, gc=False, rename={"sender": "from"}):
    """A transaction to submit."""

    sender: AnyAddressText
    to: AnyAddressText
    value: Annotated[int | str, wei("Wei to transfer.")]
    gas: Annotated[
        int, integer(f"Gas limit. A transfer uses {TRANSFER_GAS}; a higher limit is accepted and not charged.")
    ]
    nonce: Annotated[
        int | UnsetType, integer("Number of the transaction among its sender's. If left out, the sender's next nonce.")
    ] = UNSET
    gasPrice: Annotated[int | str | UnsetType, wei("Wei per unit of gas. If left out, the chain's gas price.")] = UNSET
    signature: Annotated[
        str | UnsetType,
        hex_bytes(65, "The sender's signature: r (32 bytes), s (32 bytes, in the lower half: EIP-2), v (0, 1, 27 or "
                  "28). It covers the transaction with empty data and an empty access list.", "0-9a-fA-F"),
    ] = UNSET  # fmt: skip
    type: TxType = UNSET
    maxFeePerGas: Annotated[
        int | str | UnsetType,
        wei("Type 2 only, instead of gasPrice: the most that it pays per unit of gas, in wei. If left out, the chain's "
            "gasPrice plus the tip."),
    ] = UNSET  # fmt: skip
    maxPriorityFeePerGas: Annotated[
        int | str | UnsetType,
        wei("Type 2 only, instead of gasPrice: the tip per unit of gas, in wei. If left out, 0."),
    ] = UNSET


SubmissionBatch = Annotated[
    list[SubmissionJson],
    Meta(
        title="SubmissionBatch",
        description="An item that is not a valid submission gets an error in its place; the others are served.",
        max_length=MAX_BATCH,
    ),
]


class Submitted(msgspec.Struct, frozen=True):
    """The transaction is valid, accepted and on disk."""

    status: Annotated[
        Literal["pending", "confirmed"],
        about("`confirmed` if this transaction was sent before and is already in a block."),
    ]
    txHash: HashText


BatchAnswer = Annotated[Any, Meta(title="BatchAnswer", extra_json_schema={"oneOf": [ref("Submitted"), ref("Problem")]})]
BatchResult = Annotated[list[BatchAnswer], Meta(title="BatchResult", max_length=MAX_BATCH)]


class TransactionFields(msgspec.Struct, frozen=True, kw_only=True, rename={"sender": "from"}):
    sender: AddressText
    to: AddressText
    value: Value
    nonce: Nonce
    gas: Gas
    gasPrice: GasPrice
    type: TxType = UNSET
    maxFeePerGas: MaxFee = UNSET
    maxPriorityFeePerGas: MaxTip = UNSET


class PendingTransaction(TransactionFields, frozen=True, tag_field="status", tag="pending"):
    """A transaction that is not in a block yet."""

    txHash: HashText
    notHeld: Annotated[
        Literal["replaced", "evicted", "expired"] | UnsetType,
        about("Why the mempool of this node no longer holds it. Another node may still confirm it. Networks only."),
    ] = UNSET
    replacedBy: Annotated[
        str | UnsetType,
        hex_bytes(32, "If it is no longer held: the transaction that is, with the same sender and nonce."),
    ] = UNSET


class ConfirmedTransaction(TransactionFields, frozen=True, tag_field="status", tag="confirmed"):
    """A transaction in a block. This is final."""

    txHash: HashText
    blockHeight: Height
    blockHash: HashText
    transactionIndex: Position
    fee: Annotated[int, wei("What the sender paid to the proposer of the block, in wei.")]


Transaction = Annotated[PendingTransaction | ConfirmedTransaction, Meta(title="Transaction")]
TransactionHistory = Annotated[list[ConfirmedTransaction], Meta(title="TransactionHistory")]


class MempoolItem(msgspec.Struct, frozen=True, rename={"sender": "from"}):
    """A transaction in the mempool."""

    txHash: HashText
    sender: AddressText
    to: AddressText
    value: Value
    nonce: Nonce
    gas: Gas
    gasPrice: GasPrice
    receivedAt: Time
    type: TxType = UNSET
    maxFeePerGas: MaxFee = UNSET
    maxPriorityFeePerGas: MaxTip = UNSET


Mempool = Annotated[list[MempoolItem], Meta(title="Mempool")]


class SignedTransaction(msgspec.Struct, frozen=True, kw_only=True, rename={"sender": "from"}):
    """What the sender signed, in the form of `POST /tx`. The transaction's hash covers all of it."""

    sender: AddressText
    to: AddressText
    value: Value
    nonce: Nonce
    gas: Gas
    gasPrice: Annotated[int | UnsetType, wei("Wei paid per unit of gas.")] = UNSET
    signature: Annotated[str, hex_bytes(65, "r, s and v (0 or 1).")]
    type: TxType = UNSET
    maxFeePerGas: MaxFee = UNSET
    maxPriorityFeePerGas: MaxTip = UNSET


# Blocks and the chain.


class HeaderJson(msgspec.Struct, frozen=True):
    """Everything that the block's hash covers."""

    blockHeight: Height
    hash: Annotated[
        str,
        hex_bytes(32, "keccak-256 of the header in RLP, with the fields of Ethereum's headers since London "
                  "(docs/formats.md)."),
    ]  # fmt: skip
    previousHash: Annotated[str, hex_bytes(32, "Hash of the parent block; 32 zero bytes for the genesis block.")]
    timestamp: Time
    transactionsRoot: Annotated[
        str,
        hex_bytes(
            32, "RFC 6962 Merkle root (SHA-256) of the transaction hashes; Ethereum's empty root if there are none."
        ),
    ]
    stateRoot: Annotated[str, hex_bytes(32, "Hash over the balance and nonce of every account after this block.")]
    gasUsed: Annotated[int, integer(f"{TRANSFER_GAS} for each transaction.")]
    proposer: AddressText
    chainId: ChainId
    gasLimit: Annotated[int, integer("The most gas that a block can use: the chain's blockGasLimit.")]
    baseFeePerGas: Annotated[int, wei("The least that a unit of gas costs, in wei: the chain's gasPrice.")]


class BlockJson(HeaderJson, frozen=True):
    """A block with the hashes of its transactions, in their order."""

    transactions: list[HashText]


class BlockSummary(HeaderJson, frozen=True):
    """A block without its transactions."""

    transactionCount: Annotated[int, integer("How many transactions the block holds.")]


Blocks = Annotated[list[BlockSummary], Meta(title="Blocks")]


class Proof(msgspec.Struct, frozen=True):
    """Shows that a block holds a transaction: the Merkle path to the transactions root in the header."""

    txHash: HashText
    transaction: SignedTransaction
    transactionIndex: Position
    transactionCount: Annotated[int, integer("How many transactions the block holds.", least=1)]
    proof: Annotated[list[HashText], about("Sibling hashes of the Merkle path, lowest level first (RFC 6962).")]
    header: HeaderJson


class ChainHead(msgspec.Struct, frozen=True):
    """The latest block."""

    blockHeight: Height
    hash: HashText
    timestamp: Time


class MempoolLevel(msgspec.Struct, frozen=True):
    """How full the mempool is."""

    pending: Annotated[int, integer("Transactions that can be mined now.")]
    queued: Annotated[int, integer("Transactions that wait for a missing nonce of their sender.")]
    limit: Annotated[int, integer("The most transactions that the mempool holds.")]


class LastRevert(msgspec.Struct, frozen=True):
    """The last revert of a dev chain. Left out if there was none."""

    number: Annotated[int, integer("How many reverts there have been.", least=1)]
    blockHeight: Annotated[int, integer("The latest block after the revert. Blocks above it are void.")]


class ChainJson(msgspec.Struct, frozen=True):
    """The chain's rules and its latest block."""

    chainId: ChainId
    gasPrice: Annotated[int, wei("The least gas price that is accepted, in wei.")]
    blockGasLimit: Annotated[int, integer("The most gas that a block can use.")]
    engine: Annotated[str, about("What makes the blocks: `embedded` or `cometbft`.")]
    version: Annotated[str, about("Version of the node.")]
    head: ChainHead
    mempool: MempoolLevel
    lastRevert: LastRevert | UnsetType = UNSET


class AccountJson(msgspec.Struct, frozen=True):
    """An account. One that was never used has balance 0 and nonce 0."""

    address: AddressText
    balance: Annotated[int, wei("Wei that the account holds.")]
    nonce: Annotated[int, integer("How many transactions of the account are confirmed.")]
    pendingNonce: Annotated[
        int, integer("The nonce for the account's next transaction: after the confirmed and the pending ones.")
    ]


class FaucetRequest(msgspec.Struct, frozen=True):
    """Who gets the coins, and how many."""

    address: AnyAddressText
    amount: Annotated[int | str | UnsetType, about("Wei to send. If left out, 100 coins.", **ref("FaucetAmount"))] = (
        UNSET
    )


# The validators of a network.

PublicKeyText = Annotated[str, about("Ed25519, in base64.", pattern=PUBLIC_KEY_PATTERN)]
Power = Annotated[int, integer("The weight of the validator's vote.", MAX_POWER)]
ValidatorName = Annotated[str, about("A name for people.", pattern=NAME_PATTERN, maxLength=MAX_NAME_BYTES)]
Sequence = Annotated[int, integer("How many updates were applied. The next update must have this number.")]


EngineAddress = Annotated[str, about("The validator's address in CometBFT.", pattern="^[0-9A-F]{40}$")]
EvidenceKindText = Literal["duplicateVote", "lightClientAttack", "unknown"]


class ValidatorJson(msgspec.Struct, frozen=True):
    """A node that votes on blocks."""

    address: EngineAddress
    publicKey: PublicKeyText
    power: Power
    feeRecipient: AddressText
    name: ValidatorName
    missedBlocks: Annotated[int, integer("In how many of the latest `votedBlocks` blocks its vote is missing.")]
    evidence: Annotated[int, integer("How many of the listed pieces of evidence are against it.")]


class EvidenceJson(msgspec.Struct, frozen=True):
    """Proof that a validator broke the rules of consensus, verified by CometBFT and held in a block."""

    address: EngineAddress
    name: Annotated[str, about("Its name at that time; empty if it was no validator any more.")]
    kind: Annotated[
        EvidenceKindText,
        about("`duplicateVote`: it signed two votes of one round. `lightClientAttack`: it signed a false block."),
    ]
    blockHeight: Height
    timestamp: Time


class Validators(msgspec.Struct, frozen=True):
    """The validators of the network."""

    chainId: ChainId
    genesis: GenesisText
    blockHeight: Height
    sequence: Sequence
    threshold: Annotated[int, integer("How many administrators must sign an update; 0 if the chain has none.")]
    admins: Annotated[list[AddressText], about("The administrators.")]
    validators: list[ValidatorJson]
    votedBlocks: Annotated[int, integer("How many of the latest blocks `missedBlocks` is counted in.", WINDOW)]
    evidenceCount: Annotated[int, integer("How many pieces of evidence the chain has had in all.")]
    evidence: Annotated[list[EvidenceJson], about("The latest pieces, newest first.", maxItems=KEPT_EVIDENCE)]


class ValidatorUpdateValidator(msgspec.Struct, frozen=True):
    """The validator after the update. Power 0 removes it."""

    publicKey: PublicKeyText
    power: Power
    feeRecipient: AnyAddressText
    name: ValidatorName


class ValidatorUpdateBefore(msgspec.Struct, frozen=True):
    """The validators before the update. It is signed too, and must be true."""

    power: Annotated[int, integer("Power of this key; 0 if it is new.", MAX_POWER)]
    totalPower: Annotated[int, integer("Power of all validators.")]
    validators: Annotated[int, integer("How many validators there are.", MAX_VALIDATORS)]
    namesakes: Annotated[int, integer("How many other validators have the same name.", MAX_VALIDATORS)]


class ValidatorUpdateAdmins(msgspec.Struct, frozen=True):
    """Administrators, and how many of them must sign."""

    threshold: Annotated[int, integer("How many must sign.", MAX_ADMINS, 1)]
    addresses: Annotated[list[AnyAddressText], about("Their accounts.", minItems=1, maxItems=MAX_ADMINS)]


class ValidatorUpdateJson(msgspec.Struct, frozen=True, kw_only=True):
    """A change of one validator (`validator` and `before`), or of the administrators (`admins` and `replaces`)."""

    chainId: Annotated[int, integer("The chain that the update is for.", least=1)]
    genesis: Annotated[str, hex_bytes(32, "Its genesis, as in `GET /validators`.")]
    sequence: Sequence
    validator: ValidatorUpdateValidator | UnsetType = UNSET
    before: ValidatorUpdateBefore | UnsetType = UNSET
    admins: Annotated[ValidatorUpdateAdmins | UnsetType, about("The administrators after the update.")] = UNSET
    replaces: Annotated[ValidatorUpdateAdmins | UnsetType, about("The administrators before the update.")] = UNSET
    signatures: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"pattern": SIGNATURE_PATTERN})]],
        about("Signatures of as many administrators as the threshold: r, s, v (0 or 1).", maxItems=MAX_ADMINS),
    ]


class UpdateSubmitted(msgspec.Struct, frozen=True):
    """The update is valid, and CometBFT has it."""

    status: Annotated[Literal["submitted"], about("Always `submitted`.")]
    sequence: Sequence


# The probes.


class Probe(msgspec.Struct, frozen=True):
    """The result of a probe."""

    status: Annotated[str, about("`alive`, `starting` or `started`.")]


class ReadinessChecks(msgspec.Struct, frozen=True):
    """The result for each part: `ok`, or what is wrong."""

    store: Annotated[str, about("The store.")]
    mempool: Annotated[str, about("The mempool.")]


class Readiness(msgspec.Struct, frozen=True):
    """The result of the probe `/ready`."""

    status: Annotated[Phase, about("`ready` if the node accepts transactions.")]
    checks: ReadinessChecks
