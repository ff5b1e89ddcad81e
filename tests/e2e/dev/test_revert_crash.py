"""Kill the core, or the whole node, at exact points of a revert: the chain is the old one or the reverted one."""

import sys
from contextlib import closing, suppress
from http.client import HTTPException
from pathlib import Path

from cairn.domain.genesis import dev_genesis
from cairn.store.chain import ChainStore
from tests.support import altered_dev
from tests.support.altered_dev import CRASH_POINTS
from tests.support.audit import audit
from tests.support.node_process import NodeProcess, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.public import PublicNode
from tests.support.rpc import RpcRefused, rpc
from tests.support.wallet import dev_account, new_account, sign_transfer

UNDECIDED, *DECIDED = CRASH_POINTS


class Rig:
    """A dev chain in a directory, run by a program that crashes."""

    def __init__(self, victim: str, directory: Path) -> None:
        self.reached = directory / "reached"
        self.reached.mkdir()
        self.data_dir = directory / "data"
        self._program = (sys.executable, altered_dev.__file__, victim, str(self.reached))

    def start(self) -> NodeProcess:
        args = ("dev", "--port", "0", "--workers", "1", "--block-time", "0", "--data-dir", str(self.data_dir))
        return NodeProcess(args, program=self._program)

    def revert(self, node: NodeProcess, snapshot: str, point: str) -> None:
        """Ask for it until the crash at `point`; no answer comes from a core that is killed meanwhile.

        A worker that has not heard of the end of the core before it refuses.
        """

        def is_reached() -> bool:
            with suppress(RpcRefused, OSError, HTTPException):
                rpc(node.url, "evm_revert", snapshot)
            return (self.reached / point).exists()

        wait_until(is_reached, PATIENCE_S, f"the crash at {point}")

    def await_point(self, point: str) -> None:
        wait_until((self.reached / point).exists, PATIENCE_S, f"the crash at {point}")


class Scene:
    """A snapshot of a chain with one transaction pending, and a chain that went on from there."""

    def __init__(self, node: NodeProcess) -> None:
        with closing(PublicNode(node.url)) as public:
            self._play(public)

    def _play(self, public: PublicNode) -> None:
        rich, self.stranger = dev_account(0), new_account().address
        confirmed = public.read(f"/account/{rich.address}")["nonce"]
        # It waits for the nonce before it, so that no block takes it.
        self.waiting = sign_transfer(rich, self.stranger, 5, confirmed + 1).tx_hash
        public.submit(sign_transfer(rich, self.stranger, 5, confirmed + 1))
        self.height = public.read("/chain")["head"]["blockHeight"]
        self.snapshot = rpc(public.url, "evm_snapshot")
        sent = public.submit(sign_transfer(rich, self.stranger, 7, confirmed))
        self.later = public.await_confirmed(sent)["txHash"]
        public.await_confirmed(self.waiting)

    def check(self, node: NodeProcess, reverted: bool) -> None:
        with closing(PublicNode(node.url)) as public:
            self._check(public, reverted)

    def _check(self, public: PublicNode, reverted: bool) -> None:
        waiting = public.read(f"/tx/{self.waiting}")
        if reverted:
            assert public.read("/chain")["head"]["blockHeight"] == self.height
            assert public.get(f"/tx/{self.later}").json()["code"] == "TX_NOT_FOUND"
            assert waiting["status"] == "pending"
            assert public.balance(self.stranger) == 0
            assert rpc(public.url, "evm_revert", self.snapshot) is False
        else:
            assert public.read("/chain")["head"]["blockHeight"] > self.height
            assert public.read(f"/tx/{self.later}")["status"] == waiting["status"] == "confirmed"
            assert public.balance(self.stranger) == 12


def audit_directory(data_dir: Path) -> None:
    chain = ChainStore.open(data_dir, dev_genesis())
    audit(chain)
    chain.close()


def test_the_core_killed_at_every_point(disk_path: Path) -> None:
    rig = Rig("core", disk_path)
    with rig.start() as node:
        node.wait_ready()
        scene = Scene(node)
        rig.revert(node, scene.snapshot, UNDECIDED)
        node.wait_ready()
        scene.check(node, reverted=False)
        rig.revert(node, scene.snapshot, DECIDED[0])
        # Each life of the core is killed one point further; the supervisor starts the next.
        for point in DECIDED:
            rig.await_point(point)
        node.wait_ready()
        scene.check(node, reverted=True)
        assert node.stop() == 0
    audit_directory(rig.data_dir)


def test_the_whole_node_killed_at_every_point(disk_path: Path) -> None:
    rig = Rig("node", disk_path)
    with rig.start() as node:
        node.wait_ready()
        scene = Scene(node)
        rig.revert(node, scene.snapshot, UNDECIDED)
        node.wait_exit()
    with rig.start() as node:
        node.wait_ready()
        scene.check(node, reverted=False)
        rig.revert(node, scene.snapshot, DECIDED[0])
        node.wait_exit()
    for point in DECIDED[1:]:
        with rig.start() as node:
            node.wait_exit()
            assert (rig.reached / point).exists()
    with rig.start() as node:
        node.wait_ready()
        scene.check(node, reverted=True)
        assert node.stop() == 0
    audit_directory(rig.data_dir)
