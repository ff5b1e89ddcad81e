"""Runs a witness: looks at the node again and again, compares with other witnesses, and serves what it has seen."""

import asyncio
import sys
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from socket import socket

import msgspec
from rich.text import Text

from cairn.cli.proofs.files import read_genesis
from cairn.cli.proofs.saving import WitnessHead, connected
from cairn.cli.report import CommandFailed
from cairn.cli.screen import print_lines
from cairn.cli.witness.memory import Memory, default_directory
from cairn.cli.witness.serving import Shown, WitnessServer, listening_socket
from cairn.cli.witness.watching import Outcome, Query, Sighting, Watch
from cairn.client.transport import Transport
from cairn.domain.errors import InvalidConfig
from cairn.domain.json_fields import hex_text

TIMEOUT_S = 10.0
CONTRADICTED = "CONTRADICTED"


class _Remote:
    """A node or a witness, over HTTP."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.url = transport.url

    async def fetch(self, path: str, query: Query | None = None) -> bytes:
        return (await self._transport.ask("GET", path, query=query or {})).response.content


class Witness:
    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._told: dict[str, Sighting] = {}
        """What was said last of each source."""

    async def run(self, watch: Watch, others: Mapping[str, _Remote], interval_s: float, *, once: bool) -> None:
        """Look until the end of time, or once. Raises `CommandFailed` for what one look finds wrong."""
        while True:
            sightings = {"node": await watch.look()}
            for url, other in others.items():
                sightings[url] = await watch.compare(other)
            for source, sighting in sightings.items():
                self._tell(source, sighting)
            if once:
                for sighting in sightings.values():
                    if sighting.outcome not in (Outcome.SIGNED, Outcome.SAME):
                        raise CommandFailed(f"{sighting.outcome}: {sighting.detail}", CONTRADICTED)
                return
            await asyncio.sleep(interval_s)

    def show(self, path: str) -> Shown:
        """The answer to a request."""
        head = self._memory.head
        evidence = self._memory.evidence()
        if path == "/health":
            return self._health(is_contradicted=bool(evidence))
        if path == "/evidence" and evidence:
            return Shown(HTTPStatus.OK, evidence[0].read_bytes())
        if head is None or path not in ("/head", "/finality"):
            return Shown(HTTPStatus.NOT_FOUND, b'{"detail":"there is nothing here yet, or no such path"}')
        if path == "/finality":
            return Shown(HTTPStatus.OK, msgspec.json.encode(head.finality))
        block = self._memory.block
        assert block is not None
        header, key = head.finality.block.header, hex_text(self._memory.key.public_key)
        return Shown(HTTPStatus.OK, msgspec.json.encode(WitnessHead(header, block.header.height, key, head.signature)))

    def _health(self, *, is_contradicted: bool) -> Shown:
        """503 for whatever a person should look at: also for a node that has not been reached, or is behind."""
        last = {source: sighting.outcome for source, sighting in self._told.items()}
        is_well = not is_contradicted and last.get("node") in (Outcome.SIGNED, Outcome.SAME)
        is_well = is_well and not any(outcome.is_alarm for outcome in last.values())
        told = {"status": "contradicted" if is_contradicted else "ok" if is_well else "attention", "seen": last}
        return Shown(HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE, msgspec.json.encode(told))

    def _tell(self, source: str, sighting: Sighting) -> None:
        """Say what is new; an alarm again and again, since nobody may have been there to read it."""
        if sighting == self._told.get(source) and not sighting.outcome.is_alarm:
            return
        self._told[source] = sighting
        style = "bold red" if sighting.outcome.is_alarm else ""
        line = f"{'ALARM ' if sighting.outcome.is_alarm else ''}{sighting.outcome}: {sighting.detail}"
        print_lines([Text(line, style)])
        sys.stdout.flush()


def run_witness(
    url: str,
    genesis_file: Path,
    directory: Path | None,
    others: list[str],
    address: tuple[str, int] | None,
    interval_s: float,
    *,
    once: bool,
) -> None:
    """Follow the node at `url`. Serves at `address`, unless that is None."""
    genesis = read_genesis(genesis_file)
    directory = directory or default_directory(genesis)
    memory = Memory(directory, genesis)
    witness = Witness(memory)
    print_lines([f"Witness {hex_text(memory.key.public_key)}", f"State   {directory}"])
    listening = None if address is None else _listen(*address)
    sys.stdout.flush()

    async def watch() -> None:
        transports = {each: connected(each, "--peer", TIMEOUT_S) for each in others}
        node = connected(url, "URL", TIMEOUT_S)
        server = WitnessServer(witness.show)
        try:
            if listening is not None:
                await server.listen(listening)
            remotes = {each: _Remote(transport) for each, transport in transports.items()}
            await witness.run(Watch(_Remote(node), genesis, memory), remotes, interval_s, once=once)
        except OSError as failure:
            # Better none than one that signs what it does not remember.
            raise CommandFailed(f"cannot write to {directory}: {failure.strerror}") from None
        finally:
            server.close()
            for transport in (node, *transports.values()):
                await transport.close()

    try:
        asyncio.run(watch())
    finally:
        memory.close()


def _listen(host: str, port: int) -> socket:
    try:
        listening = listening_socket(host, port)
    except OSError as failure:
        raise InvalidConfig(f"cannot listen on {host}:{port}: {failure.strerror}") from None
    named = f"[{host}]" if ":" in host else host
    print_lines([f"Serving http://{named}:{listening.getsockname()[1]}/head"])
    return listening
