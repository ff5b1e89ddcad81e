"""docs/tutorial.md, step by step: its own program, its own commands, and what it says they print."""

from pathlib import Path

import pytest

from tests.support.node_process import NodeProcess
from tests.support.pages import Terminal
from tests.support.ports import free_ports
from tests.support.shop import PAGE, Customer, PythonShop

RUN, WRITE, PAY, PAY_CLOSED, KILL = (PAGE.section(heading) for heading in PAGE.headings()[:5])


def test_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [port] = free_ports(1)
    [(make, _)] = RUN.steps()
    # `make dev` is `cairn dev` with these options; nobody needs to wait a second for each block here.
    start = ["dev", "--port", str(port), "--block-time", "0.1", *make.partition('"')[2].rstrip('"').split()]
    [(open_shop, opened)] = WRITE.steps()
    assert open_shop == ".venv/bin/python shop.py"
    *ordered_and_paid_twice, (_, found) = PAY_CLOSED.steps()
    [told], [told_after_restart] = PAY.code("text"), KILL.code("text")
    order, pay = KILL.steps()
    monkeypatch.chdir(tmp_path)

    with NodeProcess.start(start) as node:
        node.wait_ready()
        shop = PythonShop(tmp_path, node.url)
        customer = Customer(Terminal(tmp_path, node.url), shop)
        with shop.open() as running:
            running.await_text(shop.own(opened))
            customer.do(*PAY.steps())
            running.await_text(shop.own(opened + told))
            customer.do(ordered_and_paid_twice[0])
        customer.do(*ordered_and_paid_twice[1:])
        with shop.open() as running:
            running.await_text(shop.own(found))
            customer.do(order)
            node.kill_group()
            with NodeProcess.start(start) as restarted:
                restarted.wait_ready()
                customer.do(pay)
                running.await_text(shop.own(found + told_after_restart))
                running.close()
