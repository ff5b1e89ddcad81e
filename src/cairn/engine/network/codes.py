"""The number that tells other nodes and CometBFT why a transaction was refused. Part of consensus: never renumber."""

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
from cairn.engine.abci.messages import TxResult

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


def refusal_result(refusal: NodeError) -> TxResult:
    return TxResult(code_of(refusal), log=refusal.detail, codespace=CODESPACE)


def code_of(refusal: NodeError) -> int:
    """The number of its class, or of the nearest one above that has a number."""
    return next((_CODES[kind] for kind in type(refusal).__mro__ if kind in _CODES), REFUSED)
