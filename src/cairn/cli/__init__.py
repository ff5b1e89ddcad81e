"""The `cairn` command."""

import sys
from importlib import import_module

# structlog imports rich's tracebacks if it finds them, with what highlights the syntax of every language: a seventh of
# the time of `cairn keys list`. We never show them, because they have the values of variables (cairn.log). What is None
# is not found, and structlog does without.
if "rich.traceback" not in sys.modules:
    sys.modules["rich.traceback"] = None  # type: ignore[assignment]
    import_module("structlog")
    del sys.modules["rich.traceback"]
