"""The yardstick: what one bare libsecp256k1 public key recovery costs on this machine, in CPU time."""

import statistics
import time

from coincurve._libsecp256k1 import ffi, lib
from coincurve.context import GLOBAL_CONTEXT

from bench.workload import account
from cairn.domain.crypto import keccak256, sign_digest

_ROUNDS = 9
_PER_ROUND = 400


def recovery_cost_us() -> float:
    """The median over several rounds; parsing the signature is part of it, serialising the key is not."""
    digest = keccak256(b"cairn")
    signature = sign_digest(digest, account(0)[1])
    context = GLOBAL_CONTEXT.ctx
    parsed = ffi.new("secp256k1_ecdsa_recoverable_signature *")
    public_key = ffi.new("secp256k1_pubkey *")

    def one_round() -> float:
        started = time.thread_time()
        for _ in range(_PER_ROUND):
            lib.secp256k1_ecdsa_recoverable_signature_parse_compact(context, parsed, signature[:64], signature[64])
            if not lib.secp256k1_ecdsa_recover(context, public_key, parsed, digest):
                raise RuntimeError("libsecp256k1 could not recover a key from its own signature")
        return (time.thread_time() - started) / _PER_ROUND * 1e6

    return statistics.median(one_round() for _ in range(_ROUNDS))
