"""A machine on which everything is in order, whatever the one that runs the tests is like."""

from pathlib import Path

from cairn.cli.operate.machine import Machine, Space
from cairn.processors import CGROUPS

PLENTY = 1 << 40


class SoundMachine(Machine):
    """Tests plant a fault by replacing one of its answers."""

    def clock_is_kept(self) -> bool | None:
        return True

    def space(self, path: Path) -> Space:
        return Space(PLENTY, PLENTY, is_read_only=super().space(path).is_read_only)

    def sync_seconds(self, directory: Path) -> float:
        super().sync_seconds(directory)
        return 0.001

    def hard_limit(self, kind: int, pid: int | None) -> int | None:
        return None

    def memory_bytes(self, pid: int | None, cgroups: Path = CGROUPS) -> int | None:
        return PLENTY
