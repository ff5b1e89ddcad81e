"""docs/tutorial.md, step by step: its own program, its own commands, and what it says they print."""

from pathlib import Path

import pytest

from tests.support.node_process import NodeProcess
from tests.support.pages import Terminal
from tests.support.ports import free_ports
from tests.support.shop import PAGE, Customer, PythonShop

RUN, WRITE, PAY, KILL = (PAGE.section(heading) for heading in PAGE.headings()[:4])


def test_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [port] = free_ports(1)
    [(make, _)] = RUN.steps()
    # `make dev` is `cairn dev` with these options; nobody needs to wait a second for each block here.
    start = ["dev", "--port", str(port), "--block-time", "0.1", *make.partition('"')[2].rstrip('"').split()]
    [(open_shop, opened)] = WRITE.steps()
    assert open_shop == ".venv/bin/python shop.py"
    order, *paid_twice, (_, found) = KILL.steps()
    [told] = PAY.code("text")
    monkeypatch.chdir(tmp_path)

    with NodeProcess.start(start) as node:
        node.wait_ready()
        shop = PythonShop(tmp_path, node.url)
        customer = Customer(Terminal(tmp_path, node.url), shop)
        with shop.open() as running:
            running.await_text(shop.own(opened))
            customer.do(*PAY.steps())
            running.await_text(shop.own(opened + told))
            customer.do(order)
        customer.do(*paid_twice)
        with shop.open() as running:
            running.await_text(shop.own(found))
            node.kill_group()
            with NodeProcess.start(start) as restarted:
                restarted.wait_ready()
                customer.do(paid_twice[-1])
                again = found.splitlines(keepends=True)[-1].replace("Block 3", "Block 4")
                running.await_text(shop.own(found + again))
                running.close()
