"""Toy chains that make every kind of proof file, by the plainest reading of docs/formats.md.

Nothing here comes from the node's own code: trees are cut in two by recursion as RFC 6962 defines them, transactions
are eth-account's, RLP is the package `rlp`. So it is a second opinion on the node, and it can make chains that no node
would make. One seed decides everything, so that the same chain comes out on every run.
"""

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

import rlp  # type: ignore[import-untyped]
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from eth_account import Account
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

Json = dict[str, Any]

GWEI = 10**9
COIN = 10**18
NO_LEAVES = keccak(rlp.encode(b""))
NO_UNCLES = keccak(rlp.encode([]))
NEVER = 2**64 - 1
DEV_SEED = sha256(b"cairn dev chain: this key protects nothing").digest()


def hexed(raw: bytes) -> str:
    return "0x" + bytes(raw).hex()


def seeded(label: str) -> bytes:
    """32 bytes that look random and are the same on every run."""
    return sha256(label.encode()).digest()


def wide(number: int, size: int) -> bytes:
    return number.to_bytes(size, "big")


# Trees (RFC 6962, 2.1).


def split_at(count: int) -> int:
    """The largest power of two below `count`."""
    size = 1
    while size * 2 < count:
        size *= 2
    return size


def root(leaves: Sequence[bytes]) -> bytes:
    if not leaves:
        return NO_LEAVES
    if len(leaves) == 1:
        return sha256(b"\0" + leaves[0]).digest()
    middle = split_at(len(leaves))
    return sha256(b"\1" + root(leaves[:middle]) + root(leaves[middle:])).digest()


def path(index: int, leaves: Sequence[bytes]) -> list[bytes]:
    if len(leaves) == 1:
        return []
    middle = split_at(len(leaves))
    if index < middle:
        return [*path(index, leaves[:middle]), root(leaves[middle:])]
    return [*path(index - middle, leaves[middle:]), root(leaves[:middle])]


def consistency(old: int, leaves: Sequence[bytes]) -> list[bytes]:
    return _consistency(old, leaves, True) if old else []


def _consistency(old: int, leaves: Sequence[bytes], is_whole: bool) -> list[bytes]:
    if old == len(leaves):
        return [] if is_whole else [root(leaves)]
    middle = split_at(len(leaves))
    if old <= middle:
        return [*_consistency(old, leaves[:middle], is_whole), root(leaves[middle:])]
    return [*_consistency(old - middle, leaves[middle:], False), root(leaves[:middle])]


# Protobuf.


def varint(number: int) -> bytes:
    digits = []
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])


def proto_int(tag: int, number: int) -> bytes:
    return varint(tag << 3) + varint(number) if number else b""


def proto_fixed(tag: int, number: int) -> bytes:
    return varint(tag << 3 | 1) + number.to_bytes(8, "little", signed=True) if number else b""


def proto_bytes(tag: int, content: bytes, *, always: bool = False) -> bytes:
    return varint(tag << 3 | 2) + varint(len(content)) + content if content or always else b""


# Validators and what they sign.


class Validator(NamedTuple):
    seed: bytes
    power: int

    @property
    def key(self) -> bytes:
        return Ed25519PrivateKey.from_private_bytes(self.seed).public_key().public_bytes_raw()

    @property
    def engine_address(self) -> bytes:
        return sha256(self.key).digest()[:20]

    def sign(self, message: bytes) -> bytes:
        return Ed25519PrivateKey.from_private_bytes(self.seed).sign(message)


ValidatorSet = list[Validator]


def in_order(validators: Iterable[Validator]) -> ValidatorSet:
    return sorted(validators, key=lambda each: (-each.power, each.engine_address))


def set_hash(validators: ValidatorSet) -> bytes:
    return root([proto_bytes(1, proto_bytes(1, each.key)) + proto_int(2, each.power) for each in validators])


def vote_bytes(
    engine_id: str, height: int, at_round: int, block_hash: bytes, parts: tuple[int, bytes], time: tuple[int, int]
) -> bytes:
    """A precommit as it is signed. A nil vote has no block id: `block_hash` is empty."""
    parts_id = proto_int(1, parts[0]) + proto_bytes(2, parts[1])
    block_id = proto_bytes(1, block_hash) + proto_bytes(2, parts_id, always=True)
    message = (
        proto_int(1, 2)
        + proto_fixed(2, height)
        + proto_fixed(3, at_round)
        + (proto_bytes(4, block_id) if block_hash else b"")
        + proto_bytes(5, proto_int(1, time[0]) + proto_int(2, time[1]), always=True)
        + proto_bytes(6, engine_id.encode())
    )
    return varint(len(message)) + message


# Payments.


class Wallet(NamedTuple):
    private_key: bytes
    address: bytes


def wallet(label: str) -> Wallet:
    key = seeded(f"wallet {label}")
    return Wallet(key, bytes.fromhex(Account.from_key(key).address[2:]))


def sign_payment(
    sender: Wallet,
    to: bytes,
    value: int,
    nonce: int,
    *,
    chain_id: int,
    kind: int = 0,
    prices: Sequence[int] = (GWEI,),
    data: bytes = b"",
    **more: object,
) -> bytes:
    """A signed transaction: `prices` are the gas price, or for type 2 the tip and the most for a unit."""
    fields: Json = {"nonce": nonce, "gas": 30_000, "to": to, "value": value, "data": data, "chainId": chain_id}
    names = ("maxPriorityFeePerGas", "maxFeePerGas") if kind == 2 else ("gasPrice",)
    if kind:
        fields |= {"type": kind, "accessList": []}
    fields |= dict(zip(names, prices, strict=True)) | more
    return bytes(Account.sign_transaction(fields, sender.private_key).raw_transaction)


class Paid(NamedTuple):
    """What a transaction did, as the chain knows it."""

    raw: bytes
    sender: bytes
    to: bytes
    value: int
    nonce: int
    fee: int
    data: bytes


def understand(raw: bytes, base_fee: int) -> Paid:
    kind = raw[0] if raw[0] < 3 else 0
    fields = rlp.decode(raw[1:] if kind else raw)
    body = fields[1:] if kind else fields
    nonce, prices, (_, to, value, data) = body[0], body[1 : 3 if kind == 2 else 2], body[3 if kind == 2 else 2 :][:4]
    numbers = [int.from_bytes(price, "big") for price in prices]
    price = min(numbers[1], base_fee + numbers[0]) if kind == 2 else numbers[0]
    gas = 21_000 + sum(16 if byte else 4 for byte in data)
    sender = bytes.fromhex(Account.recover_transaction(raw)[2:])
    return Paid(raw, sender, to, int.from_bytes(value, "big"), int.from_bytes(nonce, "big"), gas * price, bytes(data))


# The chain.


class Held(NamedTuple):
    balance: int = 0
    nonce: int = 0
    touched: int = NEVER


@dataclass
class Block:
    height: int
    header: bytes
    hash: bytes
    time: int
    proposer: bytes
    base_fee: int
    paid: list[Paid]
    changes: list[bytes]
    state: list[bytes]
    held: dict[bytes, Held]
    """All accounts after the block."""
    history: list[bytes] = field(repr=False)
    """The hashes of the blocks before it."""


Alter = Callable[[list[Any]], object]


class ProofChain:
    """`validators` are names and powers of a network's first ones; without them one node signs."""

    def __init__(
        self,
        seed: str,
        validators: Mapping[str, int] | None = None,
        *,
        chain_id: int = 1337,
        is_dev: bool = False,
        balances: Mapping[bytes, int] | None = None,
        gas_price: int = GWEI,
    ) -> None:
        self.seed, self.chain_id, self.gas_price = seed, chain_id, gas_price
        self.signer = Validator(DEV_SEED if is_dev else seeded(f"{seed} signer"), 1)
        self.is_network = validators is not None
        first = self.named(validators) if validators is not None else [self.signer]
        self.sets: dict[int, ValidatorSet] = {1: in_order(first)}
        """The validators from an engine's height on."""
        self.alloc = dict(balances or {})
        self.time = 1_735_689_600
        self.genesis = self._genesis(validators or {})
        self.digest = keccak(self.genesis)
        self.engine_id = f"cairn-{chain_id}-{self.digest[:12].hex()}"
        self.order: list[bytes] = []
        """Accounts as they were created."""
        self.blocks: list[Block] = []
        self._seal([], {address: Held(balance) for address, balance in self.alloc.items() if balance}, bytes(20))

    def named(self, powers: Mapping[str, int]) -> ValidatorSet:
        """With keys by their names; that of `everybody` is a dev chain's."""
        seeds = {name: seeded(f"{self.seed} validator {name}") for name in powers} | {"everybody": DEV_SEED}
        return [Validator(seeds[name], power) for name, power in powers.items()]

    def _genesis(self, validators: Mapping[str, int]) -> bytes:
        """As `cairn init` writes it."""
        fields: Json = {
            "chainId": self.chain_id,
            "timestamp": self.time,
            "gasPrice": self.gas_price,
            "blockGasLimit": 30_000_000,
            "maxDataBytes": 256,
            "alloc": {to_checksum_address(address): self.alloc[address] for address in sorted(self.alloc)},
        }
        if self.is_network:
            rows = zip(self.named(validators), validators, strict=True)
            fields["validators"] = [
                {
                    "publicKey": base64.b64encode(each.key).decode(),
                    "power": each.power,
                    "feeRecipient": to_checksum_address(self.proposer_named(name)),
                    "name": name,
                }
                for each, name in sorted(rows, key=lambda row: row[0].key)
            ]
        else:
            fields["signer"] = base64.b64encode(self.signer.key).decode()
        return json.dumps(fields, indent=2).encode() + b"\n"

    def proposer_named(self, name: str) -> bytes:
        return wallet(f"{self.seed} proposer {name}").address

    @property
    def height(self) -> int:
        return len(self.blocks) - 1

    @property
    def newest(self) -> Block:
        return self.blocks[-1]

    def pay(self, sender: Wallet, to: bytes, value: int, nonce: int, **more: Any) -> bytes:
        return sign_payment(sender, to, value, nonce, **({"chain_id": self.chain_id} | more))

    def add(self, payments: Sequence[bytes] = (), proposer: bytes = bytes(20)) -> Block:
        """A block of payments, whose fees go to the proposer."""
        held = dict(self.newest.held)
        touched: dict[bytes, Held] = {}
        paid = [understand(raw, self.gas_price) for raw in payments]
        for each in paid:
            for address in (each.sender, each.to):
                touched.setdefault(address, held.get(address, Held()))
            before = touched[each.sender]
            assert before.nonce == each.nonce, "a toy chain's payments are in order"
            assert before.balance >= each.value + each.fee, "a toy chain's payments are covered"
            touched[each.sender] = Held(before.balance - each.value - each.fee, before.nonce + 1, before.touched)
            to = touched[each.to]
            touched[each.to] = Held(to.balance + each.value, to.nonce, to.touched)
        fees = sum(each.fee for each in paid)
        if fees:
            earner = touched.get(proposer) or held.get(proposer, Held())
            touched[proposer] = Held(earner.balance + fees, earner.nonce, earner.touched)
        return self._seal(paid, touched, proposer)

    def set_balances(self, balances: Mapping[bytes, int]) -> Block:
        """A block of a dev chain that sets balances, and holds no payments."""
        held = self.newest.held
        before = {address: held.get(address, Held()) for address in balances}
        touched = {
            address: Held(balances[address], was.nonce, was.touched)
            for address, was in before.items()
            if was.balance != balances[address]
        }
        return self._seal([], touched, bytes(20))

    def add_raw(self, payments: Sequence[bytes]) -> Block:
        """A block of any bytes as transactions, which nobody executes."""
        nothing = Paid(b"", b"", b"", 0, 0, 0, b"")
        return self._seal([nothing._replace(raw=raw) for raw in payments], {}, bytes(20))

    def _seal(self, paid: list[Paid], touched: dict[bytes, Held], proposer: bytes) -> Block:
        height = len(self.blocks)
        before = self.blocks[-1].held if self.blocks else {}
        self.time += 7 if height else 0
        changes = [
            self._change_leaf(address, before.get(address, Held()), touched[address]) for address in sorted(touched)
        ]
        self.order += [address for address in sorted(touched) if address not in before]
        held = before | {address: each._replace(touched=height) for address, each in touched.items()}
        history = [block.hash for block in self.blocks]
        state = self._state_leaves(held, height)
        header = self.encode_header(
            height=height,
            proposer=proposer,
            state=root(state),
            transactions=root([keccak(each.raw) for each in paid]),
            changes=root(changes),
            history=root(history),
            count=len(paid),
            gas_used=sum(21_000 + sum(16 if byte else 4 for byte in each.data) for each in paid),
            parent=history[-1] if history else bytes(32),
        )
        self.blocks.append(
            Block(
                height, header, keccak(header), self.time, proposer, self.gas_price, paid, changes, state, held, history
            )
        )
        return self.blocks[-1]

    def encode_header(
        self,
        *,
        height: int,
        proposer: bytes,
        state: bytes,
        transactions: bytes,
        changes: bytes,
        history: bytes,
        count: int,
        gas_used: int,
        parent: bytes,
        alter: Alter | None = None,
    ) -> bytes:
        extra = b"cairn\3" + wide(self.chain_id, 8) + wide(count, 4)
        fields: list[Any] = [parent, NO_UNCLES, proposer, state, transactions, changes, bytes(256), 0]
        fields += [height, 30_000_000, gas_used, self.time, extra, history, bytes(8), self.gas_price]
        if alter is not None:
            alter(fields)
        return bytes(rlp.encode(fields))

    def _change_leaf(self, address: bytes, before: Held, after: Held) -> bytes:
        numbers = wide(before.touched, 8) + wide(before.balance, 32) + wide(before.nonce, 8)
        return address + numbers + wide(after.balance, 32) + wide(after.nonce, 8)

    def _state_leaves(self, held: Mapping[bytes, Held], height: int) -> list[bytes]:
        record = f"the record at {height}".encode() if self.is_network else b""
        around = sorted(held)
        following = dict(zip(around, around[1:] + around[:1], strict=True))
        leaves = [
            address
            + wide(held[address].balance, 32)
            + wide(held[address].nonce, 8)
            + wide(held[address].touched, 8)
            + following[address]
            for address in self.order
        ]
        return [keccak(record), *leaves]

    # Signatures.

    def change_validators(self, powers: Mapping[str, int], engine_height: int) -> None:
        """These are the validators from a height of the engine on."""
        self.sets[engine_height] = in_order(self.named(powers))

    def validators_at(self, engine_height: int) -> ValidatorSet:
        return self.sets[max(start for start in self.sets if start <= engine_height)]

    def engine_leaves(self, engine_height: int, app_hash: bytes, time: int) -> list[bytes]:
        validators, following = self.validators_at(engine_height), self.validators_at(engine_height + 1)

        def noise(label: str) -> bytes:
            """What a verifier does not know: only a network has it."""
            return seeded(f"{self.seed} {label} {engine_height}") if self.is_network else b""

        last_parts = proto_int(1, 1 if self.is_network else 0) + proto_bytes(2, noise("last parts"))
        return [
            proto_int(1, 11),
            proto_bytes(1, self.engine_id.encode()),
            proto_int(1, engine_height),
            proto_int(1, time) + proto_int(2, 123_456_789 if self.is_network else 0),
            proto_bytes(1, noise("last block")) + proto_bytes(2, last_parts, always=True),
            proto_bytes(1, noise("last commit")),
            proto_bytes(1, noise("data")),
            proto_bytes(1, set_hash(validators)),
            proto_bytes(1, set_hash(following)),
            proto_bytes(1, noise("consensus")),
            proto_bytes(1, app_hash),
            proto_bytes(1, noise("last results")),
            proto_bytes(1, noise("evidence")),
            proto_bytes(1, validators[0].engine_address),
        ]

    def signed(
        self, engine_height: int, app_hash: bytes, *, time: int = 0, signers: Iterable[int] | None = None
    ) -> Json:
        """A header of the engine, signed by all validators or by the numbers of some."""
        leaves = self.engine_leaves(engine_height, app_hash, time)
        return self.sign(leaves, engine_height, time, self.validators_at(engine_height), signers)

    def sign(
        self,
        leaves: Sequence[bytes],
        engine_height: int,
        time: int,
        validators: ValidatorSet,
        signers: Iterable[int] | None = None,
        at_round: int | None = None,
    ) -> Json:
        """Any leaves of a header, signed by any validators."""
        if at_round is None:
            at_round = engine_height % 3 if self.is_network else 0
        parts = (1, seeded(f"{self.seed} parts {engine_height}")) if self.is_network else (0, b"")
        votes = []
        for number in range(len(validators)) if signers is None else signers:
            vote_time = (time, 1_000 * number) if self.is_network else (time, 0)
            message = vote_bytes(self.engine_id, engine_height, at_round, root(leaves), parts, vote_time)
            votes.append(vote_json(number, vote_time, validators[number].sign(message)))
        parts_json = {"total": parts[0], "hash": hexed(parts[1])}
        return {"header": list(map(hexed, leaves)), "round": at_round, "parts": parts_json, "signatures": votes}

    def step(self, engine_height: int) -> Json:
        """The last header that the old validators signed."""
        below = self.blocks[min(engine_height - 1, self.height)]
        validators = self.validators_at(engine_height + 1)
        rows = [{"publicKey": hexed(each.key), "power": each.power} for each in validators]
        return {"signed": self.signed(engine_height, below.hash, time=below.time), "validators": rows}

    def certificate(self, height: int, *, signers: Iterable[int] | None = None) -> Json:
        block, engine_height = self.blocks[height], height + 1
        steps = [self.step(start - 1) for start in sorted(self.sets)[1:] if start <= engine_height]
        signed = self.signed(engine_height, block.hash, time=block.time, signers=signers)
        return {"steps": steps, "signed": signed, "header": hexed(block.header)}

    # Files. `head` is the height of the block that is signed.

    def ancestor(self, height: int, head: int) -> Json:
        """BLOCK: a block under a later one."""
        block = self.blocks[height]
        history = path(height, self.blocks[head].history) if height != head else []
        return {"header": hexed(block.header), "history": list(map(hexed, history))}

    def payment(self, height: int, index: int) -> Json:
        hashes = [keccak(each.raw) for each in self.blocks[height].paid]
        raw = self.blocks[height].paid[index].raw
        return {"transaction": hexed(raw), "index": index, "path": list(map(hexed, path(index, hashes)))}

    def state(self, address: bytes, head: int) -> Json:
        """The account's leaf, or the one whose gap holds the address."""
        leaves = self.blocks[head].state
        owners = [leaf[:20] for leaf in leaves[1:]]
        below = [owner for owner in owners if owner <= address]
        number = 1 + owners.index(max(below) if below else max(owners))
        return self.state_at(number, head)

    def state_at(self, number: int, head: int) -> Json:
        leaves = self.blocks[head].state
        siblings = list(map(hexed, path(number, leaves)))
        return {"leaf": hexed(leaves[number]), "number": number, "size": len(leaves), "path": siblings}

    def change(self, address: bytes, height: int, head: int) -> Json:
        leaves = self.blocks[height].changes
        index = [leaf[:20] for leaf in leaves].index(address)
        return {
            "block": self.ancestor(height, head),
            "leaf": hexed(leaves[index]),
            "index": index,
            "count": len(leaves),
            "path": list(map(hexed, path(index, leaves))),
        }

    def touches(self, address: bytes, first: int = 0, last: int | None = None) -> list[int]:
        """The heights of the blocks that touch the account."""
        blocks = self.blocks[first : None if last is None else last + 1]
        return [block.height for block in blocks if address in [leaf[:20] for leaf in block.changes]]

    def finality(self, height: int, head: int) -> Json:
        return self._file("finality", head, block=self.ancestor(height, head))

    def receipt(self, height: int, index: int, head: int) -> Json:
        return self._file("receipt", head, block=self.ancestor(height, head), payment=self.payment(height, index))

    def account(self, address: bytes, height: int, head: int) -> Json:
        """By the state at the head if the account was not touched since, else by the next change."""
        later = self.touches(address, height + 1, head)
        proof = {"change": self.change(address, later[0], head)} if later else {"state": self.state(address, head)}
        return self._file("account", head, address=hexed(address), height=height, **proof)

    def statement(self, address: bytes, first: int, last: int, head: int) -> Json:
        changes = []
        for height in self.touches(address, first, last):
            paid = self.blocks[height].paid
            own = [index for index, each in enumerate(paid) if address in (each.sender, each.to)]
            payments = [self.payment(height, index) for index in own]
            changes.append(self.change(address, height, head) | {"payments": payments})
        later = self.touches(address, last + 1, head)
        end = {"next": self.change(address, later[0], head)} if later else {"state": self.state(address, head)}
        fields = {"address": hexed(address), "from": first, "to": last}
        return self._file("statement", head, **fields, changes=changes, **end)

    def history(self, first: int, second: int, head: int) -> Json:
        leaves = self.blocks[second].history
        return self._file(
            "history",
            head,
            first=hexed(self.blocks[first].header),
            second=self.ancestor(second, head),
            inclusion=list(map(hexed, path(first, leaves))),
            consistency=list(map(hexed, consistency(first, leaves))),
        )

    def descendant(self, height: int, head: int, witnesses: Sequence[Validator] = ()) -> Json:
        """A block at or above the head, signed by witnesses."""
        block = self.blocks[height]
        message = b"cairn witness 1\0" + self.digest + wide(height, 8) + block.hash
        history = path(head, block.history) if height != head else []
        rows = [{"publicKey": hexed(each.key), "signature": hexed(each.sign(message))} for each in witnesses]
        return {"header": hexed(block.header), "history": list(map(hexed, history)), "witnesses": rows}

    def _file(self, kind: str, head: int, **members: Any) -> Json:
        return {"format": f"cairn-{kind}-1", "certificate": self.certificate(head), **members}


def vote_json(number: int, time: tuple[int, int], signature: bytes) -> Json:
    return {"validator": number, "seconds": time[0], "nanos": time[1], "signature": hexed(signature)}


def encode(file: Json) -> bytes:
    return json.dumps(file, separators=(",", ":")).encode()
