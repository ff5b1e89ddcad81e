"""Proof files of a node in process, checked from its genesis.json alone."""

from typing import TypeVar

from cairn.domain.genesis import parse_genesis
from cairn.domain.proof_checks import Trust
from cairn.domain.proof_files import read_file
from cairn.domain.statement_checks import check_file
from tests.support.described import assert_described
from tests.support.rest_node import RestNode

_P = TypeVar("_P")


async def proven(node: RestNode, path: str, kind: type[_P]) -> _P:
    """What the file at `path` proves."""
    genesis, answer = await node.get("/genesis"), await node.get(path)
    assert answer.status_code == 200, answer.text
    assert_described(answer)
    found = check_file(read_file(answer.content), Trust(parse_genesis(genesis.content)))
    assert isinstance(found, kind)
    return found
