"""The API reference at /docs: every example works at the first click, or says why it cannot."""

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from cairn.api.description.openapi import encode_openapi
from tests.e2e.explorer.conftest import Axe, Visit
from tests.support.browser import Theme, Visitor
from tests.support.node_process import NodeProcess
from tests.support.public import PublicNode
from tests.support.wallet import dev_account


@pytest.fixture(scope="module")
def node(process: NodeProcess) -> Iterator[PublicNode]:
    """With one confirmed payment, so that there is a transaction to look up."""
    public = PublicNode(process.url)
    payer, payee = dev_account(0).address, dev_account(1).address
    paid = public.post({"from": payer, "to": payee, "value": 1, "gas": 21_000}).json()
    public.await_confirmed(paid["txHash"])
    yield public
    public.close()


def open_reference(visitor: Visitor, name: str = "top") -> Page:
    visitor.page.goto(f"{visitor.url}/docs#{name}")
    expect(visitor.page.locator("main[aria-busy]")).to_have_count(0)
    return visitor.page


def test_the_first_click_on_post_tx_is_a_payment(visit: Visit, node: PublicNode) -> None:
    page = open_reference(visit(), "submitTransaction")
    form = page.get_by_role("form", name="Try POST /tx", exact=True)
    expect(form.get_by_role("note")).to_contain_text("signed this example for dev0")
    form.get_by_role("button", name="Send").click()
    expect(form.locator("strong")).to_have_text("200 OK")
    answer = json.loads(form.get_by_role("group", name="Body").inner_text())
    assert "signature" in json.loads(form.get_by_role("textbox", name="body").input_value())
    node.await_confirmed(answer["txHash"])


def test_every_other_example_works_at_the_first_click_too(visit: Visit) -> None:
    page = open_reference(visit())
    ids = [operation.get_attribute("id") for operation in page.locator("details.operation:has(.method)").all()]
    assert len(ids) > 20
    refused = {}
    for name in ids:
        operation = page.locator(f"#{name}")
        operation.locator("> summary").click()
        operation.get_by_role("button", name="Send").click()
        status = operation.locator(".answer strong")
        expect(status).to_be_visible()
        if status.inner_text() != "200 OK":
            refused[name] = operation.get_by_role("note").inner_text()
        operation.locator("> summary").click()
    assert list(refused) == ["listValidators", "updateValidators"]
    assert all("Only networks have validators" in reason for reason in refused.values())


def test_without_keys_the_page_says_why_its_example_is_refused(visit: Visit) -> None:
    def answer(route: Route) -> None:
        route.fulfill(body=encode_openapi([]), content_type="application/json")

    visitor = visit()
    visitor.page.route("**/openapi.json", answer)
    page = open_reference(visitor, "submitTransaction")
    form = page.get_by_role("form", name="Try POST /tx", exact=True)
    expect(form.get_by_role("note")).to_contain_text("This node holds no keys")
    form.get_by_role("button", name="Send").click()
    expect(form.locator("strong.bad")).to_be_visible()
    page.locator("#askFaucet > summary").click()
    expect(page.locator("#askFaucet").get_by_role("note")).to_contain_text("NOT_A_DEV_CHAIN")


def test_a_node_that_does_not_sign_says_why_itself(visit: Visit) -> None:
    refusal = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "the key is away"}}
    visitor = visit()
    visitor.page.route("**/rpc", lambda route: route.fulfill(json=refusal))
    page = open_reference(visitor, "submitTransaction")
    form = page.get_by_role("form", name="Try POST /tx", exact=True)
    expect(form.get_by_role("note")).to_contain_text("the key is away")


def test_an_answer_that_is_no_json_is_shown_as_it_came(visit: Visit) -> None:
    visitor = visit()
    page = open_reference(visitor, "getChain")
    page.route("**/chain", lambda route: route.fulfill(body="{half", content_type="application/json"))
    form = page.locator("#getChain form")
    form.get_by_role("button", name="Send").click()
    expect(form.locator("strong")).to_have_text("200 OK")
    expect(form.get_by_role("group", name="Body")).to_have_text("{half")


def test_the_first_click_on_events_shows_a_block_and_then_every_new_one(visit: Visit, node: PublicNode) -> None:
    page = open_reference(visit(), "events")
    form = page.get_by_role("form", name="Try /events")
    height = node.read("/chain")["head"]["blockHeight"]
    form.get_by_role("button", name="Connect and send").click()
    log = form.get_by_role("log")
    expect(log).to_contain_text(f'"event":"newBlock","blockHeight":{height}')
    mined = {"jsonrpc": "2.0", "id": 1, "method": "evm_mine", "params": []}
    node.http.post("/rpc", json=mined)
    expect(log).to_contain_text(f'"event":"newBlock","blockHeight":{height + 1}')
    form.get_by_role("button", name="Disconnect").click()
    expect(form.get_by_role("status")).to_contain_text("Closed")


def test_the_node_and_the_interface_have_their_versions(visit: Visit, node: PublicNode) -> None:
    page = open_reference(visit())
    versions = page.locator(".versions")
    expect(versions).to_contain_text(f"Interface {node.read('/openapi.json')['info']['version']}")
    expect(versions).to_contain_text(f"Node {node.read('/chain')['version']}")


@pytest.mark.parametrize(("theme", "is_phone"), [("light", False), ("dark", False), ("light", True)])
def test_the_reference_page_has_no_accessibility_violation(
    visit: Visit, axe: Axe, theme: Theme, is_phone: bool
) -> None:
    visitor = visit(theme, is_phone)
    page = open_reference(visitor)
    for name in ("submitTransaction", "getProof", "listMempool", "message-error"):
        page.locator(f"#{name} > summary").click()
    form = page.locator("#getProof form")
    form.get_by_role("button", name="Send").click()
    expect(form.locator("strong")).to_have_text("200 OK")
    page.get_by_role("button", name="Connect and send").click()
    expect(page.get_by_role("log")).to_contain_text("newBlock")
    assert axe(visitor) == []
    beyond = visitor.run("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert beyond <= 0, "it must not scroll sideways"
