"""A page that another program of this machine serves: on a dev chain it may read and submit what is signed."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from cairn.api.rpc.dev_methods import DevMethods
from cairn.api.rpc.methods import make_methods
from cairn.api.rpc.transaction_methods import SigningMethods
from tests.integration.test_rest_submission import draft_body
from tests.support.core_fixtures import settings, signed
from tests.support.described import assert_described
from tests.support.public import assert_problem
from tests.support.rest_node import RestNode, body_of, hash_of, rest_node
from tests.support.rpc_node import NOBODY, raw

GUEST = "http://localhost:3000"
COMMANDS = sorted(
    {
        "eth_sendTransaction",
        *(
            name
            for group in (SigningMethods, DevMethods)
            for declared in vars(group).values()
            for name in getattr(declared, "rpc_names", ())
        ),
    }
)


async def ask(node: RestNode, method: str, path: str, body: object = None, origin: str = GUEST) -> httpx.Response:
    return await node.http.request(method, path, json=body, headers={"Origin": origin})


async def call(node: RestNode, *methods: str, origin: str = GUEST, params: tuple[object, ...] = ()) -> list[Any]:
    """The answers to a batch."""
    batch = [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params} for number, method in enumerate(methods)
    ]
    answer = await ask(node, "POST", "/rpc", batch, origin)
    assert answer.headers["access-control-allow-origin"] == origin
    return sorted(answer.json(), key=lambda each: each["id"])


def is_forbidden(answer: dict[str, Any]) -> bool:
    return bool(answer.get("error", {}).get("data") == {"code": "FORBIDDEN_ORIGIN"})


async def test_a_guest_reads_and_submits_what_is_signed(node: RestNode) -> None:
    for method, path, body in (
        ("GET", "/chain", None),
        ("GET", f"/account/{NOBODY}", None),
        ("HEAD", "/blocks", None),
        ("POST", "/tx", body_of(signed(0))),
        ("POST", "/txs", [body_of(signed(1))]),
    ):
        answer = await ask(node, method, path, body)
        assert answer.status_code == 200, answer.text
        assert answer.headers["access-control-allow-origin"] == GUEST
        assert answer.headers["vary"] == "Origin"
        assert "X-Total-Count" in answer.headers["access-control-expose-headers"]
    assert (await node.read("/chain"))["mempool"]["pending"] == 2


async def test_a_guest_cannot_have_the_node_sign_or_give_and_is_told_what_to_do(node: RestNode) -> None:
    for path, body in (("/tx", draft_body()), ("/tx", draft_body(nonce=0)), ("/faucet", {"address": NOBODY})):
        answer = await ask(node, "POST", path, body)
        assert_described(answer)
        problem = assert_problem(answer, 403, "FORBIDDEN_ORIGIN")
        assert f"cairn dev --cors-origins {GUEST}" in problem["detail"]
        assert answer.headers["access-control-allow-origin"] == GUEST, "the page must be able to read why"
    batch = await ask(node, "POST", "/txs", [body_of(signed(0)), draft_body()])
    assert [each.get("txHash") or each["code"] for each in batch.json()] == [hash_of(signed(0)), "FORBIDDEN_ORIGIN"]
    assert (await node.read("/chain"))["mempool"]["pending"] == 1


async def test_a_guest_may_call_all_methods_but_those_with_keys_and_controls(node: RestNode) -> None:
    assert {"evm_revert", "personal_sign", "hardhat_setBalance", "eth_signTypedData_v4"} <= set(COMMANDS)
    assert all(map(is_forbidden, await call(node, *COMMANDS)))
    others = sorted(make_methods(node.core, node.view).keys() - set(COMMANDS))
    assert {"eth_call", "eth_getBalance", "eth_sendRawTransaction"} <= set(others)
    assert not any(map(is_forbidden, await call(node, *others)))
    (sent,) = await call(node, "eth_sendRawTransaction", params=(raw(signed(0)),))
    assert sent["result"] == hash_of(signed(0))


async def test_the_nodes_own_page_and_programs_may_do_all(node: RestNode) -> None:
    own = await ask(node, "POST", "/tx", draft_body(), origin="http://localhost")
    assert own.status_code == 200, own.text
    for headers in ({"Origin": "http://localhost"}, {}, {"Origin": "chrome-extension://abc"}):
        body = {"jsonrpc": "2.0", "id": 1, "method": "evm_mine"}
        answer = await node.http.post("/rpc", json=body, headers=headers)
        assert answer.json()["result"] == "0x0"


async def test_a_page_that_is_listed_may_do_all(tmp_path: Path) -> None:
    async with rest_node(tmp_path, settings(cors_origins=(GUEST,))) as node:
        assert (await ask(node, "POST", "/tx", draft_body())).status_code == 200
        assert (await ask(node, "POST", "/faucet", {"address": NOBODY})).status_code == 200
        assert not is_forbidden((await call(node, "evm_mine"))[0])


@pytest.mark.parametrize("path", ["/tx", "/txs", "/faucet", "/rpc", "/chain"])
async def test_a_guests_preflight_allows_what_it_asks_for(node: RestNode, path: str) -> None:
    """Also where the request will be refused: so that the page can read why."""
    headers = {
        "Origin": GUEST,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type,idempotency-key",
    }
    answer = await node.http.options(path, headers=headers)
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == GUEST
    assert answer.headers["access-control-allow-headers"] == "content-type,idempotency-key"
    headers["Origin"] = "https://evil.example"
    assert_problem(await node.http.options(path, headers=headers), 403, "FORBIDDEN_ORIGIN")


async def test_other_pages_and_every_page_on_other_chains_are_refused(node: RestNode) -> None:
    for origin in ("https://evil.example", "null"):
        refused = await ask(node, "GET", "/chain", origin=origin)
        assert_problem(refused, 403, "FORBIDDEN_ORIGIN")
        assert "access-control-allow-origin" not in refused.headers
    info = node.view.info
    assert info is not None
    node.view.info = replace(info, signs_for=[])
    refused = await ask(node, "GET", "/chain")
    assert_problem(refused, 403, "FORBIDDEN_ORIGIN")
    assert "vary" not in (await node.get("/chain")).headers
