"""`cairn send` against a node that says something else once the user has agreed; tests/e2e/cli pays at a real one."""

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from cairn.cli.main import app
from cairn.cli.shared.report import CommandFailed
from cairn.cli.wallet.parties import Party
from cairn.cli.wallet.sending import Sending
from cairn.cli.wallet.transfers import TransferOrder, read_price
from cairn.client.models import AccountState, Chain
from cairn.domain.genesis import COIN, DEV_KEYS
from cairn.domain.types import Address

CHAIN: dict[str, Any] = {
    "chainId": 1337,
    "engine": "embedded",
    "version": "0",
    "gasPrice": 1,
    "blockGasLimit": 210_000_000,
    "head": {"blockHeight": 5, "hash": "0x" + "11" * 32, "timestamp": 1},
    "mempool": {"pending": 0, "queued": 0, "limit": 1},
}


class FickleNode:
    """Tells of its chain truly once, and otherwise from then on."""

    def __init__(self) -> None:
        self.lie: dict[str, Any] = {}
        self.posts: list[Any] = []
        self._asked = 0
        fickle = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer(fickle.answer(self.path.partition("?")[0]))

            def do_POST(self) -> None:
                fickle.posts.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                self.answer({})

            def answer(self, body: object) -> None:
                text = json.dumps(body).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def begin(self, lie: dict[str, Any]) -> None:
        self.lie, self._asked = lie, 0
        self.posts.clear()

    def answer(self, path: str) -> object:
        if path == "/health":
            return {"status": "alive"}
        if path == "/mempool":
            return []
        if path == "/chain":
            self._asked += 1
            return CHAIN if self._asked == 1 else CHAIN | self.lie
        return {"address": path.rpartition("/")[2].lower(), "balance": 10**30, "nonce": 7, "pendingNonce": 7}


@pytest.fixture
def node() -> Iterator[FickleNode]:
    fickle = FickleNode()
    thread = threading.Thread(target=fickle.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield fickle
    fickle.server.shutdown()
    fickle.server.server_close()
    thread.join()


def prices(posts: list[Any]) -> list[int]:
    """Of what was submitted, alone or together."""
    return [each["gasPrice"] for post in posts for each in (post if isinstance(post, list) else [post])]


@pytest.mark.parametrize("nonce", [[], ["--nonce", "7"]])
def test_what_is_signed_is_what_was_agreed_to(node: FickleNode, nonce: list[str]) -> None:
    command = ["send", "dev0", "dev1", "1wei", "--yes", "--no-wait", "--node", node.url, *nonce]
    CliRunner().invoke(app, command)
    assert set(prices(node.posts)) == {1}
    for lie in ({"chainId": 1}, {"gasPrice": 10**18}):
        node.begin(lie)
        assert CliRunner().invoke(app, command).exit_code != 0
        # A signature for another chain would be good there; at the price that was agreed to, no harm is done.
        assert set(prices(node.posts)) <= (set() if "chainId" in lie else {1})


@pytest.mark.parametrize(
    ("prices", "told"),
    [
        ((None, None, None), "amount  7 wei, and a fee of 21000 wei"),
        (("3", None, None), "amount  7 wei, and a fee of 63000 wei"),
        ((None, "5", "1"), "amount  7 wei, and a fee of 42000 wei, 105000 wei at most"),
        ((None, "2", "9"), "amount  7 wei, and a fee of 42000 wei"),
    ],
)
def test_the_question_names_the_most_that_can_be_paid(
    prices: tuple[str | None, str | None, str | None],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    order = TransferOrder(Party(Address(bytes(20))), Party(Address(bytes(20))), 7, None, read_price(*prices))
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    with pytest.raises(CommandFailed, match="nothing was sent"):
        Sending("http://node", order, False)._confirm(msgspec.convert(CHAIN, Chain))
    assert told in capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(
    ("sender", "value", "advice"),
    [
        (0, 5 * COIN, "; `cairn send dev1 dev0 6coins` gives it some"),
        (3, 5 * COIN, "; `cairn send dev0 dev3 6coins` gives it some"),
        (0, 20_001 * COIN, ""),
    ],
)
def test_nobody_is_advised_to_pay_himself_or_more_than_there_is(sender: int, value: int, advice: str) -> None:
    payer = Party(DEV_KEYS[sender][0], f"dev{sender}")
    order = TransferOrder(payer, Party(Address(bytes(20))), value, None, read_price(None, None, None))
    with pytest.raises(CommandFailed) as failed:
        Sending("http://node", order, False)._check_funds(msgspec.convert(CHAIN, Chain), AccountState("0x", 0, 0, 0))
    assert str(failed.value).endswith(f"a fee of 21000 wei{advice}")
