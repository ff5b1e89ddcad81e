"""docs/typescript-shop.md; and both shops, killed with their node: each order is delivered exactly once.

`SHOP_SEED=…` draws the same customers and kills again. `make shop KILLS=200` does it for long.
"""

import os
import random
from pathlib import Path

import pytest

from tests.support.killed_shop import KillableNode, KilledShop
from tests.support.node_process import NodeProcess
from tests.support.pages import Terminal
from tests.support.shop import IN_TYPESCRIPT, PAGE, Customer, PythonShop, Shop, TypeScriptShop, compile_shop
from tests.support.typescript import untested_packages

SEED = int(os.environ.get("SHOP_SEED", random.SystemRandom().randrange(2**32)))
KILLS = 5
"""Of each side."""


@pytest.fixture(scope="module")
def compiled(js_packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the program is in JavaScript."""
    directory = tmp_path_factory.mktemp("typescript")
    compile_shop(directory, js_packages)
    return directory


def test_the_page_in_typescript(compiled: Path, tmp_path: Path) -> None:
    install, _, (open_shop, opened) = IN_TYPESCRIPT.steps()
    assert untested_packages(install.line) == []
    pay = PAGE.section("3. Order and pay")
    [told] = pay.code("text")
    with NodeProcess.start_dev("--block-time", "0.01") as node:
        shop = TypeScriptShop(tmp_path, node.url, compiled)
        assert open_shop.split() == list(shop.command)
        with shop.open() as running:
            running.await_text(shop.own(opened))
            Customer(Terminal(tmp_path, node.url), shop).do(*pay.steps())
            running.await_text(shop.own(opened + told))


@pytest.mark.parametrize("language", ["Python", "TypeScript"])
def test_each_order_is_delivered_once(language: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with KillableNode(tmp_path / "chain") as node:
        shop: Shop
        if language == "Python":
            shop = PythonShop(tmp_path, node.url)
        else:
            shop = TypeScriptShop(tmp_path, node.url, request.getfixturevalue("compiled"))
        run = KilledShop(shop, node, random.Random(SEED))
        try:
            run.run(KILLS)
        except BaseException as failure:
            failure.add_note(f"SHOP_SEED={SEED}, after {run.kills} kills")
            raise
