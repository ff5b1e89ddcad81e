"""The CometBFT beside this node: which program, which configuration, how it is started, and what its log tells."""

import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from cairn.domain.errors import InvalidConfig

VERSION_SERIES = "0.38."
CHECKOUT_BINARY = Path(__file__).parents[2] / ".tools" / "bin" / "cometbft"
"""Where `make cometbft` puts it; a package that was installed elsewhere has nothing there."""
LOG_FILE = "cometbft.log"
COMETBFT_DIRECTORY = "cometbft"
"""The home of a node's CometBFT, in the node's own."""
LARGEST_LOG_BYTES = 16 * 1024 * 1024
"""A longer log is put aside, in the place of the one before: together they have twice as much at most."""

TomlValue = str | int | bool

TIMER_SLACK_S = 0.008
"""How much later than asked its timers may ring. Its consensus looks at the round every 100 us: without this, a node at
rest takes 4 % of a processor core for that."""

_PR_SET_PDEATHSIG = 1
_PR_SET_TIMERSLACK = 29


@dataclass(frozen=True, slots=True)
class CometBFT:
    """One CometBFT and its home directory."""

    binary: Path
    home: Path

    @property
    def config_file(self) -> Path:
        return self.home / "config" / "config.toml"

    @property
    def genesis_file(self) -> Path:
        return self.home / "config" / "genesis.json"

    @property
    def log_file(self) -> Path:
        return self.home / LOG_FILE

    def run(self, *args: str) -> str:
        """Have it do something short; what it printed. Raises `InvalidConfig` with its own words when it fails."""
        command = [str(self.binary), *args, "--home", str(self.home)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise InvalidConfig(f"cannot run {self.binary}: {error.strerror}") from None
        if done.returncode:
            raise InvalidConfig(f"{' '.join(command)} failed: {(done.stderr or done.stdout).strip()}")
        return done.stdout.strip()

    def check_version(self) -> None:
        found = self.run("version")
        if not found.startswith(VERSION_SERIES):
            raise InvalidConfig(f"{self.binary} is CometBFT {found}; this node works with {VERSION_SERIES}x")

    def config(self) -> dict[str, Any]:
        """The content of config.toml. Raises `InvalidConfig`."""
        try:
            return tomllib.loads(self.config_file.read_text())
        except FileNotFoundError:
            raise InvalidConfig(f"{self.config_file} is missing; `cairn testnet` makes whole homes") from None
        except (OSError, ValueError) as error:
            raise InvalidConfig(f"cannot read {self.config_file}: {error}") from None

    def moniker(self) -> str:
        """The name of the node, as in config.toml."""
        return str(self.config().get("moniker", ""))

    def signer_address(self) -> str:
        """Where a remote signer connects to, as in config.toml; empty if the key is in a file here."""
        return str(self.config().get("priv_validator_laddr", ""))

    def check_key(self) -> None:
        """Raise `InvalidConfig` when CometBFT would make itself a new key to sign votes with."""
        key_file = self.home / str(self.config().get("priv_validator_key_file", "config/priv_validator_key.json"))
        if not self.signer_address() and not key_file.exists():
            raise InvalidConfig(
                f"{key_file} is missing, and CometBFT would make a new key that the network does not know: put it "
                "back, or name a remote signer with priv_validator_laddr"
            )

    def configured_rpc(self) -> str:
        """The RPC address in config.toml. Raises `InvalidConfig` when there is none that a node can use."""
        address = self.config().get("rpc", {}).get("laddr", "")
        if not isinstance(address, str) or not re.match("(tcp|unix)://.", address):
            raise InvalidConfig(
                f"{self.config_file}: rpc.laddr is {address!r}: the node needs it, as tcp:// or unix://"
            )
        return address

    def configure(self, changes: Mapping[str, TomlValue]) -> None:
        self.config_file.write_text(edit_toml(self.config_file.read_text(), changes))

    def become(self, abci_socket: Path, rpc: str) -> None:
        """Turn this process, a fork, into CometBFT. It dies with its parent, whatever ends that."""
        die_with_parent(signal.SIGKILL)
        let_timers_slack(TIMER_SLACK_S)
        _remove_socket(rpc)
        with contextlib.suppress(InvalidConfig):
            _remove_socket(self.signer_address())
        log_file = self.log_file
        if log_file.exists() and log_file.stat().st_size > LARGEST_LOG_BYTES:
            log_file.replace(aside_of(log_file))
        log = os.open(log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        command = ["cometbft", "start", "--home", str(self.home), "--abci", "socket"]
        os.execv(self.binary, [*command, "--proxy_app", f"unix://{abci_socket}", "--rpc.laddr", rpc])


def aside_of(log_file: Path) -> Path:
    return log_file.with_suffix(".log.1")


def _remove_socket(address: str) -> None:
    """A killed CometBFT leaves its sockets, which the next one would refuse to replace."""
    if address.startswith("unix://"):
        Path(address.removeprefix("unix://")).unlink(missing_ok=True)


def find_binary(wanted: str) -> Path:
    """The program of this name or path, or without one the nearest. Raises `InvalidConfig` when there is none."""
    if not wanted and os.access(CHECKOUT_BINARY, os.X_OK):
        return CHECKOUT_BINARY
    found = shutil.which(wanted or "cometbft")
    if found is None:
        where = f"{wanted} is not a program" if wanted else "there is no cometbft on the PATH"
        raise InvalidConfig(f"{where}: `make cometbft` builds one in a checkout; see docs/cometbft.md")
    # Started from another directory later, a relative path would lead elsewhere.
    return Path(found).absolute()


def edit_toml(text: str, changes: Mapping[str, TomlValue]) -> str:
    """Set `section.key`s that are in `text` already, and leave every other byte alone. Raises `InvalidConfig`."""
    for path, value in changes.items():
        section, _, key = path.rpartition(".")
        start, end = _section(text, section)
        line = re.compile(rf"^{re.escape(key)} = .*$", re.MULTILINE)
        found = line.search(text, start, end)
        if found is None:
            raise InvalidConfig(f"CometBFT's config.toml has no {path}: is it of another version?")
        # JSON spells booleans, integers and strings as TOML does, but for one character.
        spelled = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        text = f"{text[: found.start()]}{key} = {spelled}{text[found.end() :]}"
    return text


def _section(text: str, name: str) -> tuple[int, int]:
    """Where a section's keys are; "" is what comes before the first section."""
    heads = re.compile(r"^\[.*\]$", re.MULTILINE)
    start = 0
    if name:
        found = re.search(rf"^\[{re.escape(name)}\]$", text, re.MULTILINE)
        if found is None:
            raise InvalidConfig(f"CometBFT's config.toml has no section {name}: is it of another version?")
        start = found.end()
    after = heads.search(text, start)
    return start, after.start() if after else len(text)


def let_timers_slack(seconds: float) -> None:
    """Let the system put this process's wake-ups together, where it can (Linux). What it becomes keeps that."""
    if sys.platform.startswith("linux"):
        # Some sandboxes do not know it; that costs power, nothing else.
        with contextlib.suppress(OSError):
            _prctl(_PR_SET_TIMERSLACK, int(seconds * 1e9))


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, ctypes.c_ulong(value), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def die_with_parent(number: signal.Signals) -> None:
    """Have the system send this process `number` when its parent ends, where it can (Linux)."""
    if sys.platform.startswith("linux"):
        parent = os.getppid()
        _prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:
            # It ended before the system knew that we care.
            os.kill(os.getpid(), number)


# Its log. CometBFT tells nobody else what an operator must know: it goes on without end, or ends and is started again
# without end.

MOST_AT_ONCE_BYTES = 256 * 1024
"""Of a log that grew by more since the last look, only the newest part is read."""

_WRONG = rb"wrong Block\.Header\.(?:AppHash|LastResultsHash|Version)\."
_MISFIT = rb"snapshot restoration failed: app version mismatch\. Expected: "
"""The header after the snapshot, which the light client has verified, states another version of the rules."""
_DIVERGED = re.compile(
    rb"^(?:E\[[^\]\n]+\] (?:"
    rb'State sync failed +module=statesync err="%b|(?:'
    rb'Error in validation +module=blocksync height=\d+ hash=[0-9A-F]+ err="'
    rb'|CONSENSUS FAILURE!!! +module=consensus err="(?:precommit step; \+2/3 prevoted for|\+2/3 committed) an invalid '
    rb"block: )%b)|panic: (?:block|state)\.AppHash does not match AppHash after replay\. Got)" % (_MISFIT, _WRONG),
    re.MULTILINE,
)
"""Only what more than two thirds of the power have signed counts: any single proposer can propose a wrong block.

Whole lines from their beginning: what peers call themselves or send is written into the log, too, and none of them may
stop a node by it. CometBFT escapes ends of lines in it, but for a name of at most 50 bytes.
"""
_JSON_LINE = re.compile(rb"^\{[^\n]*(?:%b|%b)[^\n]*\}$" % (_WRONG, _MISFIT), re.MULTILINE)
"""The same with `log_format = "json"`, where everything that peers send is escaped."""
_SIGNED_AND_WRONG = {
    ("blocksync", "Error in validation"): re.compile(_WRONG.decode()),
    ("consensus", "CONSENSUS FAILURE!!!"): re.compile(
        rf"(?:precommit step; \+2/3 prevoted for|\+2/3 committed) an invalid block: {_WRONG.decode()}"
    ),
    ("statesync", "State sync failed"): re.compile(_MISFIT.decode()),
}
"""By module and message, how their error begins."""
LAST_WORDS = 3
LONGEST_WORDS = 500
_ERROR_LINE = re.compile(
    rb'^(?:E\[|panic: |fatal error: |ERROR: |Error: |\{[^\n]*"level":"error")[^\n]*$', re.MULTILINE
)
"""A line in which CometBFT says what went wrong."""
_OTHER_NETWORK = re.compile(rb"peer is on a different network\. Got ([\w.-]+), expected ([\w.-]+)")
_OTHER_RULES = re.compile(
    rb"wrong Block\.Header\.Version\. +Expected \{(\d+) (?P<here>\d+)\}, got \{\1 (?P<network>\d+)\}"
)
_OTHER_RULES_AT_SNAPSHOT = re.compile(_MISFIT + rb"(?P<network>\d+), got: (?P<here>\d+)")
"""With the versions of the rules: of the chain here, and of the network."""


class _Line(msgspec.Struct, frozen=True):
    level: str
    module: str
    message: str = msgspec.field(name="_msg")
    err: str


_LINE = msgspec.json.Decoder(_Line)


@dataclass(frozen=True, slots=True)
class Findings:
    has_diverged: bool
    """The validators have signed a block after another state than the one here."""
    other_network: str | None
    """What a peer calls its network, if that is not this one."""
    other_rules: tuple[int, int] | None = None
    """If that block was made by other rules: their version here and in the network."""


class CometBftLog:
    """The log of one CometBFT, from its end when this is made."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_to = self._began_at = self._size()

    def begin_life(self) -> None:
        """CometBFT is started: its words come after what is there now."""
        self._began_at = self._size()

    def last_words(self) -> list[str]:
        """The latest errors that it has written in its present life, or in the one that has just ended."""
        size = self._size()
        start = max(self._began_at if size >= self._began_at else 0, size - MOST_AT_ONCE_BYTES)
        try:
            with self._path.open("rb") as log:
                log.seek(start)
                errors = _ERROR_LINE.findall(log.read(size - start))
        except OSError:
            return []
        return [line.decode(errors="replace").strip()[:LONGEST_WORDS] for line in errors[-LAST_WORDS:]]

    def look(self) -> Findings:
        """What was written since the last look. A log that has become too long is put aside."""
        new = self._read_new()
        if self._read_to > LARGEST_LOG_BYTES:
            self._put_aside()
        other = _OTHER_NETWORK.search(new)
        signed = _find_signed_and_wrong(new)
        rules = None if signed is None else _OTHER_RULES.search(signed) or _OTHER_RULES_AT_SNAPSHOT.search(signed)
        other_rules = None if rules is None else (int(rules["here"]), int(rules["network"]))
        return Findings(signed is not None, None if other is None else other[1].decode(), other_rules)

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

    def _put_aside(self) -> None:
        """Copy it and empty it: CometBFT goes on writing to the same file, at its end."""
        with contextlib.suppress(OSError):
            shutil.copyfile(self._path, aside_of(self._path))
            os.truncate(self._path, 0)
            self._read_to = self._began_at = 0

    def _read_new(self) -> bytes:
        size = self._size()
        if size < self._read_to:
            # It was put aside, and another begun.
            self._read_to = 0
        if size == self._read_to:
            return b""
        start = max(self._read_to, size - MOST_AT_ONCE_BYTES)
        try:
            with self._path.open("rb") as log:
                log.seek(start)
                new = log.read(size - start)
        except OSError:
            return b""
        # A line that is still being written is read with the next look.
        whole = new[: new.rfind(b"\n") + 1]
        skipped = start > self._read_to
        self._read_to = start + len(whole)
        # A line that is not read from its beginning says nothing.
        return whole[whole.find(b"\n") + 1 :] if skipped else whole


def _find_signed_and_wrong(lines: bytes) -> bytes | None:
    """The first line that tells of a block that is signed and does not follow from what is here."""
    if plain := _DIVERGED.search(lines):
        return lines[plain.start() :].partition(b"\n")[0]
    return next(filter(_tells_divergence, _JSON_LINE.findall(lines)), None)


def _tells_divergence(json_line: bytes) -> bool:
    try:
        line = _LINE.decode(json_line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    error = _SIGNED_AND_WRONG.get((line.module, line.message))
    return line.level == "error" and error is not None and error.match(line.err) is not None
