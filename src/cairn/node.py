"""The composition root: opens the socket, builds the core and the workers, and hands them to the supervisor."""

import errno
import gc
import os
import resource
import shutil
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
import structlog

from cairn import __version__, metrics
from cairn.api.server import certificates
from cairn.api.server.http_server import BACKLOG
from cairn.api.worker import run_worker
from cairn.board import Board
from cairn.build import COMMIT, DATA_FORMAT, VERSION, described
from cairn.cometbft import CometBFT, CometBftLog
from cairn.config import EXIT_DIVERGED, EXIT_FATAL, EXIT_VERSION, Settings
from cairn.core.gateway import UNOBSERVED, Observing
from cairn.core.process import run_core
from cairn.domain.answers import Readiness
from cairn.domain.errors import AddressUnavailable, Fatal, InvalidConfig
from cairn.domain.genesis import Genesis, encode_genesis
from cairn.domain.types import Address
from cairn.live_settings import LiveSettings
from cairn.log import configure_logging, log_uncaught, print_fatal
from cairn.memory import map_large_blocks
from cairn.running_node import RunningNode, announced, core_socket_in
from cairn.runtime_directory import runtime_directory
from cairn.service_manager import ServiceManager
from cairn.store.directory import SeenChain, Syncs
from cairn.store.signing_key import KeyFiles
from cairn.supervisor import EXIT_OK, EngineChild, Supervisor

FILES_BESIDES_CONNECTIONS = 4096
"""Above all the store's: it keeps every one of its files open."""

GC_THRESHOLDS = (2_000, 10, 20)
"""After how many new objects Python's garbage collector looks at those, and how seldom at older ones.

Others wait meanwhile: 0.3 to 1.2 ms for 2,000 objects, and 1.5 to 6 ms for 10,000 on the same machine. Looking more
often costs nothing: what a node makes in bulk is freed by reference counts, and hardly ever comes to a collection.
"""

LOG_POLL_S = 1.0

READY_POLL_S = 0.02
SLOWEST_READY_POLL_S = 0.5
PROBE_TIMEOUT_S = 0.5
LARGEST_PROBE_ANSWER_BYTES = 65_536
STATUS_POLL_S = 5.0
"""How old the status that a service manager shows may be."""

LATER = (errno.EADDRINUSE, errno.EADDRNOTAVAIL)
"""Another program may leave the port, and an interface may get its address after the node is started."""

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
WorkerEntry = Callable[
    [int, Settings, socket.socket, Path, Path, int, int, Reread, bytes, Board, socket.socket | None, Path | None], None
]


@dataclass(frozen=True, slots=True)
class Listeners:
    """The sockets on which the workers accept connections."""

    api: socket.socket
    metrics: socket.socket | None

    def close(self) -> None:
        self.api.close()
        if self.metrics is not None:
            self.metrics.close()

    @property
    def metrics_url(self) -> str | None:
        if self.metrics is None:
            return None
        host, port = self.metrics.getsockname()[:2]
        return Endpoint(host, port, tls=False).local_url + "/metrics"


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
    home: Path | None = None
    """Where commands look for a node that runs; None for one that nobody looks after."""
    is_temporary: bool = False
    """Whether the data directory is removed at the end, whatever ends the node or the machine."""
    core: CoreEntry = run_core
    worker: WorkerEntry = run_worker

    def run(self, on_ready: Callable[[str], None]) -> int:
        """Serve until stopped; `on_ready` gets the URL once /ready is 200. Returns the exit code.

        Raises `InvalidConfig` when the address cannot be listened on, before any process is started.
        """
        check_tls(self.settings)
        configure_logging(self.settings.log_level, self.settings.log_format)
        if not self.dev_keys:
            # The first line of every start. A dev chain's version is in its banner.
            log.info("the node starts", version=described(), chain=self.genesis.chain_id, data=str(self.data_dir))
        apply_to_process(self.settings)
        log_uncaught()
        live = LiveSettings(self.settings, self.read_settings, check_tls)
        # Once, for all workers: it may name a million accounts.
        genesis_file = encode_genesis(self.genesis)
        # Before the first fork, so that all processes have it, including those that are started later.
        board = Board()
        engine_log = None if self.cometbft is None else CometBftLog(self.cometbft.log_file)
        service = ServiceManager()
        with ExitStack() as opened:
            listeners = open_listeners(self.settings, opened)
            runtime_dir = opened.enter_context(runtime_directory(self.home or self.data_dir))
            supervisor = Supervisor(
                core=partial(self._run_core, listeners, runtime_dir, live, SeenChain(self.begun_file), board),
                workers=[
                    partial(self._run_worker, index, listeners, runtime_dir, live, genesis_file, board)
                    for index in range(self.settings.workers)
                ],
                drain_delay_s=self.settings.drain_delay_s,
                # While any process holds a socket, new clients would queue in it and never be answered.
                on_stop=listeners.close,
                on_reload=partial(reload, live),
                engine=self._engine(runtime_dir, engine_log),
                parent_pipe=self.parent_pipe,
                service=service,
                board=board,
                # A dev chain's banner does.
                tells_start=not self.dev_keys,
            )
            metrics.BUILD.set(1, VERSION, COMMIT, str(DATA_FORMAT))
            endpoint = Endpoint(self.settings.host, listeners.api.getsockname()[1], tls=bool(self.settings.tls_cert))
            readiness = ReadinessWatch(supervisor, endpoint, service, on_ready)
            supervisor.call_later(READY_POLL_S, readiness.look)
            if self.settings.tls_cert:
                keep_certificate(supervisor, live)
            if engine_log is not None:
                LogWatch(supervisor, engine_log).look()
            # What is loaded by now is shared by all processes for as long as the collector never touches it.
            gc.freeze()
            gc.set_threshold(*GC_THRESHOLDS)
            map_large_blocks()
            with announced(self.home, self._described(endpoint, listeners.metrics_url, runtime_dir)):
                return supervisor.run()

    def _described(self, endpoint: "Endpoint", metrics_url: str | None, runtime_dir: Path) -> RunningNode:
        return RunningNode(
            pid=os.getpid(),
            url=endpoint.local_url,
            metrics_url=metrics_url,
            runtime_dir=str(runtime_dir),
            version=__version__,
            started_at=int(time.time()),
        )

    def _run_core(
        self,
        listeners: Listeners,
        runtime_dir: Path,
        live: LiveSettings,
        seen: SeenChain,
        board: Board,
        lifeline: int,
    ) -> int:
        listeners.close()
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

    def _engine(self, runtime_dir: Path, log_file: CometBftLog | None) -> EngineChild | None:
        abci_socket = abci_socket_of(self.settings, runtime_dir)
        if self.cometbft is None or abci_socket is None:
            return None
        entry = partial(self._run_cometbft, self.cometbft, abci_socket)
        return EngineChild("cometbft", entry, socket=abci_socket, words=log_file)

    def _run_cometbft(self, cometbft: CometBFT, abci_socket: Path, lifeline: int) -> int:
        try:
            cometbft.become(abci_socket, self.settings.cometbft_rpc)
        except OSError as error:
            log.error("cannot start CometBFT", program=str(cometbft.binary), reason=str(error))
        return EXIT_OK

    def _run_worker(
        self,
        index: int,
        listeners: Listeners,
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
                listeners.api,
                core_socket,
                scratch_dir,
                lifeline,
                self.genesis.chain_id,
                partial(reread, live),
                genesis_file,
                board,
                listeners.metrics,
                self.home,
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
        return self._url_of(self.host)

    @property
    def local_url(self) -> str:
        """For programs on this machine."""
        return self._url_of(self._local_host)

    @property
    def _local_host(self) -> str:
        # A node that listens on every address is asked on loopback.
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)

    def _url_of(self, host: str) -> str:
        return f"{'https' if self.tls else 'http'}://{f'[{host}]' if ':' in host else host}:{self.port}"

    def why_not_ready(self) -> str | None:
        """None if GET /ready answers 200, asked over the network as any client would; else what it says."""
        try:
            with socket.create_connection((self._local_host, self.port), PROBE_TIMEOUT_S) as connection:
                head, _, body = self._ask(connection).partition(b"\r\n\r\n")
        except TimeoutError:
            return f"no answer within {PROBE_TIMEOUT_S:g} s"
        except OSError as failure:
            return f"no answer: {failure.strerror or failure}"
        return None if head.startswith(b"HTTP/1.1 200 ") else failed_checks(body)

    def _ask(self, connection: socket.socket) -> bytes:
        if self.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            # Our own certificate, on our own machine, for a name that is not "localhost".
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            connection = context.wrap_socket(connection)
        connection.sendall(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        with connection.makefile("rb") as answer:
            return answer.read(LARGEST_PROBE_ANSWER_BYTES)


def failed_checks(body: bytes) -> str:
    """What the answer of a node that is not ready says is wrong."""
    try:
        answer = msgspec.json.decode(body, type=Readiness)
    except msgspec.DecodeError:
        return "its answer cannot be read"
    reasons = [reason for reason in msgspec.structs.asdict(answer.checks).values() if reason != "ok"]
    return "; ".join(dict.fromkeys(reasons)) or answer.status


@dataclass(slots=True)
class ReadinessWatch:
    """Looks whether the node is ready: to say so once, and for the status that the service manager shows.

    It asks as a client does, even though the supervisor knows what is wrong: an answer is only given after a look at
    the disk. So a disk that fails is noticed even if nobody else asks.
    """

    supervisor: Supervisor
    endpoint: Endpoint
    service: ServiceManager
    on_ready: Callable[[str], None]
    poll_s: float = READY_POLL_S
    was_ready: bool = False

    def look(self) -> None:
        """Again and again; ever more seldom until it is ready, since a large chain may take its time to open."""
        reason = self.endpoint.why_not_ready()
        if reason is None and not self.was_ready:
            self.was_ready = True
            self.supervisor.became_ready(self.endpoint.url)
            self.on_ready(self.endpoint.url)
            self.service.ready()
        self.service.status(f"Ready: {self.endpoint.url}" if reason is None else f"Not ready: {reason}")
        if not self.was_ready:
            self.poll_s = min(self.poll_s * 1.5, SLOWEST_READY_POLL_S)
        elif self.service.listens:
            self.poll_s = STATUS_POLL_S
        else:
            return
        self.supervisor.call_later(self.poll_s, self.look)


@dataclass(slots=True)
class LogWatch:
    """Reads what CometBFT writes about the network, and ends the node when that has another state."""

    supervisor: Supervisor
    log_file: CometBftLog

    def look(self) -> None:
        found = self.log_file.look()
        if found.other_rules is not None:
            here, there = found.other_rules
            log.critical(
                "the network makes its blocks by rules of another version. The node stops; see docs/upgrades.md",
                version_here=here,
                version_of_network=there,
            )
            self.supervisor.fail(EXIT_VERSION)
            return
        if found.has_diverged:
            log.critical(
                "this node has computed another state than its network: the validators signed a block that does not "
                "follow from the blocks here. The node stops; see docs/network.md"
            )
            self.supervisor.fail(EXIT_DIVERGED)
            return
        if found.other_network is not None:
            log.error(
                "a peer is of another network and is refused: compare the genesis.json of both",
                its_network=found.other_network,
            )
        self.supervisor.call_later(LOG_POLL_S, self.look)


def open_listeners(settings: Settings, opened: ExitStack) -> Listeners:
    """Listen as the settings say, until `opened` is closed. Raises `InvalidConfig`."""
    api = opened.enter_context(open_listener(settings.host, settings.port))
    if not settings.metrics_port:
        return Listeners(api, None)
    metrics_listener = open_listener(settings.metrics_host, settings.metrics_port, "--metrics-port")
    return Listeners(api, opened.enter_context(metrics_listener))


def open_listener(host: str, port: int, option: str = "--port") -> socket.socket:
    """Listen, so that clients can queue from now on.

    Raises `InvalidConfig` that says why when that is refused; `AddressUnavailable` if it may work later.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise AddressUnavailable(f"cannot listen on {host}: {error.strerror}") from None
    except UnicodeError:
        raise InvalidConfig(f"cannot listen on {host}: it is not a host name") from None
    try:
        # Without it a restart would fail for a minute, while old connections linger.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        hint = f"; choose another with {option}" if error.errno == errno.EADDRINUSE else ""
        refusal = AddressUnavailable if error.errno in LATER else InvalidConfig
        raise refusal(f"cannot listen on {host} port {port}: {os.strerror(error.errno or 0)}{hint}") from None
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
