"""A server that lies to a client that has the genesis: each lie is refused by the name of what does not hold."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from eth_utils.crypto import keccak

from cairn.client import AsyncClient
from cairn.client.errors import ChainForked, InvalidProof, OutdatedAnswer
from cairn.client.models import Head
from cairn.domain.genesis import parse_genesis
from tests.support.impatient import impatient
from tests.support.proof_chain import (
    COIN,
    Json,
    ProofChain,
    Validator,
    hexed,
    in_order,
    seeded,
    set_hash,
    vote_bytes,
    vote_json,
)
from tests.support.proving_node import ALICE, BOB, CAROL, ProvingNode, payments_chain

HERE, THERE = hexed(BOB.address), hexed(CAROL.address)
HEAD = 6

Use = Callable[[AsyncClient], Awaitable[Any]]


@pytest.fixture(scope="module")
def chain() -> ProofChain:
    return payments_chain()


@pytest.fixture
def node(chain: ProofChain) -> Iterator[ProvingNode]:
    with ProvingNode(chain) as node:
        yield node


def tx_hash(chain: ProofChain, height: int) -> str:
    return hexed(keccak(chain.blocks[height].paid[0].raw))


def client_of(node: ProvingNode, genesis: bytes | None = None, head_file: Path | None = None) -> AsyncClient:
    return impatient(node.url, parse_genesis(node.chain.genesis if genesis is None else genesis), head_file)


def run(node: ProvingNode, use: Use, genesis: bytes | None = None) -> Any:
    async def main() -> Any:
        async with client_of(node, genesis) as client:
            return await use(client)

    return asyncio.run(main())


async def listed(client: AsyncClient, **filters: Any) -> list[Any]:
    return [tx async for tx in client.history(HERE, **filters)]


def setting(*path: Any, to: Any) -> Callable[[Any], None]:
    def alter(answer: Any) -> None:
        for key in path[:-1]:
            answer = answer[key]
        answer[path[-1]] = to

    return alter


# What an honest node answers is believed.


def test_everything_that_an_honest_node_says_is_believed(node: ProvingNode, chain: ProofChain) -> None:
    async def read(client: AsyncClient) -> None:
        assert client.head is None
        assert (await client.transaction(tx_hash(chain, 2))).block_height == 2  # type: ignore[union-attr]
        assert (await client.block(3)).hash == hexed(chain.blocks[3].hash)
        assert (await client.block()).block_height == HEAD
        assert (await client.wait(tx_hash(chain, 5))).value == 5 * COIN
        state = await client.account(HERE)
        assert (state.balance, state.block_height) == (22 * COIN, HEAD)
        assert (await client.account(HERE, height=2)).balance == 4 * COIN
        assert [tx.value // COIN for tx in await listed(client)] == [6, 5, 4, 3, 2, 1]
        assert [block.block_height async for block in client.recent_blocks()] == [6, 5, 4, 3, 2, 1, 0]
        assert client.head == Head(HEAD, hexed(chain.blocks[HEAD].hash), chain.blocks[HEAD].time)

    run(node, read)


# Lies about a payment, a block, an account.


@pytest.mark.parametrize(
    ("field", "lie"),
    [
        ("value", 7 * COIN),
        ("to", THERE),
        ("from", THERE),
        ("nonce", 9),
        ("fee", 1),
        ("reference", "invoice 7"),
        ("blockHeight", 3),
        ("transactionIndex", 1),
    ],
)
def test_a_payment_with_another_field_than_its_receipt_is_refused_by_the_name_of_the_field(
    node: ProvingNode, chain: ProofChain, field: str, lie: object
) -> None:
    paid = tx_hash(chain, 2)
    node.lie(f"/tx/{paid}", setting(field, to=lie))
    name = {"from": "sender", "blockHeight": "block_height", "transactionIndex": "transaction_index"}.get(field, field)
    for use in (lambda client: client.transaction(paid), lambda client: client.wait(paid)):
        with pytest.raises(InvalidProof, match=rf"^{name} is {lie} in the node's answer"):
            run(node, use)


def test_the_receipt_of_another_payment_is_refused(node: ProvingNode, chain: ProofChain) -> None:
    node.lie("/receipt", lambda _: chain.receipt(3, 0, HEAD))
    with pytest.raises(InvalidProof, match="tx_hash is"):
        run(node, lambda client: client.transaction(tx_hash(chain, 2)))


def test_a_block_with_another_field_or_another_list_is_refused(node: ProvingNode, chain: ProofChain) -> None:
    node.lie("/block/3", setting("timestamp", to=1))
    with pytest.raises(InvalidProof, match="timestamp is 1 in the node's answer"):
        run(node, lambda client: client.block(3))
    node.lie("/block/3", setting("transactions", to=[tx_hash(chain, 4)]))
    with pytest.raises(InvalidProof, match="not those that its header commits to"):
        run(node, lambda client: client.block(3))
    node.lie("/block/3", setting("transactions", to=[]))
    with pytest.raises(InvalidProof, match="not those that its header commits to"):
        run(node, lambda client: client.block(3))


def test_a_list_of_blocks_with_one_of_another_chain_is_refused(node: ProvingNode) -> None:
    node.lie("/blocks", setting(2, "gasUsed", to=1))

    async def read(client: AsyncClient) -> None:
        _ = [block async for block in client.recent_blocks()]

    with pytest.raises(InvalidProof, match="block 4 is not the parent of block 5"):
        run(node, read)


def test_the_proof_of_another_account_is_refused(node: ProvingNode, chain: ProofChain) -> None:
    node.lie("/proof", lambda _: chain.account(CAROL.address, HEAD, HEAD))
    with pytest.raises(InvalidProof, match=f"the proof is of account {THERE}"):
        run(node, lambda client: client.account(HERE))


def test_the_leaf_of_another_account_is_refused(node: ProvingNode, chain: ProofChain) -> None:
    node.lie("/proof", setting("state", to=chain.state(CAROL.address, HEAD)))
    with pytest.raises(InvalidProof, match="the leaf is of another account"):
        run(node, lambda client: client.account(HERE))


def test_the_balance_at_a_height_is_compared_with_its_proof(node: ProvingNode) -> None:
    node.lie(f"/account/{HERE}", setting("balance", to=99 * COIN))
    with pytest.raises(InvalidProof, match=f"balance is {99 * COIN} in the node's answer, and {4 * COIN} in its proof"):
        run(node, lambda client: client.account(HERE, height=2))


def test_the_balance_of_another_height_than_was_asked_for_is_refused(node: ProvingNode, chain: ProofChain) -> None:
    node.lie("/proof", lambda _: chain.account(BOB.address, 3, HEAD))
    with pytest.raises(InvalidProof, match="the proof is of height 3, not of 2"):
        run(node, lambda client: client.account(HERE, height=2))


def test_an_older_balance_than_was_proven_before_is_refused(node: ProvingNode, chain: ProofChain) -> None:
    async def read(client: AsyncClient) -> None:
        await client.account(HERE)
        node.lie("/proof", lambda file: None if "consistency" in file else chain.account(BOB.address, 4, 4))
        await client.account(HERE)

    with pytest.raises(OutdatedAnswer, match=f"as of block 4, and block {HEAD} was proven before"):
        run(node, read)


def test_a_proof_of_the_past_is_not_taken_for_one_of_the_present(node: ProvingNode, chain: ProofChain) -> None:
    """Also by a client that has no memory yet."""
    node.lie("/proof", lambda _: chain.account(BOB.address, 2, HEAD))
    with pytest.raises(InvalidProof, match=f"the proof is of height 2, not of {HEAD}"):
        run(node, lambda client: client.account(HERE))
    node.lie(f"/account/{HERE}", lambda state: state | {"blockHeight": 2, "balance": 4 * COIN})
    state = run(node, lambda client: client.account(HERE))
    assert (state.balance, state.block_height) == (22 * COIN, HEAD)
    node.lie("/finality", lambda _: chain.finality(2, HEAD))
    with pytest.raises(InvalidProof, match="the proof is of block 2, 0x.*, not of 0x"):
        run(node, lambda client: client.block())


def test_a_list_of_blocks_that_hides_the_newest_is_refused(node: ProvingNode) -> None:
    node.lie("/blocks", lambda blocks: blocks[2:])

    async def read(client: AsyncClient) -> None:
        _ = [block async for block in client.recent_blocks()]

    with pytest.raises(OutdatedAnswer, match="the list begins with block 4, not with block 6"):
        run(node, read)


# Lies about a history.


def without(number: int, found: list[Json]) -> None:
    del found[number]


def test_a_payment_left_out_of_a_list_is_named(node: ProvingNode, chain: ProofChain) -> None:
    for number, height in enumerate(range(HEAD, 0, -1)):
        node.lie("/txs", partial(without, number))
        with pytest.raises(InvalidProof, match=f"the list leaves out {tx_hash(chain, height)}, which block {height}"):
            run(node, listed)


def test_a_list_without_its_last_payment_is_noticed_also_with_a_filter(node: ProvingNode, chain: ProofChain) -> None:
    node.lie("/txs", lambda found: found.clear())
    with pytest.raises(InvalidProof, match=f"the list leaves out {tx_hash(chain, 3)}"):
        run(node, lambda client: listed(client, reference="invoice 2", direction="in"))


def test_a_list_that_ends_before_the_newest_signed_block_is_noticed(node: ProvingNode, chain: ProofChain) -> None:
    node.lie("/txs", lambda found: found[2:])
    with pytest.raises(InvalidProof, match=f"the list leaves out {tx_hash(chain, HEAD)}"):
        run(node, listed)


def test_a_payment_that_no_block_holds_is_noticed(node: ProvingNode) -> None:
    node.lie("/txs", lambda found: found.append(found[0] | {"txHash": "0x" + "ab" * 32}))
    with pytest.raises(InvalidProof, match="the list has 0xabab"):
        run(node, listed)


def test_a_changed_payment_in_a_list_is_noticed(node: ProvingNode) -> None:
    node.lie("/txs", setting(2, "value", to=1))
    with pytest.raises(InvalidProof, match="value is 1 in the node's answer"):
        run(node, listed)


def test_a_statement_that_leaves_out_a_payment_with_the_list_is_refused(node: ProvingNode) -> None:
    class Accomplice(ProvingNode):
        def get(self, target: str) -> Any:
            status, body = super().get(target)
            if "/txs" in target:
                del body[2]
            return status, body

    with Accomplice(node.chain) as liar:
        liar.lie("/statement", lambda file: without(4, file["changes"]))
        with pytest.raises(InvalidProof, match="block 5 names block 4 as the change before it, not block 3"):
            run(liar, listed)
        liar.lie("/statement", setting("changes", 4, "payments", to=[]))
        with pytest.raises(InvalidProof, match="the payments in block 4 do not explain the balance"):
            run(liar, listed)


# Lies about who signed.


def certificate_of(file: Json) -> Json:
    certificate: Json = file["certificate"]
    return certificate


def strangers(chain: ProofChain) -> list[Validator]:
    return in_order(Validator(seeded(f"stranger {number}"), 10) for number in range(3))


def signed_by_strangers(chain: ProofChain, file: Json) -> None:
    block, others = chain.blocks[HEAD], strangers(chain)
    leaves = chain.engine_leaves(HEAD + 1, block.hash, block.time)
    leaves[7] = b"\x0a\x20" + set_hash(others)
    certificate_of(file)["signed"] = chain.sign(leaves, HEAD + 1, block.time, others)


def forged_step(chain: ProofChain, file: Json) -> None:
    """The right step, but to others, who then sign."""
    rows = [{"publicKey": hexed(each.key), "power": each.power} for each in strangers(chain)]
    certificate_of(file)["steps"][0]["validators"] = rows
    signed_by_strangers(chain, file)


def step_by_strangers(chain: ProofChain, file: Json) -> None:
    others = strangers(chain)
    leaves = chain.engine_leaves(4, chain.blocks[3].hash, chain.blocks[3].time)
    leaves[8] = b"\x0a\x20" + set_hash(others)
    rows = [{"publicKey": hexed(each.key), "power": each.power} for each in others]
    signed = chain.sign(leaves, 4, chain.blocks[3].time, others)
    certificate_of(file)["steps"] = [{"signed": signed, "validators": rows}]
    signed_by_strangers(chain, file)


def two_thirds(chain: ProofChain, file: Json) -> None:
    certificate_of(file)["signed"] = chain.certificate(HEAD, signers=[0, 1])["signed"]


def duplicate(chain: ProofChain, file: Json) -> None:
    signed = chain.certificate(HEAD, signers=[0, 1])["signed"]
    certificate_of(file)["signed"] = signed | {"signatures": [*signed["signatures"], signed["signatures"][1]]}


def counted_twice(chain: ProofChain, file: Json) -> None:
    """The signature of one, given as that of the next."""
    signed = chain.certificate(HEAD, signers=[0, 1])["signed"]
    certificate_of(file)["signed"] = signed | {
        "signatures": [*signed["signatures"], signed["signatures"][1] | {"validator": 2}]
    }


def nil_vote(chain: ProofChain, file: Json) -> None:
    block, signed = chain.blocks[HEAD], certificate_of(file)["signed"]
    signer, time = chain.validators_at(HEAD + 1)[2], (block.time, 2_000)
    message = vote_bytes(chain.engine_id, HEAD + 1, signed["round"], b"", (0, b""), time)
    signed["signatures"][2] = vote_json(2, time, signer.sign(message))


def absent_vote(chain: ProofChain, file: Json) -> None:
    certificate_of(file)["signed"]["signatures"][2]["signature"] = "0x"


def twice_in_the_set(chain: ProofChain, file: Json) -> None:
    certificate_of(file)["steps"][0]["validators"].append(certificate_of(file)["steps"][0]["validators"][-1])


def no_steps(chain: ProofChain, file: Json) -> None:
    """By the validators of today, as if they had been there from the first block on."""
    certificate_of(file)["steps"] = []


@pytest.mark.parametrize(
    ("forge", "named"),
    [
        (signed_by_strangers, "a signed header of other validators"),
        (forged_step, "the validators of step 0 are not those that its header names"),
        (step_by_strangers, "the signature of validator 0 on header 4 is wrong"),
        (two_thirds, "signed by 20 of 30 of the power, not by more than two thirds"),
        (duplicate, "validator 1 is given twice"),
        (counted_twice, "the signature of validator 2 on header 7 is wrong"),
        (nil_vote, "the signature of validator 2 on header 7 is wrong"),
        (absent_vote, "the signature of validator 2 on header 7 is wrong"),
        (twice_in_the_set, "a step names a validator twice"),
        (no_steps, "a signed header of other validators"),
    ],
)
def test_signatures_that_do_not_suffice_are_refused_for_every_kind_of_answer(
    node: ProvingNode, chain: ProofChain, forge: Callable[[ProofChain, Json], None], named: str
) -> None:
    paid = tx_hash(chain, HEAD)
    uses: list[tuple[str, Use]] = [
        ("/receipt", lambda client: client.transaction(paid)),
        ("/finality", lambda client: client.block(HEAD)),
        ("/proof", lambda client: client.account(HERE)),
        ("/statement", listed),
    ]
    for ending, use in uses:
        node.lie(ending, lambda file: forge(chain, file))
        with pytest.raises(InvalidProof, match=named):
            run(node, use)


def test_another_chain_with_the_same_chain_id_and_validators_is_refused(chain: ProofChain) -> None:
    """The genesis differs in one balance, so every signature does."""
    balances = {ALICE.address: 101 * COIN, BOB.address: COIN, CAROL.address: COIN}
    other = ProofChain("payments", {"a": 10, "b": 10, "c": 10, "d": 10}, balances=balances)
    other.add([other.pay(ALICE, BOB.address, COIN, 0, data=b"invoice 0")])
    with ProvingNode(other) as node:
        assert run(node, lambda client: client.account(HERE)).balance == 2 * COIN
        for use in (
            lambda client: client.account(HERE),
            lambda client: client.block(1),
            lambda client: client.transaction(tx_hash(other, 1)),
            listed,
        ):
            with pytest.raises(InvalidProof, match="a signed header of another chain than cairn-1337-"):
                run(node, use, chain.genesis)


# Two histories, both signed by the same validators.


def rewritten(blocks: int = 6) -> ProofChain:
    """A chain with the same genesis and keys, and another second payment."""
    return payments_chain(values=(1, 9, *range(3, blocks + 1)))


def test_a_fork_that_only_one_of_two_clients_is_shown_is_noticed_when_they_compare(node: ProvingNode) -> None:
    async def compare(blocks: int) -> None:
        with ProvingNode(rewritten(blocks)) as other:
            async with client_of(node) as alice, client_of(other) as bob:
                await alice.account(HERE)
                await bob.account(HERE)
                assert alice.head is not None
                assert bob.head is not None
                await alice.check_head(alice.head)
                with pytest.raises(ChainForked, match="history was rewritten: block 6 was"):
                    await bob.check_head(alice.head)
                if blocks == HEAD:
                    with pytest.raises(ChainForked, match="history was rewritten: block 6 was"):
                        await alice.check_head(bob.head)

    for blocks in (HEAD, HEAD + 2):
        asyncio.run(compare(blocks))


def test_heads_of_different_heights_on_one_chain_agree(node: ProvingNode, chain: ProofChain) -> None:
    async def compare() -> None:
        with ProvingNode(chain, head=3) as behind:
            async with client_of(node) as alice, client_of(behind) as bob:
                await alice.account(HERE)
                await bob.account(HERE)
                assert bob.head is not None
                assert bob.head.block_height == 3
                await alice.check_head(bob.head)
                behind.head = HEAD
                assert alice.head is not None
                await bob.check_head(alice.head)

    asyncio.run(compare())


def test_a_shorter_chain_that_was_rebuilt_from_genesis_is_noticed(node: ProvingNode) -> None:
    async def read(client: AsyncClient) -> None:
        await client.account(HERE)
        node.chain, node.head = rewritten(4), 4
        await client.account(HERE)

    with pytest.raises(OutdatedAnswer, match="does not have block 6"):
        run(node, read)


@pytest.mark.parametrize("blocks", [6, 8])
def test_a_node_whose_chain_was_rebuilt_from_genesis_is_noticed(node: ProvingNode, blocks: int) -> None:
    async def read(client: AsyncClient) -> None:
        await client.account(HERE)
        node.chain = rewritten(blocks)
        node.head = blocks
        with pytest.raises(ChainForked, match="history was rewritten: block 6 was"):
            await client.account(HERE)
        # Nor is an older payment believed that only the new history has.
        with pytest.raises(ChainForked, match="history was rewritten"):
            await client.transaction(tx_hash(node.chain, 2))

    run(node, read)


def test_a_rewritten_history_behind_an_honest_newest_block_is_noticed(node: ProvingNode, chain: ProofChain) -> None:
    """Who signs can name any parent: only the proof of history shows that the rest was changed."""
    forged = rewritten()
    forged.blocks = [*forged.blocks[:6], chain.blocks[6]]
    forged.add()

    async def read(client: AsyncClient) -> None:
        await client.account(HERE)
        node.chain, node.head = forged, 7
        await client.account(HERE)

    with pytest.raises(InvalidProof, match="the history at block 7 does not begin with that at block 6"):
        run(node, read)


def test_a_head_below_the_one_in_the_file_is_refused_after_a_restart(
    node: ProvingNode, chain: ProofChain, tmp_path: Path
) -> None:
    file = tmp_path / "head.json"

    async def main() -> None:
        async with client_of(node, head_file=file) as client:
            await client.account(HERE)
        with ProvingNode(chain, head=3) as behind:
            async with client_of(behind, head_file=file) as client:
                assert client.head is not None
                assert client.head.block_height == HEAD
                with pytest.raises(OutdatedAnswer):
                    await client.block()
                with pytest.raises(OutdatedAnswer):
                    await client.account(HERE)

    asyncio.run(main())
