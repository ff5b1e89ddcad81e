"""The numbers are part of consensus."""

from cairn.domain.errors import (
    InsufficientFunds,
    InvalidBlock,
    InvalidField,
    InvalidSignature,
    NonceTooLow,
    NotReplayProtected,
    TxRejected,
    UpdateRefused,
)
from cairn.engine.network.codes import REFUSED, code_of


def test_each_refusal_has_its_own_number_for_ever() -> None:
    refusals = (InvalidField("raw", ""), NonceTooLow(""), InsufficientFunds(""), UpdateRefused(""), InvalidBlock(""))
    assert [code_of(refusal) for refusal in refusals] == [2, 7, 9, 13, 14]


def test_no_refusal_looks_like_success() -> None:
    assert code_of(TxRejected("something new")) == REFUSED != 0


def test_a_finer_reason_keeps_the_number_of_the_coarser() -> None:
    assert code_of(NotReplayProtected("")) == code_of(InvalidSignature("")) == 3
