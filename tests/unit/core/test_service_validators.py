"""Validator updates on their way through the core: checked against the chain, then handed to CometBFT."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from cairn.core.service import submit_update, validator_set
from cairn.domain.errors import EngineUnavailable, InvalidSignature, NotFound, UpdateRefused
from cairn.domain.genesis import DEV_KEYS, Genesis, chain_identity, dev_genesis
from cairn.domain.governance import Admins, Before, ValidatorRecord, ValidatorUpdate
from cairn.domain.updates import sign_update
from cairn.store.chain import ChainStore

NOBODY = "unix:///nobody/listens"
FIRST = ValidatorRecord(b"\x01" * 32, 10, DEV_KEYS[0][0], "first")
ADMINS = Admins(2, tuple(key[0] for key in DEV_KEYS[:3]))
SECOND = ValidatorRecord(b"\x02" * 32, 10, DEV_KEYS[1][0], "second")


def network_genesis(admins: Admins | None) -> Genesis:
    return msgspec.structs.replace(dev_genesis(), validators=(FIRST,), admins=admins)


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[ChainStore]:
    opened = ChainStore.open(tmp_path / "data", network_genesis(ADMINS))
    yield opened
    opened.close()


def signed(sequence: int, *signers: int) -> ValidatorUpdate:
    unsigned = ValidatorUpdate(sequence, SECOND, Before(0, FIRST.power, 1, 0))
    return sign_update(unsigned, [DEV_KEYS[signer][1] for signer in signers], chain_identity(network_genesis(ADMINS)))


def test_the_validators_are_those_of_the_newest_block(chain: ChainStore) -> None:
    current = validator_set(chain)
    assert (current.chain, current.height, current.governance.sequence) == (chain.identity, 0, 0)
    assert current.governance.validators == (FIRST,)


def test_a_chain_without_validators_has_none_to_show_or_change(tmp_path: Path) -> None:
    chain = ChainStore.open(tmp_path, dev_genesis())
    try:
        with pytest.raises(NotFound, match="this chain has no validators"):
            asyncio.run(submit_update(chain, signed(0, 0, 1), NOBODY))
    finally:
        chain.close()


def test_a_chain_without_administrators_never_changes(tmp_path: Path) -> None:
    chain = ChainStore.open(tmp_path, network_genesis(None))
    try:
        with pytest.raises(UpdateRefused, match="never change"):
            asyncio.run(submit_update(chain, signed(0, 0, 1), NOBODY))
    finally:
        chain.close()


def test_what_a_block_would_refuse_is_refused_at_once(chain: ChainStore) -> None:
    with pytest.raises(UpdateRefused, match="1 of 2 required administrators have signed"):
        asyncio.run(submit_update(chain, signed(0, 0), NOBODY))
    with pytest.raises(UpdateRefused, match="its sequence is 1; the next one is 0"):
        asyncio.run(submit_update(chain, signed(1, 0, 1), NOBODY))
    with pytest.raises(InvalidSignature, match="is no administrator of this chain"):
        asyncio.run(submit_update(chain, signed(0, 0, 5), NOBODY))


def test_an_engine_that_does_not_answer_is_said(chain: ChainStore) -> None:
    with pytest.raises(EngineUnavailable, match="CometBFT does not answer"):
        asyncio.run(submit_update(chain, signed(0, 0, 1), NOBODY))


@pytest.mark.parametrize(
    ("answer", "is_taken"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{"code":0}}', True),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"data":"tx already exists in cache"}}', True),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"data":"mempool is full"}}', False),
    ],
)
def test_what_the_engine_says_counts(chain: ChainStore, tmp_path: Path, answer: bytes, is_taken: bool) -> None:
    path = tmp_path / "rpc.sock"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65_536)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer))
        await writer.drain()
        writer.close()

    async def submit() -> None:
        async with await asyncio.start_unix_server(serve, path):
            await submit_update(chain, signed(0, 0, 1), f"unix://{path}")

    if is_taken:
        asyncio.run(submit())
    else:
        with pytest.raises(EngineUnavailable, match="CometBFT does not take it: .*mempool is full"):
            asyncio.run(submit())
