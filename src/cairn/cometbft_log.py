"""What CometBFT writes to its log that the operator of the node must know.

CometBFT tells nobody else: it goes on without end, or ends and is started again without end.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import msgspec

MOST_AT_ONCE_BYTES = 256 * 1024
"""Of a log that grew by more since the last look, only the newest part is read."""

_WRONG = rb"wrong Block\.Header\.(?:AppHash|LastResultsHash)\."
_DIVERGED = re.compile(
    rb"^(?:E\[[^\]\n]+\] (?:"
    rb'Error in validation +module=blocksync height=\d+ hash=[0-9A-F]+ err="'
    rb'|CONSENSUS FAILURE!!! +module=consensus err="(?:precommit step; \+2/3 prevoted for|\+2/3 committed) an invalid '
    rb"block: )%b|panic: (?:block|state)\.AppHash does not match AppHash after replay\. Got)" % _WRONG,
    re.MULTILINE,
)
"""Only what more than two thirds of the power have signed counts: any single proposer can propose a wrong block.

Whole lines from their beginning: what peers call themselves or send is written into the log, too, and none of them may
stop a node by it. CometBFT escapes ends of lines in it, but for a name of at most 50 bytes.
"""
_JSON_LINE = re.compile(rb"^\{[^\n]*%b[^\n]*\}$" % _WRONG, re.MULTILINE)
"""The same with `log_format = "json"`, where everything that peers send is escaped."""
_SIGNED_AND_WRONG = {
    ("blocksync", "Error in validation"): re.compile(_WRONG.decode()),
    ("consensus", "CONSENSUS FAILURE!!!"): re.compile(
        rf"(?:precommit step; \+2/3 prevoted for|\+2/3 committed) an invalid block: {_WRONG.decode()}"
    ),
}
"""By module and message, how their error begins."""
_OTHER_NETWORK = re.compile(rb"peer is on a different network\. Got ([\w.-]+), expected ([\w.-]+)")


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


class CometBftLog:
    """The log of one CometBFT, from its end when this is made."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_to = self._size()

    def look(self) -> Findings:
        """What was written since the last look."""
        new = self._read_new()
        other = _OTHER_NETWORK.search(new)
        has_diverged = _DIVERGED.search(new) is not None or any(map(_tells_divergence, _JSON_LINE.findall(new)))
        return Findings(has_diverged, None if other is None else other[1].decode())

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

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


def _tells_divergence(json_line: bytes) -> bool:
    try:
        line = _LINE.decode(json_line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    error = _SIGNED_AND_WRONG.get((line.module, line.message))
    return line.level == "error" and error is not None and error.match(line.err) is not None
