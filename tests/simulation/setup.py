"""What a run starts from, drawn from its seed: the chain's rules, its money, its nodes and their settings."""

import random
from collections import Counter
from dataclasses import dataclass, field
from functools import cache

from cairn.config import Settings
from cairn.domain.crypto import address_of_key
from cairn.domain.genesis import DEV_KEYS, DEV_SIGNER, Genesis, chain_identity, dev_genesis
from cairn.domain.governance import Admins, ChainIdentity, ValidatorRecord
from cairn.domain.types import MAX_DATA_BYTES, Address
from tests.simulation import ledger
from tests.simulation.ledger import GAS, Rules, State
from tests.support import commits

CHAIN_ID = 77
ADMIN_COUNT = 3
FLUSH_RATES = (0.0, 0.02, 0.1, 0.4)


@dataclass(frozen=True)
class Setup:
    genesis: Genesis
    settings: tuple[Settings, ...]
    """One for each node; the first keeps all blocks."""
    keys: dict[Address, bytes]
    """The accounts that clients pay from."""
    strangers: tuple[Address, ...]
    admin_keys: tuple[bytes, ...]
    max_tx_bytes: int
    comet_mempool_size: int
    journal_segment_bytes: int
    journal_segments: int
    liars: frozenset[int]
    """Nodes whose validators may propose anything; less than a third, unless the network is captured."""
    is_captured: bool
    """Liars decide what they like: the honest nodes must still agree on what it comes to."""
    fault_rate: float
    is_small_pool: bool
    workers: frozenset[int]
    """Nodes that have a worker, with a client that follows."""
    is_dev: bool = False
    flush_rate: float = 0.0
    """How often RocksDB's memtables are full."""

    @property
    def rules(self) -> Rules:
        return Rules(self.genesis.gas_price, self.genesis.block_gas_limit, self.genesis.max_data_bytes)

    @property
    def identity(self) -> ChainIdentity:
        return chain_identity(self.genesis)

    @property
    def state(self) -> State:
        validators = {each.public_key: (each.power, bytes(each.fee_recipient)) for each in self.genesis.validators}
        names = {each.public_key: each.name for each in self.genesis.validators}
        admins = self.genesis.admins
        held = None if admins is None else ledger.Admins(admins.threshold, tuple(map(bytes, admins.addresses)))
        balances = {bytes(key): value for key, value in self.genesis.alloc.items() if value}
        return State(balances, {}, 0, validators, names, held)


def key_of(number: int) -> bytes:
    return (number + 1).to_bytes(32, "big")


@cache
def public_key(node: int) -> bytes:
    return commits.key_of(node)


def draw_network(rng: random.Random) -> Setup:
    keys = {address_of_key(key_of(number)): key_of(number) for number in range(rng.randint(2, 8))}
    admin_keys = tuple(key_of(100 + number) for number in range(ADMIN_COUNT))
    people = list(keys)
    strangers = tuple(address_of_key(key_of(200 + number)) for number in range(4)) + (Address(bytes(20)),)
    count = rng.choice((2, 3, 3, 4, 4, 5))
    price = rng.choice((0, 0, 1, 10**9))
    limit = GAS * rng.choice((1, 2, 5, 100, 10_000))
    genesis = Genesis(
        chain_id=CHAIN_ID,
        timestamp=rng.choice((0, 1_700_000_000)),
        gas_price=price,
        block_gas_limit=limit + rng.choice((0, 1, GAS - 1)),
        alloc=_alloc(rng, people, strangers, price),
        validators=tuple(_validator(rng, number, people, strangers) for number in range(count - rng.choice((0, 0, 1)))),
        admins=rng.choice((None, _admins(rng, admin_keys), _admins(rng, admin_keys))),
        max_data_bytes=_most_data(limit, price, people),
    )
    small = rng.random() < 0.25
    common = {"mempool_size": rng.choice((3, 10, 40)), "mempool_per_sender": rng.choice((2, 5, 40))} if small else {}
    captured = rng.random() < 0.1
    return Setup(
        genesis=genesis,
        settings=tuple(_settings(rng, number, common) for number in range(count)),
        keys=keys,
        strangers=strangers,
        admin_keys=admin_keys,
        # The longest transfer must fit: it would never be mined.
        max_tx_bytes=rng.choice((600, 1_000, 20_000, 1_000_000)),
        comet_mempool_size=rng.choice((5, 100, 5_000)),
        journal_segment_bytes=rng.choice((4_096, 4_096, 16_384)),
        journal_segments=rng.choice((3, 3, 8)),
        liars=frozenset(rng.sample(range(count), max(1, (count - 1) // 3))),
        is_captured=captured,
        fault_rate=rng.choice((0.0, 0.3, 1.0, 2.0)),
        is_small_pool=small,
        workers=frozenset(number for number in range(count) if rng.random() < 0.2),
        flush_rate=rng.choice(FLUSH_RATES),
    )


def draw_embedded(rng: random.Random) -> Setup:
    """One node that makes its blocks alone; on a dev chain it can be told to go back."""
    is_dev = rng.random() < 0.6
    keys = dict(DEV_KEYS) if is_dev else {address_of_key(key_of(n)): key_of(n) for n in range(rng.randint(2, 8))}
    strangers = tuple(address_of_key(key_of(200 + number)) for number in range(4)) + (Address(bytes(20)),)
    price = rng.choice((0, 0, 1, 10**9))
    limit = GAS * rng.choice((1, 2, 5, 100)) + rng.choice((0, 1, GAS - 1))
    alloc = _alloc(rng, list(keys), strangers, price)
    small = rng.random() < 0.25
    common = {"mempool_size": rng.choice((3, 10, 40)), "mempool_per_sender": rng.choice((2, 5, 40))} if small else {}
    block_time_s, empty_blocks = rng.choice((0.0, 0.3, 5.0)), rng.random() < 0.3
    settings = Settings(
        # An outage lasts for hours, and each of their blocks would be made.
        block_time_s=5.0 if empty_blocks else block_time_s,
        empty_blocks=empty_blocks,
        proposer=rng.choice([*keys, *strangers]),
        # Of its own dice: a seed that was kept draws the rest as it did before.
        retain_blocks=random.Random(repr((limit, alloc))).choice((0, 0, 1, 2, 3, 8)),
        **common,  # type: ignore[arg-type]
    )
    return Setup(
        genesis=dev_genesis()
        if is_dev
        else Genesis(
            CHAIN_ID, 0, price, limit, alloc, signer=DEV_SIGNER, max_data_bytes=_most_data(limit, price, list(keys))
        ),
        settings=(settings,),
        keys=keys,
        strangers=strangers,
        admin_keys=(),
        max_tx_bytes=0,
        comet_mempool_size=0,
        journal_segment_bytes=rng.choice((4_096, 4_096, 16_384)),
        journal_segments=rng.choice((3, 3, 8)),
        liars=frozenset(),
        is_captured=False,
        fault_rate=rng.choice((0.0, 0.5, 2.0, 4.0)),
        is_small_pool=small,
        workers=frozenset((0,)) if rng.random() < 0.5 else frozenset(),
        is_dev=is_dev,
        flush_rate=rng.choice(FLUSH_RATES),
    )


def _most_data(limit: int, price: int, people: list[Address]) -> int:
    """How much data a transfer may carry. Its own dice: a seed that was kept draws the rest as it did before."""
    return random.Random(f"{limit}/{price}/{len(people)}/data").choice((MAX_DATA_BYTES, MAX_DATA_BYTES, 32, 0))


def _alloc(rng: random.Random, people: list[Address], strangers: tuple[Address, ...], price: int) -> dict[Address, int]:
    rich = max(1, price) * GAS * 10_000
    poor = price * GAS * 3 + 5
    is_poor = rng.random() < 0.25
    alloc = {address: rng.choice((0, poor, poor)) if is_poor else rich for address in people}
    # Money from genesis that no transfer moved: whoever gets fees may have no other version of it.
    for address in strangers:
        if rng.random() < 0.5:
            alloc[address] = rng.choice((1, poor, rich))
    alloc[people[0]] = alloc[people[0]] or poor
    return alloc


def _validator(rng: random.Random, node: int, people: list[Address], strangers: tuple[Address, ...]) -> ValidatorRecord:
    return ValidatorRecord(
        public_key(node), rng.choice((10, 10, 10, 1, 25)), rng.choice([*people, *strangers]), f"v{node}"
    )


def _admins(rng: random.Random, keys: tuple[bytes, ...]) -> Admins:
    return Admins(rng.randint(1, len(keys)), tuple(map(address_of_key, keys)))


def _settings(rng: random.Random, number: int, common: dict[str, int]) -> Settings:
    return Settings(
        engine="cometbft",
        cometbft_rpc=f"/simulated/{number}",
        snapshot_interval=rng.choice((0, 1, 2, 5)),
        retain_blocks=0 if number == 0 else rng.choice((0, 1, 2, 3, 8)),
        **common,  # type: ignore[arg-type]
    )


@dataclass
class Tally:
    """How much of what has been met, for the report of a run."""

    steps: Counter[str] = field(default_factory=Counter)
    """How often each step was drawn."""
    met: Counter[str] = field(default_factory=Counter)
    """What came of them."""

    def count(self, what: str, number: int = 1) -> None:
        self.met[what] += number

    def add(self, other: "Tally") -> None:
        self.steps.update(other.steps)
        self.met.update(other.met)
