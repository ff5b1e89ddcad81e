"""A real chain on a real disk, with three transfers to a block."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cairn.domain.genesis import DEV_SIGNER, Genesis
from cairn.domain.types import TRANSFER_GAS
from cairn.store.chain import ChainStore
from tests.support.transfers import RULES, address

GENESIS_TIME = 1_000_000
BALANCE = 10**18


@pytest.fixture
def genesis() -> Genesis:
    return Genesis(
        chain_id=RULES.chain_id,
        timestamp=GENESIS_TIME,
        gas_price=RULES.gas_price,
        block_gas_limit=3 * TRANSFER_GAS,
        alloc={address(sender): BALANCE for sender in (1, 2, 3)},
        signer=DEV_SIGNER,
    )


@pytest.fixture
def chain(tmp_path: Path, genesis: Genesis) -> Iterator[ChainStore]:
    store = ChainStore.open(tmp_path / "data", genesis)
    yield store
    store.close()
