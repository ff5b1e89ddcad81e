"""Which data is shown as text, and which text is taken."""

import pytest

from cairn.domain.errors import InvalidField
from cairn.domain.references import data_of, reference_of


@pytest.mark.parametrize("text", ["invoice 4711", " ", "Grüße", "счёт 7", "注文", "فاتورة", "€", "🧾", "a" * 256])
def test_printable_text_is_a_reference(text: str) -> None:
    assert reference_of(text.encode()) == text
    assert data_of(text) == text.encode()


HIDDEN = [
    "a\nb",
    "\0",
    "\x1b[31m",
    "\x7f",
    "a\u202eb",
    "\u2066a",
    "a\u200bb",
    "\ufeffa",
    "\u00a0",
    "\u2028",
    "\ue000",
    "\u0378",
]


@pytest.mark.parametrize("text", HIDDEN, ids=ascii)
def test_text_with_a_character_that_is_not_printable_is_only_data(text: str) -> None:
    assert reference_of(text.encode()) is None
    with pytest.raises(InvalidField, match=r"U\+[0-9A-F]{4,}, which is not printable: send it as data") as caught:
        data_of(text)
    assert caught.value.field == "reference"


@pytest.mark.parametrize("data", [b"", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"caf\xc3"])
def test_bytes_that_are_not_utf_8_are_no_reference(data: bytes) -> None:
    assert reference_of(data) is None


def test_half_a_character_is_not_to_be_sent_as_data() -> None:
    with pytest.raises(InvalidField, match=r"U\+D800, which is not a character: leave it out"):
        data_of("a\ud800")


@pytest.mark.parametrize("text", ["", "\ud800"])
def test_the_empty_text_and_half_a_surrogate_are_refused(text: str) -> None:
    with pytest.raises(InvalidField):
        data_of(text)
