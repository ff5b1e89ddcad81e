"""A core whose blocks come from the real CometBFT: one validator, the core in this process."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cairn.core.gateway import ConfirmedTx
from cairn.core.service import Core
from cairn.domain.genesis import Genesis, dev_genesis, encode_genesis
from tests.support.cometbft import FAST, CometBFT
from tests.support.core_fixtures import ACCOUNTS, KEYS, settings, signed

PATIENCE_S = 30.0


class Validator:
    """One home with everything that survives a restart."""

    def __init__(self, home: Path, genesis: Genesis) -> None:
        self.home = home
        self.genesis = genesis
        self.abci_socket = home / "abci.sock"
        self.comet = CometBFT(home, self.abci_socket)
        self.comet.init(FAST | {"consensus.create_empty_blocks_interval": "1s"})
        path = home / "config" / "genesis.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"app_state": json.loads(encode_genesis(genesis))}))
        self.announced: list[int] = []

    @asynccontextmanager
    async def core(self, **changes: object) -> AsyncIterator[Core]:
        chosen = settings(engine="cometbft", cometbft_rpc=f"unix://{self.home}/rpc.sock", **changes)
        core = Core.open(self.genesis, self.home / "node", chosen, KEYS, self.abci_socket)
        core.feed.subscribe(self.announced.append)
        core.start()
        try:
            await until(self.abci_socket.exists, "the core to listen")
            yield core
        finally:
            await core.stop()

    @asynccontextmanager
    async def running(self, **changes: object) -> AsyncIterator[Core]:
        async with self.core(**changes) as core:
            self.comet.start()
            try:
                yield core
            finally:
                await asyncio.to_thread(self.comet.end)


async def until(condition: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    async def poll() -> None:
        while not condition():
            await asyncio.sleep(0.02)

    try:
        await asyncio.wait_for(poll(), patience_s)
    except TimeoutError:
        raise AssertionError(f"waited {patience_s} s for {what}") from None


@pytest.fixture
def validator(cometbft_tools: Path) -> Iterator[Validator]:
    # Not pytest's own directory: its path is too long for a unix socket.
    with tempfile.TemporaryDirectory(prefix="cairn-") as directory:
        made = Validator(Path(directory), dev_genesis())
        try:
            yield made
        finally:
            made.comet.end()


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario()

    asyncio.run(main())


async def confirmed(core: Core, nonces: int, sender: int = 0) -> None:
    await until(lambda: core._chain.account(ACCOUNTS[sender]).nonce == nonces, f"{nonces} transactions to be confirmed")


def test_what_is_submitted_is_confirmed_in_blocks_of_cometbft(validator: Validator) -> None:
    async def scenario() -> None:
        async with validator.running() as core:
            # A gap first: it waits with us, and CometBFT never hears of it until it is closed.
            for nonce in (5, 4, 3, 2, 1, 0):
                await core.submit(signed(nonce))
            await confirmed(core, 6)
            for nonce in range(6):
                assert isinstance(await core.find_tx(signed(nonce).hash), ConfirmedTx)
            status = await core.status()
            assert (status.pending, status.queued) == (0, 0)
            await until(lambda: core.engine.condition() == "ok", "CometBFT to be well")
            assert (await core.check()).mempool == "ok"
            assert core.info().engine == "cometbft"
            assert validator.announced == list(range(1, core.head + 1))
            core._chain.audit()

    run(scenario)
