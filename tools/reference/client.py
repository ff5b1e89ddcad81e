"""The reference of the Python client: its classes with their signatures and docstrings, as they stand in the source."""

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from types import FunctionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

from cairn.client import errors as client_errors
from cairn.client import models
from cairn.domain.errors import ANSWERED
from tools.reference.wording import table

WIDEST = 100
"""A signature that is wider has one parameter on each line."""
CODES = {error.code for error in ANSWERED}
NEXT_PARAMETER = re.compile(r", (?=\*|/|\w+:)")
MODULE_OF_A_NAME = re.compile(r"\b(?:\w+\.)+(?=\w)")


def described_class(path: str) -> str:
    """The class of that path, such as `cairn.client.Client`."""
    module, _, name = path.rpartition(".")
    return "\n\n".join(_class_parts(name, getattr(importlib.import_module(module), name)))


def answers() -> str:
    """Every type of `cairn.client.models`."""
    return "\n\n".join(part for name in models.__all__ for part in _answer_parts(name, getattr(models, name)))


def errors() -> str:
    """Every exception of `cairn.client.errors`."""
    classes = [getattr(client_errors, name) for name in client_errors.__all__]
    rows = [
        (f"`{each.__name__}`", f"`{each.__mro__[1].__name__}`", _code_of(each), _summary(each))
        for each in classes
        if isinstance(each, type) and issubclass(each, Exception)
    ]
    return table(("class of `errors`", "is a", "code", "when"), rows)


def _code_of(error: type) -> str:
    """The node's code that it stands for; those that only the client raises have none."""
    code = vars(error).get("code")
    return f"[`{code}`](docs/errors.md#{code.lower()})" if code in CODES else ""


def _summary(error: type) -> str:
    text = vars(error).get("__doc__") or vars(error).get("title", "")
    first = " ".join(inspect.cleandoc(text).split("\n\n")[0].split())
    return first if first.endswith(".") or not first else f"{first}."


def _answer_parts(name: str, answer: Any) -> Iterator[str]:
    if isinstance(answer, type):
        yield from _class_parts(f"models.{name}", answer)
    else:
        yield f"### `models.{name}`"
        yield " or ".join(f"`{each.__name__}`" for each in get_args(answer)) + "."


def _class_parts(name: str, described: type) -> Iterator[str]:
    yield f"### `{name}`"
    is_answer = issubclass(described, msgspec.Struct)
    init = vars(described).get("__init__")
    if isinstance(init, FunctionType):
        yield _python(f"class {described.__name__}", _definition(init), "")
    yield _docstring(vars(described).get("__doc__"))
    if is_answer:
        yield _fields(described)
    for member_name, member in _members(described).items():
        yield from _member_parts(f"{described.__name__}.{member_name}", member)


def _members(described: type) -> dict[str, Any]:
    """What is public, also what another class of ours gives it."""
    ours = [each for each in described.__mro__ if each.__module__.startswith("cairn.")]
    members = {name: member for each in reversed(ours) for name, member in vars(each).items()}
    kinds = (FunctionType, classmethod, staticmethod, property)
    own = [name for each in ours for name in vars(each)]
    return {
        name: members[name]
        for name in dict.fromkeys(own)
        if not name.startswith("_") and isinstance(members[name], kinds)
    }


def _member_parts(name: str, member: Any) -> Iterator[str]:
    function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
    definition = _definition(function)
    returned = f" -> {ast.unparse(definition.returns)}" if definition.returns else ""
    yield f"#### `{name}`"
    if isinstance(member, property):
        yield f"```python\n{name}{returned.replace(' ->', ':')}\n```"
    else:
        kind = "async def" if isinstance(definition, ast.AsyncFunctionDef) else "def"
        yield _python(f"{kind} {definition.name}", definition, returned)
    yield _docstring(function.__doc__)


def _definition(function: Any) -> ast.FunctionDef | ast.AsyncFunctionDef:
    [definition] = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
    return definition


def _python(name: str, definition: ast.FunctionDef | ast.AsyncFunctionDef, returned: str) -> str:
    arguments = definition.args
    if arguments.args and arguments.args[0].arg in ("self", "cls"):
        arguments.args.pop(0)
    parameters = [_spaced(each) for each in NEXT_PARAMETER.split(ast.unparse(arguments))]
    line = f"{name}({', '.join(parameters)}){returned}"
    if len(line) > WIDEST:
        line = f"{name}(\n    " + ",\n    ".join(parameters) + f",\n){returned}"
    return f"```python\n{line}\n```"


def _spaced(parameter: str) -> str:
    """A parameter as ruff formats it."""
    return parameter.replace("=", " = ", 1).replace("'", '"')


def _docstring(text: str | None) -> str:
    return inspect.cleandoc(text or "")


def _fields(answer: type[msgspec.Struct]) -> str:
    hints = get_type_hints(answer, include_extras=True)
    rows = [(f"`{name}`", f"`{_type(hints[name])}`", _meaning(hints[name])) for name in answer.__struct_fields__]
    return table(("field", "type", "meaning"), rows)


def _type(hint: Any) -> str:
    plain = hint.__origin__ if get_origin(hint) is Annotated else hint
    if isinstance(plain, type) and not get_args(plain):
        return plain.__name__
    return MODULE_OF_A_NAME.sub("", re.sub(r"typing\.Annotated\[(.*?), .*?\]", r"\1", str(plain)))


def _meaning(hint: Any) -> str:
    """What the OpenAPI document says of the field."""
    described = [each.description for each in get_args(hint) if isinstance(each, msgspec.Meta) and each.description]
    return described[0] if described else ""
