"""`cairn backup` of a node under load, restored elsewhere: nothing that was accepted before is missing."""

import json
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from random import Random

import httpx
import pytest

from cairn.domain.crypto import checksum_address
from cairn.domain.genesis import DEV_KEYS
from cairn.store.backups import backups_in, check_files, read_backup
from cairn.store.hot_copy import COPY_DIRECTORY
from tests.support.node_process import NodeProcess, clean_environment, command, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.steady_load import SteadyLoad

SENDERS = 3
BACKUPS = 2


def cairn(*args: object, code: int = 0) -> str:
    done = subprocess.run(
        command([str(arg) for arg in args]),
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        start_new_session=True,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def home(tmp_path: Path) -> Path:
    holders = [checksum_address(address) for address, _ in DEV_KEYS[:SENDERS]]
    options = [f"--alloc={holder}=1000000coins" for holder in holders]
    cairn("init", tmp_path / "home", "--chain-id", 1337, "--proposer", holders[0], *options)
    return tmp_path / "home"


def start(home: Path, block_time: float) -> NodeProcess:
    return NodeProcess.start(
        (
            "run",
            "--home",
            str(home),
            "--port",
            "0",
            "--workers=1",
            f"--block-time={block_time}",
            "--mempool-size=100000",
        )
    )


def statuses(node: NodeProcess, hashes: Iterable[str]) -> set[str]:
    """What the node says of each of them."""
    with httpx.Client(base_url=node.url, timeout=PATIENCE_S) as client:
        answers = [client.get(f"/tx/{tx_hash}") for tx_hash in hashes]
    missing = [answer.text for answer in answers if answer.status_code != 200]
    assert not missing, f"{len(missing)} of {len(answers)} are missing: {missing[0]}"
    return {answer.json()["status"] for answer in answers}


@pytest.mark.parametrize(
    ("block_time", "expected"), [(0.2, {"confirmed", "pending"}), (3600, {"pending"}), (0, {"confirmed", "pending"})]
)
def test_what_was_accepted_before_a_backup_is_in_what_is_restored_from_it(
    home: Path, tmp_path: Path, block_time: float, expected: set[str]
) -> None:
    before: list[set[str]] = []
    made = []
    with start(home, block_time) as node:
        node.wait_ready()
        with SteadyLoad([node.url] * SENDERS, per_second=1_000) as load:
            for number in range(BACKUPS):
                wait_until(lambda: len(load.accepted) > 150 * (number + 1), PATIENCE_S, "some more")  # noqa: B023
                before.append(set(load.accepted))
                made.append(json.loads(cairn("backup", "--home", home, tmp_path / "backups", "--with-keys", "--json")))
            during = len(load.accepted) - len(before[-1])
        assert during > 0, "the node accepts while a backup is made"
        assert not (home / "data" / COPY_DIRECTORY).exists()
        assert node.probe("/ready") == 200
        assert node.stop() == 0
    assert all(each["nodeRan"] for each in made)
    for number, each in enumerate(made):
        place = tmp_path / f"restored-{number}"
        cairn("restore", each["backup"], place)
        # It makes no block of its own, so what is shown is what was in the backup.
        with start(place, 3600) as restored:
            restored.wait_ready()
            assert statuses(restored, before[number]) <= expected
            chain = httpx.get(f"{restored.url}/chain", timeout=PATIENCE_S).json()
            assert chain["head"]["blockHeight"] == each["blockHeight"]
            assert restored.stop() == 0
        checked = json.loads(cairn("verify", "--home", place, "--json"))
        assert (checked["ok"], checked["findingCount"]) == (True, 0)
        assert checked["transactions"] + checked["pending"] >= len(before[number])


def test_a_backup_that_is_killed_at_any_time_leaves_the_node_and_the_other_backups_whole(
    home: Path, tmp_path: Path
) -> None:
    target = tmp_path / "backups"
    random = Random(28)
    with start(home, 0.2) as node:
        node.wait_ready()
        with SteadyLoad([node.url], per_second=1_000) as load:
            began = time.monotonic()
            cairn("backup", "--home", home, target)
            took_s = time.monotonic() - began
            for _ in range(3):
                with subprocess.Popen(
                    command(["backup", "--home", str(home), str(target)]),
                    env=clean_environment(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                ) as making:
                    try:
                        making.wait(random.uniform(0.3, 1.0) * took_s)
                    except subprocess.TimeoutExpired:
                        making.send_signal(signal.SIGKILL)
                for path in backups_in(target):
                    check_files(read_backup(path), lambda size: None)
            accepted = set(load.accepted)
            last = json.loads(cairn("backup", "--home", home, target, "--keep", 1, "--json"))
        assert [path.name for path in target.iterdir()] == [Path(last["backup"]).name]
        assert not (home / "data" / COPY_DIRECTORY).exists()
        assert statuses(node, accepted) <= {"confirmed", "pending"}
        assert node.stop() == 0


def test_a_node_that_is_killed_while_a_backup_is_made_starts_again_with_all(home: Path, tmp_path: Path) -> None:
    with start(home, 0.2) as node:
        node.wait_ready()
        with SteadyLoad([node.url], per_second=1_000) as load:
            wait_until(lambda: len(load.accepted) > 100, PATIENCE_S, "some")
            with subprocess.Popen(
                command(["backup", "--home", str(home), str(tmp_path / "backups")]),
                env=clean_environment(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            ) as making:
                wait_until(
                    lambda: (home / "data" / COPY_DIRECTORY).exists() or making.poll() is not None, PATIENCE_S, "it"
                )
                node.replace_core()
                # It is made, or not; the node does not depend on it.
                making.wait(PATIENCE_S)
            accepted = set(load.accepted)
        assert statuses(node, accepted) <= {"confirmed", "pending"}
        for path in backups_in(tmp_path / "backups"):
            check_files(read_backup(path), lambda size: None)
        assert node.stop() == 0
