"""The changes of validators up to a snapshot's block: a line of JSON for each, in parts of a snapshot of their own.

A node that starts from the snapshot cannot make them: no CometBFT near it may have those headers any more. It believes
none: each is signed by the validators before it, from genesis on, and the state that the snapshot's block commits to
says how many there are, and who the validators are after them. A header that changes nothing is no step. So a peer can
neither forge one nor leave one out.

It can leave out signatures that are more than enough: nothing here says which ones the others keep. Then the snapshots
that this node takes later prove the same, but have other bytes than those of others, so that a node that starts from
one gets the parts from fewer peers.

Whether the snapshot's own block changed the validators is not among them: the header that says so comes after it.
"""

from collections.abc import Iterator

import msgspec

from cairn.domain.certificates import Step, check_steps, engine_chain_id, first_validators, members_of
from cairn.domain.errors import InvalidProof, InvalidSnapshot
from cairn.domain.genesis import Genesis
from cairn.domain.governance import Governance

LONGEST_STEP_BYTES = 1 << 20
"""More than one has with the most validators."""
LINE_END = b"\n"

_STEP = msgspec.json.Decoder(Step)


def cut_steps(records: Iterator[bytes], part_bytes: int) -> Iterator[bytes]:
    """The parts, each full but the last."""
    held = b""
    for record in records:
        held += record + LINE_END
        while len(held) >= part_bytes:
            yield held[:part_bytes]
            held = held[part_bytes:]
    if held:
        yield held


class RestoredSteps:
    """The steps in a snapshot, checked as they come."""

    def __init__(self, genesis: Genesis, height: int) -> None:
        """`height` is that of the snapshot's block."""
        self._chain_id = engine_chain_id(genesis)
        self._block_height = height
        self._validators = first_validators(genesis)
        self._height = 0
        """Of the header of the last one."""
        self._begun = b""
        """The beginning of a line, whose end comes with the next part."""
        self.records: list[tuple[int, bytes]] = []
        """The height of its header, and the JSON of each."""

    def add(self, part: bytes) -> None:
        """Take in the next part. Raises `InvalidSnapshot`."""
        *lines, self._begun = (self._begun + part).split(LINE_END)
        if len(self._begun) > LONGEST_STEP_BYTES:
            raise InvalidSnapshot(f"a change of validators in the snapshot has more than {LONGEST_STEP_BYTES} bytes")
        for line in lines:
            self._add_step(line)

    def _add_step(self, line: bytes) -> None:
        try:
            step = _STEP.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InvalidSnapshot(f"a change of validators in the snapshot cannot be read: {error}") from None
        # In its one form: this node will pass it on, and every node must have the same bytes.
        if msgspec.json.encode(step) != line:
            raise InvalidSnapshot("a change of validators in the snapshot is not in its one canonical form")
        try:
            validators, height = check_steps([step], self._validators, self._chain_id)
        except InvalidProof as error:
            raise InvalidSnapshot(f"a change of validators in the snapshot is not proven: {error}") from None
        if not self._height < height <= self._block_height:
            raise InvalidSnapshot(f"the header {height} of a change of validators is not in its place in the snapshot")
        self._validators, self._height = validators, height
        self.records.append((height, line))

    def finish(self, governance: Governance | None) -> None:
        """Check that none is missing before this governance, which the block commits to. Raises `InvalidSnapshot`.

        A chain whose node makes its blocks alone has none: there, who signed the snapshot's block tells.
        """
        if self._begun:
            raise InvalidSnapshot("the changes of validators in the snapshot end in the middle of one")
        if governance is None:
            return
        is_in_block = governance.set_changes > 0 and governance.set_changed_at == self._block_height
        expected = governance.set_changes - is_in_block
        if len(self.records) != expected:
            raise InvalidSnapshot(
                f"the snapshot has {len(self.records)} changes of validators; up to its block there were {expected}"
            )
        if not is_in_block and self._validators != members_of(governance):
            raise InvalidSnapshot("the changes of validators in the snapshot do not lead to those of its block")
