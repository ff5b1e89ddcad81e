"""A chain of one node's own: every block is signed, and proven from genesis.json alone, over hand-overs and kills."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cairn.domain.certificates import check_certificate
from cairn.domain.genesis import parse_genesis
from cairn.domain.proof_files import read_file
from cairn.store.signing_key import SigningKey
from tests.support.lone_home import PAYEE, LoneHome
from tests.support.node_process import NodeProcess
from tests.support.pages import Page
from tests.support.public import PublicNode, assert_problem, get_anew
from tests.support.wallet import dev_account, sign_transfer


@pytest.fixture
def home(tmp_path: Path) -> LoneHome:
    return LoneHome(tmp_path / "home")


def test_the_hand_over_of_the_page_leaves_each_block_proven(home: LoneHome) -> None:
    """With kills before and after it; the service manager of the page is the test."""
    [line] = [line for line, _ in Page("docs/production.md").steps() if "new-signing-key" in line]
    command = line.partition("#")[0].removeprefix("runuser -u cairn -- ")
    new_key = command.replace("/var/lib/cairn", str(home.directory)).split()[1:]
    first = SigningKey.load(home.key_file).public_key
    with home.start() as node:
        assert_problem(get_anew(f"{node.url}/block/0/finality"), 404, "NOT_SIGNED_YET")
        home.pay(node)
        home.pay(node)
        assert home.signers(node) == [first, first]
        assert not home.proven(node, 0).is_public_key
        node.kill_group()
    home.cairn(*new_key)
    assert "exists already" in home.cairn(*new_key, code=2)
    second = SigningKey.load(home.directory / "next-signing-key.json").public_key
    with home.start() as node:
        node.wait_ready()
        # Nothing was signed yet: the old key is still needed.
        assert SigningKey.load(home.key_file).public_key == first
        assert "stop the node first" in home.cairn(*new_key, code=2)
        home.pay(node)
        home.pay(node)
        node.kill_group()
    assert SigningKey.load(home.key_file).public_key == second
    with home.start() as node:
        home.pay(node)
        assert home.signers(node) == [first, first, first, second, second]
        assert home.proven(node, "latest").changes == 1
        secrets = [line.split('"')[3] for line in home.key_file.read_text().splitlines() if "seed" in line]
        assert node.stop() == 0
        assert secrets
        assert not any(secret in node.stdout + node.stderr for secret in secrets)


def remove(file: Path) -> None:
    file.unlink()


def open_to_all(file: Path) -> None:
    file.chmod(0o644)


def exchange(file: Path) -> None:
    SigningKey.new().save(file)


def damage(file: Path) -> None:
    file.write_text("{")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (remove, "signing-key.json is missing"),
        (open_to_all, "can be read by others"),
        (exchange, "restore .*signing-key.json from your backup"),
        (damage, "holds no signing key"),
    ],
)
def test_a_node_without_its_key_does_not_start_and_says_why(
    home: LoneHome, spoil: Callable[[Path], None], why: str
) -> None:
    spoil(home.key_file)
    said = home.refusal()
    assert "NoSigningKey: " in said
    assert re.search(why, said)


def test_a_dev_chain_says_that_everybody_has_its_key() -> None:
    with NodeProcess.start_dev() as node:
        public = PublicNode(node.url)
        public.await_confirmed(public.submit(sign_transfer(dev_account(0), PAYEE, 1, 0)))
        file = read_file(get_anew(f"{node.url}/block/1/finality").content)
        genesis = parse_genesis(get_anew(f"{node.url}/genesis").content)
        public.close()
        assert check_certificate(file.certificate, genesis).is_public_key
