"""What the node says once it serves: complete, in one piece, and never the cause of a failure."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cairn.cli.node.dev_chain import DevChainSpec, build_dev_chain, print_dev_banner, print_dev_facts
from cairn.cli.node.run import print_listening, print_run_banner
from cairn.config import Settings
from cairn.domain.crypto import checksum_address
from cairn.domain.genesis import DEV_KEYS, DEV_MNEMONIC, dev_genesis

URL = "http://127.0.0.1:8645"
DEV_CHAIN = DevChainSpec(dev_genesis(), DEV_MNEMONIC, dict(DEV_KEYS))


def dev_banner(capsys: pytest.CaptureFixture[str], settings: Settings, chain: DevChainSpec = DEV_CHAIN) -> list[str]:
    print_dev_banner(chain, settings, "/data (kept)", URL)
    print_listening(URL)
    return capsys.readouterr().out.splitlines()


def test_the_dev_banner_has_accounts_keys_rules_and_urls(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    lines = dev_banner(capsys, Settings())
    for index, (address, key) in enumerate(DEV_KEYS):
        assert f"({index}) {checksum_address(address)}" in lines
        assert f"({index}) 0x{key.hex()}" in lines
    text = "\n".join(lines)
    assert "10,000 coins" in text
    assert DEV_MNEMONIC in text
    assert "Chain id    1337" in lines
    assert "Gas price   1,000,000,000 wei (1 gwei)" in lines
    assert "Data        /data (kept)" in lines
    assert f"Explorer    {URL}/" in lines
    assert f"API         {URL}/docs" in lines
    assert f"JSON-RPC    {URL}/rpc" in lines
    assert "Events      ws://127.0.0.1:8645/events" in lines
    assert "            to have the node sign for one, list it: --cors-origins http://localhost:3000" in lines
    assert lines[-1] == f"Listening on {URL}"


def test_the_banner_names_the_pages_that_may_do_all(capsys: pytest.CaptureFixture[str]) -> None:
    lines = dev_banner(capsys, Settings(cors_origins=("http://localhost:3000", "https://app.example")))
    origins = "http://localhost:3000, https://app.example"
    assert f"            these may do everything, including having the node sign: {origins}" in lines


def test_only_the_keys_of_the_usual_mnemonic_are_called_public(capsys: pytest.CaptureFixture[str]) -> None:
    warning = "Private keys (public knowledge: never use them anywhere else)"
    assert warning in dev_banner(capsys, Settings())
    assert warning in dev_banner(capsys, Settings(), build_dev_chain(1337, 20, "1", DEV_MNEMONIC, 1))
    own = dev_banner(capsys, Settings(), build_dev_chain(1337, 2, "1", "abandon " * 11 + "about", 1))
    assert "Private keys (of your mnemonic: whoever sees them here can use them)" in own
    assert not any("public" in line for line in own)


@pytest.mark.parametrize(
    ("settings", "cadence"),
    [
        (Settings(), "every 1 s, while there is something to include"),
        (Settings(block_time_s=0.5, empty_blocks=True), "every 0.5 s, also empty ones"),
        (Settings(block_time_s=0), "one at once after each submission"),
    ],
)
def test_the_dev_banner_says_when_blocks_are_made(
    settings: Settings, cadence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"Blocks      {cadence}" in dev_banner(capsys, settings)


def test_the_facts_for_programs_are_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_dev_facts(DEV_CHAIN, URL)
    facts = json.loads(capsys.readouterr().out)
    assert (facts["event"], facts["url"], facts["chainId"], facts["gasPrice"]) == ("listening", URL, 1337, 10**9)
    assert facts["mnemonic"] == DEV_MNEMONIC
    address, key = DEV_KEYS[9]
    assert facts["accounts"][9] == {"address": checksum_address(address), "privateKey": f"0x{key.hex()}"}


def test_the_banner_of_run_shows_no_keys(capsys: pytest.CaptureFixture[str]) -> None:
    print_run_banner(dev_genesis(), Path("/[home]/data"), URL)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:] == ["Data        /[home]/data", f"Listening on {URL}"]


PRINT_LINES = "from cairn.cli.screen import print_lines; print_lines(['hello'] * 1000); print_lines(['again'])"
PRINT_FACTS = """
from cairn.cli.node.dev_chain import DevChainSpec, print_dev_facts
from cairn.domain.genesis import DEV_KEYS, DEV_MNEMONIC, dev_genesis
print_dev_facts(DevChainSpec(dev_genesis(), DEV_MNEMONIC, dict(DEV_KEYS)), "http://127.0.0.1:8645")
print("again", flush=True)
"""


@pytest.mark.parametrize("code", [PRINT_LINES, PRINT_FACTS])
def test_a_closed_pipe_does_not_end_the_node(code: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run([sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (result.returncode, result.stderr) == (0, b"")
