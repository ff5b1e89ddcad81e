"""The rows of the comparison, and the bars that Cairn must reach in it."""

from dataclasses import dataclass

REST, RPC = "cairn-rest", "cairn-rpc"
OURS = (REST, RPC)
ALONE = "cairn"
"""The target of what is measured on Cairn only."""


@dataclass(frozen=True, slots=True)
class Row:
    key: str
    """The figure's name in the samples."""
    measurement: str
    label: str
    unit: str
    more_is_better: bool = False
    is_plotted: bool = False
    peers_as: str = ""
    """The row that has the peers' figures, where only Cairn is measured in another way."""


ROWS = (
    Row("accepted_per_s", "write", "transactions accepted", "/s", True, True),
    Row("confirmed_per_s", "write", "transactions confirmed", "/s", True, True),
    Row("post_p50_ms", "write", "submission answered, p50", "ms"),
    Row("post_p99_ms", "write", "submission answered, p99", "ms", False, True),
    Row("cpu_us", "write", "CPU a confirmed transaction", "µs", False, True),
    Row("tx_per_s", "tx", "transaction by hash", "/s", True, True),
    Row("receipt_per_s", "receipt", "receipt", "/s", True, True),
    Row("block_per_s", "block", "block with 200 hashes", "/s", True, True),
    Row("full_block_per_s", "full-block", "block with 200 transactions", "/s", True, True),
    Row("account_per_s", "account", "account's balance", "/s", True, True),
    Row("mixed_per_s", "mixed", "mixed: 9 reads for each write", "/s", True, True),
    Row("mixed_p99_ms", "mixed", "mixed, p99", "ms"),
    Row("mempool_per_s", "mempool", "mempool with 100 queued transactions", "/s", True),
    Row("instant_p50_ms", "instant", "instant mode: submission to receipt, p50", "ms", False, True),
    Row(
        "dev_instant_p50_ms",
        "instant-dev",
        "instant mode, Cairn as `cairn dev`: submission to receipt, p50",
        "ms",
        peers_as="instant_p50_ms",
    ),
    Row("sockets_ms", "sockets", "2,000 sockets: submission to the last one", "ms", False, True),
    Row("many_sockets_ms", "many-sockets", "10,000 sockets: submission to the last one", "ms"),
    Row("sustained_first_per_s", "sustained", "60 s of writes: accepted, first third", "/s", True),
    Row("sustained_last_per_s", "sustained", "60 s of writes: accepted, last third", "/s", True),
    Row("sustained_p99_ms", "sustained", "60 s of writes: p99", "ms"),
    Row("start_s", "start", "start to the first answer", "s"),
    Row("idle_pss_mb", "start", "memory at rest (PSS)", "MB"),
    Row("idle_cpu_percent", "start", "CPU at rest", "% of a core"),
)
BY_KEY = {row.key: row for row in ROWS}


@dataclass(frozen=True, slots=True)
class Bar:
    """What a row must be, against the best peer or against one of them: at least so much, or at most."""

    key: str
    factor: float
    targets: tuple[str, ...] = OURS
    against: str = ""
    """A peer; the best one if empty."""


BARS = (
    Bar("accepted_per_s", 1.8),
    Bar("confirmed_per_s", 1.8),
    Bar("post_p99_ms", 0.5),
    Bar("cpu_us", 0.33),
    Bar("tx_per_s", 2.0, (REST,)),
    Bar("tx_per_s", 1.5, (RPC,)),
    Bar("receipt_per_s", 1.5),
    Bar("block_per_s", 1.5),
    Bar("full_block_per_s", 1.5, (RPC,)),
    Bar("account_per_s", 2.0, (REST,)),
    Bar("account_per_s", 1.5, (RPC,)),
    Bar("sockets_ms", 0.4),
    Bar("instant_p50_ms", 1.0, against="anvil"),
    Bar("dev_instant_p50_ms", 1.0, against="anvil"),
)


@dataclass(frozen=True, slots=True)
class OwnBar:
    """A figure of Cairn alone, or one that is a ratio already."""

    key: str
    measurement: str
    label: str
    unit: str
    bar: float
    more_is_better: bool = False


OWN_BARS = (
    OwnBar(
        "depth_read_ratio", "depth", "reads at 10 million stored: cost against 10 thousand, the worst kind", "x", 1.3
    ),
    OwnBar(
        "depth_write_ratio", "depth", "writes at 10 million stored: cost against 10 thousand, the worst kind", "x", 1.1
    ),
    OwnBar("kvstore_ratio", "network", "four validators: confirmed against CometBFT's kvstore", "x", 0.7, True),
    OwnBar("light_cpu_ms", "light", "four validators: CPU a transaction at 60/s, all of them", "ms", 3.0),
)
