"""A block applied once more, and compared with what it says."""

from collections.abc import Mapping

from cairn.domain.errors import InvalidBlock
from cairn.domain.transition import BlockOutcome, GovernanceChange, ParentState, build_block
from cairn.domain.types import Address, BlockHash, BlockHeader, Rules, SealedBlock


def verify_block(
    parent: BlockHeader,
    parent_hash: BlockHash,
    state: ParentState,
    block: SealedBlock,
    rules: Rules,
    governance: GovernanceChange | None = None,
    balances: Mapping[Address, int] | None = None,
) -> BlockOutcome:
    """Apply `block` again and compare. Raises `InvalidBlock` naming the first field that differs."""
    given = block.header
    outcome = build_block(
        parent, parent_hash, state, block.txs, given.timestamp, given.proposer, rules, governance, balances
    )
    built = outcome.block
    for field in BlockHeader.__struct_fields__:
        if getattr(given, field) != getattr(built.header, field):
            raise InvalidBlock(
                f"block {built.header.height}: {field} is {_shown(getattr(given, field))}, "
                f"but it follows as {_shown(getattr(built.header, field))}"
            )
    if block.hash != built.hash:
        raise InvalidBlock(f"block {built.header.height}: hash is {_shown(block.hash)}, not {_shown(built.hash)}")
    return outcome


def _shown(field: object) -> str:
    return f"0x{field.hex()}" if isinstance(field, bytes) else str(field)
