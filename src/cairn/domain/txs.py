"""Making transactions: from the fields of a submission, and from a draft that this node signs."""

from cairn.domain.codec import encode_transfer, signed_list, signing_list
from cairn.domain.crypto import address_of_key, keccak256, recover_sender, sign_digest
from cairn.domain.errors import InvalidField, InvalidSignature
from cairn.domain.types import MAX_UINT64, MAX_UINT256, Address, Draft, Tx, TxHash


def build_tx(
    sender: Address,
    to: Address,
    value: int,
    gas: int,
    gas_price: int,
    nonce: int,
    signature: bytes,
    chain_id: int,
) -> Tx:
    """Check the signature against `sender` and compute the hash. Raises `InvalidField` or `InvalidSignature`."""
    _validate_ranges(to, value, gas, gas_price, nonce)
    # Wallets write the parity as 27 or 28, libraries as 0 or 1: one form from here on.
    if signature[64:] in (b"\x1b", b"\x1c"):
        signature = signature[:64] + bytes((signature[64] - 27,))
    transfer = encode_transfer(nonce, gas_price, gas, to, value)
    recovered = recover_sender(keccak256(signing_list(transfer, chain_id)), signature)
    if recovered != sender:
        raise InvalidSignature(f"the signature over these fields is by 0x{recovered.hex()}, not by 0x{sender.hex()}")
    tx_hash = TxHash(keccak256(signed_list(transfer, signature, chain_id)))
    return Tx(tx_hash, sender, to, nonce, gas, gas_price, value, signature)


def sign_draft(draft: Draft, private_key: bytes, chain_id: int, entropy: bytes = b"") -> Tx:
    """Sign a draft that has its nonce; with `entropy`, as it was never signed before.

    Raises `InvalidField` when the key is not the sender's.
    """
    if draft.nonce is None:
        raise InvalidField("nonce", "a draft is signed once its nonce is known")
    if address_of_key(private_key) != draft.sender:
        raise InvalidField("from", "the key is of another account")
    _validate_ranges(draft.to, draft.value, draft.gas, draft.gas_price, draft.nonce)
    transfer = encode_transfer(draft.nonce, draft.gas_price, draft.gas, draft.to, draft.value)
    signature = sign_digest(keccak256(signing_list(transfer, chain_id)), private_key, entropy)
    tx_hash = TxHash(keccak256(signed_list(transfer, signature, chain_id)))
    return Tx(tx_hash, draft.sender, draft.to, draft.nonce, draft.gas, draft.gas_price, draft.value, signature)


def _validate_ranges(to: Address, value: int, gas: int, gas_price: int, nonce: int) -> None:
    """Every field must fit its place in the record. Raises `InvalidField`."""
    if len(to) != 20:
        raise InvalidField("to", f"an address has 20 bytes, not {len(to)}")
    if not 0 <= value <= MAX_UINT256:
        raise InvalidField("value", "not between 0 and 2^256-1")
    if not 0 <= gas_price <= MAX_UINT256:
        raise InvalidField("gasPrice", "not between 0 and 2^256-1")
    if not 0 <= gas <= MAX_UINT64:
        raise InvalidField("gas", "not between 0 and 2^64-1")
    if not 0 <= nonce <= MAX_UINT64:
        raise InvalidField("nonce", "not between 0 and 2^64-1")
