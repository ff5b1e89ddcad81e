from collections.abc import Iterator
from pathlib import Path

import pytest

from cairn.domain.errors import Corrupt, StoreUnavailable
from cairn.store.watermark import Watermark
from tests.support.disk import flip_byte


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "watermark"


@pytest.fixture
def watermark(path: Path) -> Iterator[Watermark]:
    opened = Watermark.open(path)
    yield opened
    opened.close()


def test_a_new_one_has_no_height(watermark: Watermark) -> None:
    assert watermark.height() == -1


@pytest.mark.parametrize("height", [0, 1, 2, 255, 2**40])
def test_it_keeps_what_it_was_told(watermark: Watermark, path: Path, height: int) -> None:
    watermark.advance(height)
    assert watermark.height() == height
    again = Watermark.open(path)
    assert again.height() == height
    again.close()


def test_a_follower_sees_each_advance(watermark: Watermark, path: Path) -> None:
    follower = Watermark.follow(path)
    for height in range(5):
        watermark.advance(height)
        assert follower.height() == height
    follower.close()


def test_a_torn_write_leaves_the_height_before_it(watermark: Watermark, path: Path) -> None:
    watermark.advance(6)
    watermark.advance(7)
    flip_byte(path, 4096 + 7)
    assert watermark.height() == 6


def test_damage_to_all_of_it_is_found(watermark: Watermark, path: Path) -> None:
    watermark.advance(6)
    flip_byte(path, 7)
    with pytest.raises(Corrupt, match="neither of its two heights"):
        watermark.height()


def test_one_that_was_cut_short_while_it_was_made_is_completed(path: Path) -> None:
    path.write_bytes(bytes(100))
    opened = Watermark.open(path)
    assert opened.height() == -1
    opened.advance(1)
    assert opened.height() == 1
    opened.close()
    opened.close()


def test_what_cannot_be_opened_or_used_is_unavailable(tmp_path: Path, path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        Watermark.follow(path)
    with pytest.raises(StoreUnavailable):
        Watermark.open(tmp_path)
    Watermark.open(path).close()
    follower = Watermark.follow(path)
    with pytest.raises(StoreUnavailable, match="cannot write"):
        follower.advance(1)
    follower.close()
    with pytest.raises(StoreUnavailable, match="cannot read"):
        follower.height()


def test_followers_hear_of_the_oldest_height_too(watermark: Watermark, path: Path) -> None:
    follower = Watermark.follow(path)
    assert follower.oldest() == 0
    watermark.advance(9)
    for height in (3, 4, 7):
        watermark.tell_oldest(height)
        assert follower.oldest() == height
        assert follower.height() == 9
    # A torn write leaves the one before it.
    flip_byte(path, 2 * 4096 + 3)
    assert follower.oldest() == 4
    follower.close()


def test_one_that_was_made_without_an_oldest_height_has_none(path: Path) -> None:
    path.write_bytes(bytes(8192))
    follower = Watermark.follow(path)
    assert follower.oldest() == 0
    follower.close()
