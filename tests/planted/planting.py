"""Plants a defect in this process: code that is imported in place of a module's own needs no copy of the sources."""

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType

from tests.planted.defects import SOURCE, Defect


class Planted(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Gives `tree` when its module is imported; put it first in `sys.meta_path`."""

    def __init__(self, path: Path, root: Path, tree: ast.Module) -> None:
        """`path` is the module's file, and `root` the directory from which it is imported."""
        self._path = path.resolve()
        parts = path.relative_to(root).with_suffix("").parts
        self._name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if self._name in sys.modules:
            raise RuntimeError(f"{self._name} is imported already: the tests would run on the code as it is")
        self._tree = tree

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        return importlib.util.spec_from_file_location(fullname, self._path, loader=self)

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._tree, str(self._path), "exec")

    def get_source(self, fullname: str) -> str:
        return ast.unparse(self._tree)

    def is_package(self, fullname: str) -> bool:
        return self._path.name == "__init__.py"


def plant(defect: Defect) -> None:
    """For the rest of this process, which must not have imported the module yet."""
    path = Path(defect.path)
    text = path.read_text()
    if text.count(defect.before) != 1:
        raise ValueError(f"{defect.path} no longer has the place for {defect.name!r}: change tests/planted/defects.py")
    root = SOURCE if path.is_relative_to(SOURCE) else Path()
    sys.meta_path.insert(0, Planted(path, root, ast.parse(text.replace(defect.before, defect.after))))
