"""`cairn testnet` up to the homes: what it chooses, refuses and says. tests/e2e/network has real ones."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from cairn.cli.main import app
from cairn.cli.network.homes import plan_sites
from cairn.cli.network.running import NodeRow, reason_in, run_network, table_of
from cairn.cli.network.testnet import (
    DEV_ADMINS,
    choose_admins,
    choose_genesis,
    choose_recipients,
    describe,
    split_hosts,
)
from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import COIN, DEV_KEYS, dev_genesis
from cairn.domain.governance import Admins
from cairn.domain.types import Address

OWN = Address(b"\xab" * 20)
A, B, C = (address for address, _ in DEV_KEYS[:3])


def test_a_majority_of_the_administrators_must_sign_unless_said_otherwise() -> None:
    assert choose_admins([], None) == Admins(2, DEV_ADMINS)
    assert choose_admins([A, B, C], None).threshold == 2
    assert choose_admins([A, B], None).threshold == 2
    assert choose_admins([A], None).threshold == 1
    assert choose_admins([A, B, C], 3).threshold == 3
    with pytest.raises(InvalidConfig, match="--threshold 4: there are 3 administrators"):
        choose_admins([A, B, C], 4)
    with pytest.raises(InvalidConfig, match="--admin: an address is given twice"):
        choose_admins([A, A], None)


def test_fee_recipients_are_one_for_all_or_one_each() -> None:
    assert choose_recipients([], 2) == [None] * 2
    assert choose_recipients([A], 2) == [A, A]
    assert choose_recipients([A, B], 2) == [A, B]
    with pytest.raises(InvalidConfig, match="--fee-recipient is given 2 times for 3 validators"):
        choose_recipients([A, B], 3)


def test_the_dev_accounts_hold_all_money_unless_others_are_named() -> None:
    admins = choose_admins([], None)
    dev = choose_genesis(None, {}, admins)
    assert (dev.chain_id, dev.alloc, dev.admins) == (1337, dev_genesis().alloc, admins)
    own = choose_genesis(None, {OWN: COIN}, admins)
    assert own.alloc == {OWN: COIN}
    assert own.chain_id != 1337
    assert choose_genesis(7, {OWN: 1}, admins).chain_id == 7


def test_hosts_are_separated_by_commas() -> None:
    assert split_hosts(None) == []
    assert split_hosts("a, b") == ["a", "b"]
    with pytest.raises(InvalidConfig, match="--hosts a,,b: a name is missing"):
        split_hosts("a,,b")


def test_dev_accounts_with_money_or_power_are_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    sites = plan_sites(1, [], 9_000)
    describe(Path("net"), choose_genesis(None, {}, choose_admins([], None)), sites, 1)
    printed = capsys.readouterr()
    assert "cairn run --home net/node0   # http://127.0.0.1:9000\n" in printed.out
    assert "cairn testnet net --run" in printed.out
    assert "administer the network (dev0, dev1, dev2)" in printed.err
    describe(Path("net"), choose_genesis(None, {OWN: 1}, choose_admins([OWN], None)), sites, 1)
    assert capsys.readouterr().err == ""


def test_homes_for_other_hosts_say_where_they_belong(capsys: pytest.CaptureFixture[str]) -> None:
    genesis = choose_genesis(None, {OWN: 1}, choose_admins([OWN], None))
    describe(Path("net"), genesis, plan_sites(1, ["10.0.0.1"], 9_000), 1)
    printed = capsys.readouterr().out
    assert "on 10.0.0.1, with a copy of net/node0" in printed
    assert "copy it only to its own host" in printed
    assert "--run" not in printed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--hosts", "a,b"], "cairn: --hosts names 2 hosts for 4 nodes\n"),
        (["--admin", "0x12"], "cairn: --admin: an address is 0x and 40 hexadecimal digits\n"),
        (["--alloc", "0x12=1"], "cairn: --alloc 0x12=1: an address is 0x and 40 hexadecimal digits\n"),
        (
            ["--alloc", f"0x{OWN.hex()}=1"],
            "cairn: --alloc gives coins to your own accounts, so --admin must name who administers the network: "
            "without it dev accounts would, and with their public keys anybody could replace the validators\n",
        ),
    ],
)
def test_a_wrong_option_is_one_line_and_nothing_is_written(
    tmp_path: Path, options: list[str], message: str, cometbft_tools: Path
) -> None:
    result = CliRunner().invoke(app, ["testnet", str(tmp_path / "net"), *options])
    assert (result.exit_code, result.stderr) == (2, message)
    assert not (tmp_path / "net").exists()


def test_a_directory_without_homes_cannot_be_run(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    with pytest.raises(InvalidConfig, match="there is no node in"):
        run_network(tmp_path, "")


@pytest.mark.parametrize(
    ("readiness", "reason"),
    [
        ({"status": "unavailable", "checks": {"store": "ok", "mempool": "no block for 20 s"}}, "no block for 20 s"),
        ({"status": "starting", "checks": {"store": "opening", "mempool": "opening", "disk": "unknown"}}, "opening"),
        ({"detail": "the core is starting"}, "the core is starting"),
        ({"status": "draining", "checks": {}}, "draining"),
    ],
)
def test_the_table_says_why_a_node_is_not_ready(readiness: object, reason: str) -> None:
    assert reason_in(readiness) == reason


def test_the_table_has_a_row_for_each_node() -> None:
    table = table_of([("node0", "http://a"), ("node1", "http://b")], [NodeRow("5", "3", "0", "ready"), NodeRow()])
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(table)
    lines = console.export_text().splitlines()
    assert ["node0", "http://a", "5", "3", "0", "ready"] in [re.split(r"[ │]+", line.strip("│ ")) for line in lines]
    assert any("starting" in line for line in lines)
    assert "Ctrl-C stops them all" in lines[-1]
