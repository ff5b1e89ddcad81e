"""An account at a node: it signs and submits payments, and gives them consecutive nonces however many run at once.

Payments wait in one queue. Those that wait together get consecutive nonces and are sent in one request. The next
request is sent when that one is answered. So a nonce is used again only when it is certain that it is free, and a
refused payment rarely leaves a gap in the nonces:

- what the rules refuse (an address, the gas, the price) is found here, before a nonce is used;
- a payment that the balance may not cover is sent alone, after all earlier ones are answered: if it is refused, its
  nonce is still the next one;
- after any other refusal, and after a pause, the wallet asks the node for the account's next nonce. Behind a load
  balancer, a node that is behind the others may name one that this wallet has used: it is asked again until it knows
  that payment.

A gap remains when a node accepts a later payment of a request but refuses an earlier one for good, for example because
the mempool stays full. The later ones are then queued until the next payment fills the gap.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Sequence
from copy import copy
from typing import NamedTuple, Protocol

import msgspec

from cairn.client.account import Account, SignedTransfer, read_data
from cairn.client.errors import (
    ApiError,
    ClientError,
    GasPriceTooLow,
    GasTooHigh,
    GasTooLow,
    InvalidField,
    NodeUnreachable,
    NonceTooHigh,
    NonceTooLow,
    OutcomeUnknown,
    ReplacementUnderpriced,
    TxDropped,
    TxNotFound,
)
from cairn.client.following import EMBEDDED
from cairn.client.models import AccountState, Chain, MempoolItem, PendingTransaction, Submitted, Transaction
from cairn.client.transport import Deadline, delays, may_be_accepted
from cairn.domain.rules import check_data
from cairn.domain.transactions import Terms, price_terms
from cairn.domain.types import DYNAMIC_FEE, intrinsic_gas

MAX_TOGETHER = 64
"""A node accepts nonces this far ahead: if it refuses the first payment of a request, it can queue the others."""
NONCE_ATTEMPTS = 5
"""How often a payment is signed again because another program used its nonce."""

MAX_REMEMBERED = 10_000
"""Accepted payments whose nonces are remembered; a node never lags behind by more."""
BEHIND_TIMEOUT_S = 60.0
"""How long to wait for a node that does not know an accepted payment yet."""

_NONCE_USED = (NonceTooLow, NonceTooHigh, ReplacementUnderpriced)


class WalletNode(Protocol):
    """The methods of the client that a wallet uses."""

    async def chain(self) -> Chain: ...

    async def account(self, address: str) -> AccountState: ...

    async def transaction(self, tx_hash: str) -> Transaction: ...

    def pending(self, sender: str | None = None, limit: int | None = None) -> AsyncGenerator[MempoolItem, None]: ...

    async def submit_all(self, transfers: Sequence[SignedTransfer]) -> list[Submitted | ApiError]: ...


class Price(NamedTuple):
    """The price for a unit of gas. None means the chain's default."""

    gas_price: int | None = None
    max_fee: int | None = None
    tip: int | None = None

    def terms(self, base_fee: int) -> Terms:
        """The terms on a chain with this gas price. Raises `InvalidField`."""
        names = {"gasPrice": self.gas_price, "maxFeePerGas": self.max_fee, "maxPriorityFeePerGas": self.tip}
        for field, number in names.items():
            if number is not None and type(number) is not int:
                raise InvalidField(field, "is not an integer")
        return price_terms(None, *self, base_fee)

    def settled(self, base_fee: int) -> "Price":
        """This price on a chain with that gas price, with nothing left open."""
        terms = self.terms(base_fee)
        return Price(None, terms.max_fee, terms.max_tip) if terms.kind == DYNAMIC_FEE else Price(terms.gas_price)


DEFAULT_PRICE = Price()


class _Payment:
    """One `send` that is not answered yet."""

    def __init__(
        self,
        to: str,
        value: int,
        gas: int | None = None,
        price: Price = DEFAULT_PRICE,
        reference: str | None = None,
        data: bytes | str = b"",
    ) -> None:
        self.to = to
        self.value = value
        self.gas = gas
        self.price = price
        self.reference = reference
        self.data = data
        self.attempts = 0
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def accept(self, tx_hash: str) -> None:
        if not self.answer.done():
            self.answer.set_result(tx_hash)

    def refuse(self, error: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


_Signed = tuple[_Payment, SignedTransfer]


class AsyncWallet:
    """Pays from one account. Made by `AsyncClient.wallet`, which returns the same wallet for the same account.

    Another program may pay from the account at the same time: a payment whose nonce it used is signed again with the
    next one. That is slower than sharing one wallet.
    """

    def __init__(self, node: WalletNode, account: Account) -> None:
        self._node = node
        self._account = account
        self._chain: Chain | None = None
        self._queue: deque[_Payment] = deque()
        self._next_nonce: int | None = None
        """None if the node must be asked."""
        self._available = 0
        """What the account can surely spend, unless another program spends it."""
        self._accepted: dict[int, str] = {}
        """The latest accepted payments: their hashes by nonce."""
        self._sending: asyncio.Task[None] | None = None

    @property
    def account(self) -> Account:
        return self._account

    @property
    def address(self) -> str:
        return self._account.address

    async def send(
        self,
        to: str,
        value: int,
        *,
        reference: str | None = None,
        data: bytes | str = b"",
        gas: int | None = None,
        gas_price: int | None = None,
        max_fee: int | None = None,
        tip: int | None = None,
    ) -> str:
        """Pay `value` wei to `to`. Returns the hash once the node has it on disk. `wait` waits until it is confirmed.

        `reference` says what it is for, such as `"invoice 4711"`, in printable text; `data` says it in any bytes
        instead, or in their 0x form. It is part of the transaction: everybody can read it, forever. Without `gas`, it
        is what that takes.

        Without a price it pays the chain's gas price. `tip` is paid above that, and `max_fee` limits both together;
        either makes a type 2 transaction (EIP-1559). Any number of payments may run at once.

        Raises the node's refusal, such as `InsufficientFunds`. After an error with a `tx_hash`, such as
        `NodeUnreachable`, the payment may have been made: look it up. To complete the payment, `submit` the error's
        `submission`, if it has one. Another `send` would be another payment.

        Cancelling stops a payment only while it is not signed yet.
        """
        return await self._enqueue(_Payment(to, value, gas, Price(gas_price, max_fee, tip), reference, data))

    async def send_all(
        self, payments: Iterable[tuple[str, int] | tuple[str, int, str | None]]
    ) -> list[str | ClientError]:
        """Pay each (to, value) or (to, value, reference) in the order given.

        Returns a hash or an error for each, in the same order.
        """
        answers = [
            self._enqueue(_Payment(to, value, reference=next(iter(rest), None))) for to, value, *rest in payments
        ]
        results = await asyncio.gather(*answers, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, ClientError):
                raise result
        return [result for result in results if isinstance(result, str | ClientError)]

    async def sign(
        self,
        to: str,
        value: int,
        *,
        nonce: int | None = None,
        reference: str | None = None,
        data: bytes | str = b"",
        gas: int | None = None,
        gas_price: int | None = None,
        max_fee: int | None = None,
        tip: int | None = None,
    ) -> SignedTransfer:
        """Sign without submitting. Without `nonce` it uses the account's next one, but does not reserve it."""
        chain = await self._chain_rules()
        if nonce is None:
            nonce = (await self._node.account(self.address)).pending_nonce
        payment = _Payment(to, value, gas, Price(gas_price, max_fee, tip), reference, data)
        return self._sign_at(payment, nonce, chain, unique=False)

    async def close(self) -> None:
        """Stop sending. Payments that are not answered are cancelled."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.wait([self._sending])

    # The queue.

    def _enqueue(self, payment: _Payment) -> "asyncio.Future[str]":
        self._queue.append(payment)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_queued())
            self._sending.add_done_callback(self._ended)
        return payment.answer

    async def _send_queued(self) -> None:
        """Send one request at a time, until no payment waits."""
        try:
            await self._check_next_nonce()
            while self._queue:
                batch = await self._next_batch()
                if batch:
                    await self._submit(batch)
        except ClientError as failure:
            # None of them is signed yet, so none has happened.
            self._refuse_queued(failure)

    def _ended(self, sending: "asyncio.Task[None]") -> None:
        """Fail the payments that would wait forever."""
        failure = asyncio.CancelledError() if sending.cancelled() else sending.exception()
        if failure is not None:
            self._refuse_queued(failure)

    def _refuse_queued(self, failure: BaseException) -> None:
        for payment in self._queue:
            payment.refuse(failure)
        self._queue.clear()

    async def _next_batch(self) -> list[_Signed]:
        """The signed payments from the head of the queue that can be sent together; empty if all are refused."""
        chain = await self._chain_rules()
        batch = [] if self._next_nonce is None else self._sign_affordable(self._next_nonce, chain)
        if not batch and self._queue:
            batch = self._sign_affordable(await self._synchronise(), chain, may_overdraw=True)
        return batch

    def _sign_affordable(self, nonce: int, chain: Chain, may_overdraw: bool = False) -> list[_Signed]:
        """Sign payments from the head of the queue, as many as the balance covers.

        With `may_overdraw`, one that the account seems unable to pay goes alone: the node decides, and no other is
        affected.
        """
        batch: list[_Signed] = []
        available = self._available
        while self._queue and len(batch) < MAX_TOGETHER:
            payment = self._queue[0]
            signed = self._sign_or_refuse(payment, nonce + len(batch), chain)
            if signed is not None:
                available -= signed.cost
                if available < 0 and (batch or not may_overdraw):
                    break
                batch.append((payment, signed))
            self._queue.popleft()
        return batch

    def _sign_or_refuse(self, payment: _Payment, nonce: int, chain: Chain) -> SignedTransfer | None:
        """None if the payment was cancelled, or is refused before it needs a nonce."""
        if payment.answer.done():
            return None
        try:
            return self._sign(payment, nonce, chain)
        except Exception as refused:
            # Whatever is wrong with one payment, those that go with it must not be lost.
            payment.refuse(refused)
            return None

    def _sign(self, payment: _Payment, nonce: int, chain: Chain) -> SignedTransfer:
        """Sign, and check what the node would. Raises the error that it would answer with."""
        # Sign first: that also finds values that are not numbers. Unique, because another program may make the same
        # payment with the same nonce: the node would see one transaction and tell both that it was made.
        signed = self._sign_at(payment, nonce, chain, unique=True)
        data = read_data(payment.reference, payment.data)
        check_data(data, chain.max_data_bytes)
        if signed.gas < intrinsic_gas(data):
            raise GasTooLow(f"gas is {signed.gas}; the transfer takes {intrinsic_gas(data)}")
        if signed.gas > chain.block_gas_limit:
            raise GasTooHigh(f"gas is {signed.gas}; a block has {chain.block_gas_limit}")
        if signed.gas_price < chain.gas_price:
            name = "gasPrice" if signed.max_fee_per_gas is None else "maxFeePerGas"
            raise GasPriceTooLow(f"{name} is {signed.gas_price}; this chain takes {chain.gas_price} or more")
        return signed

    def _sign_at(self, payment: _Payment, nonce: int, chain: Chain, unique: bool) -> SignedTransfer:
        price = payment.price.settled(chain.gas_price)
        signed = self._account.sign(
            payment.to,
            payment.value,
            nonce=nonce,
            chain_id=chain.chain_id,
            gas=payment.gas,
            gas_price=price.gas_price,
            max_fee=price.max_fee,
            tip=price.tip or 0,
            unique=unique,
            reference=payment.reference,
            data=payment.data,
        )
        if price.max_fee is None:
            return signed
        # The chain's own price is known here.
        return msgspec.structs.replace(signed, gas_price=price.terms(chain.gas_price).gas_price)

    async def _submit(self, batch: list[_Signed]) -> None:
        # Until there is an answer, only the node knows what has become of these nonces.
        self._next_nonce = None
        try:
            results = await self._node.submit_all([signed for _, signed in batch])
            if all(isinstance(result, Submitted) for result in results):
                self._next_nonce = batch[-1][1].nonce + 1
            pairs = zip(batch, results, strict=True)
            settled = await asyncio.gather(*(self._settle(signed, result) for (_, signed), result in pairs))
        except ClientError as failure:
            for payment, signed in batch:
                payment.refuse(_error_of_payment(failure, signed))
            return
        except BaseException as failure:
            # Cancelled, or a mistake of ours: whoever waits must hear of it.
            for payment, _ in batch:
                payment.refuse(failure)
            raise
        self._answer(batch, settled)

    def _answer(self, batch: list[_Signed], results: list[Submitted | ClientError]) -> None:
        again = []
        for (payment, signed), result in zip(batch, results, strict=True):
            payment.attempts += 1
            if isinstance(result, Submitted):
                self._available -= signed.cost
                self._accepted[signed.nonce] = signed.tx_hash
                payment.accept(signed.tx_hash)
            elif isinstance(result, _NONCE_USED) and payment.attempts < NONCE_ATTEMPTS:
                again.append(payment)
            else:
                payment.refuse(_error_of_payment(result, signed))
        self._queue.extendleft(reversed(again))
        while len(self._accepted) > MAX_REMEMBERED:
            del self._accepted[next(iter(self._accepted))]

    async def _settle(self, signed: SignedTransfer, result: Submitted | ApiError) -> Submitted | ClientError:
        """Find out whether this payment itself used the nonce. If so, signing it again would pay twice."""
        if not isinstance(result, _NONCE_USED) or not result.was_repeated:
            return result
        try:
            return Submitted((await self._node.transaction(signed.tx_hash)).status, signed.tx_hash)
        except TxDropped:
            return result
        except ClientError:
            return OutcomeUnknown(signed.tx_hash)

    async def _check_next_nonce(self) -> None:
        """After a pause, check that the account's next nonce is still the same.

        After a revert of a dev chain, the old one could be ahead of the account: accepted, but never mined.
        """
        if self._next_nonce is not None:
            state = await self._node.account(self.address)
            self._available = min(self._available, state.balance)
            if state.pending_nonce != self._next_nonce:
                self._next_nonce = None

    async def _synchronise(self) -> int:
        """Ask the node for the next nonce and for what the account can spend.

        Raises `NodeUnreachable` when the nodes that answer do not know an accepted payment of this wallet.
        """
        deadline, waited = Deadline(BEHIND_TIMEOUT_S), False
        for delay_s in delays():
            # In this order, a block in between can make the result too small, but never too large.
            reserved = 0
            async for item in self._node.pending(sender=self.address):
                reserved += item.cost
            state = await self._node.account(self.address)
            accepted = self._accepted.get(state.pending_nonce)
            if accepted is None or await self._is_void(accepted, waited):
                break
            if waited:
                raise NodeUnreachable(f"the node does not know {accepted}, which was accepted before", was_sent=False)
            waited = not await deadline.pause(delay_s)
        self._available = state.balance - reserved
        self._next_nonce = state.pending_nonce
        return state.pending_nonce

    async def _is_void(self, tx_hash: str, waited: bool) -> bool:
        """Whether the nonce of an accepted payment is free again: the payment will never be made.

        Or the node no longer holds it. Another one may, so that is waited for first. In the end its nonce is used
        again: of two payments with one nonce only one is made, and the other is dropped then.
        """
        if (await self._chain_rules()).engine == EMBEDDED:
            # A chain with one node, which is never behind: it was reverted, or has dropped the payment.
            return True
        try:
            found = await self._node.transaction(tx_hash)
        except TxDropped:
            return True
        except TxNotFound:
            return False
        return waited and isinstance(found, PendingTransaction) and found.not_held is not None

    async def _chain_rules(self) -> Chain:
        """The chain's rules, which never change."""
        if self._chain is None:
            self._chain = await self._node.chain()
        return self._chain


def _error_of_payment(failure: ClientError, signed: SignedTransfer) -> ClientError:
    """The failure as the error of one payment, with its transaction if that may have been accepted."""
    own: ClientError
    if isinstance(failure, NodeUnreachable):
        own = NodeUnreachable(str(failure), was_sent=failure.was_sent)
    elif may_be_accepted(failure):
        own = copy(failure)
    else:
        return failure
    own.tx_hash, own.submission = signed.tx_hash, signed.body()
    return own
