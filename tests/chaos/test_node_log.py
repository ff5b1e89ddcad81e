"""What is found of errors in the log of a node, and which of them a fault explains."""

import pytest

from tests.chaos.node_log import LoggedError, check_explained, find_errors

TRACEBACK = """\
Traceback (most recent call last):
  File "worker.py", line 107, in _import_early
    Thread(target=import_encoder).start()
RuntimeError: can't start new thread"""
RECORD = f"2026-11-18 14:35:02 [error    ] Exception in callback          [asyncio]\n{TRACEBACK}"
QUIET = "2026-11-18 14:35:01 [warning  ] the wall clock has jumped      [cairn.core] by_s=90"
CHAIN = """\
2026-11-18 14:35:03 [error    ] a request failed               [cairn.api] path=/tx
Traceback (most recent call last):
  File "store.py", line 1, in read
OSError: [Errno 5] Input/output error

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "store.py", line 2, in read
cairn.domain.errors.StoreUnavailable: the disk fails"""
CRASH = "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f (most recent call first):"


def test_an_error_is_kept_whole_with_the_line_that_it_belongs_to() -> None:
    [error] = find_errors(f"{QUIET}\n{RECORD}\n{QUIET}\n", ["clock"])
    assert (error.text, error.name, error.faults) == (RECORD, "RuntimeError", ["clock"])


def test_a_log_without_errors_has_none() -> None:
    assert list(find_errors(f"{QUIET}\n{QUIET}\n", [])) == []


@pytest.mark.parametrize(
    ("printed", "name"),
    [(TRACEBACK, "RuntimeError"), (CHAIN, "StoreUnavailable"), (CRASH, "Fatal Python error: Segmentation fault")],
    ids=["no record before it", "a cause and what it caused", "a crash"],
)
def test_each_way_of_printing_an_error_is_one_error_with_a_name(printed: str, name: str) -> None:
    [error] = find_errors(printed, [])
    assert (error.text, error.name) == (printed, name)


@pytest.mark.parametrize(
    ("text", "faults", "is_explained"),
    [
        (TRACEBACK, ["memory: worker"], True),
        (TRACEBACK, ["kill: core", "memory: core"], True),
        (TRACEBACK, ["kill: worker"], False),
        (TRACEBACK, [], False),
        ("RuntimeError: the handler is closed", ["memory: worker"], False),
        ("OSError: [Errno 24] Too many open files", ["descriptors: core"], True),
        ("OSError: [Errno 24] Too many open files", ["memory: core"], False),
    ],
)
def test_only_the_lack_of_something_explains_an_error_and_only_its_own(
    text: str, faults: list[str], is_explained: bool
) -> None:
    assert LoggedError(text, faults).is_explained is is_explained


def test_one_error_without_an_explanation_fails_a_run_and_is_shown_in_full() -> None:
    explained = LoggedError("MemoryError", ["memory: core"])
    check_explained([explained])
    with pytest.raises(AssertionError, match="1 unexpected errors in a log") as failed:
        check_explained([explained, LoggedError(RECORD, ["kill: core"])])
    assert RECORD in str(failed.value)
