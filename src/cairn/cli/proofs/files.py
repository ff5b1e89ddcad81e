"""The files of proof commands: genesis.json and proofs are read, proofs and statements written."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from cairn.domain.errors import InvalidConfig, InvalidField, MalformedJson
from cairn.domain.genesis import Genesis, parse_exact_genesis


class StatementOutputs(NamedTuple):
    """Where to write a statement: the proof, a table, a page; None: not at all."""

    proof: Path | None
    csv: Path | None
    html: Path | None

    @property
    def paths(self) -> list[Path]:
        return [path for path in self if path is not None]


def read_genesis(path: Path) -> Genesis:
    return parse_genesis_of(read_bytes(path), str(path))


def parse_genesis_of(content: bytes, source: str) -> Genesis:
    """The genesis in `content`. Raises `InvalidConfig` that names where it is from."""
    try:
        return parse_exact_genesis(content)
    except (InvalidField, MalformedJson) as error:
        raise InvalidConfig(f"{source}: {error.detail}") from None


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidConfig(f"cannot read {path}: {error.strerror}") from None


def check_free(paths: list[Path], force: bool) -> None:
    """Refuse to overwrite, before a node is asked for anything. Raises `InvalidConfig`."""
    for path in paths:
        if path.exists() and not force:
            raise InvalidConfig(f"{path} exists; pass --force to overwrite it")
        if not path.parent.is_dir():
            raise InvalidConfig(f"{path.parent} is not a directory")


def save(contents: Mapping[Path, bytes], force: bool) -> None:
    """Write all of them. Raises `InvalidConfig`, including for one that exists, unless `force`."""
    for path, content in contents.items():
        try:
            with path.open("wb" if force else "xb") as file:
                file.write(content)
        except FileExistsError:
            raise InvalidConfig(f"{path} exists; pass --force to overwrite it") from None
        except OSError as error:
            raise InvalidConfig(f"cannot write {path}: {error.strerror}") from None
