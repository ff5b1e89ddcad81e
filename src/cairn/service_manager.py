"""The service manager that started the node, if any: it learns when the node is ready, reloads, stops, and is alive.

systemd's protocol, sd_notify(3): each message is one datagram of lines to the socket that $NOTIFY_SOCKET names.
"""

import os
import socket
import time
from collections.abc import Callable, MutableMapping
from contextlib import suppress

PINGS_PER_LIMIT = 3
"""How often the manager hears that the node is alive, within the time after which it would take it for hung."""
START_EXTENSION_S = 60.0
"""How long a node that is not ready yet may stay silent. Opening a long chain, or a network without enough validators,
takes longer than any fixed limit; a supervisor that hangs meanwhile is still found."""
SEND_TIMEOUT_S = 1.0


class ServiceManager:
    """Does nothing if no manager wants to hear of the node."""

    def __init__(
        self, environment: MutableMapping[str, str] = os.environ, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Takes the variables out of the environment: they are not meant for a program that the node starts."""
        address = environment.pop("NOTIFY_SOCKET", "")
        # A name that begins with @ is one of Linux's abstract sockets.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        limit_us, pid = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", "")
        is_watched = limit_us.isdecimal() and pid in ("", str(os.getpid()))
        limit_s = int(limit_us) / 1e6 if is_watched else START_EXTENSION_S
        self._ping_s = min(limit_s, START_EXTENSION_S) / PINGS_PER_LIMIT
        self._clock = clock
        self._pinged_at = -self._ping_s
        self._is_starting = True
        self._status = ""

    @property
    def listens(self) -> bool:
        return bool(self._address)

    def ready(self) -> None:
        self._is_starting = False
        self._tell("READY=1")

    def reloading(self) -> None:
        """The settings are read again; `reloaded` follows."""
        # The manager has no word for a reload of what is not ready yet.
        if not self._is_starting:
            self._tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1_000}")

    def reloaded(self) -> None:
        if not self._is_starting:
            self._tell("READY=1")

    def stopping(self, within_s: float) -> None:
        """The node stops, and takes `within_s` at most."""
        self._tell("STOPPING=1", f"EXTEND_TIMEOUT_USEC={int(within_s * 1e6)}", "STATUS=Stopping")

    def alive(self) -> None:
        """Say that the node is alive, if it is time to."""
        now = self._clock()
        if now - self._pinged_at < self._ping_s:
            return
        self._pinged_at = now
        lines = ["WATCHDOG=1"]
        if self._is_starting:
            lines.append(f"EXTEND_TIMEOUT_USEC={int(START_EXTENSION_S * 1e6)}")
        self._tell(*lines)

    def status(self, text: str) -> None:
        """A line for people, which `systemctl status` shows."""
        if text != self._status:
            self._status = text
            self._tell("STATUS=" + " ".join(text.split()))

    def _tell(self, *lines: str) -> None:
        if not self._address:
            return
        # Who does not listen any more misses it; the node runs on.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(SEND_TIMEOUT_S)
            sender.sendto("\n".join(lines).encode(), self._address)
