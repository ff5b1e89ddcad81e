"""What a node shows at /metrics, read as Prometheus reads it."""

import re
from typing import NamedTuple

import httpx

from tests.support.pace import PATIENCE_S

_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Sample(NamedTuple):
    name: str
    labels: dict[str, str]
    value: float


class Scrape:
    """One answer."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.samples = [_sample(line) for line in text.splitlines() if not line.startswith("#")]

    @property
    def names(self) -> set[str]:
        return {sample.name for sample in self.samples}

    def total(self, name: str, **labels: str) -> float:
        """The sum of the series with these labels. Raises `LookupError` if there is none."""
        found = [each.value for each in self.samples if each.name == name and labels.items() <= each.labels.items()]
        if not found:
            raise LookupError(f"no {name} with {labels}")
        return sum(found)

    def find(self, name: str, **labels: str) -> float | None:
        """The sum of the series with these labels; None if there is none yet."""
        try:
            return self.total(name, **labels)
        except LookupError:
            return None


def _sample(line: str) -> Sample:
    matched = _SAMPLE.match(line)
    assert matched is not None, line
    name, labels, value = matched.groups()
    return Sample(name, dict(_LABEL.findall(labels or "")), float(value))


def scrape(url: str) -> Scrape:
    answer = httpx.get(url, timeout=PATIENCE_S)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return Scrape(answer.text)
