"""The docs site, built as `make docs` does, and served."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.pages import ROOT

COMMAND = re.findall(r"python -m (mkdocs build .*)", (ROOT / "Makefile").read_text())[0].split()


def build_site(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *COMMAND, *options]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, start_new_session=True)


class SilentHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serve_site(directory: Path) -> Iterator[str]:
    """The address of the site on loopback. Search needs one: a browser starts no worker from a file."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SilentHandler, directory=str(directory))) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            serving.join()
