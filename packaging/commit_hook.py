"""Puts the commit of a checkout into what is built from it: an sdist or wheel has no .git to read (cairn/build.py)."""

import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]  # hatchling is not typed where it is not installed
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        source = Path(self.root, "src")
        sys.path.insert(0, str(source))
        build = import_module("cairn.build")
        # One that lies there is of an unpacked sdist, and is taken like every other file. What is installed as
        # editable reads .git itself.
        if version == "editable" or not build.COMMIT or (source / "cairn" / build.COMMIT_FILE).exists():
            return
        self.scratch = tempfile.TemporaryDirectory(prefix="cairn-build-")
        written = Path(self.scratch.name, build.COMMIT_FILE)
        written.write_text(build.COMMIT + "\n")
        inside = "src/cairn" if self.target_name == "sdist" else "cairn"
        build_data["force_include"][str(written)] = f"{inside}/{build.COMMIT_FILE}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "scratch"):
            self.scratch.cleanup()
