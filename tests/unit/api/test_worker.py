"""What a worker does by itself, besides serving."""

import threading
from collections.abc import Iterator

import pytest

from cairn.api.worker import import_in_background

MORE_THAN_THERE_IS = 1 << 47
"""Bytes: all of the addresses that a process has."""


@pytest.fixture
def _no_more_threads() -> Iterator[None]:
    before = threading.stack_size(MORE_THAN_THERE_IS)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        threading.Thread(target=print).start()
    yield
    threading.stack_size(before)


@pytest.mark.usefixtures("_no_more_threads")
def test_an_early_import_for_which_no_thread_can_be_started_is_left_to_the_first_request() -> None:
    before = threading.active_count()
    import_in_background()
    assert threading.active_count() == before
