"""The public JSON, as types: its fields, what each means, and what the descriptions say of it.

A type has the name of its schema, with `Json` behind it where another type has that name already. What is said of a
field beside its type is for the description only: nothing here is checked when JSON is read, so it costs nothing.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from cairn.core.gateway import Phase
from cairn.domain.governance import MAX_POWER
from cairn.domain.types import TRANSFER_GAS, DropReason
from cairn.domain.update_text import MAX_SIGNATURES, NAME_PATTERN, PUBLIC_KEY_PATTERN, SIGNATURE_PATTERN

INTERFACE_VERSION = "1.0.0"
MAX_BATCH = 100
MAX_INT64 = 2**63 - 1
"""What a generated client's integers hold. The node's own go to 2^64-1, but nothing that is counted comes near it."""
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
    """A type that has no more to it here than a schema of this name elsewhere."""
    return Annotated[Any, Meta(extra_json_schema=ref(name))]


def wei(description: str) -> Meta:
    """A client that reads it as a number needs one that holds 256 bits."""
    return about(description, **ref("Amount"))


def integer(description: str, most: int = MAX_INT64, least: int = 0) -> Meta:
    return about(description, format="int64", minimum=least, maximum=most)


def hex_bytes(size: int, description: str, digits: str = "0-9a-f") -> Meta:
    return about(description, pattern=f"^0x[{digits}]{{{2 * size}}}$")


AddressText = Annotated[str, hex_bytes(20, "0x and 40 lower-case hexadecimal digits.")]
AnyAddressText = Annotated[
    str,
    about(
        "0x and 40 hexadecimal digits. In mixed case they must carry a right EIP-55 checksum.",
        # A pattern cannot say what a right checksum is.
        format=ADDRESS_FORMAT,
        pattern="^0x[0-9a-fA-F]{40}$",
        examples=[CHECKSUMMED],
    ),
]
HashText = Annotated[str, hex_bytes(32, "0x and 64 lower-case hexadecimal digits.")]
AnyHashText = Annotated[str, Meta(pattern=ANY_HASH)]
Height = Annotated[int, integer("Height of the block; 0 is the genesis block.")]
Time = Annotated[int, integer("Unix time in whole seconds.")]
ChainId = Annotated[int, integer("Chain id (EIP-155).")]
Position = Annotated[int, integer("Its place in the block, from 0.", MAX_POSITION)]
Value = Annotated[int, wei("Wei transferred.")]
Nonce = Annotated[int, integer("Number of the sender's transaction, from 0.")]
Gas = Annotated[int, integer(f"Gas limit; a transfer takes {TRANSFER_GAS}.")]
GasPrice = Annotated[int, wei("Wei paid per gas.")]
TxType = Annotated[
    int | UnsetType,
    integer("Type of the transaction: 2 with maxFeePerGas (EIP-1559), 1 (EIP-2930), 0 or left out of any other.", 2),
]
MaxFee = Annotated[int | UnsetType, wei("Of type 2: the most that it would pay per gas, in wei.")]
MaxTip = Annotated[int | UnsetType, wei("Of type 2: what of that may be above the base fee, in wei.")]


class Problem(msgspec.Struct, frozen=True):
    """What every failure looks like (RFC 9457)."""

    type: Annotated[str, about("Names the code as a URI.", pattern=f"^{PROBLEM_TYPE}[A-Z_]+$")]
    title: Annotated[str, about("The kind of failure, for people.")]
    status: Annotated[int, integer("The HTTP status.", 599, 400)]
    detail: Annotated[str, about("What is wrong with this very request, for people.")]
    code: Annotated[str, Meta(extra_json_schema=ref("ProblemCode"))]
    field: Annotated[str | UnsetType, about("The field that INVALID_FIELD is about.")] = UNSET
    reason: Annotated[DropReason | UnsetType, about("Why TX_DROPPED.")] = UNSET


class SubmissionJson(msgspec.Struct, forbid_unknown_fields=True, gc=False, rename={"sender": "from"}):
    """A transaction to be submitted."""

    sender: AnyAddressText
    to: AnyAddressText
    value: Annotated[int | str, wei("Wei to transfer.")]
    gas: Annotated[int, integer(f"Gas limit; a transfer takes {TRANSFER_GAS}, and no more is charged.")]
    nonce: Annotated[
        int | UnsetType, integer("Number of the sender's transaction. Left out, it means the sender's next one.")
    ] = UNSET
    gasPrice: Annotated[int | str | UnsetType, wei("Wei per gas. Left out, it means the chain's own.")] = UNSET
    signature: Annotated[
        str | UnsetType,
        hex_bytes(65, "r (32 bytes), s (32 bytes, in the lower half: EIP-2), v (0, 1, 27 or 28) over the transaction "
                  "with empty data: legacy (EIP-155), or of its type with an empty access list.", "0-9a-fA-F"),
    ] = UNSET  # fmt: skip
    type: TxType = UNSET
    maxFeePerGas: Annotated[
        int | str | UnsetType,
        wei("Instead of gasPrice, in a transaction of type 2: the most wei that it pays per gas. Left out, it means "
            "the chain's gasPrice and the tip."),
    ] = UNSET  # fmt: skip
    maxPriorityFeePerGas: Annotated[
        int | str | UnsetType,
        wei("Instead of gasPrice, in a transaction of type 2: the tip, in wei per gas. Left out, it means none."),
    ] = UNSET


SubmissionBatch = Annotated[
    list[SubmissionJson],
    Meta(
        title="SubmissionBatch",
        description="Whatever is no submission is answered by a problem in its place; the others stand.",
        max_length=MAX_BATCH,
    ),
]


class Submitted(msgspec.Struct, frozen=True):
    """The transaction is valid, admitted and on disk."""

    status: Annotated[
        Literal["pending", "confirmed"], about("`confirmed` when the very same transaction was confirmed before.")
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
    """A transaction in the mempool: it is on disk and waits for a block."""

    txHash: HashText


class ConfirmedTransaction(TransactionFields, frozen=True, tag_field="status", tag="confirmed"):
    """A transaction in a block, for ever."""

    txHash: HashText
    blockHeight: Height
    blockHash: HashText
    transactionIndex: Position
    fee: Annotated[int, wei("What the sender paid to the block's proposer, in wei.")]


Transaction = Annotated[PendingTransaction | ConfirmedTransaction, Meta(title="Transaction")]
TransactionHistory = Annotated[list[ConfirmedTransaction], Meta(title="TransactionHistory")]


class MempoolItem(msgspec.Struct, frozen=True, rename={"sender": "from"}):
    """A pending transaction."""

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
    """What the sender signed, as `POST /tx` takes it; the transaction's hash covers all of it."""

    sender: AddressText
    to: AddressText
    value: Value
    nonce: Nonce
    gas: Gas
    gasPrice: Annotated[int | UnsetType, wei("Wei paid per gas.")] = UNSET
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
    previousHash: Annotated[str, hex_bytes(32, "Hash of the block before; 32 zero bytes for the genesis block.")]
    timestamp: Time
    transactionsRoot: Annotated[
        str,
        hex_bytes(32, "RFC 6962 Merkle root (SHA-256) over the transaction hashes; Ethereum's empty root without any."),
    ]
    stateRoot: Annotated[str, hex_bytes(32, "Commits to every account after this block.")]
    gasUsed: Annotated[int, integer(f"{TRANSFER_GAS} for each transaction.")]
    proposer: AddressText
    chainId: ChainId
    gasLimit: Annotated[int, integer("Gas that the block has: the chain's blockGasLimit.")]
    baseFeePerGas: Annotated[int, wei("Wei that a unit of gas costs at least: the chain's gasPrice.")]


class BlockJson(HeaderJson, frozen=True):
    """A block and the hashes of its transactions, in their order."""

    transactions: list[HashText]


class BlockSummary(HeaderJson, frozen=True):
    """A block without its transactions."""

    transactionCount: Annotated[int, integer("How many transactions it holds.")]


Blocks = Annotated[list[BlockSummary], Meta(title="Blocks")]


class Proof(msgspec.Struct, frozen=True):
    """The way from a transaction up to the transactions root of its block."""

    txHash: HashText
    transaction: SignedTransaction
    transactionIndex: Position
    transactionCount: Annotated[int, integer("How many transactions the block holds.", least=1)]
    proof: Annotated[list[HashText], about("Siblings, lowest first (RFC 6962).")]
    header: HeaderJson


class ChainHead(msgspec.Struct, frozen=True):
    """The newest block."""

    blockHeight: Height
    hash: HashText
    timestamp: Time


class MempoolLevel(msgspec.Struct, frozen=True):
    """How full the mempool is."""

    pending: Annotated[int, integer("Transactions that the next blocks can take.")]
    queued: Annotated[int, integer("Transactions that wait for a missing nonce.")]
    limit: Annotated[int, integer("Transactions that it holds at most.")]


class LastRevert(msgspec.Struct, frozen=True):
    """How often a dev chain was reverted, and how far the last time. Left out where it never was."""

    number: Annotated[int, integer("1 for the first time, and so on.", least=1)]
    blockHeight: Annotated[int, integer("The newest block right after it: what was above is void.")]


class ChainJson(msgspec.Struct, frozen=True):
    """The chain's parameters and where it stands."""

    chainId: ChainId
    gasPrice: Annotated[int, wei("The least gas price that is taken, in wei.")]
    blockGasLimit: Annotated[int, integer("Gas that one block has.")]
    engine: Annotated[str, about("What orders the transactions.")]
    version: Annotated[str, about("Version of the node.")]
    head: ChainHead
    mempool: MempoolLevel
    lastRevert: LastRevert | UnsetType = UNSET


class AccountJson(msgspec.Struct, frozen=True):
    """An account; one that was never used is empty."""

    address: AddressText
    balance: Annotated[int, wei("Wei that the account holds.")]
    nonce: Annotated[int, integer("The nonce of the next transaction to be confirmed.")]
    pendingNonce: Annotated[int, integer("The nonce after the confirmed and the pending transactions.")]


class FaucetRequest(msgspec.Struct, frozen=True):
    """Who is to get coins."""

    address: AnyAddressText
    amount: Annotated[
        int | str | UnsetType, about("Wei to give. Left out, it means 100 coins.", **ref("FaucetAmount"))
    ] = UNSET


# The validators of a network.

PublicKeyText = Annotated[str, about("Ed25519, in base64.", pattern=PUBLIC_KEY_PATTERN)]
Power = Annotated[int, integer("How much its vote counts.", MAX_POWER)]
ValidatorName = Annotated[str, about("For people.", pattern=NAME_PATTERN)]
Sequence = Annotated[int, integer("How many updates have been applied: the number that the next one must carry.")]


class ValidatorJson(msgspec.Struct, frozen=True):
    """One of those who make the blocks."""

    address: Annotated[str, about("What CometBFT calls the validator.", pattern="^[0-9A-F]{40}$")]
    publicKey: PublicKeyText
    power: Power
    feeRecipient: AddressText
    name: ValidatorName


class Validators(msgspec.Struct, frozen=True):
    """The validators of the network."""

    chainId: ChainId
    blockHeight: Height
    sequence: Sequence
    threshold: Annotated[int, integer("How many administrators must sign an update; 0 when nobody can.")]
    admins: Annotated[list[AddressText], about("Whose signatures count.")]
    validators: list[ValidatorJson]


class ValidatorUpdateValidator(msgspec.Struct, frozen=True):
    """What it becomes; power 0 removes it."""

    publicKey: PublicKeyText
    power: Power
    feeRecipient: AnyAddressText
    name: ValidatorName


class ValidatorUpdateJson(msgspec.Struct, frozen=True):
    """A change of one validator."""

    chainId: Annotated[int, integer("The chain that it is for.", least=1)]
    sequence: Sequence
    validator: ValidatorUpdateValidator
    signatures: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"pattern": SIGNATURE_PATTERN})]],
        about("Those of administrators, as many as the threshold; r, s, v (0 or 1).", maxItems=MAX_SIGNATURES),
    ]


class UpdateSubmitted(msgspec.Struct, frozen=True):
    """The update is on its way."""

    status: Annotated[Literal["submitted"], about("In one word.")]
    sequence: Sequence


# The probes.


class Probe(msgspec.Struct, frozen=True):
    """What the probe found."""

    status: Annotated[str, about("In one word.")]


class ReadinessChecks(msgspec.Struct, frozen=True):
    """`ok`, or what is wrong with the part."""

    store: Annotated[str, about("The chain's store.")]
    mempool: Annotated[str, about("The mempool.")]


class Readiness(msgspec.Struct, frozen=True):
    """What the probe found, part by part."""

    status: Annotated[Phase, about("In one word.")]
    checks: ReadinessChecks
