"""What the chain must be: a second, small implementation of its rules that shares no code with the node.

It knows every transfer that the simulator ever signed by its bytes, so it needs no codec; it reads bundles by itself.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

GAS = 21_000
"""Of a transfer without data."""
BUMP_PERCENT = 10
BUNDLE = 0x82
BUNDLE_SIZES = range(2, 513)


class Transfer(NamedTuple):
    hash: bytes
    raw: bytes
    sender: bytes
    to: bytes
    nonce: int
    gas: int
    fee_cap: int
    tip_cap: int
    """A transfer of type 0 or 1 has its gas price for both."""
    value: int
    data: bytes = b""

    @property
    def gas_used(self) -> int:
        return GAS + sum(16 if byte else 4 for byte in self.data)

    def price(self, base_fee: int) -> int:
        """What it pays for a unit of gas, whatever its type."""
        tip = min(self.tip_cap, self.fee_cap - base_fee)
        return base_fee + tip

    def debit(self, base_fee: int) -> int:
        """What its sender pays in a block."""
        return self.value + self.gas_used * self.price(base_fee)

    def cost(self) -> int:
        """What its sender must own for a node to accept it."""
        return self.value + self.gas * self.fee_cap

    def may_replace(self, old: "Transfer") -> bool:
        """Whether it offers enough more, of both, to take the place of `old`."""
        caps = ((self.fee_cap, old.fee_cap), (self.tip_cap, old.tip_cap))
        return all(offered > before and 100 * offered >= (100 + BUMP_PERCENT) * before for offered, before in caps)


class Update(NamedTuple):
    """A validator update, as it was signed."""

    raw: bytes
    sequence: int
    public_key: bytes
    power: int
    fee_recipient: bytes
    signers: tuple[bytes, ...]
    name: str
    before: tuple[int, int, int, int]
    """What it says of the validators before it: power of its key, of all, their number, others of its name."""


class AdminsUpdate(NamedTuple):
    """A change of the administrators, as it was signed."""

    raw: bytes
    sequence: int
    admins: "Admins"
    before: "Admins"
    signers: tuple[bytes, ...]


class Admins(NamedTuple):
    threshold: int
    addresses: tuple[bytes, ...]


class Evidence(NamedTuple):
    kind: int
    engine_address: bytes
    height: int


class Rules(NamedTuple):
    price: int
    block_gas: int
    most_data: int

    def allow(self, transfer: Transfer) -> bool:
        """Whether a block can hold it at all, whoever owns what."""
        return (
            transfer.gas_used <= transfer.gas <= self.block_gas
            and transfer.fee_cap >= self.price
            and len(transfer.data) <= self.most_data
        )


class Refused(Exception):
    """What breaks a rule."""


@dataclass(frozen=True)
class State:
    """As one block left it."""

    balances: Mapping[bytes, int]
    nonces: Mapping[bytes, int]
    sequence: int = 0
    validators: Mapping[bytes, tuple[int, bytes]] = field(default_factory=dict)
    """Power and fee recipient by public key."""
    names: Mapping[bytes, str] = field(default_factory=dict)
    admins: Admins | None = None
    evidence: tuple[Evidence, ...] = ()
    """All that there ever was."""

    def account(self, address: bytes) -> tuple[int, int]:
        return self.balances.get(address, 0), self.nonces.get(address, 0)


class Block(NamedTuple):
    transfers: tuple[Transfer, ...]
    proposer: bytes
    changes_state: bool
    refused: int
    """How much of what was decided breaks a rule and counts for nothing."""


class Ledger:
    """The chain's rules over all that was ever signed."""

    def __init__(self, rules: Rules, genesis: State) -> None:
        self.rules = rules
        self.transfers: dict[bytes, Transfer] = {}
        self.updates: dict[bytes, Update | AdminsUpdate] = {}
        self.states = [genesis]
        self.blocks: list[Block] = [Block((), bytes(20), True, 0)]
        self.confirmed: dict[bytes, int] = {}
        """The height of each confirmed transfer, by its hash."""
        self.total = sum(genesis.balances.values())

    @property
    def head(self) -> State:
        return self.states[-1]

    @property
    def height(self) -> int:
        return len(self.states) - 1

    def know(self, transfer: Transfer) -> None:
        self.transfers[transfer.raw] = transfer

    def judge(self, raws: Sequence[bytes]) -> bool:
        """Whether an honest validator must find a proposal of these good."""
        return self._apply(raws, b"")[1].refused == 0

    def decide(self, raws: Sequence[bytes], proposer: bytes, evidence: Sequence[Evidence] = ()) -> Block:
        """Move on by a block of whatever was decided; `proposer` is who gets the fees."""
        state, block = self._apply(raws, proposer)
        if evidence:
            state = replace(state, evidence=(*state.evidence, *evidence))
            block = block._replace(changes_state=True)
        assert sum(state.balances.values()) == self.total, "the model itself makes or loses money"
        self.states.append(state)
        self.blocks.append(block)
        for transfer in block.transfers:
            assert transfer.hash not in self.confirmed, "the model itself confirms a transfer twice"
            self.confirmed[transfer.hash] = self.height
        return block

    def set_balance(self, address: bytes, balance: int, proposer: bytes) -> None:
        """A block of a dev chain that makes or takes money."""
        before = self.head
        self.states.append(State({**before.balances, address: balance}, before.nonces))
        self.blocks.append(Block((), proposer, True, 0))
        self.total = sum(self.head.balances.values())

    def take_back(self, height: int) -> None:
        """A dev chain went back to this block."""
        del self.states[height + 1 :], self.blocks[height + 1 :]
        self.confirmed = {tx_hash: found for tx_hash, found in self.confirmed.items() if found <= height}
        self.total = sum(self.head.balances.values())

    def _apply(self, raws: Sequence[bytes], proposer: bytes) -> tuple[State, Block]:
        made = _Making(self.head, self.rules)
        update: Update | AdminsUpdate | None = None
        refused = 0
        for raw in raws:
            try:
                if raw in self.updates:
                    if update is not None:
                        raise Refused
                    self.check_update(self.updates[raw])
                    update = self.updates[raw]
                    continue
                opened = self._open(raw)
            except Refused:
                refused += 1
                continue
            for transfer in opened:
                refused += not made.take(transfer)
        state = made.state(proposer, update)
        return state, Block(tuple(made.taken), proposer, bool(made.taken) or update is not None, refused)

    def _open(self, raw: bytes) -> Iterable[Transfer]:
        if raw[:1] != bytes((BUNDLE,)):
            return (self._transfer(raw),)
        inner, at = [], 1
        while at < len(raw):
            size = int.from_bytes(raw[at : at + 2], "big")
            inner.append(raw[at + 2 : at + 2 + size])
            at += 2 + size
        if at != len(raw) or len(inner) not in BUNDLE_SIZES or len(set(inner)) != len(inner):
            raise Refused
        return [self._transfer(one) for one in inner]

    def _transfer(self, raw: bytes) -> Transfer:
        if raw not in self.transfers:
            raise Refused
        return self.transfers[raw]

    def check_update(self, update: Update | AdminsUpdate) -> None:
        """Check an update by the rules of the head. Raises `Refused`."""
        head = self.head
        if (
            head.admins is None
            or update.sequence != head.sequence
            or len(set(update.signers)) != len(update.signers)
            or not set(head.admins.addresses).issuperset(update.signers)
            or len(update.signers) < head.admins.threshold
        ):
            raise Refused
        if isinstance(update, AdminsUpdate):
            if update.before != head.admins or update.admins == head.admins:
                raise Refused
            return
        others = {key for key in head.validators if key != update.public_key}
        if (
            (update.power == 0 and (update.public_key not in head.validators or not others))
            or head.names.get(update.public_key, update.name) != update.name
            or update.before != self.before(update.public_key, update.name)
        ):
            raise Refused

    def before(self, public_key: bytes, name: str) -> tuple[int, int, int, int]:
        """What a true update of this validator says of those before it."""
        validators = self.head.validators
        power = validators.get(public_key, (0, b""))[0]
        total = sum(each for each, _ in validators.values())
        namesakes = sum(self.head.names[key] == name for key in validators if key != public_key)
        return power, total, len(validators), namesakes


class _Making:
    """A block in the making."""

    def __init__(self, before: State, rules: Rules) -> None:
        self._before = before
        self._rules = rules
        self._balances = dict(before.balances)
        self._nonces = dict(before.nonces)
        self._fees = 0
        self._gas_used = 0
        self.taken: list[Transfer] = []

    def take(self, transfer: Transfer) -> bool:
        rules, sender = self._rules, transfer.sender
        if (
            self._gas_used + transfer.gas_used > rules.block_gas
            or not rules.allow(transfer)
            or transfer.nonce != self._nonces.get(sender, 0)
            or transfer.debit(rules.price) > self._balances.get(sender, 0)
        ):
            return False
        self._balances[sender] = self._balances.get(sender, 0) - transfer.debit(rules.price)
        self._balances[transfer.to] = self._balances.get(transfer.to, 0) + transfer.value
        self._nonces[sender] = transfer.nonce + 1
        self._fees += transfer.gas_used * transfer.price(rules.price)
        self._gas_used += transfer.gas_used
        self.taken.append(transfer)
        return True

    def state(self, proposer: bytes, update: Update | AdminsUpdate | None) -> State:
        if self._fees:
            self._balances[proposer] = self._balances.get(proposer, 0) + self._fees
        after = replace(self._before, balances=self._balances, nonces=self._nonces)
        if update is None:
            return after
        if isinstance(update, AdminsUpdate):
            return replace(after, sequence=after.sequence + 1, admins=update.admins)
        validators = {key: value for key, value in after.validators.items() if key != update.public_key}
        names = {key: value for key, value in after.names.items() if key != update.public_key}
        if update.power:
            validators[update.public_key] = (update.power, update.fee_recipient)
            names[update.public_key] = update.name
        return replace(after, sequence=after.sequence + 1, validators=validators, names=names)
