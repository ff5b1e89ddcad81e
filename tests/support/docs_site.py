"""The docs site, built as `make docs` does."""

import os
import re
import subprocess
import sys

from tests.support.pages import ROOT

COMMAND = re.findall(r"python -m (mkdocs build .*)", (ROOT / "Makefile").read_text())[0].split()


def build_site(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *COMMAND, *options]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
