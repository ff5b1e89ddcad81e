"""The file of the state tree's leaves: whole or absent, checked to the last byte, copied while the tree changes."""

import hashlib
import os
from pathlib import Path

import pytest

from cairn.domain.errors import Corrupt, StoreUnavailable
from cairn.domain.state_tree import StateTree
from cairn.domain.types import BlockHash
from cairn.store import tree_file
from cairn.store.tree_file import LEAF_BYTES, TreeFile, TreeMark, read_tree, tree_path, write_tree
from tests.support.disk import no_file_beyond

MARK = TreeMark(7, BlockHash(b"h" * 32), 5)
LEAVES = bytearray(b"".join(bytes([number]) * LEAF_BYTES for number in range(5)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tree_path(tmp_path)


def test_leaves_are_read_as_they_were_written(path: Path) -> None:
    write_tree(path, MARK, LEAVES)
    assert read_tree(path) == (MARK, LEAVES)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["state-tree"]


def test_a_missing_file_is_none(path: Path) -> None:
    assert read_tree(path) is None


def test_any_byte_changed_and_any_length_is_refused_by_name(path: Path) -> None:
    write_tree(path, MARK, LEAVES)
    whole = path.read_bytes()
    damaged = [whole[:end] for end in range(len(whole))] + [whole + b"\0"]
    damaged += [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(Corrupt, match="state-tree is not what was written; remove it, and the node rebuilds it"):
            read_tree(path)


def test_a_size_that_its_checksum_covers_and_its_length_does_not_is_refused(path: Path) -> None:
    write_tree(path, MARK, LEAVES)
    lied = bytearray(path.read_bytes()[:-32])
    lied[60:68] = (6).to_bytes(8, "big")
    path.write_bytes(lied + hashlib.sha256(lied).digest())
    with pytest.raises(Corrupt, match="state-tree"):
        read_tree(path)


def test_leaves_that_are_added_and_changed_while_they_are_copied_do_no_harm(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_file, "SLICE_BYTES", 2 * LEAF_BYTES)
    tree, copied = StateTree.from_leaves(LEAVES), 0

    def commit() -> None:
        nonlocal copied
        tree.apply(tree.updated({4: b"\xee" * 32, 5 + copied: b"\xff" * 32}))
        copied += 1

    write_tree(path, MARK, tree.levels[0], commit)
    assert copied == 3
    assert read_tree(path) == (MARK, LEAVES[:-LEAF_BYTES] + b"\xee" * LEAF_BYTES)


def test_a_copy_that_is_ended_leaves_the_former_file_and_no_draft(path: Path) -> None:
    write_tree(path, MARK, LEAVES)

    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        write_tree(path, TreeMark(8, MARK.hash, 5), LEAVES, stop)
    assert read_tree(path) == (MARK, LEAVES)
    assert os.listdir(path.parent) == ["state-tree"]


def due_and_current(file: TreeFile) -> tuple[bool, bool]:
    return file.is_due, file.is_current


def test_the_file_is_due_when_an_eighth_of_the_leaves_has_changed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_file, "LEAST_CHANGES", 3)
    file = TreeFile(path, TreeMark(1, MARK.hash, 100), None, 0)
    file.note(TreeMark(2, MARK.hash, 100), 11)
    assert due_and_current(file) == (False, False)
    file.note(TreeMark(3, MARK.hash, 100), 0)
    assert due_and_current(file) == (True, False)
    file.save(bytearray(LEAF_BYTES * 100))
    assert due_and_current(file) == (False, True)
    found = read_tree(path)
    assert found is not None
    assert found[0] == TreeMark(3, MARK.hash, 100)


def test_a_small_tree_is_not_due_before_the_least_number_of_changes(path: Path) -> None:
    file = TreeFile(path, MARK, None, 0)
    file.note(MARK, tree_file.LEAST_CHANGES - 1)
    assert due_and_current(file) == (False, False)
    file.note(MARK, 0)
    assert due_and_current(file) == (True, False)


def test_a_full_disk_is_told_and_leaves_the_former_file(path: Path) -> None:
    write_tree(path, MARK, LEAVES)
    file = TreeFile(path, TreeMark(9, MARK.hash, 1_000), MARK, 200_000)
    with no_file_beyond(1_000), pytest.raises(StoreUnavailable, match="cannot write .*state-tree"):
        file.save(bytearray(LEAF_BYTES * 1_000))
    assert due_and_current(file) == (False, False), "tried again at once, or taken for written"
    assert read_tree(path) == (MARK, LEAVES)
