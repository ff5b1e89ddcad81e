"""What is made of the costs on chains of two sizes."""

from bench.depth import DepthRow, depth_figures


def test_figures_name_each_cost_and_the_worst_ratios_of_reads_and_writes() -> None:
    rows = [
        DepthRow("GET /tx", False, {10: [20.0, 40.0, 30.0], 1_000: [30.0, 80.0, 42.0]}),
        DepthRow("eth_getBalance", False, {10: [10.0], 1_000: [12.0]}),
        DepthRow("POST /tx", True, {10: [100.0], 1_000: [110.0]}),
    ]
    figures = depth_figures(rows)
    assert figures["GET /tx few"] == 30.0
    assert figures["GET /tx many"] == 42.0
    # The median of 1.5, 2 and 1.4: of rounds, and not of all.
    assert figures["GET /tx ratio"] == figures["depth_read_ratio"] == 1.5
    assert figures["eth_getBalance ratio"] == 1.2
    assert figures["depth_write_ratio"] == 1.1
