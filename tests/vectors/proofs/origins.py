"""Vectors about where money comes from: what genesis gives, and what a dev chain alone may set."""

from collections.abc import Iterator, Mapping

from tests.support.proof_chain import COIN, GWEI, Held, Json, Paid, ProofChain, encode, hexed, understand, wallet
from tests.vectors.proofs.chains import ALICE, BOB, CAROL, FUNDS, NOBODY, TEN, Vector

MILLION = 1_000_000 * COIN
SUPPLY = sum(FUNDS.values())


def vectors() -> Iterator[Vector]:
    yield from _set_balances()
    yield from _first_block()
    yield from _first_touches()
    yield from _supplies()
    yield from _fees()


def _set_balances() -> Iterator[Vector]:
    """A block without payments that changes balances."""
    every = {"everybody": 10}
    rows: list[tuple[str, ProofChain, bool, bool]] = [
        ("by four validators", ProofChain("set", TEN, balances=FUNDS), False, False),
        ("by one signer", ProofChain("set", balances=FUNDS), False, False),
        ("by a validator with a dev chain's key", ProofChain("set", every, balances=FUNDS), False, True),
        ("by a dev chain", ProofChain("set", balances=FUNDS, is_dev=True), True, True),
    ]
    for who, chain, is_valid, is_public in rows:
        why = "any rest, for genesis' signer is everybody's" if is_valid else "a rest that nobody paid"
        chain.set_balances({ALICE.address: MILLION, BOB.address: 1})
        for what, account in (("raised", ALICE), ("lowered", BOB)):
            content = encode(chain.statement(account.address, 1, 1, 1))
            public = is_public and is_valid
            yield Vector(f"balance {what} {who}", chain.genesis, content, is_valid, why, is_public=public)
        at = f"1:{hexed(chain.newest.hash)}"
        content = encode(chain.statement(ALICE.address, 1, 1, 1))
        yield Vector(f"balance raised {who}, trusted block", chain.genesis, content, is_valid, why, at=at)
        earner = chain.proposer_named("ada")
        chain._seal([], {earner: Held(MILLION)}, earner)
        content = encode(chain.statement(earner, 2, 2, 2))
        name = f"earned by a proposer without payments, {who}"
        yield Vector(name, chain.genesis, content, is_valid, why, is_public=is_public and is_valid)


def born(held: Mapping[bytes, Held], *, is_dev: bool = False, powers: Mapping[str, int] | None = None) -> ProofChain:
    """A chain whose first block gives something else than its genesis."""
    chain = ProofChain("born", powers, balances=FUNDS, is_dev=is_dev)
    chain.blocks.clear()
    chain.order.clear()
    chain._seal([], dict(held), bytes(20))
    chain.add()
    return chain


GIVEN = {address: Held(balance) for address, balance in FUNDS.items()}


def _first_block() -> Iterator[Vector]:
    """Block 0 gives what `alloc` says, to those that it names."""
    more = GIVEN | {ALICE.address: Held(MILLION)}
    stranger = GIVEN | {NOBODY.address: Held(MILLION)}
    less = {ALICE.address: GIVEN[ALICE.address]}
    sent = GIVEN | {ALICE.address: Held(FUNDS[ALICE.address], 1)}
    rows = [
        ("gives more than alloc", more, ALICE.address),
        ("gives to one whom alloc does not name", stranger, NOBODY.address),
        ("leaves out one whom alloc names", less, BOB.address),
        ("raises a nonce", sent, ALICE.address),
    ]
    for number, (name, held, address) in enumerate(rows):
        chain = born(held, powers=TEN if number % 2 else None)
        for kind, file in {
            "statement": chain.statement(address, 0, 1, 1),
            "balance": chain.account(address, 1, 1),
            "quiet statement": chain.statement(address, 1, 1, 1),
        }.items():
            yield Vector(f"block 0 {name}, {kind}", chain.genesis, encode(file), False, "alloc of genesis.json")
    toy = born(more, is_dev=True)
    content = encode(toy.statement(ALICE.address, 0, 1, 1))
    yield Vector("block 0 of a dev chain gives more than alloc", toy.genesis, content, False, "alloc of genesis.json")
    at = f"1:{hexed(toy.newest.hash)}"
    name = "block 0 of a dev chain gives more than alloc, trusted block"
    yield Vector(name, toy.genesis, content, False, "alloc of genesis.json", at=at)
    right = born(GIVEN)
    for kind, file in {
        "statement": right.statement(ALICE.address, 0, 1, 1),
        "balance": right.account(BOB.address, 1, 1),
        "statement of one whom it does not name": right.statement(NOBODY.address, 0, 1, 1),
    }.items():
        yield Vector(f"block 0 gives what alloc says, {kind}", right.genesis, encode(file), True, "all holds")
    poor = ProofChain("poor", balances=FUNDS | {CAROL.address: 0})
    poor.add()
    content = encode(poor.statement(CAROL.address, 0, 1, 1))
    yield Vector("alloc gives nothing to an account", poor.genesis, content, True, "it does not exist before a touch")


def _first_touches() -> Iterator[Vector]:
    """What no block touched before held nothing, and what only block 0 touched holds what alloc gives."""
    for name, held in {
        "a balance": Held(MILLION),
        "a nonce": Held(0, 5),
    }.items():
        chain = ProofChain("first touch", balances=FUNDS)
        chain.blocks[0].held[CAROL.address] = held
        chain.set_balances({CAROL.address: held.balance + 1})
        chain.add([chain.pay(ALICE, CAROL.address, 7, 0)], NOBODY.address)
        why = "it held nothing before its first touch"
        for kind, file in {
            "balance": chain.account(CAROL.address, 0, 2),
            "statement": chain.statement(CAROL.address, 0, 0, 2),
        }.items():
            yield Vector(f"first touch from {name}, {kind}", chain.genesis, encode(file), False, why)
    later = ProofChain("other first", balances=FUNDS)
    later.blocks[0].held[ALICE.address] = Held(MILLION, 0, 0)
    later.add([later.pay(ALICE, BOB.address, 5, 0)], NOBODY.address)
    why = "block 0 touched it, and gave another balance"
    for kind, file in {
        "balance": later.account(ALICE.address, 0, 1),
        "statement": later.statement(ALICE.address, 1, 1, 1),
    }.items():
        yield Vector(f"balance since block 0 that alloc does not give, {kind}", later.genesis, encode(file), False, why)


def _supplies() -> Iterator[Vector]:
    """No account has more than all coins, and nobody pays or earns more: coins are neither minted nor burnt."""
    for who, powers, is_dev in (
        ("four validators", TEN, False),
        ("one signer", None, False),
        ("a dev chain", None, True),
    ):
        for much, amount in (("all coins", SUPPLY), ("a wei more than all coins", SUPPLY + 1)):
            chain = ProofChain("supply", powers, balances=FUNDS, is_dev=is_dev)
            is_valid = is_dev or amount == SUPPLY
            why = "genesis gives as much, or a dev chain sets balances" if is_valid else "genesis gives less"
            for what, height, file in _with(amount, chain):
                name = f"{much} {what}, by {who}"
                yield Vector(name, chain.genesis, encode(file), is_valid, why, is_public=is_dev)
                if powers is not None:
                    at = f"{height}:{hexed(chain.blocks[height].hash)}"
                    yield Vector(f"{name}, trusted block", chain.genesis, encode(file), is_valid, why, at=at)


def _with(amount: int, chain: ProofChain) -> Iterator[tuple[str, int, Json]]:
    """Files in which so much stands, each in one place, with the height of the block that is signed."""
    proposer, free = wallet(f"{chain.seed} proposer ada").address, {"prices": (0,)}
    elsewhere = chain.pay(ALICE, NOBODY.address, 1, 0, **free)
    chain._seal(_understood([elsewhere]), {CAROL.address: Held(amount), proposer: Held(amount)}, proposer)
    chain.add([chain.pay(CAROL, NOBODY.address, 1, 0, **free)])
    chain.add()
    yield "in a balance", 3, chain.account(proposer, 3, 3)
    yield "in a balance before a change", 3, chain.account(CAROL.address, 1, 3)
    yield "in a quiet statement", 3, chain.statement(proposer, 2, 3, 3)
    yield "in an opening balance", 3, chain.statement(CAROL.address, 2, 2, 3)
    yield "as fees", 3, chain.statement(proposer, 1, 3, 3)
    # The rest alone: no balance is as high.
    more = FUNDS[BOB.address] + 1
    spent = chain.pay(BOB, NOBODY.address, more, 0, **free)
    chain._seal(_understood([elsewhere, spent]), {BOB.address: Held(amount - 1, 1, 0)}, BOB.address)
    yield "as fees that were spent", 4, chain.statement(BOB.address, 4, 4, 4)
    dear = [chain.pay(ALICE, BOB.address, amount, 0, **free), chain.pay(ALICE, BOB.address, amount - 21_000 * GWEI, 0)]
    chain.add_raw(dear)
    yield "in a payment", 5, chain.receipt(5, 0, 5)
    yield "in a payment with its fee", 5, chain.receipt(5, 1, 5)


def _understood(payments: list[bytes]) -> list[Paid]:
    return [understand(raw, GWEI) for raw in payments]


def _fees() -> Iterator[Vector]:
    """A proposer earns the fees of its block: no less than those of the payments in the file, and no more if these are
    all."""
    fee = 21_000 * GWEI
    rows = [
        ("the fees of the only payment", False, 0, True),
        ("more than the fees of the only payment", False, 1, False),
        ("less than the fees of the only payment", False, -1, False),
        ("nothing for the only payment", False, -fee, False),
        ("the fees of a payment and of others", True, 0, True),
        ("more than the fees of a payment and of others", True, 1, True),
        ("the fees of the payments in the file alone", True, -fee, True),
        ("less than the fees of the payments in the file", True, -fee - 1, False),
    ]
    for who, is_dev in (("one signer", False), ("a dev chain", True)):
        for name, has_others, more, is_valid in rows:
            chain = ProofChain("fees", balances=FUNDS | {CAROL.address: COIN}, is_dev=is_dev)
            payments = [chain.pay(ALICE, BOB.address, 5, 0), chain.pay(CAROL, NOBODY.address, 0, 0)]
            paid = _understood(payments if has_others else payments[:1])
            earned = sum(each.fee for each in paid) + more
            # The changes of the others are not in the statement.
            chain._seal(paid, {BOB.address: Held(FUNDS[BOB.address] + 5 + earned, 0, 0)}, BOB.address)
            content = encode(chain.statement(BOB.address, 1, 1, 1))
            why = "fees of its block" if is_valid else "other payments cannot have brought it"
            public = is_dev and is_valid
            yield Vector(f"proposer earns {name}, by {who}", chain.genesis, content, is_valid, why, is_public=public)
