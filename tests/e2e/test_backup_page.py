"""docs/backup.md, command by command."""

import re
import shlex
import subprocess
from pathlib import Path

from cairn.domain.crypto import checksum_address
from cairn.domain.genesis import DEV_KEYS
from tests.support.lone_home import LoneHome
from tests.support.node_process import NodeProcess, clean_environment, command
from tests.support.pace import PATIENCE_S
from tests.support.pages import Page
from tests.support.public import PublicNode
from tests.support.wallet import dev_account, sign_transfer

PAGE = Page("docs/backup.md")
PLACES = {"/var/lib/cairn": "home", "/backup": "backup", "/srv": "srv", "/safe": "safe"}
PAYEE = checksum_address(DEV_KEYS[1][0])


def run(line: str) -> str:
    own = shlex.quote(command([])[0])
    done = subprocess.run(
        re.sub(r"^cairn ", f"{own} ", line),
        shell=True,
        capture_output=True,
        text=True,
        env=clean_environment(),
        timeout=PATIENCE_S,
        start_new_session=True,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


def labels(text: str) -> list[str]:
    return [line.split("  ")[0] for line in text.splitlines()]


class Reader:
    """Does what the page says, in other places."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._backup = ""

    def own(self, text: str) -> str:
        for shown, name in PLACES.items():
            text = text.replace(shown, str(self.directory / name))
        return re.sub(r"\d{4}-\d\d-\d\dT\d{6}Z", self._backup, text) if self._backup else text

    def do(self, line: str, shown: str) -> None:
        printed = run(self.own(line))
        # What it prints may go on.
        assert labels(printed)[: len(labels(shown))] == labels(shown)
        if line.startswith("cairn backup"):
            (self._backup,) = (path.name for path in (self.directory / "backup" / "cairn").iterdir())


def pay(node: NodeProcess, nonce: int) -> str:
    public = PublicNode(node.url)
    try:
        return public.submit(sign_transfer(dev_account(0), PAYEE, 1, nonce))
    finally:
        public.close()


def test_the_commands_of_the_page_work_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "safe").mkdir()
    reader, home = Reader(tmp_path), LoneHome(tmp_path / "home")
    run(f"install -m 600 {home.key_file} {tmp_path / 'safe'}")
    make, check, verify, restore, put_key, start, compact = PAGE.steps()
    with home.start() as node:
        node.wait_ready()
        tx_hash = home.pay(node)
        reader.do(*make)
        assert node.stop() == 0
    for step in (check, verify, restore, put_key):
        reader.do(*step)
    args = [*shlex.split(reader.own(start.line))[1:], "--port", "0"]
    with NodeProcess.start(args) as restored:
        restored.wait_ready()
        public = PublicNode(restored.url)
        assert public.read(f"/tx/{tx_hash}")["status"] == "confirmed"
        public.close()
        pay(restored, home.paid)
        assert restored.stop() == 0
    reader.do(*compact)
