"""A node joins a running network with nothing but its genesis and a peer: block by block, and from a snapshot."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cairn.cli.network.join import newest_snapshot
from cairn.cometbft import CometBFT, edit_toml
from cairn.domain.errors import InvalidConfig
from tests.support.cometbft import BINARY
from tests.support.node_process import NodeProcess, clean_environment, command, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.ports import free_base_port
from tests.support.public import PublicNode, get_anew
from tests.support.wallet import dev_account, sign_transfer

SNAPSHOT_INTERVAL = 5


def cairn(*args: str) -> None:
    done = subprocess.run(command(args), capture_output=True, text=True, env=clean_environment())
    assert done.returncode == 0, done.stderr


def head_of(url: str) -> int:
    return int(get_anew(f"{url}/chain").json()["head"]["blockHeight"])


@pytest.fixture(scope="module")
def member(cometbft_tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int, NodeProcess]]:
    """A network of one validator that makes blocks quickly: its home, its base port and its process."""
    network = tmp_path_factory.mktemp("join") / "net"
    base_port = free_base_port(1)
    cairn("testnet", str(network), "--validators=1", f"--base-port={base_port}")
    home = network / "node0"
    # Otherwise a validator takes listed nodes only.
    cairn("peers", "--home", str(home), "--open")
    config = home / "cometbft" / "config" / "config.toml"
    config.write_text(edit_toml(config.read_text(), {"consensus.create_empty_blocks_interval": "200ms"}))
    args = ["run", "--home", str(home), "--snapshot-interval", str(SNAPSHOT_INTERVAL)]
    with NodeProcess.start(args) as node:
        wait_until(lambda: "Listening on" in node.stdout, PATIENCE_S, node.stderr)
        public = PublicNode(node.url)
        for nonce in range(3):
            transfer = sign_transfer(dev_account(3), dev_account(4).address, value=7, nonce=nonce)
            public.await_confirmed(public.submit(transfer))
        rpc = f"127.0.0.1:{base_port + 2}"
        wait_until(lambda: offers_snapshot(rpc), PATIENCE_S, f"a snapshot: {node.stderr}")
        yield home, base_port, node
        public.close()


def offers_snapshot(rpc: str) -> bool:
    try:
        return newest_snapshot(rpc) > 0
    except InvalidConfig:
        return False


@pytest.mark.parametrize("by_snapshot", [False, True])
def test_a_node_that_joins_follows_the_chain(
    member: tuple[Path, int, NodeProcess], tmp_path: Path, by_snapshot: bool
) -> None:
    home, base_port, node = member
    peer = f"{CometBFT(BINARY, home / 'cometbft').run('show-node-id')}@127.0.0.1:{base_port + 1}"
    own = tmp_path / "joining"
    state_sync = [f"--state-sync=127.0.0.1:{base_port + 2}"] if by_snapshot else []
    genesis = str(home / "genesis.json")
    cairn("join", str(own), "--genesis", genesis, "--peers", peer, f"--base-port={free_base_port(1)}", *state_sync)
    height = head_of(node.url)
    with NodeProcess.start(["run", "--home", str(own)]) as joining:
        wait_until(lambda: "Listening on" in joining.stdout, PATIENCE_S, f"readiness: {joining.stderr}")
        wait_until(lambda: head_of(joining.url) >= height, PATIENCE_S, "the network's height")
        here, there = (get_anew(f"{url}/block/{height}").json() for url in (joining.url, node.url))
        assert here["hash"] == there["hash"]
        account = f"/account/{dev_account(4).address}"
        assert get_anew(joining.url + account).json() == get_anew(node.url + account).json()
        oldest = get_anew(f"{joining.url}/block/1").status_code
        assert oldest == (404 if by_snapshot else 200)
