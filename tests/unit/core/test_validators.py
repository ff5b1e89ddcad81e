"""The validators of a chain, and updates of them: checked against the chain, then passed to CometBFT."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from cairn.core.service import Core
from cairn.domain.errors import EngineUnavailable, InvalidSignature, NotFound, UpdateRefused
from cairn.domain.genesis import DEV_KEYS, Genesis, chain_identity, dev_genesis
from cairn.domain.governance import Admins, Before, ValidatorRecord, ValidatorUpdate
from cairn.domain.updates import sign_update
from tests.support.core_fixtures import opened_core
from tests.support.member_core import opened_member

NOBODY = "unix:///nobody/listens"
FIRST = ValidatorRecord(b"\x01" * 32, 10, DEV_KEYS[0][0], "first")
ADMINS = Admins(2, tuple(key[0] for key in DEV_KEYS[:3]))
SECOND = ValidatorRecord(b"\x02" * 32, 10, DEV_KEYS[1][0], "second")


def network_genesis(admins: Admins | None) -> Genesis:
    return msgspec.structs.replace(dev_genesis(), signer=None, validators=(FIRST,), admins=admins)


@asynccontextmanager
async def opened(directory: Path, admins: Admins | None = ADMINS, rpc: str = NOBODY) -> AsyncIterator[Core]:
    async with opened_member(directory, genesis=network_genesis(admins), cometbft_rpc=rpc) as core:
        yield core


def signed(sequence: int, *signers: int) -> ValidatorUpdate:
    unsigned = ValidatorUpdate(sequence, SECOND, Before(0, FIRST.power, 1, 0))
    return sign_update(unsigned, [DEV_KEYS[signer][1] for signer in signers], chain_identity(network_genesis(ADMINS)))


async def test_the_validators_are_those_of_the_newest_block(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as core:
        current = await core.validators()
        assert (current.chain, current.height) == (chain_identity(network_genesis(ADMINS)), 0)
        assert current.governance.sequence == 0
        assert current.governance.validators == (FIRST,)


async def test_a_chain_without_validators_has_none_to_show_or_change(tmp_path: Path) -> None:
    async with opened_member(tmp_path / "network") as member, opened_core(tmp_path / "alone") as alone:
        for core in (member, alone):
            with pytest.raises(NotFound, match="this chain has no validators"):
                await core.validators()
            with pytest.raises(NotFound, match="this chain has no validators"):
                await core.submit_update(signed(0, 0, 1))


async def test_a_chain_without_administrators_never_changes(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", admins=None) as core:
        with pytest.raises(UpdateRefused, match="never change"):
            await core.submit_update(signed(0, 0, 1))


async def test_an_update_that_a_block_would_refuse_is_refused_at_once(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as core:
        with pytest.raises(UpdateRefused, match="1 of 2 required administrators have signed"):
            await core.submit_update(signed(0, 0))
        with pytest.raises(UpdateRefused, match="its sequence is 1; the next one is 0"):
            await core.submit_update(signed(1, 0, 1))
        with pytest.raises(InvalidSignature, match="is no administrator of this chain"):
            await core.submit_update(signed(0, 0, 5))


async def test_an_update_is_unavailable_while_cometbft_does_not_answer(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as core:
        with pytest.raises(EngineUnavailable, match="CometBFT does not answer"):
            await core.submit_update(signed(0, 0, 1))


async def submit_to(directory: Path, answer: bytes) -> None:
    """Submit an update to a node whose CometBFT gives this answer."""
    path = directory / "rpc.sock"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65_536)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer))
        await writer.drain()
        writer.close()

    async with await asyncio.start_unix_server(serve, path), opened(directory / "data", rpc=f"unix://{path}") as core:
        await core.submit_update(signed(0, 0, 1))


@pytest.mark.parametrize(
    "answer",
    [
        b'{"jsonrpc":"2.0","id":1,"result":{"code":0}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"data":"tx already exists in cache"}}',
    ],
)
async def test_an_update_that_cometbft_takes_or_has_already_is_submitted(tmp_path: Path, answer: bytes) -> None:
    await submit_to(tmp_path, answer)


async def test_an_update_that_cometbft_refuses_is_not_submitted(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable, match="CometBFT does not take it: .*mempool is full"):
        await submit_to(tmp_path, b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"data":"mempool is full"}}')
