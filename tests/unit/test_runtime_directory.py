"""Where a node has its sockets: the first of several places that will do."""

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cairn import runtime_directory as module
from cairn.domain.errors import InvalidConfig
from cairn.running_node import core_socket_in
from cairn.runtime_directory import candidates, runtime_directory


@pytest.fixture(autouse=True)
def _no_places(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RUNTIME_DIRECTORY", "TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Shorter than pytest's own, which leaves no room for a socket where tests run in several processes."""
    with tempfile.TemporaryDirectory(prefix="cairn-", dir="/tmp") as directory:
        yield Path(directory)


def make(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def only(monkeypatch: pytest.MonkeyPatch, *places: Path) -> None:
    monkeypatch.setattr(module, "candidates", lambda: list(places))


def test_the_service_managers_directory_comes_before_those_for_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, temporary = make(tmp_path / "given"), make(tmp_path / "temporary")
    # It may make several.
    monkeypatch.setenv("RUNTIME_DIRECTORY", f"{given}:{temporary}")
    monkeypatch.setenv("TMPDIR", str(temporary))
    with runtime_directory(tmp_path) as path, socket.socket(socket.AF_UNIX) as bound:
        assert path.parent == given
        assert path.stat().st_mode & 0o777 == 0o700
        bound.bind(str(core_socket_in(path)))
    assert list(given.iterdir()) == []


def test_without_any_variable_the_systems_places_are_tried() -> None:
    assert candidates() == [Path("/tmp"), Path("/var/tmp")]


@pytest.mark.parametrize("unusable", ["missing", "long" * 25, "file/below"])
def test_a_place_that_will_not_do_gives_way_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unusable: str
) -> None:
    (tmp_path / "file").touch()
    if unusable.startswith("long"):
        make(tmp_path / unusable)
    only(monkeypatch, tmp_path / unusable, make(tmp_path / "short"))
    with runtime_directory(tmp_path) as path:
        assert path.parent == tmp_path / "short"
    assert os.listdir(tmp_path / "short") == []
    assert not unusable.startswith("long") or os.listdir(tmp_path / unusable) == []


def test_where_only_the_home_can_be_written_to_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, tmp_path / "missing")
    for _ in range(2):
        with runtime_directory(tmp_path) as path:
            assert path.parent == tmp_path / "run"
            assert path.parent.stat().st_mode & 0o777 == 0o700


def test_without_any_place_the_error_names_each_and_what_is_wrong_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make(tmp_path / ("home" * 25))
    only(monkeypatch, tmp_path / "missing")
    with pytest.raises(InvalidConfig) as refused, runtime_directory(home):
        pass
    assert refused.value.detail.startswith(
        f"there is no directory for the node's sockets ({tmp_path}/missing: No such file or directory; "
        f"{home}/run: AF_UNIX path too long): "
    )
