"""Every method, by name: the table that the dispatcher serves."""

from cairn.api.chain_view import ChainView
from cairn.api.rpc.account_methods import StateMethods
from cairn.api.rpc.block_methods import ReadingMethods
from cairn.api.rpc.block_tags import RpcChain
from cairn.api.rpc.dev_methods import DevMethods
from cairn.api.rpc.dispatch import Handler
from cairn.api.rpc.errors import METHOD_NOT_FOUND, RpcError
from cairn.api.rpc.fee_methods import FeeMethods
from cairn.api.rpc.filter_methods import FilterMethods
from cairn.api.rpc.node_methods import NamingMethods
from cairn.api.rpc.raw_methods import RawMethods
from cairn.api.rpc.send_methods import SendingMethods
from cairn.api.rpc.signing_methods import SigningMethods
from cairn.api.rpc.simulation_methods import SimulationMethods
from cairn.api.rpc.txpool_methods import TxpoolMethods
from cairn.api.rpc.values import Params
from cairn.api.submitter import Submitter
from cairn.core.gateway import CoreGateway


def make_methods(gateway: CoreGateway, view: ChainView) -> dict[str, Handler]:
    chain = RpcChain(gateway, view)
    reading = ReadingMethods(chain)
    groups = (
        NamingMethods(chain),
        StateMethods(chain),
        FeeMethods(chain),
        reading,
        RawMethods(chain, reading),
        SendingMethods(chain, Submitter(gateway, view), reading),
        SigningMethods(chain),
        SimulationMethods(chain),
        FilterMethods(chain),
        TxpoolMethods(chain),
        DevMethods(chain),
    )
    by_name = {name: handler for group in groups for name, handler in group.methods().items()}
    return by_name | {"eth_subscribe": need_socket, "eth_unsubscribe": need_socket}


async def need_socket(params: Params) -> object:
    """What a call over HTTP gets; a socket has these of its own."""
    raise RpcError(METHOD_NOT_FOUND, "notifications not supported")
