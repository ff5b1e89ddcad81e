"""Answers as their proofs give them, and the comparison with what the node said."""

from collections.abc import Sequence

import msgspec

from cairn.client.errors import InvalidProof
from cairn.client.models import Block, Confirmed, ConfirmedTransaction, FullBlock, Head, Header, Payment
from cairn.domain.crypto import keccak256
from cairn.domain.errors import Rejected
from cairn.domain.json_fields import find_data, hex_text
from cairn.domain.merkle import tx_root
from cairn.domain.proof_checks import ProvenBlock
from cairn.domain.references import reference_of
from cairn.domain.rlp import LIST, Shape, split_list, string_of
from cairn.domain.transactions import decode_tx
from cairn.domain.types import DYNAMIC_FEE, Account, BlockHeader, Tx

_BLOCK = Shape("Block", ())


def head_of(block: ProvenBlock) -> Head:
    return Head(block.header.height, hex_text(block.hash), block.header.timestamp)


def transaction_of(tx: Tx, block: ProvenBlock, index: int) -> ConfirmedTransaction:
    """A proven payment, as a node answers with it."""
    is_dynamic = tx.kind == DYNAMIC_FEE
    return ConfirmedTransaction(
        tx_hash=hex_text(tx.hash),
        sender=hex_text(tx.sender),
        to=hex_text(tx.to),
        value=tx.value,
        nonce=tx.nonce,
        gas=tx.gas,
        gas_price=tx.gas_price,
        type=tx.kind,
        max_fee_per_gas=tx.max_fee if is_dynamic else None,
        max_priority_fee_per_gas=tx.max_tip if is_dynamic else None,
        data=hex_text(tx.data) if tx.data else None,
        reference=reference_of(tx.data) if tx.data else None,
        block_height=block.header.height,
        block_hash=hex_text(block.hash),
        transaction_index=index,
        fee=tx.fee,
    )


def check_answer(answer: ConfirmedTransaction | Payment | Confirmed, proven: ConfirmedTransaction) -> None:
    """Check every field of an answer about a payment. Raises `InvalidProof` that names the first that differs."""
    for name in answer.__struct_fields__:
        told, shown = getattr(answer, name), getattr(proven, name)
        if told != shown and not (name == "reference" and _may_read(told, proven.data)):
            raise InvalidProof(f"{name} is {told} in the node's answer, and {shown} in its proof")


def _may_read(reference: str | None, data: str | None) -> bool:
    """Whether a node with other tables of Unicode, in which other characters are printable, may say so."""
    content = find_data(data or "0x") or b""
    return not content.isascii() and (reference is None or reference.encode(errors="surrogatepass") == content)


def check_held(balance: int, nonce: int, proven: Account) -> None:
    """Compare an answer with what is proven of the account. Raises `InvalidProof`."""
    for name, told, shown in (("balance", balance, proven.balance), ("nonce", nonce, proven.nonce)):
        if told != shown:
            raise InvalidProof(f"{name} is {told} in the node's answer, and {shown} in its proof")


def check_header(answer: Header, proven: ProvenBlock) -> None:
    """Check every field of an answer about a block. Raises `InvalidProof` that names the first that differs."""
    shown = Header.of(proven.hash, proven.header)
    for name in Header.__struct_fields__:
        told, is_proven = getattr(answer, name), getattr(shown, name)
        if told != is_proven:
            raise InvalidProof(f"{name} is {told} in the node's answer, and {is_proven} in its proof")


def check_parent(parent: Header, child: Header) -> None:
    """Check a block by its proven child: its fields give the hash that the child names. Raises `InvalidProof`."""
    try:
        computed = parent.computed_hash()
    except (ValueError, OverflowError) as error:
        raise InvalidProof(f"block {parent.block_height} cannot be read: {error}") from None
    texts = [value for value in msgspec.structs.astuple(parent) if isinstance(value, str)]
    is_plain = all(text.isalnum() and text == text.lower() for text in texts)
    if not computed == parent.hash == child.previous_hash or not is_plain:
        raise InvalidProof(f"block {parent.block_height} is not the parent of block {child.block_height}")


def check_listed(answer: Block) -> None:
    """Check the list of hashes against the root in the header, whose hash is proven. Raises `InvalidProof`."""
    hashes = [find_data(tx_hash) or b"" for tx_hash in answer.transactions]
    is_whole = len(hashes) == answer.transaction_count and list(map(hex_text, hashes)) == answer.transactions
    if not is_whole or hex_text(tx_root(hashes)) != answer.transactions_root:
        raise InvalidProof(f"the transactions of block {answer.block_height} are not those that its header commits to")


def check_full(answer: FullBlock, raw_block: bytes, block: ProvenBlock) -> None:
    """Check each transaction against the block's bytes, and those against its header. Raises `InvalidProof`."""
    signed = _transactions_in(raw_block, block.header)
    told = answer.transactions
    if len(told) != len(signed):
        raise InvalidProof(f"block {block.header.height} has {len(signed)} transactions, and {len(told)} in the answer")
    for index, (tx, shown) in enumerate(zip(told, signed, strict=True)):
        check_answer(tx, transaction_of(shown, block, index))


def _transactions_in(raw_block: bytes, header: BlockHeader) -> Sequence[Tx]:
    """The transactions that the header commits to."""
    try:
        _, items, _ = split_list(raw_block, _BLOCK)
        signed = [item if item[0] >= LIST else string_of(item, _BLOCK) for item in split_list(items, _BLOCK)]
        if tx_root([keccak256(raw) for raw in signed]) != header.tx_root or len(signed) != header.tx_count:
            raise InvalidProof(f"the transactions of block {header.height} are not those that its header commits to")
        return [decode_tx(raw, header.chain_id, header.base_fee) for raw in signed]
    except (ValueError, IndexError, Rejected) as error:
        raise InvalidProof(f"block {header.height} cannot be read: {error}") from None
