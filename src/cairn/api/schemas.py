"""The public JSON, as types. Field names are the interface's own."""

import msgspec

Hex = str
"""`0x` and lower-case hexadecimal digits."""


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """What every failure looks like (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    """Stable, for programs; the other texts are for people."""
    field: str | None = None
    """The field that INVALID_FIELD is about."""
    reason: str | None = None
    """Why TX_DROPPED."""


class Submitted(msgspec.Struct, frozen=True):
    status: str
    txHash: Hex


class PendingItem(msgspec.Struct, frozen=True):
    """One entry of GET /mempool."""

    txHash: Hex
    sender: Hex = msgspec.field(name="from")
    to: Hex
    value: int
    nonce: int
    gas: int
    gasPrice: int
    receivedAt: int
    type: int | msgspec.UnsetType = msgspec.UNSET
    maxFeePerGas: int | msgspec.UnsetType = msgspec.UNSET
    maxPriorityFeePerGas: int | msgspec.UnsetType = msgspec.UNSET


class HeaderView(msgspec.Struct, frozen=True):
    """Everything that a block's hash covers."""

    blockHeight: int
    hash: Hex
    previousHash: Hex
    timestamp: int
    transactionsRoot: Hex
    stateRoot: Hex
    gasUsed: int
    proposer: Hex
    chainId: int
    gasLimit: int
    baseFeePerGas: int


class BlockSummary(HeaderView, frozen=True):
    """One entry of GET /blocks."""

    transactionCount: int


class HeadView(msgspec.Struct, frozen=True):
    blockHeight: int
    hash: Hex
    timestamp: int


class MempoolView(msgspec.Struct, frozen=True):
    pending: int
    queued: int
    limit: int


class RevertView(msgspec.Struct, frozen=True):
    number: int
    blockHeight: int


class ChainSummary(msgspec.Struct, frozen=True):
    chainId: int
    gasPrice: int
    blockGasLimit: int
    engine: str
    version: str
    head: HeadView
    mempool: MempoolView
    lastRevert: RevertView | msgspec.UnsetType = msgspec.UNSET


class AccountView(msgspec.Struct, frozen=True):
    address: Hex
    balance: int
    nonce: int
    pendingNonce: int


class SignedView(msgspec.Struct, frozen=True):
    """What its sender signed, as `POST /tx` takes it: the transaction's hash covers all of it."""

    sender: Hex = msgspec.field(name="from")
    to: Hex
    value: int
    nonce: int
    gas: int
    gasPrice: int | msgspec.UnsetType
    signature: Hex
    type: int | msgspec.UnsetType = msgspec.UNSET
    maxFeePerGas: int | msgspec.UnsetType = msgspec.UNSET
    maxPriorityFeePerGas: int | msgspec.UnsetType = msgspec.UNSET


class ProofView(msgspec.Struct, frozen=True):
    """The way from a transaction up to the root in the header, lowest sibling first."""

    txHash: Hex
    transaction: SignedView
    transactionIndex: int
    transactionCount: int
    proof: list[Hex]
    header: HeaderView


class ValidatorView(msgspec.Struct, frozen=True):
    address: str
    """What CometBFT calls it."""
    publicKey: str
    power: int
    feeRecipient: Hex
    name: str


class ValidatorsView(msgspec.Struct, frozen=True):
    """Who makes the blocks, and who may change that; an extension for networks."""

    chainId: int
    blockHeight: int
    sequence: int
    threshold: int
    admins: list[Hex]
    validators: list[ValidatorView]


class UpdateSubmitted(msgspec.Struct, frozen=True):
    status: str
    sequence: int


class ProbeStatus(msgspec.Struct, frozen=True):
    status: str


class CheckResults(msgspec.Struct, frozen=True):
    store: str
    mempool: str


class Readiness(msgspec.Struct, frozen=True):
    status: str
    checks: CheckResults
