"""`cairn watch`: new blocks and the mempool, until Ctrl-C."""

import asyncio
import os
import signal
import stat
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from itertools import islice
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from cairn.cli.amounts import format_amount
from cairn.cli.look.display import Names, collected
from cairn.cli.remote import connect, describe_pending, explained_errors
from cairn.cli.screen import ago, data_text, drop_output, plain, print_json, print_line
from cairn.cli.wallet.key_files import Keystore
from cairn.client import AsyncClient
from cairn.client.errors import ApiError, ChainChanged, ChainReverted, NodeUnreachable
from cairn.client.models import Block, Chain, MempoolItem

POLL_S = 1.0
"""Seconds between two polls of the node and its mempool."""
REDRAW_S = 0.5
FIRST_BLOCKS = 10
"""How many earlier blocks the live view starts with."""
SHOWN_PENDING = 5
KEPT_BLOCKS = 200
BAR_WIDTH = 30


class View(Protocol):
    def saw_block(self, block: Block) -> None: ...

    def saw_pool(self, chain: Chain, pending: list[MempoolItem]) -> None: ...

    def lost_node(self, why: str) -> None: ...

    def reverted_chain(self, height: int) -> None:
        """The blocks above `height` are void; others will replace them."""

    def changed_chain(self, why: str, head: int) -> int:
        """The height to start over from."""


def watch_node(url: str, from_height: int | None, keystore: Keystore, as_json: bool) -> None:
    """Run until Ctrl-C. Raises `CommandFailed` if there is no node at the start."""
    asyncio.run(_watch(url, from_height, keystore, as_json))


async def _watch(url: str, from_height: int | None, keystore: Keystore, as_json: bool) -> None:
    console = Console(highlight=False)
    is_live = console.is_terminal and not as_json
    with explained_errors(url):
        async with connect(url) as node, stop_signals() as stopping:
            await node.health()
            head = (await node.chain()).head.block_height
            if from_height is None:
                from_height = first_shown(head) if is_live else head
            if not is_live:
                stop_at_broken_pipe(stopping)
                await run_until(stopping, [follow_blocks(node, from_height, view := Lines(as_json)), poll(url, view)])
                return
            screen = Screen(url, console, Names(keystore))
            with Live(
                console=console, auto_refresh=False, get_renderable=screen.render, vertical_overflow="crop"
            ) as live:
                watching = [follow_blocks(node, from_height, screen), poll(url, screen), redraw(live)]
                await run_until(stopping, watching)


def first_shown(head: int) -> int:
    return max(0, head - FIRST_BLOCKS + 1)


@asynccontextmanager
async def stop_signals() -> AsyncIterator[asyncio.Event]:
    """Set by Ctrl-C or SIGTERM, so that the terminal can be restored before the end."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    yield stopping


def stop_at_broken_pipe(stopping: asyncio.Event) -> None:
    """Set `stopping` when the reader of a pipe closes it (`cairn watch | head`), without waiting for another block."""
    with suppress(OSError):
        out = sys.stdout.fileno()
        if stat.S_ISFIFO(os.fstat(out).st_mode):
            # Nothing can be read from this end of the pipe, so it becomes readable only when the other end is closed.
            asyncio.get_running_loop().add_reader(out, _drop_and_stop, stopping)


def _drop_and_stop(stopping: asyncio.Event) -> None:
    # What could not be written may still be there when everything has stopped.
    drop_output()
    stopping.set()


async def run_until(stopping: asyncio.Event, endless: Sequence[Awaitable[None]]) -> None:
    """Run them at the same time; the first exception is raised here."""
    tasks = [asyncio.ensure_future(each) for each in endless]
    stop = asyncio.create_task(stopping.wait())
    try:
        done, _ = await asyncio.wait([*tasks, stop], return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stop}:
            await task
    finally:
        for task in (*tasks, stop):
            task.cancel()
        await asyncio.gather(*tasks, stop, return_exceptions=True)


async def follow_blocks(node: AsyncClient, from_height: int, view: View) -> None:
    start: int | None = from_height
    while True:
        try:
            async with aclosing(node.blocks(from_height=start)) as blocks:
                async for block in blocks:
                    view.saw_block(block)
        except ChainReverted as reverted:
            view.reverted_chain(reverted.height)
            start = reverted.height + 1
        except ChainChanged as changed:
            # A dev chain that was started over.
            start = view.changed_chain(str(changed), (await node.chain()).head.block_height)


async def poll(url: str, view: View) -> None:
    """Show the mempool every second, and whether the node answers."""
    async with connect(url) as node:
        while True:
            try:
                # One attempt, so that its absence is seen at once, and what is only slow is waited for.
                await node.health()
                chain = await node.chain()
                pending = await collected(node.pending(limit=SHOWN_PENDING))
                view.saw_pool(chain, pending)
            except (NodeUnreachable, ApiError) as failure:
                view.lost_node(str(failure))
            await asyncio.sleep(POLL_S)


async def redraw(live: Live) -> None:
    while True:
        live.refresh()
        await asyncio.sleep(REDRAW_S)


class Lines:
    """A line for each block, for pipes; JSON for programs."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._is_away = False

    def saw_block(self, block: Block) -> None:
        if self._as_json:
            print_json(block)
            return
        moment = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(block.timestamp))
        print_line(f"block {block.block_height} {moment} transactions {len(block.transactions)} {block.hash}")

    def saw_pool(self, chain: Chain, pending: list[MempoolItem]) -> None:
        if self._is_away:
            self._is_away = False
            self._note("the node is back")

    def lost_node(self, why: str) -> None:
        if not self._is_away:
            self._is_away = True
            self._note(f"{why}; waiting for it")

    def reverted_chain(self, height: int) -> None:
        self._note(f"the chain was reverted to block {height}: other blocks follow it now")

    def changed_chain(self, why: str, head: int) -> int:
        self._note(f"another chain: {why}; starting over with its first block")
        return 0

    def _note(self, text: str) -> None:
        print_line(f"cairn: {text}", sys.stderr)


class Screen:
    """The live view."""

    def __init__(self, url: str, console: Console, names: Names) -> None:
        self._url = url
        self._console = console
        self._names = names
        self._blocks: deque[Block] = deque(maxlen=KEPT_BLOCKS)
        self._chain: Chain | None = None
        self._pending: list[MempoolItem] = []
        self._away_since: float | None = None
        self._note = ""

    def saw_block(self, block: Block) -> None:
        self._blocks.appendleft(block)

    def saw_pool(self, chain: Chain, pending: list[MempoolItem]) -> None:
        self._chain, self._pending, self._away_since = chain, pending, None

    def lost_node(self, why: str) -> None:
        if self._away_since is None:
            self._away_since = time.monotonic()

    def reverted_chain(self, height: int) -> None:
        while self._blocks and self._blocks[0].block_height > height:
            self._blocks.popleft()
        self._note = f"The chain was reverted to block {height}."

    def changed_chain(self, why: str, head: int) -> int:
        self._blocks.clear()
        self._note = "The node has another chain now."
        return first_shown(head)

    def render(self) -> Group:
        foot = Text(f"{self._note} Ctrl-C ends".strip(), "dim")
        lines = [self._headline(), Text(), self._pool(), *self._pending_lines(), Text(), *self._block_lines(), foot]
        lines = [plain(line) for line in lines]
        for line in lines:
            # A narrow terminal cuts off what is on the right, which counts least.
            line.no_wrap, line.overflow = True, "ellipsis"
        return Group(*lines)

    def _headline(self) -> Text:
        if self._away_since is not None:
            waited_s = int(time.monotonic() - self._away_since)
            return Text(f"○ {self._url} does not answer; waiting for it, {waited_s} s so far", "bold yellow")
        line = Text("● ", "green").append(self._url, "bold")
        if self._chain is not None:
            chain = self._chain
            line.append(f"  chain {chain.chain_id}, {chain.engine}, Cairn {chain.version}", "default")
        return line

    def _pool(self) -> Text:
        if self._chain is None:
            return Text("mempool")
        size = self._chain.mempool
        held = size.pending + size.queued
        # Whatever is in it shows: one cell at least.
        filled = min(BAR_WIDTH, -(-held * BAR_WIDTH // size.limit))
        line = Text("mempool ").append("█" * filled, "cyan").append("░" * (BAR_WIDTH - filled), "dim")
        return line.append(f" {size.pending:,} pending, {size.queued:,} queued, room for {size.limit:,}")

    def _pending_lines(self) -> list[Text]:
        lines = [Text(f"  {self._told(tx)}", "dim") for tx in self._pending]
        # Always as many lines, so that nothing below jumps.
        return lines + [Text()] * (SHOWN_PENDING - len(lines))

    def _told(self, tx: MempoolItem) -> str:
        mark = f"  {describe_pending(tx.queued_reason)}" if tx.queued else ""
        said = "" if tx.data is None else f"  {data_text(tx.reference, tx.data)}"
        return f"{self._names.short(tx.sender)} → {self._names.short(tx.to)}  {format_amount(tx.value)}{mark}{said}"

    def _block_lines(self) -> list[Text]:
        rows = max(1, self._console.height - SHOWN_PENDING - 7)
        lines = [Text(f"{'block':>10}  {'age':>10}  {'transactions':>12}  hash", "bold")]
        for block in islice(self._blocks, rows):
            count = f"{len(block.transactions):,}"
            lines.append(Text(f"{block.block_height:>10}  {ago(block.timestamp):>10}  {count:>12}  {block.hash}"))
        return lines
