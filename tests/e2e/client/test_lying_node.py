"""A node that lies: each part of its answers is changed, one at a time. What claims to be verified must notice."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cairn.cli.main import app
from cairn.client import Account, AsyncClient, Client
from cairn.client.errors import ClientError, InvalidProof, UnexpectedAnswer
from tests.e2e.client.conftest import patient
from tests.support.lies import LyingServer, lies_about
from tests.support.node_process import NodeProcess
from tests.support.pace import PATIENCE_S
from tests.support.public import get_anew

PAYMENTS = 5


class Scene:
    """A block of several payments, and a server that can lie about them."""

    def __init__(self, node: NodeProcess) -> None:
        with Client(node.url, timeout_s=PATIENCE_S, silence_timeout_s=PATIENCE_S) as client:
            wallet = client.wallet(Account.dev(5))
            first = client.account(wallet.address).nonce
            signed = [wallet.sign(Account.dev(6).address, value, nonce=first + value) for value in range(PAYMENTS)]
            # The gap before them closes last, so that one block gets them all: its proofs have a path.
            client.submit_all(signed[::-1])
            confirmed = [client.wait(transfer.tx_hash, timeout_s=PATIENCE_S) for transfer in signed]
        self.server = LyingServer(node.url)
        [self.block_hash] = {tx.block_hash for tx in confirmed}
        self.tx, self.other = (tx.tx_hash for tx in confirmed[:2])
        self.block = self.server.truth(f"/block/{self.block_hash}")

    def unnoticed(self, path: str, notices: Callable[[], bool]) -> list[str]:
        """The parts of the answer to `path` about which the node can lie without anybody noticing."""
        self.server.lies = {}
        assert not notices(), "the truth is taken for a lie"
        parts = []
        for part, lie in lies_about(self.server.truth(path)):
            self.server.lie(path, lie)
            if not notices():
                parts.append(part)
        self.server.lies = {}
        return parts


@pytest.fixture(scope="module")
def scene(node: NodeProcess) -> Iterator[Scene]:
    made = Scene(node)
    yield made
    made.server.close()


def refused(server: LyingServer, use: Callable[[AsyncClient], Awaitable[Any]]) -> ClientError | None:
    async def main() -> ClientError | None:
        async with patient(server.url) as client:
            try:
                await use(client)
            except ClientError as error:
                return error
            return None

    return asyncio.run(main())


def test_a_proof_with_any_changed_part_is_refused(scene: Scene) -> None:
    async def prove(client: AsyncClient) -> None:
        (await client.proof(scene.tx)).verify(scene.tx, scene.block_hash)

    def notices() -> bool:
        error = refused(scene.server, prove)
        assert error is None or isinstance(error, InvalidProof | UnexpectedAnswer)
        return error is not None

    assert scene.unnoticed(f"/tx/{scene.tx}/proof", notices) == []


def test_a_receipt_with_any_changed_part_is_not_shown_as_proven(scene: Scene, tmp_path: Path) -> None:
    genesis = tmp_path / "genesis.json"
    genesis.write_bytes(get_anew(f"{scene.server.url}/genesis").content)

    def notices() -> bool:
        command = ["receipt", scene.tx, "--genesis", str(genesis), "--node", scene.server.url]
        result = CliRunner().invoke(app, command)
        assert ("this payment was made" in result.stdout) is (result.exit_code == 0), result.output
        return result.exit_code != 0

    assert scene.unnoticed(f"/tx/{scene.tx}/receipt", notices) == []


def test_the_answer_to_another_request_is_refused(scene: Scene) -> None:
    server, height = scene.server, scene.block["blockHeight"]
    here, there = Account.dev(5).address.lower(), Account.dev(6).address.lower()
    swaps: list[tuple[str, str, Callable[[AsyncClient], Awaitable[Any]]]] = [
        (f"/tx/{scene.tx}", f"/tx/{scene.other}", lambda client: client.transaction(scene.tx)),
        (f"/tx/{scene.tx}", f"/tx/{scene.other}", lambda client: client.wait(scene.tx)),
        (f"/block/{scene.block_hash}", "/block/0", lambda client: client.block(scene.block_hash)),
        (f"/block/{height}", "/block/0", lambda client: client.block(height)),
        (f"/account/{here}", f"/account/{there}", lambda client: client.account(here)),
    ]
    for asked, told, use in swaps:
        server.lies = {}
        assert refused(server, use) is None
        server.lie(asked, server.truth(told))
        assert isinstance(refused(server, use), UnexpectedAnswer), asked


def test_the_proof_of_another_transaction_is_refused(scene: Scene) -> None:
    async def prove(client: AsyncClient) -> None:
        (await client.proof(scene.tx)).verify(scene.tx, scene.block_hash)

    scene.server.lie(f"/tx/{scene.tx}/proof", scene.server.truth(f"/tx/{scene.other}/proof"))
    assert isinstance(refused(scene.server, prove), InvalidProof)
