"""`cairn` with an application that does what none should: `python altered_node.py ALTERATION DIR run --home HOME`.

crash-node DIR    SIGKILL for the whole node at the next of the crash points, one in each life
crash-core DIR    the same for the core alone, which the supervisor starts again
hostile DIR       proposes blocks that break a rule, each rule until it hears that everybody has refused that
diverged DIR      pays the fees to another account than all others do, and so has another state
gullible DIR      lets its CometBFT take whatever it is given, and so pass it on

What was done so far is one file each in DIR. A lie's file has the heights at which it was told, a line each; the test
makes LIE.refused.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from cairn.cli.main import app
from cairn.domain.genesis import DEV_KEYS
from cairn.domain.governance import ValidatorUpdate, encode_update
from cairn.domain.transactions import encode_tx, sign_draft
from cairn.domain.types import TRANSFER_GAS, Address, Draft, Tx
from cairn.domain.updates import before_of, sign_update
from cairn.engine.abci.requests import (
    CheckTxRequest,
    FinalizeBlockRequest,
    PrepareProposalRequest,
    ProcessProposalRequest,
    TxResult,
)
from cairn.engine.application import Application
from cairn.engine.network.abci_application import NetworkApplication
from cairn.engine.network.bundle import encode_bundle
from cairn.store.chain import ChainStore

CRASH_POINTS = (
    "finalize-begins",
    "finalize-ends",
    "commit-begins",
    "stored",
    "announced",
    "commit-ends",
    "commit-answered",
)
"""In the order of a block's life. What is stored is on disk; announced, the workers have heard of it."""

SENDER, KEY = DEV_KEYS[9]
RECIPIENT = Address(b"\x66" * 20)
SECP256K1_N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def note(directory: Path, done: str) -> None:
    with (directory / done).open("x") as file:
        os.fsync(file.fileno())


# Crashes.


class Crash:
    """Ends the process at one point of the life of a block that holds a transaction."""

    def __init__(self, directory: Path, whole_node: bool) -> None:
        self._directory = directory
        self._whole_node = whole_node
        self._due = False

    def arm(self, request: FinalizeBlockRequest) -> None:
        self._due = bool(request.txs)

    def reach(self, point: str) -> None:
        done = len(list(self._directory.iterdir()))
        if self._due and done < len(CRASH_POINTS) and CRASH_POINTS[done] == point:
            note(self._directory, point)
            if self._whole_node:
                os.killpg(0, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)


def after(crash: Crash, point: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def altered(self: object, *args: object) -> Any:
        result = method(self, *args)
        crash.reach(point)
        return result

    return altered


def alter_to_crash(directory: Path, whole_node: bool) -> None:
    crash = Crash(directory, whole_node)
    finalize_block, commit = NetworkApplication.finalize_block, NetworkApplication.commit

    def begin_finalize(self: NetworkApplication, request: FinalizeBlockRequest) -> Any:
        crash.arm(request)
        crash.reach("finalize-begins")
        return finalize_block(self, request)

    def begin_commit(self: NetworkApplication) -> int:
        crash.reach("commit-begins")
        retain_height = commit(self)
        crash.reach("commit-ends")
        # The answer is written when this returns, before the loop turns.
        asyncio.get_running_loop().call_soon(crash.reach, "commit-answered")
        return retain_height

    altered: dict[tuple[type, str], Callable[..., Any]] = {
        (NetworkApplication, "finalize_block"): begin_finalize,
        (NetworkApplication, "_hold"): after(crash, "finalize-ends", NetworkApplication._hold),
        (NetworkApplication, "commit"): begin_commit,
        (ChainStore, "commit"): after(crash, "stored", ChainStore.commit),
        (Application, "commit"): after(crash, "announced", Application.commit),
    }
    for (owner, name), method in altered.items():
        setattr(owner, name, method)


# Lies.


class Liar:
    """Makes the transactions that break one rule each, on top of the chain as it is."""

    def __init__(self, application: NetworkApplication) -> None:
        self._chain = application._chain
        self._rules = application._rules
        self._account = self._chain.account(SENDER)

    def _sign(self, **changes: Any) -> Tx:
        fields: dict[str, Any] = {
            "sender": SENDER,
            "to": RECIPIENT,
            "value": 1,
            "gas": TRANSFER_GAS,
            "gas_price": self._rules.gas_price,
            "nonce": self._account.nonce,
        }
        return sign_draft(Draft(**(fields | changes)), KEY, self._rules.chain_id)

    def _raw(self, **changes: Any) -> bytes:
        return encode_tx(self._sign(**changes), self._rules.chain_id)

    def lies(self) -> dict[str, list[bytes]]:
        good, second, third = (self._raw(nonce=self._account.nonce + ahead) for ahead in range(3))
        return {
            "nonce-ahead": [self._raw(nonce=self._account.nonce + 1)],
            "nonce-repeated": [good, self._raw(value=2)],
            "twice-the-same": [good, good],
            "overspend": [self._raw(value=self._account.balance)],
            "gas-too-low": [self._raw(gas=TRANSFER_GAS - 1)],
            "gas-too-high": [self._raw(gas=self._rules.block_gas_limit + 1)],
            "price-too-low": [self._raw(gas_price=self._rules.gas_price - 1)],
            "another-chain": [encode_tx(self._sign(), self._rules.chain_id + 1)],
            "forged-signature": [self._forged()],
            "signature-turned-over": [self._turned_over()],
            "no-transaction": [b"\xc0nonsense"],
            "update-of-a-stranger": [self._update()],
            "one-good-one-bad": [good, self._raw(nonce=self._account.nonce + 7)],
            "one-bad-in-a-bundle": [encode_bundle([good, self._raw(nonce=self._account.nonce + 7)])],
            "in-two-bundles": [encode_bundle([good, second]), encode_bundle([second, third])],
            "bundle-cut-short": [encode_bundle([good, second])[:-1]],
        }

    def _forged(self) -> bytes:
        """Another amount under the signature that the owner gave."""
        tx = msgspec.structs.replace(self._sign(), value=10**18)
        return encode_tx(tx, self._rules.chain_id)

    def _turned_over(self) -> bytes:
        """The other form of a good signature, which would give one transfer two hashes."""
        tx = self._sign()
        s = SECP256K1_N - int.from_bytes(tx.signature[32:64], "big")
        signature = tx.signature[:32] + s.to_bytes(32, "big") + bytes([1 - tx.signature[64]])
        return encode_tx(msgspec.structs.replace(tx, signature=signature), self._rules.chain_id)

    def _update(self) -> bytes:
        """More power for the first validator, signed by two accounts that may not."""
        governance = self._chain.governance
        assert governance is not None
        stronger = msgspec.structs.replace(governance.validators[0], power=1_000)
        update = ValidatorUpdate(governance.sequence, stronger, before_of(governance, stronger))
        return encode_update(sign_update(update, [KEY, DEV_KEYS[8][1]], self._chain.identity))


def alter_to_lie(directory: Path) -> None:
    told: dict[int, str] = {}

    def propose(self: NetworkApplication, request: PrepareProposalRequest) -> Sequence[bytes]:
        lies = Liar(self).lies()
        believed = [name for name in lies if not (directory / f"{name}.refused").exists()]
        if not believed:
            return [raw for lie in lies.values() for raw in lie]
        # One for each height, in all its rounds: who refuses a block notes no more than its height.
        name = told.setdefault(request.height, believed[0])
        with (directory / name).open("a") as file:
            file.write(f"{request.height}\n")
        return lies[name]

    def believe(self: NetworkApplication, request: ProcessProposalRequest) -> bool | Awaitable[bool]:
        return True

    for name, method in (("prepare_proposal", propose), ("process_proposal", believe)):
        setattr(NetworkApplication, name, method)


def alter_to_believe() -> None:
    def believe(self: NetworkApplication, request: CheckTxRequest) -> TxResult:
        return TxResult()

    setattr(NetworkApplication, "check_tx", believe)  # noqa: B010


def alter_to_diverge() -> None:
    build = Application.build

    def pay_another(self: Application, txs: Sequence[Tx], timestamp: int, proposer: Address, *rest: Any) -> Any:
        return build(self, txs, timestamp, RECIPIENT if txs else proposer, *rest)

    setattr(Application, "build", pay_another)  # noqa: B010


def main() -> None:
    _, alteration, directory, *args = sys.argv
    sys.argv = [sys.argv[0], *args]
    if alteration == "hostile":
        alter_to_lie(Path(directory))
    elif alteration == "gullible":
        alter_to_believe()
    elif alteration == "diverged":
        alter_to_diverge()
    else:
        alter_to_crash(Path(directory), whole_node=alteration == "crash-node")
    app()


if __name__ == "__main__":
    main()
