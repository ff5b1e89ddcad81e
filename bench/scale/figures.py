"""What `make bench-scale` has measured, as it is kept in reports/scale.json."""

import json
from pathlib import Path

import msgspec


class FarValidators(msgspec.Struct, frozen=True):
    """Validators of one network, with one delay between any two of them."""

    validators: int
    delay_ms: float
    """One way."""
    confirmed_per_s: float
    cpu_us: float
    """Of all processes of all validators, for one transaction of the load."""
    recovery_us: float
    """What one signature check took beside the load: it shows how much the machine had to do for others."""
    load_blocks: int
    """In which the load was."""
    confirmed_p50_s: float
    """At the steady pace."""
    confirmed_p99_s: float
    block_s: float
    """From one block to the next, at the steady pace."""
    block_packets: float
    """That went between all validators for one block, at the steady pace."""
    block_bytes: float
    dropped_packets: int
    memory_mb: float
    """Of one validator with its CometBFT; pages that processes share are counted once (PSS)."""


class Reads(msgspec.Struct, frozen=True):
    """Clients that read one thing all the time, through a proxy or without one."""

    proxy: str
    """Empty where the clients ask the nodes themselves."""
    nodes: int
    per_s: float
    node_cpu_us: float
    """Of all processes of all read nodes, for one answer."""
    proxy_cpu_us: float
    p50_ms: float
    p99_ms: float
    recovery_us: float
    shares: list[float]
    """Of the answers, by node."""


class Sizes(msgspec.Struct, frozen=True):
    load: int
    paced: int
    paced_per_s: float
    read_s: float
    """For each row of reads."""


class Figures(msgspec.Struct, frozen=True):
    command: str
    date: str
    machine: str
    load_average: float
    """Of the machine when the last figure was there."""
    sizes: Sizes
    validators: list[FarValidators]
    reads: list[Reads]

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(msgspec.to_builtins(self), indent=2) + "\n")

    @classmethod
    def load(cls, path: Path) -> "Figures":
        return msgspec.json.decode(path.read_bytes(), type=cls)
