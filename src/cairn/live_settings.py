"""Settings that can change while the node runs: read again from where they came from, when the operator asks."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cairn.config import FIELDS, Settings

LIVE = (
    "max_connections",
    "max_connections_per_client",
    "rate_limit_per_s",
    "rate_limit_burst",
    "max_unanswered_bytes",
    "trusted_proxies",
    "header_timeout_s",
    "first_byte_timeout_s",
    "idle_timeout_s",
    "tls_cert",
    "tls_key",
    "log_level",
)


@dataclass(frozen=True, slots=True)
class Changes:
    """The names of the settings that are others than before."""

    taken: Sequence[str]
    need_restart: Sequence[str]


class LiveSettings:
    """The settings as they are now. Each process has its own, and starts with those that the supervisor has."""

    def __init__(
        self, settings: Settings, read: Callable[[], Settings] | None, check: Callable[[Settings], None]
    ) -> None:
        """`read` gives the settings as they are written now; without it they never change. `check` refuses some.

        Raises `InvalidConfig`, as `read` does.
        """
        self.current = settings
        self._read = read or (lambda: settings)
        self._check = check
        # What was derived from it, such as the address of CometBFT's RPC, is no change.
        self._written = self._read()

    def reread(self) -> Changes:
        """Take over what may change. Raises `InvalidConfig`, and then nothing has changed."""
        written = self._read()
        self._check(written)
        changed = [name for name in FIELDS if getattr(written, name) != getattr(self._written, name)]
        live = [name for name in LIVE if name in changed]
        if bool(written.tls_cert) != bool(self.current.tls_cert):
            # From HTTP to HTTPS, or back: the socket's users must know.
            live = [name for name in live if not name.startswith("tls_")]
        taken = {name: getattr(written, name) for name in live}
        self.current = dataclasses.replace(self.current, **taken)
        self._written = dataclasses.replace(self._written, **taken)
        return Changes(live, [name for name in changed if name not in live])
