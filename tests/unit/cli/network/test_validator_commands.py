"""`cairn validators` against a node that the test scripts; docs/network.md is run against a real network elsewhere."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from cairn.cli.main import app
from cairn.domain.crypto import checksum_address
from cairn.domain.errors import NodeError
from cairn.domain.genesis import DEV_KEYS
from cairn.domain.governance import Admins, Governance, Validator, apply_update
from cairn.domain.update_text import encode_public_key, parse_update_text

FIRST = Validator(b"\x01" * 32, 10, DEV_KEYS[0][0], "first")
NEW_KEY = encode_public_key(b"\x02" * 32)
ADMINS = Admins(2, tuple(address for address, _ in DEV_KEYS[:3]))


class Scripted:
    """A node of a network with one validator; applies an update at once, by the chain's own rules."""

    def __init__(self) -> None:
        self.governance = Governance(0, (FIRST,))
        self.lost = 0
        """So many updates are taken and never seen again."""
        self.posts = 0
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer(200, {"status": "alive"} if self.path == "/health" else scripted.listing())

            def do_POST(self) -> None:
                self.answer(*scripted.take(self.rfile.read(int(self.headers["content-length"]))))

            def answer(self, status: int, body: object) -> None:
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def listing(self) -> object:
        return {
            "chainId": 1337,
            "blockHeight": 7,
            "sequence": self.governance.sequence,
            "threshold": ADMINS.threshold,
            "admins": ["0x" + address.hex() for address in ADMINS.addresses],
            "validators": [
                {
                    "address": each.engine_address.hex(),
                    "publicKey": encode_public_key(each.public_key),
                    "power": each.power,
                    "feeRecipient": "0x" + each.fee_recipient.hex(),
                    "name": each.name,
                }
                for each in self.governance.validators
            ],
        }

    def take(self, body: bytes) -> tuple[int, object]:
        self.posts += 1
        chain_id, update = parse_update_text(body)
        try:
            after = apply_update(self.governance, ADMINS, update, chain_id)
        except NodeError as refusal:
            return 422, {"title": "", "status": 422, "detail": refusal.detail, "code": refusal.code}
        if self.posts > self.lost:
            self.governance = after
        return 202, {"status": "submitted"}


@pytest.fixture
def node() -> Iterator[Scripted]:
    scripted = Scripted()
    thread = threading.Thread(target=scripted.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield scripted
    scripted.server.shutdown()
    scripted.server.server_close()
    thread.join()


@pytest.fixture
def keys(tmp_path: Path) -> list[str]:
    """Options that name the keys of the first two administrators."""
    options: list[str] = []
    for index in range(2):
        path = tmp_path / f"admin{index}.key"
        path.write_text("0x" + DEV_KEYS[index][1].hex() + "\n")
        path.chmod(0o600)
        options += ["--key-file", str(path)]
    return options


def run(*args: str) -> Result:
    return CliRunner().invoke(app, ["validators", *args])


def test_list_shows_all_that_there_is(node: Scripted) -> None:
    result = run("list", "--node", node.url)
    assert result.exit_code == 0
    assert "Chain 1337, block 7, 0 updates so far" in result.output
    assert "first        10  100.0%" in result.output
    assert "2 of these must sign a change: " + checksum_address(DEV_KEYS[0][0]) in result.output


@pytest.mark.parametrize("lie", [{"name": "\x1b[2J"}, {"power": 0}])
def test_a_list_that_no_chain_has_is_not_shown(node: Scripted, lie: dict[str, Any]) -> None:
    node.governance = Governance(0, (msgspec.structs.replace(FIRST, **lie),))
    result = run("list", "--node", node.url)
    assert result.exit_code == 1
    assert "the node's answer cannot be read" in result.stderr


def test_a_validator_is_added_changed_and_removed(node: Scripted, keys: list[str]) -> None:
    chosen = ["--public-key", NEW_KEY, "--node", node.url, *keys]
    recipient = checksum_address(DEV_KEYS[4][0])
    added = run("add", *chosen, "--name", "second", "--power", "3", "--fee-recipient", recipient)
    assert added.exit_code == 0, added.output
    assert node.governance.validators[1] == Validator(b"\x02" * 32, 3, DEV_KEYS[4][0], "second")
    assert run("update", "--name", "second", "--power", "5", "--node", node.url, *keys).exit_code == 0
    assert node.governance.validators[1] == Validator(b"\x02" * 32, 5, DEV_KEYS[4][0], "second")
    assert run("remove", "--name", "second", "--node", node.url, *keys).exit_code == 0
    assert node.governance.validators == (FIRST,)
    assert node.governance.sequence == 3


def test_a_lost_update_is_submitted_again(node: Scripted, keys: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cairn.cli.network.remote_network.RESUBMIT_S", 0.1)
    node.lost = 2
    assert run("add", "--public-key", NEW_KEY, "--node", node.url, *keys).exit_code == 0
    assert node.posts == 3
    # Without a fee recipient, its blocks still say whose they are.
    added = node.governance.validators[1]
    assert added.fee_recipient == added.engine_address


def test_one_that_never_happens_is_given_up(node: Scripted, keys: list[str]) -> None:
    node.lost = 100
    result = run("add", "--public-key", NEW_KEY, "--node", node.url, "--timeout", "1", *keys)
    assert (result.exit_code, result.stderr) == (
        6,
        "cairn: the update is not in a block after 1 s; it may still come\n",
    )


def test_administrators_sign_one_after_the_other(node: Scripted, keys: list[str], tmp_path: Path) -> None:
    file = str(tmp_path / "update.json")
    assert run("add", "--public-key", NEW_KEY, "--node", node.url, *keys[:2], "--out", file).exit_code == 0
    refused = run("submit", file, "--node", node.url)
    assert (refused.exit_code, refused.stderr) == (1, "cairn: refused: 1 of 2 required administrators have signed\n")
    # Whoever signs twice has signed once.
    assert "signatures so far: 1" in run("sign", file, *keys[:2]).output
    assert "signatures so far: 2" in run("sign", file, *keys[2:]).output
    assert run("submit", file, "--node", node.url).exit_code == 0
    assert len(node.governance.validators) == 2


def test_an_update_that_another_one_overtook_is_refused(node: Scripted, keys: list[str], tmp_path: Path) -> None:
    file = str(tmp_path / "update.json")
    run("add", "--public-key", NEW_KEY, "--node", node.url, *keys, "--out", file)
    run("update", "--name", "first", "--power", "11", "--node", node.url, *keys)
    late = run("submit", file, "--node", node.url)
    assert (late.exit_code, late.stderr) == (
        1,
        "cairn: refused: another update has the sequence number 0; make this one again\n",
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["add"], "name the validator by --home or by --public-key"),
        (["add", "--public-key", "abc"], "--public-key: publicKey: an Ed25519 key is 44 characters of base64"),
        (["add", "--public-key", encode_public_key(FIRST.public_key)], "it is already a validator; `cairn validators"),
        (["remove"], "name one validator: --home, --public-key or --name"),
        (["remove", "--name", "nobody"], "0 validators are called nobody; name one by --public-key"),
        (["remove", "--public-key", NEW_KEY], "this is not a validator of the network"),
        (["add", "--home", "/nowhere"], "cannot read the public key in /nowhere/cometbft/config"),
        (["add", "--public-key", NEW_KEY, "--key-file", "/nowhere"], "cannot read /nowhere: No such file or directory"),
        (["add", "--public-key", NEW_KEY, "--name", "n" * 65], "name: it has at most 64 bytes"),
    ],
)
def test_what_the_operator_can_put_right_is_one_line(node: Scripted, args: list[str], message: str) -> None:
    result = run(*args, "--node", node.url)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"cairn: {message}")
    assert node.posts == 0


def test_a_key_that_others_can_read_or_that_is_none_is_refused(node: Scripted, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("secret")
    path.chmod(0o644)
    options = ["--public-key", NEW_KEY, "--node", node.url, "--key-file", str(path)]
    assert run("add", *options).stderr == f"cairn: {path} can be read by others: chmod 600 {path}\n"
    path.chmod(0o600)
    for text in ("secret", "", "11" * 31, "ff" * 32):
        path.write_text(text)
        assert run("add", *options).stderr == f"cairn: {path} holds no private key of 64 hexadecimal digits\n"


def test_a_file_that_is_no_update_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "update.json"
    assert run("sign", str(path)).stderr == f"cairn: cannot read {path}: No such file or directory\n"
    path.write_text("{}")
    assert run("sign", str(path)).stderr.startswith(f"cairn: {path}: body: Object missing required field")


def test_a_node_that_is_none_or_away_is_said() -> None:
    assert run("list", "--node", "localhost").stderr.startswith("cairn: --node localhost: expected a URL")
    away = run("list", "--node", "http://127.0.0.1:1")
    assert away.exit_code == 5
    assert away.stderr.startswith("cairn: http://127.0.0.1:1 does not answer")
    assert "`cairn dev` starts a node" in away.stderr
