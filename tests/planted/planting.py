"""Plants a defect in this process."""

import ast
import sys
from pathlib import Path

from tests.planted.defects import SOURCE, Defect
from tools.mutants.planted import Planted


def plant(defect: Defect) -> None:
    """For the rest of this process, which must not have imported the module yet."""
    path = Path(defect.path)
    text = path.read_text()
    if text.count(defect.before) != 1:
        raise ValueError(f"{defect.path} no longer has the place for {defect.name!r}: change tests/planted/defects.py")
    root = SOURCE if path.is_relative_to(SOURCE) else Path()
    sys.meta_path.insert(0, Planted(path, root, ast.parse(text.replace(defect.before, defect.after))))
