"""The alert rules and the dashboard name series and labels that a node shows, and the page says what to do."""

import json
import re
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import yaml

from cairn import metrics
from cairn.cli.operate.doctor_command import doctor
from cairn.config import Settings
from cairn.metrics_page import Histogram
from tests.support.monitoring import DIRECTORY, panels
from tests.support.pages import Page
from tests.support.promql import Selector, listed_labels, selectors

ADDED = {"job", "instance", "chain"}
"""Labels that Prometheus adds to what it reads."""
ALERTS = [
    "CairnDown",
    "CairnCoreStuck",
    "CairnNotReady",
    "CairnNotMining",
    "CairnDiskLow",
    "CairnDiskFullInADay",
    "CairnSlowSync",
    "CairnRestarts",
    "CairnErrors",
    "CairnCertificateExpires",
    "CairnBackupOld",
    "CairnLagging",
    "CairnMissedBlocks",
    "CairnEvidence",
]


def known_series() -> dict[str, set[str]]:
    """Each series that a node shows, with its labels."""
    known = {"up": set[str](), "ALERTS": {"alertname", "alertstate", "severity"}}
    for family in metrics.PAGE.families:
        for described in family.described():
            labels = set(described.labels)
            if described.kind == "histogram":
                known |= {f"{described.name}_{part}": labels for part in ("count", "sum")}
                known[f"{described.name}_bucket"] = labels | {"le"}
            else:
                known[described.name] = labels
    return known


def known_values() -> dict[tuple[str, str], set[str]]:
    """All values of each label, of series with a fixed set of them."""
    values: dict[tuple[str, str], set[str]] = {}
    for family in metrics.PAGE.families:
        for label, each in family.labels.items():
            values[family.name, label] = set(each)
        if isinstance(family, Histogram):
            values[f"{family.name}_bucket", "le"] = {f"{bound:g}" for bound in family.bounds} | {"+Inf"}
    values[metrics.HTTP.name, "code"] = set(metrics.HTTP.statuses)
    return values


def rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load((DIRECTORY / "alerts.yml").read_text())["groups"]
    return list(group["rules"])


def queries() -> Iterator[tuple[str, str]]:
    """Where a query is, and the query."""
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in panels():
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target["expr"]


@pytest.mark.parametrize("query", [pytest.param(query, id=where) for where, query in queries()])
def test_a_query_names_series_and_labels_that_exist(query: str) -> None:
    known = known_series()
    found = selectors(query)
    assert found
    for selector in found:
        # Those of CometBFT are looked for in what it shows, where the alerts are tried.
        if not selector.series.startswith("cometbft_"):
            assert selector.series in known
            assert {matcher.label for matcher in selector.matchers} <= known[selector.series] | ADDED
            assert_selects_something(selector)
    every_label = set().union(*known.values()) | ADDED
    assert listed_labels(query) <= every_label


def assert_selects_something(selector: Selector) -> None:
    values = known_values()
    for matcher in selector.matchers:
        known = values.get((selector.series, matcher.label))
        assert known is None or any(map(matcher.accepts, known)), f"{selector.series} has no such {matcher}"


@pytest.mark.parametrize(
    "wrong",
    [
        'cairn_http_requests_total{code=~"7.."}',
        'cairn_journal_sync_duration_seconds_bucket{le="0.7"}',
        'cairn_mempool_transactions{state="lost"}',
    ],
)
def test_a_label_value_that_no_series_has_is_noticed(wrong: str) -> None:
    [selector] = selectors(wrong)
    with pytest.raises(AssertionError, match="has no such"):
        assert_selects_something(selector)


def test_every_alert_has_a_severity_and_says_what_happened_and_what_to_do() -> None:
    page = Page("docs/monitoring.md")
    headings = {heading.lower() for heading in re.findall(r"^### (\w+)$", page.text, re.MULTILINE)}
    assert [rule["alert"] for rule in rules()] == ALERTS
    for rule in rules():
        name = rule["alert"]
        assert rule["labels"]["severity"] in ("page", "ticket"), name
        assert rule["annotations"]["summary"], name
        assert rule["annotations"]["runbook"] == f"docs/monitoring.md#{name.lower()}"
        assert name.lower() in headings, f"docs/monitoring.md does not say what to do about {name}"


def test_the_rule_of_a_disk_with_little_space_has_the_threshold_of_the_log() -> None:
    [rule] = [rule for rule in rules() if rule["alert"] == "CairnDiskLow"]
    assert rule["expr"] == f"cairn_store_free_bytes < {Settings().disk_warning_bytes}"


def test_the_rule_of_an_old_backup_has_the_threshold_of_the_doctor() -> None:
    [rule] = [rule for rule in rules() if rule["alert"] == "CairnBackupOld"]
    assert rule["expr"].endswith(f"> {signature(doctor).parameters['backup_days'].default} * 86400")


def test_every_panel_has_a_description_a_place_of_its_own_and_a_legend() -> None:
    taken: dict[tuple[int, int], str] = {}
    ids = [panel["id"] for panel in panels()]
    assert len(ids) == len(set(ids))
    for panel in panels():
        title, place = panel["title"], panel["gridPos"]
        assert panel["description"], title
        assert place["x"] + place["w"] <= 24, title
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), title) == title
        if panel["type"] == "timeseries":
            assert all(target["legendFormat"] for target in panel["targets"]), title


def test_every_variable_of_the_dashboard_is_used_and_every_used_one_is_there() -> None:
    text = (DIRECTORY / "dashboard.json").read_text()
    names = {variable["name"] for variable in json.loads(text)["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", text)) - {"__rate_interval", "__all"}
    assert used == names


def test_the_shipped_files_are_the_ones_that_the_page_names() -> None:
    page = Page("docs/monitoring.md").text
    assert all(f"`{path.name}`" in page for path in Path(DIRECTORY).iterdir())
