"""The client against a running node: everything that it offers, in both of its faces."""

import asyncio
import threading
from contextlib import aclosing
from itertools import islice
from typing import Any

import msgspec
import pytest

from cairn.client import COIN, Account, AsyncClient, Client, Confirmed, Dropped
from cairn.client.async_reads import Direction
from cairn.client.errors import (
    BlockNotFound,
    ConfirmationTimeout,
    FollowLimit,
    InsufficientFunds,
    InvalidField,
    InvalidProof,
    TxDropped,
    TxNotFound,
)
from cairn.client.models import ConfirmedTransaction, PendingTransaction, Submitted
from cairn.client.transport import Amounts
from tests.e2e.client.conftest import patient
from tests.support.node_process import NodeProcess
from tests.support.pace import PATIENCE_S

TO = Account.dev(9).address
UNKNOWN = "0x" + "ab" * 32


async def funded(client: AsyncClient, coins: int = 10) -> Account:
    """A fresh account with money, so that a test depends on no other."""
    account = Account.create()
    await client.wait(await client.wallet(Account.dev(0)).send(account.address, coins * COIN))
    return account


async def test_amounts_as_strings_are_the_same_amounts(node: NodeProcess) -> None:
    """Every way to read and to be told, over the form for clients whose numbers are doubles."""
    async with patient(node.url) as plain, patient(node.url, amounts="string") as client:
        account, recipient = await funded(plain), Account.create().address
        paid = await client.wait(await client.wallet(account).send(recipient, COIN + 1))
        assert paid == await plain.transaction(paid.tx_hash)
        assert (await client.account(recipient)).balance == COIN + 1
        assert (await client.chain()).gas_price == (await plain.chain()).gas_price
        (await client.proof(paid.tx_hash)).verify(paid.tx_hash)
        assert [tx async for tx in client.history(recipient)] == [paid]
        async with aclosing(client.payments(recipient, paid.block_height)) as payments:
            payment = await anext(payments)
            assert (payment.tx_hash, payment.value) == (paid.tx_hash, COIN + 1)
        outcomes = [outcome async for outcome in client.confirmations([paid.tx_hash])]
        assert outcomes == [Confirmed(paid.tx_hash, paid.block_height)]


@pytest.mark.parametrize("amounts", ["number", "string"])
async def test_payments_are_found_and_accounts_read_as_of_a_block(node: NodeProcess, amounts: Amounts) -> None:
    async with patient(node.url, amounts=amounts) as client:
        payer, shop, other = await funded(client), Account.create().address, Account.create().address
        before = (await client.block()).block_height
        wallet = client.wallet(payer)
        paid = []
        for number, to in enumerate([shop, other, shop]):
            sent = await wallet.send(to, COIN + number, reference=f"order {number % 2}")
            paid.append(await client.wait(sent))
        first, second, third = paid

        async def found(address: str, **filters: Any) -> list[ConfirmedTransaction]:
            return [tx async for tx in client.history(address, **filters)]

        assert await found(shop) == [third, first]
        assert await found(shop, oldest_first=True) == [first, third]
        assert await found(shop, direction="out") == []
        assert await found(shop, direction="both") == [third, first]
        assert await found(payer.address, direction="out", limit=1) == [third]
        assert await found(payer.address, counterparty=other) == [second]
        assert await found(payer.address, reference="order 0", oldest_first=True) == [first, third]
        assert await found(payer.address, data=b"order 1") == [second]
        assert await found(payer.address, data=second.data) == [second]
        assert await found(shop, from_height=first.block_height + 1) == [third]
        assert await found(shop, to_height=first.block_height, direction="in") == [first]
        assert await found(shop, from_time=0, to_time=1) == []
        full = await client.full_block(third.block_hash)
        assert third in full.transactions
        assert full.hash == (await client.block(third.block_height)).hash
        early = await client.account(shop, height=before)
        assert (early.balance, early.block_height) == (0, before)
        assert (await client.account(shop, time=full.timestamp)).balance == 2 * COIN + 2
        listed = await client.accounts([shop, other] * 600, height=second.block_height)
        assert listed.block_height == second.block_height
        assert [each.balance for each in listed.accounts] == [COIN, COIN + 1] * 600
        assert (await client.accounts([])).accounts == []
        with pytest.raises(BlockNotFound):
            await client.accounts([shop], height=10**9)
        for never in (1, 4_000_000_000):
            with pytest.raises(BlockNotFound):
                await client.account(shop, time=never)


async def test_200_sends_at_once_from_one_account(node: NodeProcess) -> None:
    """Some are refused, for every kind of reason; the others are confirmed with consecutive nonces."""
    async with patient(node.url) as client:
        account, recipient = await funded(client), Account.create().address
        wallet = client.wallet(account)
        values = [10**30 if number % 40 == 0 else number for number in range(200)]
        sends = [wallet.send("nobody" if value == 7 else recipient, value) for value in values]
        results = await asyncio.gather(*sends, return_exceptions=True)
        hashes = [result for result in results if isinstance(result, str)]
        refused = [result for result in results if not isinstance(result, str)]
        assert len(hashes) == 194
        assert sum(isinstance(result, InsufficientFunds) for result in refused) == 5
        confirmed = await asyncio.gather(*(client.wait(tx_hash) for tx_hash in hashes))
        assert [tx.nonce for tx in confirmed] == list(range(194))
        paid = [value for value in values if value < 10**30 and value != 7]
        assert [tx.value for tx in confirmed] == paid
        assert (await client.account(recipient)).balance == sum(paid)
        assert (await client.account(account.address)).pending_nonce == 194


async def test_a_transaction_from_its_signature_to_its_proof(node: NodeProcess) -> None:
    async with patient(node.url) as client:
        account = await funded(client, coins=2_000)
        signed = await client.wallet(account).sign(TO, 2**70)
        assert await client.submit(signed) == Submitted("pending", signed.tx_hash)
        tx = await client.wait(signed.tx_hash)
        assert (tx.value, tx.sender, tx.fee) == (2**70, account.address.lower(), 21_000 * 10**9)
        assert await client.submit(signed.body()) == Submitted("confirmed", signed.tx_hash)
        assert await client.transaction(signed.tx_hash) == tx
        block = await client.block(tx.block_height)
        assert block == await client.block(tx.block_hash)
        assert block.hash == block.computed_hash() == tx.block_hash
        assert block.transactions[tx.transaction_index] == tx.tx_hash
        proof = await client.proof(tx.tx_hash)
        proof.verify(signed.tx_hash, block.hash)
        proof.check_same(tx)
        with pytest.raises(InvalidProof):
            proof.verify(signed.tx_hash, block.previous_hash)
        assert [item async for item in client.history(account.address, limit=1)] == [tx]


def test_pending_replaced_and_dropped() -> None:
    async def main(url: str) -> None:
        async with patient(url) as client:
            wallet = client.wallet(Account.dev(0))
            first = await wallet.sign(TO, 1, nonce=1)
            results = await client.submit_all([first, await wallet.sign(TO, 2, nonce=1)])
            assert [type(result).__name__ for result in results] == ["Submitted", "ReplacementUnderpriced"]
            assert isinstance(await client.transaction(first.tx_hash), PendingTransaction)
            [item] = [item async for item in client.pending(sender=wallet.address)]
            assert (item.tx_hash, item.nonce) == (first.tx_hash, 1)
            with pytest.raises(ConfirmationTimeout):
                await client.wait(first.tx_hash, timeout_s=0)
            second = await wallet.sign(TO, 3, nonce=1, gas_price=2 * 10**9)
            followed = asyncio.create_task(anext(client.confirmations([first.tx_hash])))
            await client.submit(second)
            assert await followed == Dropped(first.tx_hash, "replaced")
            with pytest.raises(TxDropped) as dropped:
                await client.wait(first.tx_hash)
            assert dropped.value.reason == "replaced"
            # The hole in front of it is what the wallet fills next.
            await wallet.send(TO, 4)
            outcomes = [outcome async for outcome in client.confirmations([second.tx_hash])]
            assert [type(outcome) for outcome in outcomes] == [Confirmed]
            assert (await client.wallet(Account.dev(0)).sign(TO, 1)).nonce == 2
            with pytest.raises(TxNotFound):
                await client.wait(UNKNOWN, timeout_s=0.5)

    with NodeProcess.start_dev("--block-time", "0.01") as own:
        asyncio.run(main(own.url))


async def test_the_mempool_in_pages(node: NodeProcess) -> None:
    async with patient(node.url) as client:
        wallet = client.wallet(await funded(client))
        # Behind a missing nonce they stay where they are.
        ahead = [await wallet.sign(TO, 1, nonce=nonce) for nonce in range(1, 41)]
        assert all(isinstance(result, Submitted) for result in await client.submit_all(ahead))
        found = [item.tx_hash async for item in client.pending(sender=wallet.address)]
        assert found == [signed.tx_hash for signed in ahead]
        assert len([item async for item in client.pending(limit=7)]) == 7
        await wallet.send(TO, 1)
        await client.wait(ahead[-1].tx_hash)


async def test_payments_come_once_and_in_order(node: NodeProcess) -> None:
    async with patient(node.url) as client:
        wallet = client.wallet(await funded(client))
        shop = Account.create().address
        first_height = (await client.chain()).head.block_height
        await wallet.send_all([(shop, value) for value in range(150)])
        await client.wait(await wallet.send(TO, 10**6))
        received: list[int] = []
        async for payment in client.payments(shop, from_height=first_height):
            assert payment.sender == wallet.address.lower()
            received.append(payment.value)
            if len(received) == 150:
                await wallet.send_all([(shop, value) for value in range(150, 160)])
            if len(received) == 160:
                break
        assert received == list(range(160))


async def test_payments_of_many_addresses_come_together_by_direction(node: NodeProcess) -> None:
    """More than fit into one message, in the middle of which the own one is."""
    async with patient(node.url) as client:
        account, other = await funded(client), Account.create()
        wallet, height = client.wallet(account), (await client.chain()).head.block_height + 1
        mine = [*(f"0x{number:040x}" for number in range(1, 801)), account.address, other.address]
        sent = [await wallet.send(to, 1) for to in (TO, mine[5], other.address, account.address)]
        incoming = await client.wallet(Account.dev(0)).send(mine[700], 1, reference="for all")
        await client.wait(incoming)
        await client.wait(sent[-1])

        async def take(direction: Direction, count: int) -> list[str]:
            async with aclosing(client.payments(mine, height, direction)) as payments:
                return [(await anext(payments)).tx_hash for _ in range(count)]

        assert sorted(await take("in", 4)) == sorted([*sent[1:], incoming])
        assert await take("out", 4) == sent
        assert sorted(await take("both", 5)) == sorted([*sent, incoming])
        async with aclosing(client.payments(iter([mine[700]]), height)) as payments:
            assert (await anext(payments)).reference == "for all"


async def test_payments_of_more_addresses_than_a_socket_follows_are_refused(node: NodeProcess) -> None:
    async with patient(node.url) as client:
        with pytest.raises(FollowLimit, match="at most 10000 addresses"):
            await anext(client.payments(f"0x{number:040x}" for number in range(10_001)))
        with pytest.raises(InvalidField, match="checksum"):
            await anext(client.payments([TO, TO.swapcase().replace("X", "x")]))


def test_the_faucet_and_the_probes(node: NodeProcess) -> None:
    with Client(node.url, timeout_s=PATIENCE_S, silence_timeout_s=PATIENCE_S) as client:
        poor = Account.create().address
        client.wait(client.faucet(poor, 5 * COIN).tx_hash)
        assert client.account(poor).balance == 5 * COIN
        assert (client.health().status, client.startup().status, client.ready().status) == ("alive", "started", "ready")


def test_the_node_signs_for_its_dev_accounts(node: NodeProcess) -> None:
    with Client(node.url, timeout_s=PATIENCE_S, silence_timeout_s=PATIENCE_S) as client:
        sent = client.submit({"from": Account.dev(8).address, "to": TO, "value": 1, "gas": 21_000})
        assert client.wait(sent.tx_hash).sender == Account.dev(8).address.lower()


def test_the_sync_and_the_async_client_give_the_same(node: NodeProcess) -> None:
    with Client(node.url, timeout_s=PATIENCE_S, silence_timeout_s=PATIENCE_S) as client:
        wallet = client.wallet(Account.dev(1))
        assert (wallet.account, wallet.address) == (Account.dev(1), Account.dev(1).address)
        hashes = wallet.send_all([(TO, value) for value in range(5)])
        assert all(isinstance(tx_hash, str) for tx_hash in hashes)
        tx = client.wait(str(hashes[-1]))
        found = {
            "tx": client.transaction(tx.tx_hash),
            "block": client.block(tx.block_height),
            "proof": client.proof(tx.tx_hash),
            "history": list(client.history(TO, limit=3)),
            "found": list(client.history(TO, direction="in", oldest_first=True, limit=3)),
            "full": client.full_block(tx.block_height),
            "accounts": client.accounts([TO], height=tx.block_height),
            "confirmations": list(client.confirmations([tx.tx_hash])),
            "blocks": list(islice(client.blocks(from_height=0), tx.block_height)),
            "payments": list(islice(client.payments(TO, from_height=0), 5)),
            "oldest": list(client.recent_blocks())[-1],
            "signed": wallet.sign(TO, 1, nonce=0),
        }

    async def main() -> dict[str, object]:
        async with patient(node.url) as client:
            return {
                "tx": await client.transaction(tx.tx_hash),
                "block": await client.block(tx.block_height),
                "proof": await client.proof(tx.tx_hash),
                "history": [item async for item in client.history(TO, limit=3)],
                "found": [each async for each in client.history(TO, direction="in", oldest_first=True, limit=3)],
                "full": await client.full_block(tx.block_height),
                "accounts": await client.accounts([TO], height=tx.block_height),
                "confirmations": [outcome async for outcome in client.confirmations([tx.tx_hash])],
                "blocks": found["blocks"],
                "payments": found["payments"],
                "oldest": [block async for block in client.recent_blocks()][-1],
                "signed": await client.wallet(Account.dev(1)).sign(TO, 1, nonce=0),
            }

    assert found == asyncio.run(main())
    assert isinstance(found["tx"], ConfirmedTransaction)
    assert msgspec.to_builtins(found["tx"])["status"] == "confirmed"


def test_threads_share_a_client(node: NodeProcess) -> None:
    with Client(node.url, timeout_s=PATIENCE_S, silence_timeout_s=PATIENCE_S) as client:
        wallet = client.wallet(Account.dev(2))
        before = client.account(wallet.address).nonce
        hashes: list[str] = []

        def send() -> None:
            for value in range(5):
                hashes.append(client.wallet(Account.dev(2)).send(TO, value))

        threads = [threading.Thread(target=send) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        nonces = sorted(client.wait(tx_hash).nonce for tx_hash in hashes)
        assert nonces == list(range(before, before + 40))
