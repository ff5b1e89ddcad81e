import pytest

from cairn.api.errors import ANSWERS
from cairn.client import errors
from cairn.client.errors import BY_CODE, ApiError, Limited, Problem, Rejected, Unavailable, error_of

STATUS_BY_CODE = {cls.code: answer.status for cls, answer in ANSWERS.items()}


def test_there_is_a_class_for_each_code_of_the_interface_and_for_no_other() -> None:
    assert BY_CODE.keys() == STATUS_BY_CODE.keys()


@pytest.mark.parametrize(("code", "status"), sorted(STATUS_BY_CODE.items()))
def test_a_class_has_the_code_and_the_status_of_the_interface(code: str, status: int) -> None:
    assert (BY_CODE[code].code, BY_CODE[code].status) == (code, status)
    assert BY_CODE[code] in vars(errors).values()


@pytest.mark.parametrize(("status", "base"), [(418, Rejected), (429, Limited), (503, Unavailable), (599, ApiError)])
def test_an_unknown_code_is_the_base_class_of_its_status(status: int, base: type[ApiError]) -> None:
    error = error_of(Problem("A title", status, "of a later node", "FROM_THE_FUTURE"))
    assert type(error) is base
    assert (error.code, error.status, error.detail) == ("FROM_THE_FUTURE", status, "of a later node")
    assert str(error) == "FROM_THE_FUTURE: of a later node"
    assert base.code != "FROM_THE_FUTURE"


def test_a_problem_keeps_all_that_it_says() -> None:
    dropped = error_of(Problem("", 404, "gone", "TX_DROPPED", reason="replaced"))
    assert isinstance(dropped, errors.TxDropped)
    assert dropped.reason == "replaced"
    invalid = error_of(Problem("", 400, "to: no", "INVALID_FIELD", field="to"))
    assert isinstance(invalid, errors.InvalidField)
    assert invalid.field == "to"
    assert error_of(Problem("", 503, "full", "MEMPOOL_FULL"), 5.0).retry_after_s == 5.0


@pytest.mark.parametrize("code", sorted(STATUS_BY_CODE))
def test_only_what_may_pass_by_itself_is_transient(code: str) -> None:
    error = error_of(Problem("", STATUS_BY_CODE[code], "", code))
    assert error.is_transient == (STATUS_BY_CODE[code] in (429, 503))
