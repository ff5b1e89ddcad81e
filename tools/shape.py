"""Prints what the shape of a source tree comes to: sizes, names that occur twice, classes and functions too large.

    python tools/shape.py [DIRECTORY]

Generated code is left out. A method is any function in a class's body, a property too.
"""

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

OUR_SOURCE = Path(__file__).parent.parent / "src"
LONG_FUNCTION_LINES = 60
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module:
    def __init__(self, root: Path, path: Path) -> None:
        self.path = path.relative_to(root)
        self.name = ".".join(self.path.with_suffix("").parts).removesuffix(".__init__")
        text = path.read_text()
        self.lines = text.count("\n")
        self.tree = ast.parse(text)

    def classes(self) -> Iterator[tuple[str, int]]:
        """Each with its number of methods."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ClassDef):
                yield node.name, sum(isinstance(item, Function) for item in node.body)

    def long_functions(self) -> Iterator[str]:
        for node in ast.walk(self.tree):
            if isinstance(node, Function) and node.end_lineno is not None:
                lines = node.end_lineno - node.lineno + 1
                if lines > LONG_FUNCTION_LINES:
                    yield f"{self.path}: {node.name} ({lines})"

    def imports(self) -> set[str]:
        """The modules that it names; of `from a import b` both `a` and `a.b`."""
        found = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        return found


def modules_in(root: Path) -> list[Module]:
    return [Module(root, path) for path in sorted(root.rglob("*.py")) if not path.stem.endswith("_pb2")]


def repeated(names: Iterator[str]) -> list[str]:
    return sorted(name for name, times in Counter(names).items() if times > 1)


def find_knot(modules: list[Module]) -> list[str]:
    """Modules that import each other in a circle, if there are any."""
    names = {module.name for module in modules}
    try:
        # The name of a package is imported with each of its modules, and holds nothing of theirs.
        TopologicalSorter({each.name: (each.imports() & names) - {each.name} for each in modules}).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else OUR_SOURCE
    modules = modules_in(root)
    classes = [(module.path, *found) for module in modules for found in module.classes()]
    files = repeated(module.path.name for module in modules if not module.path.name.startswith("__"))
    doubled = repeated(name for _, name, _ in classes)
    long_functions = [found for module in modules for found in module.long_functions()]
    knot = find_knot(modules)
    print(f"files                    {len(modules):>6}")
    print(f"lines                    {sum(module.lines for module in modules):>6}")
    print(f"file names used twice    {len(files):>6}  {', '.join(files)}")
    print(f"class names used twice   {len(doubled):>6}  {', '.join(doubled)}")
    for path, name, methods in sorted(classes, key=lambda each: -each[2])[:5]:
        print(f"methods of a class       {methods:>6}  {name} in {path}")
    print(f"functions over {LONG_FUNCTION_LINES} lines  {len(long_functions):>6}  {', '.join(long_functions)}")
    print(f"modules in a knot        {len(knot):>6}  {' -> '.join(knot)}")


if __name__ == "__main__":
    main()
