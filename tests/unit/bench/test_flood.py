"""The fast load generator, against the same server of right and wrong answers as the other one."""

import pytest

from bench.flood import flood
from tests.unit.bench.test_load import CONNECTIONS, echo, get


def test_each_request_is_answered_once() -> None:
    with echo() as port:
        ended_at = flood(port, [get(f"/{number}") for number in range(10)], CONNECTIONS)
    assert len(ended_at) == 10
    assert ended_at == sorted(ended_at)


def test_fewer_requests_than_connections() -> None:
    with echo() as port:
        assert len(flood(port, [get("/a")], CONNECTIONS)) == 1


@pytest.mark.parametrize(
    ("wrong", "told"), [(get("/a", "/b"), "200 OK.*/a"), (get("/fail"), "500 Failed"), (get("/close"), "unexpected")]
)
def test_one_wrong_answer_fails_the_load(wrong: tuple[bytes, bytes], told: str) -> None:
    with echo() as port, pytest.raises(RuntimeError, match=f"(?s){told}"):
        flood(port, [get("/1"), wrong, get("/2")], 1)
