"""`make mutants`: what it makes of mutmut's list."""

from tools.mutants import percent_killed, read_results, report

LISTED = """    cairn.domain.rlp.x_encode_uint__mutmut_1: killed
    cairn.domain.rlp.x_encode_uint__mutmut_2: survived
    cairn.domain.rlp.x_encode_uint__mutmut_3: timeout
    cairn.domain.rlp.x_encode_uint__mutmut_4: no tests
    cairn.domain.codec.x_decode__mutmut_1: not checked
    cairn.mempool.pool.xǁPoolǁadd__mutmut_1: killed
"""


def test_a_mutant_that_was_never_tried_is_left_out_and_one_that_runs_without_end_is_killed() -> None:
    parts = read_results(LISTED)
    assert {part: percent_killed(statuses) for part, statuses in parts.items()} == {
        "cairn.domain": 50.0,
        "cairn.mempool": 100.0,
    }


def test_the_report_has_the_share_of_each_part_and_names_what_is_not_killed() -> None:
    text = report(read_results(LISTED), "make mutants")
    assert "| cairn.domain | 4 | 2 | 1 | 1 | 50.0 |\n| cairn.mempool | 1 | 1 | 0 | 0 | 100.0 |\n" in text
    assert "- `cairn.domain.rlp.x_encode_uint__mutmut_2`: survived\n" in text
    assert "- `cairn.domain.rlp.x_encode_uint__mutmut_4`: no tests\n" in text
    assert "mutmut_1`" not in text
