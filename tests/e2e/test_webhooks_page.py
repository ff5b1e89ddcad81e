"""docs/webhooks.md: the receiver that it shows gets what the forwarder sends, and nothing else."""

import inspect
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from cairn.cli.forward.forward_command import forward
from cairn.cli.forward.settings import TYPES, load_settings
from cairn.cli.forward.webhooks import Webhook, headers_of, parse_secrets
from tests.support.node_process import NodeProcess, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.pages import Page, Terminal
from tests.support.ports import free_ports, is_free

PAGE = Page("docs/webhooks.md")
PORT = "8080"


class Reader:
    """Types what the page says, with another port."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self.port = str(free_ports(1)[0])
        self.directory = terminal.directory
        self._started: list[subprocess.Popen[bytes]] = []

    def own(self, text: str) -> str:
        return self._terminal.own(text.replace(PORT, self.port))

    def start(self, line: str, name: str) -> None:
        with (self.directory / name).open("wb") as out:
            self._started.append(
                subprocess.Popen(self.own(line).split(), stdout=out, env=self._terminal.environment, cwd=self.directory)
            )

    def wait_for(self, name: str, lines: int) -> list[str]:
        path = self.directory / name
        wait_until(lambda: path.read_text().count("\n") >= lines, PATIENCE_S, f"{lines} lines of {name}")
        return path.read_text().splitlines()

    def run(self, line: str) -> str:
        return self._terminal.run(line.replace(PORT, self.port))

    def end(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with NodeProcess.start_dev("--block-time", "0.01") as node:
        started = Reader(Terminal(tmp_path, node.url))
        try:
            yield started
        finally:
            started.end()


def test_the_receiver_of_the_page_takes_what_is_signed_and_new_once(reader: Reader) -> None:
    (forward, banner), (send, _), (status, shown) = PAGE.steps()
    [program] = PAGE.code("python", "receiver.py")
    (reader.directory / "receiver.py").write_text(program.replace(PORT, reader.port))
    reader.start(forward, "forward.log")
    assert reader.wait_for("forward.log", 5) == reader.own(banner).splitlines()
    reader.start("python receiver.py", "receiver.log")
    # The status would tell of an attempt that found nobody.
    wait_until(lambda: not is_free(int(reader.port)), PATIENCE_S, "the receiver")
    reader.run(send)
    [line] = reader.wait_for("receiver.log", 1)
    [example] = PAGE.code("text")
    assert _without_moment(line) == _without_moment(example.strip())
    reader.wait_for("forward.log", 6)
    assert _without_moment(reader.run(status)) == _without_moment(reader.own(shown))

    url = f"http://127.0.0.1:{reader.port}/hook"
    keys = parse_secrets((reader.directory / "hooks" / "secret").read_text(), "")
    webhook = Webhook("newBlock_again", b'{"again":true}')
    now_s = int(time.time())
    signed = headers_of(webhook, keys, now_s)
    forged = headers_of(webhook, [bytes(32)], now_s)
    tried = [
        (forged, webhook.body, 401),
        (headers_of(webhook, keys, now_s - 600), webhook.body, 401),
        (signed, b'{"again":false}', 401),
        ({}, webhook.body, 401),
        (signed | {"webhook-signature": "v1,\u00e9"}, webhook.body, 401),
        (signed, webhook.body, 204),
        (signed, webhook.body, 204),
    ]
    answers = [
        httpx.post(
            url, content=body, headers=httpx.Headers(headers, encoding="latin-1"), timeout=PATIENCE_S
        ).status_code
        for headers, body, _ in tried
    ]
    assert answers == [status for _, _, status in tried]
    assert reader.wait_for("receiver.log", 2)[1:] == ["{'again': True}"]


def _without_moment(text: str) -> str:
    text = re.sub(r"0x[0-9a-f]{64}|\d{4}-\d\d-\d\dT[\d:]+Z", "…", text)
    return re.sub(r"following, .*", "following, …", text)


def test_the_settings_of_the_page_are_read(tmp_path: Path) -> None:
    [text] = PAGE.code("toml", "forward.toml")
    (tmp_path / "forward.toml").write_text(text)
    settings = load_settings(tmp_path / "forward.toml", {"timeout_s": 3.0, "node": None})
    assert (settings.to, settings.timeout_s, settings.state) == (
        "https://shop.example/hook",
        3.0,
        "/var/lib/cairn-forward",
    )


def test_the_page_names_the_option_of_every_setting() -> None:
    named = dict(re.findall(r"^\| `--([a-z-]+)` \| `([a-z_]+)`", PAGE.text, re.MULTILINE))
    assert list(named.values()) == list(TYPES)
    settings = set(named)
    runs = {"config", "once", "status", "quiet", "as-json"}
    assert {parameter.replace("_", "-") for parameter in inspect.signature(forward).parameters} == settings | runs
