"""Settings: where each comes from, which wins, and how a wrong one is named."""

import re
import tomllib

import pytest

from cairn.config import FIELDS, Settings, encode_settings, env_name, flag_name, load_settings, read_settings
from cairn.domain.crypto import checksum_address
from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import DEV_KEYS
from cairn.domain.types import ZERO_ADDRESS

ADDRESS = DEV_KEYS[0][0]


def test_without_file_environment_and_flags_the_defaults_hold() -> None:
    assert load_settings() == Settings()


def test_flags_override_the_environment_which_overrides_the_file() -> None:
    file = "port = 1\nworkers = 2\nmax_connections = 3"
    environ = {"CAIRN_PORT": "4", "CAIRN_WORKERS": "5", "PATH": "/bin"}
    settings = load_settings(file, environ, {"port": 6})
    assert (settings.port, settings.workers, settings.max_connections) == (6, 5, 3)


def test_the_file_sets_every_type() -> None:
    settings = load_settings(
        f"""
        host = "::1"
        port = 0
        block_time_s = 2
        empty_blocks = true
        proposer = "{checksum_address(ADDRESS)}"
        allowed_hosts = ["a.example", "b.example"]
        """
    )
    assert settings.host == "::1"
    assert settings.port == 0
    assert settings.block_time_s == 2.0
    assert isinstance(settings.block_time_s, float)
    assert settings.empty_blocks is True
    assert settings.proposer == ADDRESS
    assert settings.allowed_hosts == ("a.example", "b.example")


def test_the_environment_sets_every_type() -> None:
    settings = load_settings(
        environ={
            "CAIRN_HOST": "localhost",
            "CAIRN_PORT": "9000",
            "CAIRN_BLOCK_TIME_S": "0.5",
            "CAIRN_EMPTY_BLOCKS": "True",
            "CAIRN_PROPOSER": "0x" + ADDRESS.hex(),
            "CAIRN_CORS_ORIGINS": "https://a.example, https://b.example,",
        }
    )
    assert settings.host == "localhost"
    assert settings.port == 9000
    assert settings.block_time_s == 0.5
    assert settings.empty_blocks is True
    assert settings.proposer == ADDRESS
    assert settings.cors_origins == ("https://a.example", "https://b.example")


@pytest.mark.parametrize(("text", "meant"), [("1", True), ("0", False), ("FALSE", False)])
def test_the_environment_spells_booleans_as_people_do(text: str, meant: bool) -> None:
    assert load_settings(environ={"CAIRN_EMPTY_BLOCKS": text}).empty_blocks is meant


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("block_time = 1", "cairn.toml: unknown key block_time; did you mean block_time_s?"),
        ("qqq = 1", "cairn.toml: unknown key qqq"),
        ("[http]\nport = 1", "cairn.toml: unknown key http"),
        ("port = 'x'", "cairn.toml: port: expected a whole number, got 'x'"),
        ("port = 1.0", "cairn.toml: port: expected a whole number, got 1.0"),
        ("port = true", "cairn.toml: port: expected a whole number, got True"),
        ("port = 65536", "cairn.toml: port: expected 65535 or less, got 65536"),
        ("workers = 0", "cairn.toml: workers: expected 1 or more, got 0"),
        ("block_time_s = -0.1", "cairn.toml: block_time_s: expected 0 or more, got -0.1"),
        ("block_time_s = nan", "cairn.toml: block_time_s: expected a number, got nan"),
        ("block_time_s = true", "cairn.toml: block_time_s: expected a number, got True"),
        ("empty_blocks = 1", "cairn.toml: empty_blocks: expected true or false, got 1"),
        ("host = 127", "cairn.toml: host: expected text, got 127"),
        ("allowed_hosts = 'a'", "cairn.toml: allowed_hosts: expected a list of texts, got 'a'"),
        ("allowed_hosts = [1]", "cairn.toml: allowed_hosts: expected a list of texts, got [1]"),
        ("proposer = 1", "cairn.toml: proposer: expected an address, 0x and 40 hex digits, got 1"),
        ("proposer = '0x12'", "cairn.toml: proposer: an address is 0x and 40 hexadecimal digits"),
        ("log_level = 'loud'", "cairn.toml: log_level: expected debug, info, warning or error, got 'loud'"),
        ("tls_cert = 'a.pem'", "tls_cert and tls_key go together: set both for HTTPS, or neither"),
        (
            "cometbft_attach = true",
            "cometbft_attach needs abci_socket, the path that the proxy_app of CometBFT names",
        ),
        (
            "trusted_proxies = ['10.0.0.0/8', 'proxy.example']",
            "trusted_proxies: expected addresses or networks, as 10.0.0.0/8: "
            "'proxy.example' does not appear to be an IPv4 or IPv6 network",
        ),
        (
            "trusted_proxies = ['10.0.0.1/8']",
            "trusted_proxies: expected addresses or networks, as 10.0.0.0/8: 10.0.0.1/8 has host bits set",
        ),
        (
            "max_unanswered_bytes = 8388607",
            "max_unanswered_bytes: expected at least four times the largest body, 8388608 bytes",
        ),
        ("engine = 'raft'", "cairn.toml: engine: expected embedded or cometbft, got 'raft'"),
        ("port = ", "cairn.toml: Invalid value (at end of document)"),
    ],
)
def test_a_wrong_file_is_refused_and_the_key_named(file: str, message: str) -> None:
    with pytest.raises(InvalidConfig, match=f"^{re.escape(message)}$"):
        load_settings(file)


def test_how_to_log_is_known_even_if_the_file_is_no_toml() -> None:
    given = read_settings('log_level = oops\n  log_format = "json"  # for the collector\nport = = 3\n')
    assert given.settled().log_format == "json"
    assert given.wrong == ["cairn.toml: Invalid value (at line 1, column 13)"]


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("CAIRN_PROT", "1", "unknown environment variable CAIRN_PROT; did you mean CAIRN_PORT?"),
        ("CAIRN_FOO", "1", "unknown environment variable CAIRN_FOO"),
        ("CAIRN_PORT", "http", "CAIRN_PORT: expected a whole number, got 'http'"),
        ("CAIRN_PORT", "", "CAIRN_PORT: expected a whole number, got ''"),
        ("CAIRN_BLOCK_TIME_S", "soon", "CAIRN_BLOCK_TIME_S: expected a number, got 'soon'"),
        ("CAIRN_BLOCK_TIME_S", "inf", "CAIRN_BLOCK_TIME_S: expected a number, got inf"),
        ("CAIRN_EMPTY_BLOCKS", "maybe", "CAIRN_EMPTY_BLOCKS: expected true or false, got 'maybe'"),
        ("CAIRN_LOG_FORMAT", "xml", "CAIRN_LOG_FORMAT: expected text or json, got 'xml'"),
    ],
)
def test_a_wrong_environment_is_refused_and_the_variable_named(variable: str, text: str, message: str) -> None:
    with pytest.raises(InvalidConfig, match=f"^{re.escape(message)}$"):
        load_settings(environ={variable: text})


def test_a_wrong_flag_is_named_as_the_user_typed_it() -> None:
    with pytest.raises(InvalidConfig, match="^--block-time: expected 0 or more, got -1.0$"):
        load_settings(flags={"block_time_s": -1.0})


def test_one_sender_may_hold_a_tenth_of_a_mempool_whose_size_is_set() -> None:
    assert load_settings("mempool_size = 500").mempool_per_sender == 50
    assert load_settings("mempool_size = 5").mempool_per_sender == 1
    assert load_settings("mempool_size = 500\nmempool_per_sender = 7").mempool_per_sender == 7


def test_every_setting_has_a_help_a_variable_and_a_flag_of_its_own() -> None:
    assert all(each.metadata["help"].endswith(".") for each in FIELDS.values())
    assert len({env_name(name) for name in FIELDS}) == len(FIELDS)
    assert len({flag_name(name) for name in FIELDS}) == len(FIELDS)
    assert flag_name("block_time_s") == "--block-time"
    assert flag_name("rate_limit_per_s") == "--rate-limit"


def test_every_default_is_within_its_own_bounds_and_reads_back_from_the_file() -> None:
    commented = encode_settings({})
    assert load_settings(commented) == Settings()
    assert tomllib.loads(commented) == {}
    spelled_out = re.sub(r"^#(?=\w)", "", commented, flags=re.MULTILINE)
    assert set(tomllib.loads(spelled_out)) == set(FIELDS)
    assert load_settings(spelled_out) == Settings()


def test_a_chosen_setting_is_set_in_the_file() -> None:
    text = encode_settings({"proposer": ADDRESS})
    assert tomllib.loads(text) == {"proposer": checksum_address(ADDRESS)}
    assert load_settings(text).proposer == ADDRESS
    assert Settings().proposer == ZERO_ADDRESS


def test_every_setting_stands_under_its_help() -> None:
    lines = encode_settings({}).splitlines()
    for name, each in FIELDS.items():
        at = next(index for index, line in enumerate(lines) if line.startswith(f"#{name} = "))
        assert lines[at - 1] == f"# {each.metadata['help']}"
