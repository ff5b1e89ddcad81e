"""Which version of the rules a chain has, and which program may go on with it."""

from pathlib import Path

import pytest

from cairn.domain.errors import AnotherVersionNeeded, Corrupt
from cairn.store import rules_file
from cairn.store.rules_file import RulesSince, settle_rules


def of_version(monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    monkeypatch.setattr(rules_file, "RULES_VERSION", version)


def test_a_chain_without_the_file_has_the_first_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert settle_rules(tmp_path, 7, 0) == RulesSince(2, 0)
    assert (tmp_path / "RULES").read_text() == "2 from block 0\n"
    (tmp_path / "RULES").unlink()
    of_version(monkeypatch, 3)
    with pytest.raises(AnotherVersionNeeded, match="rules of version 2; this program has version 3"):
        settle_rules(tmp_path, 7, 0)
    assert not (tmp_path / "RULES").exists()


def test_a_chain_without_blocks_is_begun_with_any_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_version(monkeypatch, 3)
    assert settle_rules(tmp_path, 0, 0) == RulesSince(3, 0)
    of_version(monkeypatch, 2)
    assert settle_rules(tmp_path, 0, 0) == RulesSince(2, 0)


def test_a_chain_that_only_has_a_snapshot_goes_on_with_any_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settle_rules(tmp_path, 0, 0) == RulesSince(2, 0)
    of_version(monkeypatch, 3)
    assert settle_rules(tmp_path, 40, 0, base=40) == RulesSince(3, 0)
    of_version(monkeypatch, 2)
    with pytest.raises(AnotherVersionNeeded, match="install the newer one again"):
        settle_rules(tmp_path, 41, 0, base=40)


def test_the_old_version_stops_at_the_height_and_the_new_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settle_rules(tmp_path, 9, 10) == RulesSince(2, 0)
    for head in (10, 11):
        with pytest.raises(AnotherVersionNeeded, match=f"the chain is at block {head}, and halt_height is 10"):
            settle_rules(tmp_path, head, 10)
    of_version(monkeypatch, 3)
    for head in (9, 11):
        with pytest.raises(AnotherVersionNeeded, match="run one with version 2 until"):
            settle_rules(tmp_path, head, 10)
    for head in (10, 10, 11, 500):
        assert settle_rules(tmp_path, head, 10) == RulesSince(3, 11)
    assert settle_rules(tmp_path, 500, 0) == RulesSince(3, 11)
    assert (tmp_path / "RULES").read_text() == "2 from block 0\n3 from block 11\n"


def test_the_old_version_goes_on_only_if_the_new_one_made_no_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_version(monkeypatch, 3)
    settle_rules(tmp_path, 10, 10)
    of_version(monkeypatch, 2)
    with pytest.raises(AnotherVersionNeeded, match="install the newer one again"):
        settle_rules(tmp_path, 11, 0)
    assert settle_rules(tmp_path, 10, 0) == RulesSince(2, 0)
    assert (tmp_path / "RULES").read_text() == "2 from block 0\n"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "2\n",
        "two from block 0\n",
        "2 from block 5\n",
        "2 from block 0 x\n",
        "2 from block 0\n3 from block 0\n",
        "3 from block 0\n2 from block 4\n",
        "2 from block 0\n2 from block 4\n",
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "RULES").write_text(content)
    with pytest.raises(Corrupt, match="does not say by which rules"):
        settle_rules(tmp_path, 5, 0)
