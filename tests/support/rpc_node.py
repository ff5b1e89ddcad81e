"""JSON-RPC to a node in process."""

from typing import Any

from cairn.domain.transactions import encode_tx
from cairn.domain.types import Tx
from tests.support.core_fixtures import ACCOUNTS, CHAIN_ID, GWEI, signed
from tests.support.rest_node import RestNode, hash_of

NOBODY = "0x" + "aa" * 20
SENDER, RECIPIENT = "0x" + ACCOUNTS[0].hex(), "0x" + ACCOUNTS[1].hex()
FULL = 10_000 * 10**18
"""What each account has at first."""
FEE = 21_000 * GWEI


async def answer_of(node: RestNode, method: str, *params: object) -> Any:
    """The whole answer to one call."""
    response = await node.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}, "/rpc")
    assert response.status_code == 200, response.text
    answer = response.json()
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", 1)
    return answer


async def call(node: RestNode, method: str, *params: object) -> Any:
    answer = await answer_of(node, method, *params)
    assert "error" not in answer, answer
    return answer["result"]


async def refusal(node: RestNode, method: str, *params: object) -> tuple[int, str]:
    """Code and message of the error."""
    answer = await answer_of(node, method, *params)
    assert "result" not in answer, answer
    return answer["error"]["code"], answer["error"]["message"]


def raw(tx: Tx) -> str:
    """As `eth_sendRawTransaction` takes it."""
    return "0x" + encode_tx(tx, CHAIN_ID).hex()


async def send(node: RestNode, nonce: int, **fields: Any) -> str:
    """Submit a transfer; returns its hash."""
    tx_hash: str = await call(node, "eth_sendRawTransaction", raw(signed(nonce, **fields)))
    assert tx_hash == hash_of(signed(nonce, **fields))
    return tx_hash
