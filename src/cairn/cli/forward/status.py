"""What a running `cairn forward` says about itself."""

from pathlib import Path
from typing import Literal

import msgspec

from cairn.cli.screen import when


class Status(msgspec.Struct, rename="camel"):
    """Times are Unix times in seconds."""

    state: Literal["following", "retrying", "stopped"]
    to: str
    node: str
    chain_id: int
    block_height: int
    """Everything up to this block is delivered, or given up."""
    head_height: int
    lag: int = 0
    """How many blocks of the node are not delivered."""
    delivered: int = 0
    """Since the start of the process."""
    dead_letters: int = 0
    """How many are in the file: of what is up to the height, these were given up."""
    last_delivery_at: int | None = None
    webhook_id: str | None = None
    """The one that is retried."""
    attempts: int = 0
    """To deliver that one."""
    next_attempt_at: int | None = None
    last_error: str | None = None
    last_error_at: int | None = None
    node_error: str | None = None
    """Why the node does not answer; None if it does."""
    updated_at: int = 0
    process_id: int = 0

    def lines(self, dead_letters_file: Path) -> list[tuple[str, str]]:
        """What people want to know, each with its name."""
        except_those = f", except {self.dead_letters} given up" if self.dead_letters else ""
        lines = [
            ("state", f"{self.state}, {when(self.updated_at)}"),
            ("from", f"{self.node}, chain {self.chain_id}"),
            ("to", self.to),
            ("delivered", f"up to block {self.block_height} of {self.head_height}{except_those}"),
        ]
        if self.webhook_id is not None:
            lines.append(("retrying", f"{self.webhook_id}, after {self.attempts} attempts"))
        if self.last_error is not None and self.last_error_at is not None:
            lines.append(("last error", f"{self.last_error}, {when(self.last_error_at)}"))
        if self.node_error is not None:
            lines.append(("node", self.node_error))
        if self.dead_letters:
            lines.append(("given up", f"{self.dead_letters}, in {dead_letters_file}"))
        return lines
