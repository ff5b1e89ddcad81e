"""Every node setting, once: its name, type, default, help and bounds. Parsed once, then frozen.

Flags override the environment (CAIRN_ and the name in capitals), which overrides the file (cairn.toml).
Chain rules (chain id, gas price, block gas limit, balances) are not here: they live in genesis.
"""

import contextlib
import difflib
import json
import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from ipaddress import ip_network
from typing import Any, NamedTuple, get_type_hints

from cairn.domain.crypto import checksum_address, parse_address
from cairn.domain.errors import InvalidConfig, InvalidField
from cairn.domain.types import ZERO_ADDRESS, Address
from cairn.processors import usable_processors

ENV_PREFIX = "CAIRN_"
CONFIG_FILE = "cairn.toml"
COMMAND_VARIABLES = ("CAIRN_NODE", "CAIRN_KEYS", "CAIRN_PASSWORD", "CAIRN_FORWARD_SECRET")
"""Variables of the commands that use a node. They are not settings, but not unknown either."""

MOST_WORKERS_UNLESS_SET = 4
"""The core takes about a third of a submission's time, so more would wait for it. An idle one takes some 10 MB."""

LOG_SETTINGS = ("log_level", "log_format")
"""How to tell what is wrong with the settings."""

EXIT_FATAL = 3
"""The exit code of a node, or of one of its processes, that must not be started again without a repair."""
EXIT_DIVERGED = 8
"""The exit code of a node whose network has signed another state than it has computed."""
EXIT_VERSION = 9
"""The exit code of a node with which another version of the program must go on."""


def setting(
    default: Any, help: str, *, least: float | None = None, most: float | None = None, one_of: tuple[str, ...] = ()
) -> Any:
    """A field of `Settings`; the help text is what `cairn init` writes above the key."""
    return field(default=default, metadata={"help": help, "least": least, "most": most, "one_of": one_of})


@dataclass(frozen=True, slots=True)
class Settings:
    host: str = setting("127.0.0.1", "Address to listen on. The default accepts connections from this machine only.")
    port: int = setting(8645, "Port to listen on; 0 chooses a free one.", least=0, most=65_535)
    metrics_host: str = setting(
        "127.0.0.1", "Address on which metrics are served. The default shows them to this machine only."
    )
    metrics_port: int = setting(
        0,
        "Port on which metrics are served, at /metrics, in Prometheus' text format; 0 serves none.",
        least=0,
        most=65_535,
    )
    workers: int = setting(
        min(MOST_WORKERS_UNLESS_SET, usable_processors()),
        "Number of API workers. Unless set, one for each processor that the node may use, at most 4.",
        least=1,
        most=256,
    )

    block_time_s: float = setting(
        1.0,
        "Seconds between blocks when there is something to include; 0 makes a block at once after each submission.",
        least=0,
        most=86_400,
    )
    empty_blocks: bool = setting(False, "Make a block every block time, even when there is nothing to include.")
    proposer: Address = setting(ZERO_ADDRESS, "Account that receives the fees of the blocks that this node makes.")

    engine: str = setting(
        "embedded",
        "What makes the blocks: embedded (this node alone) or cometbft (the validators that genesis names).",
        one_of=("embedded", "cometbft"),
    )
    cometbft_binary: str = setting(
        "", "Path of the cometbft program; empty means the one that `make cometbft` built, else the first on PATH."
    )
    cometbft_home: str = setting(
        "", "Home directory of this node's CometBFT; empty means cometbft/ in the node's home directory."
    )
    cometbft_rpc: str = setting(
        "",
        "Address of CometBFT's RPC, as tcp://127.0.0.1:26657 or unix:///path; empty means the one in its config.toml.",
    )
    cometbft_attach: bool = setting(
        False, 'Do not start CometBFT: the operator runs it, with proxy_app = "unix://" and the path of abci_socket.'
    )
    abci_socket: str = setting("", "Unix socket on which CometBFT connects to this node; empty means a private one.")
    halt_after_s: float = setting(
        15.0,
        "Seconds without a new block after which /ready is 503; more than CometBFT's interval of empty blocks.",
        least=1,
    )
    halt_height: int = setting(
        0,
        "With the engine cometbft: the last block that this version makes. After it the node stops, so that a version "
        "with other rules can continue. 0 means none.",
        least=0,
    )
    snapshot_interval: int = setting(
        0,
        "With the engine cometbft: blocks between two state snapshots, from which new nodes can start; 0 takes none.",
        least=0,
    )
    retain_blocks: int = setting(
        0, "How many of the latest blocks to keep; the disk space of older ones is freed. 0 keeps all.", least=0
    )

    mempool_size: int = setting(100_000, "Maximum number of transactions in the mempool.", least=1)
    mempool_per_sender: int = setting(
        10_000,
        "Maximum number of transactions of one sender in the mempool; a tenth of mempool_size unless set.",
        least=1,
    )
    mempool_nonce_gap: int = setting(64, "How far ahead of its sender's next nonce a transaction may be.", least=0)
    mempool_lifetime_s: int = setting(
        10_800,
        "Seconds, counted while the node runs, after which a transaction that waits for a missing nonce expires.",
        least=1,
    )

    max_body_bytes: int = setting(128 * 1024, "Maximum size of a request body.", least=1)
    max_batch_body_bytes: int = setting(
        2 * 1024 * 1024,
        "Maximum size of a request body of POST /txs and POST /rpc, and of a WebSocket message to /rpc.",
        least=1,
    )
    max_unanswered_bytes: int = setting(
        64 * 1024 * 1024,
        "Bytes of requests that a worker holds until they are answered; one client gets at most half. "
        "The first 8 KiB of a connection are not counted.",
        least=1,
    )
    header_timeout_s: float = setting(10.0, "Seconds within which a client must send a whole request.", least=0.1)
    first_byte_timeout_s: float = setting(
        5.0, "Seconds that a new connection may stay silent before it is closed.", least=0.1
    )
    idle_timeout_s: float = setting(75.0, "Seconds after which an idle connection is closed.", least=0.1)
    max_connections: int = setting(
        10_000,
        "Maximum number of connections at once; each worker takes an equal share. "
        "Idle ones are closed to make room for new ones.",
        least=1,
    )
    max_connections_per_client: int = setting(
        1_000,
        "Maximum number of connections at once from one client address; each worker takes an equal share. "
        "0 means no limit. Loopback is not limited.",
        least=0,
    )
    rate_limit_per_s: float = setting(
        200.0,
        "Requests per second and worker that one client address may make; 0 means no limit. Loopback is not limited.",
        least=0,
    )
    rate_limit_burst: int = setting(
        400, "Requests per worker that a client may make at once before the rate limit applies.", least=1
    )

    trusted_proxies: tuple[str, ...] = setting(
        (),
        "Addresses and networks of proxies whose Forwarded or X-Forwarded-For header says who the client is. "
        "If any are set, loopback is limited like every other client.",
    )

    explorer: bool = setting(True, "Serve the explorer, a web page that shows the chain, at /.")
    allowed_hosts: tuple[str, ...] = setting(
        (),
        "Host names that requests may use besides IP addresses, loopback names and the node's own; '*' allows all.",
    )
    cors_origins: tuple[str, ...] = setting(
        (), "Origins of web pages that may use the node from a browser; '*' allows all."
    )
    tls_cert: str = setting("", "PEM file of the TLS certificate chain; empty serves plain HTTP.")
    tls_key: str = setting("", "PEM file of the TLS private key.")

    ws_max_message_bytes: int = setting(
        16 * 1024, "Maximum size of a message that a WebSocket client may send to /events.", least=1_024
    )
    ws_max_followed: int = setting(
        1_000, "Maximum number of transactions that one WebSocket may follow at once.", least=1
    )
    ws_max_addresses: int = setting(
        10_000, "Maximum number of addresses whose payments one WebSocket may follow.", least=1
    )
    ws_ping_interval_s: float = setting(30.0, "Seconds between pings to a WebSocket client.", least=0.1)
    ws_buffer_bytes: int = setting(
        64 * 1024, "Bytes buffered for a slow WebSocket client before sending to it pauses.", least=1_024
    )
    ws_stall_timeout_s: float = setting(
        10.0, "Seconds that a WebSocket client may leave a full buffer unread.", least=0.1
    )

    drain_delay_s: float = setting(
        0.0,
        "Seconds at a stop during which reads are still served, with /ready at 503 and submissions refused.",
        least=0,
        most=3_600,
    )
    disk_warning_bytes: int = setting(
        2 * 1024**3,
        "Warn in the log when the data directory's disk has fewer free bytes than this; 0 never warns.",
        least=0,
    )
    log_level: str = setting("info", "debug, info, warning or error.", one_of=("debug", "info", "warning", "error"))
    log_format: str = setting("text", "text for people, json for machines.", one_of=("text", "json"))


FIELDS: dict[str, Field[Any]] = {each.name: each for each in fields(Settings)}
TYPES = get_type_hints(Settings)


def env_name(name: str) -> str:
    return ENV_PREFIX + name.upper()


def flag_name(name: str) -> str:
    """The option of a setting: its name without the unit."""
    return "--" + name.removesuffix("_per_s").removesuffix("_s").replace("_", "-")


class Given(NamedTuple):
    """A value that somebody gave to a setting."""

    value: object
    source: str
    """The file, the variable of the environment, or the flag."""


class GivenSettings:
    """What the file, the environment and the flags say, and what is wrong with it."""

    def __init__(self) -> None:
        self.given: dict[str, list[Given]] = {}
        """By setting. The last one counts."""
        self.wrong: list[str] = []

    def take(self, name: str, value: object, source: str, label: str) -> None:
        try:
            checked = _check(name, value, label)
        except InvalidConfig as error:
            self.wrong.append(error.detail)
        else:
            self.given.setdefault(name, []).append(Given(checked, source))

    def settled(self) -> Settings:
        """All settings. What is wrong with some of them together is added to `wrong`."""
        chosen = {name: each[-1].value for name, each in self.given.items()}
        if "mempool_size" in chosen and "mempool_per_sender" not in chosen:
            chosen["mempool_per_sender"] = max(1, int(str(chosen["mempool_size"])) // 10)
        settings = Settings(**chosen)  # type: ignore[arg-type]  # each was checked against its own field
        self.wrong.extend(_wrong_together(settings))
        return settings


def load_settings(
    file_text: str | None = None, environ: Mapping[str, str] | None = None, flags: Mapping[str, object] | None = None
) -> Settings:
    """Load all settings. Raises `InvalidConfig` that names the first key that is unknown or wrong."""
    given = read_settings(file_text, environ, flags)
    settings = given.settled()
    if given.wrong:
        raise InvalidConfig(given.wrong[0])
    return settings


def read_settings(
    file_text: str | None = None, environ: Mapping[str, str] | None = None, flags: Mapping[str, object] | None = None
) -> GivenSettings:
    """What each place says, in the order in which one overrides the other, and all that is wrong there."""
    given = GivenSettings()
    if file_text is not None:
        _read_file(file_text, given)
    _read_environment(environ or {}, given)
    for name, value in (flags or {}).items():
        given.take(name, value, flag_name(name), flag_name(name))
    return given


def _wrong_together(settings: Settings) -> Iterator[str]:
    if bool(settings.tls_cert) != bool(settings.tls_key):
        yield "tls_cert and tls_key go together: set both for HTTPS, or neither"
    largest_body_bytes = max(settings.max_body_bytes, settings.max_batch_body_bytes)
    if settings.max_unanswered_bytes < 4 * largest_body_bytes:
        yield f"max_unanswered_bytes: expected at least four times the largest body, {4 * largest_body_bytes} bytes"
    for text in settings.trusted_proxies:
        try:
            ip_network(text)
        except ValueError as error:
            yield f"trusted_proxies: expected addresses or networks, as 10.0.0.0/8: {error}"
    if settings.metrics_port and (settings.metrics_host, settings.metrics_port) == (settings.host, settings.port):
        yield f"metrics_port: {settings.port} is the port of the API; choose another"
    if settings.cometbft_attach and not settings.abci_socket:
        yield "cometbft_attach needs abci_socket, the path that the proxy_app of CometBFT names"


def _read_file(text: str, given: GivenSettings) -> None:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        given.wrong.append(f"{CONFIG_FILE}: {error}")
        table = _lone_lines(text, LOG_SETTINGS)
    given.wrong.extend(f"{CONFIG_FILE}: unknown key {key}{_suggest(key, FIELDS)}" for key in table if key not in FIELDS)
    for name in FIELDS:
        if name in table:
            given.take(name, table[name], CONFIG_FILE, f"{CONFIG_FILE}: {name}")


def _lone_lines(text: str, names: Sequence[str]) -> dict[str, object]:
    """What a file that is no TOML as a whole sets in lines that can be read alone."""
    table: dict[str, object] = {}
    for line in text.splitlines():
        if line.partition("=")[0].strip() in names:
            with contextlib.suppress(tomllib.TOMLDecodeError):
                table |= tomllib.loads(line)
    return table


def _read_environment(environ: Mapping[str, str], given: GivenSettings) -> None:
    names = {env_name(name): name for name in FIELDS}
    for variable, text in environ.items():
        if variable.startswith(ENV_PREFIX) and variable not in COMMAND_VARIABLES:
            if variable not in names:
                suggestion = _suggest(variable, names, ENV_PREFIX)
                given.wrong.append(f"unknown environment variable {variable}{suggestion}")
                continue
            name = names[variable]
            given.take(name, _from_text(TYPES[name], text), variable, variable)


def _suggest(unknown: str, known: Iterable[str], prefix: str = "") -> str:
    """`prefix` is what all have in common, and so says nothing."""
    nearest = difflib.get_close_matches(
        unknown.removeprefix(prefix), [name.removeprefix(prefix) for name in known], n=1
    )
    return f"; did you mean {prefix}{nearest[0]}?" if nearest else ""


def _from_text(kind: Any, text: str) -> object:
    """What the file would hold for `text`; text that does not fit its type is left for the check to name."""
    if kind is bool:
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    if kind == tuple[str, ...]:
        return [part.strip() for part in text.split(",") if part.strip()]
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            return text
    return text


def _check(name: str, value: object, label: str) -> object:
    """`value` as the setting's own type and within its bounds; `label` says where it came from."""
    kind = TYPES[name]
    expected, convert = _KINDS[kind]
    try:
        converted = convert(value)
    except InvalidField as error:
        raise InvalidConfig(f"{label}: {error.detail.removeprefix('address: ')}") from None
    if converted is None:
        raise InvalidConfig(f"{label}: expected {expected}, got {value!r}")
    _check_bounds(converted, FIELDS[name].metadata, label)
    return converted


def _check_bounds(value: object, bounds: Mapping[str, Any], label: str) -> None:
    least, most, one_of = bounds["least"], bounds["most"], bounds["one_of"]
    if one_of and value not in one_of:
        raise InvalidConfig(f"{label}: expected {', '.join(one_of[:-1])} or {one_of[-1]}, got {value!r}")
    if isinstance(value, int | float):
        if least is not None and value < least:
            raise InvalidConfig(f"{label}: expected {least} or more, got {value}")
        if most is not None and value > most:
            raise InvalidConfig(f"{label}: expected {most} or less, got {value}")


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None


def _texts(value: object) -> tuple[str, ...] | None:
    if isinstance(value, list | tuple) and all(isinstance(part, str) for part in value):
        return tuple(value)
    return None


def _address(value: object) -> Address | None:
    return parse_address(value, "address") if isinstance(value, str) else None


_KINDS: dict[Any, tuple[str, Callable[[object], object | None]]] = {
    bool: ("true or false", lambda value: value if isinstance(value, bool) else None),
    int: ("a whole number", _integer),
    float: ("a number", _number),
    str: ("text", lambda value: value if isinstance(value, str) else None),
    tuple[str, ...]: ("a list of texts", _texts),
    Address: ("an address, 0x and 40 hex digits", _address),
}
"""For each type of setting: how to say it, and the value of that type, or None when it is not one."""


def encode_settings(chosen: Mapping[str, object]) -> str:
    """A settings file with every key explained: `chosen` ones set, the others commented out with their defaults."""
    blocks = []
    for name, each in FIELDS.items():
        mark = "" if name in chosen else "#"
        value = as_toml(chosen.get(name, each.default))
        blocks.append(f"# {each.metadata['help']}\n{mark}{name} = {value}\n")
    return "\n".join(blocks)


def as_toml(value: object) -> str:
    if isinstance(value, bytes):
        value = checksum_address(Address(value))
    # JSON spells booleans, numbers, strings and lists of strings as TOML does.
    return json.dumps(value)
