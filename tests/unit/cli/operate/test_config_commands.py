"""`cairn config check`: each mistake in the settings of a home, and that a good one has no finding."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cairn.cli.main import app
from cairn.config import FIELDS
from cairn.domain.crypto import checksum_address
from cairn.domain.genesis import DEV_KEYS
from tests.support.certificates import make_certificate

PROPOSER = checksum_address(DEV_KEYS[0][0])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    run("init", str(made), "--alloc", f"{PROPOSER}=5coins", "--proposer", PROPOSER)
    return made


def run(*args: str, env: dict[str, str] | None = None) -> Any:
    return CliRunner().invoke(app, args, env=env)


def check(home: Path, settings: str = "", code: int = 1, **env: str) -> list[dict[str, str]]:
    """The findings, with these settings added."""
    given = {line.partition(" =")[0] for line in settings.splitlines()}
    kept = [line for line in (home / "cairn.toml").read_text().splitlines() if line.partition(" =")[0] not in given]
    (home / "cairn.toml").write_text("\n".join([*kept, settings, ""]))
    done = run("config", "check", "--home", str(home), "--json", env=env)
    assert done.exit_code == code, done.output
    findings: list[dict[str, str]] = json.loads(done.stdout)["findings"]
    return findings


def codes(findings: list[dict[str, str]]) -> list[str]:
    return [finding["code"] for finding in findings]


def test_a_home_that_init_made_has_no_finding(home: Path) -> None:
    assert check(home, code=0) == []
    assert run("config", "check", "--home", str(home)).output == "The settings are good.\n"


def test_everything_that_is_wrong_is_named_at_once(home: Path) -> None:
    found = check(home, 'portt = 1\nworkers = 0\ntls_cert = "x.pem"', code=2, CAIRN_WORKER="2")
    assert codes(found) == ["CONFIG_INVALID"] * 4
    assert [finding["problem"] for finding in found] == [
        "cairn.toml: unknown key portt; did you mean port?",
        "cairn.toml: workers: expected 1 or more, got 0",
        "unknown environment variable CAIRN_WORKER; did you mean CAIRN_WORKERS?",
        "tls_cert and tls_key go together: set both for HTTPS, or neither",
    ]


def test_two_pages_on_one_port_are_an_error(home: Path) -> None:
    assert codes(check(home, "port = 9000\nmetrics_port = 9000", code=2)) == ["CONFIG_INVALID"]


def test_a_file_that_is_no_toml_is_an_error(home: Path) -> None:
    assert codes(check(home, "port 5", code=2)) == ["CONFIG_INVALID"]


@pytest.mark.parametrize(
    ("settings", "idle"),
    [
        ("snapshot_interval = 5", {"snapshot_interval"}),
        ("metrics_port = 0\nmetrics_host = '10.0.0.1'", {"metrics_host"}),
        ("halt_after_s = 5\nabci_socket = '/run/x'", {"halt_after_s", "abci_socket"}),
        ("block_time_s = 0\nempty_blocks = true", {"empty_blocks"}),
        ("rate_limit_per_s = 5", {"rate_limit_per_s"}),
        ("host = '0.0.0.0'\nrate_limit_per_s = 0\nrate_limit_burst = 9", {"rate_limit_burst"}),
        ("trusted_proxies = ['10.0.0.0/8']", {"trusted_proxies"}),
        ("host = '0.0.0.0'\nmax_connections = 50\nmax_connections_per_client = 60", {"max_connections_per_client"}),
        ("mempool_size = 50\nmempool_per_sender = 50", {"mempool_per_sender"}),
        ("cors_origins = ['*', 'https://a.example']", {"cors_origins"}),
    ],
)
def test_a_setting_that_changes_nothing_is_named(home: Path, settings: str, idle: set[str]) -> None:
    found = check(home, settings)
    assert set(codes(found)) == {"SETTING_WITHOUT_EFFECT"}
    assert {finding["problem"].split(" ")[0] for finding in found} == idle


@pytest.mark.parametrize(
    "settings",
    [
        "host = '0.0.0.0'\nrate_limit_per_s = 5",
        "trusted_proxies = ['127.0.0.1']\nrate_limit_per_s = 5\nallowed_hosts = ['a.example']",
        "snapshot_interval = 0",
        "empty_blocks = true",
    ],
)
def test_a_setting_that_does_something_is_not_named(home: Path, settings: str) -> None:
    assert check(home, settings, code=0) == []


def test_a_variable_without_effect_is_named_as_the_place_to_change(home: Path) -> None:
    [found] = check(home, CAIRN_SNAPSHOT_INTERVAL="7")
    assert found["advice"].startswith("remove it from CAIRN_SNAPSHOT_INTERVAL")


def test_a_proxy_that_is_not_trusted_is_guessed_from_the_host_names(home: Path) -> None:
    assert codes(check(home, "allowed_hosts = ['node.example.org']")) == ["PROXY_NOT_TRUSTED"]


def test_a_home_without_proposer_loses_its_fees(tmp_path: Path) -> None:
    run("init", str(tmp_path / "home"))
    assert codes(check(tmp_path / "home")) == ["FEES_LOST"]


def test_a_certificate_with_another_key_cannot_be_used(home: Path) -> None:
    certificate, key = make_certificate(home)
    kept = Path(certificate).read_text()
    make_certificate(home)
    settings = f"tls_cert = '{certificate}'\ntls_key = '{key}'"
    assert check(home, settings, code=0) == []
    Path(certificate).write_text(kept)
    assert codes(check(home, code=2)) == ["CERTIFICATE_UNUSABLE"]


def test_an_engine_that_genesis_does_not_fit_is_an_error(home: Path) -> None:
    assert "ENGINE_MISMATCH" in codes(check(home, 'engine = "cometbft"', code=2))


@pytest.mark.parametrize(("content", "code"), [(None, "GENESIS_MISSING"), ("{}", "GENESIS_INVALID")])
def test_a_home_without_its_genesis_is_an_error(home: Path, content: str | None, code: str) -> None:
    genesis = home / "genesis.json"
    genesis.unlink() if content is None else genesis.write_text(content)
    assert codes(check(home, code=2)) == [code]


def test_show_has_every_setting_its_value_and_where_it_comes_from(home: Path) -> None:
    (home / "cairn.toml").write_text(f'port = 1\nproposer = "{PROPOSER}"\n')
    done = run("config", "check", "--home", str(home), "--show", "--json", env={"CAIRN_PORT": "2"})
    rows = {row["name"]: row for row in json.loads(done.stdout)["settings"]}
    assert list(rows) == list(FIELDS)
    assert (rows["port"]["value"], rows["port"]["source"]) == (2, "CAIRN_PORT, overrides cairn.toml")
    assert (rows["proposer"]["value"], rows["proposer"]["source"]) == (PROPOSER.lower(), "cairn.toml")
    assert (rows["host"]["value"], rows["host"]["source"]) == ("127.0.0.1", "default")
    shown = run("config", "check", "--home", str(home), "--show").stdout
    assert all(f"\n{name} " in shown for name in FIELDS)
