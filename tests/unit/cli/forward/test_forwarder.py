"""The line of events: pauses between attempts, what is given up, what is saved, and how it ends."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import httpx
import msgspec
import pytest

from cairn.api.description.examples import HEADER
from cairn.cli.forward.forwarder import LONGEST_DELAY_S, SAVE_EVERY_S, STOP_S, Forwarder
from cairn.cli.forward.progress import Cursor, Progress, cursor_at
from cairn.cli.forward.receiver import Receiver
from cairn.cli.forward.sources import BlockSource
from cairn.cli.report import CommandFailed, Unreachable
from cairn.client import AsyncClient
from cairn.client.errors import ChainReverted, NodeUnreachable
from cairn.client.models import Block, Chain
from cairn.domain.errors import InvalidConfig
from tests.support.scripted_server import RESET, SILENCE, ScriptedServer, answer, scripted
from tests.support.virtual_time import virtual_loop

pytestmark = pytest.mark.virtual_time
FIRST = msgspec.convert(HEADER | {"transactions": []}, Block)
OK = answer(200, "")


def block_at(height: int) -> Block:
    """The hash of each is its height."""
    return msgspec.structs.replace(
        FIRST, block_height=height, hash=f"0x{height:064x}", previous_hash=f"0x{height - 1:064x}"
    )


class FollowedNode(AsyncClient):
    """A node that has these blocks, and makes no more."""

    def __init__(self, blocks: Sequence[Block], failure: Exception | None = None) -> None:
        super().__init__("http://node.example")
        self._blocks = blocks
        self._failure = failure

    async def blocks(self, from_height: int | None = None) -> AsyncGenerator[Block, None]:
        for block in self._blocks:
            if block.block_height >= (from_height or 0):
                yield block
        if self._failure is not None:
            raise self._failure
        await asyncio.Event().wait()

    async def chain(self) -> Chain:
        raise NodeUnreachable("not now", was_sent=False)


class Line:
    """A forwarder of blocks 1 to `count`, and what it has to do with."""

    def __init__(self, directory: Path, server: ScriptedServer, node: AsyncClient, dead_letter_after: int) -> None:
        over_socket = partial(httpx.AsyncClient, transport=httpx.AsyncHTTPTransport(uds=str(server._socket)))
        with patch.object(httpx, "AsyncClient", over_socket):
            self.receiver = Receiver("http://receiver.example/hook?token=1", [bytes(32)], 20.0)
        self.server = server
        self.progress = Progress(directory)
        self.stopping = asyncio.Event()
        self.forwarder = Forwarder(
            BlockSource(node),
            self.receiver,
            self.progress,
            cursor_at(block_at(0), "newBlock"),
            dead_letter_after,
            False,
        )

    async def run(self, last_height: int | None = None) -> None:
        async with self.receiver:
            await self.forwarder.run(self.stopping, last_height)

    def heights(self) -> list[int]:
        """The blocks of the requests, in their order."""
        return [json.loads(body)["data"]["blockHeight"] for _, body in self.server.requests]


@asynccontextmanager
async def line(
    directory: Path, *script: bytes | str, count: int = 1, dead_letter_after: int = 0, failure: Exception | None = None
) -> AsyncGenerator[Line, None]:
    async with scripted(*script) as server:
        node = FollowedNode([block_at(height) for height in range(1, count + 1)], failure)
        yield Line(directory, server, node, dead_letter_after)


async def test_pauses_grow_up_to_a_minute_and_an_event_is_never_given_up(tmp_path: Path) -> None:
    async with line(tmp_path, *60 * [answer(500, "")], OK, count=2) as forwarding:
        await forwarding.run(2)
    assert forwarding.heights() == 61 * [1] + [2]
    took_s = virtual_loop().time()
    assert 50 * LONGEST_DELAY_S / 2 < took_s < 60 * LONGEST_DELAY_S


async def test_retry_after_is_waited_for(tmp_path: Path) -> None:
    async with line(tmp_path, answer(503, "", retry_after="600"), OK) as forwarding:
        await forwarding.run(1)
    assert 600 <= virtual_loop().time() < 610


async def test_without_being_told_to_no_refusal_is_given_up(tmp_path: Path) -> None:
    async with line(tmp_path, *100 * [answer(422, "")], OK) as forwarding:
        await forwarding.run(1)
    assert len(forwarding.server.requests) == 101
    assert not forwarding.progress.dead_letters_file.exists()


async def test_only_refusals_count_towards_the_dead_letters(tmp_path: Path) -> None:
    not_refused: list[bytes | str] = [RESET, SILENCE, answer(404, ""), answer(503, ""), answer(307, "")]
    script = [*not_refused, answer(400, "first"), *not_refused, answer(500, "second"), OK]
    async with line(tmp_path, *script, count=2, dead_letter_after=2) as forwarding:
        await forwarding.run(2)
    assert forwarding.heights() == 12 * [1] + [2]
    [letter] = forwarding.progress.dead_letters_file.read_text().splitlines()
    assert json.loads(letter) | {"givenUpAt": 0} == {
        "webhookId": f"newBlock_0x{1:064x}",
        "body": forwarding.server.requests[0][1].decode(),
        "attempts": 12,
        "lastError": '500 Because: "second"',
        "givenUpAt": 0,
    }


async def test_the_status_says_how_many_were_ever_given_up_and_where(tmp_path: Path) -> None:
    for first in (True, False):
        script = [answer(400, "")] if first else [OK]
        async with line(tmp_path, *script, OK, count=2, dead_letter_after=1) as forwarding:
            await forwarding.run(2)
        status = forwarding.progress.read_status()
        assert status is not None
        assert status.dead_letters == 1
        lines = dict(status.lines(forwarding.progress.dead_letters_file))
        assert lines["delivered"] == "up to block 2 of 2, except 1 given up"
        assert lines["given up"] == f"1, in {tmp_path / 'dead-letters.ndjson'}"


async def test_410_ends_it_and_says_which_event_is_missing(tmp_path: Path) -> None:
    async with line(tmp_path, OK, answer(410, ""), count=2) as forwarding:
        with pytest.raises(CommandFailed, match=f"410 Gone.* newBlock_0x{2:064x}"):
            await forwarding.run()
    assert forwarding.progress.load_cursor("newBlock") == cursor_at(block_at(1), "newBlock")


async def test_the_cursor_is_on_disk_a_quarter_of_a_second_later(tmp_path: Path) -> None:
    async with line(tmp_path, OK, count=3) as forwarding:
        running = asyncio.create_task(forwarding.run())
        await asyncio.sleep(2 * SAVE_EVERY_S)
        assert forwarding.progress.load_cursor("newBlock") == cursor_at(block_at(3), "newBlock")
        forwarding.stopping.set()
        await running


async def test_the_cursor_stays_before_an_event_until_its_answer_is_there(tmp_path: Path) -> None:
    """Whatever is saved or shown while it is tried: a kill then must not leave the event out."""
    async with line(tmp_path, OK, answer(500, ""), SILENCE, count=3) as forwarding:
        running = asyncio.create_task(forwarding.run())
        for attempts in (2, 3):
            while len(forwarding.server.requests) < attempts:
                await asyncio.sleep(0.01)
            # By then all that is delivered is saved, while the second event is in a pause, or has no answer yet.
            await asyncio.sleep(1.5 * SAVE_EVERY_S)
            assert forwarding.forwarder._cursor == cursor_at(block_at(1), "newBlock")
            assert forwarding.progress.load_cursor("newBlock") == cursor_at(block_at(1), "newBlock")
        forwarding.stopping.set()
        await running
    assert forwarding.progress.load_cursor("newBlock") == cursor_at(block_at(1), "newBlock")
    assert forwarding.heights() == [1, 2, 2]


async def test_a_stop_in_a_pause_ends_it_at_once(tmp_path: Path) -> None:
    async with line(tmp_path, answer(503, "", retry_after="3000")) as forwarding:
        running = asyncio.create_task(forwarding.run())
        await forwarding.server.got_request.wait()
        await asyncio.sleep(10)
        forwarding.stopping.set()
        await running
    assert virtual_loop().time() == pytest.approx(10, abs=0.5)
    status = forwarding.progress.read_status()
    assert status is not None
    assert (status.state, status.attempts, status.last_error) == ("stopped", 1, '503 Because: ""')


async def test_a_stop_waits_for_an_answer_for_a_moment_only(tmp_path: Path) -> None:
    async with line(tmp_path, SILENCE) as forwarding:
        running = asyncio.create_task(forwarding.run())
        await forwarding.server.got_request.wait()
        forwarding.stopping.set()
        await running
    assert virtual_loop().time() == pytest.approx(STOP_S, abs=0.5)
    assert not forwarding.progress.cursor_file.exists()


async def test_a_block_that_is_no_child_of_the_cursor_is_another_chain(tmp_path: Path) -> None:
    async with line(tmp_path, OK, count=5) as forwarding:
        other = Cursor("newBlock", 1337, 2, "0x" + 64 * "f", 0)
        forwarding.forwarder._cursor = other
        with pytest.raises(InvalidConfig, match="another chain now: its block 3 does not follow"):
            await forwarding.run()
    assert forwarding.server.requests == []


async def test_a_revert_ends_it_by_name(tmp_path: Path) -> None:
    async with line(tmp_path, OK, failure=ChainReverted(0)) as forwarding:
        with pytest.raises(InvalidConfig, match="reverted to block 0"):
            await forwarding.run()
    assert forwarding.progress.load_cursor("newBlock") == cursor_at(block_at(1), "newBlock")


async def test_a_cursor_that_cannot_be_written_ends_it(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    async with line(gone, OK) as forwarding:
        with pytest.raises(Unreachable, match="cannot write"):
            await forwarding.run()


async def test_all_deliveries_are_told_of_in_few_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with line(tmp_path, OK, count=300) as forwarding:
        await forwarding.run(300)
    lines = capsys.readouterr().out.splitlines()
    assert sum(int(text.split()[1]) for text in lines) == 300
    assert lines[-1].endswith("up to block 300")
    assert len(lines) < 30


async def test_the_status_shows_no_token_and_that_the_node_is_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with line(tmp_path, OK) as forwarding:
        await forwarding.run(1)
    status = forwarding.progress.read_status()
    assert status is not None
    assert (status.to, status.node_error) == ("http://receiver.example/hook?…", "not now")
    assert (status.block_height, status.delivered, status.lag) == (1, 1, 0)
    assert "token" not in "".join(capsys.readouterr())
