"""Nothing is imported while requests are served: an import holds the event loop for tens of milliseconds."""

import time
from pathlib import Path
from urllib.parse import urlsplit

from bench.greedy.cases import WALLET, every_case, typed_data
from bench.greedy.chain import Size, call, fill_chain, fill_mempool
from bench.greedy.clients import greedy_client
from tests.support.node_process import NodeProcess

SIZE = Size(small_blocks=3, full_blocks=1, pending=100)
ENOUGH_S = 0.05


def imported(node: NodeProcess) -> list[str]:
    """The names of the modules that the node's processes have imported, in their order."""
    lines = node.stderr.splitlines()
    return [line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")]


def test_every_route_and_method_is_served_without_an_import(tmp_path: Path) -> None:
    filled = fill_chain(tmp_path / "data", SIZE)
    # With one worker: each imports for itself what the first call below needs.
    args = ("dev", "--port", "0", "--data-dir", str(tmp_path / "data"), "--workers", "1", "--quiet")
    late: dict[str, list[str]] = {}
    with NodeProcess(args, env={"PYTHONPROFILEIMPORTTIME": "1"}) as node:
        node.wait_ready()
        fill_mempool(node.url, SIZE.pending)
        # This one imports in a thread, where it keeps nobody waiting.
        call(node.url, "eth_signTypedData_v4", WALLET, typed_data())
        port = urlsplit(node.url).port or 0
        for case in every_case(filled):
            before = len(imported(node))
            with greedy_client(case, port, 1):
                time.sleep(ENOUGH_S)
            if found := imported(node)[before:]:
                late[case.name] = found
        assert imported(node), "the node does not tell what it imports"
    assert late == {}
