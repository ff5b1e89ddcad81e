"""A dev chain, a user with a key of their own, and the installed command."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account
from typer.testing import CliRunner, Result

from cairn.cli.main import app
from cairn.domain.genesis import DEV_KEYS
from tests.support.node_process import NodeProcess, clean_environment, command
from tests.support.pace import PATIENCE_S
from tests.support.terminal import Terminal

PASSWORD = "correct horse"
LIGHT = 2**12
"""A work factor for keys that protect nothing."""


class User:
    """Somebody with a home of their own, at the node at `url`."""

    def __init__(self, home: Path, url: str) -> None:
        self.home = home
        self.url = url
        self.keys = home / "keys"
        self.env = clean_environment({"HOME": str(home), "CAIRN_KEYS": str(self.keys), "CAIRN_NODE": url})
        for name in ("XDG_DATA_HOME", "NO_COLOR", "FORCE_COLOR"):
            self.env.pop(name, None)

    def add_key(self, name: str, key: bytes) -> None:
        self.keys.mkdir(mode=0o700, exist_ok=True)
        document = Account.encrypt(key, PASSWORD, kdf="scrypt", iterations=LIGHT)
        (self.keys / f"{name}.json").write_text(json.dumps(document))

    def run(self, *args: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(args),
            input=stdin,
            capture_output=True,
            text=True,
            env=self.env | env,
            timeout=PATIENCE_S,
            # No terminal to ask at, wherever the tests run.
            start_new_session=True,
        )

    def invoke(self, *args: str, **env: str) -> Result:
        """Like `run`, but in this process: where only the answer matters, starting one for each takes too long."""
        return CliRunner().invoke(app, args, env={**self.env, **env})

    def json(self, *args: str, **env: str) -> Any:
        result = self.invoke(*args, "--json", **env)
        assert (result.exit_code, result.stderr) == (0, "")
        return json.loads(result.stdout)

    def at_terminal(self, *args: str, **env: str) -> Terminal:
        return Terminal(command(args), self.env | env)

    def shell_env(self) -> dict[str, str]:
        """In which `cairn` is the installed command."""
        programs = Path(command(())[0]).parent
        return self.env | {"PATH": f"{programs}:{self.env['PATH']}"}

    def in_shell(self, args: Sequence[str]) -> Terminal:
        return Terminal(args, self.shell_env())


@pytest.fixture(scope="module")
def node() -> Iterator[NodeProcess]:
    with NodeProcess.start_dev("--block-time", "0.01") as started:
        yield started


@pytest.fixture(scope="module")
def idle_node() -> Iterator[NodeProcess]:
    """It makes no block while a test runs: what is sent stays pending."""
    with NodeProcess.start_dev("--block-time", "86400") as started:
        yield started


@pytest.fixture
def user(tmp_path: Path, node: NodeProcess) -> User:
    return User(tmp_path, node.url)


@pytest.fixture
def idle_user(tmp_path: Path, idle_node: NodeProcess) -> User:
    return User(tmp_path, idle_node.url)


@pytest.fixture
def alice(user: User) -> User:
    """With the key of dev account 5, under a name."""
    user.add_key("alice", DEV_KEYS[5][1])
    return user
