"""A witness and nodes that lie to it: it signs only what a proof appends to the last block that it signed."""

import asyncio
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cairn.cli.witness.memory import Memory
from cairn.cli.witness.watching import Outcome, Query, Sighting, Watch
from cairn.client.errors import BlockNotKept, NodeUnreachable
from cairn.domain.errors import InvalidConfig
from cairn.domain.evidence import check_evidence, read_evidence
from cairn.domain.genesis import parse_genesis
from cairn.domain.proof_checks import Trust
from tests.support.proof_chain import COIN, ProofChain, encode
from tests.support.proven import ALICE, BOB, toy_network

Json = dict[str, Any]


class Node:
    """Shows the blocks of a chain up to one of them."""

    url = "http://node"

    def __init__(self, chain: ProofChain, head: int) -> None:
        self.chain = chain
        self.head = head
        self.alter: Callable[[str, Json], Json] = lambda path, file: file
        self.is_away = self.hides_history = False

    async def fetch(self, path: str, query: Query | None = None) -> bytes:
        if self.is_away:
            raise NodeUnreachable("nobody answers", was_sent=False)
        if path == "/history/proof":
            assert query is not None
            if self.hides_history:
                raise BlockNotKept("the block was removed")
            file = self.chain.history(int(query["from"]), int(query["to"]), self.head)
            file |= {"first": "0x"} if query["known"] == "true" else {}
        else:
            height = self.head if path in ("/finality", "/block/latest/finality") else int(path.split("/")[2])
            file = self.chain.finality(height, self.head)
        return encode(self.alter(path, copy.deepcopy(file)))


class Peer(Node):
    url = "http://peer"


def forked_network() -> ProofChain:
    """Another history from block 2 on, of the same genesis."""
    chain = toy_network()
    forked = ProofChain(
        "network", {"a": 10, "b": 10, "c": 10, "d": 10}, balances={ALICE.address: 100 * COIN, BOB.address: COIN}
    )
    assert forked.genesis == chain.genesis
    forked.add()
    forked.add([forked.pay(ALICE, BOB.address, COIN, 0)])
    while forked.height < chain.height:
        forked.add()
    return forked


@pytest.fixture
def chain() -> ProofChain:
    return toy_network()


@pytest.fixture
def memory(tmp_path: Path, chain: ProofChain) -> Memory:
    return Memory(tmp_path / "witness", parse_genesis(chain.genesis))


def look(node: Node, memory: Memory) -> Sighting:
    return asyncio.run(Watch(node, parse_genesis(node.chain.genesis), memory).look())


def signed_height(memory: Memory) -> int | None:
    return None if memory.block is None else memory.block.header.height


def test_each_block_that_appends_is_signed_and_found_again(chain: ProofChain, memory: Memory, tmp_path: Path) -> None:
    node = Node(chain, 4)
    assert look(node, memory).outcome is Outcome.SIGNED
    assert look(node, memory).outcome is Outcome.SAME
    node.head = 9
    assert look(node, memory).outcome is Outcome.SIGNED
    memory.close()
    again = Memory(tmp_path / "witness", parse_genesis(chain.genesis))
    assert signed_height(again) == 9
    assert again.head == memory.head


def test_a_node_that_shows_less_is_behind_and_nothing_is_forgotten(chain: ProofChain, memory: Memory) -> None:
    node = Node(chain, 9)
    look(node, memory)
    node.head = 5
    assert look(node, memory).outcome is Outcome.BEHIND
    assert signed_height(memory) == 9


def spoil_signature(path: str, file: Json) -> Json:
    votes = file["certificate"]["signed"]["signatures"]
    votes[0]["signature"] = votes[1]["signature"]
    return file


def drop_signatures(path: str, file: Json) -> Json:
    file["certificate"]["signed"]["signatures"] = file["certificate"]["signed"]["signatures"][:1]
    return file


def spoil_consistency(path: str, file: Json) -> Json:
    if file.get("consistency"):
        file["consistency"][0] = "0x" + "00" * 32
    return file


def without_inclusion(path: str, file: Json) -> Json:
    return file | {"inclusion": []} if "inclusion" in file else file


def another_kind(path: str, file: Json) -> Json:
    return file | {"format": "cairn-receipt-1"}


@pytest.mark.parametrize("lie", [spoil_signature, drop_signatures, spoil_consistency, without_inclusion, another_kind])
def test_a_block_that_is_not_proven_to_append_is_not_signed(
    chain: ProofChain, memory: Memory, lie: Callable[[str, Json], Json]
) -> None:
    node = Node(chain, 5)
    look(node, memory)
    node.head, node.alter = 9, lie
    found = look(node, memory)
    assert found.outcome is Outcome.UNPROVEN
    assert found.outcome.is_alarm
    assert signed_height(memory) == 5
    assert memory.evidence() == []


def test_a_newer_signed_block_whose_history_the_node_does_not_show_is_an_alarm(
    chain: ProofChain, memory: Memory
) -> None:
    node = Node(chain, 5)
    look(node, memory)
    node.head, node.hides_history = 9, True
    found = look(node, memory)
    assert found.outcome is Outcome.UNPROVEN
    assert "does not prove its history" in found.detail
    assert signed_height(memory) == 5


def compare(node: Node, peer: Node, memory: Memory) -> Sighting:
    return asyncio.run(Watch(node, parse_genesis(node.chain.genesis), memory).compare(peer))


@pytest.mark.parametrize("seen", [3, 6, 9])
def test_a_peer_that_has_seen_the_same_history_agrees_whether_behind_or_ahead(
    chain: ProofChain, memory: Memory, seen: int
) -> None:
    node = Node(chain, 6)
    look(node, memory)
    node.head = 9
    told = f"http://peer has seen block {seen}, too"
    assert compare(node, Peer(chain, seen), memory) == Sighting(Outcome.SAME, told)


@pytest.mark.parametrize("seen", [3, 6, 9])
def test_a_peer_that_was_shown_another_history_raises_the_alarm_whichever_the_node_shows(
    chain: ProofChain, memory: Memory, seen: int
) -> None:
    look(Node(chain, 6), memory)
    forked = forked_network()
    assert compare(Node(forked, 9), Peer(forked, seen), memory).outcome.is_alarm
    assert compare(Node(chain, 9), Peer(forked, seen), memory).outcome.is_alarm


@pytest.mark.parametrize("head", [6, 9])
def test_a_rewritten_history_is_kept_as_evidence(chain: ProofChain, memory: Memory, head: int) -> None:
    look(Node(chain, 6), memory)
    assert look(Node(forked_network(), head), memory).outcome is Outcome.CONTRADICTED
    [kept] = memory.evidence()
    evidence = read_evidence(kept.read_bytes())
    assert evidence is not None
    assert check_evidence(evidence, Trust(parse_genesis(chain.genesis))).first.block.header.height == 6


def test_a_second_witness_in_the_same_directory_is_refused(memory: Memory, chain: ProofChain, tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="is in use"):
        Memory(tmp_path / "witness", parse_genesis(chain.genesis))
    memory.close()
    Memory(tmp_path / "witness", parse_genesis(chain.genesis)).close()


def test_a_node_that_is_away_is_no_alarm(chain: ProofChain, memory: Memory) -> None:
    node = Node(chain, 5)
    node.is_away = True
    found = look(node, memory)
    assert found == Sighting(Outcome.AWAY, "http://node: nobody answers")
    assert not found.outcome.is_alarm
