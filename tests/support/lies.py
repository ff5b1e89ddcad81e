"""Answers with one thing in them changed, which is what a lying node can do; and a server that gives them."""

import copy
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec

from tests.support.json_server import Answer, JsonServer
from tests.support.pace import PATIENCE_S

Lie = tuple[str, Any]
"""Which part of the answer was changed, and the whole answer with the change."""


def lies_about(answer: Any) -> Iterator[Lie]:
    """The answer with each of its parts changed, one at a time: another value, none, too few and too many."""
    for path in _paths(answer):
        value = _at(answer, path)
        for kind, changed in _changes(value):
            lie = copy.deepcopy(answer)
            _at(lie, path[:-1])[path[-1]] = changed
            yield f"{'.'.join(map(str, path))} {kind}", lie
        if isinstance(path[-1], str):
            lie = copy.deepcopy(answer)
            del _at(lie, path[:-1])[path[-1]]
            yield f"{'.'.join(map(str, path))} missing", lie


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _paths(item, (*path, key))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def _changes(value: Any) -> Iterator[tuple[str, Any]]:
    match value:
        case int():
            yield "more", value + 1
            yield "less", value - 1
            # The same digits to whoever reads hexadecimal ones, and another number to whoever is shown them.
            yield "in hexadecimal", format(value, "x")
        case "0x":
            yield "longer", "0x00"
        case str() if value.startswith("0x"):
            if len(value) > 2:
                yield "other", value[:-1] + format(int(value[-1], 16) ^ 1, "x")
            yield "shorter", value[:-2]
            yield "longer", value + "00"
            yield "half a byte longer", value + "0"
        case str():
            yield "other", value + "x"
        case list():
            yield "longer", [*value, value[-1] if value else "0x" + "00" * 32]
            if value:
                yield "shorter", value[:-1]
            if len(value) > 1 and value[0] != value[1]:
                yield "in another order", [value[1], value[0], *value[2:]]


class LyingServer(JsonServer):
    """Passes requests on to a real node; what it was told to lie about, it answers itself."""

    def __init__(self, upstream: str) -> None:
        self.lies: dict[str, bytes] = {}
        """By path, without the query."""
        self._http = httpx.Client(base_url=upstream, timeout=PATIENCE_S)
        super().__init__()

    def get(self, target: str) -> Answer:
        lie = self.lies.get(target.partition("?")[0])
        if lie is not None:
            self.headers = {name: value for name, value in self.headers.items() if name == "x-block-height"}
            return 200, lie
        return self._pass_on(self._http.get(target))

    def post(self, target: str, body: bytes) -> Answer:
        lie = self.lies.get(target)
        if lie is not None:
            return 200, lie
        return self._pass_on(self._http.post(target, content=body, headers={"Content-Type": "application/json"}))

    def _pass_on(self, told: httpx.Response) -> Answer:
        self.headers = {name: told.headers[name] for name in ("x-block-height", "link") if name in told.headers}
        return told.status_code, told.content

    def truth(self, path: str) -> Any:
        return msgspec.json.decode(self._http.get(path).content)

    def lie(self, path: str, answer: Any) -> None:
        """From now on, and about nothing else."""
        self.lies = {path: msgspec.json.encode(answer)}

    def close(self) -> None:
        super().close()
        self._http.close()
