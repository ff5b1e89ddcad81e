"""What a worker does by itself, besides serving."""

import gc
import sys
import threading
from collections.abc import Iterator

import pytest

from cairn.api import worker
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


@pytest.mark.parametrize("fails", [False, True])
def test_an_early_import_gives_the_lock_of_python_back_sooner_and_then_all_is_as_before(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    usual_s = sys.getswitchinterval()
    seen: list[tuple[float, bool]] = []

    def import_now() -> None:
        seen.append((sys.getswitchinterval(), gc.isenabled()))
        if fails:
            raise OSError("too many open files")

    monkeypatch.setattr(worker, "import_encoder", import_now)
    worker._import_quietly()
    [(switch_s, collects)] = seen
    assert switch_s == pytest.approx(worker.IMPORT_SWITCH_S)
    assert not collects
    assert sys.getswitchinterval() == pytest.approx(usual_s)
    assert gc.isenabled()
    gc.unfreeze()
