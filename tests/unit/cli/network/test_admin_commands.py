"""`cairn admins` against a node that the test scripts: administrators change themselves, by the threshold rule."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cairn.cli.main import app
from cairn.domain.crypto import checksum_address
from cairn.domain.genesis import DEV_KEYS
from cairn.domain.governance import Admins, Governance
from tests.unit.cli.network.test_governance_commands import ADMINS, FIRST, Scripted, keys, node, shown

__all__ = ["keys", "node"]

FIRST_ADMIN, SECOND_ADMIN, LOST = (checksum_address(address) for address in ADMINS.addresses)
NEW = checksum_address(DEV_KEYS[5][0])


def run(*args: str) -> Result:
    return CliRunner().invoke(app, ["admins", *args])


def test_list_shows_who_must_sign(node: Scripted) -> None:
    assert run("list", "--node", node.url).stdout == (
        f"2 of these must sign a change: {FIRST_ADMIN}, {SECOND_ADMIN}, {LOST}\n"
    )


def test_two_administrators_replace_a_third_one(node: Scripted, keys: list[str], tmp_path: Path) -> None:
    file = str(tmp_path / "update.json")
    made = run("change", "--remove", LOST, "--add", NEW, "--node", node.url, "--out", file, *keys[:2])
    assert made.exit_code == 0, made.stderr
    assert run("submit", file, "--node", node.url).stderr.endswith("1 of 2 required administrators have signed\n")
    signed = run("sign", file, *keys[2:])
    fields = shown(signed.stdout)
    assert fields["must sign"] == "2 of 3; 2 of 3 before"
    assert (fields["added"], fields["removed"]) == (NEW, LOST)
    assert signed.stdout.count("stays") == 2
    done = run("submit", file, "--node", node.url)
    assert done.exit_code == 0, done.stderr
    assert node.governance.admins == Admins(2, (*ADMINS.addresses[:2], DEV_KEYS[5][0]))
    assert "Done: 2 of 3 administrators must sign" in done.stdout


def test_the_threshold_can_be_changed_alone(node: Scripted, keys: list[str]) -> None:
    changed = run("change", "--threshold", "1", "--node", node.url, *keys)
    assert changed.exit_code == 0
    assert "Each of them alone can then change the validators and the administrators." in changed.stderr
    assert node.governance.admins == Admins(1, ADMINS.addresses)
    all_must = run("change", "--threshold", "3", "--node", node.url, *keys)
    assert all_must.exit_code == 0
    assert "All must sign: if one key is lost, nothing can ever be changed again." in all_must.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--add", FIRST_ADMIN], f"--add {FIRST_ADMIN}: it is an administrator already"),
        (["--remove", NEW], f"--remove {NEW}: it is no administrator"),
        (["--add", NEW, "--add", NEW], "admins.addresses: an address is given twice"),
        (["--threshold", "4"], "admins.threshold: 4 is not between 1 and 3, the administrators"),
        (["--remove", FIRST_ADMIN, "--remove", LOST], "admins.threshold: 2 is not between 1 and 1"),
        (["--remove", FIRST_ADMIN, "--remove", SECOND_ADMIN, "--remove", LOST], "admins.addresses: there are 0"),
        ([], "the network would refuse it: it changes nothing"),
        (["--add", "0x12"], "--add"),
    ],
)
def test_a_wrong_change_of_administrators_is_a_usage_error(node: Scripted, args: list[str], message: str) -> None:
    refused = run("change", *args, "--node", node.url)
    assert refused.exit_code == 2
    assert refused.stderr.startswith(f"cairn: {message}")
    assert node.posts == 0


def test_a_chain_without_administrators_cannot_add_one(node: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    node.governance = Governance(0, (FIRST,))
    monkeypatch.setattr(Scripted, "admins", Admins(0, ()))
    assert run("list", "--node", node.url).stdout == "Nobody can change them.\n"
    refused = run("change", "--add", NEW, "--node", node.url)
    assert (refused.exit_code, refused.stderr) == (
        2,
        "cairn: genesis names no administrators, and nobody can add some\n",
    )
