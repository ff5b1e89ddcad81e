"""Ready answers: which are kept, and when one does not count any more."""

from pathlib import Path

import pytest

from cairn.api.chain_view import ChainView
from cairn.api.rpc.ready_answers import ReadyAnswers
from cairn.domain.errors import Unavailable


class ShowingView(ChainView):
    """Stands for a view whose store keeps blocks from `base` on."""

    base = 0


@pytest.fixture
def view() -> ShowingView:
    return ShowingView(Path("unused"))


def found(answers: ReadyAnswers, key: bytes) -> bytes | None:
    answer = answers.find(key)
    return None if answer is None else bytes(answer)


def test_an_answer_is_found_as_it_was_kept(view: ShowingView) -> None:
    answers = ReadyAnswers(view, 10_000)
    assert found(answers, b"key") is None
    assert bytes(answers.keep(b"key", 1, b'{"a":1}')) == b'{"a":1}'
    assert found(answers, b"key") == b'{"a":1}'


def test_no_answer_survives_a_revert(view: ShowingView) -> None:
    answers = ReadyAnswers(view, 10_000)
    answers.keep(b"old", 1, b"1")
    view.reverts += 1
    assert found(answers, b"old") is None
    answers.keep(b"new", 1, b"2")
    assert found(answers, b"new") == b"2"
    assert found(answers, b"old") is None


def test_what_is_kept_right_after_a_revert_may_be_forgotten_but_nothing_older_is_found(view: ShowingView) -> None:
    answers = ReadyAnswers(view, 10_000)
    answers.keep(b"old", 1, b"1")
    view.reverts += 1
    answers.keep(b"new", 1, b"2")
    assert found(answers, b"old") is None
    assert found(answers, b"new") in (None, b"2")


def test_no_answer_survives_its_block(view: ShowingView) -> None:
    answers = ReadyAnswers(view, 10_000)
    answers.keep(b"key", 4, b"1")
    view.base = 4
    assert found(answers, b"key") == b"1"
    view.base = 5
    assert found(answers, b"key") is None


def test_nothing_is_found_while_the_store_is_not_open() -> None:
    answers = ReadyAnswers(ChainView(Path("unused")), 10_000)
    answers.keep(b"key", 1, b"1")
    with pytest.raises(Unavailable):
        answers.find(b"key")


def test_no_more_bytes_are_kept_than_allowed(view: ShowingView) -> None:
    answers = ReadyAnswers(view, 10_000)
    for number in range(100):
        answers.keep(b"%d" % number, 1, b"x" * 1_000)
    kept = [number for number in range(100) if found(answers, b"%d" % number) is not None]
    assert kept == list(range(100 - len(kept), 100))
    assert 5 < len(kept) < 10
    # One that would displace most others is not kept at all.
    assert len(bytes(answers.keep(b"long", 1, b"x" * 5_000))) == 5_000
    assert found(answers, b"long") is None
