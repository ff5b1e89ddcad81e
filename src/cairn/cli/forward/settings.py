"""The settings of `cairn forward`: from its options, and from the table [forward] of a file."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta

from cairn.cli.options import DEFAULT_NODE
from cairn.client.async_reads import Direction
from cairn.client.transport import Amounts
from cairn.config import flag_name
from cairn.domain.errors import InvalidConfig

Text = Annotated[str, Meta(description="text")]


class ForwardSettings(msgspec.Struct, frozen=True):
    """Each description says what is expected. A text that is empty is not set."""

    to: Text = ""
    node: Text = DEFAULT_NODE
    state: Text = ""
    secret_file: Text = ""
    addresses: Annotated[list[str], Meta(description="a list of texts")] = []
    addresses_file: Text = ""
    direction: Annotated[Direction | None, Meta(description="in, out or both")] = None
    """Of payments only, as are the amounts; None for `in`."""
    amounts: Annotated[Amounts | None, Meta(description="number or string")] = None
    """None for `number`."""
    from_height: Annotated[Annotated[int, Meta(ge=0)] | None, Meta(description="a whole number, 0 or more")] = None
    timeout_s: Annotated[float, Meta(gt=0, le=600, description="a number above 0, and 600 or less")] = 20.0
    dead_letter_after: Annotated[int, Meta(ge=0, description="a whole number, 0 or more")] = 0
    insecure_http: Annotated[bool, Meta(description="true or false")] = False


TYPES = {field.name: field.type for field in msgspec.structs.fields(ForwardSettings)}
_PATHS = ("state", "secret_file", "addresses_file")


def load_settings(file: Path | None, options: Mapping[str, Any]) -> ForwardSettings:
    """`options` that are not None go before what the file says. Raises `InvalidConfig`."""
    given = _read_file(file) if file else {}
    given |= {name: _check(name, value, flag_name(name)) for name, value in options.items() if value is not None}
    settings = ForwardSettings(**given)
    if not settings.addresses and not settings.addresses_file:
        for name in ("direction", "amounts"):
            if name in given:
                raise InvalidConfig(
                    f"{name} is for payments, and blocks are sent: name the accounts with --address or "
                    f"--addresses-file, or leave {name} out"
                )
    return settings


def _read_file(file: Path) -> dict[str, Any]:
    try:
        document = tomllib.loads(file.read_text())
    except OSError as error:
        raise InvalidConfig(f"cannot read {file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{file}: {error}") from None
    table = document.pop("forward", None)
    if not isinstance(table, dict) or document:
        raise InvalidConfig(f"{file}: expected one table, [forward]")
    for name in table:
        if name not in TYPES:
            raise InvalidConfig(f"{file}: unknown setting {name}; the settings are {', '.join(TYPES)}")
    checked = {name: _check(name, value, f"{file}: {name}") for name, value in table.items()}
    # Paths are relative to the file, so that it means the same wherever the command is started.
    return checked | {name: str(file.parent / checked[name]) for name in _PATHS if name in checked}


def _check(name: str, value: object, label: str) -> Any:
    """`value` as the setting's own type; `label` says where it came from."""
    try:
        return msgspec.convert(value, TYPES[name])
    except msgspec.ValidationError:
        expected = get_args(TYPES[name])[-1].description
        raise InvalidConfig(f"{label}: expected {expected}, got {value!r}") from None
