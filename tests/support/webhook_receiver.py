"""A receiver of webhooks in a process of its own, which fails in every way that it is told.

`python -m tests.support.webhook_receiver PORT DIRECTORY` writes each request to DIRECTORY/requests.ndjson before it
answers. How it answers stands in DIRECTORY/mode, which is read anew for each.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import msgspec

from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S

ANSWERS = {
    "ok": b"HTTP/1.1 204 No Content\r\n\r\n",
    "fail": b"HTTP/1.1 500 Because\r\nContent-Length: 3\r\n\r\nwhy",
    "busy": b"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n",
    "redirect": b"HTTP/1.1 307 Go\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n",
    "gone": b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n",
    "garbage": b"\x00\x01\x02\r\n\r\n",
    "short": b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nshort",
    "reset": b"",
}
"""By mode; what is no complete answer ends the connection."""
TAKEN = ("ok", "short", "slow", "endless")
"""Those that answer with 2xx."""
CHAOS = [*30 * ["ok"], "fail", "reset", "garbage", "short", "slow", "endless"]


class Request(msgspec.Struct, frozen=True):
    mode: str
    at: float
    """When it arrived."""
    path: str
    headers: dict[str, str]
    body: str

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def was_taken(self) -> bool:
        return self.mode in TAKEN


class WebhookReceiver:
    """Leaving the `with` block ends it."""

    def __init__(self, port: int, directory: Path) -> None:
        self.url = f"http://127.0.0.1:{port}/hook"
        self._port = port
        self._directory = directory
        directory.mkdir(exist_ok=True)
        self._log = directory / "requests.ndjson"
        self.answer_with("ok")
        self._process = self.start()

    def start(self) -> "subprocess.Popen[bytes]":
        """Also once more, after `kill`."""
        args = [sys.executable, "-m", "tests.support.webhook_receiver", str(self._port), str(self._directory)]
        self._process = subprocess.Popen(args)
        ready = self._directory / "ready"
        wait_until(ready.exists, PATIENCE_S, "the receiver")
        ready.unlink()
        return self._process

    def answer_with(self, mode: str) -> None:
        draft = self._directory / "mode.new"
        draft.write_text(mode)
        draft.rename(self._directory / "mode")

    def requests(self) -> list[Request]:
        """All so far, in the order of their arrival; a kill may have cut the last one off."""
        if not self._log.exists():
            return []
        found = []
        for line in self._log.read_bytes().splitlines():
            try:
                found.append(msgspec.json.decode(line, type=Request))
            except msgspec.DecodeError:
                continue
        return found

    def count(self) -> int:
        """How many requests there were, without reading each."""
        return self._log.read_bytes().count(b'{"mode"') if self._log.exists() else 0

    def taken(self) -> list[Request]:
        return [request for request in self.requests() if request.was_taken]

    def wait_for(self, count: int) -> list[Request]:
        """Return once so many requests have arrived."""
        wait_until(lambda: self.count() >= count, PATIENCE_S, f"{count} requests")
        return self.requests()

    def wait_taken(self, count: int) -> list[Request]:
        """Return once so many requests were answered with 2xx."""
        wait_until(lambda: len(self.taken()) >= count, PATIENCE_S, f"{count} webhooks")
        return self.taken()

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, directory: Path, log: int) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
            body = (await reader.readexactly(int(headers["content-length"]))).decode()
            mode = (directory / "mode").read_text()
            if mode == "chaos":
                mode = random.choice(CHAOS)
            os.write(log, msgspec.json.encode(Request(mode, time.time(), first.split()[1], headers, body)) + b"\n")
            if mode == "hang":
                await reader.read()
            if mode == "slow":
                await asyncio.sleep(0.2)
                mode = "ok"
            if mode == "endless":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
                while True:
                    writer.write(bytes(10_000))
                    await writer.drain()
            writer.write(ANSWERS[mode])
            await writer.drain()
            if mode in ("garbage", "short", "reset"):
                return
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def _main(port: int, directory: Path) -> None:
    log = os.open(directory / "requests.ndjson", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    # A kill may have left a part of a line.
    os.write(log, b"\n")
    server = await asyncio.start_server(lambda r, w: _serve(r, w, directory, log), "127.0.0.1", port)
    (directory / "ready").touch()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), Path(sys.argv[2])))
