"""A whole node in one process: a real core on a real directory, a reader beside it, the API without a socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from cairn.api.app import make_api
from cairn.api.chain_view import ChainView
from cairn.api.events.hub import EventHub
from cairn.config import Settings
from cairn.core.service import Core
from cairn.domain.genesis import Genesis, dev_genesis, encode_genesis
from cairn.domain.types import SealedBlock, Tx
from tests.support.core_fixtures import make_block, opened_core, settings


class RestNode:
    """What a worker has, with the core within reach so that a test can make blocks."""

    def __init__(self, core: Core, view: ChainView, node_settings: Settings) -> None:
        self.core = core
        self.view = view
        self.app = make_api(core, view, EventHub(view, node_settings), node_settings).app
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://localhost")

    def mine(self) -> int:
        """Make one block now. Returns its height."""
        return make_block(self.core)

    def mine_after_pruning(self, base: int) -> None:
        """Remove the blocks below `base` and make one, after which the worker knows of it."""
        self.core._chain.prune(base, lambda: None)
        self.mine()
        # It was sent the block itself, and would look at the disk a moment later.
        self.view._advance()
        assert self.view.base == base

    async def get(self, path: str, **headers: str) -> httpx.Response:
        return await self.http.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    async def read(self, path: str) -> Any:
        """The JSON of a 200."""
        answer = await self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post(self, body: object, path: str = "/tx") -> httpx.Response:
        return await self.http.post(path, json=body)


class LateView(ChainView):
    """Hears of a commit only once somebody waits for it: later than any other worker."""

    _withheld = -1

    def on_commit(self, height: int, block: SealedBlock | None = None) -> None:
        self._withheld = height

    async def reach(self, height: int, timeout_s: float = 5.0) -> None:
        asyncio.get_running_loop().call_soon(super().on_commit, self._withheld)
        await super().reach(height, timeout_s)


@asynccontextmanager
async def rest_node(
    directory: Path, node_settings: Settings | None = None, hears_late: bool = False, genesis: Genesis | None = None
) -> AsyncIterator[RestNode]:
    chosen = node_settings or settings()
    scratch = directory / "scratch"
    data = directory / "data"
    scratch.mkdir(exist_ok=True)
    kind = LateView if hears_late else ChainView
    view = kind(scratch, genesis_file=encode_genesis(genesis or dev_genesis()))
    async with opened_core(data, chosen, view, genesis, view.board) as core:
        core.feed.subscribe_blocks(view.on_commit)
        view.on_info(core.info())
        ChainView.on_commit(view, core.head)
        view.on_phase("ready", "")
        node = RestNode(core, view, chosen)
        try:
            yield node
        finally:
            await node.http.aclose()
            view.close()


def body_of(tx: Tx) -> dict[str, Any]:
    """The submission of a signed legacy transaction, as a client writes it."""
    data = {"data": "0x" + tx.data.hex()} if tx.data else {}
    return data | {
        "from": "0x" + tx.sender.hex(),
        "to": "0x" + tx.to.hex(),
        "value": tx.value,
        "nonce": tx.nonce,
        "gas": tx.gas,
        "gasPrice": tx.gas_price,
        "signature": "0x" + tx.signature.hex(),
    }


def without(body: dict[str, Any], *fields: str) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in fields}


def hash_of(tx: Tx) -> str:
    return "0x" + tx.hash.hex()
