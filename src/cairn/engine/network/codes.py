"""Numbers on which all nodes and CometBFT must agree: versions of rules and snapshots, and codes of refusals."""

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
"""Version of the rules: nodes with different versions cannot agree on blocks."""
BLOCKS_AFTER = 2
"""A snapshot's app hash is in the block after its own, the validators that follow in the one after that."""
CODESPACE = "cairn"
REFUSED = 1
"""For a refusal without its own number."""

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
    """The number of its class, or of the nearest base class that has one."""
    return next((_CODES[kind] for kind in type(refusal).__mro__ if kind in _CODES), REFUSED)
