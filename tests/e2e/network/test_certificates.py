"""A network whose validators changed, whose old blocks are gone, and a node that started from a snapshot: all that this
node proves is checked with genesis.json alone, by every verifier."""

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cairn.cli.network.join import state_sync_settings
from cairn.cometbft import TomlValue
from cairn.domain.genesis import DEV_KEYS, parse_genesis
from cairn.domain.proof_checks import FinalBlock, ProvenAccount, ProvenPayment, Trust
from cairn.domain.proof_files import ProofFile, read_file
from cairn.domain.statement_checks import ProvenStatement, check_file
from cairn.domain.types import Address
from tests.support.network import Network, NetworkNode
from tests.support.node_process import clean_environment, command, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.ports import free_ports
from tests.support.steady_load import next_nonce, sign_dev_transfer

SNAPSHOT_INTERVAL = 5
RETAINED = 4
CHANGES = 3
PAYMENTS = 1_000
BRISK: dict[str, TomlValue] = {
    "consensus.timeout_commit": "100ms",
    "consensus.create_empty_blocks_interval": "300ms",
}
VERIFY = Path(__file__).parents[3] / "verify"
PAYEE = Address(b"\x99" * 20)


@pytest.fixture(scope="module")
def keys(scratch: Path) -> list[Path]:
    files = []
    for number, (_, key) in enumerate(DEV_KEYS[:2]):
        file = scratch / f"{number}.key"
        file.touch(mode=0o600)
        file.write_text(key.hex())
        files.append(file)
    return files


@pytest.fixture(scope="module")
def network(cometbft_tools: Path, scratch: Path, keys: list[Path]) -> Iterator[Network]:
    """Four validators, of which the first left and another came and got more power: no node has those blocks any more.
    The last node started from a snapshot after all that."""
    with Network(scratch / "network", args=["--full-nodes=2"]) as network:
        network.set(snapshot_interval=SNAPSHOT_INTERVAL, retain_blocks=RETAINED)
        for node, port in zip(network.nodes, free_ports(6), strict=True):
            node.configure(BRISK | {"rpc.laddr": f"tcp://127.0.0.1:{port}"})
        *members, newcomer = network.nodes
        for node in members:
            node.launch()
        for node in members:
            node.await_ready()
        first, fifth = members[0], members[4]
        change(first, keys, "add", f"--home={fifth.home}", f"--fee-recipient={'0x' + 'fe' * 20}")
        change(first, keys, "update", "--name=node4", "--power=15")
        change(fifth, keys, "remove", "--name=node0")
        let_go(members, first.height())
        newcomer.configure(state_sync_settings([node.rpc_address for node in members[1:3]], time.time()))
        newcomer.start()
        # It keeps what it proves here.
        newcomer.stop()
        newcomer.set(retain_blocks=0)
        newcomer.start()
        yield network


def change(node: NetworkNode, keys: list[Path], *args: str) -> None:
    key_files = [f"--key-file={file}" for file in keys]
    done = subprocess.run(
        command(["validators", *args, *key_files, f"--node={node.url}", f"--timeout={PATIENCE_S}"]),
        capture_output=True,
        text=True,
        env=clean_environment(),
    )
    assert done.returncode == 0, done.stderr


def let_go(nodes: list[NetworkNode], height: int) -> None:
    """Pay until every node has pruned the block at `height`: snapshots are of blocks that changed the state."""
    paid = 0

    def is_gone() -> bool:
        nonlocal paid
        pay(nodes[paid % len(nodes)])
        paid += 1
        return all(node.public.get(f"/block/{height}").status_code == 404 for node in nodes)

    wait_until(is_gone, PATIENCE_S, f"block {height} to be pruned everywhere")


def pay(node: NetworkNode) -> dict[str, Any]:
    """The payment, once it is confirmed."""
    tx_hash, body = sign_dev_transfer(3, PAYEE, 10**15, next_nonce(3, node.url))
    answer = node.public.post(body)
    assert answer.status_code == 200, answer.text
    return node.public.await_confirmed(tx_hash)


@dataclass
class Offline:
    """Somebody with a copy of genesis.json and a file, and nothing else."""

    genesis: Path
    directory: Path

    def check(self, node: NetworkNode, path: str) -> tuple[Any, ProofFile]:
        """What the file at `path` proves, by all verifiers."""
        wait_until(lambda: node.public.get(path).status_code == 200, PATIENCE_S, f"signatures for {path}")
        raw = node.public.get(path).content
        saved = self.directory / "proof.json"
        saved.write_bytes(raw)
        commands = {
            "cairn check": command(["check", str(saved), "--genesis", str(self.genesis)]),
            "verify.py": [sys.executable, str(VERIFY / "verify.py"), str(self.genesis), str(saved)],
            "verify.mjs": ["node", str(VERIFY / "verify.mjs"), str(self.genesis), str(saved)],
        }
        print(f"{path[:20]}: {len(raw)} bytes", end="")
        for name, line in commands.items():
            began = time.monotonic()
            done = subprocess.run(line, capture_output=True, text=True, env=clean_environment())
            assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
            print(f", {name} {time.monotonic() - began:.2f} s", end="")
        print()
        file = read_file(raw)
        return check_file(file, Trust(parse_genesis(self.genesis.read_bytes()))), file


@pytest.fixture(scope="module")
def offline(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Offline:
    directory = tmp_path_factory.mktemp("offline")
    genesis = directory / "genesis.json"
    genesis.write_bytes((network.nodes[0].home / "genesis.json").read_bytes())
    return Offline(genesis, directory)


def test_a_block_is_final_by_the_validators_of_now(network: Network, offline: Offline) -> None:
    *members, newcomer = network.nodes
    assert newcomer.public.get("/block/1").status_code == 404
    height = pay(newcomer)["blockHeight"]
    final, file = offline.check(newcomer, f"/block/{height}/finality")
    assert isinstance(final, FinalBlock)
    signed = final.finality.signed
    assert signed is not None
    assert (final.block.header.height, signed.changes) == (height, CHANGES)
    assert newcomer.block(height)["hash"] == "0x" + final.block.hash.hex()
    # node0 has left, and node4 has 15.
    assert (signed.signed.total, len(signed.validators)) == (45, 4)
    # Every node has the same steps, whether it saw the changes or took them over.
    for node in members:
        answer = node.public.get("/block/latest/finality")
        assert read_file(answer.content).certificate.steps == file.certificate.steps


def test_a_payment_a_balance_and_a_statement_of_a_thousand_payments(network: Network, offline: Offline) -> None:
    newcomer = network.nodes[-1]
    payee = Address(b"\x77" * 20)
    hashes = []
    for start in range(0, PAYMENTS, 100):
        sender = start // 100
        first = next_nonce(sender, newcomer.url)
        made = [sign_dev_transfer(sender, payee, 1_000 + start + number, first + number) for number in range(100)]
        answer = newcomer.public.post([body for _, body in made], "/txs")
        assert answer.status_code == 200, answer.text
        hashes += [tx_hash for tx_hash, _ in made]
    confirmed = [newcomer.public.await_confirmed(tx_hash) for tx_hash in hashes]
    last = max(each["blockHeight"] for each in confirmed)
    total = sum(1_000 + number for number in range(PAYMENTS))
    # Those of the last block may be signed later than others; an account is proven by what is signed now.
    finality = f"/block/{last}/finality"
    wait_until(lambda: newcomer.public.get(finality).status_code == 200, PATIENCE_S, f"signatures for {finality}")
    payment, _ = offline.check(newcomer, f"/tx/{hashes[-1]}/receipt")
    assert isinstance(payment, ProvenPayment)
    assert ("0x" + payment.tx.hash.hex(), payment.tx.to, payment.tx.value) == (hashes[-1], payee, 1_000 + PAYMENTS - 1)
    held, _ = offline.check(newcomer, f"/account/0x{payee.hex()}/proof")
    assert isinstance(held, ProvenAccount)
    assert held.account.balance == total
    statement, _ = offline.check(newcomer, f"/account/0x{payee.hex()}/statement?to={last}")
    assert isinstance(statement, ProvenStatement)
    assert (statement.opening.balance, statement.closing.balance) == (0, total)
    received = {"0x" + each.tx.hash.hex() for entry in statement.entries for each in entry.payments}
    assert received == set(hashes)


def test_a_change_that_it_missed_while_it_was_killed_is_proven_after_its_start(
    network: Network, keys: list[Path], offline: Offline
) -> None:
    first, newcomer = network.nodes[0], network.nodes[-1]
    newcomer.kill()
    change(first, keys, "update", "--name=node4", "--power=12")
    newcomer.start()
    height = pay(newcomer)["blockHeight"]
    final, _ = offline.check(newcomer, f"/block/{height}/finality")
    assert (final.finality.signed.changes, final.finality.signed.signed.total) == (CHANGES + 1, 42)
