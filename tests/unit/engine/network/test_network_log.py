"""When a halt is told: at once, again each minute, and when another validator is missing."""

from structlog.testing import capture_logs

from cairn.engine.network.network_log import NetworkLog


def test_a_long_halt_is_told_again_each_minute_and_its_end_once() -> None:
    told = NetworkLog()
    with capture_logs() as lines:
        for for_s in range(15, 140):
            told.halted(7, for_s, ["node1"])
        told.made_block(8, 140)
        told.made_block(9, 1)
    assert [(line["event"], line.get("for_s")) for line in lines] == [
        ("the network makes no blocks", 15),
        ("the network makes no blocks", 75),
        ("the network makes no blocks", 135),
        ("the network makes blocks again", None),
    ]


def test_a_halt_with_other_validators_missing_is_told_at_once() -> None:
    told = NetworkLog()
    with capture_logs() as lines:
        told.halted(7, 15, ["node1"])
        told.halted(7, 16, ["node1", "node2"])
    assert [line["missing"] for line in lines] == [["node1"], ["node1", "node2"]]
