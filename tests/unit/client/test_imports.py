import subprocess
import sys

FOREIGN = ("cairn.api", "cairn.core", "cairn.engine", "cairn.store", "rocksdict", "starlette", "uvloop", "eth_account")


def test_the_client_brings_no_part_of_the_node_along() -> None:
    program = "import sys, cairn.client; print(*sys.modules, sep='\\n')"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert [name for name in run.stdout.split() if name.startswith(FOREIGN)] == []
