"""Making transactions: from the fields of a submission, and from a draft that this node signs."""

from cairn.domain.codec import encode_unsigned, recover_tx_sender, signed_bytes, signing_bytes
from cairn.domain.crypto import address_of_key, keccak256, sign_digest
from cairn.domain.errors import InvalidField, InvalidSignature
from cairn.domain.prices import check_caps, effective_price
from cairn.domain.types import DYNAMIC_FEE, LEGACY, MAX_UINT64, MAX_UINT256, Draft, Tx, TxHash


def build_tx(draft: Draft, signature: bytes, chain_id: int) -> Tx:
    """Check the signature over a draft that has its nonce, and compute the hash.

    Raises `InvalidField`, or `InvalidSignature` when it is not the sender's.
    """
    nonce = _validate(draft)
    # Wallets write the parity as 27 or 28, libraries as 0 or 1: one form from here on.
    if signature[64:] in (b"\x1b", b"\x1c"):
        signature = signature[:64] + bytes((signature[64] - 27,))
    kind = draft.kind
    unsigned = encode_unsigned(draft, nonce, chain_id)
    recovered = recover_tx_sender(keccak256(signing_bytes(kind, unsigned, chain_id)), signature)
    if recovered != draft.sender:
        raise InvalidSignature(
            f"the signature over these fields is by 0x{recovered.hex()}, not by 0x{draft.sender.hex()}"
        )
    tx_hash = TxHash(keccak256(signed_bytes(kind, unsigned, signature, chain_id)))
    return _signed(draft, nonce, tx_hash, signature)


def sign_draft(draft: Draft, private_key: bytes, chain_id: int, entropy: bytes = b"") -> Tx:
    """Sign a draft that has its nonce. With `entropy`, the signature differs from every earlier one.

    Raises `InvalidField` when the key is not the sender's.
    """
    if address_of_key(private_key) != draft.sender:
        raise InvalidField("from", "the key is of another account")
    nonce, kind = _validate(draft), draft.kind
    unsigned = encode_unsigned(draft, nonce, chain_id)
    signature = sign_digest(keccak256(signing_bytes(kind, unsigned, chain_id)), private_key, entropy)
    return _signed(draft, nonce, TxHash(keccak256(signed_bytes(kind, unsigned, signature, chain_id))), signature)


def unsigned_tx(draft: Draft, chain_id: int) -> Tx:
    """A draft that has its nonce, to be tried as if it were signed: its signature is all zeros.

    Raises `InvalidField`.
    """
    nonce, signature = _validate(draft), bytes(65)
    raw = signed_bytes(draft.kind, encode_unsigned(draft, nonce, chain_id), signature, chain_id)
    return _signed(draft, nonce, TxHash(keccak256(raw)), signature)


def rebuild_tx(tx: Tx, chain_id: int, base_fee: int) -> Tx:
    """Compute the transaction again from the fields of `tx`: the result is equal, unless they are inconsistent.

    Raises `InvalidField` or `InvalidSignature`.
    """
    is_dynamic = tx.kind == DYNAMIC_FEE
    price = effective_price(tx.max_fee, tx.max_tip, base_fee) if is_dynamic else tx.gas_price
    caps = (tx.max_fee, tx.max_tip) if is_dynamic else ()
    draft = Draft(tx.sender, tx.to, tx.value, tx.gas, price, tx.nonce, tx.kind, *caps)
    return build_tx(draft, tx.signature, chain_id)


def _signed(draft: Draft, nonce: int, tx_hash: TxHash, signature: bytes) -> Tx:
    sender, to, gas, price, value = draft.sender, draft.to, draft.gas, draft.gas_price, draft.value
    if draft.kind != DYNAMIC_FEE:
        return Tx(tx_hash, sender, to, nonce, gas, price, value, signature, draft.kind)
    return Tx(tx_hash, sender, to, nonce, gas, price, value, signature, draft.kind, draft.max_fee, draft.max_tip)


def _validate(draft: Draft) -> int:
    """The nonce. Raises `InvalidField` unless every field fits its place in the record."""
    nonce = draft.nonce
    if nonce is None:
        raise InvalidField("nonce", "a draft is signed once its nonce is known")
    if (
        len(draft.to) == 20
        and 0 <= draft.value <= MAX_UINT256
        and 0 <= draft.gas_price <= MAX_UINT256
        and 0 <= draft.gas <= MAX_UINT64
        and 0 <= nonce <= MAX_UINT64
        and LEGACY <= draft.kind <= DYNAMIC_FEE
        and 0 <= draft.max_tip <= draft.max_fee <= MAX_UINT256
    ):
        return nonce
    _validate_caps(draft)
    raise _out_of_range(draft)


def _out_of_range(draft: Draft) -> InvalidField:
    if len(draft.to) != 20:
        return InvalidField("to", f"an address has 20 bytes, not {len(draft.to)}")
    if not 0 <= draft.value <= MAX_UINT256:
        return InvalidField("value", "not between 0 and 2^256-1")
    if not 0 <= draft.gas_price <= MAX_UINT256:
        return InvalidField("gasPrice", "not between 0 and 2^256-1")
    if not 0 <= draft.gas <= MAX_UINT64:
        return InvalidField("gas", "not between 0 and 2^64-1")
    return InvalidField("nonce", "not between 0 and 2^64-1")


def _validate_caps(draft: Draft) -> None:
    if not LEGACY <= draft.kind <= DYNAMIC_FEE:
        raise InvalidField("type", "not 0, 1 or 2")
    if not 0 <= draft.max_fee <= MAX_UINT256:
        raise InvalidField("maxFeePerGas", "not between 0 and 2^256-1")
    if draft.max_tip < 0:
        raise InvalidField("maxPriorityFeePerGas", "not between 0 and 2^256-1")
    check_caps(draft.max_fee, draft.max_tip)
