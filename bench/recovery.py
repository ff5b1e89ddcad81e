"""The yardstick: what one bare libsecp256k1 public key recovery costs on this machine, in CPU time."""

import contextlib
import multiprocessing
import statistics
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection

from btclib_libsecp256k1 import ffi, lib
from btclib_libsecp256k1.context import ctx

from bench.workload import account
from cairn.domain.crypto import keccak256, sign_digest

_WARM_UP = 10
_PER_SAMPLE = 40
_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class Recovery:
    """CPU time of one recovery; parsing the signature is part of it, serialising the key is not."""

    mean_us: float
    best_us: float
    """The fastest sample: what the machine can do when nobody else is on it."""


class RecoverySampler:
    """Measures in a process of its own, a few recoveries at a time, beside whatever runs inside its `with` block.

    Where processors share a core, or a machine its host, the same instructions take up to twice the CPU time while the
    neighbour works. So the yardstick is taken during the very load that it is held against. Each sample is a tight loop
    on warm caches: nothing but the neighbours is in it.
    """

    def __enter__(self) -> "RecoverySampler":
        context = multiprocessing.get_context("fork")
        self._mine, theirs = context.Pipe()
        self._process = context.Process(target=_sample, args=(theirs,))
        self._process.start()
        theirs.close()
        return self

    def finish(self) -> Recovery:
        self._mine.send(None)
        result: Recovery = self._mine.recv()
        return result

    def __exit__(self, *_: object) -> None:
        # Nobody may have asked for what it found. Not SIGTERM: it has the handlers of the process that it is a fork of.
        self._process.kill()
        self._process.join()
        self._mine.close()


def _sample(asker: Connection) -> None:
    digest = keccak256(b"cairn")
    signature = sign_digest(digest, account(0)[1])
    samples_us = [_recover_cost_us(digest, signature)]
    with contextlib.suppress(EOFError):
        while not asker.poll(_PAUSE_S):
            samples_us.append(_recover_cost_us(digest, signature))
        asker.recv()
        asker.send(Recovery(statistics.mean(samples_us), min(samples_us)))


def _recover_cost_us(digest: bytes, signature: bytes) -> float:
    parsed = ffi.new("secp256k1_ecdsa_recoverable_signature *")
    public_key = ffi.new("secp256k1_pubkey *")

    def recover(times: int) -> None:
        for _ in range(times):
            lib.secp256k1_ecdsa_recoverable_signature_parse_compact(ctx, parsed, signature[:64], signature[64])
            if not lib.secp256k1_ecdsa_recover(ctx, public_key, parsed, digest):
                raise RuntimeError("libsecp256k1 could not recover a key from its own signature")

    recover(_WARM_UP)
    started = time.thread_time()
    recover(_PER_SAMPLE)
    return (time.thread_time() - started) / _PER_SAMPLE * 1e6
