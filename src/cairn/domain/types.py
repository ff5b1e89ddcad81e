"""The values that all parts of the node use."""

from typing import Literal, NewType

import msgspec

Address = NewType("Address", bytes)
"""20 bytes."""
TxHash = NewType("TxHash", bytes)
"""32 bytes: keccak-256 of the signed transaction, as every Ethereum wallet computes it."""
BlockHash = NewType("BlockHash", bytes)
"""32 bytes: keccak-256 of the header in RLP, as every Ethereum client computes it."""

ZERO_HASH = BlockHash(bytes(32))
ZERO_ADDRESS = Address(bytes(20))

TRANSFER_GAS = 21_000
"""The gas of a transfer without data; a higher limit is not charged."""
MAX_DATA_BYTES = 256
"""The most data that a chain can allow a transfer."""
MAX_UINT64 = 2**64 - 1
MAX_UINT256 = 2**256 - 1
LATEST_TIME = 253_402_300_799
"""The last second of the year 9999, the latest that date libraries can show."""

LEGACY, ACCESS_LIST, DYNAMIC_FEE = 0, 1, 2
"""The types of transactions (EIP-2718): with EIP-155's signature, EIP-2930's and EIP-1559's."""

Phase = Literal["starting", "ready", "unavailable", "draining"]
"""Whether the node accepts transactions."""
DropReason = Literal["replaced", "evicted", "expired", "nonce used", "cannot be applied"]
"""Why a transaction left the mempool without being confirmed."""


def intrinsic_gas(data: bytes) -> int:
    """The gas of a transfer with this data, by Ethereum's rule for calldata: 16 for a byte, 4 for a zero byte."""
    return TRANSFER_GAS + 16 * len(data) - 12 * data.count(0)


# `gc=False`: they hold no containers, so they are in no cycle. A mempool has a hundred thousand of them, which the
# garbage collector would look at again and again.


class Tx(msgspec.Struct, frozen=True, gc=False):
    """A signed transfer whose signature has been checked: `sender` is what the signature recovers to."""

    hash: TxHash
    sender: Address
    to: Address
    nonce: int
    gas: int
    gas_price: int
    """What it pays for a unit of gas. For type 2 it follows from the two caps below and the chain's base fee."""
    value: int
    signature: bytes
    """r (32 bytes), s (32 bytes), parity (1 byte: 0 or 1)."""
    kind: int = LEGACY
    max_fee: int = 0
    """Type 2 only: the most that it pays for a unit of gas. 0 for other types."""
    max_tip: int = 0
    """Type 2 only: the most that it pays above the base fee. 0 for other types."""
    data: bytes = b""
    """What the payment is for, as its sender says; nothing here acts on it."""

    @property
    def gas_used(self) -> int:
        return intrinsic_gas(self.data) if self.data else TRANSFER_GAS

    @property
    def fee_cap(self) -> int:
        """The most that it pays for a unit of gas, for any type."""
        return self.max_fee if self.kind == DYNAMIC_FEE else self.gas_price

    @property
    def tip_cap(self) -> int:
        """The most of that above the base fee."""
        return self.max_tip if self.kind == DYNAMIC_FEE else self.gas_price

    @property
    def fee(self) -> int:
        # Not by `gas_used`: each transaction that is shown passes here.
        return (intrinsic_gas(self.data) if self.data else TRANSFER_GAS) * self.gas_price

    @property
    def debit(self) -> int:
        """All that the sender pays: the value and the fee."""
        # Not by `fee`: each transaction of each block passes here.
        return self.value + (intrinsic_gas(self.data) if self.data else TRANSFER_GAS) * self.gas_price

    @property
    def cost(self) -> int:
        """The most that the signed fields let it pay. The sender must own as much when it is accepted, as in geth."""
        return self.value + self.gas * (self.max_fee if self.kind == DYNAMIC_FEE else self.gas_price)


class Draft(msgspec.Struct, frozen=True, gc=False):
    """A transfer before its signature. Without a nonce it means the sender's next one."""

    sender: Address
    to: Address
    value: int
    gas: int
    gas_price: int
    """As `Tx` has it."""
    nonce: int | None
    kind: int = LEGACY
    max_fee: int = 0
    max_tip: int = 0
    data: bytes = b""


class Account(msgspec.Struct, frozen=True, gc=False):
    balance: int = 0
    nonce: int = 0
    """The nonce that the next confirmed transaction must have."""

    @property
    def is_empty(self) -> bool:
        return self.balance == 0 and self.nonce == 0


EMPTY_ACCOUNT = Account()


class Rules(msgspec.Struct, frozen=True):
    """The chain's parameters, fixed in genesis; never a node setting."""

    chain_id: int
    gas_price: int
    """The base fee of every block: the least gas price that is accepted, and the default of a submission."""
    block_gas_limit: int
    max_data_bytes: int = MAX_DATA_BYTES
    """The most data that a transfer may carry; 0 forbids it."""


class BlockHeader(msgspec.Struct, frozen=True):
    """What a block's hash covers."""

    height: int
    previous_hash: BlockHash
    timestamp: int
    """Unix time in whole seconds."""
    tx_root: bytes
    changes_root: bytes
    """Over the accounts that the block touches; `state_tree` says what its leaves are."""
    state_root: bytes
    """Over all accounts."""
    history_root: bytes
    """Over the hashes of all earlier blocks."""
    gas_used: int
    proposer: Address
    chain_id: int
    gas_limit: int
    base_fee: int
    """The least price of a unit of gas: the gas price of genesis, in every block."""
    tx_count: int
    """How many transactions the block holds: several numbers of leaves can have one Merkle root."""


class SealedBlock(msgspec.Struct, frozen=True):
    """A block whose hash is known."""

    header: BlockHeader
    hash: BlockHash
    txs: tuple[Tx, ...]
