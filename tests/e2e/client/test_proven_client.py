"""A client with the genesis at a real node: it believes the truth, and no part of any answer that was changed."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import Any

import pytest

from cairn.client import COIN, Account, AsyncClient, Client
from cairn.client.errors import ApiError, InvalidProof, UnexpectedAnswer
from cairn.client.models import Confirmed, ConfirmedTransaction, NewBlock, Payment
from cairn.domain.genesis import Genesis, parse_genesis
from tests.support.impatient import impatient
from tests.support.lies import LyingServer, lies_about
from tests.support.node_process import NodeProcess
from tests.support.pace import PATIENCE_S
from tests.support.public import get_anew

pytestmark = pytest.mark.filterwarnings("ignore::cairn.client.errors.PublicKeyWarning")
HERE, THERE = Account.dev(6), Account.dev(5)
PAYMENTS = 3

Use = Callable[[AsyncClient], Awaitable[Any]]


class Scene:
    def __init__(self, node: NodeProcess) -> None:
        self.genesis: Genesis = parse_genesis(get_anew(f"{node.url}/genesis").content)
        with Client(node.url, timeout_s=PATIENCE_S, silence_timeout_s=PATIENCE_S) as client:
            wallet = client.wallet(THERE)
            for number in range(PAYMENTS):
                sent = wallet.send(HERE.address, (number + 1) * COIN, reference=f"invoice {number}")
                self.tx = client.wait(sent)
        self.url = node.url
        self.server = LyingServer(node.url)

    def client(self) -> AsyncClient:
        return AsyncClient(self.url, timeout_s=PATIENCE_S, silence_timeout_s=PATIENCE_S, genesis=self.genesis)

    async def believed(self, target: str, use: Use) -> list[str]:
        """The parts of the answer to `target` that a lie can change without being refused."""
        parts = []
        self.server.lies = {}
        async with impatient(self.server.url, self.genesis) as client:
            await use(client)
            for part, lie in lies_about(self.server.truth(target)):
                self.server.lie(target.partition("?")[0], lie)
                try:
                    await use(client)
                    parts.append(part)
                except (InvalidProof, UnexpectedAnswer, ApiError):
                    pass
        self.server.lies = {}
        return parts


@pytest.fixture(scope="module")
def scene(node: NodeProcess) -> Iterator[Scene]:
    made = Scene(node)
    yield made
    made.server.close()


def test_everything_that_a_node_says_is_proven(scene: Scene) -> None:
    async def main() -> None:
        async with scene.client() as client:
            tx, height = scene.tx, scene.tx.block_height
            assert await client.transaction(tx.tx_hash) == tx
            assert client.head is not None
            assert (await client.block(0)).block_height == 0
            assert tx.tx_hash in (await client.block(height)).transactions
            assert tx in (await client.full_block(height)).transactions
            now, then = await client.account(HERE.address), await client.account(HERE.address, height=height - 1)
            assert now.balance - then.balance == PAYMENTS * COIN
            assert (await client.account(HERE.address, time=tx_time(scene))).balance == now.balance
            accounts = (await client.accounts([HERE.address, THERE.address])).accounts
            assert [each.balance for each in accounts][0] == now.balance
            history = [tx.value // COIN async for tx in client.history(HERE.address, PAYMENTS)]
            assert history == [3, 2, 1]
            assert [tx async for tx in client.history(HERE.address, reference="invoice 2")] == [tx]
            assert [block.block_height async for block in client.recent_blocks(3)][-1] == client.head.block_height - 2
            await client.proof(tx.tx_hash)

    asyncio.run(main())


def tx_time(scene: Scene) -> int:
    timestamp: int = get_anew(f"{scene.url}/block/{scene.tx.block_height}").json()["timestamp"]
    return timestamp


def test_events_are_proven_before_they_are_given(scene: Scene) -> None:
    first = scene.tx.block_height - PAYMENTS + 1

    async def main() -> None:
        async with scene.client() as client:
            async with aclosing(client.blocks(0)) as blocks:
                async for block in blocks:
                    if block.block_height:
                        assert client.head is not None
                        assert client.head.block_height >= block.block_height
                    if block.block_height == scene.tx.block_height:
                        break
            async with aclosing(client.payments(HERE.address, first)) as payments:
                assert [(await anext(payments)).value // COIN for _ in range(PAYMENTS)] == [1, 2, 3]
            async with aclosing(client.payments_and_blocks(HERE.address, first)) as events:
                seen: list[Payment | NewBlock] = [await anext(events)]
                paid = await client.wallet(THERE).send(HERE.address, 7)
                while not isinstance(seen[-1], NewBlock):
                    seen.append(await anext(events))
            confirmed = [outcome async for outcome in client.confirmations([paid])]
            assert [type(outcome) for outcome in confirmed] == [Confirmed]

    asyncio.run(main())


def test_a_sync_client_proves_the_same(scene: Scene) -> None:
    with Client(scene.url, timeout_s=PATIENCE_S, silence_timeout_s=PATIENCE_S, genesis=scene.genesis) as client:
        assert isinstance(client.transaction(scene.tx.tx_hash), ConfirmedTransaction)
        head = client.head
        assert head is not None
        client.check_head(head)


def test_no_changed_part_of_an_answer_or_of_its_proof_is_believed(scene: Scene) -> None:
    tx, height, here = scene.tx, scene.tx.block_height, HERE.address.lower()

    async def history(client: AsyncClient) -> None:
        _ = [tx async for tx in client.history(here, from_height=1, to_height=height)]

    uses: dict[str, Use] = {
        f"/tx/{tx.tx_hash}": lambda client: client.transaction(tx.tx_hash),
        f"/tx/{tx.tx_hash}/receipt": lambda client: client.transaction(tx.tx_hash),
        f"/block/{height}": lambda client: client.block(height),
        f"/block/{tx.block_hash}/finality": lambda client: client.block(height),
        f"/account/{here}?height={height}": lambda client: client.account(here, height=height),
        f"/account/{here}/proof?height={height}": lambda client: client.account(here, height=height),
        f"/account/{here}/txs?fromHeight=1&toHeight={height}&limit=200": history,
        f"/account/{here}/statement?from=1&to={height}": history,
        f"/block/{height}?transactions=full": lambda client: client.full_block(height),
    }
    for target, use in uses.items():
        believed = asyncio.run(scene.believed(target, use))
        assert [part for part in believed if not is_without_meaning(part)] == [], target


def is_without_meaning(part: str) -> bool:
    """Whether it proves nothing: the pending nonce, the size of a tree that a path fits anyway, a lone tag."""
    return part.startswith("pendingNonce") or part.endswith(("count more", "count less", "size more", "status missing"))
