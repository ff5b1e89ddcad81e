"""The real CometBFT, built by `make cometbft`, as single processes under a test's control."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.pace import PATIENCE_S

TOOLS = Path(__file__).parents[2] / ".tools"
BINARY = TOOLS / "bin" / "cometbft"

FAST: dict[str, str | bool] = {
    "consensus.timeout_propose": "500ms",
    "consensus.timeout_commit": "50ms",
    "consensus.create_empty_blocks": False,
    "tx_index.indexer": "null",
}


class Away(Exception):
    """CometBFT does not run, or not yet, or died while it was asked."""


class Rejected(Exception):
    """CometBFT answered with an error."""


def configure(config: Path, settings: Mapping[str, str | bool]) -> None:
    """Set `section.name` settings in a config.toml that CometBFT wrote."""
    text = config.read_text()
    for path, value in settings.items():
        section, _, name = path.rpartition(".")
        start = text.index(f"\n[{section}]\n") if section else 0
        rendered = str(value).lower() if isinstance(value, bool) else f'"{value}"'
        # The first line of that name at or after the section's head is the section's own.
        line = re.compile(rf"^{name} = .*$", re.MULTILINE)
        if line.search(text, start) is None:
            raise KeyError(path)
        text = text[:start] + line.sub(f"{name} = {rendered}", text[start:], count=1)
    config.write_text(text)


class CometBFT:
    """One node in `home`; its RPC is a unix socket there, so no two of them share a port."""

    def __init__(self, home: Path, application: Path) -> None:
        """`home` must be short: it holds a unix socket. `application` is where the ABCI server listens."""
        self._home = home
        self._application = application
        self._rpc = home / "rpc.sock"
        self.process: subprocess.Popen[bytes] | None = None

    def init(self, settings: Mapping[str, str | bool] = FAST) -> None:
        """Make keys and the genesis of a chain whose only validator is this node."""
        subprocess.run([BINARY, "init", "--home", self._home], check=True, stdout=subprocess.DEVNULL)
        configure(self._home / "config" / "config.toml", settings)

    def start(self) -> None:
        # A killed one leaves its socket, which the next one would refuse to replace.
        self._rpc.unlink(missing_ok=True)
        with (self._home / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(BINARY, "start", "--home", self._home),
                    *("--abci", "socket", "--proxy_app", f"unix://{self._application}"),
                    *("--rpc.laddr", f"unix://{self._rpc}", "--p2p.laddr", "tcp://127.0.0.1:0"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={name: value for name, value in os.environ.items() if not name.startswith("CMT")},
            )

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def end(self, number: int = signal.SIGKILL) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(PATIENCE_S)

    def call(self, method: str, **params: str) -> Any:
        """One RPC call. Raises `Away` while nothing answers and `Rejected` for an error answer."""
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        connection = http.client.HTTPConnection("cometbft")
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(PATIENCE_S)
            try:
                sock.connect(str(self._rpc))
                connection.sock = sock
                connection.request("POST", "/", body)
                answer = json.loads(connection.getresponse().read())
            except (OSError, http.client.HTTPException) as error:
                raise Away(str(error)) from error
        if "error" in answer:
            raise Rejected(answer["error"])
        return answer["result"]

    def height(self) -> int:
        """The newest height in its block store."""
        return int(self.call("status")["sync_info"]["latest_block_height"])
