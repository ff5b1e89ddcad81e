"""A node that makes its blocks alone and keeps only the latest: the disk space goes back while it serves."""

import os
from contextlib import suppress
from pathlib import Path

import httpx

from cairn.domain.genesis import encode_genesis
from cairn.store.chain import ChainStore
from cairn.store.directory import chain_path
from tests.support.blocks import grow, store_genesis
from tests.support.node_process import NodeProcess, wait_until
from tests.support.pace import PATIENCE_S

BLOCKS, TXS_EACH = 100, 200


def fill(home: Path) -> None:
    """A home whose chain has all of its blocks."""
    home.mkdir()
    (home / "genesis.json").write_bytes(encode_genesis(store_genesis()))
    chain = ChainStore.open(home / "data", store_genesis())
    grow(chain, BLOCKS, TXS_EACH)
    chain.close()


def size_bytes(data: Path) -> int:
    """The size of the store's tables and logs, which come and go while the node runs."""
    total = 0
    for kind in ("*.sst", "*.log"):
        for file in chain_path(data).glob(kind):
            with suppress(FileNotFoundError):
                total += file.stat().st_size
    return total


def deleted_bytes(pids: list[int]) -> int:
    """The size of the store's deleted files that a process of the node still holds open."""
    total = 0
    for pid in pids:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                if os.readlink(entry).endswith(".sst (deleted)"):
                    total += entry.stat().st_size
    return total


def test_a_home_of_twenty_thousand_transactions_shrinks_to_ten_blocks_without_a_new_one(tmp_path: Path) -> None:
    home, data = tmp_path / "home", tmp_path / "home" / "data"
    fill(home)
    before = size_bytes(data)
    options = ("run", "--home", str(home), "--port", "0", "--workers", "2", "--retain-blocks", "10")
    with NodeProcess.start(options) as node:
        node.wait_ready()
        with httpx.Client(base_url=node.url, timeout=PATIENCE_S) as client:
            wait_until(lambda: client.get("/block/90").status_code == 404, PATIENCE_S, "the base")
            wait_until(lambda: size_bytes(data) < before / 4, PATIENCE_S, "the space")
            wait_until(lambda: deleted_bytes(node.pids()) == 0, PATIENCE_S, "the workers to release deleted files")
            kept = [block["blockHeight"] for block in client.get("/blocks?limit=1000").json()]
            assert kept == list(range(BLOCKS, BLOCKS - 10, -1))
            assert client.get(f"/block/{BLOCKS}").json()["hash"]
            assert client.get("/ready").status_code == 200
        assert node.stop() == 0
