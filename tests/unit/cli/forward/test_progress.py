"""The files of a forwarder: complete after a crash, one process at a time, and never taken for new when damaged."""

import json
from pathlib import Path

import httpx
import pytest

from cairn.cli.forward.progress import Cursor, DeadLetter, Events, Progress, default_directory
from cairn.cli.forward.status import Status
from cairn.cli.forward.webhooks import load_keys
from cairn.cli.report import Unreachable
from cairn.domain.errors import InvalidConfig

CURSOR = Cursor("newBlock", 1337, 5, "0x" + 64 * "a", 1794949722)
LETTER = DeadLetter("newBlock_0x01", "{}", 3, "500", 1794949722)


def test_a_cursor_is_read_as_it_was_saved(tmp_path: Path) -> None:
    progress = Progress(tmp_path)
    assert progress.load_cursor("newBlock") is None
    progress.save_cursor(CURSOR)
    assert progress.load_cursor("newBlock") == CURSOR
    assert progress.cursor_file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'{"chainId":1337,"blockHeight":5', b"null"])
def test_a_damaged_cursor_is_refused(tmp_path: Path, content: bytes) -> None:
    progress = Progress(tmp_path)
    progress.cursor_file.write_bytes(content)
    with pytest.raises(InvalidConfig, match="is damaged"):
        progress.load_cursor("newBlock")


@pytest.mark.parametrize(("kept", "wanted"), [("newBlock", "payment"), ("payment", "newBlock")])
def test_a_cursor_of_other_events_is_refused_by_name(tmp_path: Path, kept: Events, wanted: Events) -> None:
    progress = Progress(tmp_path)
    progress.save_cursor(Cursor(kept, 1337, 5, "0x", 0))
    with pytest.raises(InvalidConfig, match=f"was used for {kept} events, and now {wanted} events .*--state"):
        progress.load_cursor(wanted)


def test_a_dead_letter_after_half_a_line_begins_a_new_one(tmp_path: Path) -> None:
    progress = Progress(tmp_path)
    progress.add_dead_letter(LETTER)
    progress.add_dead_letter(LETTER)
    with progress.dead_letters_file.open("ab") as file:
        file.write(b'{"webhookId":"ne')
    progress.add_dead_letter(LETTER)
    assert progress.count_dead_letters() == 4
    first, second, _, last = progress.dead_letters_file.read_text().splitlines()
    assert [json.loads(line)["webhookId"] for line in (first, second, last)] == 3 * ["newBlock_0x01"]


def test_two_at_once_are_refused_and_one_after_the_other_are_not(tmp_path: Path) -> None:
    with Progress(tmp_path / "new").locked(), pytest.raises(InvalidConfig, match="another `cairn forward`"):
        Progress(tmp_path / "new").locked().__enter__()
    with Progress(tmp_path / "new").locked():
        pass


def test_a_directory_that_is_gone_is_a_failure_that_may_pass(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="cannot write"):
        Progress(tmp_path / "gone").save_cursor(CURSOR)


def test_each_url_has_its_own_directory_without_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    one, other = (default_directory(httpx.URL(f"https://shop.example:8080/{token}")) for token in ("token1", "token2"))
    assert one != other
    assert one.parent == Path("/state/cairn/forward")
    assert one.name.startswith("shop.example-8080-")
    assert "token" not in str(one)


@pytest.mark.parametrize(
    ("index", "next_height", "covered", "due"),
    [
        (None, 6, [(4, 9), (5, 0), (5, 99)], [(6, 0)]),
        (-1, 5, [(4, 9)], [(5, 0), (6, 0)]),
        (3, 5, [(4, 9), (5, 0), (5, 3)], [(5, 4), (6, 0)]),
    ],
)
def test_a_cursor_in_a_block_covers_what_is_before_it(
    index: int | None, next_height: int, covered: list[tuple[int, int]], due: list[tuple[int, int]]
) -> None:
    cursor = Cursor("payment", 1337, 5, "0x", 0, index)
    assert cursor.next_height == next_height
    assert [place for place in covered + due if cursor.covers(*place)] == covered


def test_only_the_owner_can_read_what_is_kept(tmp_path: Path) -> None:
    progress = Progress(tmp_path)
    progress.save_cursor(CURSOR)
    progress.add_dead_letter(LETTER)
    progress.write_status(Status("following", "http://a.example/token", "http://127.0.0.1:1", 1337, 5, 5))
    load_keys(None, progress.secret_file)
    files = [path for path in tmp_path.iterdir() if path.is_file()]
    assert len(files) == 4
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
