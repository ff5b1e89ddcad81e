"""Two nodes under the same calls of CometBFT, of which one removes old blocks: they agree for ever."""

from pathlib import Path

import msgspec
import pytest

from cairn.domain.errors import Corrupt
from cairn.engine.network.state_sync import Snapshots
from cairn.store import keys, prune
from cairn.store.directory import snapshots_path
from cairn.store.rocks import WriteBatch
from tests.support.abci_node import FEES, GENESIS, Node, raw
from tests.support.audit import audit
from tests.support.core_fixtures import ACCOUNTS
from tests.support.disk import database_of
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S

FREE = msgspec.structs.replace(GENESIS, gas_price=0)


class PruningNode(Node):
    """Does on a commit what the network engine does, and is done with it before the next block."""

    def __init__(self, directory: Path, interval: int = 0) -> None:
        super().__init__(directory, FREE)
        self.snapshots = Snapshots(self.chain, snapshots_path(directory), interval, retain_blocks=2)

    def decide(self, raws: list[bytes]) -> bytes:
        app_hash = decide(self, raws)
        self.snapshots.after_commit()
        return app_hash

    def close(self) -> None:
        self.snapshots.close()
        super().close()


def decide(node: Node, raws: list[bytes]) -> bytes:
    app_hash = node.finalize(raws).app_hash
    node.app.commit()
    return app_hash


def test_a_pruning_node_agrees_with_the_others_where_transactions_are_free(tmp_path: Path) -> None:
    whole, pruning = Node(tmp_path / "whole", FREE), PruningNode(tmp_path / "pruning")
    for nonce in range(6):
        block = [raw(nonce, gas_price=0)]
        assert pruning.decide(block) == decide(whole, block)
    pruning.snapshots.close()
    pruning.chain.prune(5, lambda: None)
    pruning.close()
    pruning = PruningNode(tmp_path / "pruning")
    assert pruning.chain.base == 5
    assert pruning.chain.account(FEES) == whole.chain.account(FEES)
    # The fee recipient pays: a node that has lost its account takes this block for an invalid one.
    block = [raw(0, sender=9, gas_price=0)]
    assert pruning.process(block)
    assert pruning.decide(block) == decide(whole, block)
    # Its thread would remove what the audit is about to read.
    pruning.snapshots.close()
    assert audit(pruning.chain) >= 5
    pruning.close()
    whole.close()


def test_a_node_that_has_lost_an_account_stops_at_its_next_snapshot(tmp_path: Path) -> None:
    node = PruningNode(tmp_path / "data", interval=2)
    node.decide([raw(0, gas_price=0)])
    batch = WriteBatch(database_of(node.chain))
    batch.delete(keys.ACCOUNTS, keys.version_key(ACCOUNTS[5], 0))
    database_of(node.chain).write(batch)
    node.decide([raw(1, gas_price=0)])
    # Ends with its thread.
    node.snapshots._thread.join(PATIENCE_S)  # type: ignore[union-attr]
    with pytest.raises(Corrupt, match="accounts have other numbers than 1 to"):
        node.decide([raw(2, gas_price=0)])
    node.close()


def test_a_pruning_node_gives_the_space_of_its_blocks_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prune, "LEAST_REMOVALS", 20)
    node = PruningNode(tmp_path / "data")
    for nonce in range(20):
        node.decide([raw(nonce, gas_price=0)])
    wait_until(lambda: node.chain.compactions > 0 and node.chain.base >= 18, PATIENCE_S, "the space")
    node.snapshots.close()
    audit(node.chain)
    node.close()
