"""The series of a node: what is declared, what is documented, and how answers are counted."""

import re
from pathlib import Path

import pytest

from cairn import metrics
from cairn.api.rest.accounts import Accounts
from cairn.api.rest.lookups import Lookups
from cairn.api.rest.probes import Probes
from cairn.api.rest.proofs import Proofs
from cairn.api.rest.submissions import Faucet, Submissions
from cairn.api.rest.validators import ValidatorRoutes
from cairn.api.routing import operations_of
from cairn.api.rpc.endpoints import RpcEndpoint
from cairn.metrics_page import SECONDS
from tests.support.metrics import Scrape

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


@pytest.fixture
def traffic() -> metrics.Traffic:
    """In memory that nobody else writes to."""
    metrics.PAGE.share(["test"])
    return metrics.HTTP


def shown(traffic: metrics.Traffic) -> Scrape:
    return Scrape(traffic.rendered(metrics.PAGE))


def test_the_documented_table_is_the_program_s() -> None:
    rows = [
        f"| `{each.name}` | {each.kind} | {', '.join(f'`{label}`' for label in each.labels)} | {each.help} |"
        for family in metrics.PAGE.families
        for each in family.described()
    ]
    documented = PAGE.read_text().partition("<!-- series")[2].partition("<!-- end of series")[0].splitlines()
    assert [line for line in documented if line.startswith("| `")] == rows


def test_names_and_units_are_those_of_prometheus_conventions() -> None:
    described = [each for family in metrics.PAGE.families for each in family.described()]
    assert len({each.name for each in described}) == len(described)
    for each in described:
        assert re.fullmatch(r"(cairn|process)_[a-z0-9_]+", each.name)
        assert each.name.endswith("_total") == (each.kind == "counter")
        assert each.help.endswith(".")


def test_every_operation_has_a_route_of_its_own_or_is_a_page() -> None:
    parts = (Accounts, Faucet, Lookups, Probes, Proofs, RpcEndpoint, Submissions, ValidatorRoutes)
    routes = {each.route for part in parts for each in operations_of(part)}
    assert routes == set(metrics.ROUTES) - {metrics.PAGES, "other"}


@pytest.mark.parametrize("route", metrics.ROUTES)
@pytest.mark.parametrize("status", metrics.STATUSES)
def test_an_answer_is_counted_for_its_route_and_status_and_no_other(
    traffic: metrics.Traffic, route: str, status: int
) -> None:
    traffic.of_route(route).answered(status, 0.0002)
    assert traffic.of_route(route) is traffic.of_route(route)
    page = shown(traffic)
    assert page.total("cairn_http_requests_total", route=route, code=str(status)) == 1
    assert page.total("cairn_http_requests_total") == 1
    assert page.total("cairn_http_request_duration_seconds_count", route=route) == 1
    assert page.total("cairn_http_request_duration_seconds_sum") == 0.0002


def test_a_status_that_no_answer_of_ours_has_is_counted_as_other(traffic: metrics.Traffic) -> None:
    traffic.of_route("GET /chain").answered(418, 0.0)
    assert shown(traffic).total("cairn_http_requests_total", route="GET /chain", code="other") == 1


def test_durations_are_counted_up_to_and_with_each_bound(traffic: metrics.Traffic) -> None:
    counted = traffic.of_route("POST /tx")
    durations = [0.0, *SECONDS, 11.0]
    for duration in durations:
        counted.answered(200, duration)
    page = shown(traffic)
    for bound in SECONDS:
        text = str(int(bound)) if bound == int(bound) else repr(bound)
        found = page.total("cairn_http_request_duration_seconds_bucket", route="POST /tx", le=text)
        assert found == sum(duration <= bound for duration in durations)
    assert page.total("cairn_http_request_duration_seconds_bucket", route="POST /tx", le="+Inf") == len(durations)
    assert page.total("cairn_http_request_duration_seconds_sum", route="POST /tx") == pytest.approx(sum(durations))
