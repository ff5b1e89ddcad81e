"""The ASGI application: every route of the public interface."""

import time
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from cairn.api.chain_view import ChainView
from cairn.api.description.explorer_files import Explorer
from cairn.api.description.openapi import encode_openapi
from cairn.api.description.pages import Pages
from cairn.api.events.hub import EventHub
from cairn.api.events.socket import EventsEndpoint
from cairn.api.hot_routes import HotRoutes
from cairn.api.rest.faucet import Faucet
from cairn.api.rest.lookups import Lookups
from cairn.api.rest.operation import make_routes
from cairn.api.rest.probes import Probes
from cairn.api.rest.submit import Submissions
from cairn.api.rest.validators import ValidatorRoutes
from cairn.api.routing import PathRouter
from cairn.api.rpc.dispatch import Dispatcher
from cairn.api.rpc.endpoints import RpcEndpoint, RpcSocketEndpoint
from cairn.api.rpc.methods import make_methods
from cairn.api.server.access import HostList, OriginList, RateLimiter
from cairn.api.server.middleware import EVENTS_PATH, RPC_PATH, Edge
from cairn.api.submitter import Submitter
from cairn.config import Settings
from cairn.core.gateway import CoreGateway
from cairn.domain.errors import UpgradeRequired


class Api(NamedTuple):
    """What serves the requests of a worker."""

    app: Edge
    hot: HotRoutes


def make_api(
    gateway: CoreGateway, view: ChainView, hub: EventHub, settings: Settings, server_adds_chain_id: bool = False
) -> Api:
    limiter, shares = RateLimiter(settings, time.monotonic), hub.shares
    hosts, origins = HostList(settings), OriginList(settings)
    calls = Dispatcher(make_methods(gateway, view), view.fail, shares)
    router = PathRouter(routes(gateway, view, hub, calls, limiter, settings))
    app = Edge(router, view, hosts, origins, limiter, shares, server_adds_chain_id)
    return Api(app, HotRoutes(view, Submitter(gateway, view), calls, hosts, origins, limiter, shares, settings))


def make_app(gateway: CoreGateway, view: ChainView, hub: EventHub, settings: Settings) -> Edge:
    """The application without a server of ours."""
    return make_api(gateway, view, hub, settings).app


def routes(
    gateway: CoreGateway, view: ChainView, hub: EventHub, calls: Dispatcher, limiter: RateLimiter, settings: Settings
) -> list[BaseRoute]:
    probes, reads, pages = Probes(gateway, view), Lookups(gateway, view), Pages(view, encode_openapi)
    validators, faucet, explorer = ValidatorRoutes(gateway), Faucet(gateway, view), Explorer(settings.explorer)
    submissions = Submissions(Submitter(gateway, view), limiter, settings)
    rpc = RpcEndpoint(calls, limiter, settings)
    return [
        *make_routes(probes, submissions, reads, validators, faucet, rpc, pages, explorer),
        WebSocketRoute(EVENTS_PATH, EventsEndpoint(gateway, hub, settings)),
        Route(EVENTS_PATH, say_websocket, include_in_schema=False),
        WebSocketRoute(RPC_PATH, RpcSocketEndpoint(calls, gateway, view, hub, limiter, settings)),
    ]


async def say_websocket(request: Request) -> Response:
    raise UpgradeRequired("connect with a WebSocket client; /asyncapi.json describes the messages")
