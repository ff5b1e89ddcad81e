from pathlib import Path

import pytest

from cairn.domain.errors import Corrupt, DirectoryInUse, StoreUnavailable, WrongFormat, WrongGenesis
from cairn.domain.genesis import dev_genesis, genesis_outcome
from cairn.domain.state_tree import Place, StateTree
from cairn.domain.transactions import decode_record, encode_record
from cairn.domain.types import EMPTY_ACCOUNT, ZERO_HASH, Account, Address, BlockHash, TxHash
from cairn.store import keys
from cairn.store.chain import AccountCache, CachedAccount, ChainStore
from cairn.store.keys import BlockMark
from cairn.store.rocks import WriteBatch
from cairn.store.watermark import NOTHING_YET
from tests.support.audit import audit
from tests.support.blocks import BALANCE, extend, grow, head_of, history_of, next_transfers, outcome_on, store_genesis
from tests.support.core_fixtures import signed
from tests.support.disk import bounds_of, database_of, flush, no_file_beyond
from tests.support.signing import commit_signed
from tests.support.transfers import address, transfer
from tests.support.tx_data import gas_of


def reopened(chain: ChainStore) -> ChainStore:
    chain.close()
    return ChainStore.open(chain.directory, chain.genesis)


def put(chain: ChainStore, family: str, key: bytes, value: bytes) -> None:
    batch = WriteBatch(database_of(chain))
    batch.put(family, key, value)
    database_of(chain).write(batch)


def test_an_empty_directory_becomes_a_chain_with_its_genesis_block(chain: ChainStore) -> None:
    outcome = genesis_outcome(store_genesis())
    assert chain.visible == 0
    assert (chain.head_hash, chain.head_header) == head_of(chain) == (outcome.block.hash, outcome.block.header)
    assert chain.tree.root == outcome.block.header.state_root
    assert chain.history == outcome.history
    assert chain.head_header.previous_hash == ZERO_HASH
    assert chain.find_mark(0) == BlockMark(chain.head_hash, chain.head_header.timestamp, holds_data=False)
    assert chain.tx_hashes(0) == b""
    assert list(chain.records(0)) == []
    assert chain.account(address(1)) == Account(BALANCE, 0)
    assert chain.account(address(500)) == EMPTY_ACCOUNT


def test_a_committed_block_is_found_by_height_hash_and_transaction(chain: ChainStore) -> None:
    txs = next_transfers(chain, 50)
    block = extend(chain, txs, proposer=address(77)).block
    assert (chain.visible, chain.head_hash) == (1, block.hash)
    assert chain.find_header(1) == (block.hash, block.header)
    assert chain.find_block_hash(1) == block.hash
    assert chain.find_mark(1) == BlockMark(block.hash, block.header.timestamp, holds_data=True)
    assert chain.find_height(block.hash) == 1
    assert chain.tx_hashes(1) == b"".join(tx.hash for tx in txs)
    assert [decode_record(record) for record in chain.records(1)] == txs
    for position, tx in enumerate(txs):
        assert chain.find_location(tx.hash) == (1, position)
        assert chain.find_record(1, position) == encode_record(tx)
    assert chain.account(address(999)) == Account(50, 0)
    assert chain.account(address(77)) == Account(10 * sum(gas_of(tx.data) for tx in txs), 0)
    assert chain.account(address(1)) == Account(BALANCE - 2 * (1 + 210_000), 2)


def test_unknown_blocks_and_transactions_are_none(chain: ChainStore) -> None:
    extend(chain, next_transfers(chain, 17))
    assert chain.find_header(2) is None
    assert chain.find_header(-1) is None
    assert chain.find_block_hash(2) is None
    assert chain.find_block_hash(-1) is None
    assert chain.find_mark(2) is None
    assert chain.find_mark(-1) is None
    assert chain.find_height(BlockHash(bytes(32))) is None
    assert chain.find_location(TxHash(bytes(32))) is None
    for height, position in [(1, 17), (1, 32), (1, -1), (0, 0), (2, 0), (-1, 0)]:
        assert chain.find_record(height, position) is None
    with pytest.raises(Corrupt, match="block 2 has no transaction hashes"):
        chain.tx_hashes(2)


def test_everything_is_the_same_after_a_new_opening(chain: ChainStore) -> None:
    grow(chain, 3, 20)
    before = (chain.visible, chain.head_hash, chain.head_header, chain.tree.levels, chain.history)
    history = history_of(chain, address(1), None, 100)
    again = reopened(chain)
    assert (again.visible, again.head_hash, again.head_header, again.tree.levels, again.history) == before
    assert history_of(again, address(1), None, 100) == history
    extend(again, next_transfers(again, 5))
    assert again.visible == 4
    again.close()


def test_an_account_not_in_the_cache_is_read_from_the_newest_version(chain: ChainStore) -> None:
    for _ in range(2):
        extend(chain, next_transfers(chain, 3))
        chain._recent = AccountCache(1, chain._load)
        assert chain.account(address(1)).nonce == chain.visible
        flush(database_of(chain))
    assert chain.account(address(999)) == Account(6, 0)
    assert history_of(chain, address(2), None, 9) == [(2, 1), (1, 1)]


def test_history_is_newest_first_and_pages_without_a_hole_or_a_repeat(chain: ChainStore) -> None:
    for _ in range(3):
        extend(chain, next_transfers(chain, 25))
    extend(chain, [])
    extend(chain, next_transfers(chain, 25))
    expected = [(height, position) for height in (5, 3, 2, 1) for position in range(24, -1, -1)]
    assert history_of(chain, address(999), None, 1000) == expected
    for limit in (1, 7, 25, 26, 100):
        found: list[tuple[int, int]] = []
        while page := history_of(chain, address(999), found[-1] if found else None, limit):
            assert len(page) <= limit
            found += page
        assert found == expected
    assert history_of(chain, address(999), (4, 3), 2) == expected[25:27]
    assert history_of(chain, address(999), (900, 0), 2) == expected[:2]
    assert history_of(chain, address(999), (0, 0), 2) == []
    assert history_of(chain, address(500), None, 2) == []


def test_history_has_transfers_of_nothing_and_to_oneself_once_and_no_fees(chain: ChainStore) -> None:
    extend(chain, [transfer(1, 0, to=1), transfer(1, 1, value=0, to=500)], proposer=address(600))
    extend(chain, [transfer(1, 2, to=600)], proposer=address(600))
    extend(chain, [transfer(1, 3, to=2)], proposer=address(600))
    assert history_of(chain, address(1), None, 9) == [(3, 0), (2, 0), (1, 1), (1, 0)]
    assert history_of(chain, address(500), None, 9) == [(1, 1)]
    assert chain.account(address(500)) == EMPTY_ACCOUNT
    assert history_of(chain, address(600), None, 9) == [(2, 0)]
    assert chain.account(address(600)).balance == 4 * 210_000 + 1


def test_a_block_that_does_not_follow_the_head_fails_an_assertion(chain: ChainStore) -> None:
    outcome = outcome_on(chain, [])
    commit_signed(chain, outcome)
    with pytest.raises(AssertionError, match="block 1 does not follow the head"):
        commit_signed(chain, outcome)


def test_two_stores_never_share_a_directory(chain: ChainStore) -> None:
    with pytest.raises(DirectoryInUse):
        ChainStore.open(chain.directory, chain.genesis)


def test_another_chain_is_refused_by_its_digest(chain: ChainStore) -> None:
    chain.close()
    with pytest.raises(WrongGenesis, match="belongs to genesis 0x[0-9a-f]{64}, not to 0x[0-9a-f]{64}"):
        ChainStore.open(chain.directory, store_genesis(timestamp=1_001))
    ChainStore.open(chain.directory, chain.genesis).close()


def test_another_format_is_refused_and_let_go_of(chain: ChainStore) -> None:
    chain.close()
    (chain.directory / "FORMAT").write_text("cairn data format 9\n")
    for _ in range(2):
        with pytest.raises(WrongFormat, match="'9'"):
            ChainStore.open(chain.directory, chain.genesis)


def test_a_probe_leaves_no_trace_in_the_chain(chain: ChainStore) -> None:
    head = chain.head_hash
    for _ in range(3):
        chain.probe()
    again = reopened(chain)
    assert again.head_hash == head
    again.probe()
    again.close()


def test_a_disk_that_refuses_ends_the_store_and_loses_nothing(chain: ChainStore) -> None:
    grow(chain, 2, 30)
    outcome = outcome_on(chain, next_transfers(chain, 30))
    size = max(path.stat().st_size for path in chain.directory.glob("chain/*.log"))
    with no_file_beyond(size + 2000), pytest.raises(StoreUnavailable, match="File too large"):
        commit_signed(chain, outcome)
    with pytest.raises(StoreUnavailable, match="File too large"):
        commit_signed(chain, outcome)
    with pytest.raises(StoreUnavailable, match="File too large"):
        chain.probe()
    assert chain.visible == 2
    again = reopened(chain)
    assert again.visible == 2
    extend(again, next_transfers(again, 30))
    again.close()


def test_a_watermark_that_cannot_be_written_ends_the_store_though_the_block_is_on_disk(chain: ChainStore) -> None:
    chain.watermark.close()
    with pytest.raises(StoreUnavailable, match="watermark"):
        commit_signed(chain, outcome_on(chain, next_transfers(chain, 3)))
    assert chain.visible == 0
    again = reopened(chain)
    assert again.visible == 1
    again.close()


@pytest.mark.parametrize("height", [3, 2, 1, 0])
def test_a_wrong_header_is_found_when_the_store_is_opened(chain: ChainStore, height: int) -> None:
    grow(chain, 3, 2)
    other = chain.find_header((height + 1) % 4)
    assert other is not None
    put(chain, keys.HEADERS, keys.encode_height(height), keys.encode_stored_header(*other))
    with pytest.raises(Corrupt, match=f"block {height} in the store is not the one with hash 0x"):
        reopened(chain)


def test_a_header_that_its_hash_does_not_cover_is_found(chain: ChainStore) -> None:
    put(
        chain,
        keys.HEADERS,
        keys.encode_height(0),
        keys.encode_stored_header(chain.head_hash, outcome_on(chain, []).block.header),
    )
    with pytest.raises(Corrupt, match="block 0 in the store is not the one with hash"):
        reopened(chain)


def test_other_transactions_than_the_header_commits_to_are_found(chain: ChainStore) -> None:
    grow(chain, 2, 3)
    put(chain, keys.TX_HASHES, keys.encode_height(1), chain.tx_hashes(2))
    with pytest.raises(Corrupt, match="the transactions of block 1 in the store are not those"):
        reopened(chain)


def test_another_state_than_the_header_commits_to_is_found(chain: ChainStore) -> None:
    grow(chain, 1, 3)
    key = keys.version_key(address(3), 1)
    value = database_of(chain).get(keys.ACCOUNTS, key)
    assert value is not None
    put(chain, keys.ACCOUNTS, key, value[:31] + bytes([value[31] ^ 1]) + value[32:])
    with pytest.raises(Corrupt, match="the stored state is not the one that block 1 commits to"):
        reopened(chain)


def test_a_store_behind_its_watermark_has_lost_blocks(chain: ChainStore) -> None:
    chain.watermark.advance(4)
    with pytest.raises(Corrupt, match="ends at block 0, though block 4 was on disk"):
        reopened(chain)


def test_an_empty_store_with_a_watermark_has_lost_everything(chain: ChainStore) -> None:
    chain.close()
    for path in (chain.directory / "chain").iterdir():
        path.unlink()
    with pytest.raises(Corrupt, match="CURRENT is missing"):
        ChainStore.open(chain.directory, chain.genesis)


def test_a_missing_chunk_is_damage(chain: ChainStore) -> None:
    grow(chain, 1, 20)
    whole = database_of(chain).get(keys.TXS, keys.encode_location(1, 1))
    assert whole is not None
    put(chain, keys.TXS, keys.encode_location(1, 1), keys.encode_chunk(keys.split_chunk(whole)[:-1]))
    assert not chain.is_whole(1)
    with pytest.raises(Corrupt, match="block 1 lacks transactions from 16 on"):
        list(chain.records(1))


@pytest.mark.parametrize(("position", "chunk"), [(3, 0), (19, 1)])
def test_a_chunk_with_a_damaged_tail_is_named(chain: ChainStore, position: int, chunk: int) -> None:
    grow(chain, 1, 20)
    assert next_transfers(chain, 20)[position].data
    key = keys.encode_location(1, chunk)
    value = database_of(chain).get(keys.TXS, key)
    assert value is not None
    length_at = sum(map(len, keys.split_chunk(value)[: position % 16])) + 282
    put(chain, keys.TXS, key, value[:length_at] + b"\x7f" + value[length_at + 1 :])
    with pytest.raises(Corrupt, match=f"the transactions of block 1 from {16 * chunk} on: .* bytes of data"):
        list(chain.records(1))
    with pytest.raises(Corrupt, match="bytes of data, expected 1 to 256"):
        chain.find_record(1, position)
    if chunk == 1:
        with pytest.raises(Corrupt, match=f"{chain.directory}/chain: the transactions of block 1 from 16 on"):
            reopened(chain)


def test_a_record_behind_the_last_one_of_a_chunk_with_tails_is_none(chain: ChainStore) -> None:
    # Two tails of 141 bytes each: together they are as long as a third record would be.
    extend(chain, [transfer(1, 0, data=bytes(139)), transfer(1, 1, data=b"\xff" * 139)])
    assert [chain.find_record(1, position) is None for position in range(4)] == [False, False, True, True]
    extend(chain, [transfer(1, 2, data=bytes(256))])
    assert [chain.find_record(2, position) is None for position in range(3)] == [False, True, True]


def test_a_checkpoint_opens_like_the_original(chain: ChainStore, tmp_path: Path) -> None:
    grow(chain, 2, 20)
    chain.checkpoint(tmp_path / "deep" / "copy")
    head = head_of(chain)
    grow(chain, 1, 3)
    assert bounds_of(tmp_path / "deep" / "copy") == NOTHING_YET._replace(height=2)
    copy = ChainStore.open(tmp_path / "deep" / "copy", chain.genesis)
    assert head_of(copy) == head
    grow(copy, 2, 3)
    copy.close()
    with pytest.raises(StoreUnavailable, match="cannot copy the chain"):
        chain.checkpoint(tmp_path / "deep" / "copy")


def test_a_checkpoint_of_a_pruned_chain_says_where_it_begins(chain: ChainStore, tmp_path: Path) -> None:
    grow(chain, 5, 3)
    chain.prune(3, lambda: None)
    chain.checkpoint(tmp_path / "copy")
    assert bounds_of(tmp_path / "copy") == NOTHING_YET._replace(height=5, oldest=3)


def test_an_audit_replays_real_blocks(directory: Path) -> None:
    chain = ChainStore.open(directory, dev_genesis())
    for nonce in range(3):
        extend(chain, [signed(nonce, sender=sender) for sender in range(4)], proposer=address(9))
    extend(chain, [])
    audit(chain)
    chain.close()


@pytest.mark.parametrize(
    ("family", "key", "value", "found"),
    [
        (keys.BLOCK_INDEX, None, keys.encode_height(0), "entry in the block index is 0"),
        (keys.TX_INDEX, bytes(32), keys.encode_location(1, 0), "3 entries in tx_index, and 2 follow"),
        (keys.ACCOUNTS, keys.version_key(address(8), 1), bytes(48), "entries in accounts, and .* follow"),
        (keys.TX_HASHES, keys.encode_height(1), bytes(64), "list of transaction hashes"),
        (keys.TXS, keys.encode_location(1, 0), bytes(564), "transaction 0x00.* is not valid"),
        (keys.HEADERS, keys.encode_height(0), None, "the stored header is"),
        (keys.META, None, None, "the state tree is not the one"),
        (keys.CHANGES, keys.encode_height(1), bytes(96), "list of touched accounts"),
        (keys.HISTORY, keys.encode_history_key(1, 0), bytes(32), "node of the history"),
        (keys.SIGNATURES, keys.encode_height(1), bytes(64), "the signature of block 1 is not valid"),
    ],
)
def test_an_audit_finds_each_wrong_entry(
    directory: Path, family: str, key: bytes | None, value: bytes | None, found: str
) -> None:
    chain = ChainStore.open(directory, dev_genesis())
    block = extend(chain, [signed(0), signed(1)]).block
    if family == keys.META:
        chain.tree = StateTree.from_leaves(bytes(32))
    else:
        put(chain, family, key or block.hash, value or keys.encode_stored_header(block.hash, block.header))
    with pytest.raises(Corrupt, match=found):
        audit(chain)
    chain.close()


def test_an_audit_finds_a_transaction_under_a_wrong_hash(directory: Path) -> None:
    chain = ChainStore.open(directory, dev_genesis())
    extend(chain, [signed(0)])
    record = bytearray(encode_record(signed(0)))
    record[0] ^= 1
    put(chain, keys.TXS, keys.encode_location(1, 0), bytes(record))
    with pytest.raises(Corrupt, match="stored under a hash that is not its own"):
        audit(chain)
    chain.close()


def test_an_audit_finds_a_block_that_breaks_the_rules(directory: Path) -> None:
    chain = ChainStore.open(directory, dev_genesis())
    extend(chain, [signed(0)])
    put(chain, keys.TXS, keys.encode_location(1, 0), encode_record(signed(1)))
    with pytest.raises(Corrupt, match="breaks its own rules: block 1: transaction 0x"):
        audit(chain)
    chain.close()


def test_an_audit_finds_a_missing_header(directory: Path) -> None:
    chain = ChainStore.open(directory, dev_genesis())
    chain.visible = 1
    with pytest.raises(Corrupt, match="block 1 has no header"):
        audit(chain)
    chain.close()


def test_a_broken_link_in_an_accounts_history_is_damage(chain: ChainStore) -> None:
    grow(chain, 1, 1)
    value = keys.encode_version(Account(1, 1), 0, keys.NEVER, 0, 1, 0) + keys.encode_position(keys.SENT)
    put(chain, keys.ACCOUNTS, keys.version_key(address(500), 1), value)
    with pytest.raises(Corrupt, match="has no entry at height 0, though a later one says so"):
        history_of(chain, address(500), None, 9)


# The cache of accounts.


def known(number: int) -> CachedAccount:
    return CachedAccount(Account(number, 0), number, number, Place(number, 0, address(number)))


class Loading:
    """Counts what is not remembered."""

    def __init__(self) -> None:
        self.loaded: list[Address] = []

    def __call__(self, address: Address) -> CachedAccount:
        self.loaded.append(address)
        return known(0)


def test_a_kept_account_is_found_and_replaced() -> None:
    load = Loading()
    recent = AccountCache(10, load)
    recent.keep({address(1): known(1)})
    recent.keep({address(1): known(2), address(2): known(3)})
    assert recent[address(1)] == known(2)
    assert recent[address(2)] == known(3)
    assert load.loaded == []


def test_an_account_that_is_not_cached_is_loaded_once() -> None:
    load = Loading()
    recent = AccountCache(10, load)
    assert recent[address(1)] == recent[address(1)] == known(0)
    assert load.loaded == [address(1)]


def test_the_cache_of_accounts_is_bounded_and_keeps_those_that_are_used() -> None:
    load = Loading()
    recent = AccountCache(10, load)
    recent.keep({address(0): known(7)})
    for number in range(1, 1000):
        recent.keep({address(number): known(number)})
        assert recent[address(0)] == known(7)
        assert len(recent) + len(recent._old) <= 22
    assert recent[address(999)] == known(999)
    assert load.loaded == []
    assert recent[address(500)] == known(0)
    assert load.loaded == [address(500)]


def test_a_newer_value_is_never_hidden_by_an_older_one() -> None:
    recent = AccountCache(2, Loading())
    recent.keep({address(1): known(1)})
    recent.keep({address(number): known(number) for number in (2, 3)})
    recent.keep({address(1): known(9)})
    assert recent[address(1)] == known(9)
