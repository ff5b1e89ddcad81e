"""A disk that cannot be looked at is not an empty one: nothing new is begun on it."""

import errno
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import cairn.store
from cairn.domain.errors import StoreUnavailable
from cairn.store.chain import ChainStore
from cairn.store.directory import is_directory, is_file, is_there, names_in
from tests.support.blocks import grow, store_genesis
from tests.support.disk import files_of

FAILURES = (errno.EIO, errno.EACCES, errno.ELOOP, errno.ENOTDIR)
"""`Path.exists` takes the last two for absence, and all of them in Python 3.14."""
LOOKS = ("stat", "lstat", "listdir", "scandir")


def fail_looks(monkeypatch: pytest.MonkeyPatch, number: int, is_hidden: Callable[[Path], bool]) -> None:
    """Let the system fail with this error where somebody looks for one of the hidden paths, or into it."""

    def look(real: Callable[..., Any], path: Any = ".", *args: Any, **kwargs: Any) -> Any:
        if not isinstance(path, int) and is_hidden(Path(os.fsdecode(path))):
            raise OSError(number, os.strerror(number), str(path))
        return real(path, *args, **kwargs)

    for name in LOOKS:
        monkeypatch.setattr(os, name, partial(look, getattr(os, name)))


@pytest.mark.parametrize("number", FAILURES)
@pytest.mark.parametrize("hidden", ["", "FORMAT", "watermark", "chain", "chain/CURRENT", "journal"])
def test_a_chain_that_cannot_be_looked_at_is_not_begun_anew(
    chain: ChainStore, monkeypatch: pytest.MonkeyPatch, number: int, hidden: str
) -> None:
    grow(chain, 3, 10)
    chain.close()
    directory = chain.directory
    (directory / "journal").mkdir()
    place, before = directory / hidden, files_of(directory)
    with monkeypatch.context() as failing:
        # With all of it hidden, the directory itself is there, as a mounted disk is.
        fail_looks(failing, number, lambda path: place in path.parents or (path == place and hidden != ""))
        with pytest.raises(StoreUnavailable, match="cannot look"):
            ChainStore.open(directory, store_genesis())
    assert files_of(directory) == before
    reopened = ChainStore.open(directory, store_genesis())
    assert reopened.visible == 3
    reopened.close()


@pytest.mark.parametrize("number", FAILURES)
def test_a_file_that_cannot_be_looked_at_is_an_error_and_not_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    path = tmp_path / "path"
    assert not any(look(path) for look in (is_there, is_directory, is_file, names_in))
    path.mkdir()
    (path / "name").touch()
    assert (is_there(path), is_directory(path), is_file(path), names_in(path)) == (True, True, False, ["name"])
    assert (is_there(path / "name"), is_directory(path / "name"), is_file(path / "name")) == (True, False, True)
    fail_looks(monkeypatch, number, lambda asked: asked == path)
    for look in (is_there, is_directory, is_file, names_in):
        with pytest.raises(StoreUnavailable, match=f"cannot look (for|into) {path}"):
            look(path)


def test_the_store_asks_for_files_by_these_functions_only() -> None:
    loose = re.compile(r"\.(exists|is_file|is_dir|glob|rglob|iterdir)\(")
    [package] = cairn.store.__path__
    sources = sorted(Path(package).glob("*.py"))
    assert len(sources) > 10
    assert [path.name for path in sources if loose.search(path.read_text())] == []
