"""`cairn validators` against a node that the test scripts; docs/network.md is run against a real network elsewhere."""

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from cairn.cli.main import app
from cairn.domain.crypto import checksum_address
from cairn.domain.errors import NodeError
from cairn.domain.genesis import DEV_KEYS
from cairn.domain.governance import Admins, EvidenceKind, EvidenceRecord, Governance, ValidatorRecord
from cairn.domain.update_json import encode_public_key, parse_update_json
from cairn.domain.updates import apply_update
from tests.support.json_server import Answer, JsonServer
from tests.support.stand_in_cometbft import make_stand_in

FIRST = ValidatorRecord(b"\x01" * 32, 10, DEV_KEYS[0][0], "first")
NEW_KEY = encode_public_key(b"\x02" * 32)
GENESIS = b"\x77" * 32
ADMINS = Admins(2, tuple(address for address, _ in DEV_KEYS[:3]))


class Scripted(JsonServer):
    """A node of a network with one validator; applies an update at once, by the chain's own rules."""

    def __init__(self) -> None:
        self.governance = Governance(0, (FIRST,), admins=ADMINS)
        self.lost = 0
        """So many updates are taken and never seen again."""
        self.posts = 0
        self.height = 7
        self.grows = False
        """A block is made each time that somebody looks."""
        self.missed: dict[str, int] = {}
        """By name: how many of the last 100 blocks lack the vote."""
        super().__init__()

    def get(self, target: str) -> Answer:
        return 200, {"status": "alive"} if target == "/health" else self.listing()

    def listing(self) -> object:
        self.height += self.grows
        return {
            "chainId": 1337,
            "genesis": "0x" + GENESIS.hex(),
            "blockHeight": self.height,
            "sequence": self.governance.sequence,
            "threshold": self.admins.threshold,
            "admins": ["0x" + address.hex() for address in self.admins.addresses],
            "validators": [
                {
                    "address": each.engine_address.hex(),
                    "publicKey": encode_public_key(each.public_key),
                    "power": each.power,
                    "feeRecipient": "0x" + each.fee_recipient.hex(),
                    "name": each.name,
                    "missedBlocks": self.missed.get(each.name, 3),
                    "evidence": 0,
                }
                for each in self.governance.validators
            ],
            "votedBlocks": 100,
            "evidenceCount": self.governance.evidence_count,
            "evidence": [
                {
                    "address": each.engine_address.hex().upper(),
                    "name": each.name,
                    "kind": "duplicateVote",
                    "blockHeight": each.height,
                    "timestamp": each.timestamp,
                }
                for each in reversed(self.governance.evidence)
            ],
        }

    @property
    def admins(self) -> Admins:
        assert self.governance.admins is not None
        return self.governance.admins

    def post(self, target: str, body: bytes) -> Answer:
        self.posts += 1
        chain, update = parse_update_json(body)
        try:
            after = apply_update(self.governance, update, chain)
        except NodeError as refusal:
            return 422, {"title": "", "status": 422, "detail": refusal.detail, "code": refusal.code}
        if self.posts > self.lost:
            self.governance = after
        return 202, {"status": "submitted"}


@pytest.fixture
def node() -> Iterator[Scripted]:
    with Scripted() as scripted:
        yield scripted


@pytest.fixture
def keys(tmp_path: Path) -> list[str]:
    """Options that name the keys of the first two administrators."""
    options: list[str] = []
    for index in range(2):
        path = tmp_path / f"admin{index}.key"
        path.write_text("0x" + DEV_KEYS[index][1].hex() + "\n")
        path.chmod(0o600)
        options += ["--key-file", str(path)]
    return options


def run(*args: str) -> Result:
    return CliRunner().invoke(app, ["validators", *args])


def test_list_shows_validators_and_administrators(node: Scripted) -> None:
    result = run("list", "--node", node.url)
    assert result.exit_code == 0
    assert "Chain 1337, block 7, 0 updates so far" in result.output
    assert "first     10  100.0%       3  AQEB" in result.output
    assert "Power 3 of 10 may fail. Missed are votes of the last 100 blocks." in result.output
    assert "Evidence" not in result.output
    assert "2 of these must sign a change: " + checksum_address(DEV_KEYS[0][0]) in result.output


def test_list_shows_evidence(node: Scripted) -> None:
    piece = EvidenceRecord(EvidenceKind.DUPLICATE_VOTE, FIRST.engine_address, 42, 1_700_000_000)
    node.governance = node.governance.with_evidence([piece, msgspec.structs.replace(piece, height=43)])
    output = run("list", "--node", node.url).output
    assert "Evidence against validators: 2 pieces, the latest of them" in output
    latest, earlier = (line for line in output.splitlines() if "duplicateVote  first" in line)
    assert latest.split()[0] == "43"
    assert earlier.split()[0] == "42"
    assert FIRST.engine_address.hex().upper() in latest


@pytest.mark.parametrize("lie", [{"name": "\x1b[2J"}, {"power": 0}])
def test_a_validator_with_control_codes_or_no_power_is_not_shown(node: Scripted, lie: dict[str, Any]) -> None:
    node.governance = Governance(0, (msgspec.structs.replace(FIRST, **lie),), admins=ADMINS)
    result = run("list", "--node", node.url)
    assert result.exit_code == 1
    assert "the node's answer cannot be read" in result.stderr


def test_a_validator_is_added_changed_and_removed(node: Scripted, keys: list[str]) -> None:
    chosen = ["--public-key", NEW_KEY, "--node", node.url, *keys]
    recipient = checksum_address(DEV_KEYS[4][0])
    added = run("add", *chosen, "--name", "second", "--power", "3", "--fee-recipient", recipient)
    assert added.exit_code == 0, added.output
    assert node.governance.validators[1] == ValidatorRecord(b"\x02" * 32, 3, DEV_KEYS[4][0], "second")
    assert run("update", "--name", "second", "--power", "5", "--node", node.url, *keys).exit_code == 0
    assert node.governance.validators[1] == ValidatorRecord(b"\x02" * 32, 5, DEV_KEYS[4][0], "second")
    assert run("remove", "--name", "second", "--node", node.url, *keys).exit_code == 0
    assert node.governance.validators == (FIRST,)
    assert node.governance.sequence == 3


@pytest.mark.parametrize(("missed", "is_told"), [(50, False), (51, True)])
def test_a_removal_after_which_silent_validators_stop_the_network_is_warned_of(
    node: Scripted, keys: list[str], tmp_path: Path, missed: int, is_told: bool
) -> None:
    seven = tuple(ValidatorRecord(bytes([number]) * 32, 10, DEV_KEYS[0][0], f"v{number}") for number in range(1, 8))
    node.governance = Governance(0, seven, admins=ADMINS)
    node.missed = {"v6": missed, "v7": missed}
    file = str(tmp_path / "update.json")
    # Two of seven may fail, of six only one.
    made = run("remove", "--name", "v1", "--node", node.url, "--out", file, *keys[:2])
    signed = run("sign", file, "--node", node.url, *keys[2:])
    assert (made.exit_code, signed.exit_code) == (0, 0)
    for result in (made, signed):
        assert ("stand still" in result.stderr and "v6, v7 missed most" in result.stderr) == is_told
    # One of those that are silent may go.
    assert "missed most" not in run("remove", "--name", "v7", "--node", node.url, *keys).stderr


def test_the_key_file_beside_a_remote_signer_is_not_added(node: Scripted, keys: list[str], tmp_path: Path) -> None:
    config = tmp_path / "node1" / "cometbft" / "config"
    config.mkdir(parents=True)
    (config / "priv_validator_key.json").write_text(json.dumps({"pub_key": {"value": NEW_KEY}}))
    (config / "config.toml").write_text('priv_validator_laddr = "unix:///run/signer.sock"\n')
    refused = run("add", "--home", str(tmp_path / "node1"), "--node", node.url, *keys)
    assert refused.exit_code == 2
    assert "name its key by --public-key" in refused.stderr
    assert node.governance.sequence == 0


@pytest.mark.parametrize(("inbound", "is_told"), [(40, True), (0, False)])
def test_adding_a_validator_that_accepts_unlisted_nodes_warns(
    node: Scripted, keys: list[str], tmp_path: Path, inbound: int, is_told: bool
) -> None:
    home = tmp_path / "node1"
    config = home / "cometbft" / "config"
    config.mkdir(parents=True)
    (config / "priv_validator_key.json").write_text(json.dumps({"pub_key": {"value": NEW_KEY}}))
    (config / "config.toml").write_text(f"[p2p]\nmax_num_inbound_peers = {inbound}\n")
    added = run("add", "--home", str(home), "--node", node.url, *keys)
    assert added.exit_code == 0, added.stderr
    assert node.governance.validators[1].name == "node1"
    assert ("unknown nodes may connect to this validator" in added.stderr) == is_told


def test_a_lost_update_is_submitted_again(node: Scripted, keys: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cairn.cli.network.remote_network.RESUBMIT_S", 0.1)
    node.lost = 2
    assert run("add", "--public-key", NEW_KEY, "--node", node.url, *keys).exit_code == 0
    assert node.posts == 3
    # Without a fee recipient, its blocks still say whose they are.
    added = node.governance.validators[1]
    assert added.fee_recipient == added.engine_address


def test_an_update_that_no_block_holds_in_time_fails(node: Scripted, keys: list[str]) -> None:
    node.lost = 100
    result = run("add", "--public-key", NEW_KEY, "--node", node.url, "--timeout", "1", *keys)
    assert result.exit_code == 6
    assert result.stderr.endswith("cairn: the update is not in a block after 1 s; it may still come\n")


def test_administrators_sign_one_after_the_other(node: Scripted, keys: list[str], tmp_path: Path) -> None:
    file = str(tmp_path / "update.json")
    assert run("add", "--public-key", NEW_KEY, "--node", node.url, *keys[:2], "--out", file).exit_code == 0
    refused = run("submit", file, "--node", node.url)
    assert (refused.exit_code, refused.stderr) == (1, "cairn: refused: 1 of 2 required administrators have signed\n")
    # Whoever signs twice has signed once.
    assert "signatures so far: 1" in run("sign", file, *keys[:2]).output
    assert "signatures so far: 2" in run("sign", file, *keys[2:]).output
    assert run("submit", file, "--node", node.url).exit_code == 0
    assert len(node.governance.validators) == 2


def test_one_can_wait_until_an_update_is_in_effect(node: Scripted, keys: list[str], tmp_path: Path) -> None:
    file = str(tmp_path / "update.json")
    run("add", "--public-key", NEW_KEY, "--name", "second", "--node", node.url, *keys, "--out", file)
    early = run("submit", file, "--wait", "--timeout", "1", "--node", node.url)
    assert "Done: second with power 10, from block 9 on at the latest." in early.stdout
    assert (early.exit_code, early.stderr) == (
        6,
        "cairn: the update is in a block, but block 9 is not there after 1 s\n",
    )
    node.grows = True
    late = run("submit", file, "--wait", "--node", node.url)
    assert (late.exit_code, late.stdout.splitlines()[-1]) == (0, "In effect: block 11 has been made.")
    assert node.height >= 11


def test_an_update_that_another_one_overtook_is_refused(node: Scripted, keys: list[str], tmp_path: Path) -> None:
    file = str(tmp_path / "update.json")
    run("add", "--public-key", NEW_KEY, "--node", node.url, *keys, "--out", file)
    run("update", "--name", "first", "--power", "11", "--node", node.url, *keys)
    late = run("submit", file, "--node", node.url)
    assert (late.exit_code, late.stderr) == (
        1,
        "cairn: refused: another update has the sequence number 0; make this one again\n",
    )


def test_an_update_that_was_applied_before_is_reported_without_a_block(
    node: Scripted, keys: list[str], tmp_path: Path
) -> None:
    file = str(tmp_path / "update.json")
    run("add", "--public-key", NEW_KEY, "--name", "second", "--node", node.url, *keys, "--out", file)
    first = run("submit", file, "--node", node.url)
    assert "Done: second with power 10, from block 9 on at the latest." in first.stdout
    again = run("submit", file, "--node", node.url)
    assert again.exit_code == 0
    assert again.stdout.startswith("Nothing to do: an update number 0 was applied before; second with power 10.\n")
    assert node.posts == 1


def test_an_update_whose_effect_was_changed_since_is_refused_with_what_is_known(
    node: Scripted, keys: list[str], tmp_path: Path
) -> None:
    file = str(tmp_path / "update.json")
    run("update", "--name", "first", "--power", "11", "--node", node.url, *keys, "--out", file)
    assert run("submit", file, "--node", node.url).exit_code == 0
    assert run("update", "--name", "first", "--power", "12", "--node", node.url, *keys).exit_code == 0
    refused = run("submit", file, "--node", node.url)
    assert refused.exit_code == 1
    assert "the network has had 1 updates since the one with the sequence number 0" in refused.stderr


@pytest.mark.parametrize(
    ("written", "other", "message"),
    [
        ('"chainId": 1337', '"chainId": 1338', "the update is for chain 1338, not for chain 1337"),
        (GENESIS.hex(), "88" * 32, f"the update is for another chain 1337, with genesis 0x{'88' * 32}, not with 0x77"),
    ],
)
def test_an_update_of_another_chain_is_not_submitted(
    node: Scripted, keys: list[str], tmp_path: Path, written: str, other: str, message: str
) -> None:
    path = tmp_path / "update.json"
    run("update", "--name", "first", "--power", "11", "--node", node.url, *keys, "--out", str(path))
    path.write_text(path.read_text().replace(written, other))
    for command in ("sign", "submit"):
        refused = run(command, str(path), "--node", node.url)
        assert refused.exit_code == 1
        assert refused.stderr.startswith(f"cairn: {message}")
    assert node.posts == 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["add"], "name the validator by --home, by --public-key or by --file"),
        (["add", "--public-key", "abc"], "--public-key: publicKey: an Ed25519 key is 44 characters of base64"),
        (["add", "--public-key", encode_public_key(FIRST.public_key)], "it is already a validator; `cairn validators"),
        (["remove"], "name one validator: --home, --public-key, --file or --name"),
        (["remove", "--name", "nobody"], "0 validators are called nobody; name one by --public-key"),
        (["remove", "--public-key", NEW_KEY], "this is not a validator of the network"),
        (["add", "--home", "/nowhere"], "cannot read the public key in /nowhere/cometbft/config"),
        (["add", "--public-key", NEW_KEY, "--key-file", "/nowhere"], "cannot read /nowhere: No such file or directory"),
        (["add", "--public-key", NEW_KEY, "--name", "n" * 65], "name: it has at most 64 bytes"),
        (["add", "--public-key", NEW_KEY, "--name", "first "], "name: it is words of printable ASCII"),
        (
            ["update", "--public-key", encode_public_key(FIRST.public_key), "--name", "other"],
            "the network would refuse it: its key is that of 'first', not of 'other'",
        ),
        (
            ["remove", "--public-key", encode_public_key(FIRST.public_key), "--name", "other"],
            "the validator with this key is called first, not other",
        ),
        (["remove", "--name", "first"], "the network would refuse it: it removes the last validator"),
    ],
)
def test_a_wrong_change_of_validators_is_a_usage_error(node: Scripted, args: list[str], message: str) -> None:
    result = run(*args, "--node", node.url)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"cairn: {message}")
    assert node.posts == 0


def test_a_key_file_that_others_can_read_or_without_a_key_is_refused(node: Scripted, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("secret")
    path.chmod(0o644)
    options = ["--public-key", NEW_KEY, "--node", node.url, "--key-file", str(path)]
    assert run("add", *options).stderr == f"cairn: {path} can be read by others: chmod 600 {path}\n"
    path.chmod(0o600)
    for text in ("secret", "", "11" * 31, "ff" * 32):
        path.write_text(text)
        assert run("add", *options).stderr == f"cairn: {path} holds no private key of 64 hexadecimal digits\n"


def test_a_missing_or_empty_update_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "update.json"
    assert run("sign", str(path)).stderr == f"cairn: cannot read {path}: No such file or directory\n"
    path.write_text("{}")
    assert run("sign", str(path)).stderr.startswith(f"cairn: {path}: body: Object missing required field")


def test_a_wrong_url_and_an_unreachable_node_are_named() -> None:
    assert run("list", "--node", "localhost").stderr.startswith("cairn: --node localhost: expected a URL")
    away = run("list", "--node", "http://127.0.0.1:1")
    assert away.exit_code == 5
    assert away.stderr.startswith("cairn: http://127.0.0.1:1 does not answer")
    assert "`cairn dev` starts a node" in away.stderr


def shown(output: str) -> dict[str, str]:
    """What is printed of an update before it is signed, by label."""
    pairs = [line.split("  ", 1) for line in output.splitlines() if "  " in line]
    return {label: text.strip() for label, text in pairs}


def test_an_administrator_sees_all_that_is_signed_and_what_follows(
    node: Scripted, keys: list[str], tmp_path: Path
) -> None:
    others = tuple(ValidatorRecord(bytes([number]) * 32, 10, DEV_KEYS[0][0], f"v{number}") for number in range(2, 5))
    node.governance = Governance(4, (FIRST, *others), admins=ADMINS)
    file = str(tmp_path / "update.json")
    assert run("remove", "--name", "first", "--node", node.url, "--out", file).exit_code == 0
    signed = run("sign", file, *keys[:2])
    assert signed.exit_code == 0
    fields = shown(signed.stdout)
    assert (fields["update"], fields["genesis"]) == ("4 of chain 1337", "0x" + GENESIS.hex())
    assert fields["name"] == "first"
    assert fields["key"] == encode_public_key(FIRST.public_key)
    assert fields["address"] == FIRST.engine_address.hex().upper()
    assert fields["power"] == "10 before; it is removed"
    assert fields["validators"] == "3; 4 before"
    assert fields["all power"] == "30; 40 before"
    assert fields["may fail"] == "power 9 of 30; 13 of 40 before"
    assert "Of 3 validators of equal power, none may fail." in signed.stdout
    assert "none may then fail: if one stops, the network stands still" in signed.stderr


def test_a_file_that_shows_one_validator_and_removes_another_has_no_effect(
    node: Scripted, keys: list[str], tmp_path: Path
) -> None:
    """What was signed as the removal of node3 removed node1."""
    second = ValidatorRecord(b"\x02" * 32, 10, DEV_KEYS[0][0], "second")
    node.governance = Governance(0, (FIRST, second), admins=ADMINS)
    path = tmp_path / "update.json"
    run("remove", "--name", "first", "--node", node.url, "--out", str(path))
    path.write_text(path.read_text().replace('"first"', '"second"'))
    careful = run("sign", str(path), *keys, "--node", node.url)
    assert (careful.exit_code, careful.stdout) == (1, "")
    assert "the network would refuse it: its key is that of 'first', not of 'second'" in careful.stderr
    signed = run("sign", str(path), *keys)
    assert shown(signed.stdout)["key"] == encode_public_key(FIRST.public_key)
    refused = run("submit", str(path), "--node", node.url)
    assert refused.exit_code == 1
    assert "its key is that of 'first', not of 'second'" in refused.stderr
    assert node.governance.validators == (FIRST, second)


def test_a_file_that_lies_about_what_was_before_has_no_effect(node: Scripted, keys: list[str], tmp_path: Path) -> None:
    path = tmp_path / "update.json"
    run("update", "--name", "first", "--power", "20", "--node", node.url, "--out", str(path))
    path.write_text(path.read_text().replace('"totalPower": 10', '"totalPower": 100'))
    assert shown(run("sign", str(path), *keys).stdout)["all power"] == "110; 100 before"
    refused = run("submit", str(path), "--node", node.url)
    assert "it was signed for power 10 of 100" in refused.stderr
    assert node.governance.sequence == 0


def test_a_second_key_under_a_known_name_needs_a_yes(node: Scripted, keys: list[str], tmp_path: Path) -> None:
    args = ["--public-key", NEW_KEY, "--name", "first", "--node", node.url]
    refused = run("add", *args, *keys)
    assert refused.exit_code == 1
    assert "1 other validator is called first, too: this adds another key, and removes none" in refused.stderr
    assert "a validator is called first already; --yes adds a second key" in refused.stderr
    assert node.posts == 0
    file = str(tmp_path / "update.json")
    assert run("add", *args, "--out", file, "--yes").exit_code == 0
    # Whoever signs is asked too: the file says that there is another.
    assert run("sign", file, *keys).exit_code == 1
    assert run("sign", file, *keys, "--yes").exit_code == 0
    assert run("submit", file, "--node", node.url).exit_code == 0
    assert [each.name for each in node.governance.validators] == ["first", "first"]


@pytest.mark.parametrize(("answer", "exit_code"), [("y\n", 0), ("n\n", 1), ("", 1)])
def test_at_a_terminal_every_signature_is_asked_for(
    node: Scripted, keys: list[str], monkeypatch: pytest.MonkeyPatch, answer: str, exit_code: int
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stdin = Terminal(answer)
    monkeypatch.setattr("cairn.cli.network.update_signing.sys", SimpleNamespace(stdin=stdin))
    monkeypatch.setattr("cairn.cli.screen.sys", SimpleNamespace(stdin=stdin, stdout=sys.stdout, stderr=sys.stderr))
    done = run("update", "--name", "first", "--power", "20", "--node", node.url, *keys)
    assert done.exit_code == exit_code
    assert node.governance.sequence == 1 - exit_code


def test_adding_a_validator_that_the_network_would_wait_for_is_warned_of(node: Scripted, keys: list[str]) -> None:
    added = run("add", "--public-key", NEW_KEY, "--name", "second", "--node", node.url, *keys)
    assert added.exit_code == 0
    assert "Until this validator's node runs and has caught up, the network stands still." in added.stderr


def test_a_new_key_for_a_known_name_keeps_power_and_fee_recipient(node: Scripted, keys: list[str]) -> None:
    node.governance = msgspec.structs.replace(node.governance, validators=(msgspec.structs.replace(FIRST, power=7),))
    added = run("add", "--public-key", NEW_KEY, "--name", "first", "--yes", "--node", node.url, *keys)
    assert added.exit_code == 0, added.stderr
    assert "are lost" not in added.stderr
    _, new = node.governance.validators
    assert (new.name, new.power, new.fee_recipient) == ("first", 7, FIRST.fee_recipient)
    removed = run("remove", "--public-key", encode_public_key(FIRST.public_key), "--node", node.url, *keys)
    assert removed.exit_code == 0, removed.stderr
    assert node.governance.validators == (new,)


def test_a_new_validator_without_a_fee_recipient_is_warned_of(node: Scripted, keys: list[str]) -> None:
    added = run("add", "--public-key", NEW_KEY, "--name", "other", "--node", node.url, *keys)
    assert added.exit_code == 0
    assert "without --fee-recipient they are lost" in added.stderr
    assert node.governance.validators[1].power == 10


def test_an_administrator_signs_with_an_encrypted_key(
    node: Scripted, keys: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAIRN_KEYS", str(tmp_path / "keys"))
    monkeypatch.setenv("CAIRN_PASSWORD", "secret")
    imported = CliRunner().invoke(app, ["keys", "import", "second", keys[3]])
    assert imported.exit_code == 0, imported.stderr
    wanted = ["add", "--public-key", NEW_KEY, "--name", "other", "--node", node.url]
    added = run(*wanted, *keys[:2], "--key", "second")
    assert added.exit_code == 0, added.stderr
    assert node.governance.sequence == 1
    monkeypatch.setenv("CAIRN_PASSWORD", "wrong")
    assert run("remove", "--name", "other", "--node", node.url, *keys[:2], "--key", "second").exit_code == 7
    assert run("remove", "--name", "other", "--node", node.url, *keys[:2], "--key", "third").exit_code == 4


def test_a_validator_is_added_and_removed_by_its_file(node: Scripted, keys: list[str], tmp_path: Path) -> None:
    binary = make_stand_in(tmp_path)
    given = ["--name=dave", "--host=10.0.0.4", f"--fee-recipient={checksum_address(DEV_KEYS[5][0])}"]
    made = CliRunner().invoke(app, ["validator", "init", str(tmp_path / "home"), *given, f"--cometbft-binary={binary}"])
    assert made.exit_code == 0, made.stderr
    file = str(tmp_path / "home" / "validator.json")
    added = run("add", "--file", file, "--node", node.url, *keys)
    assert added.exit_code == 0, added.stderr
    [new] = [each for each in node.governance.validators if each.name == "dave"]
    assert (new.power, new.fee_recipient) == (10, DEV_KEYS[5][0])
    assert run("update", "--file", file, "--power", "9", "--node", node.url, *keys).exit_code == 0
    assert run("remove", "--file", file, "--node", node.url, *keys).exit_code == 0
    assert node.governance.validators == (FIRST,)
    both = run("add", "--file", file, "--public-key", NEW_KEY, "--node", node.url, *keys)
    assert (both.exit_code, "by --home, by --public-key or by --file" in both.stderr) == (2, True)
