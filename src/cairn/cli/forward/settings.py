"""The settings of `cairn forward`: from its options, and from the table [forward] of a file."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from cairn.cli.options import DEFAULT_NODE
from cairn.client.async_reads import Direction
from cairn.client.transport import Amounts
from cairn.domain.errors import InvalidConfig

_PATHS = ("state", "secret_file", "addresses_file")


class ForwardSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    to: str
    node: str = DEFAULT_NODE
    state: str | None = None
    secret_file: str | None = None
    addresses: list[str] = []
    addresses_file: str | None = None
    direction: Direction = "in"
    amounts: Amounts = "number"
    from_height: Annotated[int, Meta(ge=0)] | None = None
    timeout_s: Annotated[float, Meta(gt=0, le=600)] = 20.0
    dead_letter_after: Annotated[int, Meta(ge=0)] = 0
    insecure_http: bool = False


def load_settings(file: Path | None, options: Mapping[str, Any]) -> ForwardSettings:
    """`options` that are not None go before what the file says. Raises `InvalidConfig`."""
    given = {name: value for name, value in options.items() if value is not None}
    if file is None and "to" not in given:
        raise InvalidConfig("where to? --to names the URL of the receiver, such as --to http://localhost:8080/hook")
    source = "" if file is None else f"{file}: "
    try:
        return msgspec.convert((_read_table(file) if file else {}) | given, ForwardSettings)
    except msgspec.ValidationError as wrong:
        raise InvalidConfig(f"{source}{wrong}".replace("$.", "")) from None


def _read_table(file: Path) -> dict[str, Any]:
    try:
        document = tomllib.loads(file.read_text())
    except OSError as error:
        raise InvalidConfig(f"cannot read {file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{file}: {error}") from None
    table = document.pop("forward", None)
    if not isinstance(table, dict) or document:
        raise InvalidConfig(f"{file}: expected one table, [forward]")
    # Paths are relative to the file, so that it means the same wherever the command is started.
    return table | {name: str(file.parent / str(table[name])) for name in _PATHS if name in table}
