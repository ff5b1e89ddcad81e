"""The commands up to the start of a node: options, refusals and their exit codes, and what init says."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text
from typer.main import get_command
from typer.testing import CliRunner

from cairn.build import described
from cairn.cli.main import app
from cairn.cli.node.dev import dev_directory, save_or_keep, standard_input, state_to_load
from cairn.cli.node.home import Home
from cairn.cli.node.run import warn_of_vain_signatures
from cairn.cli.operate.idle_settings import FOR_NETWORK
from cairn.cli.options import flags_given
from cairn.cli.wallet import key_files
from cairn.config import FIELDS, env_name, flag_name
from cairn.domain.crypto import checksum_address
from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import dev_genesis, parse_genesis
from cairn.domain.types import Address
from cairn.store.chain import ChainStore
from cairn.store.signing_key import SigningKey
from tests.support.state_holder import held_by_another

OWN = Address(b"\xab" * 20)
ADDRESS = checksum_address(OWN)
LOST_FEES = (
    "cairn: warning: no proposer is set, so all fees go to the zero address and are lost: set proposer to an account\n"
)
NO_SNAPSHOTS = (
    "cairn: warning: snapshot_interval has no effect on a node that makes its blocks alone: "
    "no other node can join its chain\n"
)
WIDE = {"COLUMNS": "200"}
NO_TEXT = os.fsdecode(b"\xff")

cli = CliRunner()


@pytest.fixture(autouse=True)
def nothing_from_outside_and_nothing_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in os.environ:
        if name.startswith("CAIRN_"):
            monkeypatch.delenv(name)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("asked", ["--version", "-V", "version"])
def test_version(asked: str) -> None:
    result = cli.invoke(app, [asked])
    assert (result.exit_code, result.output) == (0, f"cairn {described()}\n")


@pytest.mark.parametrize(
    ("asked", "same"), [(["help"], []), (["help", "send"], ["send"]), (["help", "keys", "new"], ["keys", "new"])]
)
def test_help_shows_what_the_option_shows(asked: list[str], same: list[str]) -> None:
    result = cli.invoke(app, asked, env=WIDE)
    assert result.exit_code == 0
    assert result.output == cli.invoke(app, [*same, "--help"], env=WIDE).output


@pytest.mark.parametrize("asked", [["nope"], ["send", "nope"], ["keys", "nope"]])
def test_help_of_an_unknown_command_is_refused(asked: list[str]) -> None:
    result = cli.invoke(app, ["help", *asked])
    told = f"cairn: there is no command {' '.join(asked)}; `cairn help` lists them\n"
    assert (result.exit_code, result.stderr) == (2, told)


def test_without_a_command_the_help_is_shown() -> None:
    result = cli.invoke(app, [], env=WIDE)
    assert all(name in result.output for name in ("dev", "init", "run", "Exit codes: 0"))


def test_no_part_of_a_help_text_is_taken_for_markup() -> None:
    texts = [option.help or "" for command in all_commands(get_command(app)) for option in command.params]
    assert len(texts) > 100
    assert [text for text in texts if Text.from_markup(text).plain != text.replace("\\[", "[")] == []


def all_commands(command: Any) -> list[Any]:
    """It, and those below it."""
    return [command, *(each for below in getattr(command, "commands", {}).values() for each in all_commands(below))]


@pytest.mark.parametrize("command", ["dev", "run"])
def test_every_setting_is_an_option_and_says_its_variable(command: str) -> None:
    help_text = cli.invoke(app, [command, "--help-all"], env=WIDE).output
    shown = {name for name in FIELDS if f"{flag_name(name)} " in help_text and f"[{env_name(name)}" in help_text}
    assert set(FIELDS) - shown == ({"engine", *FOR_NETWORK} if command == "dev" else set())


def test_the_help_of_dev_fits_a_screen_with_its_common_options() -> None:
    lines = cli.invoke(app, ["dev", "--help"], env={"COLUMNS": "80"}).output.splitlines()
    assert len(lines) <= 36
    shown = set(re.findall(r"│ (--[a-z-]+) ", "\n".join(lines))) - {"--help"}
    common = "port block-time accounts balance mnemonic chain-id gas-price data-dir state quiet help-all"
    assert shown == {f"--{name}" for name in common.split()}


def test_every_value_has_a_name_in_capitals() -> None:
    named = re.compile(r"\[?[A-Z][A-Z@:=,.]*\]?")
    wrong = [
        (command.name, parameter.name, parameter.metavar)
        for command in all_commands(get_command(app))
        for parameter in command.params
        if not getattr(parameter, "is_flag", False) and not named.fullmatch(parameter.metavar or "")
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        ("send", "FROM TO AMOUNT"),
        ("block", "[BLOCK]"),
        ("init", "DIR"),
        ("genesis collect", "FILE..."),
        ("completion", "SHELL"),
        ("help", "[COMMAND...]"),
    ],
)
def test_an_argument_has_one_name_in_the_usage_and_below(command: str, usage: str) -> None:
    help_text = cli.invoke(app, [*command.split(), "--help"], env=WIDE).output
    assert f" {command} [OPTIONS] {usage}" in help_text
    assert re.findall(r"<[a-z]+>|\{[A-Za-z.]+\}|\[bash", help_text) == []


def test_flags_that_are_not_on_the_command_line_are_left_out() -> None:
    flags = {"port": 0, "host": None, "empty_blocks": False, "allowed_hosts": [], "cors_origins": ["*"]}
    assert flags_given(flags) == {"port": 0, "empty_blocks": False, "cors_origins": ["*"]}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["dev", "--block-time", "-1"], "cairn: --block-time: expected 0 or more, got -1.0\n"),
        (
            ["dev", "--state", "a", "--load-state", "b"],
            "cairn: --data-dir, --state and --load-state each say where the chain comes from: give one\n",
        ),
        (["dev", "--load-state", "nowhere"], "cairn: cannot load the chain from nowhere: No such file or directory\n"),
        (["dev", "--chain-id", "0"], "cairn: chainId: 0 is not between 1 and 9223372036854775771\n"),
        (
            ["dev", "--balance", "1.5.5"],
            "cairn: --balance: '1.5.5' is not an amount; write 1.5coins, 20gwei, or a number of coins such as 1000\n",
        ),
        (
            ["dev", "--balance", "abc"],
            "cairn: --balance: 'abc' is not an amount; write 1.5coins, 20gwei, or a number of coins such as 1000\n",
        ),
        (["init", "somewhere", "--alloc", ADDRESS], f"cairn: --alloc {ADDRESS}: expected ACCOUNT=AMOUNT\n"),
        (
            ["send", "dev0", "dev1", "1eth"],
            "cairn: AMOUNT: '1eth' is not an amount; write 1.5coins, 20gwei, or whole wei such as 1000\n",
        ),
        (["send", "dev0", "dev1", "-1"], "cairn: AMOUNT: '-1' is negative; an amount is 0 or more\n"),
        (["sign", "dev0", "dev1", "-1coin"], "cairn: AMOUNT: '-1coin' is negative; an amount is 0 or more\n"),
        (["send", "dev0", "dev1", "1.5", "coins"], "cairn: write 1.5coins, without a space\n"),
        (["sign", "dev0", "dev1", "1coin", "--gas-price", "2", "gwei"], "cairn: write 2gwei, without a space\n"),
        (["dev", "--mnemonic", "test junk"], "cairn: these words give no key: a word or the checksum is wrong\n"),
        (["dev", "--workers", "0"], "cairn: --workers: expected 1 or more, got 0\n"),
        (["dev", "--proposer", "0x12"], "cairn: --proposer: an address is 0x and 40 hexadecimal digits\n"),
        (["dev", "--tls-cert", "a.pem"], "cairn: tls_cert and tls_key go together: set both for HTTPS, or neither\n"),
        (
            ["init", "somewhere", "--proposer", "0x12"],
            "cairn: --proposer: an address is 0x and 40 hexadecimal digits\n",
        ),
        (["init", "somewhere", "--chain-id", "0"], "cairn: chainId: 0 is not between 1 and 9223372036854775771\n"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_code_2(
    args: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = cli.invoke(app, args)
    assert (result.exit_code, result.stderr, result.stdout) == (2, message, "")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_variable_stops_the_start() -> None:
    result = cli.invoke(app, ["dev"], env={"CAIRN_BLOCKTIME_S": "1"})
    message = "cairn: unknown environment variable CAIRN_BLOCKTIME_S; did you mean CAIRN_BLOCK_TIME_S?\n"
    assert (result.exit_code, result.stderr) == (2, message)


def test_an_unknown_key_stops_the_start(tmp_path: Path) -> None:
    assert cli.invoke(app, ["init", str(tmp_path)]).exit_code == 0
    (tmp_path / "cairn.toml").write_text("mempol_size = 1\n")
    result = cli.invoke(app, ["run", "--home", str(tmp_path)])
    assert (result.exit_code, result.stderr) == (
        2,
        "cairn: cairn.toml: unknown key mempol_size; did you mean mempool_size?\n",
    )


def test_run_in_an_empty_directory_names_the_missing_genesis(tmp_path: Path) -> None:
    result = cli.invoke(app, ["run", "--home", str(tmp_path)])
    assert result.exit_code == 2
    assert result.stderr == f"cairn: {tmp_path / 'genesis.json'} is missing; `cairn init {tmp_path}` makes one\n"
    assert list(tmp_path.iterdir()) == []


def test_until_stdin_ends_refuses_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, typed = os.openpty()
    with open(typed) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        with pytest.raises(InvalidConfig, match="standard input is a terminal"):
            standard_input()
    os.close(shown)


def test_a_data_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = cli.invoke(app, ["dev", "--data-dir", str(tmp_path / "file")])
    assert (result.exit_code, result.stderr) == (
        2,
        f"cairn: cannot use {tmp_path / 'file'} as data directory: File exists\n",
    )


def test_init_writes_genesis_and_settings_from_its_options(tmp_path: Path) -> None:
    home = tmp_path / "home"
    options = ["--chain-id", "7", "--gas-price", "3", "--block-gas-limit", "42000", "--proposer", ADDRESS]
    result = cli.invoke(app, ["init", str(home), *options, "--alloc", f"{ADDRESS}=5"])
    assert result.exit_code == 0, result.output
    assert "chain id 7" in result.stdout
    assert f"cairn run --home {home}" in result.stdout
    assert result.stderr == ""
    genesis = parse_genesis((home / "genesis.json").read_bytes())
    assert (genesis.chain_id, genesis.gas_price, genesis.block_gas_limit) == (7, 3, 42_000)
    assert genesis.alloc == {OWN: 5}
    assert f'\nproposer = "{ADDRESS}"\n' in (home / "cairn.toml").read_text()


def test_init_gives_each_chain_an_id_of_its_own_and_warns_when_nobody_has_money(tmp_path: Path) -> None:
    ids = set()
    for name in ("a", "b"):
        result = cli.invoke(app, ["init", str(tmp_path / name)])
        assert "no account holds anything" in result.stderr
        ids.add(parse_genesis((tmp_path / name / "genesis.json").read_bytes()).chain_id)
    assert len(ids) == 2
    assert 1337 not in ids


def test_init_makes_the_key_that_genesis_names(tmp_path: Path) -> None:
    result = cli.invoke(app, ["init", str(tmp_path), "--alloc", f"{ADDRESS}=5"])
    assert result.exit_code == 0
    key = SigningKey.load(tmp_path / "signing-key.json")
    assert parse_genesis((tmp_path / "genesis.json").read_bytes()).signer == key.public_key
    assert "back it up" in result.stdout


def test_a_signer_that_everybody_can_be_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Home(tmp_path).create(dev_genesis(), {})
    warn_of_vain_signatures(Home(tmp_path), dev_genesis())
    assert "everybody has its key" in capsys.readouterr().err


def test_a_genesis_in_another_spelling_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = Home(tmp_path)
    assert cli.invoke(app, ["init", str(tmp_path)]).exit_code == 0
    warn_of_vain_signatures(home, home.read_genesis())
    assert capsys.readouterr().err == ""
    home.genesis_file.write_bytes(home.genesis_file.read_bytes().replace(b": ", b":"))
    warn_of_vain_signatures(home, home.read_genesis())
    assert "is not written as `cairn init` writes it" in capsys.readouterr().err


def test_init_warns_that_fees_are_lost_without_a_proposer(tmp_path: Path) -> None:
    result = cli.invoke(app, ["init", str(tmp_path), "--alloc", f"{ADDRESS}=5"])
    assert (result.exit_code, result.stderr) == (0, LOST_FEES)


@pytest.mark.parametrize(
    ("options", "warning"),
    [
        ([], LOST_FEES),
        (["--proposer", ADDRESS], ""),
        (["--proposer", ADDRESS, "--snapshot-interval", "5"], NO_SNAPSHOTS),
    ],
)
def test_run_warns_that_fees_are_lost_without_a_proposer(tmp_path: Path, options: list[str], warning: str) -> None:
    assert cli.invoke(app, ["init", str(tmp_path), "--alloc", f"{ADDRESS}=5"]).exit_code == 0
    # A file where the data should be ends the run before a node is started.
    (tmp_path / "data").write_text("")
    result = cli.invoke(app, ["run", "--home", str(tmp_path), *options])
    refusal = f"cairn: cannot use {tmp_path / 'data'} as data directory: File exists\n"
    assert (result.exit_code, result.stderr) == (2, warning + refusal)


def test_a_funded_dev_account_is_warned_of_when_the_chain_is_made_and_when_it_runs(tmp_path: Path) -> None:
    warning = "cairn: warning: the keys of the dev accounts are public, and on this chain they hold coins (dev0)"
    made = cli.invoke(app, ["init", str(tmp_path), "--alloc", "dev0=5coins", "--proposer", ADDRESS])
    assert (made.exit_code, made.stderr.partition(".")[0]) == (0, warning)
    (tmp_path / "data").write_text("")
    result = cli.invoke(app, ["run", "--home", str(tmp_path)])
    assert result.stderr.partition(".")[0] == warning


def test_init_refuses_to_overwrite(tmp_path: Path) -> None:
    assert cli.invoke(app, ["init", str(tmp_path)]).exit_code == 0
    result = cli.invoke(app, ["init", str(tmp_path)])
    assert (result.exit_code, result.stderr) == (
        2,
        f"cairn: {tmp_path / 'genesis.json'} exists already; nothing was written\n",
    )


def test_discard_pending_moves_the_journal_aside(tmp_path: Path) -> None:
    ChainStore.open(tmp_path / "data", dev_genesis()).close()
    (tmp_path / "data" / "journal").mkdir()
    (tmp_path / "data" / "journal" / "notes.seg").touch()
    result = cli.invoke(app, ["discard-pending", str(tmp_path / "data")])
    assert (result.exit_code, result.stdout) == (
        0,
        f"The node in {tmp_path / 'data'} starts with an empty mempool. "
        f"The old journal: {tmp_path / 'data' / 'journal.discarded-1'}\n",
    )
    (tmp_path / "data" / "watermark").write_bytes(b"")
    damaged = cli.invoke(app, ["discard-pending", str(tmp_path / "data")])
    assert (damaged.exit_code, damaged.stderr) == (
        3,
        f"cairn: {tmp_path / 'data' / 'watermark'} has 0 bytes, not 65536\n",
    )
    nothing = cli.invoke(app, ["discard-pending", str(tmp_path / "nothing")])
    assert nothing.exit_code == 2
    assert "nothing is not the data directory of a node: it has no file FORMAT. Name " in nothing.stderr


def test_a_temporary_data_directory_is_removed_and_a_given_one_is_kept(tmp_path: Path) -> None:
    with dev_directory(None) as (path, described):
        assert path.is_dir()
        assert described.startswith(f"{path} (temporary: removed")
    assert not path.exists()
    with dev_directory(tmp_path / "kept") as (path, described):
        assert described == f"{tmp_path / 'kept'} (kept)"
    assert path.is_dir()


def test_a_chain_that_cannot_be_saved_is_kept(tmp_path: Path) -> None:
    with dev_directory(None) as (path, _):
        (path / "journal").mkdir()
        with pytest.raises(InvalidConfig) as refused:
            save_or_keep(path, dev_genesis(), tmp_path / "nowhere" / "chain.zip", had_chain=False)
    kept = path.with_name(f"kept-{path.name}")
    assert refused.value.detail.endswith(f"; `cairn dev --data-dir {kept}` has the chain")
    assert (kept / "journal").is_dir()
    shutil.rmtree(kept)


@pytest.mark.parametrize("lost", ["the directory", "its files"])
def test_a_chain_whose_directory_was_removed_or_emptied_is_said_to_be_lost(tmp_path: Path, lost: str) -> None:
    state = tmp_path / "chain.zip"
    state.write_bytes(b"as it was")
    with dev_directory(None) as (path, _):
        if lost == "the directory":
            shutil.rmtree(path)
        with pytest.raises(InvalidConfig, match=f"cannot save the chain to {state}: it was in {path}, which was"):
            save_or_keep(path, dev_genesis(), state, had_chain=True)
        # One that was stopped before it had a chain has nothing to save.
        save_or_keep(path, dev_genesis(), state, had_chain=False)
    assert state.read_bytes() == b"as it was"


def test_a_state_file_that_cannot_be_written_stops_the_start(tmp_path: Path) -> None:
    with (
        pytest.raises(InvalidConfig, match="cannot save the chain to .*: No such file"),
        state_to_load(None, tmp_path / "nowhere" / "chain.zip", None),
    ):
        pytest.fail("it was started")
    with state_to_load(None, tmp_path / "chain.zip", None) as loaded:
        assert loaded is None
    assert list(tmp_path.iterdir()) == []


def test_a_state_file_that_another_node_holds_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "chain.zip"
    with held_by_another(state) as other:
        result = cli.invoke(app, ["dev", "--port", "0", "--state", str(state)])
        other.communicate()
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"cairn: the node with process id {other.pid} saves its chain to {state} when it stops: "
        "stop it first, give another --state, or only load the file with --load-state\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_data_directory_has_mode_0700(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with dev_directory(tmp_path / "above" / "data") as (path, _):
            ChainStore.open(path, dev_genesis()).close()
    finally:
        os.umask(before)
    assert {place.stat().st_mode & 0o777 for place in (path, path / "chain")} == {0o700}
    # One that is there was given its rights by somebody.
    path.chmod(0o750)
    with dev_directory(path):
        assert path.stat().st_mode & 0o777 == 0o750


HEAVY = ("cairn.client", "eth_account", "eth_keyfile", "eth_utils", "httpx", "pydantic")
"""What only commands that speak to a node or unlock a key need; together they take a second to load."""
OTHERS = ("forward", "look", "network", "node.dev", "node.run", "operate", "proofs", "witness")
FOR_OTHERS = tuple(f"cairn.cli.{part}" for part in OTHERS)
"""Where other commands are."""


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        (
            "app(['--version'], standalone_mode=False)",
            (*HEAVY, "cairn.core", "cairn.store.chain", "pygments", *FOR_OTHERS),
        ),
        ("app(['--help'], standalone_mode=False)", (*HEAVY, "cairn.core")),
        ("app(['send', '--help'], standalone_mode=False)", (*HEAVY, "cairn.core", *FOR_OTHERS)),
        (
            "app(['keys', 'list', '--json', '--keys', '/nowhere'], standalone_mode=False)",
            (*HEAVY, "cairn.core", "pygments", *FOR_OTHERS),
        ),
        # All that `cairn dev` loads before it starts its processes, and all that those load.
        ("import cairn.node, cairn.core.process, cairn.api.worker", (*HEAVY, "pygments")),
    ],
)
def test_a_command_loads_only_what_it_needs(code: str, unwanted: tuple[str, ...]) -> None:
    script = f"import sys\nfrom cairn.cli.main import app\n{code}\nprint(*sys.modules, file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(run.stderr.split())
    assert {name for name in loaded if name.startswith(unwanted)} == set()


def test_a_negative_amount_is_refused_as_negative() -> None:
    for command in ("send", "sign"):
        result = cli.invoke(app, [command, "dev0", "dev1", "-1coin"], env=WIDE)
        assert result.exit_code == 2
        assert "'-1coin' is negative" in result.stderr
        result = cli.invoke(app, [command, "dev0", "dev1", "1coin", "--nonce", "-1"], env=WIDE)
        assert "cairn: --nonce: expected 0 or more, got -1. See `" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "detail"),
    [
        (["send", "dev0", "--json"], "missing argument 'TO'."),
        (["tx", "--json", "--nope"], "no such option: --nope"),
        (["send", "dev0", "dev1", "-1", "--json"], "AMOUNT: '-1' is negative; an amount is 0 or more"),
        (["send", "dev0", "dev1", "1", "coin", "--json"], "write 1coin, without a space"),
    ],
)
def test_a_usage_error_is_one_line_for_people_and_json_for_scripts(arguments: list[str], detail: str) -> None:
    result = cli.invoke(app, arguments)
    problem = json.loads(result.stderr)
    assert (result.exit_code, problem["exitCode"], problem["code"], result.stdout) == (2, 2, "USAGE", "")
    assert problem["detail"].startswith(detail)
    plain = cli.invoke(app, [each for each in arguments if each != "--json"])
    assert (plain.exit_code, plain.stderr, plain.stdout) == (2, f"cairn: {problem['detail']}\n", "")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["devv"], "no such command 'devv'. Did you mean 'dev'? See `"),
        (["dev", "--port", "many"], "--port: 'many' is not a valid int. See `"),
        (["init"], "missing argument 'DIR'. See `"),
        (["completion", "tcsh"], "SHELL: 'tcsh' is not one of 'bash', 'zsh', 'fish'. See `"),
        (["testnet", "net", "--validators", "101"], "--validators: expected 1 to 100, got 101. See `"),
    ],
)
def test_usage_errors_have_the_style_of_all_others(arguments: list[str], told: str) -> None:
    result = cli.invoke(app, arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"cairn: {told}")
    assert result.stderr.count("\n") == 1


def commands(group: Any, *path: str) -> Iterator[tuple[list[str], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *path, name)
        else:
            yield [*path, name], command


COMMANDS = list(commands(get_command(app)))


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(path) for path, _ in COMMANDS])
def test_no_command_takes_an_argument_or_option_that_is_not_utf_8(path: list[str], command: Any) -> None:
    options = [option.opts[0] for option in command.params if option.opts[0].startswith("--")]
    for args in ([NO_TEXT], *([option, NO_TEXT] for option in options), [f"--config={NO_TEXT}"]):
        result = cli.invoke(app, [*path, *args])
        assert result.exit_code == 2, args
        assert "is not text in UTF-8" in result.output
        assert len(result.output.splitlines()) == 1


def test_with_json_an_argument_that_is_not_utf_8_is_a_json_error() -> None:
    result = cli.invoke(app, ["keys", "sign", "dev0", NO_TEXT, "--json"])
    assert result.exit_code == 2
    assert result.output.startswith('{"exitCode":2,"code":"USAGE","detail":"the argument b')


def test_a_variable_that_is_not_utf_8_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAIRN_PASSWORD", NO_TEXT)
    result = cli.invoke(app, ["keys", "list"])
    assert (result.exit_code, result.output) == (
        2,
        "cairn: the environment variable CAIRN_PASSWORD is not text in UTF-8\n",
    )


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_standard_input_that_is_not_utf_8_is_refused(monkeypatch: pytest.MonkeyPatch, errors: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\n"), "utf-8", errors))
    with pytest.raises(InvalidConfig, match="standard input is not text in UTF-8"):
        key_files.read_secret(Path("-"), "")


@pytest.mark.parametrize("host", ["a..b", "x" * 70, "."])
def test_a_host_that_is_no_name_is_a_usage_error(host: str) -> None:
    result = cli.invoke(app, ["dev", "--port", "0", "--host", host])
    assert result.exit_code == 2
    assert f"cannot listen on {host}: it is not a host name" in result.output


def test_a_url_with_a_host_that_is_no_name_is_a_usage_error() -> None:
    result = cli.invoke(app, ["chain", "--node", "http://\u00fc..x"])
    assert (result.exit_code, result.exception.__class__) == (2, SystemExit)
    assert "expected a URL" in result.output
