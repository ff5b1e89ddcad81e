"""Reads from queries of Prometheus which series and labels they name, as far as ours go."""

import re
from typing import NamedTuple

_SERIES = re.compile(r"\b((?:cairn|process|cometbft)_\w+|up|ALERTS)\b(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_LABEL_LIST = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)")


class Matcher(NamedTuple):
    label: str
    operator: str
    value: str

    def accepts(self, value: str) -> bool:
        """Whether a series with this value of the label is selected."""
        is_equal = re.fullmatch(self.value, value) is not None if "~" in self.operator else self.value == value
        return is_equal != self.operator.startswith("!")


class Selector(NamedTuple):
    series: str
    matchers: list[Matcher]


def selectors(query: str) -> list[Selector]:
    """Every series that the query selects, with what it demands of its labels."""
    # A name in a list of labels is none of a series.
    bare = _LABEL_LIST.sub("", query)
    return [
        Selector(name, [Matcher(*found) for found in _MATCHER.findall(matchers)])
        for name, matchers in _SERIES.findall(bare)
    ]


def listed_labels(query: str) -> set[str]:
    """What the query groups or joins by."""
    return {label.strip() for names in _LABEL_LIST.findall(query) for label in names.split(",")}
