"""The mutants of a module: its code with one small thing changed, as a slip of the hand would change it."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
_NAMES = {"max": "min", "min": "max", "any": "all", "all": "any"}
_NEGATED_BY_ITS_OPERATOR = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
_TYPE_MAKERS = ("NewType", "TypeVar", "ParamSpec", "Literal")
_PASSIVE_DECORATORS = ("property", "classmethod", "staticmethod", "setter", "override", "abstractmethod")

_DECLARED = ("annotation", "returns", "decorator_list", "bases")

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Mutant:
    path: Path
    line: int
    column: int
    text: str
    """That line, as it is written."""
    before: str
    after: str
    function_line: int | None
    """Where the function around it begins, as code objects count; None for what runs at import or is cached."""
    plant: Callable[[], ast.Module] = field(compare=False, repr=False)
    """Changes the tree of the module, and gives it: for a process that ends with this mutant."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before} -> {self.after}"


def find_mutants(path: Path) -> list[Mutant]:
    return list(_Walk(path).mutants())


class _Walk:
    def __init__(self, path: Path) -> None:
        self._path = path
        text = path.read_text()
        self._lines = ["", *text.splitlines()]
        self._tree = ast.parse(text, str(path))

    def mutants(self) -> Iterator[Mutant]:
        yield from self._below(self._tree, None, None)

    def _below(self, node: ast.AST, inside: int | None, outside: int | None) -> Iterator[Mutant]:
        """The lines are those of the function around what `node` holds, and around `node` itself."""
        for name, value in ast.iter_fields(node):
            if name in _DECLARED or (isinstance(node, ast.ClassDef) and name == "keywords"):
                continue
            # Defaults are set where the function is defined, not where it is called.
            function_line = outside if name == "args" and isinstance(node, _Function) else inside
            if isinstance(value, list):
                for index, child in enumerate(value):
                    if isinstance(child, ast.AST):
                        yield from self._at(child, _Slot(value, index), function_line)
            elif isinstance(value, ast.AST):
                yield from self._at(value, _Slot(node, name), function_line)

    def _at(self, node: ast.AST, slot: "_Slot", function_line: int | None) -> Iterator[Mutant]:
        if _is_for_people_or_types(node):
            return
        for changed in _alternatives(node):
            yield self._mutant(node, slot, changed, function_line)
        inside = _first_line(node) if isinstance(node, _Function) else function_line
        yield from self._below(node, inside, function_line)

    def _mutant(self, node: ast.AST, slot: "_Slot", changed: ast.AST, function_line: int | None) -> Mutant:
        ast.copy_location(changed, node)
        ast.fix_missing_locations(changed)

        def plant() -> ast.Module:
            slot.put(changed)
            return self._tree

        line = getattr(node, "lineno", 0)
        column = getattr(node, "col_offset", 0)
        text = self._lines[line].strip()
        return Mutant(self._path, line, column, text, _first_of(node), _first_of(changed), function_line, plant)


class _Slot:
    """The place of a node in its parent."""

    def __init__(self, holder: ast.AST | list[ast.AST], key: str | int) -> None:
        self._holder = holder
        self._key = key

    def put(self, node: ast.AST) -> None:
        if isinstance(self._holder, list):
            self._holder[int(self._key)] = node
        else:
            setattr(self._holder, str(self._key), node)


def _first_of(node: ast.AST) -> str:
    return ast.unparse(node).partition("\n")[0]


def _is_for_people_or_types(node: ast.AST) -> bool:
    """What changes no behaviour, or only the words of a message."""
    if isinstance(node, ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Assert):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    maker = node.func if isinstance(node, ast.Call) else node.value if isinstance(node, ast.Subscript) else None
    return isinstance(maker, ast.Name) and maker.id in _TYPE_MAKERS


def _first_line(function: _Function) -> int | None:
    names = [_last_name(decorator) for decorator in function.decorator_list]
    if any(name not in _PASSIVE_DECORATORS for name in names):
        # A cache answers for it: which tests it matters to cannot be seen from who calls it.
        return None
    return min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])


def _last_name(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def _alternatives(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(left, ops, comparators):
            for index, op in enumerate(ops):
                changed = [*ops[:index], _COMPARISONS[type(op)](), *ops[index + 1 :]]
                yield ast.Compare(left, changed, comparators)
        case ast.BinOp(left, op, right):
            yield ast.BinOp(left, _OPERATORS[type(op)](), right)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield operand
        case ast.Constant(value):
            yield from _other_constants(value)
        case ast.Name(name, ast.Load()) if name in _NAMES:
            yield ast.Name(_NAMES[name], ast.Load())
        case ast.If(test, body, orelse) if not _has_opposite(test):
            yield ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.IfExp(test, body, orelse) if not _has_opposite(test):
            yield ast.IfExp(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.stmt():
            yield from _other_statements(node)


def _other_statements(node: ast.stmt) -> Iterator[ast.stmt]:
    match node:
        case ast.AugAssign(target, op, value):
            yield ast.AugAssign(target, _OPERATORS[type(op)](), value)
            yield ast.Pass()
        case ast.Return(value) if value is not None and not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.Raise() | ast.Delete() | ast.Expr(ast.Call() | ast.Await()):
            yield ast.Pass()
        case ast.Assign([ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()


def _has_opposite(test: ast.expr) -> bool:
    """Whether a mutant of the condition is its negation already."""
    if isinstance(test, ast.UnaryOp):
        return isinstance(test.op, ast.Not)
    return isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], _NEGATED_BY_ITS_OPERATOR)


def _other_constants(value: object) -> Iterator[ast.Constant]:
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int | float):
        yield ast.Constant(value + 1)
    elif isinstance(value, bytes):
        yield ast.Constant(bytes((value[0] ^ 1,)) + value[1:] if value else b"x")
    elif isinstance(value, str) and not any(letter.isspace() for letter in value):
        # What has spaces is text for people; the rest are names, codes and patterns that programs go by.
        yield ast.Constant(value + "x")
