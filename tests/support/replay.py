"""The whole chain read over the public interface and computed again from genesis with the domain's functions."""

from collections.abc import Mapping
from typing import Any

from cairn.domain.genesis import Genesis, genesis_outcome
from cairn.domain.transition import BlockOutcome, build_block
from cairn.domain.types import Account, Address, BlockHash, BlockHeader, SealedBlock, Tx, TxHash
from tests.support.memory_state import MemoryState
from tests.support.public import PublicNode


def raw(text: str) -> bytes:
    return bytes.fromhex(text[2:])


def header_of(shown: Mapping[str, Any]) -> BlockHeader:
    """A header as GET /block and the test vectors show it."""
    return BlockHeader(
        height=shown["blockHeight"],
        previous_hash=BlockHash(raw(shown["previousHash"])),
        timestamp=shown["timestamp"],
        tx_root=raw(shown["transactionsRoot"]),
        changes_root=raw(shown["receiptsRoot"]),
        state_root=raw(shown["stateRoot"]),
        history_root=raw(shown["mixHash"]),
        gas_used=shown["gasUsed"],
        proposer=Address(raw(shown["proposer"])),
        chain_id=shown["chainId"],
        gas_limit=shown["gasLimit"],
        base_fee=int(shown["baseFeePerGas"]),
        tx_count=shown["transactionCount"],
    )


class Replay:
    """State that follows from genesis and the blocks that the node shows."""

    def __init__(self, genesis: Genesis) -> None:
        self._genesis = genesis
        self._state = MemoryState()
        self.accounts = self._state.accounts
        self.heights: dict[str, int] = {}
        """Every transaction with the height that holds it."""
        self._adopt(genesis_outcome(genesis))

    def account(self, address: Address) -> Account:
        return self._state.account(address)

    def _adopt(self, outcome: BlockOutcome) -> None:
        self.head: SealedBlock = outcome.block
        self._state.apply(outcome)

    def apply(self, shown: Mapping[str, Any], txs: list[Tx]) -> None:
        """Build the block again. Raises `AssertionError` unless it has the hash that the node shows."""
        outcome = build_block(
            self.head.header,
            self.head.hash,
            self._state,
            txs,
            shown["timestamp"],
            Address(raw(shown["proposer"])),
            self._genesis.rules,
        )
        assert "0x" + outcome.block.hash.hex() == shown["hash"], f"block {shown['blockHeight']} does not follow"
        for tx_hash in shown["transactions"]:
            assert tx_hash not in self.heights, f"{tx_hash} is in two blocks"
            self.heights[tx_hash] = shown["blockHeight"]
        self._adopt(outcome)


def shown_tx(fields: Mapping[str, Any]) -> Tx:
    """A transaction as GET /tx shows it; its signature is not shown, and no block hash covers more than its hash."""
    return Tx(
        hash=TxHash(raw(fields["txHash"])),
        sender=Address(raw(fields["from"])),
        to=Address(raw(fields["to"])),
        nonce=fields["nonce"],
        gas=fields["gas"],
        gas_price=fields["gasPrice"],
        value=fields["value"],
        signature=bytes(65),
        data=raw(fields.get("data", "0x")),
    )


def replay_chain(node: PublicNode, genesis: Genesis) -> Replay:
    """Every block from genesis to the head. Raises `AssertionError` at the first that does not follow."""
    replay = Replay(genesis)
    first = node.read("/block/0")
    assert first["hash"] == "0x" + replay.head.hash.hex(), "another genesis block"
    head = node.read("/chain")["head"]
    for height in range(1, head["blockHeight"] + 1):
        shown = node.read(f"/block/{height}")
        txs = [node.read(f"/tx/{tx_hash}") for tx_hash in shown["transactions"]]
        for index, tx in enumerate(txs):
            assert tx["status"] == "confirmed"
            assert (tx["blockHeight"], tx["blockHash"], tx["transactionIndex"]) == (height, shown["hash"], index)
        replay.apply(shown, [shown_tx(tx) for tx in txs])
    assert head["hash"] == "0x" + replay.head.hash.hex()
    return replay
