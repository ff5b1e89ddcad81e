"""Messages for JSON-RPC as a careless or hostile program may write them."""

from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from cairn.api.chain_view import ChainView
from cairn.api.rpc.methods import make_methods
from tests.support.core_fixtures import ACCOUNTS, signed
from tests.support.rest_node import hash_of
from tests.support.rpc_node import raw
from tests.support.scripted_gateway import ScriptedGateway

METHODS = sorted(
    # What makes blocks or goes back is tested where it is meant to happen.
    name
    for name in make_methods(ScriptedGateway(), ChainView(Path("unused")))
    if name.split("_")[0] in ("eth", "net", "web3", "txpool")
)
READING = [
    name
    for name in METHODS
    if not name.startswith(("eth_send", "eth_new", "eth_getFilter", "eth_uninstall", "eth_sign"))
]
"""Those that change nothing, and whose answers depend on nothing but the chain and the mempool."""
SENDER = "0x" + ACCOUNTS[0].hex()

hex_digits = st.text("0123456789abcdefABCDEF", max_size=70)
telling = st.sampled_from(
    [
        SENDER,
        "latest",
        "pending",
        "earliest",
        "0x0",
        "0x1",
        "0x01",
        hash_of(signed(0, data=b"\0")),
        raw(signed(1)),
        raw(signed(1, data=b"invoice 4711")),
        "0x" + "00" * 32,
    ]
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | telling
    | hex_digits.map("0x".__add__)
)
FIELDS = [
    "from",
    "to",
    "value",
    "gas",
    "gasPrice",
    "nonce",
    "data",
    "input",
    "type",
    "chainId",
    "blockNumber",
    "blockHash",
    "toBlock",
    "blockStateCalls",
    "calls",
    "stateOverrides",
    "blockOverrides",
    "baseFeePerGas",
]
names = st.sampled_from(FIELDS) | st.text(max_size=5)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=6),
    max_leaves=10,
)


def messages_of(methods: list[str]) -> st.SearchStrategy[Any]:
    """A call, a batch, or something else."""
    calls = st.fixed_dictionaries(
        {"jsonrpc": st.just("2.0"), "method": st.sampled_from(methods), "params": st.lists(values, max_size=4)},
        optional={"id": scalars},
    )
    return calls | st.lists(calls | values, max_size=5) | values
