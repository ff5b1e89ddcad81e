"""Every method, by name: the table that the dispatcher serves."""

from typing import Protocol

from cairn.api.chain_view import ChainView
from cairn.api.rpc.account_methods import StateMethods
from cairn.api.rpc.block_methods import ReadingMethods
from cairn.api.rpc.block_tags import RpcChain
from cairn.api.rpc.dev_methods import DevMethods
from cairn.api.rpc.dispatch import Handler, Method, Params, handler_of
from cairn.api.rpc.errors import METHOD_NOT_FOUND, MethodNotFound, RpcError
from cairn.api.rpc.fee_methods import FeeMethods
from cairn.api.rpc.filter_methods import FilterMethods
from cairn.api.rpc.node_methods import NamingMethods
from cairn.api.rpc.raw_methods import RawMethods
from cairn.api.rpc.send_methods import SendingMethods
from cairn.api.rpc.signing_methods import SigningMethods
from cairn.api.rpc.simulation_methods import SimulationMethods
from cairn.api.rpc.txpool_methods import TxpoolMethods
from cairn.api.submitter import Submitter
from cairn.core.gateway import CoreGateway


class MethodGroup(Protocol):
    def methods(self) -> dict[str, Method]: ...


def make_methods(gateway: CoreGateway, view: ChainView) -> dict[str, Handler]:
    chain = RpcChain(gateway, view)
    reading = ReadingMethods(chain)
    everywhere = handlers_of(
        NamingMethods(chain),
        StateMethods(chain),
        FeeMethods(chain),
        reading,
        RawMethods(chain, reading),
        SendingMethods(chain, Submitter(gateway, view), reading),
        FilterMethods(chain),
        SimulationMethods(chain),
        TxpoolMethods(chain),
    )
    on_dev_chains = handlers_of(SigningMethods(chain), DevMethods(chain))
    guarded = {name: guard(name, handler, chain) for name, handler in on_dev_chains.items()}
    return everywhere | guarded | {"eth_subscribe": need_socket, "eth_unsubscribe": need_socket}


def handlers_of(*groups: MethodGroup) -> dict[str, Handler]:
    return {name: handler_of(method) for group in groups for name, method in group.methods().items()}


def guard(name: str, handler: Handler, chain: RpcChain) -> Handler:
    """The same method, for dev chains only: on any other chain it does not exist."""

    async def guarded(params: Params) -> object:
        if not chain.info.signs_for:
            raise MethodNotFound(name)
        return await handler(params)

    return guarded


async def need_socket(params: Params) -> object:
    """The answer over HTTP. On a WebSocket, `Subscriptions` has these methods."""
    raise RpcError(METHOD_NOT_FOUND, "notifications not supported")
