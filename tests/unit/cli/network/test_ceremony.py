"""A network made by several operators: the files that they send, the genesis made of them, and the homes that join."""

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from cairn.cli.main import app
from cairn.cli.network.homes import read_public_key
from cairn.cli.network.peers import read_peers
from cairn.cli.network.validator_file import read_validator_file
from cairn.cometbft import CometBFT
from cairn.domain.certificates import engine_chain_id
from cairn.domain.crypto import checksum_address
from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import DEV_KEYS, genesis_digest, parse_genesis
from cairn.domain.types import Address
from cairn.domain.update_json import encode_public_key
from cairn.running_node import RunningNode, announced
from tests.support.stand_in_cometbft import make_stand_in

NAMES = ("alice", "bob", "carol", "dave")
RULES = ("--chain-id=77", "--timestamp=1800000000")


def account(number: int) -> str:
    return checksum_address(Address(bytes([0xA0 + number]) * 20))


class Operators:
    """Each has a directory of its own, and sends files to the one who collects."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.binary = make_stand_in(directory)
        self.collected = directory / "genesis.json"

    def cairn(self, *args: str) -> Result:
        return CliRunner().invoke(app, args)

    def init(self, name: str, *more: str, number: int = 0) -> Result:
        given = [f"--name={name}", f"--host=10.0.0.{number + 1}", f"--cometbft-binary={self.binary}"]
        return self.cairn("validator", "init", str(self.directory / name), *given, *more)

    def all_init(self) -> list[str]:
        files = []
        for number, name in enumerate(NAMES):
            made = self.init(name, f"--fee-recipient={account(number)}", f"--admin={account(number)}", number=number)
            assert made.exit_code == 0, made.stderr
            files.append(str(self.directory / name / "validator.json"))
        return files

    def collect(self, *args: str) -> Result:
        return self.cairn("genesis", "collect", f"--out={self.collected}", *RULES, *args)

    def join(self, name: str, *more: str) -> Result:
        given = [f"--genesis={self.collected}", f"--cometbft-binary={self.binary}"]
        return self.cairn("join", str(self.directory / name), *given, *more)

    def shown(self) -> dict[str, Any]:
        shown: dict[str, Any] = json.loads(self.cairn("genesis", "show", str(self.collected), "--json").stdout)
        return shown


@pytest.fixture
def operators(tmp_path: Path) -> Operators:
    return Operators(tmp_path)


def alloc(number: int = 0, coins: int = 1_000) -> str:
    return f"--alloc={account(number)}={coins}coins"


def change(path: Path, **fields: object) -> str:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    return str(path)


def test_a_new_validator_has_keys_and_a_file_that_shows_no_private_one(operators: Operators) -> None:
    made = operators.init("alice", f"--fee-recipient={account(1)}", "--base-port=9000", number=3)
    assert made.exit_code == 0, made.stderr
    home = operators.directory / "alice"
    told = read_validator_file(home / "validator.json")
    assert (told.name, told.address, told.admin) == ("alice", "10.0.0.4:9001", None)
    files = [home / "cometbft" / "config" / f"{name}.json" for name in ("priv_validator_key", "node_key")]
    secrets = [json.loads(file.read_text())["priv_key"]["value"] for file in files]
    text = (home / "validator.json").read_text()
    assert not any(secret[:20] in text for secret in secrets)
    # CometBFT made it for a chain of this node alone.
    assert not (home / "cometbft/config/genesis.json").exists()


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["--name=", "--fee-recipient=dev0"], "name: a validator needs one"),
        (["--name=a\nb", "--fee-recipient=dev0"], "printable ASCII"),
        (["--host=a b", "--fee-recipient=dev0"], "expected HOST:PORT"),
        (["--host=", "--fee-recipient=dev0"], "expected HOST:PORT"),
        (["--fee-recipient=0x12"], "--fee-recipient"),
    ],
)
def test_a_validator_that_nobody_could_use_is_refused_and_nothing_is_written(
    operators: Operators, more: list[str], reason: str
) -> None:
    refused = operators.init("alice", *more)
    assert refused.exit_code == 2
    assert reason in refused.stderr
    assert sorted(path.name for path in operators.directory.iterdir()) == [".stand-in", "cometbft"]


def test_keys_are_never_made_in_a_directory_with_files(operators: Operators) -> None:
    operators.init("alice", f"--fee-recipient={account(0)}")
    key = operators.directory / "alice/cometbft/config/priv_validator_key.json"
    before = key.read_bytes()
    again = operators.init("alice", f"--fee-recipient={account(0)}")
    assert (again.exit_code, "is not empty; nothing was written" in again.stderr) == (2, True)
    assert key.read_bytes() == before


def test_keys_are_made_within_a_directory_that_is_there(operators: Operators) -> None:
    """Beside that of a service, its user may write nothing; and it may be a disk of its own."""
    home = operators.directory / "alice"
    home.mkdir()
    before = home.stat().st_ino, operators.directory.stat().st_mtime_ns
    refused = operators.init("alice", "--fee-recipient=dev0", "--host=a b")
    assert (refused.exit_code, list(home.iterdir())) == (2, [])
    assert operators.init("alice", f"--fee-recipient={account(0)}").exit_code == 0
    assert (home.stat().st_ino, operators.directory.stat().st_mtime_ns) == before
    assert sorted(path.name for path in home.iterdir()) == ["cometbft", "validator.json"]


def test_the_files_make_the_same_genesis_in_whatever_order(operators: Operators) -> None:
    files = operators.all_init()
    collected = operators.collect(*files, alloc())
    assert collected.exit_code == 0, collected.stderr
    first = operators.collected.read_bytes()
    peers = (operators.directory / "peers.json").read_bytes()
    operators.collected.unlink()
    (operators.directory / "peers.json").unlink()
    operators.collect(*reversed(files), alloc())
    assert operators.collected.read_bytes() == first
    assert (operators.directory / "peers.json").read_bytes() == peers
    genesis = parse_genesis(first)
    assert sorted(each.name for each in genesis.validators) == list(NAMES)
    assert {each.name: checksum_address(each.fee_recipient) for each in genesis.validators} == {
        name: account(number) for number, name in enumerate(NAMES)
    }
    assert genesis.admins is not None
    assert (genesis.admins.threshold, len(genesis.admins.addresses)) == (3, 4)
    assert genesis.alloc == {Address(b"\xa0" * 20): 1_000 * 10**18}


def test_the_digest_is_shown_whole_and_in_groups_to_say_aloud(operators: Operators) -> None:
    files = operators.all_init()
    said = operators.collect(*files, alloc()).stdout
    digest = genesis_digest(parse_genesis(operators.collected.read_bytes())).hex()
    assert f"0x{digest}" in said
    assert f"{digest[:4]} {digest[4:8]} " in said
    shown = operators.shown()
    assert (shown["digest"], shown["chainId"], shown["supply"]) == (f"0x{digest}", 77, str(1_000 * 10**18))
    assert shown["network"] == engine_chain_id(parse_genesis(operators.collected.read_bytes()))
    show = ["genesis", "show", str(operators.collected)]
    spoken = " ".join(digest[at : at + 4] for at in range(0, 64, 4)).upper()
    assert operators.cairn(*show, "--digest", spoken).exit_code == 0
    other = operators.cairn(*show, "--digest", "0x" + "00" * 32)
    assert (other.exit_code, "this is another genesis" in other.stderr) == (1, True)


def test_an_operator_whose_file_was_left_out_sees_it(operators: Operators) -> None:
    *files, _ = operators.all_init()
    operators.collect(*files, alloc())
    show = ["genesis", "show", str(operators.collected), "--home"]
    assert "is that of carol" in operators.cairn(*show, str(operators.directory / "carol")).stdout
    left_out = operators.cairn(*show, str(operators.directory / "dave"))
    assert (left_out.exit_code, "is not among the validators" in left_out.stderr) == (1, True)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("feeRecipient", account(9), "not signed with its own publicKey"),
        ("address", "10.9.9.9:8651", "not signed with its own publicKey"),
        ("admin", None, "not signed with its own publicKey"),
        ("signature", "", "not signed with its own publicKey"),
        ("signature", "?", "not base64"),
        ("publicKey", "AAAA", "publicKey"),
        ("nodeId", "1", "nodeId"),
        ("power", 1, "not a file that `cairn validator init` makes"),
    ],
)
def test_a_file_that_was_changed_on_its_way_is_refused(
    operators: Operators, field: str, value: object, reason: str
) -> None:
    first, *others = operators.all_init()
    change(Path(first), **{field: value})
    refused = operators.collect(first, *others, alloc())
    assert refused.exit_code == 2
    assert reason in refused.stderr
    assert "alice/validator.json" in refused.stderr
    assert not operators.collected.exists()


@pytest.mark.parametrize("content", ["", "[]", '{"name": 5}', "\udcff", "x" * 100_000])
def test_a_file_of_another_kind_is_refused(operators: Operators, content: str) -> None:
    other = operators.directory / "other.json"
    other.write_bytes(content.encode(errors="surrogateescape"))
    refused = operators.collect(str(other), alloc())
    assert refused.exit_code == 2
    assert "not a file that `cairn validator init` makes" in refused.stderr
    assert "cannot read" in operators.collect(str(operators.directory / "none.json"), alloc()).stderr


def test_a_file_that_is_given_twice_is_refused(operators: Operators) -> None:
    files = operators.all_init()
    refused = operators.collect(*files, files[0], alloc())
    assert (refused.exit_code, "2 of the files have the public key" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("name", "number", "reason"), [("alice", 7, "have the name alice"), ("erin", 0, "have the address 10.0.0.1:8651")]
)
def test_two_validators_that_cannot_be_told_apart_are_refused(
    operators: Operators, name: str, number: int, reason: str
) -> None:
    files = operators.all_init()
    again = operators.cairn(
        *("validator", "init", str(operators.directory / "again"), f"--name={name}", f"--host=10.0.0.{number + 1}"),
        *(f"--fee-recipient={account(7)}", f"--cometbft-binary={operators.binary}"),
    )
    assert again.exit_code == 0, again.stderr
    refused = operators.collect(*files, str(operators.directory / "again" / "validator.json"), alloc())
    assert refused.exit_code == 2
    assert reason in refused.stderr


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ([], "missing option '--alloc'"),
        ([alloc(coins=0)], "no account would hold anything"),
        ([alloc(), alloc()], "given twice"),
        ([alloc(), "--threshold=5"], "admins.threshold"),
        ([alloc(), f"--admin={account(0)}"], "named twice"),
        ([alloc(), "--power=erin=5"], "--power erin=5"),
        ([alloc(), "--power=alice=x"], "--power alice=x"),
        ([alloc(), "--power=alice=0"], "power"),
        ([alloc(), "--gas-price=-1"], "gasPrice"),
        (["--alloc=dev3=1coin"], "the owner of a first balance, and is a dev account"),
        (["--alloc=0xBcd4042DE499D14e55001CcbB24a551F3b954096=1coin"], "first balance, and is a dev account"),
        ([alloc(), "--admin=dev0"], "an administrator, and is a dev account"),
    ],
)
def test_wrong_rules_are_refused_and_nothing_is_written(operators: Operators, more: list[str], reason: str) -> None:
    refused = operators.collect(*operators.all_init(), *more)
    assert refused.exit_code == 2
    assert reason in refused.output
    assert not operators.collected.exists()
    assert not (operators.directory / "peers.json").exists()


def test_dev_accounts_are_taken_when_asked_for(operators: Operators) -> None:
    files = operators.all_init()
    assert operators.collect(*files, "--alloc=dev0=1coin", "--admin=dev1", "--dev-keys").exit_code == 0
    assert checksum_address(DEV_KEYS[1][0]) in operators.shown()["admins"]["addresses"]


def test_files_without_an_administrator_need_one(operators: Operators) -> None:
    operators.init("alice", f"--fee-recipient={account(0)}")
    file = str(operators.directory / "alice" / "validator.json")
    assert "no file names an administrator" in operators.collect(file, alloc()).stderr
    made = operators.collect(file, alloc(), f"--admin={account(1)}", "--power=alice=3")
    assert made.exit_code == 0
    assert "of 1 validators none may fail" in made.stderr
    assert operators.shown()["validators"][0]["power"] == 3


def test_a_collected_genesis_is_not_overwritten(operators: Operators) -> None:
    files = operators.all_init()
    operators.collect(*files, alloc())
    before = operators.collected.read_bytes()
    again = operators.collect(*files, alloc(coins=2))
    assert (again.exit_code, "exists already; nothing was written" in again.stderr) == (2, True)
    assert operators.collected.read_bytes() == before


def test_a_home_with_keys_joins_closed_with_the_peers_of_the_collected_file(operators: Operators) -> None:
    operators.collect(*operators.all_init(), alloc())
    home = operators.directory / "bob"
    key = (home / "cometbft/config/priv_validator_key.json").read_bytes()
    joined = operators.join("bob")
    assert joined.exit_code == 0, joined.stderr
    assert "This node is the validator bob, with power 10 of 40." in joined.stdout
    assert (home / "cometbft/config/priv_validator_key.json").read_bytes() == key
    listed = read_peers(CometBFT(Path(), home / "cometbft"))
    expected = [read_validator_file(operators.directory / name / "validator.json").peer for name in NAMES]
    assert set(listed.listed) == set(expected) - {expected[1]}
    assert listed.is_closed
    config = (home / "cometbft/config/config.toml").read_text()
    assert 'external_address = "10.0.0.2:8651"' in config
    assert 'moniker = "bob"' in config
    again = operators.join("bob")
    assert (again.exit_code, "has been used already" in again.stderr) == (2, True)


def test_a_home_whose_key_genesis_does_not_name_joins_as_a_full_node(operators: Operators) -> None:
    *files, _ = operators.all_init()
    operators.collect(*files, alloc())
    joined = operators.join("dave")
    assert joined.exit_code == 0
    assert "cairn peers --home HOME --add" in joined.stdout
    assert not read_peers(CometBFT(Path(), operators.directory / "dave" / "cometbft")).is_closed


@pytest.mark.parametrize("more", ["--host=10.0.0.9", "--base-port=9000"])
def test_a_home_with_keys_joins_only_where_the_others_look_for_it(operators: Operators, more: str) -> None:
    operators.collect(*operators.all_init(), alloc())
    refused = operators.join("bob", more)
    assert refused.exit_code == 2
    assert "validator.json says that this node is at 10.0.0.2 with the base port 8650" in refused.stderr
    assert not (operators.directory / "bob" / "genesis.json").exists()


def test_a_home_whose_keys_were_exchanged_is_refused(operators: Operators) -> None:
    operators.collect(*operators.all_init(), alloc())
    keys = operators.directory / "bob/cometbft/config/priv_validator_key.json"
    keys.write_bytes((operators.directory / "carol/cometbft/config/priv_validator_key.json").read_bytes())
    refused = operators.join("bob")
    assert (refused.exit_code, "is not of the keys in" in refused.stderr) == (2, True)


def test_a_home_that_has_signed_before_is_refused(operators: Operators) -> None:
    operators.collect(*operators.all_init(), alloc())
    (operators.directory / "bob/cometbft/data/blockstore.db").mkdir()
    refused = operators.join("bob")
    assert (refused.exit_code, "has been used already (blockstore.db is there)" in refused.stderr) == (2, True)


def test_peers_of_another_network_are_refused(operators: Operators) -> None:
    files = operators.all_init()
    operators.collect(*files, alloc())
    peers = (operators.directory / "peers.json").read_bytes()
    operators.collected.unlink()
    (operators.directory / "peers.json").unlink()
    operators.collect(*files, alloc(coins=5))
    (operators.directory / "peers.json").write_bytes(peers)
    assert "peers.json belongs to another genesis" in operators.join("bob").stderr
    (operators.directory / "peers.json").write_text("{}")
    assert "is not a file that `cairn genesis collect` makes" in operators.join("bob").stderr
    (operators.directory / "peers.json").unlink()
    assert "name nodes to connect to with --peers" in operators.join("bob").stderr


def test_nodes_that_share_a_host_may_all_connect(operators: Operators) -> None:
    files = [str(operators.directory / name / "validator.json") for name in ("a", "b", "c")]
    for number, name in enumerate("abc"):
        host = f"--host=10.0.0.{min(number, 1)}"
        more = [f"--fee-recipient={account(number)}", f"--admin={account(number)}", f"--base-port={9000 + 10 * number}"]
        assert operators.init(name, host, *more).exit_code == 0
    assert operators.collect(*files, alloc()).exit_code == 0
    assert operators.join("a").exit_code == 0
    assert "allow_duplicate_ip = true" in (operators.directory / "a/cometbft/config/config.toml").read_text()


def test_a_signature_covers_every_field(operators: Operators) -> None:
    [first, *_] = operators.all_init()
    fields = json.loads(Path(first).read_text())
    for name in fields:
        change(Path(first), **(fields | {name: f"{fields[name]}x"}))
        with pytest.raises(InvalidConfig):
            read_validator_file(Path(first))


def test_a_new_key_keeps_the_old_one_and_all_else_of_the_file(operators: Operators) -> None:
    operators.all_init()
    home = operators.directory / "bob"
    config = home / "cometbft" / "config"
    before, old = read_validator_file(home / "validator.json"), (config / "priv_validator_key.json").read_bytes()
    made = operators.cairn("validator", "new-key", str(home), f"--cometbft-binary={operators.binary}")
    assert made.exit_code == 0, made.stderr
    after = read_validator_file(home / "validator.json")
    assert after.public_key == read_public_key(home / "cometbft") != before.public_key
    assert msgspec.structs.replace(after, public_key=before.public_key) == before
    [aside] = config.glob("priv_validator_key-*.json")
    assert aside.read_bytes() == old
    assert (aside.stat().st_mode & 0o777, (config / "priv_validator_key.json").stat().st_mode & 0o777) == (0o600, 0o600)
    assert f"cairn validators remove --public-key {encode_public_key(before.public_key)}" in made.stdout


def test_a_node_that_runs_gets_no_new_key(operators: Operators) -> None:
    operators.all_init()
    home = operators.directory / "bob"
    key = (home / "cometbft/config/priv_validator_key.json").read_bytes()
    node = RunningNode(os.getpid(), "http://127.0.0.1:1", None, "/run", "1", 1)
    with announced(home, node):
        refused = operators.cairn("validator", "new-key", str(home), f"--cometbft-binary={operators.binary}")
    assert (refused.exit_code, "stop it first" in refused.stderr) == (2, True)
    assert (home / "cometbft/config/priv_validator_key.json").read_bytes() == key


def test_a_validator_with_a_remote_signer_gets_no_new_key_here(operators: Operators) -> None:
    operators.all_init()
    home = operators.directory / "bob"
    CometBFT(Path(), home / "cometbft").configure({"priv_validator_laddr": "tcp://127.0.0.1:26659"})
    refused = operators.cairn("validator", "new-key", str(home), f"--cometbft-binary={operators.binary}")
    assert (refused.exit_code, "make the new key there" in refused.stderr) == (2, True)
