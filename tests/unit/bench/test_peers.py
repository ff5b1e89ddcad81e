"""The comparison with other chains: which runs count, what is made of them, and how it is shown."""

import argparse
import dataclasses
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from bench.machine import Machine
from bench.peers import rounds
from bench.peers.__main__ import command, names
from bench.peers.apis import RestApi, RpcApi, WrongAnswer, receipt_fields, tx_fields
from bench.peers.ledger import Ledger
from bench.peers.plots import plot
from bench.peers.process_tree import Disturbance, Usage, descendants
from bench.peers.report import bars_table, cell, depth_table, network_table, notes, page, table, verdicts
from bench.peers.rounds import Comparison, measured
from bench.peers.rows import ROWS
from bench.peers.samples import Figure, Results, Sample, added, figure, thrown_away
from bench.peers.session import SMOKE, difference
from bench.peers.sockets import is_text_frame, split_frames
from bench.workload import BALANCE, GAS_PRICE, account, sign_transfer
from cairn.domain.types import TRANSFER_GAS


def sample(target: str, value: float, key: str = "tx_per_s", disturbed: bool = False, row: str = "tx") -> Sample:
    return Sample(target, row, 0, {key: value}, is_disturbed=disturbed)


# Which runs count.


def test_a_figure_is_the_median_of_its_runs() -> None:
    runs = [sample("geth", value) for value in (5, 1, 3)]
    assert figure(runs, "geth", "tx_per_s", "tx") == Figure(3, 3)


def test_disturbed_runs_are_thrown_away_and_counted() -> None:
    runs = [sample("geth", 10), sample("geth", 2, disturbed=True), sample("geth", 12)]
    assert figure(runs, "geth", "tx_per_s", "tx") == Figure(11, 2, thrown_away=1)
    assert thrown_away(runs) == 1


def test_if_all_were_disturbed_the_figure_says_so() -> None:
    found = figure([sample("geth", 2, disturbed=True)], "geth", "tx_per_s", "tx")
    assert found == Figure(2, 1, is_disturbed=True)
    assert cell(found) == "2.00\\*"


def test_a_failed_row_is_shown_as_failed_and_a_missing_method_as_a_dash() -> None:
    failed = [Sample("geth", "tx", 0, error="the node died")]
    unsupported = [Sample("geth", "tx", 0, error="Method x is not supported")]
    assert cell(figure(failed, "geth", "tx_per_s", "tx")) == "failed"
    assert cell(figure(unsupported, "geth", "tx_per_s", "tx")) == "–"
    assert cell(figure(failed, "anvil", "tx_per_s", "tx")) == "–"


def test_a_later_success_counts_although_an_earlier_run_failed() -> None:
    runs = [Sample("geth", "tx", 0, error="lost"), sample("geth", 7)]
    assert figure(runs, "geth", "tx_per_s", "tx") == Figure(7, 1)


@pytest.mark.parametrize(("others", "stolen", "is_too_much"), [(0.3, 0, False), (0.2, 0.2, True), (0, 0.4, True)])
def test_more_than_a_third_of_a_core_is_too_much(others: float, stolen: float, is_too_much: bool) -> None:
    assert Disturbance(others, stolen).is_too_much is is_too_much


def test_what_we_take_ourselves_is_no_disturbance() -> None:
    before, after = Usage(100.0, 50.0, 1.0, 10.0), Usage(102.0, 54.0, 1.5, 13.0)
    assert after.disturbance_since(before) == Disturbance(0.5, 0.25)


def test_rounding_never_makes_a_disturbance_negative() -> None:
    assert Usage(2.0, 1.0, 0.0, 1.1).disturbance_since(Usage(1.0, 0.0, 0.0, 0.0)).others_cores == 0


def test_a_run_has_its_yardstick_and_a_disturbed_one_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    usages = iter([Usage(0.0, 0.0, 0.0, 0.0), Usage(1.0, 1.0, 0.0, 0.5)])
    monkeypatch.setattr(Usage, "now", lambda: next(usages))
    found = measured("geth", "tx", 2, lambda: {"tx_per_s": 1.0}, 9.0)
    assert found.is_disturbed
    assert (found.round, found.others_cores, found.bare_per_s) == (2, 0.5, 9.0)
    assert found.recovery_us > 0


def test_a_run_that_fails_leaves_its_reason() -> None:
    def fail() -> dict[str, float]:
        raise WrongAnswer("the balance is wrong")

    found = measured("geth", "tx", 0, fail, 0.0)
    assert (found.error, found.figures) == ("the balance is wrong", {})


class Counted(Comparison):
    """Counts sessions instead of running them. All but the first run of each row on a target are undisturbed."""

    turns: ClassVar[list[tuple[int, str, tuple[str, ...]]]] = []

    def _session(self, number: int, name: str, submissions: object, works: Any, interval_s: int) -> None:
        self.turns.append((number, name, tuple(works)))
        for row in works:
            is_disturbed = name == "geth" and row == "write" and number < 2
            self.samples.append(Sample(name, row, number, is_disturbed=is_disturbed))


def test_chains_take_turns_and_disturbed_rows_get_one_round_more(tmp_path: Path) -> None:
    sizes = dataclasses.replace(SMOKE, attempts=2)
    targets, rows = ["cairn-rest", "geth", "ganache"], ["write", "tx", "instant-dev"]
    comparison = Counted(tmp_path, sizes, rows, targets, 2, lambda _: None, lambda _: None)
    Counted.turns.clear()
    comparison.run()
    both = ("write", "tx")
    assert Counted.turns == [
        (0, "cairn-rest", both),
        (0, "cairn-rest", ("instant-dev",)),
        (0, "geth", both),
        (0, "ganache", both),
        (1, "cairn-rest", both),
        (1, "cairn-rest", ("instant-dev",)),
        (1, "geth", both),
        (2, "geth", ("write",)),
    ]


def test_only_living_processes_are_descendants() -> None:
    assert descendants(2**22 + 1) == []


# What the answers must be.


def test_the_ledger_pays_value_and_fee() -> None:
    tx = sign_transfer(3, 4)
    ledger = Ledger()
    ledger.apply([tx])
    fee = TRANSFER_GAS * GAS_PRICE
    received = tx.value if tx.to == tx.sender else 0
    assert ledger.balance(tx.sender) == BALANCE - tx.value - fee + received
    assert ledger.next_nonce(tx.sender) == 1
    assert ledger.next_nonce(account(0)[0]) == 0


def test_both_apis_read_what_they_asked_for() -> None:
    tx = sign_transfer(1, 4)
    rest, rpc = RestApi(), RpcApi("/rpc")
    fields = tx_fields(tx)
    own = {"txHash": fields["hash"], "status": "confirmed", "fee": 21_000 * GAS_PRICE} | fields
    assert rest.read_tx(msgspec.json.encode(own)) == fields
    assert rest.read_receipt(msgspec.json.encode(own)) == receipt_fields(tx)
    assert rest.read_receipt(msgspec.json.encode(own | {"status": "pending"})) is None
    theirs = fields | {"value": hex(tx.value), "nonce": hex(tx.nonce), "from": str(fields["from"]).upper()}
    assert rpc.read_tx(msgspec.json.encode({"result": theirs})) == {**fields, "from": str(fields["from"]).lower()}
    receipt = {"transactionHash": fields["hash"], "status": "0x1", "gasUsed": "0x5208"}
    receipt["effectiveGasPrice"] = hex(GAS_PRICE)
    assert rpc.read_receipt(msgspec.json.encode({"result": receipt})) == receipt_fields(tx)
    assert rpc.read_receipt(b'{"result":null}') is None
    assert rpc.read_balance(b'{"result":"0x10"}') == 16


def test_an_error_or_a_failed_transfer_is_a_wrong_answer() -> None:
    rpc = RpcApi()
    with pytest.raises(WrongAnswer, match="nonce too low"):
        rpc.read_balance(b'{"error":{"code":-32000,"message":"nonce too low"}}')
    with pytest.raises(WrongAnswer, match="failed"):
        rpc.read_receipt(b'{"result":{"status":"0x0"}}')


def test_a_request_has_the_length_of_its_body() -> None:
    head, _, body = RpcApi("/rpc").call("eth_getBalance", "0x00", "latest").partition(b"\r\n\r\n")
    assert head.startswith(b"POST /rpc HTTP/1.1\r\n")
    assert f"Content-Length: {len(body)}".encode() in head


def test_frames_are_split_wherever_they_are_cut() -> None:
    long = b"x" * 70_000
    received = b"\x81\x02hi" + b"\x89\x00" + b"\x81\x7e\x01\x00" + b"y" * 256
    received += b"\x81\x7f" + len(long).to_bytes(8, "big") + long
    expected = [(1, b"hi"), (9, b""), (1, b"y" * 256), (1, long)]
    assert split_frames(received) == (expected, b"")
    for cut in (1, 3, 5, 7, 9, 200, 270, 300, 70_000):
        frames, left = split_frames(received[:cut])
        more, end = split_frames(left + received[cut:])
        assert (frames + more, end) == (expected, b"")


@pytest.mark.parametrize(
    ("data", "is_one"),
    [
        (b"\x81\x02hi", True),
        (b"\x81\x7e\x01\x00" + b"y" * 256, True),
        (b"\x81\x7e\x01\x00" + b"y" * 255, False),
        (b"\x81\x02hi\x81\x00", False),
        (b"\x89\x02hi", False),
        (b"\x81\x7f" + bytes(8), False),
        (b"", False),
    ],
)
def test_one_whole_text_is_recognised(data: bytes, is_one: bool) -> None:
    assert is_text_frame(data) is is_one


# How it is shown.

FIGURES = {"cairn-rest": 300.0, "cairn-rpc": 80.0, "geth": 100.0, "anvil": 50.0}
SAMPLES = [sample(name, value) for name, value in FIGURES.items()]
LATENCIES = [
    sample(name, value, "post_p99_ms", row="write") for name, value in (("cairn-rest", 30), ("geth", 90), ("anvil", 60))
]


def test_the_table_has_ratios_against_the_best_peer_and_marks_where_we_are_behind() -> None:
    assert "| transaction by hash/s | 300 | 80.0 | 100 | 50.0 | 3.00 | **0.80** |" in table(SAMPLES)


def test_rows_without_any_figure_are_left_out() -> None:
    assert "receipt" not in table(SAMPLES)


def test_where_less_is_better_the_best_is_the_least() -> None:
    assert "| submission answered, p99, ms | 30.0 | 90.0 | 60.0 | 0.50 |" in table(LATENCIES)


def test_bars_are_met_missed_or_not_measured() -> None:
    shown = bars_table([*SAMPLES, *LATENCIES])
    assert "| transaction by hash, Cairn REST, against geth | at least 2 x | 3.00 x | ok |" in shown
    assert "| transaction by hash, Cairn /rpc, against geth | at least 1.5 x | 0.80 x | **MISSED** |" in shown
    assert "| submission answered, p99, Cairn REST, against anvil | at most 0.5 x | 0.50 x | ok |" in shown
    assert "against the best peer | at least 1.8 x | – | not measured |" in shown


def test_a_figure_of_cairn_alone_has_its_bar() -> None:
    [found] = [each for each in verdicts([sample("cairn", 2.5, "light_cpu_ms", row="light")]) if each.is_met]
    assert found.reached == "2.50 ms"


def test_figures_of_a_network_are_shown() -> None:
    shown = network_table([sample("cairn", 2.5, "light_cpu_ms", row="light")])
    assert "| Cairn at 60/s: CPU a transaction, four nodes, ms | 2.50 |" in shown
    assert network_table([]) == "Not measured in this run."


def test_costs_on_deep_chains_are_shown_by_kind() -> None:
    figures = {"GET /tx few": 50.0, "GET /tx many": 60.0, "GET /tx ratio": 1.2, "depth_read_ratio": 1.2}
    assert "| GET /tx | 50.0 | 60.0 | 1.20 |" in depth_table([Sample("cairn", "depth", 0, figures)])


def test_notes_count_what_was_thrown_away_and_name_what_failed() -> None:
    runs = [*SAMPLES, sample("geth", 1, disturbed=True), Sample("hardhat", "sockets", 0, error="no | room")]
    told = notes(runs)
    assert "4 runs count; 1 were disturbed" in told
    assert "1 failed" in told
    assert "- hardhat, sockets: no / room" in told
    unsupported = Sample("hardhat", "mempool", 0, error="200 Method x is not supported")
    assert "- hardhat, mempool: there is no such method" in notes([unsupported])


@pytest.mark.parametrize(
    ("found", "expected", "words"),
    [
        ({"0xa", "0xc"}, {"0xa", "0xb", "0xd"}, "the answer lacks 2 of 3 transactions and has 1 that it should not"),
        ({"hash": "0xa", "fee": 2}, {"hash": "0xa", "fee": 1, "nonce": 0}, "wrong in the answer: fee, nonce"),
        (7, 8, "the answer is 7 instead of 8"),
        (None, {"fee": 1}, "the answer is None instead of {'fee': 1}"),
    ],
)
def test_a_wrong_answer_is_told_in_words(found: object, expected: object, words: str) -> None:
    assert difference(found, expected) == words


def test_the_page_is_whole_and_the_results_can_be_read_again(tmp_path: Path) -> None:
    machine = Machine("a processor", 2, 8.0, "data on ext4", "Linux", "3.11")
    results = Results("2026-01-02", "abc", "make bench-peers", 90, machine, {"geth": "1"}, SAMPLES)
    results.save(tmp_path / "sub" / "benchmarks.json")
    assert msgspec.json.decode((tmp_path / "sub" / "benchmarks.json").read_bytes(), type=Results) == results
    text = page(results)
    assert "$" not in text
    assert "a processor" in text
    assert "transaction by hash" in text


def test_a_later_run_replaces_what_it_has_measured_and_both_are_named() -> None:
    machine = Machine("a processor", 2, 8.0, "data on ext4", "Linux", "3.11")
    before = Results("2026-01-02", "abc", "first", 90, machine, {"geth": "1"}, [sample("geth", 1), sample("anvil", 2)])
    after = Results("2026-01-03", "def", "second", 10, machine, {"anvil": "2"}, [sample("geth", 3)])
    both = added(before, after)
    assert [(each.target, each.figures["tx_per_s"]) for each in both.samples] == [("anvil", 2), ("geth", 3)]
    assert (both.commit, both.command, both.seconds) == ("abc, def", "first; second", 100)
    assert both.versions == {"geth": "1", "anvil": "2"}


def test_the_plot_is_svg_with_a_bar_for_each_figure() -> None:
    drawn = ElementTree.fromstring(plot([*SAMPLES, *LATENCIES]))
    space = "{http://www.w3.org/2000/svg}"
    bars = drawn.findall(f".//{space}rect")
    assert len(bars) == len(SAMPLES) + len(LATENCIES)
    widths = [float(bar.attrib["width"]) for bar in bars if bar.attrib["class"] == "ours"]
    assert max(widths) > 3 * min(widths)


def test_an_empty_plot_is_svg_too() -> None:
    assert ElementTree.fromstring(plot([])).tag.endswith("svg")


def test_every_row_has_a_measurement_that_is_run() -> None:
    assert {row.measurement for row in ROWS} <= set(rounds.ROWS)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ([], "make bench-peers"),
        (["--output", "/tmp/x", "--chains=/y"], "make bench-peers"),
        (["--rounds", "2", "--chains", "/y", "--add"], 'make bench-peers ARGS="--rounds 2 --add"'),
    ],
)
def test_the_command_is_shown_without_directories(arguments: list[str], shown: str) -> None:
    assert command(arguments) == shown


def test_names_are_checked() -> None:
    assert names(["a", "b"], "b,a") == ["a", "b"]
    with pytest.raises(argparse.ArgumentTypeError, match="'c' is none of a, b"):
        names(["a", "b"], "a,c")
