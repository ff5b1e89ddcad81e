"""A whole node whose core and workers are tiny: `python -m tests.support.stand_in_node DIRECTORY [SETTING=VALUE ...]`.

The worker answers every request with 200 once DIRECTORY/ready exists and the core runs, until then with 503, and
adds a byte to DIRECTORY/answers for each; GET /corrupt makes it find a damaged store. It may take its time to stop.
"""

import os
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from cairn import supervisor
from cairn.api.server import certificates
from cairn.board import Board
from cairn.config import Settings, load_settings
from cairn.core.gateway import Observing
from cairn.domain.errors import Corrupt
from cairn.domain.genesis import Genesis, dev_genesis
from cairn.domain.types import Address
from cairn.node import Node, Reread
from cairn.store.directory import SeenChain
from cairn.store.signing_key import KeyFiles
from tests.support.pace import PATIENCE_S


def run_core(
    genesis: Genesis, data_dir: Path, settings: Settings, core_socket: Path, dev_keys: Mapping[Address, bytes],
    lifeline: int, abci_socket: Path | None, seen: SeenChain, observing: Observing, reread: Reread,
    key_files: KeyFiles | None, board: Board,
) -> int:  # fmt: skip
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(core_socket))
    (data_dir / "core.sock.path").write_text(str(core_socket))
    (data_dir / "core.sockets.new").write_text("\n".join(open_sockets()))
    (data_dir / "core.sockets.new").rename(data_dir / "core.sockets")
    os.read(lifeline, 1)
    return 0


def run_worker(
    index: int, settings: Settings, sock: socket.socket, core_socket: Path, scratch_dir: Path, lifeline: int,
    chain_id: int, reread: Reread, genesis_file: bytes, board: Board,
    metrics_sock: socket.socket | None, home: Path | None,
) -> None:  # fmt: skip
    (scratch_dir / f"life-{os.getpid()}").touch()
    lives = len(list(scratch_dir.iterdir()))
    data_dir = Path(sys.argv[1])
    while True:
        connection, _ = sock.accept()
        # Whoever lost patience and left takes nothing from the next one.
        with suppress(OSError), connection, encrypted(connection, settings) as stream:
            if b"/corrupt" in stream.recv(4096):
                raise Corrupt("a block is not what was written")
            is_ready = (data_dir / "ready").exists() and (data_dir / "core.sockets").exists()
            status = b"200 OK" if is_ready else b"503 Service Unavailable"
            body = f"worker {index} lives {lives} pid {os.getpid()}".encode()
            stream.sendall(b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))
            with (data_dir / "answers").open("ab") as answers:
                answers.write(b".")


def encrypted(connection: socket.socket, settings: Settings) -> socket.socket:
    if not settings.tls_cert:
        return connection
    used = certificates.Certificates(certificates.Pair(settings.tls_cert, settings.tls_key), speaks=False)
    return used.context.wrap_socket(connection, server_side=True)


def open_sockets() -> list[str]:
    return [link for fd in os.listdir("/proc/self/fd") if (link := read_link(fd)).startswith("socket:")]


def read_link(fd: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except FileNotFoundError:
        return ""


if __name__ == "__main__":
    supervisor.STOP_LIMIT_S = PATIENCE_S
    # This core never beats, which is not what the tests are about.
    supervisor.SILENT_S = PATIENCE_S
    certificates.RECHECK_S = 0.05
    chosen = dict(pair.split("=", 1) for pair in sys.argv[2:])
    settings = load_settings(environ={f"CAIRN_{name.upper()}": value for name, value in chosen.items()})
    node = Node(dev_genesis(), Path(sys.argv[1]), settings, {}, core=run_core, worker=run_worker)
    sys.exit(node.run(on_ready=lambda url: print(f"Listening on {url}", flush=True)))
