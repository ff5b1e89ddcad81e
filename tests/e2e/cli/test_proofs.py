"""Proofs of a real node: saved, then checked without it, by the command and by verify.py."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cairn.domain.genesis import COIN, DEV_BALANCE
from tests.e2e.cli.conftest import User
from tests.support.node_process import NodeProcess
from tests.support.public import get_anew
from verify import verify as verifier

PAYER, PAYEE = "dev7", "dev8"
"""Accounts that no other test of this node uses."""


@pytest.fixture(scope="module")
def payment(node: NodeProcess, tmp_path_factory: pytest.TempPathFactory) -> Any:
    payer = User(tmp_path_factory.mktemp("payer"), node.url)
    payer.json("send", PAYER, PAYEE, "2coins")
    return payer.json("send", PAYER, PAYEE, "1coin", "--reference", "invoice 4711")


@pytest.fixture
def genesis(user: User) -> Path:
    path = user.home / "genesis.json"
    path.write_bytes(get_anew(f"{user.url}/genesis").content)
    return path


def checked(user: User, file: Path, genesis: Path) -> Any:
    """What `cairn check` says, offline; verify.py must take the file, too."""
    done = subprocess.run(
        [sys.executable, "-I", str(verifier.__file__), str(genesis), str(file)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return user.json("check", str(file), "--genesis", str(genesis), CAIRN_NODE="http://127.0.0.1:1")


def test_a_receipt_of_a_real_payment_holds_without_the_node(user: User, payment: Any, genesis: Path) -> None:
    file = user.home / "receipt.json"
    saved = user.run("receipt", payment["txHash"], "-o", str(file), "--genesis", str(genesis))
    assert (saved.returncode, saved.stderr) == (0, "")
    assert re.search(r'^for +"invoice 4711"$', saved.stdout, re.MULTILINE)
    assert "everybody has the key" in saved.stdout
    proven = checked(user, file, genesis)
    told = {key: proven[key] for key in ("txHash", "from", "to", "value", "fee", "nonce", "reference")}
    assert told == {key: payment[key] for key in told}
    assert proven["block"]["hash"] == payment["blockHash"]
    assert proven["finality"]["everybodyHasTheKey"] is True


def test_a_balance_is_proven_now_and_before(user: User, payment: Any, genesis: Path) -> None:
    file = user.home / "account.json"
    args = ("account", PAYEE, "--proof", "-o", str(file), "--genesis", str(genesis), "--force")
    assert user.invoke(*args).exit_code == 0
    assert checked(user, file, genesis)["balance"] == DEV_BALANCE + 3 * COIN
    assert user.invoke(*args, "--height", "0").exit_code == 0
    assert checked(user, file, genesis)["balance"] == DEV_BALANCE
    nobody = ("account", "0x" + "5c" * 20, *args[2:])
    assert user.invoke(*nobody).exit_code == 0
    assert "lastTouch" not in checked(user, file, genesis)


def test_a_statement_has_every_payment_and_adds_up(user: User, payment: Any, genesis: Path) -> None:
    file, table = user.home / "statement.json", user.home / "statement.csv"
    result = user.invoke("statement", PAYER, "-o", str(file), "--csv", str(table), "--genesis", str(genesis))
    assert (result.exit_code, result.stderr) == (0, "")
    proven = checked(user, file, genesis)
    sent = [paid for change in proven["changes"] for paid in change["payments"]]
    assert [paid["value"] for paid in sent] == [2 * COIN, COIN]
    state = user.json("account", PAYER)
    assert (proven["closing"]["balance"], proven["closing"]["nonce"]) == (state["balance"], state["nonce"])
    opening, *rows, closing = csv.DictReader(table.read_text().splitlines())
    total = int(opening["balance_wei"]) + sum(int(row["amount_wei"]) + int(row["fee_wei"]) for row in rows)
    assert total == int(closing["balance_wei"]) == state["balance"]


def test_a_statement_of_today_has_what_was_paid_today(user: User, payment: Any, genesis: Path) -> None:
    block = get_anew(f"{user.url}/block/{payment['blockHeight']}").json()
    day = subprocess.run(
        ["date", "-u", "-d", f"@{block['timestamp']}", "+%Y-%m-%d"], capture_output=True, text=True, check=True
    ).stdout.strip()
    result = user.invoke("statement", PAYEE, "--from", day, "--to", day, "--genesis", str(genesis), "--json")
    assert result.exit_code == 0
    proven = json.loads(result.stdout)
    assert payment["txHash"] in [paid["txHash"] for change in proven["changes"] for paid in change["payments"]]
    # Genesis of a dev chain is of 2025.
    assert proven["from"] > 0


def test_unknown_things_have_the_exit_codes_of_the_other_commands(user: User, genesis: Path) -> None:
    assert user.invoke("receipt", "0x" + "ab" * 32).exit_code == 4
    assert user.invoke("account", PAYER, "--proof", "-o", str(user.home / "x"), "--height", "999999999").exit_code == 4
    assert user.invoke("receipt", "0x" + "ab" * 32, "--node", "http://127.0.0.1:1").exit_code == 5
