"""Standard streams that are closed or non-blocking, of real processes."""

import os
import subprocess
import sys
from contextlib import suppress

import pytest

CAIRN = (sys.executable, "-m", "cairn.cli")
NEXT_FILE = """
import os, sys
from cairn.cli.main import app
app(["--version"], standalone_mode=False)
for stream in (sys.stdout, sys.stderr):
    print("\\udc80", file=stream, flush=True)
assert sys.stdin.read() == ""
sys.exit(os.open(os.devnull, os.O_RDONLY))
"""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_no_file_gets_the_number_of_a_closed_stream(closed: str) -> None:
    """What is printed would be written into it."""
    run = subprocess.run(
        ["sh", "-c", f'exec "$0" "$@" {closed}', sys.executable, "-c", NEXT_FILE],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": "utf-8:backslashreplace"},
        check=False,
    )
    assert run.returncode > 2, run.stderr


def test_output_waits_for_the_reader_of_a_non_blocking_pipe() -> None:
    args = (*CAIRN, "dev", "--help")
    expected = subprocess.run(args, capture_output=True, check=True).stdout
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    filled = 0
    with suppress(BlockingIOError):
        while True:
            filled += os.write(writer, b"#" * 4096)
    with subprocess.Popen(args, stdout=writer, stderr=subprocess.PIPE) as program:
        os.close(writer)
        assert program.stderr is not None
        # Nothing is read until it has had time to fail.
        with suppress(subprocess.TimeoutExpired):
            program.wait(1)
        with os.fdopen(reader, "rb") as output:
            assert output.read()[filled:] == expected
        assert program.stderr.read() == b""
    assert program.returncode == 0
