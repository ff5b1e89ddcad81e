"""How `cairn forward` starts: its files, its secret, and the place in the chain where it goes on."""

import asyncio
from pathlib import Path

import httpx

from cairn.cli.forward.forwarder import Forwarder
from cairn.cli.forward.progress import NO_BLOCK, Cursor, Events, Progress, cursor_at, default_directory, other_chain
from cairn.cli.forward.receiver import Receiver, check_url
from cairn.cli.forward.settings import ForwardSettings
from cairn.cli.forward.sources import BlockSource, PaymentSource, Source
from cairn.cli.forward.webhooks import load_keys
from cairn.cli.look.live_view import stop_signals
from cairn.cli.node.home import read_address
from cairn.cli.remote import connect, explained_errors
from cairn.cli.report import NoSuchItem
from cairn.cli.screen import print_json, print_pairs
from cairn.cli.wallet.key_files import Keystore
from cairn.cli.wallet.key_files import default_directory as keys_directory
from cairn.cli.wallet.parties import find_party
from cairn.client import AsyncClient
from cairn.client.errors import BlockNotFound, BlockNotKept
from cairn.client.following import EMBEDDED
from cairn.client.transport import delays
from cairn.domain.errors import InvalidConfig
from cairn.domain.types import Address

NO_HASH = "0x" + 64 * "0"
"""The parent of the first block."""


def forward_events(settings: ForwardSettings, once: bool, quiet: bool) -> None:
    """Run until Ctrl-C or SIGTERM; with `once`, until what the chain has now is delivered."""
    asyncio.run(_forward(settings, once, quiet))


def show_status(settings: ForwardSettings, as_json: bool) -> None:
    """Print the status file. Raises `NoSuchItem` if there is none."""
    progress = _progress_of(settings)
    status = progress.read_status()
    if status is None:
        raise NoSuchItem(f"nothing was forwarded yet: there is no {progress.status_file}")
    if as_json:
        print_json(status)
    else:
        print_pairs([*status.lines(progress.dead_letters_file), ("files", str(progress.directory))])


def _progress_of(settings: ForwardSettings) -> Progress:
    return Progress(Path(settings.state) if settings.state else default_directory(_url_of(settings)))


def _url_of(settings: ForwardSettings) -> httpx.URL:
    if not settings.to:
        raise InvalidConfig(
            "where to? --to, or `to` in the settings, names the URL of the receiver, such as http://localhost:8080/hook"
        )
    return check_url(settings.to, settings.insecure_http)


async def _forward(settings: ForwardSettings, once: bool, quiet: bool) -> None:
    _url_of(settings)
    progress = _progress_of(settings)
    with progress.locked(), explained_errors(settings.node):
        secret_file = Path(settings.secret_file) if settings.secret_file else None
        keys, secret_place = load_keys(secret_file, progress.secret_file)
        async with connect(settings.node) as node, Receiver(settings.to, keys, settings.timeout_s) as receiver:
            source = source_of(settings, node)
            if once and isinstance(source, PaymentSource):
                raise InvalidConfig(
                    "--once is for blocks only: that a block has no more payments is known when the next block comes, "
                    "which may be never"
                )
            await node.health()
            kept = progress.load_cursor(source.events)
            cursor = await begin(node, source.events, settings.from_height) if kept is None else kept
            await check_chain(node, cursor, progress)
            last_height = (await node.chain()).head.block_height if once else None
            # Also shows that it can be written, before anything is delivered.
            progress.save_cursor(cursor)
            where = f"from block {cursor.next_height} on" + ("" if kept is None else ", where it stopped")
            if not quiet:
                print_pairs(
                    [
                        ("from", f"{settings.node}, chain {cursor.chain_id}"),
                        ("to", receiver.shown_url),
                        ("events", f"{source}, {where}"),
                        ("secret", secret_place),
                        ("cursor", str(progress.cursor_file)),
                    ]
                )
            forwarder = Forwarder(source, receiver, progress, cursor, settings.dead_letter_after, quiet)
            # Only now: until here, nothing is lost if a signal simply ends the process.
            async with stop_signals() as stopping:
                await forwarder.run(stopping, last_height)


def source_of(settings: ForwardSettings, node: AsyncClient) -> Source:
    """What is forwarded. Raises `InvalidConfig` or `NoSuchItem` for what is no address."""
    if not settings.addresses and not settings.addresses_file:
        return BlockSource(node)
    keystore = Keystore(keys_directory())
    addresses = [find_party(text, keystore, "--address").address for text in settings.addresses]
    if settings.addresses_file:
        addresses += read_addresses(Path(settings.addresses_file))
    followed = [f"0x{each.hex()}" for each in dict.fromkeys(addresses)]
    return PaymentSource(node, followed, settings.direction or "in", settings.amounts or "number")


def read_addresses(file: Path) -> list[Address]:
    """The addresses in a file, one on each line; # begins a comment. Raises `InvalidConfig`, even for no address."""
    try:
        lines = [line.partition("#")[0].strip() for line in file.read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"cannot read {file}: {getattr(error, 'strerror', None) or 'it is not text'}") from None
    addresses = [read_address(text, f"{file}, line {number}") for number, text in enumerate(lines, start=1) if text]
    if not addresses:
        raise InvalidConfig(f"{file} holds no address")
    return addresses


async def begin(node: AsyncClient, events: Events, from_height: int | None) -> Cursor:
    """A cursor right before the block at `from_height`; by default, before the next one that is made."""
    chain = await node.chain()
    if from_height == 0:
        return Cursor(events, chain.chain_id, NO_BLOCK, NO_HASH, 0)
    return cursor_at(await node.block(chain.head.block_height if from_height is None else from_height - 1), events)


async def check_chain(node: AsyncClient, cursor: Cursor, progress: Progress) -> None:
    """Return once the node has the block of the cursor. Raises `InvalidConfig` when it has another chain."""
    for delay_s in delays():
        chain = await node.chain()
        if chain.chain_id != cursor.chain_id:
            raise InvalidConfig(
                f"{progress.cursor_file} is of chain {cursor.chain_id}, and {node.url} has chain {chain.chain_id}: "
                "name the right --node, or another --state"
            )
        if cursor.block_height == NO_BLOCK:
            return
        try:
            block = await node.block(cursor.block_height)
        except BlockNotKept:
            # Then the next block, if it is kept, tells whether it is the child of this one.
            return
        except BlockNotFound:
            # A node that makes its blocks alone is never behind itself, and time never runs backwards on a chain.
            if chain.engine == EMBEDDED or chain.head.timestamp > cursor.timestamp:
                latest = f"its latest block is {chain.head.block_height}, and {cursor.block_height} was delivered"
                raise other_chain(latest, progress) from None
            await asyncio.sleep(delay_s)
            continue
        if block.hash != cursor.hash:
            raise other_chain(f"its block {cursor.block_height} is not the one that was delivered", progress)
        return
