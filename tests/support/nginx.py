"""A real nginx before a node, with the configuration that docs/production.md shows."""

import os
import socket
import subprocess
import tempfile
from pathlib import Path

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
    return block


class Nginx:
    def __init__(self, binary: str, node: str, location: str = "") -> None:
        """Before the node at `node`, an URL."""
        [self.port] = free_ports(1)
        self._scratch = tempfile.TemporaryDirectory(prefix="cairn-test-")
        directory = Path(self._scratch.name)
        configuration = directory / "nginx.conf"
        configuration.write_text(AROUND.format(directory=directory, servers=documented(self.port, node, location)))
        self._process = subprocess.Popen([binary, "-c", str(configuration), "-p", str(directory)])

    def __enter__(self) -> "Nginx":
        wait_until(self._listens, PATIENCE_S, "nginx to listen")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE_S)
        self._scratch.cleanup()

    def _listens(self) -> bool:
        assert self._process.poll() is None, "nginx has ended"
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0
