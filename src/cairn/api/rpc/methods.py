"""Every method, by name: the table that the dispatcher serves."""

from cairn.api.intake import Intake
from cairn.api.rpc.chain import Chain
from cairn.api.rpc.dev import DevMethods
from cairn.api.rpc.dispatch import Handler
from cairn.api.rpc.errors import METHOD_NOT_FOUND, RpcError
from cairn.api.rpc.fees import FeeMethods
from cairn.api.rpc.filters import FilterMethods
from cairn.api.rpc.names import NamingMethods
from cairn.api.rpc.reading import ReadingMethods
from cairn.api.rpc.sending import SendingMethods
from cairn.api.rpc.state import StateMethods
from cairn.api.rpc.txpool import TxpoolMethods
from cairn.api.rpc.values import Params
from cairn.api.view import ChainView
from cairn.core.gateway import CoreGateway


def make_methods(gateway: CoreGateway, view: ChainView) -> dict[str, Handler]:
    chain = Chain(gateway, view)
    groups = (
        NamingMethods(chain),
        StateMethods(chain),
        FeeMethods(chain),
        ReadingMethods(chain),
        SendingMethods(chain, Intake(gateway, view)),
        FilterMethods(chain),
        TxpoolMethods(chain),
        DevMethods(chain),
    )
    by_name = {name: handler for group in groups for name, handler in group.methods().items()}
    return by_name | {"eth_subscribe": need_socket, "eth_unsubscribe": need_socket}


async def need_socket(params: Params) -> object:
    """What a call over HTTP gets; a socket has these of its own."""
    raise RpcError(METHOD_NOT_FOUND, "notifications not supported")
