"""What only `make test-all` runs: directories, files and single tests, by their path below tests.

It needs programs of the system, types what a page shows, or takes long and would hardly be the only one to find a
defect. All else is for `make test`.
"""

from pathlib import Path

TESTS = Path(__file__).parent
NIGHTLY = {
    # Browsers, containers, systemd, Prometheus, PostgreSQL, proxies.
    "e2e/container",
    "e2e/distribution",
    "e2e/explorer",
    "e2e/monitoring",
    "e2e/service",
    "e2e/cli/test_wallet.py::test_a_signed_transfer_is_posted_by_curl",
    "e2e/test_newcomer.py",
    "e2e/test_nginx.py",
    "e2e/test_postgresql_page.py",
    "e2e/test_processes.py::test_the_printed_transfer_works_as_it_is_printed",
    "e2e/typescript",
    "e2e/network/test_balanced_nodes.py",
    "e2e/network/test_bench.py",
    # Pages.
    "e2e/cli/test_cli_page.py",
    "e2e/client/test_testing_page.py",
    "e2e/dev/test_dev_page.py",
    "e2e/network/test_network_page.py",
    "e2e/network/test_operator_pages.py",
    "e2e/operate",
    "e2e/rpc/test_page.py",
    "e2e/test_backup_page.py",
    "e2e/test_docs_pages.py",
    "e2e/test_examples.py",
    "e2e/test_follow_page.py",
    "e2e/test_guest_page.py",
    "e2e/test_readme.py",
    "e2e/test_send_page.py",
    "e2e/test_tutorial.py",
    "e2e/test_webhooks_page.py",
    "integration/test_docs_site.py",
    # Faults on real processes, planted defects, and load.
    "chaos",
    "e2e/cli/test_forward.py",
    "e2e/client/test_testing_fixtures.py",
    "e2e/dev/test_revert_crash.py",
    "e2e/dev/test_revert_load.py",
    "e2e/test_bench.py",
    "e2e/test_crash.py",
    "e2e/test_events_load.py",
    "e2e/test_fault_lines.py",
    "e2e/test_greedy.py",
    "e2e/test_hangs.py",
    "e2e/test_late_imports.py",
    "e2e/test_metrics.py",
    "e2e/test_schemathesis.py",
    "e2e/test_shop.py",
    "e2e/test_unfinished_bodies.py",
    "planted",
    # Networks of real processes, but for a smoke.
    "e2e/network/test_agreement.py",
    "e2e/network/test_attach.py",
    "e2e/network/test_backup.py",
    "e2e/network/test_catching_up.py",
    "e2e/network/test_certificates.py",
    "e2e/network/test_crash_points.py",
    "e2e/network/test_divergence.py",
    "e2e/network/test_doctor.py",
    "e2e/network/test_double_signing.py",
    "e2e/network/test_flood.py",
    "e2e/network/test_hostile.py",
    "e2e/network/test_kills.py",
    "e2e/network/test_network_lines.py",
    "e2e/network/test_proven_client.py",
    "e2e/network/test_replacements.py",
    "e2e/network/test_silent_connections.py",
    "e2e/network/test_state_sync.py",
    "e2e/network/test_upgrade.py",
    "e2e/network/test_validators.py",
    "integration/test_damaged_starts.py",
    "proofs/test_verify_mjs.py::test_verifier_decides_each_vector_as_meant_on_older_node",
    "simulation/test_simulation.py::test_the_seeds_that_failed_once_pass[2]",
    "simulation/test_simulation.py::test_the_seeds_that_failed_once_pass[3]",
    "simulation/test_simulation.py::test_the_seeds_that_failed_once_pass[4]",
    "simulation/test_simulation.py::test_the_seeds_that_failed_once_pass[5]",
}
SWEEPS = {"proofs/test_alterations.py", "integration/test_swapped_proofs.py"}
"""Both run these: `make test` a sample (tests/support/sweeps.py), `make test-all` everything."""


def is_nightly(path: Path, test: str = "") -> bool:
    """Whether the test, its file, or a directory that they are in, is listed."""
    below = path.relative_to(TESTS)
    named = (f"{below}::{test}", f"{below}::{test.partition('[')[0]}", below, *below.parents)
    return any(str(place) in NIGHTLY for place in named)


def is_sweep(path: Path) -> bool:
    return str(path.relative_to(TESTS)) in SWEEPS


def has_nightly(path: Path) -> bool:
    """Whether any test of the file is for `make test-all`."""
    return (
        is_nightly(path) or is_sweep(path) or any(name.startswith(f"{path.relative_to(TESTS)}::") for name in NIGHTLY)
    )
