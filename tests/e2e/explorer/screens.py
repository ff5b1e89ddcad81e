"""What does not fit a view at the widths of phones, tablets and desktops; and pictures of it, where they are wanted."""

import os
from pathlib import Path

from tests.support.browser import Visitor

WIDTHS = [320, 700, 768, 900, 901, 1024, 1100, 1440]
PICTURED = [320, 768, 1024, 1440]
PICTURES = os.environ.get("EXPLORER_SCREENS")
HEIGHT = 900

OUTSIDE = """() => {
    const found = [];
    const page = document.documentElement;
    if (page.scrollWidth > page.clientWidth) found.push(`the page is ${page.scrollWidth} wide`);
    for (const card of document.querySelectorAll(".card")) {
        const { right } = card.getBoundingClientRect();
        for (const part of card.querySelectorAll("td, th, dd, p, pre, input, .button, .amount")) {
            const box = part.getBoundingClientRect();
            if (box.width > 1 && box.right > right + 1) found.push(`${part.outerHTML.slice(0, 90)} leaves its card`);
        }
    }
    for (const amount of document.querySelectorAll(".amount")) {
        const lines = new Set([...amount.getClientRects()].map((box) => Math.round(box.top)));
        if (lines.size > 1) found.push(`${amount.title} is on two lines`);
    }
    for (const word of document.querySelectorAll(".stats > div:last-child dd:not(.note), .head-detail .code")) {
        const range = document.createRange();
        range.selectNodeContents(word);
        if (range.getClientRects().length > 1) found.push(`${word.textContent} is on two lines`);
        if (word.scrollWidth > word.clientWidth) found.push(`${word.textContent} is too wide`);
    }
    for (const axis of document.querySelectorAll(".axis")) {
        const times = [...axis.children].filter((time) => time.getClientRects().length > 0);
        if (axis.clientWidth < 300 && times.length > 1) found.push("the times of a chart have no room");
    }
    for (const link of document.querySelectorAll("#navigation a:not([hidden])")) {
        const { left, right } = link.getBoundingClientRect();
        if (left < 0 || right > innerWidth) found.push(`${link.textContent} is not in the menu`);
    }
    const query = document.querySelector("#query");
    const { font, paddingLeft, paddingRight } = getComputedStyle(query);
    const canvas = document.createElement("canvas").getContext("2d");
    canvas.font = font;
    const needed = canvas.measureText(query.placeholder).width + parseFloat(paddingLeft) + parseFloat(paddingRight);
    if (needed > query.clientWidth) found.push("the placeholder is cut off");
    return found;
}"""


def misfits(visitor: Visitor, name: str) -> list[str]:
    """What of the open view leaves the window, its card or its line. The window is wide again afterwards."""
    found, page = [], visitor.page
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": HEIGHT})
        found += [f"{name} at {width}: {each}" for each in visitor.run(OUTSIDE)]
        if PICTURES and width in PICTURED:
            for theme in ("light", "dark"):
                page.emulate_media(color_scheme=theme)
                page.screenshot(path=Path(PICTURES) / f"{name}-{width}-{theme}.png", full_page=True)
            page.emulate_media(color_scheme="light")
    return found
