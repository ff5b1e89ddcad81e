"""What an account held after one of the latest blocks is proven by a leaf and a path, and so is that there is none."""

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from cairn.domain.genesis import Genesis
from cairn.domain.governance import ValidatorRecord
from cairn.domain.merkle import verify_inclusion
from cairn.domain.state_tree import StateLeaf, read_state_leaf
from cairn.domain.types import ZERO_ADDRESS, Account, Address, BlockHeader
from cairn.store import state_proofs
from cairn.store.chain import KEPT_TREES, ChainStore
from cairn.store.rocks import Database
from cairn.store.state_proofs import prove_account
from tests.support.blocks import SENDERS, extend, next_transfers, store_genesis
from tests.support.transfers import address


def network_genesis() -> Genesis:
    validator = ValidatorRecord(bytes([7]) * 32, 1, ZERO_ADDRESS)
    return msgspec.structs.replace(store_genesis(), validators=(validator,), signer=None)


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[ChainStore]:
    store = ChainStore.open(tmp_path / "data", network_genesis())
    yield store
    store.close()


def proven(chain: ChainStore, who: Address, header: BlockHeader) -> StateLeaf:
    """The leaf that is proven; it must be the account's own, or skip it."""
    proof = prove_account(chain, who, header)
    assert proof is not None
    assert verify_inclusion(proof.leaf, proof.number, proof.size, proof.siblings, header.state_root)
    leaf = read_state_leaf(proof.leaf)
    assert leaf.address == who or leaf.skips(who)
    return leaf


def test_every_account_is_proven_after_each_of_the_latest_blocks(chain: ChainStore) -> None:
    states: list[tuple[BlockHeader, dict[Address, Account]]] = []
    people = [address(number) for number in [*SENDERS, 3_000, 2_000, 2_500, 100, 4_000]]
    for to in (3_000, 2_000, 2_500, 100, 4_000):
        extend(chain, next_transfers(chain, 3, to=to))
        states.append((chain.head_header, {who: chain.account(who) for who in people}))
        for header, accounts in states[-1 - KEPT_TREES :]:
            for who, account in accounts.items():
                leaf = proven(chain, who, header)
                assert (leaf.account if leaf.address == who else Account()) == account


@pytest.mark.parametrize("who", [Address(bytes(20)), Address(b"\xff" * 20), address(777)])
def test_an_address_without_an_account_is_proven_to_have_none(chain: ChainStore, who: Address) -> None:
    extend(chain, next_transfers(chain, 3), proposer=address(1))
    assert proven(chain, who, chain.head_header).address != who


def test_a_block_that_is_too_old_has_no_proof(chain: ChainStore) -> None:
    first = chain.head_header
    for _ in range(KEPT_TREES + 1):
        extend(chain, next_transfers(chain, 1))
    assert prove_account(chain, address(1), first) is None


def test_more_new_accounts_than_are_stepped_over_give_no_proof(
    chain: ChainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_proofs, "MOST_STEPS", 3)
    before = chain.head_header
    extend(chain, [tx for to in range(500, 504) for tx in next_transfers(chain, to - 498, to=to)[-1:]])
    assert prove_account(chain, address(505), before) is None
    assert proven(chain, address(505), chain.head_header).address == address(503)


def test_new_neighbours_on_both_sides_are_stepped_over_in_one_walk(
    chain: ChainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    extend(chain, next_transfers(chain, 1, to=5_000))
    before = chain.head_header
    # Some of them twice: then they have two versions that are newer than the block.
    for _ in range(2):
        extend(chain, [tx for to in range(4_990, 5_011) for tx in next_transfers(chain, to - 4_980, to=to)[-1:]])
    walks: list[str] = []

    def noted(name: str) -> Callable[..., object]:
        read = getattr(Database, name)

        def note(*arguments: object) -> object:
            walks.append(name)
            return read(*arguments)

        return note

    for name in ("cursor", "first_of_prefix", "keys_between", "first_and_behind"):
        monkeypatch.setattr(Database, name, noted(name))
    for who in (address(5_000), address(5_005), address(4_995), Address(b"\xff" * 20), Address(bytes(20))):
        proven(chain, who, before)
        # Besides that, the version of the account that was found.
        assert walks == ["cursor", "first_of_prefix"]
        walks.clear()
