"""The reference of a node's settings: `cairn.config` as tables."""

from collections.abc import Iterator

from cairn.config import FIELDS, as_toml, flag_name
from cairn.live_settings import LIVE
from tools.reference.wording import table

GROUPS = {
    "host": "Addresses and processes",
    "block_time_s": "Blocks",
    "engine": "Networks",
    "mempool_size": "Mempool",
    "max_body_bytes": "Requests and connections",
    "trusted_proxies": "Proxies, web pages and TLS",
    "ws_max_message_bytes": "WebSockets",
    "drain_delay_s": "Stopping, disk and log",
}
"""The headings, by the first setting below each."""
ELSEWHERE = {"workers": "one for each processor, at most 4"}
"""Defaults that depend on the machine."""


def settings() -> str:
    return "\n\n".join(_parts())


def _parts() -> Iterator[str]:
    names = list(FIELDS)
    starts = [names.index(name) for name in GROUPS]
    if starts[0] != 0 or starts != sorted(starts):
        raise LookupError("the groups of settings are in another order than the settings")
    for title, start, end in zip(GROUPS.values(), starts, [*starts[1:], len(names)], strict=True):
        yield f"## {title}"
        yield table(("setting", "default", "range", "on SIGHUP", "meaning"), [_row(name) for name in names[start:end]])


def _row(name: str) -> tuple[str, ...]:
    setting = FIELDS[name]
    default = ELSEWHERE.get(name) or f"`{as_toml(setting.default)}`"
    return (
        f"`{name}`",
        default,
        _range(name),
        "applied" if name in LIVE else "restart",
        setting.metadata["help"] + _flag(name),
    )


def _flag(name: str) -> str:
    """The flag of a setting whose name has a unit; the others are called as the setting."""
    flag = flag_name(name)
    return "" if flag == "--" + name.replace("_", "-") else f" Flag: `{flag}`."


def _range(name: str) -> str:
    bounds = FIELDS[name].metadata
    least, most = bounds["least"], bounds["most"]
    if bounds["one_of"]:
        return ", ".join(f"`{each}`" for each in bounds["one_of"])
    if most is not None:
        return f"{least:,} to {most:,}"
    if least is not None:
        return f"{least:,} or more"
    if isinstance(FIELDS[name].default, bool):
        return "`true`, `false`"
    return ""
