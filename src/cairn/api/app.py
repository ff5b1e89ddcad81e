"""The ASGI application: every route of the public interface, in one table."""

import time

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router, WebSocketRoute

from cairn.api.chain_json import submitted_json
from cairn.api.chain_view import ChainView
from cairn.api.description.explorer_files import Explorer
from cairn.api.description.pages import Pages
from cairn.api.errors import UpgradeRequired
from cairn.api.events.hub import EventHub
from cairn.api.events.socket import EventsEndpoint
from cairn.api.rest.bodies import read_json_body
from cairn.api.rest.faucet import Faucet
from cairn.api.rest.lookups import Lookups, encoded, json_response
from cairn.api.rest.probes import Probes
from cairn.api.rest.validators import ValidatorRoutes
from cairn.api.rpc.dispatch import Dispatcher
from cairn.api.rpc.endpoint import RpcEndpoint
from cairn.api.rpc.methods import make_methods
from cairn.api.rpc.websocket import RpcSocketEndpoint
from cairn.api.server.access import HostList, OriginList, RateLimiter
from cairn.api.server.middleware import EVENTS_PATH, RPC_PATH, Edge
from cairn.api.submitter import Submitter
from cairn.config import Settings
from cairn.core.gateway import CoreGateway


def make_app(
    gateway: CoreGateway, view: ChainView, hub: EventHub, settings: Settings, server_adds_chain_id: bool = False
) -> Edge:
    limiter = RateLimiter(settings, time.monotonic)
    # A path with a slash too many names nothing: no redirect to a guess.
    router = Router(routes(gateway, view, hub, limiter, settings), redirect_slashes=False)
    return Edge(
        router,
        view,
        hosts=HostList(settings),
        origins=OriginList(settings),
        limiter=limiter,
        server_adds_chain_id=server_adds_chain_id,
    )


def routes(
    gateway: CoreGateway, view: ChainView, hub: EventHub, limiter: RateLimiter, settings: Settings
) -> list[BaseRoute]:
    probes, reads, pages = Probes(gateway, view), Lookups(gateway, view), Pages(view)
    validators, explorer = ValidatorRoutes(gateway), Explorer(settings.explorer)
    submissions = Submissions(Submitter(gateway, view), settings)
    rpc_methods = make_methods(gateway, view)
    rpc = RpcEndpoint(Dispatcher(rpc_methods, view.fail), limiter, settings)
    return [
        Route("/health", probes.health),
        Route("/startup", probes.startup),
        Route("/ready", probes.ready),
        Route("/tx", submissions.post_tx, methods=["POST"]),
        Route("/txs", submissions.post_txs, methods=["POST"]),
        Route("/tx/{hash}", reads.get_tx),
        Route("/tx/{hash}/proof", reads.get_proof),
        Route("/mempool", reads.list_mempool),
        Route("/block/{hash}", reads.get_block),
        Route("/blocks", reads.list_blocks),
        Route("/chain", reads.get_chain),
        Route("/account/{address}", reads.get_account),
        Route("/account/{address}/txs", reads.list_account_txs),
        Route("/validators", validators.serve, methods=["GET", "POST"]),
        Route("/faucet", Faucet(gateway, view).post, methods=["POST"]),
        Route(RPC_PATH, rpc.post, methods=["POST"]),
        Route("/openapi.json", pages.openapi),
        Route("/asyncapi.json", pages.asyncapi),
        Route("/docs", pages.docs),
        Route("/docs/{asset}", pages.asset),
        Route("/", explorer.page),
        Route("/explorer/{asset}", explorer.asset),
        Route("/explorer/views/{asset}", explorer.view_asset),
        WebSocketRoute(EVENTS_PATH, EventsEndpoint(gateway, hub, settings)),
        Route(EVENTS_PATH, say_websocket, include_in_schema=False),
        WebSocketRoute(RPC_PATH, RpcSocketEndpoint(rpc_methods, gateway, view, hub, limiter, settings)),
    ]


class Submissions:
    """POST /tx and POST /txs."""

    def __init__(self, intake: Submitter, settings: Settings) -> None:
        self._intake = intake
        self._settings = settings

    async def post_tx(self, request: Request) -> Response:
        admission = await self._intake.admit(await read_json_body(request, self._settings.max_body_bytes))
        return json_response(submitted_json(admission.tx_hash, admission.confirmed))

    async def post_txs(self, request: Request) -> Response:
        body = await read_json_body(request, self._settings.max_batch_body_bytes)
        return encoded(await self._intake.admit_batch(body))


async def say_websocket(request: Request) -> Response:
    raise UpgradeRequired("connect with a WebSocket client; /asyncapi.json describes the messages")
