"""A server that answers with a valid proof of something else: no answer is believed that is not the true one."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from eth_utils.crypto import keccak

from cairn.client import AsyncClient
from cairn.client.errors import ClientError, InvalidProof, UnexpectedAnswer
from cairn.domain.genesis import parse_genesis
from tests.support.impatient import impatient
from tests.support.proof_chain import ProofChain, hexed
from tests.support.proving_node import ALICE, BOB, ProvingNode, payments_chain
from tests.support.sweeps import swept

HERE, THERE = hexed(BOB.address), hexed(ALICE.address)
HEAD = 6
CHAIN = payments_chain()

Use = Callable[[AsyncClient], Awaitable[Any]]


def tx_hash(height: int) -> str:
    return hexed(keccak(CHAIN.blocks[height].paid[0].raw))


def proofs(chain: ProofChain) -> list[str]:
    """Where the node has a valid file of proof, of every kind and of heights around the ones that are asked for."""
    heights = (2, 3, 4, HEAD)
    return [
        "/block/latest/finality",
        *(f"/block/{height}/finality" for height in heights),
        *(f"/block/{hexed(chain.blocks[height].hash)}/finality" for height in heights),
        *(f"/account/{address}/proof" for address in (HERE, THERE)),
        *(f"/account/{address}/proof?height={height}" for address in (HERE, THERE) for height in heights),
        *(f"/tx/{tx_hash(height)}/receipt" for height in heights),
        *(f"/account/{HERE}/statement?to={to}&from={first}" for to in heights for first in (1, to)),
        *(f"/history/proof?from={height - 1}&to={height}" for height in heights),
    ]


async def history(client: AsyncClient) -> list[Any]:
    return [tx async for tx in client.history(HERE, from_height=1, to_height=HEAD)]


async def recent_blocks(client: AsyncClient) -> list[Any]:
    return [block async for block in client.recent_blocks(3)]


USES: dict[str, Use] = {
    "transaction": lambda client: client.transaction(tx_hash(3)),
    "block by height": lambda client: client.block(3),
    "block by hash": lambda client: client.block(hexed(CHAIN.blocks[3].hash)),
    "account": lambda client: client.account(HERE),
    "account at a height": lambda client: client.account(HERE, height=3),
    "account at a time": lambda client: client.account(HERE, time=CHAIN.blocks[3].time),
    "history": history,
    "recent blocks": recent_blocks,
}


@pytest.fixture
def node() -> Iterator[ProvingNode]:
    with ProvingNode(CHAIN) as node:
        yield node


async def ask(node: ProvingNode, use: Use) -> Any:
    """By a client that knows the newest block."""
    swapped, node.swapped = node.swapped, {}
    async with impatient(node.url, parse_genesis(CHAIN.genesis)) as client:
        await client.block()
        node.swapped = swapped
        node.asked.clear()
        return await use(client)


@pytest.mark.parametrize("name", USES)
def test_the_proof_of_something_else_gives_the_true_answer_or_an_error(node: ProvingNode, name: str) -> None:
    truth = asyncio.run(ask(node, USES[name]))
    asked = [target for target in dict.fromkeys(node.asked) if is_proof(target)]
    assert asked
    for target, other in swept(list(itertools.product(asked, proofs(CHAIN))), name):
        node.swapped = {target: other}
        with suppress(ClientError):
            assert asyncio.run(ask(node, USES[name])) == truth, f"{target} was answered with {other}"


def is_proof(target: str) -> bool:
    return target.partition("?")[0].endswith(("/finality", "/receipt", "/proof", "/statement"))


def test_an_earlier_balance_than_that_of_the_time_is_refused_whatever_is_shown_as_the_next_block(
    node: ProvingNode,
) -> None:
    time = CHAIN.blocks[3].time
    at_time = partial(AsyncClient.account, address=HERE, time=time)
    for shown in (3, 4, HEAD):
        node.swapped = {
            f"/account/{HERE}?time={time}": f"/account/{HERE}?height=1",
            "/block/2/finality": f"/block/{shown}/finality",
        }
        with pytest.raises(InvalidProof, match=f"the proof is of block {shown}, 0x.*, not of 2"):
            asyncio.run(ask(node, at_time))
    node.swapped = {f"/account/{HERE}?time={time}": f"/account/{HERE}?height=4"}
    with pytest.raises(InvalidProof, match="block 4 is not the last one up to the time"):
        asyncio.run(ask(node, at_time))


def test_an_answer_of_a_time_that_does_not_name_its_block_is_refused(node: ProvingNode) -> None:
    time = CHAIN.blocks[3].time
    node.swapped = {f"/account/{HERE}?time={time}": f"/account/{HERE}"}
    with pytest.raises(UnexpectedAnswer, match="does not say which block its answer is of"):
        asyncio.run(ask(node, lambda client: client.account(HERE, time=time)))


def test_before_the_first_block_an_account_holds_what_genesis_gives_it(node: ProvingNode) -> None:
    time = CHAIN.blocks[0].time
    state = asyncio.run(ask(node, lambda client: client.account(HERE, time=time)))
    assert (state.block_height, state.balance) == (0, CHAIN.blocks[0].held[BOB.address].balance)
