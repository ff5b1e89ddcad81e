"""A real nginx before a node, with the configuration that docs/production.md shows."""

import os
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S
from tests.support.pages import DOCUMENTED_ADDRESS, Page
from tests.support.ports import free_ports

NGINX = (os.environ.get("NGINX", "nginx"), "/usr/sbin/nginx")
AROUND = """
daemon off;
master_process off;
pid {directory}/pid;
error_log {directory}/error.log;
events {{ worker_connections 256; }}
http {{
    access_log off;
    # A client that measures keeps its connections.
    keepalive_requests 1000000;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    {servers}
}}
"""


def documented(port: int, node: str, location: str = "") -> str:
    """The page's configuration for this port and node; `location` is one more than it has."""
    [block] = Page("docs/production.md").section("Put a proxy in front").code("nginx")
    for shown, here in (
        ("listen 443 ssl;", f"listen 127.0.0.1:{port};"),
        (DOCUMENTED_ADDRESS, node.removeprefix("http://")),
        ("    location / {", f"    {location}\n    location / {{"),
    ):
        assert shown in block, f"docs/production.md no longer has {shown}"
        block = block.replace(shown, here)
    # It speaks plain HTTP here.
    return "".join(line for line in block.splitlines(keepends=True) if "ssl_certificate" not in line)


class Proxy:
    """A program before nodes. Leaving the `with` block ends it."""

    def __init__(self) -> None:
        [self.port] = free_ports(1)
        self._scratch = tempfile.TemporaryDirectory(prefix="cairn-test-")
        self.directory = Path(self._scratch.name)
        self.configuration = self.directory / "configuration"

    def start(self, program: Sequence[str]) -> None:
        self.process = subprocess.Popen(program, stdout=subprocess.DEVNULL)

    def start_nginx(self, binary: str, servers: str) -> None:
        self.configuration.write_text(AROUND.format(directory=self.directory, servers=servers))
        self.start([binary, "-c", str(self.configuration), "-p", str(self.directory)])

    def __enter__(self) -> Self:
        wait_until(self._listens, PATIENCE_S, "the proxy to listen")
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE_S)
        self._scratch.cleanup()

    def _listens(self) -> bool:
        assert self.process.poll() is None, "the proxy has ended"
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


class Nginx(Proxy):
    def __init__(self, binary: str, node: str, location: str = "") -> None:
        """Before the node at `node`, an URL."""
        super().__init__()
        self.start_nginx(binary, documented(self.port, node, location))
