"""The commit that a build names: read from a checkout's files, or from the file that a published package has."""

from pathlib import Path

import pytest

from cairn import build
from cairn.build import COMMIT_FILE, find_commit

ONE, OTHER = "1" * 40, "2" * 40


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The package of a checkout without .git."""
    made = tmp_path / "checkout" / "src" / "cairn"
    made.mkdir(parents=True)
    return made


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def git(package: Path) -> Path:
    directory = package.parents[1] / ".git"
    write(directory / "HEAD", "ref: refs/heads/main\n")
    return directory


def test_this_checkout_knows_its_commit() -> None:
    assert len(build.COMMIT) == 40
    assert build.described() == f"{build.VERSION} ({build.COMMIT[:8]})"


def test_without_git_and_file_the_commit_is_unknown(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_commit(package) == ""
    monkeypatch.setattr(build, "COMMIT", "")
    assert build.described() == build.VERSION


def test_a_branch_is_read_from_its_own_file(package: Path, git: Path) -> None:
    write(git / "refs" / "heads" / "main", ONE + "\n")
    write(git / "packed-refs", f"{OTHER} refs/heads/main\n")
    assert find_commit(package) == ONE


def test_a_packed_branch_is_found_by_its_whole_name(package: Path, git: Path) -> None:
    write(git / "packed-refs", f"# pack-refs with: peeled\n{OTHER} refs/heads/main2\n{ONE} refs/heads/main\n^{OTHER}\n")
    assert find_commit(package) == ONE


def test_a_detached_head_is_the_commit(package: Path, git: Path) -> None:
    write(git / "HEAD", ONE + "\n")
    assert find_commit(package) == ONE


def test_a_worktree_has_its_branches_in_the_repository(package: Path, tmp_path: Path) -> None:
    repository = tmp_path / "repository" / ".git"
    own = repository / "worktrees" / "checkout"
    write(package.parents[1] / ".git", f"gitdir: {own}\n")
    write(own / "HEAD", "ref: refs/heads/topic\n")
    write(own / "commondir", "../..\n")
    write(repository / "refs" / "heads" / "topic", ONE + "\n")
    assert find_commit(package) == ONE


def test_the_file_of_a_published_package_comes_first(package: Path, git: Path) -> None:
    write(git / "refs" / "heads" / "main", OTHER)
    write(package / COMMIT_FILE, ONE + "\n")
    assert find_commit(package) == ONE


@pytest.mark.parametrize("damaged", [b"\xff\xfe", b"", b"refs/heads/main", b"11", b"1" * 41])
def test_a_head_that_is_no_commit_is_unknown(package: Path, git: Path, damaged: bytes) -> None:
    (git / "HEAD").write_bytes(damaged)
    assert find_commit(package) == ""
