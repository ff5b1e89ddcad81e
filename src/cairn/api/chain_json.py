"""Public JSON of blocks and transactions, assembled from stored parts without an encoder, for speed."""

import msgspec

from cairn.core.gateway import PendingTx
from cairn.domain.answers import SignedFields, queued_reason
from cairn.domain.json_fields import hex_text
from cairn.domain.references import reference_of
from cairn.domain.types import DYNAMIC_FEE, LEGACY, BlockHash, BlockHeader, Tx

_encode = msgspec.json.Encoder().encode


def _own_fields(tx: Tx) -> str:
    own = (
        f'"from":"0x{tx.sender.hex()}","to":"0x{tx.to.hex()}","value":{tx.value},"nonce":{tx.nonce}'
        f',"gas":{tx.gas},"gasPrice":{tx.gas_price}'
    )
    if tx.kind != LEGACY:
        caps = f',"maxFeePerGas":{tx.max_fee},"maxPriorityFeePerGas":{tx.max_tip}' if tx.kind == DYNAMIC_FEE else ""
        own = f'{own},"type":{tx.kind}{caps}'
    return own + _data_fields(tx.data) if tx.data else own


def _data_fields(data: bytes) -> str:
    reference = reference_of(data)
    # The sender chose the text: the encoder escapes it.
    shown = "" if reference is None else f',"reference":{_encode(reference).decode()}'
    return f',"data":"0x{data.hex()}"{shown}'


def pending_json(pending: PendingTx) -> bytes:
    tx = pending.tx
    left = _queued_fields(pending) if pending.not_held is None else f',"notHeld":"{pending.not_held}"'
    if pending.replaced_by is not None:
        left += f',"replacedBy":"0x{pending.replaced_by.hex()}"'
    return f'{{"txHash":"0x{tx.hash.hex()}","status":"pending",{_own_fields(tx)}{left}}}'.encode()


def mempool_json(pending: PendingTx) -> bytes:
    tx = pending.tx
    queued = _queued_fields(pending)
    return f'{{"txHash":"0x{tx.hash.hex()}",{_own_fields(tx)},"receivedAt":{pending.received_at}{queued}}}'.encode()


def _queued_fields(pending: PendingTx) -> str:
    missing = pending.waits_for_nonce
    return "" if missing is None else f',"queued":true,"queuedReason":"{queued_reason(missing)}"'


def confirmed_json(tx: Tx, height: int, position: int, block_hash: BlockHash) -> bytes:
    return (
        f'{{"txHash":"0x{tx.hash.hex()}","status":"confirmed","blockHeight":{height},{_own_fields(tx)}'
        f',"blockHash":"0x{block_hash.hex()}","transactionIndex":{position},"fee":{tx.fee}}}'
    ).encode()


def block_json(block_hash: BlockHash, header: BlockHeader, tx_hashes: bytes) -> bytes:
    """`tx_hashes` is the store's own concatenation of them."""
    listed = ""
    if tx_hashes:
        listed = '"0x' + tx_hashes.hex(",", -32).replace(",", '","0x') + '"'
    before, behind = _around_transactions(block_hash, header)
    return f"{before}{listed}{behind}".encode()


def around_transactions(block_hash: BlockHash, header: BlockHeader) -> tuple[bytes, bytes]:
    """The public JSON of a block, but for what stands in the brackets of its list of transactions."""
    before, behind = _around_transactions(block_hash, header)
    return before.encode(), behind.encode()


def _around_transactions(block_hash: BlockHash, header: BlockHeader) -> tuple[str, str]:
    before = (
        f'{{"blockHeight":{header.height},"hash":"0x{block_hash.hex()}","previousHash":"0x{header.previous_hash.hex()}"'
        f',"timestamp":{header.timestamp},"transactions":['
    )
    behind = (
        f'],"transactionsRoot":"0x{header.tx_root.hex()}","receiptsRoot":"0x{header.changes_root.hex()}"'
        f',"stateRoot":"0x{header.state_root.hex()}","mixHash":"0x{header.history_root.hex()}"'
        f',"transactionCount":{header.tx_count},"gasUsed":{header.gas_used},"proposer":"0x{header.proposer.hex()}"'
        f',"chainId":{header.chain_id},"gasLimit":{header.gas_limit},"baseFeePerGas":{header.base_fee}}}'
    )
    return before, behind


def signed_view(tx: Tx) -> SignedFields:
    is_dynamic = tx.kind == DYNAMIC_FEE
    return SignedFields(
        sender=hex_text(tx.sender),
        to=hex_text(tx.to),
        value=tx.value,
        nonce=tx.nonce,
        gas=tx.gas,
        gas_price=None if is_dynamic else tx.gas_price,
        signature=hex_text(tx.signature),
        type=tx.kind,
        max_fee_per_gas=tx.max_fee if is_dynamic else None,
        max_priority_fee_per_gas=tx.max_tip if is_dynamic else None,
        data=hex_text(tx.data) if tx.data else None,
    )


def payment_json(tx: Tx, height: int, position: int) -> bytes:
    """The event `payment`. The encoder of the other events takes no integer above 64 bits."""
    return (
        f'{{"event":"payment","txHash":"0x{tx.hash.hex()}","blockHeight":{height},'
        f'"transactionIndex":{position},"from":"0x{tx.sender.hex()}","to":"0x{tx.to.hex()}","value":{tx.value}'
        f"{_data_fields(tx.data) if tx.data else ''}}}"
    ).encode()
