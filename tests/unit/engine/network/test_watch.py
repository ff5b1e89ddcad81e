"""What the watch says of a CometBFT that is away, behind, halted or well."""

import asyncio

from structlog.testing import capture_logs

from cairn.domain.governance import ValidatorRecord
from cairn.domain.types import ZERO_ADDRESS, ZERO_HASH, BlockHeader
from cairn.engine.network.network_log import find_missing
from cairn.engine.network.rpc import NodeStatus, Rpc, RpcAway
from cairn.engine.network.watch import AWAY, EAGER_POLL_INTERVAL_S, FUTILE_STARTS, POLL_INTERVAL_S, CometBftWatch
from tests.support.virtual_time import run_virtual


class ScriptedRpc(Rpc):
    """Answers with what the test says."""

    def __init__(self) -> None:
        super().__init__("unix:///nowhere", 1.0)
        self.catching_up: bool | None = None
        self.voting_power = 0
        self.heights = [7]
        self.peers: int | None = 1
        self.rounds: list[list[str]] | None = None
        self.asked = 0
        self.name = "node1"
        self.public_key = bytes([1]) * 32

    async def status(self) -> NodeStatus:
        self.asked += 1
        if self.catching_up is None:
            raise RpcAway("nobody is there")
        return NodeStatus(self.catching_up, self.voting_power > 0, self.name, self.public_key)

    async def peer_heights(self) -> list[int]:
        return self.heights

    async def peer_names(self) -> dict[str, str]:
        if self.peers is None:
            raise RpcAway("no answer to this")
        return {f"id{each}": f"node{each + 2}" for each in range(self.peers)}

    async def votes(self) -> list[list[str]]:
        if self.rounds is None:
            raise RpcAway("no answer to this")
        return self.rounds


class Scene:
    def __init__(self) -> None:
        self.rpc = ScriptedRpc()
        self.now = 100.0
        self.age_s = 0
        self.validators = [ValidatorRecord(bytes([key]) * 32, 10, ZERO_ADDRESS, f"node{key}") for key in (1, 2)]
        self.watch = CometBftWatch(
            self.rpc, self.head, lambda: self.validators, 15.0, lambda: self.now, lambda: 2e9 + self.now
        )

    def head(self) -> BlockHeader:
        stamped = int(2e9 + self.now) - self.age_s
        return BlockHeader(
            7, ZERO_HASH, stamped, bytes(32), bytes(32), bytes(32), bytes(32), 0, ZERO_ADDRESS, 1337, 210_000_000, 0, 0
        )

    def look(self, catching_up: bool | None) -> str:
        self.rpc.catching_up = catching_up

        async def once() -> None:
            running = asyncio.create_task(self.watch.run())
            await asyncio.sleep(EAGER_POLL_INTERVAL_S / 2)
            running.cancel()

        run_virtual(once())
        return self.watch.condition()


def test_says_whether_cometbft_answers_and_has_caught_up() -> None:
    scene = Scene()
    assert scene.watch.condition() == AWAY == "cometbft is not answering"
    assert scene.look(True) == "catching up, height 7"
    assert scene.look(False) == "ok"
    assert scene.look(None) == AWAY


def test_counts_the_peers_of_a_cometbft_that_answers() -> None:
    scene = Scene()
    assert scene.watch.peers == 0
    scene.rpc.peers = 3
    scene.look(False)
    assert scene.watch.peers == 3
    scene.look(None)
    assert scene.watch.peers == 0
    # They are only for people to see.
    scene.rpc.peers = None
    assert scene.look(False) == "ok"
    assert scene.watch.peers == 0


def test_looks_more_often_while_something_is_wrong() -> None:
    scene = Scene()

    async def looks_of(catching_up: bool | None) -> int:
        scene.rpc.catching_up = catching_up
        await asyncio.sleep(2 * POLL_INTERVAL_S)
        before = scene.rpc.asked
        await asyncio.sleep(10 * POLL_INTERVAL_S)
        return scene.rpc.asked - before

    async def all_three() -> list[int]:
        running = asyncio.create_task(scene.watch.run())
        try:
            return [await looks_of(catching_up) for catching_up in (None, True, False)]
        finally:
            running.cancel()

    away, behind, well = run_virtual(all_three())
    assert (away, behind) == (50, 50)
    assert well == 10


def test_notices_a_halt_and_its_end() -> None:
    scene = Scene()
    assert scene.look(False) == "ok"
    scene.now += 15.0
    assert scene.watch.condition() == "ok"
    scene.now += 1.5
    assert scene.watch.condition() == "no block for 16 s"
    scene.watch.committed()
    assert scene.watch.condition() == "catching up, height 7"
    assert scene.look(False) == "ok"
    scene.watch.committed()
    assert scene.watch.condition() == "ok"


def test_a_halt_names_the_validators_that_do_not_vote_once_and_is_told_to_end() -> None:
    scene = Scene()
    assert scene.look(False) == "ok"
    present, missing = scene.validators
    vote = f"Vote{{0:{present.engine_address.hex().upper()[:12]} 8/00/SIGNED_MSG_TYPE_PREVOTE(Prevote) 2B}}"
    scene.rpc.rounds = [[vote, "nil-Vote"], ["nil-Vote", "nil-Vote"]]
    scene.now += 16.5
    with capture_logs() as lines:
        for _ in range(3):
            scene.age_s = 16
            assert scene.look(False) == f"no block for 16 s, these validators do not vote: {missing.name}"
            assert scene.watch.part_at_fault == "peers"
        scene.watch.committed()
    assert [(line["event"], line.get("missing")) for line in lines] == [
        ("the network makes no blocks", [missing.name]),
        ("the network makes blocks again", None),
    ]


def test_peers_that_come_and_go_are_told_by_name_once() -> None:
    scene = Scene()
    with capture_logs() as lines:
        for peers in (2, 2, 1, 1):
            scene.rpc.peers = peers
            scene.look(False)
    assert [(line["event"], line["peer"]) for line in lines[2:]] == [("a peer is lost", "node3")]
    assert {line["peer"] for line in lines[:2]} == {"node2", "node3"}
    with capture_logs() as lines:
        # That CometBFT itself is away is told elsewhere, and says nothing of its peers.
        scene.look(None)
    assert lines == []


def test_a_validator_that_prevoted_and_ended_is_missing() -> None:
    scene = Scene()
    here, gone = (
        f"Vote{{{index}:{each.engine_address.hex().upper()[:12]} 1/00/" for index, each in enumerate(scene.validators)
    )
    assert find_missing(scene.validators, [[here, gone], [here, "nil-Vote"], ["nil-Vote", "nil-Vote"], []], set()) == [
        "node2"
    ]


def test_without_votes_those_are_missing_that_are_not_connected() -> None:
    scene = Scene()
    assert find_missing(scene.validators, [["nil-Vote"]], {"node1"}) == ["node2"]


def test_catching_up_is_no_halt() -> None:
    scene = Scene()
    scene.now += 60
    assert scene.look(True) == "catching up, height 7"


def test_old_blocks_while_a_peer_has_newer_ones_are_catching_up() -> None:
    """CometBFT may not say so."""
    scene = Scene()
    assert scene.look(False) == "ok"
    for age_s, heights, expected in [
        (16, [7, 7, 10], "catching up, height 7"),
        (16, [7, 7, 9], "ok"),
        (16, [], "ok"),
        (15, [7, 7, 1_000_000], "ok"),
        (16, [7, 7, 1_000_000], "catching up, height 7"),
    ]:
        scene.age_s, scene.rpc.heights = age_s, heights
        assert scene.look(False) == expected


def test_a_node_that_joins_a_young_network_is_behind_while_most_peers_have_more_blocks() -> None:
    """CometBFT says at height 1 that it has caught up, and the block is recent."""
    scene = Scene()
    assert scene.look(True) == "catching up, height 7"
    for heights, expected in [
        ([10, 10, 7], "catching up, height 7"),
        # One of them lies, perhaps.
        ([1_000_000, 7, 7], "ok"),
        # Once ready, it takes part in each block, and does not ask again while they come.
        ([10, 10, 10], "ok"),
    ]:
        scene.rpc.heights = heights
        assert scene.look(False) == expected


def test_strangers_that_lie_about_their_height_cannot_keep_a_node_with_recent_blocks_unready() -> None:
    """An open full node may have no other peers; it has restarted, or its network stood still for a while."""
    scene = Scene()
    scene.rpc.heights = [1_000_000] * 40
    for _ in range(2):
        for _ in range(16):
            assert scene.look(False) == "catching up, height 7"
            scene.now += 1
            scene.watch.committed()
        assert scene.look(False) == "ok"
        # An old block is believed to be behind, and the time starts anew.
        scene.age_s = 16
        assert scene.look(False) == "catching up, height 7"
        scene.age_s = 0


def test_a_node_with_old_blocks_stays_behind_while_most_peers_have_more() -> None:
    scene = Scene()
    scene.rpc.heights, scene.age_s = [1_000, 1_000, 7], 3_600
    for _ in range(100):
        assert scene.look(False) == "catching up, height 7"
        scene.now += 1


def test_a_joining_node_whose_peers_have_not_told_their_height_is_behind_unless_it_is_a_validator() -> None:
    scene = Scene()
    scene.rpc.heights, scene.rpc.peers = [], 0
    assert scene.look(False) == "catching up, height 7, no peer is connected"
    scene.rpc.peers = 2
    assert scene.look(False) == "catching up, height 7"
    scene.rpc.voting_power = 10
    assert scene.look(False) == "ok"


def test_tells_of_a_cometbft_that_never_gets_past_its_handshake() -> None:
    scene = Scene()
    for _ in range(FUTILE_STARTS):
        assert scene.watch.condition() == AWAY
        scene.watch.restarted()
    assert "it ends at its handshake with the chain at height 7" in scene.watch.condition()
    assert scene.look(False) == "ok"
    assert scene.look(None) == AWAY


def test_knows_whether_this_is_a_validator() -> None:
    scene = Scene()
    found = [scene.watch.is_validator]
    for power in (0, 10):
        scene.rpc.voting_power = power
        scene.look(False)
        found.append(scene.watch.is_validator)
    assert found == [True, False, True]


def test_notices_a_validator_whose_key_the_network_does_not_know() -> None:
    scene = Scene()
    scene.rpc.voting_power = 10
    assert scene.look(False) == "ok"
    scene.rpc.voting_power = 0
    # Its key is known, and counts from the next block but one.
    assert scene.look(False) == "ok"
    scene.rpc.public_key = bytes([9]) * 32
    assert "knows the validator 'node1' by another key" in scene.look(False)
    assert scene.look(True) == "catching up, height 7"
    # It was removed, or never was one.
    scene.validators = scene.validators[1:]
    assert scene.look(False) == "ok"
    scene.rpc.name = ""
    scene.validators = [ValidatorRecord(bytes(32), 10, ZERO_ADDRESS)]
    assert scene.look(False) == "ok"
