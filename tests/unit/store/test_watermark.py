from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cairn.domain.errors import Corrupt, StoreUnavailable
from cairn.store.watermark import NOTHING_YET, PAGE, SIZE, StoreBounds, Watermark
from tests.support.disk import flip_byte, overwrite

Tell = Callable[[Watermark, int], None]
Ask = Callable[[Watermark], int]
NUMBERS: list[tuple[int, Tell, Ask]] = [
    (0, Watermark.advance, Watermark.height),
    (4, Watermark.tell_oldest, Watermark.oldest),
    (8, Watermark.raise_journal_start, Watermark.journal_start),
    (12, Watermark.raise_journal_end, Watermark.journal_end),
]
each_number = pytest.mark.parametrize(("page", "tell", "ask"), NUMBERS, ids=["height", "oldest", "start", "end"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "watermark"


@pytest.fixture
def watermark(path: Path) -> Iterator[Watermark]:
    Watermark.create(path, NOTHING_YET)
    opened = Watermark.open(path)
    yield opened
    opened.close()


def test_a_new_watermark_holds_no_block_and_no_frame(watermark: Watermark) -> None:
    assert watermark.height() == -1
    assert watermark.oldest() == watermark.journal_start() == watermark.journal_end() == 0


def test_a_watermark_of_a_copy_has_all_of_its_numbers(path: Path) -> None:
    bounds = StoreBounds(height=7, oldest=5, journal_start=11, journal_end=13)
    Watermark.create(path, bounds)
    opened = Watermark.open(path)
    assert opened.bounds() == bounds
    assert list(opened.damaged_copies()) == []
    opened.close()


@each_number
@pytest.mark.parametrize("number", [0, 1, 2, 255, 2**40])
def test_a_watermark_keeps_its_numbers_after_reopening(
    watermark: Watermark, path: Path, page: int, tell: Tell, ask: Ask, number: int
) -> None:
    others = [other for _, _, other in NUMBERS if other is not ask]
    before = [other(watermark) for other in others]
    tell(watermark, number)
    again = Watermark.open(path)
    assert ask(watermark) == ask(again) == number
    assert [other(again) for other in others] == before
    again.close()


@each_number
def test_a_follower_sees_each_step(watermark: Watermark, path: Path, page: int, tell: Tell, ask: Ask) -> None:
    follower = Watermark.follow(path)
    for number in (0, 1, 2, 3, 7):
        tell(watermark, number)
        assert ask(follower) == number
    follower.close()


@each_number
@pytest.mark.parametrize("number", [6, 7])
def test_damage_to_one_page_or_two_neighbours_leaves_a_copy(
    watermark: Watermark, path: Path, page: int, tell: Tell, ask: Ask, number: int
) -> None:
    tell(watermark, number - 1)
    tell(watermark, number)
    whole = path.read_bytes()
    for first, pages in [(0, 1), (1, 1), (2, 1), (3, 1), (0, 2), (1, 2), (2, 2)]:
        overwrite(path, (page + first) * PAGE, bytes(pages * PAGE))
        assert ask(watermark) == number
        path.write_bytes(whole)


@each_number
def test_a_torn_write_leaves_the_number_before_it(
    watermark: Watermark, path: Path, page: int, tell: Tell, ask: Ask
) -> None:
    tell(watermark, 6)
    before = path.read_bytes()
    tell(watermark, 7)
    after = path.read_bytes()
    written = [at for at, (one, other) in enumerate(zip(before, after, strict=True)) if one != other]
    # Both copies of it, as a power loss may leave them.
    for at in (written[0], next(place for place in written if place >= written[0] + PAGE)):
        flip_byte(path, at)
    assert ask(watermark) == 6


@each_number
def test_a_number_without_a_whole_copy_is_damage(
    watermark: Watermark, path: Path, page: int, tell: Tell, ask: Ask
) -> None:
    tell(watermark, 6)
    overwrite(path, page * PAGE, bytes(4 * PAGE))
    with pytest.raises(Corrupt, match=f"{path}: .*: none of its copies has its checksum"):
        ask(watermark)
    with pytest.raises(Corrupt, match="none of its copies"):
        Watermark.open(path)


def test_a_page_copied_over_another_number_is_not_read(watermark: Watermark, path: Path) -> None:
    watermark.raise_journal_end(9)
    content = path.read_bytes()
    overwrite(path, 0, content[12 * PAGE :])
    with pytest.raises(Corrupt, match="the blocks on disk"):
        watermark.height()


@pytest.mark.parametrize("size", [0, 100, SIZE - 1, SIZE + 1])
def test_a_file_of_another_size_is_damage(path: Path, size: int) -> None:
    Watermark.create(path, NOTHING_YET)
    path.write_bytes(path.read_bytes()[:size].ljust(size, b"\0"))
    with pytest.raises(Corrupt, match=f"{path} has {size} bytes, not {SIZE}"):
        Watermark.open(path)


def test_a_file_that_cannot_be_opened_or_written_is_unavailable(tmp_path: Path, path: Path) -> None:
    for use in (Watermark.follow, Watermark.open):
        with pytest.raises(StoreUnavailable, match="cannot open"):
            use(path)
    with pytest.raises(StoreUnavailable):
        Watermark.open(tmp_path)
    Watermark.create(path, NOTHING_YET)
    follower = Watermark.follow(path)
    with pytest.raises(StoreUnavailable, match="cannot write"):
        follower.advance(1)
    follower.close()
    follower.close()
    with pytest.raises(StoreUnavailable, match="cannot read"):
        follower.height()


def test_a_file_that_was_removed_tells_followers_of_nothing_more(watermark: Watermark, path: Path) -> None:
    watermark.advance(1)
    follower = Watermark.follow(path)
    path.unlink()
    with pytest.raises(StoreUnavailable, match="the file was removed"):
        watermark.advance(2)
    assert follower.height() == 1
    follower.close()
