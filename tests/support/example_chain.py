"""The dev chain of the API's examples: `python -m tests.support.example_chain` writes what its node answers.

Its one block holds the payment of `cairn.api.description.examples`. Run it after a change of the formats.
"""

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

from cairn.api.description import examples
from tests.support.rest_node import rest_node

PATHS = {
    "Header": "/blocks?limit=1",
    "Genesis": "/genesis",
    "FinalityFile": "/block/1/finality",
    "ReceiptFile": f"/tx/{examples.TX_HASH}/receipt",
    "AccountFile": f"/account/{examples.RECIPIENT}/proof",
    "StatementFile": f"/account/{examples.RECIPIENT}/statement?from=1",
    "HistoryFile": "/history/proof?from=0&to=1",
}


async def example_answers(directory: Path) -> dict[str, Any]:
    async with rest_node(directory) as node:
        assert (await node.post(examples.SIGNED_TRANSFER)).status_code == 200
        await node.core.mine(timestamp=examples.TIME)
        answers = {name: await node.read(path) for name, path in PATHS.items()}
    return answers | {"Header": answers["Header"][0]}


def example_file(name: str) -> bytes:
    """The file as a node gives it."""
    return json.dumps(examples.OF_BLOCK[name]).encode()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        found = asyncio.run(example_answers(Path(name)))
    examples.PROOFS_FILE.write_text(json.dumps(found, indent=1) + "\n")
