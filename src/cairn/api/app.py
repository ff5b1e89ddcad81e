"""The ASGI application: every route of the public interface."""

import time
from typing import NamedTuple

from starlette.types import ASGIApp

from cairn.api.chain_view import ChainView
from cairn.api.description.openapi import encode_openapi
from cairn.api.description.pages import Explorer, Pages
from cairn.api.events.hub import EventHub
from cairn.api.events.socket import EventsEndpoint, EventsOverHttp
from cairn.api.hot_routes import HotRoutes
from cairn.api.next_nonces import NextNonces
from cairn.api.rest.accounts import Accounts
from cairn.api.rest.lookups import Lookups
from cairn.api.rest.probes import Probes
from cairn.api.rest.proofs import Proofs
from cairn.api.rest.submissions import Faucet, Submissions, Submitter
from cairn.api.rest.validators import ValidatorRoutes
from cairn.api.routing import PathRouter
from cairn.api.rpc.dispatch import Dispatcher
from cairn.api.rpc.endpoints import RpcEndpoint, RpcSocketEndpoint
from cairn.api.rpc.methods import make_methods
from cairn.api.server.access import HostList, OriginList, RateLimiter
from cairn.api.server.middleware import EVENTS_PATH, RPC_PATH, Edge
from cairn.config import Settings
from cairn.core.gateway import CoreGateway


class Api(NamedTuple):
    """What serves the requests of a worker."""

    app: Edge
    hot: HotRoutes


def make_api(
    gateway: CoreGateway, view: ChainView, hub: EventHub, settings: Settings, server_adds_chain_id: bool = False
) -> Api:
    limiter, shares = RateLimiter(settings, time.monotonic), hub.shares
    # The node of a dev chain holds keys.
    hosts, origins = (
        HostList(settings),
        OriginList(settings, lambda: view.info is not None and bool(view.info.signs_for)),
    )
    nonces = NextNonces(gateway, view)
    calls = Dispatcher(make_methods(gateway, view, nonces), view.fail, shares)
    sockets: dict[str, ASGIApp] = {
        EVENTS_PATH: EventsEndpoint(gateway, hub, origins, settings),
        RPC_PATH: RpcSocketEndpoint(calls, gateway, view, hub, limiter, origins, settings),
    }
    router = PathRouter([*make_handlers(gateway, view, nonces, calls, limiter, settings), EventsOverHttp()], sockets)
    app = Edge(router, view, hosts, origins, limiter, shares, server_adds_chain_id)
    hot = HotRoutes(view, nonces, Submitter(gateway, view), calls, hosts, origins, limiter, shares, settings)
    return Api(app, hot)


def make_handlers(
    gateway: CoreGateway,
    view: ChainView,
    nonces: NextNonces,
    calls: Dispatcher,
    limiter: RateLimiter,
    settings: Settings,
) -> list[object]:
    """Objects whose methods are the operations of the OpenAPI document."""
    lookups = Lookups(gateway, view)
    return [
        Probes(gateway, view),
        Submissions(Submitter(gateway, view), limiter, settings),
        lookups,
        Accounts(nonces, view),
        Proofs(gateway, view, lookups),
        ValidatorRoutes(gateway),
        Faucet(gateway, view),
        RpcEndpoint(calls, limiter, settings),
        Pages(view, encode_openapi),
        Explorer(settings.explorer),
    ]
