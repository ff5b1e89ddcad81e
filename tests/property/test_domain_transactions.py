"""Bytes and values: whatever is encoded is read back, and whatever is read was the one encoding."""

import msgspec
import rlp  # type: ignore[import-untyped]
from eth_account import Account as Wallet
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak
from hypothesis import given, settings
from hypothesis import strategies as st

from cairn.domain.crypto import CURVE_ORDER, address_of_key, checksum_address, parse_address
from cairn.domain.ed25519 import is_usable_point
from cairn.domain.errors import InvalidField, TxRejected
from cairn.domain.genesis import MAX_CHAIN_ID, Genesis, encode_genesis, parse_genesis
from cairn.domain.headers import decode_header, encode_header
from cairn.domain.merkle import inclusion_proof, tree_nodes, tx_root, verify_inclusion
from cairn.domain.transactions import (
    build_tx,
    decode_record,
    decode_tx,
    encode_record,
    encode_tx,
    price_terms,
    rebuild_tx,
    sign_draft,
)
from cairn.domain.types import (
    ACCESS_LIST,
    DYNAMIC_FEE,
    LATEST_TIME,
    LEGACY,
    MAX_DATA_BYTES,
    MAX_UINT64,
    MAX_UINT256,
    TRANSFER_GAS,
    Address,
    BlockHash,
    BlockHeader,
    Draft,
    Tx,
    TxHash,
)
from tests.vectors.generate import merkle_path, transactions_root

bits_64 = st.integers(0, 64).flatmap(lambda bits: st.integers(0, 2**bits - 1))
bits_256 = st.integers(0, 256).flatmap(lambda bits: st.integers(0, 2**bits - 1))
hashes = st.binary(min_size=32, max_size=32)
addresses = st.binary(min_size=20, max_size=20).map(Address)
keys = st.integers(1, CURVE_ORDER - 1).map(lambda number: number.to_bytes(32, "big"))
chain_ids = st.integers(1, MAX_CHAIN_ID)
datas = st.just(b"") | st.binary(max_size=MAX_DATA_BYTES)
records = st.builds(
    Tx,
    hashes.map(TxHash),
    addresses,
    addresses,
    bits_64,
    bits_64,
    bits_256,
    bits_256,
    st.binary(min_size=65, max_size=65),
    st.just(DYNAMIC_FEE),
    bits_256,
    bits_256,
    datas,
)
BASE_FEE = 10**9
headers = st.builds(
    BlockHeader,
    bits_64,
    hashes.map(BlockHash),
    bits_64,
    hashes,
    hashes,
    hashes,
    hashes,
    bits_64,
    addresses,
    chain_ids,
    bits_64,
    bits_256,
    st.integers(0, 2**32 - 1),
)


@st.composite
def drafts(draw: st.DrawFn) -> Draft:
    """Drafts of any type, with their caps in order, for a chain whose base fee is `BASE_FEE`."""
    kind = draw(st.sampled_from((LEGACY, ACCESS_LIST, DYNAMIC_FEE)))
    price, tip = draw(bits_256), draw(bits_256)
    if kind == DYNAMIC_FEE:
        terms = price_terms(kind, None, max(price, tip), min(price, tip), BASE_FEE)
    else:
        terms = price_terms(kind, price, None, None, BASE_FEE)
    sender, to, value, gas = Address(bytes(20)), draw(addresses), draw(bits_256), draw(bits_64)
    return Draft(sender, to, value, gas, terms.gas_price, draw(bits_64), *terms[1:], draw(datas))


def wallet_fields(draft: Draft, chain_id: int) -> dict[str, object]:
    """The fields of the transfer as eth-account takes them."""
    fields = {"nonce": draft.nonce, "gas": draft.gas, "to": bytes(draft.to), "value": draft.value, "data": draft.data}
    if draft.kind == DYNAMIC_FEE:
        fields |= {"maxFeePerGas": draft.max_fee, "maxPriorityFeePerGas": draft.max_tip}
    else:
        fields |= {"gasPrice": draft.gas_price}
    typed = {"type": draft.kind, "accessList": []} if draft.kind else {}
    return {**fields, **typed, "chainId": chain_id}


@settings(max_examples=150)
@given(keys, drafts(), chain_ids)
def test_a_wallet_and_the_node_make_the_same_transaction(key: bytes, draft: Draft, chain_id: int) -> None:
    sender = address_of_key(key)
    draft = msgspec.structs.replace(draft, sender=sender)
    tx = sign_draft(draft, key, chain_id)
    signed = Wallet.sign_transaction(wallet_fields(draft, chain_id), key)
    raw = encode_tx(tx, chain_id)
    assert (tx.hash, raw) == (bytes(signed.hash), bytes(signed.raw_transaction))
    assert Wallet.recover_transaction(raw) == checksum_address(sender)
    assert decode_tx(raw, chain_id, BASE_FEE) == tx
    assert build_tx(draft, tx.signature, chain_id) == rebuild_tx(tx, chain_id, BASE_FEE) == tx
    assert decode_record(encode_record(tx)) == tx


@settings(max_examples=300)
@given(st.sampled_from((LEGACY, ACCESS_LIST, DYNAMIC_FEE)), st.data())
def test_a_raw_transaction_with_a_changed_byte_is_another_or_none(kind: int, data: st.DataObject) -> None:
    key = b"\x01" * 32
    caps = (2 * BASE_FEE, 3) if kind == DYNAMIC_FEE else (0, 0)
    price = BASE_FEE + 3
    draft = Draft(address_of_key(key), Address(b"\x02" * 20), 10**18, 21_000, price, 5, kind, *caps, data.draw(datas))
    tx = sign_draft(draft, key, 1337)
    raw = bytearray(encode_tx(tx, 1337))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    check_decoded(bytes(raw), tx)


def check_decoded(raw: bytes, before: Tx | None = None) -> None:
    """What is read at all is what eth-account reads, and has no second encoding."""
    try:
        tx = decode_tx(raw, 1337, BASE_FEE)
    except (InvalidField, TxRejected):
        return
    assert encode_tx(tx, 1337) == raw
    assert Wallet.recover_transaction(raw) == checksum_address(tx.sender)
    assert before is None or (tx.hash, tx.sender) != (before.hash, before.sender)


items = st.lists(st.binary(max_size=40), min_size=8, max_size=13).map(rlp.encode)


@settings(max_examples=300)
@given(st.one_of(st.binary(max_size=300), items, st.tuples(st.sampled_from((b"\1", b"\2")), items).map(b"".join)))
def test_no_bytes_break_the_decoder(raw: bytes) -> None:
    check_decoded(raw)


@given(records)
def test_a_record_is_read_back(tx: Tx) -> None:
    assert decode_record(encode_record(tx)) == tx


@given(headers)
def test_a_header_is_read_back_and_is_rlp(header: BlockHeader) -> None:
    raw = encode_header(header)
    assert decode_header(raw) == header
    bloom, extra = bytes(256), b"cairn\3" + header.chain_id.to_bytes(8, "big") + header.tx_count.to_bytes(4, "big")
    roots = [header.state_root, header.tx_root, header.changes_root]
    numbers = [header.height, header.gas_limit, header.gas_used, header.timestamp]
    first = [header.previous_hash, keccak(rlp.encode([])), header.proposer, *roots, bloom, 0, *numbers]
    assert raw == rlp.encode([*first, extra, header.history_root, bytes(8), header.base_fee])


@given(addresses)
def test_an_address_has_one_mixed_spelling(address: Address) -> None:
    spelled = checksum_address(address)
    assert spelled == to_checksum_address(address)
    for text in (spelled, spelled.lower(), "0x" + spelled[2:].upper()):
        assert parse_address(text, "from") == address


@settings(max_examples=50)
@given(st.lists(hashes, max_size=40), st.data())
def test_the_tree_is_that_of_rfc_6962(leaves: list[bytes], data: st.DataObject) -> None:
    root = tx_root(leaves)
    assert root == transactions_root(leaves)
    if leaves:
        index = data.draw(st.integers(0, len(leaves) - 1))
        proof = inclusion_proof(tree_nodes(leaves), len(leaves), index)
        assert proof == merkle_path(index, leaves)
        assert verify_inclusion(leaves[index], index, len(leaves), proof, root)
        other = data.draw(hashes)
        assert verify_inclusion(other, index, len(leaves), proof, root) == (other == leaves[index])


@given(
    st.builds(
        Genesis,
        chain_ids,
        st.integers(0, LATEST_TIME),
        bits_256,
        st.integers(TRANSFER_GAS, MAX_UINT64),
        st.dictionaries(addresses, st.integers(0, MAX_UINT256 // 8), max_size=8),
        signer=hashes.filter(is_usable_point),
    )
)
def test_a_genesis_file_is_read_back(genesis: Genesis) -> None:
    assert parse_genesis(encode_genesis(genesis)) == genesis
