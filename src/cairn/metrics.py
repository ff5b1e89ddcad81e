"""Every series that a node shows at /metrics, declared once. docs/metrics.md says what each is for.

Names are those of Prometheus' conventions: seconds and bytes, and `_total` for what only grows.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, get_args

from cairn import metrics_processes
from cairn.build import COMMIT, DATA_FORMAT, VERSION
from cairn.domain.errors import BY_CODE
from cairn.domain.types import DropReason
from cairn.metrics_page import (
    GROUP,
    NONE_LEFT,
    OTHER,
    SECONDS,
    Counter,
    Described,
    Family,
    Gauge,
    Histogram,
    Kind,
    Level,
    OfProcess,
    OfSystem,
    Page,
    Roster,
    Row,
    Tally,
    Total,
    head_of,
    histogram_lines,
    line_of,
)

PAGE: Final = Page()

PAGES: Final = "pages"
CALLS: Final = "POST /rpc"
ROUTES: Final = (
    "POST /tx",
    "POST /txs",
    CALLS,
    "POST /faucet",
    "POST /accounts",
    "POST /validators",
    "GET /tx/{hash}",
    "GET /tx/{hash}/proof",
    "GET /tx/{hash}/receipt",
    "GET /account/{address}",
    "GET /account/{address}/txs",
    "GET /account/{address}/proof",
    "GET /account/{address}/statement",
    "GET /block/{hash}",
    "GET /block/{hash}/finality",
    "GET /blocks",
    "GET /chain",
    "GET /mempool",
    "GET /genesis",
    "GET /history/proof",
    "GET /validators",
    "GET /health",
    "GET /ready",
    "GET /startup",
    PAGES,
    OTHER,
)
"""`pages` are the explorer and the description of the API. `other` is what has no route: unknown paths, and requests
that are refused before it is known what they ask for."""
STATUSES: Final = (200, 204, 304, 400, 403, 404, 405, 408, 409, 413, 415, 422, 426, 429, 431, 500, 503)
RPC_METHODS: Final = (
    "cairn_dataSize",
    "debug_getRawBlock",
    "debug_getRawHeader",
    "debug_getRawTransaction",
    "eth_accounts",
    "eth_blobBaseFee",
    "eth_blockNumber",
    "eth_call",
    "eth_chainId",
    "eth_coinbase",
    "eth_estimateGas",
    "eth_feeHistory",
    "eth_gasPrice",
    "eth_getBalance",
    "eth_getBlockByHash",
    "eth_getBlockByNumber",
    "eth_getBlockReceipts",
    "eth_getBlockTransactionCountByHash",
    "eth_getBlockTransactionCountByNumber",
    "eth_getCode",
    "eth_getFilterChanges",
    "eth_getFilterLogs",
    "eth_getLogs",
    "eth_getProof",
    "eth_getRawTransactionByBlockHashAndIndex",
    "eth_getRawTransactionByBlockNumberAndIndex",
    "eth_getRawTransactionByHash",
    "eth_getStorageAt",
    "eth_getTransactionByBlockHashAndIndex",
    "eth_getTransactionByBlockNumberAndIndex",
    "eth_getTransactionByHash",
    "eth_getTransactionCount",
    "eth_getTransactionReceipt",
    "eth_getUncleCountByBlockHash",
    "eth_getUncleCountByBlockNumber",
    "eth_maxPriorityFeePerGas",
    "eth_newBlockFilter",
    "eth_newFilter",
    "eth_newPendingTransactionFilter",
    "eth_sendRawTransaction",
    "eth_sendRawTransactionSync",
    "eth_sendTransaction",
    "eth_simulateV1",
    "eth_subscribe",
    "eth_syncing",
    "eth_uninstallFilter",
    "eth_unsubscribe",
    "net_listening",
    "net_peerCount",
    "net_version",
    "rpc_modules",
    "txpool_content",
    "txpool_contentFrom",
    "txpool_inspect",
    "txpool_status",
    "web3_clientVersion",
    "web3_sha3",
    OTHER,
)
"""`other` are the methods of dev chains, and those that do not exist."""
CLOSE_CODES: Final = ("1000", "1001", "1002", "1003", "1006", "1007", "1008", "1009", "1011", "1013", "4000", OTHER)
READY_PARTS: Final = ("disk", "core", "engine", "peers")

MOST_VALIDATORS: Final = 128
"""Of a larger network, the others are left out."""

SUPERVISOR: Final = "cairn-supervisor"


class Traffic(Family):
    """The answers of each route by status, and how long they took.

    For each route: a count by status, a count for each bound of a duration but the first, and the sum of all durations.
    Nearly all requests are below the first bound, so that is what the others leave of the total: counting a request
    then costs one count and one sum.

    Behind the routes, each method of JSON-RPC has a count of calls that came alone and were answered at once, as asked.
    They are counted only there, and shown both with the 200s of their route and as calls (`Calls`).
    """

    kind: Kind = "counter"
    duration_name = "cairn_http_request_duration_seconds"
    duration_help = "Time from a whole request, or its place at the head of its connection's line, to its answer."
    statuses = tuple(map(str, STATUSES)) + (OTHER,)
    slow_at = len(statuses)
    """Where the counts of those above the first bound begin."""
    sum_at = slow_at + len(SECONDS)
    cells_each = sum_at + 1

    def __init__(self, page: Page) -> None:
        self._routes: dict[str, RouteTraffic] = {}
        self._methods: dict[str, RouteTraffic] = {}
        self._methods_at = len(ROUTES) * self.cells_each
        super().__init__(page, "cairn_http_requests_total", "HTTP requests that were answered.", route=ROUTES)

    @property
    def cells(self) -> int:
        return self._methods_at + len(RPC_METHODS)

    def described(self) -> list[Described]:
        return [
            Described(self.name, self.kind, ("route", "code"), self.help),
            Described(self.duration_name, "histogram", ("route",), self.duration_help),
        ]

    def lines(self, page: Page) -> Iterator[str]:
        counts = page.total_counts(self)
        counts[self.cell(CALLS) + STATUSES.index(200)] += sum(counts[self._methods_at :])
        starts = range(0, self._methods_at, self.cells_each)
        for key, at in zip(self.keys, starts, strict=True):
            tags = self.tags(key)
            for status, count in zip(self.statuses, counts[at : at + self.slow_at], strict=True):
                yield line_of(self.name, [*tags, f'code="{status}"'], str(count))
        yield head_of(self.duration_name, self.duration_help, "histogram")
        numbers = page.total_numbers(self)
        for key, at in zip(self.keys, starts, strict=True):
            slow = counts[at + self.slow_at : at + self.sum_at]
            fast = max(0, sum(counts[at : at + self.slow_at]) - sum(slow))
            yield from histogram_lines(
                self.duration_name, self.tags(key), SECONDS, [fast, *slow], numbers[at + self.sum_at]
            )

    def bind(self, page: Page, own: Row, node: Row) -> None:
        super().bind(page, own, node)
        self._routes, self._methods = {}, {}

    def of_route(self, route: str) -> "RouteTraffic":
        """To be asked for in the process that counts, after its fork."""
        if route not in self._routes:
            self._routes[route] = RouteTraffic(self, route, self.cell(route) + STATUSES.index(200))
        return self._routes[route]

    def of_method(self, method: str) -> "RouteTraffic":
        """Counts the answers to calls of a method that come alone and are answered at once, as asked."""
        name = method if method in RPC_METHODS else OTHER
        if name not in self._methods:
            self._methods[name] = RouteTraffic(self, CALLS, self._methods_at + RPC_METHODS.index(name))
        return self._methods[name]

    def calls(self, page: Page) -> dict[str, int]:
        """By method: those that are counted for `of_method`."""
        return dict(zip(RPC_METHODS, page.total_counts(self)[self._methods_at :], strict=True))


FAST_S: Final = SECONDS[0]
FAST: Final = 0.0
"""Stands for the time of an answer that took at most `FAST_S`."""
_BOUNDS = (*SECONDS, math.inf)


class RouteTraffic(Tally):
    """Counts the answers of one route, or of one method on it. No other process writes to its cells.

    It is itself the tally of those with 200. What is asked for most and takes least, at most `FAST_S`, is counted by
    the connection in that way, as `HttpProtocol` shows, or with others of its turn (`GatheredAnswers`). Some times are
    added then, and stand for all of those since the last.
    """

    __slots__ = ("_cells", "_numbers", "_other_at", "_slow_at", "_sum_at", "_timed", "fast_s")

    def __init__(self, traffic: Traffic, route: str, tally_at: int) -> None:
        """Those with 200 are counted in the cell `tally_at`."""
        at = traffic.cell(route)
        self._numbers = traffic.own.numbers
        self._cells = {status: at + index for index, status in enumerate(STATUSES)}
        self._other_at = at + len(STATUSES)
        self._slow_at, self._sum_at = at + Traffic.slow_at, at + Traffic.sum_at
        super().__init__(traffic.own, tally_at)
        self.fast_s = 0.0
        self._timed = self._counts[tally_at]
        """How many of those with 200 have their time in the sum."""

    def end_fast_group(self, took_s: float) -> None:
        """Count the last answer of a group, which took so long."""
        self.fast_s = took_s
        self.answered_together([FAST])
        self._begin_group()

    def answered_together(self, times_s: list[float]) -> None:
        """Count answers with 200. For those of at most `FAST_S`, which are given as `FAST`, `fast_s` stands."""
        number, fast = len(times_s), times_s.count(FAST)
        counts = self._counts
        counts[self._cell] = counted = counts[self._cell] + number
        # So the next that is counted alone begins another group.
        self.left_of_group = NONE_LEFT
        if fast < number:
            self._timed += number - fast
            self._numbers[self._sum_at] += sum(times_s)
            times_s.sort()
            begin, slow_at = fast, self._slow_at - 1
            while begin < number:
                bound = bisect_left(_BOUNDS, times_s[begin])
                end = bisect_right(times_s, _BOUNDS[bound], begin)
                counts[slow_at + bound] += end - begin
                begin = end
        if counted - self._timed >= GROUP:
            self._numbers[self._sum_at] += (counted - self._timed) * self.fast_s
            self._timed = counted

    def answered(self, status: int, took_s: float) -> None:
        if status == 200:
            self.count()
            self._timed += 1
        else:
            self._counts[self._cells.get(status, self._other_at)] += 1
        self._numbers[self._sum_at] += took_s
        if took_s > FAST_S:
            self._counts[self._slow_at + bisect_left(SECONDS, took_s) - 1] += 1


class Calls(Counter):
    """The calls of each method of JSON-RPC. Those that are counted with the traffic are in no cell of this family."""

    def __init__(self, page: Page, traffic: Traffic) -> None:
        self._traffic = traffic
        help = "JSON-RPC calls that were answered, over HTTP and WebSocket."
        super().__init__(page, "cairn_rpc_requests_total", help, method=RPC_METHODS, outcome=("ok", "error"))

    def totals(self, page: Page) -> list[int]:
        totals = super().totals(page)
        for method, count in self._traffic.calls(page).items():
            totals[self.cell(method, "ok")] += count
        return totals


BUILD = Gauge(
    PAGE,
    "cairn_build_info",
    "The program that runs: always 1.",
    version=(VERSION,),
    commit=(COMMIT,),
    format=(str(DATA_FORMAT),),
)
READY = Gauge(
    PAGE, "cairn_ready", "1 while the part is in order, 0 while /ready names it as at fault.", part=READY_PARTS
)
RESTARTS = OfProcess(
    PAGE, "counter", "cairn_process_restarts_total", "Ends of a process that were followed by a new start."
)

HTTP = Traffic(PAGE)
HTTP_REFUSALS = Counter(
    PAGE,
    "cairn_http_refusals_total",
    "Refusals, over REST and JSON-RPC, by the code of the error.",
    code=(*BY_CODE, OTHER),
)
HTTP_CONNECTIONS = Level(
    PAGE,
    "cairn_http_connections",
    "Open HTTP connections: those with a request at work, and idle ones; as of a second ago.",
    state=("active", "idle"),
)
RPC_REQUESTS = Calls(PAGE, HTTP)
WEBSOCKETS = Level(PAGE, "cairn_websocket_connections", "Open WebSockets.")
WEBSOCKETS_CLOSED = Counter(
    PAGE,
    "cairn_websocket_closed_total",
    "WebSockets that have ended, by the code of whoever closed first; 1006 for a lost connection.",
    code=CLOSE_CODES,
)

MEMPOOL = Gauge(PAGE, "cairn_mempool_transactions", "Transactions in the mempool.", state=("pending", "queued"))
MEMPOOL_LIMIT = Gauge(PAGE, "cairn_mempool_limit", "The most transactions that the mempool takes.")
MEMPOOL_ADMITTED = Counter(PAGE, "cairn_mempool_admitted_total", "Transactions that the mempool has taken in.")
MEMPOOL_DROPPED = Counter(
    PAGE,
    "cairn_mempool_dropped_total",
    "Transactions that left the mempool unconfirmed.",
    reason=get_args(DropReason),
)

HEIGHT = Gauge(PAGE, "cairn_chain_height", "Height of the latest block.")
BLOCK_TIME = Gauge(PAGE, "cairn_chain_block_timestamp_seconds", "Time of the latest block.")
CHAIN_TRANSACTIONS = Counter(
    PAGE, "cairn_chain_transactions_total", "Transactions in the blocks that were written since the start."
)
BLOCK_BUILD = Histogram(
    PAGE, "cairn_block_build_duration_seconds", "Time to execute the transactions of a block and compute its hashes."
)
BLOCK_COMMIT = Histogram(PAGE, "cairn_block_commit_duration_seconds", "Time to write a block to the store and sync it.")
JOURNAL_SYNC = Histogram(PAGE, "cairn_journal_sync_duration_seconds", "Time to write the journal and sync it.")
STORE_SIZE = Gauge(PAGE, "cairn_store_size_bytes", "Space that the data directory takes; as of 30 s ago at most.")
STORE_FREE = Gauge(PAGE, "cairn_store_free_bytes", "Free space on the disk of the data directory.")

BACKUP_TIME = Gauge(
    PAGE, "cairn_backup_timestamp_seconds", "When the latest backup was made by `cairn backup`; as of 30 s ago at most."
)

HAND_OVER_REFUSED = Gauge(
    PAGE,
    "cairn_signing_key_not_on_disk",
    "1 while the node does not hand over to its next signing key, because it cannot read that back from its file.",
)

CORE_HEARTBEAT = Gauge(
    PAGE, "cairn_core_heartbeat_timestamp_seconds", "When the core's event loop last ran, by the machine's clock."
)
CORE_LOOP_LAG = Histogram(PAGE, "cairn_core_loop_lag_seconds", "How late the core's event loop ran a timer.")
CERTIFICATE_EXPIRY = Gauge(
    PAGE, "cairn_certificate_expiry_timestamp_seconds", "When the TLS certificate that is served expires."
)

# Only on a network.
PEERS = Gauge(PAGE, "cairn_peers", "Nodes of the network that this one is connected to.")
CATCHING_UP = Gauge(PAGE, "cairn_chain_catching_up", "1 while the network has newer blocks than this node, else 0.")
LAG = Gauge(
    PAGE,
    "cairn_chain_lag_blocks",
    "By how many blocks most peers are ahead; asked for only when the latest block is old.",
)
VALIDATORS = Gauge(PAGE, "cairn_validators", "Validators of the network.")
ABSENT_VALIDATORS = Gauge(
    PAGE, "cairn_validators_absent", "Validators whose vote is missing in the latest block that was voted on."
)
MISSED_BLOCKS = Roster(
    PAGE,
    "cairn_validator_missed_blocks",
    "In how many of the latest 100 blocks the vote of the validator is missing.",
    label="validator",
    most=MOST_VALIDATORS,
)
EVIDENCE = Total(PAGE, "cairn_evidence_total", "Pieces of evidence against validators in the chain.")

PROCESS_CPU = OfSystem(
    PAGE,
    "counter",
    "process_cpu_seconds_total",
    "Processor time that the process has used since its start.",
    metrics_processes.cpu_seconds,
)
PROCESS_MEMORY = OfSystem(
    PAGE,
    "gauge",
    "process_resident_memory_bytes",
    "Resident memory of the process, with what it shares with the others.",
    metrics_processes.resident_bytes,
)
PROCESS_FILES = OfSystem(
    PAGE, "gauge", "process_open_fds", "File descriptors that the process has open.", metrics_processes.open_files
)
PROCESS_MAX_FILES = OfSystem(
    PAGE,
    "gauge",
    "process_max_fds",
    "The most file descriptors that the process may open.",
    metrics_processes.max_files,
)
PROCESS_START = OfSystem(
    PAGE, "gauge", "process_start_time_seconds", "When the process was started.", metrics_processes.start_time
)
