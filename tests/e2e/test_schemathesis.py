"""The served description against the running node: whatever schemathesis generates, both agree."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.node_process import NodeProcess
from tests.support.pace import PATIENCE_S
from tests.support.public import PublicNode
from tests.support.wallet import dev_account

EXAMPLES = 25
CONFIG = f"""
hooks = "{Path(__file__).parents[1] / "support" / "described_formats.py"}"

[checks.positive_data_acceptance]
# What no schema can tell: a made-up sender cannot sign, a made-up hash does not exist, a copy may still be fresh.
expected-statuses = ["2xx", "304", "404", "409", "422"]

[[operations]]
include-path = "/tx/{{hash}}"
# A made-up hash is waited for to the end, which a description cannot make shorter: a second tells as much as a minute.
parameters = {{ "query.wait" = 1 }}

[[operations]]
include-path = "/mempool"
# A cursor fits only the listing that it came from.
checks.positive_data_acceptance.expected-statuses = ["2xx", "400"]

[[operations]]
include-path-regex = "^/(history/proof|account/[^/]+/statement)$"
# Two heights must ascend.
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "404", "422"]

[[operations]]
include-path = "/txs"
# An item that is no submission is answered by a problem in its place, and the batch by 200.
checks.negative_data_rejection.expected-statuses = ["200", "400", "413", "415"]

[[operations]]
include-path = "/rpc"
# JSON-RPC says inside of a 200 what is wrong with a call.
checks.negative_data_rejection.expected-statuses = ["200", "204", "400", "413", "415"]

[[operations]]
include-path-regex = "^/(openapi|asyncapi).json$"
# All that is generated for them is the copy that somebody has.
generation.max-examples = 10
"""


@pytest.fixture(scope="module")
def node() -> Iterator[NodeProcess]:
    with NodeProcess.start_dev("--block-time", "0.01", "--workers", "2") as process:
        yield process


def run_schemathesis(node: NodeProcess, directory: Path, config: str, *options: str) -> None:
    """Every check, the same cases on every run. Raises `AssertionError` with the whole report."""
    directory.mkdir()
    (directory / "schemathesis.toml").write_text(config)
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("schemathesis")),
            "run",
            f"{node.url}/openapi.json",
            "--checks=all",
            "--generation-deterministic",
            f"--max-examples={EXAMPLES}",
            "--continue-on-failure",
            f"--request-timeout={PATIENCE_S}",
            *options,
        ],
        cwd=directory,
        capture_output=True,
        text=True,
        start_new_session=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert node.probe("/ready") == 200


def test_every_operation(node: NodeProcess, tmp_path: Path) -> None:
    """In two halves at once: most of the time goes into making cases up."""
    with ThreadPoolExecutor() as halves:
        made_up = halves.submit(run_schemathesis, node, tmp_path / "made up", CONFIG, "--phases=fuzzing")
        run_schemathesis(node, tmp_path / "by rule", CONFIG, "--phases=examples,coverage,stateful")
        made_up.result()


def test_lookups_of_what_exists(node: NodeProcess, tmp_path: Path) -> None:
    """No generator guesses a hash: these operations get one that is confirmed."""
    public = PublicNode(node.url)
    transfer = {"from": dev_account(0).address, "to": dev_account(1).address, "value": 1, "gas": 21_000}
    tx_hash = public.post(transfer).json()["txHash"]
    public.await_confirmed(tx_hash)
    public.close()
    config = f'{CONFIG}\n[parameters]\n"path.hash" = "{tx_hash}"\n'
    # Their links start at POST /tx, which the first run follows.
    run_schemathesis(
        node, tmp_path / "lookups", config, "--phases=examples,coverage,fuzzing", "--include-path-regex=^/tx/"
    )
