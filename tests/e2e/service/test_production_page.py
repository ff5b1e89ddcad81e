"""docs/production.md from top to bottom on a bare machine with a real systemd, and what that does when the node fails.

Left out by name, since the machine has no network and no clock of its own: certbot, and chrony's service.
"""

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.machine import Machine, build_wheel, need_machine
from tests.support.pages import COMMAND, Page

PAGE = Page("docs/production.md")
UNTIL_IT_RUNS = ("Prepare the machine", "Install the node", "Make the chain", "Settings", "Run as a service")
ACCOUNT = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
OPERATOR = "0x" + "ab" * 20
BLOCK = re.compile(r'^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)
AT_THE_END = "at the end of "
SETTINGS = "/var/lib/cairn/cairn.toml"
OVERRIDE = "/etc/systemd/system/cairn.service.d/override.conf"
READY = "curl --silent --fail http://127.0.0.1:8645/ready"
HTTPS = "curl --silent --cacert /etc/ssl/certs/node.example.org.pem"
DIRECT, PROXIED = "http://127.0.0.1:8645", "https://node.example.org"
CERTIFICATE = "/etc/ssl/certs/node.example.org.pem"
FOLLOWS_EVENTS = f"""
import ssl
from websockets.sync.client import connect
trusted = ssl.create_default_context(cafile="{CERTIFICATE}")
url = "wss://node.example.org/events?newBlock&fromHeight=0"
with connect(url, ssl=trusted, proxy=None, open_timeout=None) as socket:
    print(socket.recv(), socket.recv())
"""
WRITES_BODIES = """
call = '{"jsonrpc":"2.0","id":1,"method":"web3_sha3","params":["0x%s"]}' % ("ab" * 7_000)
for name, size in (("large", 2_000_000), ("too-large", 2_100_000)):
    with open(name, "w") as body:
        body.write("[" + ",".join([call] * -(-size // len(call))) + "]")
"""


def follow(machine: Machine, section: Page) -> None:
    """Do what a section says: write its files, add its settings, and run its commands."""
    for block in BLOCK.finditer(section.text):
        if block["title"] and block["title"].startswith(AT_THE_END):
            machine.append(block["title"].removeprefix(AT_THE_END), block["text"])
        elif block["title"]:
            machine.write(block["title"], block["text"])
        elif block["language"] == "toml":
            machine.append(SETTINGS, block["text"])
        elif block["language"] == "console":
            for line, _ in COMMAND.findall(block["text"]):
                machine.run(line.replace("\\\n", "").replace("ADDRESS", ACCOUNT))


def part(section: str, heading: str) -> Page:
    """What stands below a heading of the third level."""
    [found] = re.findall(
        rf"^### {re.escape(heading)}\n(.*?)(?=^### |\Z)", PAGE.section(section).text, re.MULTILINE | re.DOTALL
    )
    return Page(PAGE.name, found)


def without_files(section: Page) -> Page:
    """A section without the files that it shows for those who want something else."""
    return Page(section.name, BLOCK.sub(lambda block: "" if block["title"] else block[0], section.text))


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, cometbft_tools: Path) -> Iterator[Machine]:
    """A machine on which the page was followed until the node runs."""
    need_machine()
    wheels = tmp_path_factory.mktemp("wheels")
    shutil.copy(cometbft_tools / "bin" / "cometbft", wheels)
    for version in sorted(set(re.findall(r"cairn-node==([\w.]+)", PAGE.text))):
        build_wheel(version, wheels, tmp_path_factory.mktemp("source"))
    with Machine(wheels) as machine:
        machine.append("/etc/hosts", "127.0.0.1 localhost node.example.org\n")
        for heading in UNTIL_IT_RUNS:
            follow(machine, without_files(PAGE.section(heading)))
        assert machine.shows("ActiveState") == "active"
        # The drain was taken as the page has it. From now on a stop shall not take 5 s.
        change(machine, "drain_delay_s", "0")
        machine.run("systemctl restart cairn")
        yield machine


def change(machine: Machine, setting: str, value: str) -> None:
    machine.run(f"grep -q '^{setting} = ' {SETTINGS} && sed -i 's|^{setting} = .*|{setting} = {value}|' {SETTINGS}")


@contextmanager
def changed(machine: Machine, setting: str, value: str) -> Iterator[None]:
    """Change a setting for a while; the node is started anew at the end."""
    machine.run(f"cp -p {SETTINGS} settings.kept")
    change(machine, setting, value)
    try:
        yield
    finally:
        machine.run(f"cp -p settings.kept {SETTINGS} && systemctl restart cairn")


@contextmanager
def overridden(machine: Machine, text: str) -> Iterator[None]:
    """Have lines of a drop-in for a while; the node is started anew before and after."""
    machine.write(OVERRIDE, text)
    machine.run("systemctl daemon-reload && systemctl restart cairn")
    try:
        yield
    finally:
        machine.run(f"rm {OVERRIDE} && systemctl daemon-reload && systemctl restart cairn")


def status(machine: Machine, request: str) -> str:
    return machine.run(f"{HTTPS} --output /dev/null --write-out '%{{http_code}}' {request}")


def check_proxy(machine: Machine) -> None:
    """Whoever is in front passes on what it should, and nothing that a client says of itself."""
    machine.wait_for(f"{HTTPS} --fail {PROXIED}/ready")
    followed = machine.run(f"/opt/cairn/bin/python -c {shlex.quote(FOLLOWS_EVENTS)}")
    assert '"event":"subscribed"' in followed
    assert '"event":"newBlock"' in followed
    machine.run(f"python3 -c {shlex.quote(WRITES_BODIES)}")
    posted = f"{HTTPS} --header content-type:application/json --data-binary"
    assert '"result":"0x' in machine.run(f"{posted} @large {PROXIED}/rpc")
    assert '"code":"BODY_TOO_LARGE"' in machine.run(f"{posted} @too-large {PROXIED}/rpc")
    for forged in ('Forwarded: for="', "X-Forwarded-For: nobody"):
        assert status(machine, f"--header '{forged}' {DIRECT}/chain") == "400"
        assert status(machine, f"--header '{forged}' {PROXIED}/chain") == "200"


def test_the_page_leads_to_a_node_behind_nginx(machine: Machine) -> None:
    follow(machine, PAGE.section("Keep the logs"))
    certificate, nginx, _ = PAGE.section("Put a proxy in front").text.split("\n### ", 3)[:3]
    follow(machine, Page(PAGE.name, certificate))
    follow(machine, Page(PAGE.name, nginx))
    check_proxy(machine)
    machine.run("systemctl stop nginx")


@pytest.mark.parametrize("name", ["Caddy", "HAProxy"])
def test_another_proxy_of_the_page_does_the_same(machine: Machine, name: str) -> None:
    machine.run("systemctl stop nginx 2>/dev/null; true")
    machine.run(f"test -e {CERTIFICATE} || {certificate_command()}")
    follow(machine, part("Put a proxy in front", name))
    check_proxy(machine)
    machine.run(f"systemctl stop {name.lower()}")


def certificate_command() -> str:
    [line] = [line for line, _ in PAGE.section("Put a proxy in front").steps("openssl")]
    return line


def test_the_service_is_what_the_page_says(machine: Machine) -> None:
    machine.wait_until_shown("StatusText", "Ready: http://127.0.0.1:8645")
    assert machine.run("stat -c '%U %a' /var/lib/cairn /run/cairn") == "cairn 700\ncairn 700\n"
    assert machine.run("ls /run/cairn").startswith("cairn-run-")
    assert (
        machine.run("cat /proc/$(systemctl show cairn -p MainPID --value)/status | grep CapBnd").split()[1] == "0" * 16
    )
    # The node reads them where it sees no other process and no file of the kernel.
    shown = machine.run("curl --silent --fail http://127.0.0.1:8646/metrics")
    for name in ("process_start_time_seconds", "process_open_fds", "process_resident_memory_bytes"):
        assert f'\n{name}{{process="cairn-core"}} ' in shown
    # In tenths of its points.
    machine.run("systemd-analyze security cairn --no-pager --threshold=20")


def test_a_stop_is_clean_and_leaves_nothing_in_run(machine: Machine) -> None:
    machine.run("systemctl stop cairn")
    assert (machine.shows("Result"), machine.shows("ExecMainStatus")) == ("success", "0")
    assert machine.try_to("test -e /run/cairn").returncode == 1
    machine.run("systemctl start cairn")
    # Not a moment later: that is what it waits for.
    machine.run(READY)


def test_a_reload_takes_over_what_can_change_and_refuses_what_is_wrong(machine: Machine) -> None:
    supervisor = machine.shows("MainPID")
    machine.append(SETTINGS, "rate_limit_per_s = 7\n")
    machine.run("systemctl reload cairn")
    machine.wait_for("journalctl -u cairn -o cat -n 20 | grep rate_limit_per_s")
    machine.append(SETTINGS, "rate_limit_per_second = 8\n")
    assert machine.try_to("systemctl reload cairn").returncode != 0
    assert "unknown key rate_limit_per_second" in machine.journal()
    assert (machine.shows("MainPID"), machine.shows("ActiveState")) == (supervisor, "active")
    machine.run(f"sed -i /rate_limit_per_/d {SETTINGS} && systemctl reload cairn")


def test_a_killed_core_is_started_again_below_the_same_supervisor(machine: Machine) -> None:
    before = machine.shows("MainPID"), machine.shows("NRestarts")
    core = machine.pid_of("cairn-core")
    machine.run(f"kill -KILL {core}")
    machine.wait_for(f"test ! -e /proc/{core} && {READY}")
    assert (machine.shows("MainPID"), machine.shows("NRestarts")) == before


def test_a_killed_supervisor_is_started_again_and_nothing_else_is_left(machine: Machine) -> None:
    machine.run("systemctl reset-failed cairn; systemctl kill -s KILL --kill-whom=main cairn")
    machine.wait_for(f"test $(systemctl show cairn -p NRestarts --value) -ge 1 && {READY}")
    assert machine.pid_of("cairn-core")


def test_a_stopped_supervisor_is_replaced_by_the_watchdog(machine: Machine) -> None:
    """After the 30 s of the unit: a busy machine may put off a sound supervisor for any shorter time."""
    machine.run("systemctl reset-failed cairn")
    supervisor = int(machine.shows("MainPID"))
    assert supervisor > 0, "0 would be the group of whoever runs the tests"
    machine.run(f"kill -STOP {supervisor}")
    machine.wait_for(f"test $(systemctl show cairn -p NRestarts --value) -ge 1 && {READY}")
    assert int(machine.shows("MainPID")) != supervisor
    assert "Failed with result 'watchdog'" in machine.journal()


def test_a_late_address_is_waited_for(machine: Machine) -> None:
    with changed(machine, "host", '"10.9.8.7"'):
        assert machine.try_to("systemctl restart cairn").returncode != 0
        # For 2 s each time, until it is tried again.
        machine.wait_until_shown("ExecMainStatus", "5")
        machine.wait_for("test $(systemctl show cairn -p NRestarts --value) -ge 1")
        machine.run("ip address add 10.9.8.7/32 dev lo")
        machine.wait_for("systemctl is-active cairn")
        assert "cannot listen on 10.9.8.7 port 8645: Cannot assign requested address" in machine.journal()


def test_a_wrong_setting_is_final_until_somebody_looks(machine: Machine) -> None:
    with changed(machine, "port", "-1"):
        assert machine.try_to("systemctl restart cairn").returncode != 0
        assert (machine.shows("ExecMainStatus"), machine.shows("ActiveState")) == ("2", "failed")


def test_a_port_below_1024_needs_the_lines_of_the_page(machine: Machine) -> None:
    [shown] = PAGE.section("Run as a service").code("ini")
    with changed(machine, "port", "80"):
        machine.run("systemctl stop nginx 2>/dev/null; true")
        assert machine.try_to("systemctl restart cairn").returncode != 0
        assert "cannot listen on 127.0.0.1 port 80: Permission denied" in machine.journal()
        with overridden(machine, shown):
            machine.run("curl --silent --fail http://127.0.0.1:80/ready")
            change(machine, "port", "8645")


@pytest.mark.parametrize("writable", ["/var/lib/cairn", "/var/lib/cairn /tmp"])
def test_with_a_read_only_root_the_home_is_enough(machine: Machine, writable: str) -> None:
    machine.run("systemctl stop cairn")
    service = f"systemd-run --unit=read-only -p User=cairn -p ProtectSystem=strict -p 'ReadWritePaths={writable}'"
    machine.run(f"{service} /opt/cairn/bin/cairn run --home /var/lib/cairn")
    machine.wait_for(READY)
    place = writable.split()[-1] if "/tmp" in writable else "/var/lib/cairn/run"
    assert machine.run("cat /var/lib/cairn/running.json").count(f'"runtimeDir":"{place}/cairn-run-') == 1
    machine.run("systemctl stop read-only && systemctl start cairn")


def test_with_nothing_writable_the_node_says_so_and_ends(machine: Machine) -> None:
    machine.run("systemctl stop cairn")
    service = "systemd-run --quiet --wait --pipe -p User=cairn -p ProtectSystem=strict"
    ended = machine.try_to(f"{service} /opt/cairn/bin/cairn run --home /var/lib/cairn")
    assert ended.returncode == 2
    assert "there is no directory for the node's sockets (/tmp: Read-only file system;" in ended.stdout
    assert "Traceback" not in ended.stdout
    machine.run("systemctl start cairn")


def test_a_key_is_handed_over_as_the_page_says(machine: Machine) -> None:
    follow(machine, PAGE.section("The signing key"))
    machine.run(READY)
    assert machine.run("stat -c '%U %a' /var/lib/cairn/next-signing-key.json") == "cairn 600\n"


def test_an_upgrade_and_the_way_back_keep_the_chain(machine: Machine) -> None:
    section = PAGE.section("Upgrade, and go back")
    versions = re.findall(r"ln -sfn cairn-([\w.]+)", section.text)
    upgrade, back = (f"```console\n{block}```\n" for block in section.code("console"))
    chains = [machine.run(f"curl --silent {DIRECT}/chain")]
    for step in (upgrade, back):
        follow(machine, Page(PAGE.name, step))
        chains.append(machine.run(f"curl --silent {DIRECT}/chain"))
    assert [re.findall('"version":"([^"]*)"', chain) for chain in chains[1:]] == [[version] for version in versions]
    assert len({re.sub('"version":"[^"]*"', "", chain) for chain in chains}) == 1


def test_a_node_of_a_network_runs_as_the_same_service(machine: Machine) -> None:
    """A network of this validator alone: whatever the unit takes from the node, it takes from CometBFT, too."""
    as_service = "runuser -u cairn -- cairn"
    machine.run("systemctl stop cairn && mv /var/lib/cairn /var/lib/other-chain && mkdir /srv/network")
    machine.run("install -d -o cairn -g cairn -m 700 /var/lib/cairn")
    # The page puts it where the service finds it, after this.
    machine.run("cp /srv/ours/cometbft . && install -m 755 /srv/ours/cometbft /srv/network/")
    names = f"--name alone --host 127.0.0.1 --fee-recipient {OPERATOR} --admin {OPERATOR}"
    machine.run(f"{as_service} validator init /var/lib/cairn {names} --cometbft-binary /srv/network/cometbft")
    machine.run("cp /var/lib/cairn/validator.json /srv/network/alone.json")
    machine.run(f"cd /srv/network && cairn genesis collect alone.json --chain-id 52001 --alloc {OPERATOR}=5coins")
    machine.run("chmod 644 /srv/network/*.json")
    try:
        follow(machine, PAGE.section("Run a node of a network"))
        machine.wait_until_shown("StatusText", "Ready: http://127.0.0.1:8650")
        assert (machine.shows("ActiveState"), machine.shows("SubState")) == ("active", "running")
        head = json.loads(machine.run("curl --silent --fail http://127.0.0.1:8650/chain"))["head"]
        assert head["blockHeight"] >= 0
        machine.run("curl --silent --fail http://127.0.0.1:8654/metrics | grep -q ^cometbft_consensus_height")
        # And after a stop: everything that both have written is the service's.
        machine.run("systemctl restart cairn && curl --silent --fail http://127.0.0.1:8650/ready")
        assert machine.run("find /var/lib/cairn ! -user cairn") == ""
    finally:
        machine.run("systemctl stop cairn; rm -r /var/lib/cairn && mv /var/lib/other-chain /var/lib/cairn")
        machine.run("systemctl start cairn")
