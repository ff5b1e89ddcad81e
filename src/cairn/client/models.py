"""What a node answers, as types; `cairn.domain.answers` describes them."""

from cairn.domain.answers import (
    AccountState,
    Block,
    Chain,
    Checks,
    Confirmed,
    ConfirmedTransaction,
    Dropped,
    Evidence,
    Head,
    Header,
    MempoolItem,
    MempoolSize,
    NewBlock,
    Outcome,
    Payment,
    PendingTransaction,
    Probe,
    Proof,
    Readiness,
    Revert,
    SignedFields,
    Submitted,
    Transaction,
    Transfer,
    Validator,
    Validators,
)

__all__ = [
    "AccountState", "Block", "Chain", "Checks", "Confirmed", "ConfirmedTransaction", "Dropped", "Evidence", "Head",
    "Header", "MempoolItem", "MempoolSize", "NewBlock", "Outcome", "Payment", "PendingTransaction", "Probe", "Proof",
    "Readiness", "Revert", "SignedFields", "Submitted", "Transaction", "Transfer", "Validator", "Validators",
]  # fmt: skip
