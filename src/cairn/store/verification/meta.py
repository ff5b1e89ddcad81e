"""Checks the family `meta`: every key of it is known, and says what the verified blocks say."""

from cairn.domain.certificates import Step, engine_address, first_validators, members_of, signed_height
from cairn.domain.errors import Corrupt
from cairn.domain.genesis import Genesis, genesis_digest
from cairn.domain.governance import VOTED_BLOCKS, Governance, decode_governance, encode_governance
from cairn.domain.types import BlockHash
from cairn.store import keys
from cairn.store.rocks import Database
from cairn.store.verification.families import Range
from cairn.store.verification.findings import Findings
from cairn.store.verification.replay import Replay

_WITH_HEIGHT = (keys.GOVERNANCE_KEY, keys.ABSENT_KEY, keys.BALANCES_KEY)
_NUMBERS = (keys.BASE_KEY, keys.CLEARED_KEY, keys.RESTORE_KEY, keys.DATA_BLOCK_KEY, keys.PROBE_KEY)


class MetaChecks:
    """What is overwritten with each block is compared only on a node that is stopped: beside one that runs, it may be
    of another block than the rest.
    """

    def __init__(
        self, database: Database, genesis: Genesis, blocks: Range, replay: Replay, steps: list[Step], found: Findings
    ) -> None:
        self._database = database
        self._genesis = genesis
        self._blocks = blocks
        self._replay = replay
        self._signed = {signed_height(step.signed): step for step in steps}
        self._found = found

    def check(self, base: int) -> None:
        """`base` is the oldest height that is kept."""
        entries = dict(self._database.walk(keys.META))
        for key, value in entries.items():
            with self._found.noted(keys.META):
                self._check_entry(key, value)
        with self._found.noted(keys.META):
            self._check_absent(entries)
        if keys.GENESIS_KEY not in entries or keys.HEAD_KEY not in entries or keys.STATE_BLOCK_KEY not in entries:
            self._found.add(keys.META, "the genesis, the head or the newest block that changed the state is missing")
        if not self._blocks.is_running:
            with self._found.noted(keys.META):
                self._check_latest(entries, base)

    def _check_entry(self, key: bytes, value: bytes) -> None:
        if key == keys.GENESIS_KEY:
            if value != genesis_digest(self._genesis):
                raise Corrupt(f"the chain belongs to genesis 0x{value.hex()}")
        elif key == keys.HEAD_KEY:
            self._check_head(keys.decode_head(value))
        elif key == keys.STATE_BLOCK_KEY:
            self._check_state_block(BlockHash(value))
        elif key == keys.GOVERNANCE_KEY:
            _canonical(value)
        elif key in _NUMBERS:
            keys.decode_height(value)
        elif key[:-8] in _WITH_HEIGHT:
            self._check_at(key[:-8], keys.decode_height(key[-8:]), value)
        else:
            raise Corrupt(f"the key 0x{key.hex()} is unknown")

    def _check_head(self, head: keys.StoredHead) -> None:
        stored = self._database.get(keys.HEADERS, keys.encode_height(head.height))
        is_verified = head.height <= self._blocks.last
        if is_verified and (stored is None or keys.decode_stored_hash(stored) != head.hash):
            raise Corrupt(f"the head is block {head.height} with the hash 0x{head.hash.hex()}, which is not stored")

    def _check_state_block(self, block: BlockHash) -> None:
        # It may be below the base, and then it is not known here.
        if len(block) != keys.HASH_SIZE:
            raise Corrupt(f"the newest block that changed the state has a hash of {len(block)} bytes")

    def _check_at(self, kind: bytes, height: int, value: bytes) -> None:
        if height > self._blocks.last and not self._blocks.is_running:
            raise Corrupt(f"{kind.decode()} of block {height}, which is not there")
        if kind == keys.GOVERNANCE_KEY:
            governance = _canonical(value)
            step = self._signed.get(height + 1)
            if step is not None and step.validators != members_of(governance):
                raise Corrupt(f"the validators after block {height} are not those that signed the next ones")
        elif kind == keys.BALANCES_KEY:
            if height < self._blocks.cleared:
                raise Corrupt(f"the balances that block {height} sets are left, and the block is not")
            keys.decode_balances(value)

    def _check_absent(self, entries: dict[bytes, bytes]) -> None:
        """Who did not vote is known from nowhere else: at least they were validators, and no block is left out."""
        records = {key[-8:]: value for key, value in entries.items() if key[:-8] == keys.ABSENT_KEY}
        heights = sorted(map(keys.decode_height, records))
        if not heights:
            return
        if heights[-1] - heights[0] + 1 != len(heights) or len(heights) > VOTED_BLOCKS:
            raise Corrupt(f"the missed votes of the blocks {heights[0]} to {heights[-1]} are not all there")
        if not self._blocks.is_running and heights[-1] != self._blocks.last:
            raise Corrupt(f"the missed votes end at block {heights[-1]}, the chain at {self._blocks.last}")
        # The records of governance begin with that of the oldest block, the votes perhaps before it.
        signed = [first_validators(self._genesis), *(step.validators for step in self._signed.values())]
        members = {engine_address(member.key) for validators in signed for member in validators}
        for key, value in entries.items():
            if key[:-8] == keys.GOVERNANCE_KEY:
                members.update(validator.engine_address for validator in decode_governance(value).validators)
        for height in heights:
            record = records[keys.encode_height(height)]
            absent = [record[at : at + keys.ADDRESS_SIZE] for at in range(0, len(record), keys.ADDRESS_SIZE)]
            if not members.issuperset(absent) or len(set(absent)) != len(absent):
                raise Corrupt(f"block {height}: who did not vote was no validator, or is named twice")

    def _check_latest(self, entries: dict[bytes, bytes], base: int) -> None:
        replay = self._replay
        head = keys.decode_head(entries.get(keys.HEAD_KEY, b""))
        if head.height != self._blocks.last:
            raise Corrupt(f"the head is block {head.height}, and block {self._blocks.last} was the last on disk")
        if replay.height != self._blocks.last:
            # Not all blocks could be executed, and that is told.
            return
        if replay.state_block is not None and entries.get(keys.STATE_BLOCK_KEY) != replay.state_block:
            raise Corrupt("the newest block that changed the state is another one")
        governance = None if replay.governance is None else encode_governance(replay.governance)
        if entries.get(keys.GOVERNANCE_KEY) != governance:
            raise Corrupt("the validators of the head are stored wrong")
        stored = entries.get(keys.DATA_BLOCK_KEY)
        data_block = None if stored is None else keys.decode_height(stored)
        if data_block != replay.data_block and (replay.data_block is not None or (data_block or 0) > replay.start):
            raise Corrupt(f"the newest block with data is {replay.data_block}, and stored as {data_block}")
        stored = entries.get(keys.CLEARED_KEY)
        if stored is not None and keys.decode_height(stored) > base:
            raise Corrupt(f"blocks up to {keys.decode_height(stored)} are removed, though {base} is the oldest one")


def _canonical(value: bytes) -> Governance:
    governance = decode_governance(value)
    if encode_governance(governance) != value:
        raise Corrupt("a record of validators is not in its one canonical form")
    return governance
