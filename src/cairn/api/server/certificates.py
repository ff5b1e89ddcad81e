"""The node's TLS certificate: read at the start, and again when its files have changed or the operator asks.

A pair of files that cannot be used leaves the one before in use: a renewal writes one file after the other, and may be
seen half done.
"""

import asyncio
import contextlib
import os
import re
import ssl
import time
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog

from cairn import metrics
from cairn.domain.errors import InvalidConfig

RECHECK_S = 60.0
REMIND_S = 86_400.0
SOON_S = 14 * 86_400

_PEM = re.compile(rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----(.+?)-----END ", re.DOTALL)
_SEQUENCE, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18
_VALIDITY = 3
"""Its place in a certificate: after the serial number, the algorithm and the issuer."""

log = structlog.get_logger("cairn.tls")

State = tuple[tuple[int, int, int] | None, ...]
"""What tells one content of the files from another, without reading them; None for a file that is missing."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The files of a certificate chain and its private key."""

    certificate: str
    key: str

    def state(self) -> State:
        return tuple(map(_state_of, (self.certificate, self.key)))

    def load(self) -> ssl.SSLContext:
        """Read both files. Raises `InvalidConfig` for a pair that no connection could be served with."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # A client could ask for one handshake after another on its connection.
        context.options |= ssl.OP_NO_RENEGOTIATION
        try:
            # A password, or OpenSSL would ask for one at the terminal; a node starts unattended.
            context.load_cert_chain(self.certificate, self.key, password="")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InvalidConfig(f"cannot use tls_cert {self.certificate} with tls_key {self.key}: {reason}") from None
        return context


_kept: dict[Pair, tuple[State, ssl.SSLContext]] = {}
"""The last pair that was loaded by `keep`, here or in the process that this one was forked from."""


def keep(pair: Pair) -> None:
    """Load a pair for processes that are forked later, when its files may be damaged. Raises what `Pair.load` does."""
    state = pair.state()
    loaded = pair.load()
    _kept.clear()
    _kept[pair] = state, loaded


def keep_renewed(pair: Pair) -> None:
    """Load the pair again if its files have changed. Files that cannot be used leave the kept pair as it is."""
    if pair not in _kept or _kept[pair][0] != pair.state():
        with contextlib.suppress(InvalidConfig):
            keep(pair)


def _state_of(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


class Certificates:
    """What new connections of a worker are served with. Those that are there keep what they began with."""

    def __init__(self, pair: Pair, speaks: bool = True, clock: Callable[[], float] = time.time) -> None:
        """Read the pair. Only one of several workers `speaks`: all see the same files.

        Raises `InvalidConfig`, unless it was kept.
        """
        self._pair = pair
        self._speaks = speaks
        self._clock = clock
        self._state = pair.state()
        self._is_behind = False
        """The files could not be used when they were last read. A reason may pass without a change of theirs."""
        try:
            self.context = pair.load()
        except InvalidConfig as error:
            if pair not in _kept:
                raise
            self.context = _kept[pair][1]
            self._refuse(error)
        self._remind()

    async def watch(self) -> None:
        """Look for new files once a minute, and speak of the time that is left once a day, until cancelled."""
        while True:
            await asyncio.sleep(RECHECK_S)
            await self.renew(self._pair)
            if self._clock() - self._reminded_at >= REMIND_S:
                self._remind()

    async def renew(self, pair: Pair, *, asked: bool = False) -> None:
        """Use `pair` from now on, if it has changed. `asked`: even if it seems to be the same."""
        # In a thread: a disk that hangs must not hold up the worker's clients.
        state = await asyncio.to_thread(pair.state)
        is_new = (pair, state) != (self._pair, self._state)
        if not (is_new or asked or self._is_behind):
            return
        self._state = state
        try:
            self.context = await asyncio.to_thread(pair.load)
        except InvalidConfig as error:
            if is_new or asked:
                self._refuse(error)
            return
        self._pair = pair
        if self._speaks and (is_new or self._is_behind):
            log.info("the TLS certificate was read again", file=pair.certificate)
        self._is_behind = False
        self._remind()

    def _refuse(self, error: InvalidConfig) -> None:
        self._is_behind = True
        if self._speaks:
            log.error("the new TLS certificate is not used, the one before stays", reason=error.detail)

    def _remind(self) -> None:
        """Say so if the certificate is of no use to clients now, or soon."""
        self._reminded_at = now = self._clock()
        if not self._speaks:
            return
        path = self._pair.certificate
        try:
            begins, ends = read_validity(Path(path).read_bytes())
        except (OSError, ValueError) as error:
            log.warning("cannot read how long the TLS certificate is valid", file=path, reason=str(error))
            return
        metrics.CERTIFICATE_EXPIRY.set(ends.timestamp())
        if now >= ends.timestamp():
            log.error("the TLS certificate has expired", file=path, expired=ends.isoformat())
        elif now < begins.timestamp():
            log.error("the TLS certificate is not valid yet", file=path, valid_from=begins.isoformat())
        elif now >= ends.timestamp() - SOON_S:
            log.warning("the TLS certificate expires soon", file=path, expires=ends.isoformat())


def read_validity(pem: bytes) -> tuple[datetime, datetime]:
    """From when and until when the first certificate of a PEM file is valid. Raises `ValueError`."""
    found = _PEM.search(pem)
    if found is None:
        raise ValueError("there is no certificate in it")
    try:
        der = a2b_base64(found[1])
        ((_, certificate),) = _parts(der)
        (_, signed), *_ = _parts(certificate)
        fields = [content for tag, content in _parts(signed) if tag != _VERSION]
        begins, ends = (_time(tag, content) for tag, content in _parts(fields[_VALIDITY]))
    except (Base64Error, IndexError, ValueError) as error:
        raise ValueError(f"it is not a certificate: {error}") from None
    return begins, ends


def _parts(der: bytes) -> list[tuple[int, bytes]]:
    """The values in a sequence, each with its tag (X.690)."""
    parts, at = [], 0
    while at < len(der):
        tag, size, start = der[at], der[at + 1], at + 2
        if size & 0x80:
            digits = size & 0x7F
            size, start = int.from_bytes(der[start : start + digits], "big"), start + digits
        at = start + size
        if at > len(der):
            raise ValueError("it is cut short")
        parts.append((tag, der[start:at]))
    return parts


def _time(tag: int, content: bytes) -> datetime:
    text = content.decode("ascii")
    if tag == _UTC_TIME:
        # RFC 5280: two digits are a year from 1950 to 2049.
        text = ("19" if text[:2] >= "50" else "20") + text
    elif tag != _GENERALIZED_TIME:
        raise ValueError("its validity has no times")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
