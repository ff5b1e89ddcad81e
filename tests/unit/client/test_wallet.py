import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from cairn.client import Account, AsyncWallet
from cairn.client.errors import (
    ClientError,
    DataTooLong,
    GasPriceTooLow,
    GasTooHigh,
    GasTooLow,
    InsufficientFunds,
    Internal,
    InvalidField,
    MempoolFull,
    NodeUnreachable,
    OutcomeUnknown,
    SenderLimit,
    StoreUnavailable,
    UnexpectedAnswer,
)
from cairn.client.wallet import MAX_TOGETHER
from cairn.domain.genesis import DEV_KEYS
from cairn.mempool.pool import PoolLimits
from tests.support.pool_node import CHAIN_ID, GAS_PRICE, PoolNode

SENDER = DEV_KEYS[0][0]
TO = Account.dev(1).address
FEE = 21_000 * GAS_PRICE

Use = Callable[[PoolNode, AsyncWallet], Awaitable[None]]


def run(use: Use, node: PoolNode | None = None) -> PoolNode:
    """Use a wallet, then mine all there is. Nothing may be left behind a missing nonce."""
    node = node or PoolNode()

    async def main() -> None:
        wallet = AsyncWallet(node, Account.dev(0))
        await use(node, wallet)
        await wallet.close()

    asyncio.run(main())
    node.mine()
    assert node.pool.pending_count == node.pool.queued_count == 0
    return node


def sign(nonce: int, value: int = 10**6, gas_price: int = GAS_PRICE) -> "Callable[[PoolNode], object]":
    """Another program that has the same key."""
    transfer = Account.dev(0).sign(TO, value, nonce=nonce, chain_id=CHAIN_ID, gas_price=gas_price)
    return lambda node: node.admit(transfer)


def test_concurrent_sends_are_confirmed_in_the_order_of_their_calls() -> None:
    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        hashes = await asyncio.gather(*(wallet.send(TO, value) for value in range(200)))
        assert len(set(hashes)) == 200

    node = run(use)
    assert node.values_of(SENDER) == list(range(200))
    assert node.requests == [MAX_TOGETHER] * 3 + [200 - 3 * MAX_TOGETHER]


def test_sends_one_after_the_other_get_consecutive_nonces() -> None:
    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        for value in range(5):
            await wallet.send(TO, value)
            if value == 2:
                node.mine()

    assert run(use).values_of(SENDER) == list(range(5))


def test_refused_payments_leave_no_gap_in_the_nonces() -> None:
    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        sends = [wallet.send(TO, 10**30 if value % 7 == 0 else value) for value in range(100)]
        results = await asyncio.gather(*sends, return_exceptions=True)
        assert [type(result) is InsufficientFunds for result in results] == [value % 7 == 0 for value in range(100)]

    assert run(use).values_of(SENDER) == [value for value in range(100) if value % 7]


def test_payments_whose_highest_prices_the_balance_does_not_cover_together_are_not_sent_together() -> None:
    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        node.state.put(SENDER, 11 * FEE, 0)
        sends = [wallet.send(TO, value, max_fee=3 * GAS_PRICE, tip=0) for value in range(4)]
        results = await asyncio.gather(*sends, return_exceptions=True)
        assert [type(result) for result in results] == [str, str, str, InsufficientFunds]

    assert run(use).requests == [3, 1]


def test_after_a_revert_the_next_nonce_is_asked_for_again() -> None:
    """The nonces and the money are those of before."""

    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        await wallet.send_all([(TO, 1)] * 5)
        node.mine()
        node.state.put(SENDER, 2 * (FEE + 2), 1)
        results = await wallet.send_all([(TO, 10**6), (TO, 2), (TO, 2)])
        assert [type(result) for result in results] == [InsufficientFunds, str, str]
        node.mine()
        node.state.put(SENDER, FEE + 3, 3)
        results = await wallet.send_all([(TO, 10**6), (TO, 3)])
        assert [type(result) for result in results] == [InsufficientFunds, str]

    assert run(use).values_of(SENDER) == [1] * 5 + [2, 2, 3]


def test_a_payment_that_the_rules_refuse_uses_no_nonce() -> None:
    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        results = await asyncio.gather(
            wallet.send(TO, 1),
            wallet.send("0x12", 2),
            wallet.send(TO, -1),
            wallet.send(TO, 3, gas=20_999),
            wallet.send(TO, 4, gas=10**15),
            wallet.send(TO, 5, gas_price=GAS_PRICE - 1),
            wallet.send(TO, 5, reference="a", gas=21_015),
            wallet.send(TO, 5, reference="a" * 257),
            wallet.send(TO, 5, reference="two\nlines"),
            wallet.send(TO, 5, reference="a", data=b"a"),
            wallet.send(TO, 6, gas_price=GAS_PRICE + 1, gas=30_000),
            return_exceptions=True,
        )
        refused = [InvalidField, InvalidField, GasTooLow, GasTooHigh, GasPriceTooLow]
        refused += [GasTooLow, DataTooLong, InvalidField, InvalidField]
        assert [type(result) for result in results] == [str, *refused, str]

    assert run(use).values_of(SENDER) == [1, 6]


def test_payments_carry_their_references_and_the_gas_that_these_take() -> None:
    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        await wallet.send(TO, 1, reference="invoice 4711")
        await wallet.send(TO, 2, data=b"\x00\xff")
        results = await wallet.send_all([(TO, 3), (TO, 4, "order 1"), (TO, 5, None), (TO, 6, "")])
        assert [type(result) for result in results] == [str, str, str, InvalidField]
        signed = await wallet.sign(TO, 7, reference="x" * 256)
        assert (signed.gas, signed.reference) == (21_000 + 16 * 256, "x" * 256)

    confirmed = run(use).confirmed
    assert [tx.data for tx in confirmed] == [b"invoice 4711", b"\x00\xff", b"", b"order 1", b""]
    assert all(tx.gas == tx.gas_used for tx in confirmed)


def test_a_value_of_the_wrong_type_fails_only_its_own_payment() -> None:
    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        wrong: list[dict[str, object]] = [{"to": None}, {"to": 5}, {"value": "1"}, {"gas": "21000"}, {"gas_price": 1.5}]
        wrong += [{"reference": 5}, {"data": "0x1"}]
        sends = [wallet.send(**({"to": TO, "value": 9} | fields)) for fields in wrong]  # type: ignore[arg-type]
        results = await asyncio.gather(wallet.send(TO, 1), *sends, wallet.send(TO, 2), return_exceptions=True)
        assert [type(result) for result in results] == [str, *[InvalidField] * len(wrong), str]

    assert run(use).values_of(SENDER) == [1, 2]


def test_an_exception_while_signing_fails_only_its_own_payment() -> None:
    class Careless(str):
        """An address that cannot be read."""

        def __hash__(self) -> int:
            raise RuntimeError("careless")

    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        sends = wallet.send(TO, 1), wallet.send(Careless(TO), 9), wallet.send(TO, 2)
        results = await asyncio.gather(*sends, return_exceptions=True)
        assert [type(result) for result in results] == [str, RuntimeError, str]

    assert run(use).values_of(SENDER) == [1, 2]


def test_the_whole_balance_can_be_spent_and_no_more() -> None:
    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        results = await wallet.send_all([(TO, 1)] * 12)
        assert [type(result) for result in results] == [str] * 10 + [InsufficientFunds] * 2

    node = run(use, PoolNode(balance=10 * (FEE + 1)))
    assert node.state.account(SENDER).balance == 0


def test_money_that_came_in_can_be_spent() -> None:
    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        await wallet.send_all([(TO, 1)] * 10)
        node.mine()
        node.state.put(SENDER, 5 * (FEE + 1), node.state.account(SENDER).nonce)
        assert [type(result) for result in await wallet.send_all([(TO, 2)] * 4)] == [str] * 4

    assert run(use, PoolNode(balance=10 * (FEE + 1))).values_of(SENDER) == [1] * 10 + [2] * 4


def test_the_first_nonce_follows_what_is_pending_already() -> None:
    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        sign(0)(node)
        await asyncio.gather(*(wallet.send(TO, value) for value in range(10)))

    assert run(use).values_of(SENDER) == [10**6, *range(10)]


@pytest.mark.parametrize("is_mined", [True, False])
def test_a_payment_whose_nonce_another_program_used_is_signed_again(is_mined: bool) -> None:
    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        await wallet.send(TO, 1)
        sign(1)(node)
        if is_mined:
            node.mine()
        await asyncio.gather(wallet.send(TO, 2), wallet.send(TO, 3))

    # Only their order may suffer.
    assert sorted(run(use).values_of(SENDER)) == [1, 2, 3, 10**6]


@pytest.mark.parametrize("is_mined", [True, False])
def test_another_program_that_makes_the_very_same_payment_does_not_make_ours(is_mined: bool) -> None:
    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        twin = AsyncWallet(node, Account.dev(0))
        # Both know by now which nonce is the next one.
        for each in (wallet, twin):
            await each.send(TO, 1)
        await wallet.send(TO, 2)
        if is_mined:
            node.mine()
        twin_hash = await twin.send(TO, 2)
        node.mine()
        assert node.hashes_of(SENDER)[-1] == twin_hash
        await twin.close()

    assert run(use).values_of(SENDER) == [1, 1, 2, 2]


def test_a_nonce_gap_that_another_program_left_is_filled() -> None:
    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        sign(1)(node)
        await asyncio.gather(*(wallet.send(TO, value) for value in range(3)))

    assert sorted(run(use).values_of(SENDER)) == [0, 1, 2, 10**6]


def test_after_a_lost_answer_the_next_nonce_is_asked_for() -> None:
    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        node.lost_answers = 1
        with pytest.raises(NodeUnreachable) as lost:
            await wallet.send(TO, 1)
        node.mine()
        assert lost.value.tx_hash == node.hashes_of(SENDER)[0]
        assert lost.value.submission is not None
        assert (lost.value.submission["nonce"], "signature" in lost.value.submission) == (0, True)
        await wallet.send(TO, 2)

    assert run(use).values_of(SENDER) == [1, 2]


def test_each_payment_of_a_lost_request_names_its_own_transaction() -> None:
    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        node.lost_answers = 1
        results = await wallet.send_all([(TO, 1), (TO, 2)])
        node.mine()
        hashes = [result.tx_hash for result in results if isinstance(result, NodeUnreachable)]
        assert hashes == node.hashes_of(SENDER)

    assert run(use).values_of(SENDER) == [1, 2]


@pytest.mark.parametrize(
    "failure", [UnexpectedAnswer("a web page"), StoreUnavailable("it may be on disk"), Internal("the node failed")]
)
def test_an_error_after_which_the_payment_may_be_made_names_its_transaction(failure: ClientError) -> None:
    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        node.failure = failure
        results = await wallet.send_all([(TO, 1), (TO, 2)])
        node.mine()
        assert [type(result) for result in results] == [type(failure)] * 2
        open_ones = [result for result in results if isinstance(result, ClientError)]
        assert [error.tx_hash for error in open_ones] == node.hashes_of(SENDER)
        assert [error.submission and error.submission["nonce"] for error in open_ones] == [0, 1]

    assert run(use).values_of(SENDER) == [1, 2]


def test_an_error_after_which_nothing_was_paid_names_no_transaction() -> None:
    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        with pytest.raises(InsufficientFunds) as refused:
            await wallet.send(TO, 10**25)
        assert refused.value.tx_hash is None

    run(use)


def test_a_payment_that_used_its_own_nonce_is_not_made_twice() -> None:
    """Its first attempt was confirmed, the answer lost, and the second one finds the nonce used."""

    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        node.before_repeat = node.mine
        assert [await wallet.send(TO, 1)] == node.hashes_of(SENDER)
        await wallet.send(TO, 2)

    assert run(use).values_of(SENDER) == [1, 2]


def test_a_payment_of_unknown_outcome_is_not_made_again() -> None:
    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        node.is_pruned = True
        node.before_repeat = node.mine
        results = await wallet.send_all([(TO, 1), (TO, 2)])
        hashes = [result.tx_hash for result in results if isinstance(result, OutcomeUnknown)]
        assert hashes == node.hashes_of(SENDER)
        await wallet.send(TO, 3)

    assert run(use).values_of(SENDER) == [1, 2, 3]


def test_a_payment_that_is_known_to_be_dropped_is_signed_anew() -> None:
    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        def replace_it() -> None:
            node.dropped.update("0x" + entry.tx.hash.hex() for entry in node.pool.page(10, None, None).entries)
            sign(0, gas_price=2 * GAS_PRICE)(node)
            node.mine()

        node.before_repeat = replace_it
        await wallet.send(TO, 1)

    assert run(use).values_of(SENDER) == [10**6, 1]


def test_a_payment_refused_for_good_leaves_a_gap_that_the_next_fills() -> None:
    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        node.full_for = {1}
        results = await wallet.send_all([(TO, value) for value in range(3)])
        assert [type(result) for result in results] == [str, MempoolFull, str]
        node.full_for.clear()
        node.mine()
        assert node.values_of(SENDER) == [0]
        await wallet.send(TO, 3)

    assert run(use).values_of(SENDER) == [0, 3, 2]


def test_at_the_sender_limit_the_last_payments_are_refused() -> None:
    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        results = await wallet.send_all([(TO, value) for value in range(15)])
        assert [type(result) for result in results] == [str] * 10 + [SenderLimit] * 5
        node.mine()
        await wallet.send(TO, 99)

    assert run(use, PoolNode(limits=PoolLimits(per_sender=10))).values_of(SENDER) == [*range(10), 99]


def test_a_send_cancelled_in_the_queue_is_not_made() -> None:
    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        sends = [asyncio.create_task(wallet.send(TO, value)) for value in range(5)]
        await asyncio.sleep(0)
        sends[2].cancel()
        results = await asyncio.gather(*sends, return_exceptions=True)
        assert [type(result) for result in results] == [str, str, asyncio.CancelledError, str, str]

    assert run(use).values_of(SENDER) == [0, 1, 3, 4]


def test_close_cancels_the_unanswered_payments() -> None:
    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        sends = [asyncio.create_task(wallet.send(TO, value)) for value in range(5)]
        await asyncio.sleep(0)
        await wallet.close()
        results = await asyncio.gather(*sends, return_exceptions=True)
        assert all(isinstance(result, str | asyncio.CancelledError) for result in results)

    run(use)


def test_signing_does_not_reserve_a_nonce() -> None:
    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        assert wallet.account == Account.dev(0)
        first, second = await wallet.sign(TO, 1), await wallet.sign(TO, 1)
        assert first == second
        assert (first.nonce, first.gas_price, first.sender) == (0, GAS_PRICE, wallet.address.lower())
        assert (await wallet.sign(TO, 1, nonce=7, gas_price=99)).gas_price == 99
        await wallet.send(TO, 1)

    assert run(use).values_of(SENDER) == [1]


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_each_payment_is_made_once_or_refused(seed: int) -> None:
    """Blocks, lost answers, another program and payments that are too large, at random."""
    chance = random.Random(seed)
    paid: list[int] = []
    unknown: list[int] = []

    async def pay(wallet: AsyncWallet, value: int) -> None:
        is_too_large = chance.random() < 0.1
        await asyncio.sleep(0)
        try:
            await wallet.send(TO, value + 10**30 if is_too_large else value)
            paid.append(value)
        except NodeUnreachable:
            unknown.append(value)
        except InsufficientFunds:
            if not is_too_large:
                raise

    async def disturb(node: PoolNode) -> None:
        for _ in range(30):
            await asyncio.sleep(0)
            match chance.randrange(4):
                case 0:
                    node.mine()
                case 1:
                    node.lost_answers = 1
                case 2:
                    sign(node.pool.next_nonce(SENDER))(node)

    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        for start in range(0, 300, 60):
            sends = [pay(wallet, value) for value in range(start, start + 60)]
            await asyncio.gather(disturb(node), *sends)
        node.lost_answers = 0
        # Whatever is missing now is what the next payments are for.
        while node.pool.queued_count:
            await pay(wallet, 1_000 + len(paid))

    node = run(use)
    own = [value for value in node.values_of(SENDER) if value != 10**6]
    assert len(own) == len(set(own))
    assert set(paid) <= set(own) <= set(paid) | set(unknown)


def test_a_tip_or_a_maximum_fee_makes_a_type_2_payment() -> None:
    async def use(node: PoolNode, wallet: AsyncWallet) -> None:
        signed = await wallet.sign(TO, 1, nonce=9, max_fee=3 * GAS_PRICE, tip=5)
        assert (signed.type, signed.gas_price, signed.cost) == (2, GAS_PRICE + 5, 1 + 21_000 * 3 * GAS_PRICE)
        assert "gasPrice" not in signed.body()
        assert signed.body().items() >= {"maxFeePerGas": 3 * GAS_PRICE, "maxPriorityFeePerGas": 5, "type": 2}.items()
        assert (await wallet.sign(TO, 1, nonce=9, tip=5)).max_fee_per_gas == GAS_PRICE + 5
        for wrong in ({"gas_price": GAS_PRICE, "tip": 1}, {"max_fee": 1, "tip": 2}, {"tip": 1.5}, {"max_fee": "1"}):
            with pytest.raises(InvalidField):
                await wallet.send(TO, 1, **wrong)
        with pytest.raises(GasPriceTooLow, match="maxFeePerGas"):
            await wallet.send(TO, 1, max_fee=GAS_PRICE - 1)
        await wallet.send(TO, 4, max_fee=3 * GAS_PRICE, tip=5)
        await wallet.send(TO, 5, tip=7)

    node = run(use)
    assert node.values_of(SENDER) == [4, 5]
