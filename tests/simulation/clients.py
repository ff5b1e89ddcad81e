"""Clients: they sign, submit to any node, send again, replace, leave gaps, ask for too much, and note every answer."""

import random
from dataclasses import dataclass, field

from cairn.core.gateway import Admission
from cairn.domain.errors import MempoolFull, NodeError, Rejected, Unavailable
from cairn.domain.transactions import decode_tx, encode_tx, sign_draft
from cairn.domain.types import ACCESS_LIST, DYNAMIC_FEE, LEGACY, MAX_DATA_BYTES, Address, Draft, Tx
from tests.simulation.ledger import GAS, Ledger, Transfer
from tests.simulation.node import Node, Violation
from tests.simulation.setup import Setup, Tally, public_key


@dataclass
class Promise:
    """A node has answered 200 for it."""

    tx: Tx
    node: Node
    life: int
    left: str = ""
    """Why the node no longer holds it, though another may still confirm it."""
    judged: set[str] = field(default_factory=set)
    """Reasons that were right once: of what a peer sent again a crash leaves what was before."""


@dataclass
class Clients:
    setup: Setup
    ledger: Ledger
    tally: Tally
    promises: dict[tuple[int, bytes], Promise] = field(default_factory=dict)
    """Those whose end nobody has seen yet, by node and hash."""
    signed: list[Tx] = field(default_factory=list)
    transfers: dict[bytes, Transfer] = field(default_factory=dict)
    """The same by their hashes, as the ledger knows them: what they pay is not taken from the node's code."""
    next_nonce: dict[Address, int] = field(default_factory=dict)
    dropped: dict[bytes, str] = field(default_factory=dict)
    """Who told it of which transfer, by event or to a reader."""
    _late: set[bytes] = field(default_factory=set)
    """Sent to a lone node through a worker: they may reach it after it has told that it dropped them."""
    _checked: dict[int, int] = field(default_factory=dict)
    """Up to which height each node was looked at."""

    def draw_tx(self, rng: random.Random) -> Tx:
        """A transfer of some kind; most are such that they can be mined."""
        kind = rng.random()
        if self.signed and kind < 0.08:
            return rng.choice(self.signed[-50:])
        if self.signed and kind < 0.16:
            return self._replacement(rng, rng.choice(self.signed[-20:]))
        sender = rng.choice(list(self.setup.keys))
        confirmed = self.ledger.head.nonces.get(sender, 0)
        nonce = max(confirmed, self.next_nonce.get(sender, 0))
        if kind < 0.22:
            nonce += rng.choice((1, 2, 64, 65))
        elif kind < 0.25:
            nonce = confirmed
        elif kind < 0.27:
            nonce = max(0, confirmed - 1)
        else:
            self.next_nonce[sender] = nonce + 1
        return self._sign(rng, sender, nonce, self._price(rng))

    def give_up(self, tx: Tx) -> None:
        """It was refused: the sender takes its nonce for another one."""
        self.next_nonce[tx.sender] = min(self.next_nonce.get(tx.sender, 0), tx.nonce)

    def _price(self, rng: random.Random) -> int:
        price = self.setup.genesis.gas_price
        return rng.choice((price, price, price, price + 1, 2 * price + 3, max(0, price - 1)))

    def _replacement(self, rng: random.Random, old: Tx) -> Tx:
        price = self._pays(old) * rng.choice((100, 105, 110, 120)) // 100 + rng.choice((0, 1))
        return self._sign(rng, old.sender, old.nonce, price)

    def _sign(self, rng: random.Random, sender: Address, nonce: int, price: int) -> Tx:
        keys, genesis = self.setup.keys, self.setup.genesis
        balance = self.ledger.head.balances.get(sender, 0)
        to = rng.choice([*keys, *self.setup.strangers, sender])
        data = _draw_data(rng, genesis.max_data_bytes)
        used = GAS + sum(16 if byte else 4 for byte in data)
        value = rng.choice((0, 1, 1, 5, balance // 3, max(0, balance - used * price), balance + 1))
        gas = (
            used if rng.random() < 0.9 else rng.choice((used - 1, genesis.block_gas_limit, genesis.block_gas_limit + 1))
        )
        kind, max_fee, max_tip = _draw_terms(rng, price, genesis.gas_price)
        caps = (max_fee, max_tip) if kind == DYNAMIC_FEE else (0, 0)
        draft = Draft(sender, to, value, gas, price, nonce, kind, *caps, data)
        raw = encode_tx(sign_draft(draft, keys[sender], genesis.chain_id), genesis.chain_id)
        # As the node reads it, with the price that it makes of the bytes.
        tx = decode_tx(raw, genesis.chain_id, genesis.gas_price)
        self.signed.append(tx)
        transfer = Transfer(tx.hash, raw, sender, to, nonce, gas, max_fee, max_tip, value, data)
        self.transfers[tx.hash] = transfer
        self.ledger.know(transfer)
        return tx

    def _pays(self, tx: Tx) -> int:
        return self.transfers[tx.hash].price(self.ledger.rules.price)

    def _cost(self, tx: Tx) -> int:
        return self.transfers[tx.hash].cost()

    # Submitting.

    def submit(self, node: Node, tx: Tx) -> None:
        if node.settings.engine == "embedded":
            # Where nobody else makes blocks, a drop is an end unless the transfer is sent again.
            self.dropped.pop(tx.hash, None)
        process, life = node.process, node.life
        if process is None or node.disk.is_dead:
            return
        self.tally.count("transfers submitted")
        node.told_drops.pop(tx.hash, None)
        # Half of them as a client's go: through a worker, whose answer may come when the core is gone.
        by_link = node.worker is not None and tx.hash[0] % 2 == 0
        try:
            answer = node.worker.submit(tx) if by_link else process.submit(tx)
        except Unavailable:
            return
        epoch = node.epoch
        if by_link and node.settings.engine == "embedded":
            self._late.add(tx.hash)

        def answered(future: "object") -> None:
            if answer.cancelled():
                return
            failure = answer.exception()
            if node.epoch != epoch:
                return
            # A node that died has answered nobody, whatever its remains do.
            if not by_link and (node.disk.is_dead or node.life != life):
                return
            if failure is None:
                self._accepted(node, tx, answer.result())
            elif isinstance(failure, Rejected | MempoolFull):
                self.give_up(tx)
            elif not isinstance(failure, NodeError):
                raise Violation("submission", f"{node.name} fails at a submission: {failure!r}")

        answer.add_done_callback(answered)

    def _accepted(self, node: Node, tx: Tx, admission: Admission) -> None:
        if admission.confirmed:
            if tx.hash not in self.ledger.confirmed and self.setup.genesis.validators:
                raise Violation("submission", f"{node.name} calls a transfer confirmed that no block holds")
            return
        if not self.ledger.rules.allow(self.transfers[tx.hash]):
            raise Violation("submission", f"{node.name} accepted what no block can hold")
        self.tally.count("transfers accepted")
        if tx.kind != LEGACY:
            self.tally.count(f"transfers accepted of type {tx.kind}")
        if tx.data:
            self.tally.count("transfers accepted with data")
        self.promises[node.number, tx.hash] = Promise(tx, node, node.life)

    # What became of it.

    def check(self, node: Node) -> None:
        """Hold all that the node has promised against what it and the chain show."""
        core = node.core
        if core is None or core.failed.done():
            return
        visible = core._chain.visible
        since = min(self._checked.get(node.number, visible), visible)
        for key, promise in list(self.promises.items()):
            if key[0] == node.number and self._is_kept(node, promise, since, visible):
                del self.promises[key]
        self._checked[node.number] = visible
        unsynced = {tx_hash for tx_hash, _ in core.admissions._drops}
        for tx_hash, reason in core._pool.drops.items():
            if tx_hash not in unsynced:
                self.told_dropped(node, tx_hash, reason)
        self._check_endings()
        self._check_told(node)

    def told_dropped(self, node: Node, tx_hash: bytes, reason: str) -> None:
        self.dropped.setdefault(tx_hash, f"{node.name} told that 0x{tx_hash[:6].hex()} is dropped: {reason}")

    def _check_endings(self) -> None:
        for tx_hash in (self.dropped.keys() & self.ledger.confirmed.keys()) - self._late:
            raise Violation("ending", f"{self.dropped[tx_hash]}; it is in block {self.ledger.confirmed[tx_hash]}")

    def _check_told(self, node: Node) -> None:
        """What a lone node was told to have dropped, no crash brings back; in a network peers may."""
        core = node.core
        if core is None or self.setup.genesis.validators:
            return
        for tx_hash, reason in node.told_drops.items():
            if tx_hash in core._pool.order.entries and tx_hash not in self._late:
                raise Violation("told", f"{node.name} told that 0x{tx_hash[:6].hex()} is {reason!r}, and holds it")

    def go_back(self, node: Node, height: int, promises: dict[tuple[int, bytes], Promise]) -> None:
        """The node goes on from an older copy of its disk, with what it had promised by then."""
        self.promises |= promises
        self._checked[node.number] = height

    def promises_of(self, node: Node) -> dict[tuple[int, bytes], Promise]:
        return {key: promise for key, promise in self.promises.items() if key[0] == node.number}

    def _is_kept(self, node: Node, promise: Promise, since: int, visible: int) -> bool:
        """Whether the promise has come to its end. Raises `Violation` when it was broken."""
        core, tx = node.core, promise.tx
        assert core is not None
        pool, chain = core._pool, core._chain
        left = pool.unheld.by_hash.get(tx.hash)
        # As whoever asks is answered: a block's transactions may not be removed yet.
        entry = pool.find(tx.hash)
        height = self.ledger.confirmed.get(tx.hash)
        if height is not None and height <= visible:
            if entry is not None or left is not None:
                raise Violation("doubled", f"{node.name} still holds {_name(tx)}, which block {height} confirmed")
            if height >= chain.base:
                found = chain.find_location(tx.hash)
                if found is None or found[0] != height:
                    raise Violation("lost", f"{node.name} does not find {_name(tx)} in block {height}")
            return True
        if entry is not None:
            # A peer may have sent one again that had left: then that peer answers for it.
            promise.left = "" if entry.local else "sent again by a peer"
            return False
        if left is not None and left.reason in promise.judged:
            promise.left = left.reason
            return False
        reason = pool.drops.get(tx.hash) if left is None else left.reason
        if reason is None:
            # Where blocks were removed or never seen, one of them may have confirmed it.
            if chain.base and tx.nonce < chain.account(tx.sender).nonce:
                return True
            raise Violation("lost", f"{node.name} accepted {_name(tx)} and knows it no more")
        # A node that catches up drops it at one height and is looked at when it has come to another.
        if not any(self._is_right(tx, reason, height) for height in range(since, visible + 1)):
            raise Violation("dropped", f"{node.name} dropped {_name(tx)} as {reason!r}, which is not so")
        if left is not None:
            promise.left = reason
            promise.judged.add(reason)
            self.tally.count(f"transfers no longer held: {reason}")
            return False
        self.tally.count(f"transfers dropped: {reason}")
        return True

    def _is_right(self, tx: Tx, reason: str, height: int) -> bool:
        """Whether a node whose newest block has this height may drop it so."""
        balance, nonce = self.ledger.states[height].account(tx.sender)
        rivals = [other for other in self.signed if other.sender == tx.sender and other.hash != tx.hash]
        if reason == "nonce used":
            return nonce > tx.nonce
        if reason == "replaced":
            own = self.transfers[tx.hash]
            return any(other.nonce == tx.nonce and self.transfers[other.hash].may_replace(own) for other in rivals)
        if reason == "expired":
            return tx.nonce != nonce or self._cost(tx) > balance
        if reason == "cannot be applied":
            # Only a defect brings that about.
            return False
        wanted = self._cost(tx) + sum(self._cost(other) for other in rivals if other.nonce >= nonce)
        return self.setup.is_small_pool or wanted > balance

    def forget(self, node: Node) -> None:
        """Its operator has emptied its directory."""
        self.promises = {key: promise for key, promise in self.promises.items() if key[0] != node.number}

    def minable(self, promise: Promise) -> bool:
        """Whether nothing but time keeps it from being mined.

        It and all before it are held somewhere, and the sender can pay for all that it has anywhere: a node that has
        a later one, which waits, keeps its money for that, and then has no room for an earlier one from a peer. Where
        pools hold but a few, others may have no place for it: then its node must propose it, with all before it.
        """
        tx = promise.tx
        if promise.left:
            return False
        balance, nonce = self.ledger.head.account(tx.sender)
        held = [each for each in self.promises.values() if each.tx.sender == tx.sender and not each.left]
        if sum({each.tx.hash: self._cost(each.tx) for each in held}.values()) > balance:
            return False
        if self.setup.is_small_pool:
            validators = self.ledger.head.validators
            if validators and public_key(promise.node.number) not in validators:
                return False
            held = [each for each in held if each.node is promise.node]
        return {each.tx.nonce for each in held}.issuperset(range(nonce, tx.nonce + 1))


def _draw_data(rng: random.Random, most: int) -> bytes:
    """What a transfer carries: mostly nothing, or text, or any bytes; as much as is allowed, and a byte more.

    Drawn aside, as the type is. More than any chain allows cannot be signed here: strangers send that.
    """
    before = rng.getstate()
    aside = random.Random(f"{rng.random()}/data")
    rng.setstate(before)
    size = aside.choice((0, 0, 0, 0, 1, 12, aside.randint(0, most), most, most, min(most + 1, MAX_DATA_BYTES)))
    return aside.choice((bytes(size), b"\xff" * size, aside.randbytes(size), b"invoice 4711 "[:size]))


def _draw_terms(rng: random.Random, price: int, base_fee: int) -> tuple[int, int, int]:
    """A type, and the most that a unit of gas and its tip may cost; it pays `price` in any case.

    Drawn aside: `rng` goes on as if nothing were drawn, and a seed keeps the steps that it had without types.
    """
    before = rng.getstate()
    aside = random.Random(f"{rng.random()}/type")
    rng.setstate(before)
    kind = aside.choice((LEGACY, ACCESS_LIST, DYNAMIC_FEE, DYNAMIC_FEE))
    if kind != DYNAMIC_FEE:
        return kind, price, price
    tip = price - base_fee
    if tip < 0 or aside.random() < 0.4:
        # The cap cuts the tip.
        return kind, price, aside.randint(max(0, tip), price)
    return kind, aside.choice((price, price + 1, 2 * price + 3)), tip


def _name(tx: Tx) -> str:
    return f"0x{tx.hash[:6].hex()} ({tx.sender[:3].hex()} #{tx.nonce})"
