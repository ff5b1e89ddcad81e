"""The numbers that nodes and CometBFT must agree on: of the rules, of a snapshot, and of each reason for a refusal."""

from cairn.domain.errors import (
    GasPriceTooLow,
    GasTooHigh,
    GasTooLow,
    InsufficientFunds,
    InvalidBlock,
    InvalidField,
    InvalidSignature,
    MempoolFull,
    NodeError,
    NonceTooHigh,
    NonceTooLow,
    ReplacementUnderpriced,
    SenderLimit,
    UpdateRefused,
)
from cairn.engine.abci.requests import TxResult

APP_VERSION = 1
"""Of the rules: nodes with different ones cannot agree on blocks."""
BLOCKS_AFTER = 2
"""A snapshot's app hash is in the block after its own, the validators that follow in the one after that."""
CODESPACE = "cairn"
REFUSED = 1
"""For a reason that has no number of its own."""

_CODES: dict[type[NodeError], int] = {
    InvalidField: 2,
    InvalidSignature: 3,
    GasTooLow: 4,
    GasTooHigh: 5,
    GasPriceTooLow: 6,
    NonceTooLow: 7,
    NonceTooHigh: 8,
    InsufficientFunds: 9,
    ReplacementUnderpriced: 10,
    SenderLimit: 11,
    MempoolFull: 12,
    UpdateRefused: 13,
    InvalidBlock: 14,
}
"""Part of consensus: never renumber."""


def refusal_result(refusal: NodeError) -> TxResult:
    return TxResult(code_of(refusal), log=refusal.detail, codespace=CODESPACE)


def code_of(refusal: NodeError) -> int:
    """The number of its class, or of the nearest one above that has a number."""
    return next((_CODES[kind] for kind in type(refusal).__mro__ if kind in _CODES), REFUSED)
