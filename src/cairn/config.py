"""Every node setting, once: its name, type, default and help. Parsed once, then frozen.

Chain rules (chain id, gas price, block gas limit, balances) are not here: they live in genesis.
"""

import os
from dataclasses import dataclass, field
from typing import Any

from cairn.domain.types import ZERO_ADDRESS, Address


def setting(default: Any, help: str) -> Any:
    """A field of `Settings`; the help text is what `cairn init` writes above the key."""
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True, slots=True)
class Settings:
    host: str = setting("127.0.0.1", "Address to listen on. Loopback unless you mean otherwise.")
    port: int = setting(8645, "Port to listen on; 0 takes any free one.")
    workers: int = setting(max(1, min(4, os.cpu_count() or 1)), "API processes: one per core is a good start.")

    block_time_s: float = setting(
        1.0, "Seconds between blocks when there is something to include; 0 makes one at once after each submission."
    )
    empty_blocks: bool = setting(False, "Make a block every block time even when there is nothing to include.")
    proposer: Address = setting(ZERO_ADDRESS, "Account that receives the fees of the blocks that this node makes.")

    mempool_size: int = setting(100_000, "Transactions that the mempool holds at most.")
    mempool_per_sender: int = setting(10_000, "Transactions of one sender that the mempool holds at most.")
    mempool_nonce_gap: int = setting(64, "How far ahead of a sender's next nonce a transaction may be.")
    mempool_lifetime_s: int = setting(10_800, "Seconds after which a transaction that could not be mined is dropped.")

    max_body_bytes: int = setting(128 * 1024, "Largest request body.")
    max_batch_body_bytes: int = setting(2 * 1024 * 1024, "Largest request body of POST /txs.")
    header_timeout_s: float = setting(10.0, "Seconds that a client has to send a whole request.")
    idle_timeout_s: float = setting(75.0, "Seconds after which an idle connection is closed.")
    max_connections: int = setting(10_000, "Connections at once, over all workers; more are refused.")
    rate_limit_per_s: float = setting(
        200.0, "Requests a second that one client address may make; 0 is no limit. Loopback clients are never limited."
    )
    rate_limit_burst: int = setting(400, "Requests that a client may make at once before the rate limit counts.")

    allowed_hosts: tuple[str, ...] = setting(
        (), "Host names, besides loopback ones and the listening address, that requests may name; '*' allows all."
    )
    cors_origins: tuple[str, ...] = setting(
        (), "Origins of web pages that may use the node from a browser; '*' allows all."
    )
    tls_cert: str = setting("", "PEM file of the TLS certificate chain; empty serves plain HTTP.")
    tls_key: str = setting("", "PEM file of the TLS private key.")

    ws_max_message_bytes: int = setting(16 * 1024, "Largest message that a WebSocket client may send.")
    ws_max_followed: int = setting(1_000, "Transactions that one socket may follow at once.")
    ws_ping_interval_s: float = setting(30.0, "Seconds between pings to a WebSocket client.")
    ws_buffer_bytes: int = setting(64 * 1024, "Bytes that may wait for a slow WebSocket client before it must catch up.")
    ws_stall_timeout_s: float = setting(10.0, "Seconds that a WebSocket client may leave a full buffer unread.")

    drain_delay_s: float = setting(0.0, "Seconds between turning /ready to 503 and refusing work, at a stop.")
    log_level: str = setting("info", "debug, info, warning or error.")
    log_format: str = setting("text", "text for people, json for machines.")
