"""`cairn` that says it is another version, with these rules: `python other_rules.py RULES run --home HOME`.

The rules themselves are the same: it shows what a node does by the number alone.
"""

import sys

from cairn.api.rest import lookups
from cairn.cli.main import app
from cairn.cli.network import homes
from cairn.engine.network import abci_application
from cairn.store import rules_file

OTHER_VERSION = "99.0.0"


def main() -> None:
    _, version, *args = sys.argv
    sys.argv = [sys.argv[0], *args]
    for module in (homes, abci_application, rules_file):
        setattr(module, "RULES_VERSION", int(version))  # noqa: B010
    setattr(lookups, "VERSION", OTHER_VERSION)  # noqa: B010
    app()


if __name__ == "__main__":
    main()
