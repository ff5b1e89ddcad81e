"""What is built comes out the same, whoever builds it, and holds no more than it should."""

import tarfile
from pathlib import Path

import pytest

from tools.release import build, differences


def test_two_builds_are_the_same_to_the_last_byte(distributions: Path, tmp_path: Path) -> None:
    built = build(tmp_path / "again", umask=0o077, zone="Pacific/Auckland")
    assert [path.name.partition("-")[0] for path in built] == [
        "cairn_node",
        "cairn_node",
        "cairn_node_client",
        "cairn_node_client",
    ]
    again = {path.name: path.read_bytes() for path in built}
    assert [name for name, content in again.items() if (distributions / name).read_bytes() != content] == []


def test_a_file_that_differs_or_is_missing_is_named(tmp_path: Path) -> None:
    for directory, content in (("one", b"1"), ("other", b"2")):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "same").write_bytes(b"")
        (tmp_path / directory / "differs").write_bytes(content)
    (tmp_path / "one" / "missing").write_bytes(b"")
    assert differences(tmp_path / "one", tmp_path / "other") == ["differs", "missing"]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (
            "cairn_node",
            {"CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "packaging", "pyproject.toml", "src", ".gitignore"},
        ),
        ("cairn_node_client", {"LICENSE", "PKG-INFO", "README.md", "pyproject.toml", "src"}),
    ],
)
def test_an_sdist_has_what_a_wheel_is_made_from_and_nothing_else(
    distributions: Path, name: str, parts: set[str]
) -> None:
    [sdist] = distributions.glob(f"{name}-*.tar.gz")
    with tarfile.open(sdist) as archive:
        assert {member.split("/")[1] for member in archive.getnames()} == parts
