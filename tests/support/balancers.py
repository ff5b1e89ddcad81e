"""A real HAProxy or nginx before several nodes, with the configuration that docs/scaling.md shows."""

import os
import re
from collections.abc import Sequence

from tests.support.nginx import NGINX, Proxy
from tests.support.pages import Page
from tests.support.programs import need_program

HAPROXY = (os.environ.get("HAPROXY", "haproxy"), "/usr/sbin/haproxy")
SERVED_BY = "X-Served-By"
"""In every answer, here only: the number of the node, in the order in which the balancer got them."""

_SERVER = re.compile(r"^( *server )(?:read\d )?(10\.0\.0\.1\d:8645)(.*)$", re.MULTILINE)


class Balancer(Proxy):
    def __init__(self, kind: str, nodes: Sequence[str]) -> None:
        """Before the nodes at these URLs. Skips the test where the program is not here."""
        super().__init__()
        self.url = f"http://127.0.0.1:{self.port}"
        if kind == "haproxy":
            self.configuration.write_text(haproxy_configuration(self.port, nodes))
            self.start([need_program(*HAPROXY), "-f", str(self.configuration), "-db"])
        else:
            self.start_nginx(need_program(*NGINX), nginx_configuration(self.port, nodes))


def haproxy_configuration(port: int, nodes: Sequence[str]) -> str:
    [text] = Page("docs/scaling.md").code("text", "/etc/haproxy/haproxy.cfg")
    text = _replaced(text, "bind :443 ssl crt /etc/haproxy/node.example.org.pem", f"bind 127.0.0.1:{port}")
    text = _replaced(text, "    use_backend", f"    http-after-response set-header {SERVED_BY} %s\n    use_backend")
    return _with_servers(text, [f"{number} {_address(url)}" for number, url in enumerate(nodes)], lists=2)


def nginx_configuration(port: int, nodes: Sequence[str]) -> str:
    [text] = Page("docs/scaling.md").code("nginx", "/etc/nginx/conf.d/cairn.conf")
    text = _replaced(text, "listen 443 ssl;", f"listen 127.0.0.1:{port};")
    names = "".join(f'    "~{_address(url)}$" {number};\n' for number, url in enumerate(nodes))
    text = f"map $upstream_addr $served_by {{\n{names}}}\n" + text
    text = _replaced(text, "    location / {", f"    add_header {SERVED_BY} $served_by always;\n    location / {{")
    # It speaks plain HTTP here.
    text = "".join(line for line in text.splitlines(keepends=True) if "ssl_certificate" not in line)
    return _with_servers(text, [_address(url) for url in nodes], lists=1)


def _with_servers(text: str, servers: Sequence[str], lists: int) -> str:
    """The lines of the page's four nodes, for as many nodes as there are here."""
    shown = _SERVER.findall(text)
    assert len(shown) == 4 * lists, "docs/scaling.md no longer lists four nodes"
    per_list = len(shown) // lists
    count = 0

    def here(found: re.Match[str]) -> str:
        nonlocal count
        place, count = count % per_list, count + 1
        return f"{found[1]}{servers[place]}{found[3]}" if place < len(servers) else ""

    return _SERVER.sub(here, text)


def _replaced(text: str, shown: str, here: str) -> str:
    assert shown in text, f"docs/scaling.md no longer has {shown}"
    return text.replace(shown, here, 1)


def _address(url: str) -> str:
    return url.removeprefix("http://")
