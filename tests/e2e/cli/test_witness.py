"""A witness beside a chain that one operator makes: it countersigns what is appended, and proves what is rewritten."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.lone_home import LoneHome
from tests.support.node_process import NodeProcess, clean_environment, command, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.pages import Page
from tests.support.ports import free_ports
from tests.support.public import get_anew

VERIFY = Path(__file__).parents[3] / "verify" / "verify.py"


class Partner:
    """Somebody who has genesis.json, and a directory of their own."""

    def __init__(self, home: LoneHome, directory: Path) -> None:
        self._home = home
        self.directory = directory
        self.genesis = home.directory / "genesis.json"

    def options(self, url: str) -> tuple[str, ...]:
        return ("witness", url, "--genesis", str(self.genesis), "--state", str(self.directory))

    def look(self, url: str, *more: str, code: int = 0) -> str:
        return self._home.cairn(*self.options(url), "--once", *more, code=code)

    @contextmanager
    def watching(self, url: str) -> Iterator[str]:
        """A witness that runs; gives the URL that it serves."""
        [port] = free_ports(1)
        options = command((*self.options(url), "--port", str(port), "--interval", "0.1"))
        process = subprocess.Popen(options, env=clean_environment(), stdout=subprocess.PIPE, text=True)
        served = f"http://127.0.0.1:{port}"
        try:
            wait_until(lambda: _answers(f"{served}/head"), PATIENCE_S, "the first block that it signs")
            yield served
        finally:
            process.kill()
            process.communicate()

    def check(self, file: Path, *more: str, code: int = 0) -> str:
        return self._home.cairn("check", str(file), "--genesis", str(self.genesis), *more, code=code)


def _answers(url: str) -> bool:
    try:
        return get_anew(url).status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture
def home(tmp_path: Path) -> LoneHome:
    return LoneHome(tmp_path / "home")


@pytest.fixture
def partner(home: LoneHome, tmp_path: Path) -> Partner:
    return Partner(home, tmp_path / "witness")


def begin_anew(home: LoneHome) -> None:
    """What an operator does who rebuilds the books: same genesis, same key, another history."""
    shutil.rmtree(home.directory / "data")
    (home.directory / "chain-begun").unlink()
    home.paid = 0


def test_a_receipt_has_the_signature_of_a_witness_that_followed_the_chain(
    home: LoneHome, partner: Partner, tmp_path: Path
) -> None:
    receipt = tmp_path / "receipt.json"
    with home.start() as node:
        home.pay(node)
        with partner.watching(node.url) as served:
            tx_hash = home.pay(node)
            home.pay(node)
            key = get_anew(f"{served}/head").json()["publicKey"]
            home.cairn("receipt", tx_hash, "-o", str(receipt), "--node", node.url, "--witness", served)
    assert f"witness  {key} saw block" in partner.check(receipt, "--witness", key)
    assert "signed no block of the file" in partner.check(receipt, "--witness", "0x" + "11" * 32, code=1)
    done = subprocess.run([sys.executable, VERIFY, partner.genesis, receipt, "--witness", key], capture_output=True)
    assert done.returncode == 0, done.stdout


def rewritten(home: LoneHome, partner: Partner, blocks: int) -> NodeProcess:
    """A chain of three blocks that a witness saw, begun anew with other payments."""
    with home.start() as node:
        for _ in range(3):
            home.pay(node)
        assert "signed: block 3" in partner.look(node.url)
    begin_anew(home)
    node = home.start()
    node.wait_ready()
    for _ in range(blocks):
        home.pay(node, value=2)
    return node


@pytest.mark.parametrize("blocks", [3, 5])
def test_a_chain_that_is_rebuilt_is_proven_to_be_rewritten(
    home: LoneHome, partner: Partner, tmp_path: Path, blocks: int
) -> None:
    with rewritten(home, partner, blocks) as node:
        what = "history was rewritten: two blocks 3"
        assert what in partner.look(node.url, code=1)
        # It stays with what it has signed.
        assert what in partner.look(node.url, code=1)
    [evidence] = partner.directory.glob("evidence-*.json")
    assert evidence.name == "evidence-3.json"
    told = partner.check(evidence)
    assert "PROVEN: two different blocks 3 were signed, so history was rewritten" in told
    # Each half is a proof by itself, for whoever has another verifier.
    found = json.loads(evidence.read_bytes())
    hashes = set()
    for name in ("first", "second"):
        half = tmp_path / f"{name}.json"
        half.write_text(json.dumps(found[name]))
        done = subprocess.run([sys.executable, VERIFY, partner.genesis, half], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
        proven = json.loads(done.stdout.split("\n", 1)[1])
        assert proven["height"] == 3
        hashes.add(proven["hash"])
    assert len(hashes) == 2
    same = tmp_path / "same.json"
    same.write_text(json.dumps(found | {"second": found["first"]}))
    assert "both are the same block 3" in partner.check(same, code=1)


def test_a_shorter_chain_is_behind_and_is_no_evidence(home: LoneHome, partner: Partner) -> None:
    with rewritten(home, partner, 2) as node:
        assert "behind: block 2" in partner.look(node.url, code=1)
    assert not list(partner.directory.glob("evidence-*"))


def test_a_fork_that_one_of_two_partners_is_shown_is_found_by_comparing(
    home: LoneHome, partner: Partner, tmp_path: Path
) -> None:
    other = Partner(home, tmp_path / "other")
    with rewritten(home, partner, 3) as node, other.watching(node.url) as served:
        # The first partner's witness saw the other history; it is asked to compare with what the second one signed.
        told = partner.look(node.url, "--peer", served, code=1)
        assert "contradicted" in told
    assert list(partner.directory.glob("evidence-3.json"))


def test_witnesses_of_one_history_agree(home: LoneHome, partner: Partner, tmp_path: Path) -> None:
    other = Partner(home, tmp_path / "other")
    with home.start() as node:
        home.pay(node)
        with other.watching(node.url) as served:
            assert "has seen block 1, too" in partner.look(node.url, "--peer", served)


def test_a_witness_refuses_a_node_of_another_chain(home: LoneHome, tmp_path: Path) -> None:
    elsewhere = LoneHome(tmp_path / "elsewhere")
    with home.start() as node:
        home.pay(node)
        stranger = Partner(elsewhere, tmp_path / "witness")
        assert "unproven" in stranger.look(node.url, code=1)
    assert not (stranger.directory / "witness.json").exists()


def test_a_witness_without_its_key_does_not_begin_anew(home: LoneHome, partner: Partner) -> None:
    with home.start() as node:
        home.pay(node)
        partner.look(node.url)
        (partner.directory / "witness-key.json").unlink()
        done = subprocess.run(
            command((*partner.options(node.url), "--once")), env=clean_environment(), capture_output=True, text=True
        )
    assert done.returncode != 0
    assert "witness-key.json is missing, though this witness has signed blocks" in done.stderr


def test_the_commands_of_the_pages_work(home: LoneHome, partner: Partner, tmp_path: Path) -> None:
    """Those of docs/proofs.md and docs/witness.md, with the names of this chain instead of theirs."""
    commands = [line for page in ("docs/proofs.md", "docs/witness.md") for line in shell_lines(page)]
    assert len(commands) == 6
    shutil.copy(partner.genesis, tmp_path / "genesis.json")
    with home.start() as node:
        names = {"0x7395…": home.pay(node), "https://node.example": node.url}
        paid_at = get_anew(f"{node.url}/block/latest").json()["timestamp"]
        names |= dict.fromkeys(("2026-01-01", "2026-03-31"), time.strftime("%Y-%m-%d", time.gmtime(paid_at)))
        with partner.watching(node.url) as served:
            key = get_anew(f"{served}/head").json()["publicKey"]
            names |= {"https://witness.example": served, "0x5b2f…": key}
            for line in commands:
                for name, here in names.items():
                    line = line.replace(name, here)
                args = line.split()[1:]
                if args[0] == "witness":
                    args += ["--once", "--state", str(tmp_path / "other")]
                if "-o" in args:
                    args.append("--force")
                done = subprocess.run(
                    command(args),
                    env=clean_environment() | {"CAIRN_NODE": node.url},
                    cwd=tmp_path,
                    capture_output=True,
                    text=True,
                )
                assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "q1.html").exists()


def shell_lines(page: str) -> list[str]:
    return [line.partition(" #")[0] for block in Page(page).code("sh") for line in block.splitlines()]
