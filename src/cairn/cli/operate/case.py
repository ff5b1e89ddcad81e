"""What the checks of `cairn doctor` look at."""

from dataclasses import dataclass
from pathlib import Path

from cairn.cli.node.home import Home
from cairn.cli.operate.machine import Machine
from cairn.cli.operate.settings_review import SettingsReview, engine_home
from cairn.config import Settings
from cairn.running_node import RunningNode


@dataclass(frozen=True, slots=True)
class Case:
    """A home, the machine that it is on, and the node that runs in it, if one does."""

    home: Home
    machine: Machine
    review: SettingsReview
    running: RunningNode | None
    backup_days: int
    """A backup that is older is too old; 0 for a node that is backed up in another way."""

    @property
    def settings(self) -> Settings:
        return self.review.settings

    @property
    def pid(self) -> int | None:
        """The process id of the node, if it runs: its limits may be others than those of this command."""
        return None if self.running is None else self.running.pid

    @property
    def engine_home(self) -> Path:
        return engine_home(self.home, self.settings)

    @property
    def disk_path(self) -> Path:
        """A directory on the disk that the chain is on, or will be."""
        return self.home.data_dir if self.home.data_dir.is_dir() else self.home.directory
