"""The diagrams of the docs are what their sources say, and every text fits into its box."""

from xml.etree import ElementTree

import pytest

from tools.diagrams import CHARACTER, IMAGES, LINE, Json, render, sources

SOURCES = sources()


@pytest.mark.parametrize("name", SOURCES)
def test_a_diagram_is_drawn_from_its_source(name: str) -> None:
    drawn = (IMAGES / f"{name}.svg").read_text()
    assert drawn == render(SOURCES[name]), "run `make generate`"
    assert ElementTree.fromstring(drawn).get("role") == "img"
    assert "prefers-color-scheme: dark" in drawn


def boxes() -> list[tuple[str, Json]]:
    return [(f"{name} {box['id']}", box) for name, source in SOURCES.items() for box in source["box"]]


@pytest.mark.parametrize(("_", "box"), boxes(), ids=[name for name, _ in boxes()])
def test_every_text_fits_into_its_box(_: str, box: Json) -> None:
    width, height = box["size"]
    texts = [box["title"], *box.get("lines", [])]
    assert max(len(text) for text in texts) * CHARACTER <= width
    assert LINE * len(texts) <= height


@pytest.mark.parametrize("name", SOURCES)
def test_nothing_is_drawn_outside(name: str) -> None:
    width, height = SOURCES[name]["size"]
    for box in SOURCES[name]["box"]:
        (x, y), (box_width, box_height) = box["at"], box["size"]
        assert 0 <= x <= width - box_width
        assert 0 <= y <= height - box_height
