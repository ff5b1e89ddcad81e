"""The picture of the explorer in README and the docs: pays on a dev chain, and writes docs/images/explorer.png.

`make pictures` runs it.
"""

import random
import struct
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, FloatRect

from cairn.client import COIN, Client
from cairn.testing import DevChain, running_node
from tests.support.browser import Visitor, open_browser

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "explorer.png"
BLOCKS = 21
"""As many as fill the charts of the first page."""
MOST_TRANSFERS = 12
MOST_PAUSE_S = 2
MARGIN = 16
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def pay(chain: DevChain) -> None:
    """Make blocks with some transfers each, the same at each run, as far as the machine keeps up."""
    draw = random.Random(BLOCKS)
    with Client(chain.url) as client:
        wallets = [client.wallet(account) for account in chain.accounts]
        for _ in range(BLOCKS):
            for _ in range(draw.randint(1, MOST_TRANSFERS)):
                sender, recipient = draw.sample(wallets, 2)
                sent = sender.send(recipient.address, draw.randint(1, 500) * COIN // 100)
            client.wait(sent)
            time.sleep(draw.randint(0, MOST_PAUSE_S))


def photograph(browser: Browser, url: str) -> bytes:
    """The first page from its top to below the charts. Raises `RuntimeError` when the page complains."""
    visitor = Visitor(browser, url)
    page = visitor.open()
    charts = page.locator("main .columns").first.bounding_box()
    if charts is None or visitor.complaints:
        raise RuntimeError(f"the page is not as it should be: {visitor.complaints}")
    clip: FloatRect = {
        "x": charts["x"] - MARGIN,
        "y": 0,
        "width": charts["width"] + 2 * MARGIN,
        "height": charts["y"] + charts["height"] + MARGIN,
    }
    picture = page.screenshot(full_page=True, clip=clip)
    visitor.close()
    return picture


def chunks_of(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The parts of a PNG: their kind and their data."""
    at = len(SIGNATURE)
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at : at + 8])
        yield kind, png[at + 8 : at + 8 + size]
        at += size + 12


def packed(png: bytes) -> bytes:
    """Compress a picture again, in fewer bytes: a browser compresses for speed."""
    kept = dict(chunks_of(png))
    pixels = zlib.decompress(b"".join(data for kind, data in chunks_of(png) if kind == b"IDAT"))
    kept[b"IDAT"] = zlib.compress(pixels, 9)
    return SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in kept.items()
    )


def main() -> int:
    with running_node(["--block-time", "1"]) as chain, open_browser() as browser:
        pay(chain)
        PICTURE.write_bytes(packed(photograph(browser, chain.url)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
