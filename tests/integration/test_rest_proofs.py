"""The files that prove what the chain holds, from a whole node in process; each is checked from genesis alone."""

from cairn.domain.crypto import keccak256
from cairn.domain.genesis import dev_genesis, encode_genesis, genesis_digest
from tests.support.described import assert_described
from tests.support.rest_node import RestNode


async def test_genesis_is_the_file_that_init_writes_and_is_tagged_with_its_digest(node: RestNode) -> None:
    answer = await node.get("/genesis")
    assert_described(answer)
    assert answer.status_code == 200
    assert answer.content == encode_genesis(dev_genesis())
    assert keccak256(answer.content) == genesis_digest(dev_genesis())
    assert answer.headers["etag"] == f'"0x{genesis_digest(dev_genesis()).hex()}"'
    assert (await node.get("/genesis", if_none_match=answer.headers["etag"])).status_code == 304
