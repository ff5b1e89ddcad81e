"""A page of memory that all processes of a node share, with the numbers that its metrics show.

It is made before the first fork. A process counts in its own row only, so nothing needs a lock. Whoever is started in
the place of another goes on with its row, so no count is lost when a process is killed. Each process can read all
rows: a worker shows the core's numbers while the core is stopped.

    row 0           of the node as a whole: gauges, each written by one process at a time
    row 1, 2, ...   of the supervisor, the core, the workers and CometBFT

All rows have the same cells, of 8 bytes each: a count, or a floating-point number. The first is the process's id, 0
while it does not run. Then each family of series has its cells, in the order of their declaration. The set of series
is fixed when the program starts; no client can add one.

A process that belongs to no node, such as a test or a tool, writes into memory of its own.
"""

import math
import mmap
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Literal, NamedTuple

OTHER = "other"
"""Stands for label values that are not in the fixed set, where a family allows such."""

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The upper bounds of durations."""

_WORD_BYTES = 8
_PID = 0
_FIRST_CELL = 1
_NAME_BYTES = 64
_ENTRY_CELLS = 1 + _NAME_BYTES // _WORD_BYTES
_LINE_CELLS = 8
"""A row ends with a line of the processors' caches, so that no two processes write to the same one."""

Kind = Literal["counter", "gauge", "histogram"]


class Described(NamedTuple):
    """What is said of a family's series."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str


class Row:
    """The cells of one process, or a part of them."""

    def __init__(self, whole: "mmap.mmap | bytearray", start: int, cells: int) -> None:
        """`start` is the first cell in `whole`."""
        self.whole = whole
        self._start = start
        self._memory = memory = memoryview(whole)[start * _WORD_BYTES : (start + cells) * _WORD_BYTES]
        self.counts: memoryview[int] = memory.cast("Q")
        self.numbers: memoryview[float] = memory.cast("d")

    def write(self, cell: int, content: bytes) -> None:
        self._memory[cell * _WORD_BYTES : cell * _WORD_BYTES + len(content)] = content

    def read(self, cell: int, size_bytes: int) -> bytes:
        return bytes(self._memory[cell * _WORD_BYTES : cell * _WORD_BYTES + size_bytes])

    def part(self, start: int, cells: int) -> "Row":
        return Row(self.whole, self._start + start, cells)


def private_row(cells: int) -> Row:
    return Row(bytearray(cells * _WORD_BYTES), 0, cells)


class _Cells(dict[tuple[str, ...], int]):
    """Where each series begins, by the values of its labels. What is not among them counts as `other`."""

    def __init__(self, labels: Mapping[str, Sequence[str]], cells: Mapping[tuple[str, ...], int]) -> None:
        super().__init__(cells)
        self._labels = labels

    def __missing__(self, values: tuple[str, ...]) -> int:
        known = zip(values, self._labels.values(), strict=True)
        found = tuple(value if value in allowed else OTHER for value, allowed in known)
        if found == values or found not in self:
            raise KeyError(values)
        return self[found]


class Family:
    """Series of one name, which differ in their labels."""

    kind: Kind
    cells_each = 1
    """Of one series."""

    def __init__(self, page: "Page", name: str, help: str, **labels: Sequence[str]) -> None:
        """`labels` are all values of each label; each combination of them is a series."""
        self.name = name
        self.help = help
        self.labels = labels
        self.keys: list[tuple[str, ...]] = list(product(*labels.values()))
        self._at = _Cells(labels, {key: index * self.cells_each for index, key in enumerate(self.keys)})
        self.start = page.add(self)
        self.own = self.node = private_row(self.cells)

    @property
    def cells(self) -> int:
        return len(self.keys) * self.cells_each

    def bind(self, page: "Page", own: Row, node: Row) -> None:
        """Write into these rows from now on: the process's own, and that of the node."""
        self.own, self.node = own.part(self.start, self.cells), node.part(self.start, self.cells)

    def cell(self, *values: str) -> int:
        """Where a series begins within the family's cells. Raises `KeyError` for a series that does not exist."""
        return self._at[values]

    def described(self) -> list[Described]:
        return [Described(self.name, self.kind, tuple(self.labels), self.help)]

    def tags(self, key: tuple[str, ...]) -> list[str]:
        return [f'{label}="{_escaped(value)}"' for label, value in zip(self.labels, key, strict=True)]

    def lines(self, page: "Page") -> Iterator[str]:
        raise NotImplementedError

    def rendered(self, page: "Page") -> str:
        """In Prometheus' text format; nothing when no series has a value."""
        lines = list(self.lines(page))
        return head_of(self.name, self.help, self.kind) + "".join(lines) if lines else ""


class Counter(Family):
    """Only grows, even over restarts of a process. Shown is the sum over all processes."""

    kind: Kind = "counter"

    def inc(self, *values: str) -> None:
        self.own.counts[self._at[values]] += 1

    def add(self, count: int, *values: str) -> None:
        self.own.counts[self._at[values]] += count

    def totals(self, page: "Page") -> list[int]:
        """Counts of all series, in their order."""
        return page.total_counts(self)

    def lines(self, page: "Page") -> Iterator[str]:
        for key, total in zip(self.keys, self.totals(page), strict=True):
            yield line_of(self.name, self.tags(key), str(total))


class Gauge(Family):
    """The latest value, of the node as a whole. A series that was never set is not shown."""

    kind: Kind = "gauge"

    def __init__(self, page: "Page", name: str, help: str, **labels: Sequence[str]) -> None:
        super().__init__(page, name, help, **labels)
        self._clear_all()

    def set(self, value: float, *values: str) -> None:
        self.node.numbers[self._at[values]] = value

    def clear(self, *values: str) -> None:
        """Show it no longer."""
        self.set(math.nan, *values)

    def bind(self, page: "Page", own: Row, node: Row) -> None:
        super().bind(page, own, node)
        if page.is_new:
            self._clear_all()

    def _clear_all(self) -> None:
        for at in range(self.cells):
            self.node.numbers[at] = math.nan

    def lines(self, page: "Page") -> Iterator[str]:
        for key, value in zip(self.keys, self.node.numbers, strict=True):
            if not math.isnan(value):
                yield line_of(self.name, self.tags(key), text_of(value))


class Total(Gauge):
    """A count that is known as a whole, as from the chain's state."""

    kind: Kind = "counter"


class Level(Family):
    """How many there are of something now, in all processes together. A process that has ended has none."""

    kind: Kind = "gauge"

    def set(self, count: int, *values: str) -> None:
        self.own.counts[self._at[values]] = count

    def change(self, more: int, *values: str) -> None:
        self.own.counts[self._at[values]] += more

    def lines(self, page: "Page") -> Iterator[str]:
        for key, total in zip(self.keys, page.total_counts(self), strict=True):
            yield line_of(self.name, self.tags(key), str(total))


class Histogram(Family):
    """How often something took how long. A series has a count for each bound, one for what is beyond, and the sum."""

    kind: Kind = "histogram"

    def __init__(
        self, page: "Page", name: str, help: str, bounds: Sequence[float] = SECONDS, **labels: Sequence[str]
    ) -> None:
        self.bounds = tuple(bounds)
        self.cells_each = len(bounds) + 2
        super().__init__(page, name, help, **labels)

    def observe(self, value: float, *values: str) -> None:
        at, bounds = self._at[values], self.bounds
        self.own.counts[at + bisect_left(bounds, value)] += 1
        self.own.numbers[at + len(bounds) + 1] += value

    def lines(self, page: "Page") -> Iterator[str]:
        counts, numbers = page.total_counts(self), page.total_numbers(self)
        for key, at in self._at.items():
            end = at + self.cells_each - 1
            yield from histogram_lines(self.name, self.tags(key), self.bounds, counts[at:end], numbers[end])


class Roster(Family):
    """A gauge with one series for each of some names, which are known only while the node runs.

    The first cell says how many there are. Then each has its number, and its name in UTF-8, filled up with zeros.
    """

    kind: Kind = "gauge"

    def __init__(self, page: "Page", name: str, help: str, label: str, most: int) -> None:
        """Make room for `most` names; of more, the last are not shown."""
        self._label = label
        self._most = most
        super().__init__(page, name, help)

    @property
    def cells(self) -> int:
        return 1 + self._most * _ENTRY_CELLS

    def described(self) -> list[Described]:
        return [Described(self.name, self.kind, (self._label,), self.help)]

    def set_all(self, values: Mapping[str, float]) -> None:
        """Show these, and no others. One process does so at a time."""
        node, shown = self.node, list(values.items())[: self._most]
        for at, (name, value) in zip(range(1, self.cells, _ENTRY_CELLS), shown, strict=False):
            node.numbers[at] = value
            node.write(at + 1, name.encode()[:_NAME_BYTES].ljust(_NAME_BYTES, b"\0"))
        node.counts[0] = len(shown)

    def lines(self, page: "Page") -> Iterator[str]:
        for index in range(self.node.counts[0]):
            at = 1 + index * _ENTRY_CELLS
            name = self.node.read(at + 1, _NAME_BYTES).rstrip(b"\0").decode(errors="ignore")
            yield line_of(self.name, [f'{self._label}="{_escaped(name)}"'], text_of(self.node.numbers[at]))


class OfProcess(Family):
    """A number about each process, in its row. Any other may write it, too: mostly the supervisor does."""

    def __init__(self, page: "Page", kind: Kind, name: str, help: str) -> None:
        self.kind = kind
        self._rows: dict[str, Row] = {}
        super().__init__(page, name, help)

    def bind(self, page: "Page", own: Row, node: Row) -> None:
        super().bind(page, own, node)
        self._rows = {process: row.part(self.start, 1) for process, row in page.rows.items()}

    def described(self) -> list[Described]:
        return [Described(self.name, self.kind, ("process",), self.help)]

    def set(self, value: float, process: str) -> None:
        self._row_of(process).numbers[0] = value

    def inc(self, process: str) -> None:
        self._row_of(process).numbers[0] += 1

    def _row_of(self, process: str) -> Row:
        return self._rows.get(process, self.own)

    def lines(self, page: "Page") -> Iterator[str]:
        for process, row in self._rows.items():
            yield line_of(self.name, [f'process="{process}"'], text_of(row.numbers[0]))


class OfSystem(Family):
    """What the system says of each process that runs, when it is asked for."""

    def __init__(self, page: "Page", kind: Kind, name: str, help: str, read: Callable[[int], float]) -> None:
        """`read` gives the number of a process by its id. It raises `OSError` if there is none."""
        self.kind = kind
        self._read = read
        super().__init__(page, name, help)

    def described(self) -> list[Described]:
        return [Described(self.name, self.kind, ("process",), self.help)]

    def lines(self, page: "Page") -> Iterator[str]:
        for process, pid in page.pids().items():
            try:
                value = self._read(pid)
            except OSError:
                continue
            yield line_of(self.name, [f'process="{process}"'], text_of(value))


class Page:
    """All families. Until it is shared, each has memory of its own."""

    def __init__(self) -> None:
        self.families: list[Family] = []
        self.rows: dict[str, Row] = {}
        """By process, once it is shared."""
        self.is_new = False
        """While it is being shared: nothing was set yet."""
        self._cells = _FIRST_CELL
        self._node: Row | None = None

    def add(self, family: Family) -> int:
        """Returns where its cells begin."""
        start, self._cells = self._cells, self._cells + family.cells
        self.families.append(family)
        return start

    def share(self, processes: Sequence[str]) -> None:
        """Before the first fork: make the memory for all of these. The first is the caller."""
        row_cells = -(-self._cells // _LINE_CELLS) * _LINE_CELLS
        whole = mmap.mmap(-1, row_cells * _WORD_BYTES * (1 + len(processes)))
        self._node, *rows = (Row(whole, index * row_cells, row_cells) for index in range(1 + len(processes)))
        self.rows = dict(zip(processes, rows, strict=True))
        self.is_new = True
        self.become(processes[0])
        self.is_new = False

    def become(self, process: str) -> None:
        """In a process, after its fork: count in its row from now on."""
        if process in self.rows and self._node is not None:
            for family in self.families:
                family.bind(self, self.rows[process], self._node)

    def started(self, process: str, pid: int) -> None:
        """In the supervisor: the process runs."""
        if process in self.rows:
            self.rows[process].counts[_PID] = pid

    def ended(self, process: str) -> None:
        """In the supervisor: the process has ended, and so has what it had open."""
        if process in self.rows:
            row = self.rows[process]
            row.counts[_PID] = 0
            for family in self.families:
                if isinstance(family, Level):
                    row.counts[family.start : family.start + family.cells] = _zeros(family.cells)

    def pids(self) -> dict[str, int]:
        """The processes that run."""
        return {process: row.counts[_PID] for process, row in self.rows.items() if row.counts[_PID]}

    # What is shown.

    def total_counts(self, family: Family) -> list[int]:
        start, end = family.start, family.start + family.cells
        parts = [row.counts[start:end].tolist() for row in self.rows.values()] or [family.own.counts.tolist()]
        return list(map(sum, zip(*parts, strict=True)))

    def total_numbers(self, family: Family) -> list[float]:
        start, end = family.start, family.start + family.cells
        parts = [row.numbers[start:end].tolist() for row in self.rows.values()] or [family.own.numbers.tolist()]
        return [math.fsum(each) for each in zip(*parts, strict=True)]


def _zeros(cells: int) -> "memoryview[int]":
    return memoryview(bytes(cells * _WORD_BYTES)).cast("Q")


# Prometheus' text format, version 0.0.4.


def head_of(name: str, help: str, kind: Kind) -> str:
    return f"# HELP {name} {help}\n# TYPE {name} {kind}\n"


def line_of(name: str, tags: Sequence[str], value: str) -> str:
    return f"{name}{{{','.join(tags)}}} {value}\n" if tags else f"{name} {value}\n"


def histogram_lines(
    name: str, tags: Sequence[str], bounds: Sequence[float], counts: Sequence[int], total: float
) -> Iterator[str]:
    """`counts` are those up to each bound and above the one before it, then those above the last."""
    so_far = 0
    for bound, count in zip((*bounds, math.inf), counts, strict=True):
        so_far += count
        yield line_of(f"{name}_bucket", [*tags, f'le="{text_of(bound)}"'], str(so_far))
    yield line_of(f"{name}_sum", tags, text_of(total))
    yield line_of(f"{name}_count", tags, str(so_far))


def text_of(value: float) -> str:
    if math.isinf(value):
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(value)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
