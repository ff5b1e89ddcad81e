"""What a wallet talks to, in process: the real mempool over a state that a test mines as it likes."""

from collections.abc import AsyncGenerator, Callable, Sequence

from cairn.api.bodies import problem_of
from cairn.client.account import SignedTransfer
from cairn.client.errors import (
    ApiError,
    ClientError,
    MempoolFull,
    NodeUnreachable,
    TxDropped,
    TxNotFound,
    error_of,
)
from cairn.client.models import (
    AccountState,
    Chain,
    ConfirmedTransaction,
    Head,
    MempoolItem,
    MempoolSize,
    Submitted,
    Transaction,
)
from cairn.domain.crypto import parse_address
from cairn.domain.errors import NodeError
from cairn.domain.genesis import DEV_KEYS
from cairn.domain.steps import finish
from cairn.domain.transactions import build_tx
from cairn.domain.types import DYNAMIC_FEE, TRANSFER_GAS, Address, Draft, Rules, Tx
from cairn.mempool.pool import Mempool, PoolLimits
from tests.support.transfers import Accounts

CHAIN_ID = 1337
GAS_PRICE = 10
RULES = Rules(chain_id=CHAIN_ID, gas_price=GAS_PRICE, block_gas_limit=1_000 * TRANSFER_GAS)


class PoolNode:
    def __init__(self, balance: int = 10**24, limits: PoolLimits | None = None) -> None:
        self.state = Accounts()
        for address, _ in DEV_KEYS:
            self.state.put(address, balance, 0)
        self.pool = Mempool(RULES, limits or PoolLimits(), self.state)
        self.confirmed: list[Tx] = []
        self.requests: list[int] = []
        """How many transfers each submission had."""
        self.lost_answers = 0
        """So many of the next submissions are taken, and their answers lost."""
        self.failure: ClientError | None = None
        """The next submission is taken, and ends with this."""
        self.before_repeat: Callable[[], None] | None = None
        """The answer to the next submission is lost, this happens, and the client sends it again."""
        self.dropped: set[str] = set()
        self.is_pruned = False
        """Whether confirmed transactions are known no more."""
        self.full_for: set[int] = set()
        """Nonces for which there is no room."""

    async def chain(self) -> Chain:
        head, size = Head(0, "0x", 0), MempoolSize(0, 0, 0)
        return Chain(CHAIN_ID, GAS_PRICE, RULES.block_gas_limit, 1.0, RULES.max_data_bytes, "embedded", "0", head, size)

    async def account(self, address: str) -> AccountState:
        key = parse_address(address, "address")
        account = self.state.account(key)
        return AccountState(address, account.balance, account.nonce, self.pool.next_nonce(key))

    async def pending(self, sender: str | None = None, limit: int | None = None) -> AsyncGenerator[MempoolItem, None]:
        for entry in self.pool.page(10_000, None, None if sender is None else parse_address(sender, "from")).entries:
            tx = entry.tx
            yield MempoolItem(
                tx_hash="0x" + tx.hash.hex(),
                sender="0x" + tx.sender.hex(),
                to="0x" + tx.to.hex(),
                value=tx.value,
                nonce=tx.nonce,
                gas=tx.gas,
                gas_price=tx.gas_price,
                type=tx.kind,
                max_fee_per_gas=tx.max_fee if tx.kind == DYNAMIC_FEE else None,
                max_priority_fee_per_gas=tx.max_tip if tx.kind == DYNAMIC_FEE else None,
                received_at=0,
            )

    async def submit_all(self, transfers: Sequence[SignedTransfer]) -> list[Submitted | ApiError]:
        self.requests.append(len(transfers))
        results = [self.admit(transfer) for transfer in transfers]
        if self.before_repeat is not None:
            self.before_repeat()
            self.before_repeat = None
            results = [self.admit(transfer) for transfer in transfers]
            for result in results:
                if isinstance(result, ApiError):
                    result.was_repeated = True
        if self.lost_answers:
            self.lost_answers -= 1
            raise NodeUnreachable("the answer was lost", was_sent=True)
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        return results

    async def transaction(self, tx_hash: str) -> Transaction:
        if tx_hash in self.dropped:
            raise TxDropped("evicted")
        for tx in [] if self.is_pruned else self.confirmed:
            if "0x" + tx.hash.hex() == tx_hash:
                return ConfirmedTransaction(
                    tx_hash=tx_hash,
                    sender="0x" + tx.sender.hex(),
                    to="0x" + tx.to.hex(),
                    value=tx.value,
                    nonce=tx.nonce,
                    gas=tx.gas,
                    gas_price=tx.gas_price,
                    block_height=0,
                    block_hash="0x",
                    transaction_index=0,
                    fee=TRANSFER_GAS * tx.gas_price,
                )
        raise TxNotFound("there is no such transaction")

    def admit(self, transfer: SignedTransfer) -> Submitted | ApiError:
        if transfer.nonce in self.full_for:
            return MempoolFull("there is no room")
        draft = Draft(
            sender=parse_address(transfer.sender, "from"),
            to=parse_address(transfer.to, "to"),
            value=transfer.value,
            gas=transfer.gas,
            gas_price=transfer.gas_price,
            nonce=transfer.nonce,
            kind=transfer.type,
            max_fee=transfer.max_fee_per_gas or 0,
            max_tip=transfer.max_priority_fee_per_gas or 0,
            data=bytes.fromhex((transfer.data or "0x")[2:]),
        )
        tx = build_tx(draft, bytes.fromhex(transfer.signature[2:]), CHAIN_ID)
        try:
            self.pool.admit(tx, received_at=0)
        except NodeError as refused:
            return error_of(problem_of(refused))
        return Submitted("pending", "0x" + tx.hash.hex())

    def mine(self) -> None:
        txs = finish(self.pool.take(RULES.block_gas_limit))
        for tx in txs:
            self.state.apply(tx)
        self.pool.confirm(txs)
        self.confirmed += txs

    def values_of(self, sender: Address) -> list[int]:
        """What the sender's confirmed transfers paid, in their order."""
        return [tx.value for tx in self.confirmed if tx.sender == sender]

    def hashes_of(self, sender: Address) -> list[str]:
        """The hashes of the sender's confirmed transfers, in their order."""
        return ["0x" + tx.hash.hex() for tx in self.confirmed if tx.sender == sender]
