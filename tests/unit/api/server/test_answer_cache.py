"""Ready answers are kept up to a bound, the least recently used go first."""

from cairn.api.server.answer_cache import ENTRY_OVERHEAD_BYTES, AnswerCache


def test_the_least_recently_used_goes_first() -> None:
    cache = AnswerCache(max_bytes=10 * (100 + ENTRY_OVERHEAD_BYTES))
    for number in range(10):
        cache.keep(b"%d" % number, b"x" * 100)
    assert cache.find(b"0") == b"x" * 100
    cache.keep(b"new", b"x" * 100)
    assert cache.find(b"1") is None
    assert cache.find(b"0") is not None
    assert cache.find(b"new") is not None


def test_one_huge_answer_does_not_push_out_the_others() -> None:
    cache = AnswerCache(max_bytes=1_000)
    cache.keep(b"small", b"x")
    cache.keep(b"huge", b"x" * 900)
    assert cache.find(b"huge") is None
    assert cache.find(b"small") == b"x"


def test_what_is_kept_stays_as_it_is() -> None:
    cache = AnswerCache(max_bytes=10_000)
    cache.keep(b"key", b"first")
    cache.keep(b"key", b"second")
    assert cache.find(b"key") == b"first"
