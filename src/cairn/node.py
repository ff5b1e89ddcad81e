"""The composition root: opens the socket, builds the core and the workers, and hands them to the supervisor."""

import errno
import gc
import os
import resource
import shutil
import socket
import ssl
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from cairn.api.server import certificates
from cairn.api.server.http_server import BACKLOG
from cairn.api.worker import run_worker
from cairn.board import Board
from cairn.cometbft import CometBFT, CometBftLog
from cairn.config import EXIT_DIVERGED, EXIT_FATAL, Settings
from cairn.core.gateway import UNOBSERVED, Observing
from cairn.core.process import run_core
from cairn.domain.errors import Fatal, InvalidConfig
from cairn.domain.genesis import Genesis, encode_genesis
from cairn.domain.types import Address
from cairn.live_settings import LiveSettings
from cairn.log import configure_logging, print_fatal
from cairn.memory import map_large_blocks
from cairn.store.directory import SeenChain, Syncs
from cairn.store.signing_key import KeyFiles
from cairn.supervisor import EXIT_OK, EngineChild, Supervisor
from cairn.temporary import temporary_directory

RUNTIME_PREFIX = "cairn-run-"
LONGEST_SOCKET_PATH_BYTES = 100
"""Systems cut a unix socket's path at 104 or 108 bytes."""

FILES_BESIDES_CONNECTIONS = 4096
"""Above all the store's: it keeps every one of its files open."""

GC_THRESHOLDS = (2_000, 10, 20)
"""After how many new objects Python's garbage collector looks at those, and how seldom at older ones.

Others wait meanwhile: 0.3 to 1.2 ms for 2,000 objects, and 1.5 to 6 ms for 10,000 on the same machine. Looking more
often costs nothing: what a node makes in bulk is freed by reference counts, and hardly ever comes to a collection.
"""

LOG_POLL_S = 1.0
REPEAT_AFTER_LOOKS = 60
"""A peer of another network tries again and again; it is named once a minute."""

READY_POLL_S = 0.02
SLOWEST_READY_POLL_S = 0.5
PROBE_TIMEOUT_S = 0.5

log = structlog.get_logger("cairn.node")

Reread = Callable[[], Settings]
CoreEntry = Callable[
    [
        Genesis,
        Path,
        Settings,
        Path,
        Mapping[Address, bytes],
        int,
        Path | None,
        SeenChain,
        Observing,
        Reread,
        KeyFiles | None,
        Board,
    ],
    int,
]
WorkerEntry = Callable[[int, Settings, socket.socket, Path, Path, int, int, Reread, bytes, Board], None]


@dataclass(frozen=True, slots=True)
class Node:
    """One node, from its parts. `run` is all of its life."""

    genesis: Genesis
    data_dir: Path
    settings: Settings
    dev_keys: Mapping[Address, bytes]
    """The keys that the core signs with: those of a dev chain, none on any other."""
    cometbft: CometBFT | None = None
    """What makes the blocks, unless this node does so alone or the operator runs it."""
    observing: Observing = UNOBSERVED
    """Who is told of blocks and transactions."""
    begun_file: Path | None = None
    """The file outside of the data directory that says that the chain was begun; it is made if there is none."""
    parent_pipe: int | None = None
    """The file at whose end the node stops: a pipe that the program which started the node holds open."""
    read_settings: Reread | None = None
    """Reads the settings from where they came from, once more; some may change while the node runs."""
    key_files: KeyFiles | None = None
    """Where the core finds the key that it signs blocks with, if this node makes them alone. No other process reads
    them. A dev chain needs none."""
    is_temporary: bool = False
    """Whether the data directory is removed at the end, whatever ends the node or the machine."""
    core: CoreEntry = run_core
    worker: WorkerEntry = run_worker

    def run(self, on_ready: Callable[[str], None]) -> int:
        """Serve until stopped; `on_ready` gets the URL once /ready is 200. Returns the exit code.

        Raises `InvalidConfig` when the address cannot be listened on, before any process is started.
        """
        check_tls(self.settings)
        apply_to_process(self.settings)
        live = LiveSettings(self.settings, self.read_settings, check_tls)
        # Once, for all workers: it may name a million accounts.
        genesis_file = encode_genesis(self.genesis)
        # Before the first fork, so that all processes have it, also those that are started later.
        board = Board()
        with open_listener(self.settings.host, self.settings.port) as listener, runtime_directory() as runtime_dir:
            supervisor = Supervisor(
                core=partial(self._run_core, listener, runtime_dir, live, SeenChain(self.begun_file), board),
                workers=[
                    partial(self._run_worker, index, listener, runtime_dir, live, genesis_file, board)
                    for index in range(self.settings.workers)
                ],
                drain_delay_s=self.settings.drain_delay_s,
                # While any process holds the socket, new clients would queue in it and never be answered.
                on_stop=listener.close,
                on_reload=partial(reload, live),
                engine=self._engine(runtime_dir),
                parent_pipe=self.parent_pipe,
            )
            endpoint = Endpoint(self.settings.host, listener.getsockname()[1], tls=bool(self.settings.tls_cert))
            supervisor.call_later(READY_POLL_S, partial(_await_ready, supervisor, endpoint, on_ready, READY_POLL_S))
            if self.settings.tls_cert:
                keep_certificate(supervisor, live)
            if self.cometbft is not None:
                LogWatch(supervisor, CometBftLog(self.cometbft.log_file)).look()
            # What is loaded by now is shared by all processes for as long as the collector never touches it.
            gc.freeze()
            gc.set_threshold(*GC_THRESHOLDS)
            map_large_blocks()
            return supervisor.run()

    def _run_core(
        self,
        listener: socket.socket,
        runtime_dir: Path,
        live: LiveSettings,
        seen: SeenChain,
        board: Board,
        lifeline: int,
    ) -> int:
        listener.close()
        if self.is_temporary:
            Syncs.leave_out()
        return self.core(
            self.genesis,
            self.data_dir,
            live.current,
            core_socket_in(runtime_dir),
            self.dev_keys,
            lifeline,
            abci_socket_of(self.settings, runtime_dir),
            seen,
            self.observing,
            partial(reread, live),
            self.key_files,
            board,
        )

    def _engine(self, runtime_dir: Path) -> EngineChild | None:
        abci_socket = abci_socket_of(self.settings, runtime_dir)
        if self.cometbft is None or abci_socket is None:
            return None
        entry = partial(self._run_cometbft, self.cometbft, abci_socket)
        return EngineChild("cometbft", entry, socket=abci_socket)

    def _run_cometbft(self, cometbft: CometBFT, abci_socket: Path, lifeline: int) -> int:
        try:
            cometbft.become(abci_socket, self.settings.cometbft_rpc)
        except OSError as error:
            log.error("cannot start CometBFT", program=str(cometbft.binary), reason=str(error))
        return EXIT_OK

    def _run_worker(
        self,
        index: int,
        listener: socket.socket,
        runtime_dir: Path,
        live: LiveSettings,
        genesis_file: bytes,
        board: Board,
        lifeline: int,
    ) -> int:
        scratch_dir = runtime_dir / f"worker-{index}"
        # A worker that was killed leaves its files behind; the next one starts clean.
        shutil.rmtree(scratch_dir, ignore_errors=True)
        scratch_dir.mkdir(mode=0o700)
        core_socket = core_socket_in(runtime_dir)
        try:
            self.worker(
                index,
                live.current,
                listener,
                core_socket,
                scratch_dir,
                lifeline,
                self.genesis.chain_id,
                partial(reread, live),
                genesis_file,
                board,
            )
        except Fatal as failure:
            print_fatal(failure)
            return EXIT_FATAL
        return EXIT_OK


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the node answers."""

    host: str
    port: int
    tls: bool

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"

    def is_ready(self) -> bool:
        """Whether GET /ready answers 200, asked over the network as any client would."""
        # A node that listens on every address is asked on loopback.
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        try:
            with socket.create_connection((host, self.port), PROBE_TIMEOUT_S) as connection:
                return self._ask(connection)
        except OSError:
            return False

    def _ask(self, connection: socket.socket) -> bool:
        if self.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            # Our own certificate, on our own machine, for a name that is not "localhost".
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            connection = context.wrap_socket(connection)
        connection.sendall(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return connection.recv(64).startswith(b"HTTP/1.1 200 ")


@dataclass(slots=True)
class LogWatch:
    """Reads what CometBFT writes about the network, and ends the node when that has another state."""

    supervisor: Supervisor
    log_file: CometBftLog
    quiet_looks: int = 0

    def look(self) -> None:
        found = self.log_file.look()
        if found.has_diverged:
            log.critical(
                "this node has computed another state than its network: the validators signed a block that does not "
                "follow from the blocks here. The node stops; see docs/network.md"
            )
            self.supervisor.fail(EXIT_DIVERGED)
            return
        self.quiet_looks -= 1
        if found.other_network is not None and self.quiet_looks < 0:
            log.error(
                "a peer is of another network and is refused: compare the genesis.json of both",
                its_network=found.other_network,
            )
            self.quiet_looks = REPEAT_AFTER_LOOKS
        self.supervisor.call_later(LOG_POLL_S, self.look)


def _await_ready(supervisor: Supervisor, endpoint: Endpoint, on_ready: Callable[[str], None], poll_s: float) -> None:
    """Ask until the node is ready, ever more seldom: a large chain may take its time to open."""
    if endpoint.is_ready():
        on_ready(endpoint.url)
        return
    slower_s = min(poll_s * 1.5, SLOWEST_READY_POLL_S)
    supervisor.call_later(poll_s, partial(_await_ready, supervisor, endpoint, on_ready, slower_s))


def open_listener(host: str, port: int) -> socket.socket:
    """Listen, so that clients can queue from now on. Raises `InvalidConfig` that says why when that is refused."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InvalidConfig(f"cannot listen on {host}: {error.strerror}") from None
    except UnicodeError:
        raise InvalidConfig(f"cannot listen on {host}: it is not a host name") from None
    try:
        # Without it a restart would fail for a minute, while old connections linger.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        hint = "; choose another with --port" if error.errno == errno.EADDRINUSE else ""
        raise InvalidConfig(f"cannot listen on {host} port {port}: {os.strerror(error.errno or 0)}{hint}") from None
    return listener


def check_tls(settings: Settings) -> None:
    """Raise `InvalidConfig` for a certificate that no worker could serve with. Keep one that it can."""
    if settings.tls_cert:
        certificates.keep(certificates.Pair(settings.tls_cert, settings.tls_key))


def keep_certificate(supervisor: Supervisor, live: LiveSettings) -> None:
    """Have the renewed pair at hand, as the workers that run do, for one that starts when the files are of no use."""
    certificates.keep_renewed(certificates.Pair(live.current.tls_cert, live.current.tls_key))
    supervisor.call_later(certificates.RECHECK_S, partial(keep_certificate, supervisor, live))


def reload(live: LiveSettings) -> bool:
    """In the supervisor: take over the settings, and say so. Returns whether the other processes are to do so, too."""
    try:
        changes = live.reread()
    except InvalidConfig as error:
        log.error("the settings are left as they were", reason=error.detail)
        return False
    apply_to_process(live.current)
    log.info("the settings were read again", changed=list(changes.taken))
    if changes.need_restart:
        log.warning("some settings change only when the node is started again", settings=list(changes.need_restart))
    return True


def reread(live: LiveSettings) -> Settings:
    """In any other process: the settings after a change."""
    try:
        live.reread()
    except InvalidConfig as error:
        log.error("the settings are left as they were", reason=error.detail)
    apply_to_process(live.current)
    return live.current


def apply_to_process(settings: Settings) -> None:
    configure_logging(settings.log_level, settings.log_format)
    raise_file_limit(settings.max_connections)


def raise_file_limit(max_connections: int) -> None:
    """Let every process open what the settings promise: many systems start a program with 1,024 files."""
    wanted = max_connections + FILES_BESIDES_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < wanted:
        log.warning("the system's limit of open files is below max_connections", limit=hard, wanted=wanted)


def abci_socket_of(settings: Settings, runtime_dir: Path) -> Path | None:
    """Where CometBFT reaches the core; None on a node that makes its blocks alone."""
    if settings.engine == "embedded":
        return None
    return Path(settings.abci_socket) if settings.abci_socket else runtime_dir / "abci.sock"


def core_socket_in(runtime_dir: Path) -> Path:
    return runtime_dir / "core.sock"


def runtime_directory() -> AbstractContextManager[Path]:
    """For sockets and scratch files; where paths are short enough for a socket."""
    parent = Path(tempfile.gettempdir())
    longest = core_socket_in(parent / f"{RUNTIME_PREFIX}12345678")
    if len(os.fsencode(longest)) > LONGEST_SOCKET_PATH_BYTES:
        parent = Path("/tmp")
    return temporary_directory(RUNTIME_PREFIX, parent)
