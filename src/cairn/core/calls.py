"""Calls to the core, each declared once: the signature of a declared method is its request and its answer.

A class that answers a call overrides the method, with the same name and types. In every other class the declared method
packs its arguments and passes them to `perform`, which sends them over the link or to the part that answers.
"""

import inspect
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, get_type_hints

import msgspec

Needs = Literal["ready", "open", "memory"]
"""Which core can answer: one that accepts submissions; one whose chain is open, even while the node stops; or even one
that has ended, from its memory."""

_A = TypeVar("_A")
_P = ParamSpec("_P")
_S = TypeVar("_S", bound="Calls")
_METHOD = "__method__"


@dataclass(frozen=True, slots=True)
class Method(Generic[_A]):
    """A declared call, for code that passes on any call."""

    name: str
    request: type[msgspec.Struct]
    """The arguments, in their order."""
    answer: "msgspec.json.Decoder[_A]"
    needs: Needs
    is_question: bool
    """It changes nothing and is quick."""

    def ask(self, answering: "Calls", request: msgspec.Struct) -> Coroutine[Any, Any, _A]:
        asked: Coroutine[Any, Any, _A] = getattr(answering, self.name)(*msgspec.structs.astuple(request))
        return asked


class Calls:
    """A class that declares calls, answers them, or passes them on."""

    async def perform(self, method: Method[_A], request: msgspec.Struct) -> _A:
        """Perform a declared call that the class does not override."""
        raise NotImplementedError(f"{type(self).__name__} does not answer {method.name}")


_Declared = Callable[Concatenate[_S, _P], Coroutine[Any, Any, _A]]


def call(needs: Needs, *, is_question: bool = False) -> Callable[[_Declared[_S, _P, _A]], _Declared[_S, _P, _A]]:
    """Declare a call. The method has types and a docstring, but no body."""

    def declare(declared: _Declared[_S, _P, _A]) -> _Declared[_S, _P, _A]:
        method: Method[_A] = _method(declared, needs, is_question)

        @wraps(declared)
        def performed(self: _S, /, *args: _P.args, **kwargs: _P.kwargs) -> Coroutine[Any, Any, _A]:
            return self.perform(method, method.request(*args, **kwargs))

        setattr(performed, _METHOD, method)
        return performed

    return declare


def _method(declared: Callable[..., Coroutine[Any, Any, _A]], needs: Needs, is_question: bool) -> Method[_A]:
    types = get_type_hints(declared)
    _, *parameters = inspect.signature(declared).parameters.values()
    fields = [
        (each.name, types[each.name])
        if each.default is inspect.Parameter.empty
        else (each.name, types[each.name], each.default)
        for each in parameters
    ]
    name = declared.__name__
    request = msgspec.defstruct(name, fields, module=declared.__module__, tag=name, array_like=True, frozen=True)
    return Method(name, request, msgspec.json.Decoder(types["return"]), needs, is_question)


def methods_of(declaring: type[Calls]) -> Iterator[Method[object]]:
    """Every call that a class or one of its bases declares."""
    for cls in declaring.__mro__:
        for declared in vars(cls).values():
            method: Method[object] | None = getattr(declared, _METHOD, None)
            if method is not None:
                yield method
