"""A witness and nodes that lie to it: it signs only what a proof appends to the last block that it signed."""

import asyncio
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cairn.cli.witness.memory import Memory
from cairn.cli.witness.watching import Outcome, Sighting, Watch
from cairn.client.errors import NodeUnreachable
from cairn.domain.genesis import parse_genesis
from tests.support.proof_chain import ProofChain, encode
from tests.support.proven import toy_network

Json = dict[str, Any]


class Node:
    """Shows the blocks of a chain up to one of them."""

    url = "http://node"

    def __init__(self, chain: ProofChain, head: int) -> None:
        self.chain = chain
        self.head = head
        self.alter: Callable[[str, Json], Json] = lambda path, file: file
        self.is_away = False

    async def fetch(self, path: str, query: dict[str, int] | None = None) -> bytes:
        if self.is_away:
            raise NodeUnreachable("nobody answers", was_sent=False)
        asked = query or {"from": 0, "to": self.head}
        if path == "/history/proof":
            file = self.chain.history(asked["from"], asked["to"], self.head)
        else:
            height = self.head if path == "/finality" else int(path.split("/")[2])
            file = self.chain.finality(height, self.head)
        return encode(self.alter(path, copy.deepcopy(file)))


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
    again = Memory(tmp_path / "witness", parse_genesis(chain.genesis))
    assert signed_height(again) == 9
    assert again.head == memory.head


def test_a_node_that_shows_less_is_behind_and_nothing_is_forgotten(chain: ProofChain, memory: Memory) -> None:
    node = Node(chain, 9)
    look(node, memory)
    node.head = 5
    assert look(node, memory).outcome is Outcome.BEHIND
    assert signed_height(memory) == 9


def test_a_node_that_has_pruned_the_last_block_still_proves_that_it_appends(chain: ProofChain, memory: Memory) -> None:
    node = Node(chain, 4)
    look(node, memory)
    node.head = 9
    oldest = chain.history(0, 9, 9)["first"]
    # Asked for no block in particular, it gives one that it has.
    node.alter = lambda path, file: file if file["first"] == oldest else file | {"first": "0x"}
    assert look(node, memory).outcome is Outcome.SIGNED


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


def test_a_node_that_is_away_is_no_alarm(chain: ProofChain, memory: Memory) -> None:
    node = Node(chain, 5)
    node.is_away = True
    found = look(node, memory)
    assert found == Sighting(Outcome.AWAY, "http://node: nobody answers")
    assert not found.outcome.is_alarm
