"""Calls and the rate limit: a batch is as many requests as it has calls."""

from dataclasses import replace

from cairn.api.rpc.caller import Caller
from cairn.api.server.access import RateLimiter
from cairn.config import Settings

FAR, NEAR = "192.0.2.1", "127.0.0.1"


def limiter() -> RateLimiter:
    return RateLimiter(replace(Settings(), rate_limit_per_s=1.0, rate_limit_burst=3), lambda: 0.0)


def test_each_call_counts_but_the_first_of_a_request() -> None:
    shared = limiter()
    caller = Caller(FAR, shared, already_counted=1)
    assert [caller.may_call() for _ in range(5)] == [True, True, True, True, False]
    assert not shared.has_left(FAR)


def test_every_message_of_a_socket_counts() -> None:
    caller = Caller(FAR, limiter())
    assert [caller.may_call() for _ in range(4)] == [True, True, True, False]


def test_a_call_can_count_as_several() -> None:
    caller = Caller(FAR, limiter(), already_counted=1)
    assert caller.may_call()
    assert [caller.may_do(2), caller.may_do(2), caller.may_do(1), caller.may_call()] == [True, False, True, False]


def test_loopback_is_never_limited() -> None:
    caller = Caller(NEAR, limiter())
    assert all(caller.may_call() for _ in range(100))
    assert caller.may_do(1_000)
