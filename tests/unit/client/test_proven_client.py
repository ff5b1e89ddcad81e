"""A client with the genesis: what it remembers, how long it waits, and which of its answers are proven."""

import asyncio
import inspect
import typing
import warnings
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cairn.client import AsyncClient, async_reads
from cairn.client.errors import (
    BlockNotKept,
    ChainForked,
    InvalidField,
    InvalidProof,
    NotSignedYet,
    PublicKeyWarning,
)
from cairn.client.models import Head, Unproven
from cairn.domain.genesis import Genesis, dev_genesis, encode_genesis, parse_genesis
from tests.support.impatient import impatient
from tests.support.pace import PATIENCE_S
from tests.support.proof_chain import COIN, Json, ProofChain, hexed
from tests.support.proving_node import ALICE, BOB, CAROL, VALIDATORS, ProvingNode, payments_chain

HERE = hexed(BOB.address)


def client_of(node: ProvingNode, head_file: Path | None = None) -> AsyncClient:
    return impatient(node.url, parse_genesis(node.chain.genesis), head_file)


def run(node: ProvingNode, use: Callable[[AsyncClient], Awaitable[Any]], head_file: Path | None = None) -> Any:
    async def main() -> Any:
        async with client_of(node, head_file) as client:
            return await use(client)

    return asyncio.run(main())


async def values(client: AsyncClient, **filters: Any) -> list[int]:
    return [tx.value // COIN async for tx in client.history(HERE, **filters)]


# Types.

PROVEN = {
    "AccountList",
    "AccountState",
    "Block",
    "Confirmed",
    "ConfirmedTransaction",
    "FullBlock",
    "Header",
    "NewBlock",
    "Payment",
    "Proof",
}
NO_ANSWERS = {"ApiError", "AsyncWallet", "Head", "NoneType", "str"}


def test_every_answer_is_of_a_type_that_is_proven_or_named_as_unproven() -> None:
    found = set()
    for name, method in inspect.getmembers(AsyncClient):
        if not name.startswith("_"):
            hints = typing.get_type_hints(method.fget if isinstance(method, property) else method)
            found |= set(leaves_of(hints["return"]))
    named = {each.__name__ for each in found if not issubclass(each, Unproven)}
    assert named == PROVEN | NO_ANSWERS
    unproven = {each.__name__ for each in found if issubclass(each, Unproven)}
    assert unproven == {
        "Chain",
        "Dropped",
        "MempoolItem",
        "PendingTransaction",
        "Probe",
        "Readiness",
        "Submitted",
        "Validators",
    }


def leaves_of(hint: Any) -> list[type]:
    arguments = typing.get_args(hint)
    return [leaf for each in arguments for leaf in leaves_of(each)] if arguments else [hint or type(None)]


# What it starts from.


def test_a_genesis_is_a_path_or_what_it_says(tmp_path: Path) -> None:
    chain = payments_chain()
    file = tmp_path / "genesis.json"
    file.write_bytes(chain.genesis)
    with ProvingNode(chain) as node:
        for genesis in (file, str(file), parse_genesis(chain.genesis)):

            async def read(genesis: Path | str | Genesis) -> int:
                async with AsyncClient(node.url, genesis=genesis) as client:
                    return (await client.account(HERE)).balance

            assert asyncio.run(read(genesis)) == 22 * COIN


def test_wrong_settings_are_refused_by_name(tmp_path: Path) -> None:
    genesis = parse_genesis(payments_chain().genesis)
    with pytest.raises(InvalidField, match="chain_id: is 1, and 1337 in the genesis"):
        AsyncClient("http://127.0.0.1:9", genesis=genesis, chain_id=1)
    with pytest.raises(InvalidField, match="head_file: is for a client with a genesis"):
        AsyncClient("http://127.0.0.1:9", head_file=tmp_path / "head.json")
    for missing in (tmp_path / "genesis.json", str(tmp_path), "a\0b"):
        with pytest.raises(InvalidField, match="genesis: .* cannot be read"):
            AsyncClient("http://127.0.0.1:9", genesis=missing)
    content: Any
    for content in (payments_chain().genesis, msgspec.json.decode(payments_chain().genesis), 7):
        with pytest.raises(InvalidField, match="genesis: must be the path of the chain's genesis.json"):
            AsyncClient("http://127.0.0.1:9", genesis=content)
    with pytest.raises(InvalidField, match="genesis: a client without the chain's genesis"):
        asyncio.run(AsyncClient("http://127.0.0.1:9").check_head(Head(1, "0x", 0)))


def test_a_dev_chain_is_named_as_one_whose_key_everybody_has(tmp_path: Path) -> None:
    file = tmp_path / "genesis.json"
    file.write_bytes(encode_genesis(dev_genesis()))
    with pytest.warns(PublicKeyWarning, match="everybody has the key"):
        AsyncClient("http://127.0.0.1:9", genesis=file)
    with warnings.catch_warnings(action="error"):
        AsyncClient("http://127.0.0.1:9", genesis=parse_genesis(payments_chain().genesis))


# What it remembers.


def test_a_file_of_another_chain_or_of_nothing_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "head.json"
    with ProvingNode(payments_chain()) as node:
        run(node, lambda client: client.account(HERE), head_file=file)
        held = file.read_bytes()
        assert msgspec.json.decode(held)["head"]["blockHeight"] == 6
        assert list(tmp_path.iterdir()) == [file]
        other = parse_genesis(ProofChain("another", VALIDATORS).genesis)
        with pytest.raises(InvalidField, match="head_file: .* is of the chain with genesis 0x"):
            AsyncClient(node.url, genesis=other, head_file=file)
        for damage in (b"", b"{}", held[:-9], held.replace(b"cairn-head-1", b"cairn-head-9")):
            file.write_bytes(damage)
            with pytest.raises(InvalidField, match="head_file"):
                client_of(node, head_file=file)


def test_a_restarted_client_goes_on_from_the_block_in_its_file(tmp_path: Path) -> None:
    file, chain = tmp_path / "head.json", payments_chain()
    with ProvingNode(chain, head=3) as node:
        run(node, lambda client: client.account(HERE), head_file=file)
        node.head = 6
        node.asked.clear()
        assert run(node, lambda client: client.account(HERE), head_file=file).block_height == 6
        assert node.asked[-1] == "/history/proof?from=3&to=6&known=true"


def test_a_client_that_slept_goes_on_at_a_node_that_has_removed_its_block(tmp_path: Path) -> None:
    file, chain = tmp_path / "head.json", payments_chain()
    with ProvingNode(chain, head=2) as node:
        run(node, lambda client: client.account(HERE), head_file=file)
        node.head, node.oldest = 6, 5
        assert run(node, lambda client: client.account(HERE), head_file=file).block_height == 6
    other = payments_chain(values=(1, 7, 3, 4, 5, 6))
    assert other.genesis == chain.genesis
    with ProvingNode(chain, head=2) as node:
        file.unlink()
        run(node, lambda client: client.account(HERE), head_file=file)
    with ProvingNode(other) as node:
        with pytest.raises(ChainForked, match="block 2 was 0x"):
            run(node, lambda client: client.account(HERE), head_file=file)
        node.oldest = 5
        with pytest.raises(InvalidProof, match="block 2 is not"):
            run(node, lambda client: client.account(HERE), head_file=file)


def test_a_head_file_with_the_header_of_another_block_is_refused(tmp_path: Path) -> None:
    file, chain = tmp_path / "head.json", payments_chain()
    with ProvingNode(chain) as node:
        run(node, lambda client: client.account(HERE), head_file=file)
        held = msgspec.json.decode(file.read_bytes())
        for header in (hexed(chain.blocks[3].header), held["header"][:-2], "0x"):
            file.write_bytes(msgspec.json.encode(held | {"header": header}))
            with pytest.raises(InvalidField, match="head_file: .* holds"):
                client_of(node, head_file=file)


# A node that does not keep all blocks.


def test_the_history_of_a_node_that_may_lack_earlier_payments_needs_a_first_block() -> None:
    with ProvingNode(payments_chain()) as node:
        node.oldest = 4
        for oldest_first in (False, True):
            with pytest.raises(BlockNotKept, match="from block 4 on, .* give from_height=4"):
                run(node, partial(values, oldest_first=oldest_first))
        assert run(node, partial(values, from_height=4)) == [6, 5, 4]
        assert run(node, partial(values, limit=2)) == [6, 5], "the rest is not asked for"
        node.oldest = 1
        assert run(node, values) == [6, 5, 4, 3, 2, 1]


def test_an_account_that_was_not_used_before_the_oldest_block_has_a_whole_history() -> None:
    chain = payments_chain()
    chain.add([chain.pay(ALICE, CAROL.address, COIN, 6, data=b"x")])
    with ProvingNode(chain) as node:
        node.oldest = 4

        async def read(client: AsyncClient) -> list[int]:
            return [tx.block_height async for tx in client.history(hexed(CAROL.address))]

        assert run(node, read) == [7]


def only(kept: list[int], blocks: list[Json]) -> list[Json]:
    return [block for block in blocks if block["blockHeight"] in kept]


async def heights(client: AsyncClient, limit: int | None = None) -> list[int]:
    return [block.block_height async for block in client.recent_blocks(limit)]


def test_a_list_of_blocks_ends_with_block_0_or_where_the_node_says_that_it_keeps_no_more() -> None:
    with ProvingNode(payments_chain()) as node:
        cut: list[list[int]] = [[], [5, 4], [6, 5], [6, 5, 4, 3, 2, 1]]
        for kept in cut:
            node.lie("/blocks", partial(only, kept))
            refused = "the list (holds no block|begins with block 5|ends with block [15], and the node has block [04])"
            with pytest.raises(InvalidProof, match=refused):
                run(node, heights)
        node.lie("", lambda _: None)
        assert run(node, heights) == [6, 5, 4, 3, 2, 1, 0]
        assert run(node, partial(heights, limit=0)) == []
        node.oldest = 3
        assert run(node, heights) == [6, 5, 4, 3]
        assert run(node, partial(heights, limit=9)) == [6, 5, 4, 3]
        assert run(node, partial(heights, limit=2)) == [6, 5]


def test_what_was_proven_once_is_not_asked_for_again() -> None:
    async def read(client: AsyncClient) -> None:
        for _ in range(3):
            await client.account(HERE)
            await client.block(2)

    with ProvingNode(payments_chain()) as node:
        run(node, read)
        paths = [asked.partition("?")[0] for asked in node.asked]
        assert paths.count("/history/proof") == 0, "the toy node proves everything under its head"
        assert paths.count(f"/account/{HERE}/proof") == 3


# How long it waits.


def test_a_signature_is_waited_for_within_the_time_limit() -> None:
    with ProvingNode(payments_chain()) as node:
        node.unsigned_files = 2

        async def read() -> int:
            genesis = parse_genesis(node.chain.genesis)
            async with AsyncClient(node.url, timeout_s=PATIENCE_S, genesis=genesis) as client:
                return (await client.block(3)).block_height

        assert asyncio.run(read()) == 3
        node.unsigned_files = 1_000
        with pytest.raises(NotSignedYet):
            run(node, lambda client: client.block(3))


def test_empty_blocks_that_nobody_signed_yet_are_left_out() -> None:
    chain = payments_chain()
    chain.add()
    chain.add()
    with ProvingNode(chain, head=6) as node:
        node.latest = 8

        async def read(client: AsyncClient) -> None:
            assert (await client.block()).block_height == 6
            assert await values(client) == [6, 5, 4, 3, 2, 1]
            assert [block.block_height async for block in client.recent_blocks(2)] == [6, 5]
            assert (await client.chain()).head.block_height == 8

        run(node, read)


# Histories, page by page.


@pytest.mark.parametrize("size", [1, 2, 3, 200])
def test_pages_that_end_within_a_block_are_proven(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_reads, "PROVEN_PAGE", size)
    chain = ProofChain("pages", VALIDATORS, balances={ALICE.address: 100 * COIN, BOB.address: COIN})
    for start in (0, 3, 6):
        chain.add([chain.pay(ALICE, BOB.address, (n + 1) * COIN, n, data=b"x") for n in range(start, start + 3)])
    chain.add()
    with ProvingNode(chain) as node:
        newest_first = list(range(9, 0, -1))
        assert run(node, values) == newest_first
        assert run(node, lambda client: values(client, oldest_first=True)) == newest_first[::-1]
        for limit in (1, 2, 4, 9):
            assert run(node, partial(values, limit=limit)) == newest_first[:limit]
        for left_out in (0, 4, 8):
            node.hidden = left_out
            for oldest_first in (False, True):
                with pytest.raises(InvalidProof, match="the list leaves out 0x"):
                    run(node, partial(values, oldest_first=oldest_first))
