"""go-ethereum's client, bindings and headers; tests/interop/geth says what it does.

Its programs compute a block's hash from the header, and look for the block by that hash.
"""

import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.conftest import HERE, OFFLINE_GO, run
from tests.support.network import Network
from tests.support.node_process import NodeProcess
from tests.support.scratch import scratch_parent
from tests.support.wallet import dev_account

HEADERS = HERE.with_name("vectors") / "headers.json"


@pytest.fixture(scope="module")
def program(go: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("geth") / "geth.test"
    run([go, "vet", "."], HERE / "geth", OFFLINE_GO)
    run([go, "test", "-c", "-o", built, "."], HERE / "geth", OFFLINE_GO)
    return built


def use(program: Path, url: str) -> None:
    """Run all that needs a node. Its first tests read only: nothing has been sent before."""
    place = {
        "CAIRN_HTTP": f"{url}/rpc",
        "CAIRN_WS": f"ws{url.removeprefix('http')}/rpc",
        "CAIRN_KEY": bytes(dev_account(0).key).hex(),
    }
    said = run([program, "-test.v", "-test.skip", "Vectors|DataFields"], program.parent, place)
    assert "--- PASS: TestSend/type_2" in said
    assert "--- PASS: TestReference" in said


def test_the_header_vectors_are_what_go_ethereum_computes(program: Path) -> None:
    run([program, "-test.run", "^TestHeaderVectors$"], program.parent, {"CAIRN_HEADERS": str(HEADERS)})


@pytest.mark.parametrize("seed", [25, secrets.randbits(64)], ids=["a fixed seed", "a random seed"])
def test_a_thousand_data_fields_are_answered_as_go_ethereum_answers_them(program: Path, seed: int) -> None:
    with NodeProcess.start_dev("--block-time", "86400") as node:
        place = {
            "CAIRN_HTTP": f"{node.url}/rpc",
            "CAIRN_KEY": bytes(dev_account(0).key).hex(),
            "CAIRN_SEED": str(seed),
        }
        said = run([program, "-test.v", "-test.run", "^TestDataFields$"], program.parent, place)
    [summary] = [line for line in said.splitlines() if f"seed {seed}: " in line]
    print(summary)


def test_a_dev_chain(program: Path) -> None:
    with NodeProcess.start_dev("--block-time", "0.2", "--empty-blocks") as node:
        use(program, node.url)


@pytest.fixture
def idle_network(cometbft_tools: Path) -> Iterator[Network]:
    with (
        tempfile.TemporaryDirectory(prefix="cairn-net-", dir=scratch_parent()) as directory,
        Network(Path(directory) / "network", validators=2, linked=False) as network,
    ):
        network.start()
        yield network


def test_a_network_that_is_idle(program: Path, idle_network: Network) -> None:
    use(program, idle_network.nodes[0].url)
