"""Java's own HTTP client and WebSocket, with their defaults: each first request offers HTTP/2 in clear text."""

from pathlib import Path

from tests.interop.conftest import HERE, run
from tests.support.node_process import NodeProcess
from tests.support.pace import PATIENCE_S
from tests.support.programs import need_program
from tests.support.public import PublicNode
from tests.support.wallet import dev_account, new_account

VALUE = 12_345_678_901_234_567_891


def test_java_pays_and_watches(tmp_path: Path) -> None:
    compiler, java = need_program("javac"), need_program("java")
    run([compiler, "-Xlint:all", "-Werror", "-d", tmp_path, HERE / "java" / "Pay.java"], tmp_path)
    recipient = new_account().address
    with NodeProcess.start_dev("--block-time", "0.2") as node:
        args = [node.url, dev_account(0).address, recipient, str(VALUE), str(int(PATIENCE_S))]
        tx_hash = run([java, "-cp", tmp_path, "Pay", *args], tmp_path).strip()
        public = PublicNode(node.url)
        assert public.read(f"/tx/{tx_hash}")["status"] == "confirmed"
        assert public.read(f"/account/{recipient}")["balance"] == VALUE
        public.close()
