"""Every method, by name: the table that the dispatcher serves."""

from functools import partial

from cairn.api.chain_view import ChainView
from cairn.api.next_nonces import NextNonces
from cairn.api.rest.submissions import Submitter
from cairn.api.rpc.account_methods import AccountMethods, FeeMethods
from cairn.api.rpc.block_methods import BlockMethods
from cairn.api.rpc.caller import current_caller
from cairn.api.rpc.dev_methods import DevMethods
from cairn.api.rpc.dispatch import Handler, Later, Params, handlers_of
from cairn.api.rpc.filter_methods import FilterMethods
from cairn.api.rpc.node_methods import NodeMethods
from cairn.api.rpc.rpc_chain import RpcChain
from cairn.api.rpc.simulation_methods import SimulationMethods
from cairn.api.rpc.transaction_methods import SendingMethods, SigningMethods
from cairn.api.rpc.txpool_methods import TxpoolMethods
from cairn.api.rpc.values import METHOD_NOT_FOUND, MethodNotFound, RpcError
from cairn.api.server.access import check_no_guest
from cairn.core.gateway import CoreGateway

BY_NODE = "eth_sendTransaction"
"""The node signs what it submits. On other chains it is refused for want of a key."""


def make_methods(gateway: CoreGateway, view: ChainView, nonces: NextNonces | None = None) -> dict[str, Handler]:
    """`nonces` are those that REST uses, too."""
    chain = RpcChain(gateway, view, nonces or NextNonces(gateway, view))
    blocks = BlockMethods(chain)
    everywhere = handlers_of(
        NodeMethods(chain),
        AccountMethods(chain),
        FeeMethods(chain),
        blocks,
        SendingMethods(chain, Submitter(gateway, view), blocks),
        FilterMethods(chain),
        SimulationMethods(chain),
        TxpoolMethods(chain),
    )
    everywhere[BY_NODE] = refuse_guests(BY_NODE, everywhere[BY_NODE])
    on_dev_chains = handlers_of(SigningMethods(chain), DevMethods(chain))
    guarded = {name: guard(name, handler, chain) for name, handler in on_dev_chains.items()}
    return everywhere | guarded | {"eth_subscribe": need_socket, "eth_unsubscribe": need_socket}


def guard(name: str, handler: Handler, chain: RpcChain) -> Handler:
    """Restrict a method to dev chains: on any other chain it does not exist."""
    handler = refuse_guests(name, handler)

    def guarded(params: Params) -> object:
        if not chain.info.signs_for:
            raise MethodNotFound(name)
        return handler(params)

    return guarded


def refuse_guests(name: str, handler: Handler) -> Handler:
    """Close a method that uses the keys or the controls of the node to pages of other origins."""

    async def refusing(params: Params) -> object:
        check_no_guest(current_caller.get().guest, f"call {name}")
        begun = handler(params)
        return await begun() if isinstance(begun, Later) else begun

    return partial(Later, refusing)


def need_socket(params: Params) -> object:
    """The answer over HTTP. On a WebSocket, `Subscriptions` has these methods."""
    raise RpcError(METHOD_NOT_FOUND, "notifications not supported")
