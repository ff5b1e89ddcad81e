"""The fast load generator, against the same server of right and wrong answers as the other one."""

import time

import pytest

from bench.flood import flood
from tests.unit.bench.test_load import CONNECTIONS, echo, get


@pytest.mark.parametrize("connections", [1, CONNECTIONS])
def test_each_request_is_answered_once_after_those_before_it(connections: int) -> None:
    began = time.perf_counter()
    with echo() as port:
        answered_at = flood(port, [get(f"/{number}") for number in range(20)], connections)
    assert len(answered_at) == 20
    assert began < min(answered_at)
    for number, at in enumerate(answered_at):
        # It is sent when all but so many of them are answered.
        assert sum(other < at for other in answered_at[:number]) > number - connections


def test_fewer_requests_than_connections() -> None:
    with echo() as port:
        assert len(flood(port, [get("/a")], CONNECTIONS)) == 1


@pytest.mark.parametrize(
    ("wrong", "told"), [(get("/a", "/b"), "200 OK.*/a"), (get("/fail"), "500 Failed"), (get("/close"), "unexpected")]
)
def test_one_wrong_answer_fails_the_load(wrong: tuple[bytes, bytes], told: str) -> None:
    with echo() as port, pytest.raises(RuntimeError, match=f"(?s){told}"):
        flood(port, [get("/1"), wrong, get("/2")], 1)
