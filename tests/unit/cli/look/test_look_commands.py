"""What commands that look at a chain ask for, and how they show what a node says."""

import json
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from typer.testing import CliRunner, Result

from cairn.cli.main import app
from tests.support.json_server import Answer, JsonServer

ADDRESS = "0x" + 40 * "1"
OTHER = "0x" + 40 * "2"
LIE = "0.1\x9b31m\x7f\u202eevil\x1b]0;owned\x07\U000e0001\nblock 99"


class Asked(JsonServer):
    """Has no transactions, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.queries: list[dict[str, str]] = []
        super().__init__()

    def get(self, target: str) -> Answer:
        url = urlsplit(target)
        if url.path.endswith("/txs"):
            self.queries.append(dict(parse_qsl(url.query)))
            self.headers = {"x-block-height": "1"}
            return 200, []
        return 200, {"status": "ok"}


class Liar(JsonServer):
    """A node whose version is what no terminal should get."""

    def get(self, target: str) -> Answer:
        head = {"blockHeight": 1, "hash": "0x" + 64 * "a", "timestamp": 1}
        chain: dict[str, Any] = {
            "chainId": 1, "gasPrice": 1, "blockGasLimit": 30_000_000, "blockTime": 1.0, "maxDataBytes": 256,
            "engine": "embedded", "version": LIE, "head": head, "mempool": {"pending": 0, "queued": 0, "limit": 10},
        }  # fmt: skip
        return 200, chain if target == "/chain" else {"status": "ok"}


def cairn(node: JsonServer, *args: str) -> Result:
    result = CliRunner().invoke(app, [*args, "--node", node.url], env={"COLUMNS": "200"})
    assert (result.exit_code, result.stderr) == (0, "")
    return result


@pytest.mark.parametrize(
    ("args", "asked"),
    [
        (["--history"], {}),
        (["--direction", "in"], {"direction": "in"}),
        (["--direction", "out"], {"direction": "out"}),
        (["--history", "--direction", "both"], {}),
        (["--counterparty", OTHER], {"counterparty": OTHER}),
        (["--reference", "rent = 7 & more"], {"reference": "rent = 7 & more"}),
        (["--history", "--limit", "7"], {"limit": "7"}),
    ],
)
def test_each_option_of_a_history_is_in_the_request(args: list[str], asked: dict[str, str]) -> None:
    with Asked() as node:
        cairn(node, "account", ADDRESS, *args)
    [query] = node.queries
    assert {"limit": query["limit"]} | asked == query


@pytest.mark.parametrize("args", [[], ["--json"]])
def test_what_a_node_says_is_escaped_where_it_is_not_printable(args: list[str]) -> None:
    with Liar() as node:
        [*lines, end] = cairn(node, "chain", *args).stdout.split("\n")
    assert end == ""
    assert all(line.isprintable() for line in lines)
    assert r"0.1\u009b31m\u007f\u202eevil\u001b]0;owned\u0007\udb40\udc01" in "".join(lines)
    if args:
        assert json.loads(lines[0])["version"] == LIE
