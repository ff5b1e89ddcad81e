import pickle

import pytest

from cairn.client import errors
from cairn.client.errors import BY_CODE, ApiError, ClientError, Limited, Problem, Rejected, Unavailable, error_of
from cairn.client.models import Head


def problem(code: str, status: int, detail: str, field: str | None = None, reason: str | None = None) -> Problem:
    return Problem(title="", status=status, detail=detail, code=code, field=field, reason=reason)


@pytest.mark.parametrize("cls", BY_CODE.values())
def test_a_class_of_each_code_can_be_imported_from_the_client_and_is_a_client_error(cls: type[ApiError]) -> None:
    assert getattr(errors, cls.__name__) is cls
    assert cls.__name__ in errors.__all__
    assert issubclass(cls, ClientError)


@pytest.mark.parametrize(("status", "base"), [(418, Rejected), (429, Limited), (503, Unavailable), (599, ApiError)])
def test_an_unknown_code_is_the_base_class_of_its_status(status: int, base: type[ApiError]) -> None:
    error = error_of(problem("FROM_THE_FUTURE", status, "of a later node"))
    assert type(error) is base
    assert (error.code, error.status, error.detail) == ("FROM_THE_FUTURE", status, "of a later node")
    assert str(error) == "FROM_THE_FUTURE: of a later node"
    assert base.code != "FROM_THE_FUTURE"


def test_an_error_has_all_fields_of_its_problem() -> None:
    dropped = error_of(problem("TX_DROPPED", 404, "gone", reason="replaced"))
    assert isinstance(dropped, errors.TxDropped)
    assert dropped.reason == "replaced"
    invalid = error_of(problem("INVALID_FIELD", 400, "to: no", field="to"))
    assert isinstance(invalid, errors.InvalidField)
    assert invalid.field == "to"
    assert error_of(problem("MEMPOOL_FULL", 503, "full"), 7.0).retry_after_s == 7.0
    assert error_of(problem("MEMPOOL_FULL", 503, "full")).retry_after_s is None


@pytest.mark.parametrize(
    "error",
    [
        *(error_of(problem(code, 400, "no", field="to", reason="evicted"), 3.0) for code in BY_CODE),
        errors.InvalidField("to", "is not a string"),
        errors.NodeUnreachable("away", was_sent=True),
        errors.OutcomeUnknown("0x01"),
        errors.UnexpectedAnswer("not a node"),
        errors.ConfirmationTimeout("0x01", 3),
        errors.ChainReverted(7),
        errors.InvalidProof("not signed"),
        errors.ChainForked(Head(1, "0x01", 0), Head(1, "0x02", 0)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_passes_between_processes_stays_the_same(error: ClientError) -> None:
    error.tx_hash = "0x02"
    received = pickle.loads(pickle.dumps(error))
    assert (type(received), str(received), vars(received)) == (type(error), str(error), vars(error))


def test_codes_of_what_is_not_proven_never_change() -> None:
    kinds = (errors.InvalidProof, errors.ChainForked, errors.OutdatedAnswer)
    assert [kind.code for kind in kinds] == ["INVALID_PROOF", "CHAIN_FORKED", "OUTDATED_ANSWER"]
    assert not {kind.code for kind in kinds} & set(BY_CODE)


@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_which_errors_are_transient(code: str) -> None:
    error = error_of(problem(code, BY_CODE[code].status, ""))
    assert error.is_transient == (BY_CODE[code].status in (429, 503))
