"""Vectors about what a file proves: payments, balances, statements and histories that do not hold."""

from collections.abc import Iterator
from typing import Any

from tests.support.proof_chain import COIN, Held, Json, ProofChain, encode, hexed, root, sign_payment, wide
from tests.vectors.proofs.chains import (
    ALICE,
    BOB,
    CAROL,
    FUNDS,
    NOBODY,
    Edit,
    Vector,
    altered,
    bad_transactions,
    dev,
    encode_altered,
    forked,
    inside,
    lone,
)

Lies = list[tuple[str, Edit, str]]


def vectors() -> Iterator[Vector]:
    yield from _receipts()
    yield from _balances()
    yield from _statements()
    yield from _wrong_books()
    yield from _histories()


def _lies(chain: ProofChain, file: Json, lies: Lies) -> Iterator[Vector]:
    for name, edit, why in lies:
        yield Vector(name, chain.genesis, encode_altered(file, edit), False, why)


def _receipts() -> Iterator[Vector]:
    chain = lone()
    good = chain.receipt(4, 1, 8)
    bigger = hexed(sign_payment(BOB, ALICE.address, 100, 1, chain_id=chain.chain_id))
    raw = good["payment"]["transaction"]
    lies: Lies = [
        ("payment of another amount", lambda file: file["payment"].update(transaction=bigger), "not in the block"),
        (
            "payment of another byte",
            lambda file: file["payment"].update(transaction=raw[:-2] + "00"),
            "not in the block",
        ),
        (
            "payment to another account",
            lambda file: file["payment"].update(transaction=raw.replace(ALICE.address.hex(), CAROL.address.hex())),
            "not in the block",
        ),
        ("payment at another place", lambda file: file["payment"].update(index=0), "other root"),
        ("payment beyond the last", lambda file: file["payment"].update(index=3), "there are three"),
        (
            "payment with the path of another",
            lambda file: file["payment"].update(path=chain.payment(4, 0)["path"]),
            "other root",
        ),
        ("payment with a sibling missing", lambda file: file["payment"]["path"].pop(), "too short"),
        ("payment with a sibling more", lambda file: file["payment"]["path"].append(hexed(bytes(32))), "too long"),
        ("payment without a path", lambda file: file["payment"].update(path=[]), "too short"),
        ("payment of another block", lambda file: file.update(block=chain.ancestor(5, 8)), "not in that block"),
        ("payment in a block without any", lambda file: file.update(block=chain.ancestor(3, 8)), "not in that block"),
        ("payment left out of the receipt", lambda file: file.pop("payment"), "missing"),
        ("receipt passed off as finality of nothing", lambda file: file.pop("block"), "missing"),
    ]
    yield from _lies(chain, good, lies)
    two = chain.receipt(1, 0, 8)
    yield from _lies(chain, two, [("two payments swapped", lambda file: file["payment"].update(index=1), "other root")])
    bad = ProofChain("bad transactions", balances=FUNDS)
    for name, transaction in bad_transactions(bad.chain_id).items():
        bad.add_raw([transaction])
        file = bad.receipt(bad.height, 0, bad.height)
        yield Vector(f"signed block holds {name}", bad.genesis, encode(file), False, "not a payment of this chain")


def _balances() -> Iterator[Vector]:
    chain = lone()
    now, then = chain.account(ALICE.address, 8, 8), chain.account(ALICE.address, 2, 8)
    nobody = chain.account(NOBODY.address, 8, 8)
    older = chain.state(ALICE.address, 5)
    leaf = now["state"]["leaf"]
    first, last = min(chain.newest.held), max(chain.newest.held)

    def richer(copy: Json) -> None:
        copy["state"]["leaf"] = leaf[:42] + wide(10**24, 32).hex() + leaf[106:]

    lies: Lies = [
        ("balance altered", richer, "other root"),
        (
            "nonce altered",
            lambda file: file["state"].update(leaf=leaf[:106] + wide(9, 8).hex() + leaf[122:]),
            "other root",
        ),
        (
            "last touch altered",
            lambda file: file["state"].update(leaf=leaf[:122] + wide(1, 8).hex() + leaf[138:]),
            "other root",
        ),
        ("older balance passed off as now", lambda file: file.update(state=older), "not in the newest state"),
        ("balance of another account", lambda file: file.update(state=chain.state(BOB.address, 8)), "another address"),
        ("address of another account", lambda file: file.update(address=hexed(BOB.address)), "another address"),
        ("balance now passed off as earlier", lambda file: file.update(height=4), "touched since"),
        ("balance above the signed block", lambda file: file.update(height=9), "nobody signed it"),
        ("state at another number", lambda file: file["state"].update(number=2), "other root"),
        ("state at number 0", lambda file: file["state"].update(number=0), "that is the record"),
        ("state beyond the last", lambda file: file["state"].update(number=file["state"]["size"]), "there is none"),
        ("state of no accounts", lambda file: file["state"].update(size=0), "there is none"),
        ("state in a smaller tree", lambda file: file["state"].update(size=2), "path too long"),
        ("state with a sibling missing", lambda file: file["state"]["path"].pop(0), "too short"),
        ("state with a sibling more", lambda file: file["state"]["path"].append(hexed(bytes(32))), "too long"),
        ("state leaf of 87 bytes", lambda file: file["state"].update(leaf=leaf[:-2]), "88 bytes"),
        ("state leaf of 89 bytes", lambda file: file["state"].update(leaf=leaf + "00"), "88 bytes"),
        ("record as an account", lambda file: file.update(state=chain.state_at(0, 8)), "the record is no account"),
        ("neither state nor change", lambda file: file.pop("state"), "one of both"),
        ("both state and change", lambda file: file.update(change=then["change"]), "one of both"),
    ]
    yield from _lies(chain, now, lies)
    inner = path_node(chain, 8)
    hidden = next(each for each in chain.newest.held if hexed(each) != nobody["state"]["leaf"][:42])
    yield from _lies(chain, now, [("inner node as a leaf", lambda file: file.update(state=inner), "88 bytes")])
    lies = [
        ("account hidden by a gap of others", lambda file: file.update(address=hexed(hidden)), "not in the gap"),
        (
            "gap that ends at the address",
            lambda file: file.update(address="0x" + file["state"]["leaf"][138:]),
            "not in the gap",
        ),
        ("gap of another state", lambda file: file.update(state=chain.state(NOBODY.address, 4)), "not in this state"),
        ("gap of other accounts", lambda file: file.update(state=chain.state(first, 8)), "not in the gap"),
        ("gap around the end for one inside", lambda file: file.update(state=chain.state(last, 8)), "not in the gap"),
    ]
    yield from _lies(chain, nobody, lies)
    around = chain.account(b"\xff" * 20, 8, 8)
    lowest: Edit = lambda file: file.update(address=hexed(first), state=around["state"])  # noqa: E731
    yield from _lies(chain, around, [("gap around the end for the lowest", lowest, "not in the gap")])
    change = then["change"]["leaf"]
    lies = [
        (
            "balance before altered",
            lambda file: file["change"].update(leaf=change[:58] + wide(10**24, 32).hex() + change[122:]),
            "other root",
        ),
        (
            "touched before altered",
            lambda file: file["change"].update(leaf=change[:42] + wide(0, 8).hex() + change[58:]),
            "other root",
        ),
        ("balance before an earlier change", lambda file: file.update(height=0), "it was touched after that height"),
        ("balance at the height of the change", lambda file: file.update(height=4), "the change is not above it"),
        ("balance above the change", lambda file: file.update(height=5), "the change is not above it"),
        (
            "balance from a later change",
            lambda file: file.update(change=chain.change(ALICE.address, 7, 8)),
            "touched between",
        ),
        (
            "change of another account",
            lambda file: file.update(change=chain.change(BOB.address, 4, 8)),
            "another address",
        ),
        (
            "change at another place",
            lambda file: file["change"].update(index=file["change"]["index"] ^ 1),
            "other root",
        ),
        ("change beyond the last", lambda file: file["change"].update(index=4), "there are four"),
        ("change in a smaller tree", lambda file: file["change"].update(count=1), "path too long"),
        ("change in no tree", lambda file: file["change"].update(count=0), "there is none"),
        ("change with a sibling missing", lambda file: file["change"]["path"].pop(), "too short"),
        ("change with a sibling more", lambda file: file["change"]["path"].insert(0, hexed(bytes(32))), "too long"),
        ("change of another block", lambda file: file["change"].update(block=chain.ancestor(5, 8)), "other root"),
        ("change of a block of a fork", lambda file: file["change"].update(block=forked().ancestor(4, 8)), "fork"),
        ("change leaf of 107 bytes", lambda file: file["change"].update(leaf=change[:-2]), "108 bytes"),
        ("change under the transactions root", lambda file: file["change"].update(chain.payment(4, 0)), "other root"),
    ]
    yield from _lies(chain, then, lies)


def path_node(chain: ProofChain, head: int) -> Json:
    """The two children of a node above the leaves, as if they were a leaf."""
    state = chain.state_at(3, head)
    return state | {"leaf": state["path"][0] + state["path"][1][2:], "number": 1, "path": state["path"][2:]}


def _statements() -> Iterator[Vector]:
    chain = lone()
    good, whole = chain.statement(BOB.address, 4, 5, 8), chain.statement(ALICE.address, 4, 8, 8)
    assert chain.touches(BOB.address, 1) == [1, 2, 4, 5, 6, 7, 8]
    assert chain.touches(ALICE.address) == [0, 1, 4, 5, 7, 8]

    def payments(number: int, edit: Edit) -> Edit:
        return inside(edit, "changes", number, "payments")

    lies: Lies = [
        ("received payment left out", payments(0, lambda rows: rows.pop()), "the balance changed by more"),
        ("sent payment left out", payments(1, lambda rows: rows.clear()), "the nonce changed by more"),
        ("sent payment of nothing left out", payments(0, lambda rows: rows.pop(0)), "the nonce changed by more"),
        ("payment twice", payments(0, lambda rows: rows.append(rows[1])), "indexes ascend"),
        ("payments out of order", payments(0, lambda rows: rows.reverse()), "indexes ascend"),
        ("payment of others", payments(0, lambda rows: rows.insert(0, chain.payment(4, 0))), "not of the account"),
        ("payment of another change", payments(0, lambda rows: rows.append(chain.payment(5, 1))), "not in this block"),
        ("first change left out", lambda file: file["changes"].pop(0), "the next one names it"),
        ("last change left out", lambda file: file["changes"].pop(), "the end names it"),
        ("all changes left out", lambda file: file["changes"].clear(), "the end names the last"),
        ("changes out of order", lambda file: file["changes"].reverse(), "heights ascend"),
        ("change twice", lambda file: file["changes"].insert(0, file["changes"][0]), "heights ascend"),
        ("change before from", lambda file: file.update({"from": 5}), "all within"),
        ("change after to", lambda file: file.update(to=4), "all within"),
        ("from above to", lambda file: file.update({"from": 6}), "from is at most to"),
        ("to above the signed block", lambda file: file.update(to=9), "nobody signed it"),
        ("to above the next change", lambda file: file.update(to=6), "the next change lies within"),
        (
            "next change is not the next",
            lambda file: file.update(next=chain.change(BOB.address, 7, 8)),
            "one is left out",
        ),
        (
            "next change is the last one",
            lambda file: file.update(next=chain.change(BOB.address, 5, 8)),
            "it is not above to",
        ),
        ("next change of another account", lambda file: file.update(next=chain.change(CAROL.address, 6, 8)), "address"),
        (
            "state instead of the next change",
            lambda file: file.update(state=chain.state(BOB.address, 8)) or file.pop("next"),
            "touched since",
        ),
        (
            "gap instead of the next change",
            lambda file: file.update(state=chain.state(NOBODY.address, 8)) or file.pop("next"),
            "not in the gap",
        ),
        ("no end", lambda file: file.pop("next"), "one of state and next"),
        ("two ends", lambda file: file.update(state=chain.state(BOB.address, 8)), "one of state and next"),
        ("statement of another address", lambda file: file.update(address=hexed(ALICE.address)), "another address"),
        ("change without payments", lambda file: file["changes"][0].pop("payments"), "missing"),
        ("change with another balance after", lambda file: _set_after(file["changes"][1]), "other root"),
    ]
    yield from _lies(chain, good, lies)
    gap = chain.state(NOBODY.address, 8)
    kept = altered(good, lambda file: file.update(address=hexed(NOBODY.address), state=gap) or file.pop("next"))
    yield Vector("changes of another before a gap", chain.genesis, encode(kept), False, "another address")
    lies = [
        (
            "change before from passed off as in it",
            lambda file: file.update({"from": 1}),
            "the first names an earlier one",
        ),
        ("change in the middle left out", lambda file: file["changes"].pop(1), "the next one names it"),
        ("last change left out before a state", lambda file: file["changes"].pop(), "the state names it"),
        (
            "older state at the end",
            lambda file: file.update(state=chain.state(ALICE.address, 7)),
            "not in the newest state",
        ),
        ("state of another account at the end", lambda file: file.update(state=chain.state(BOB.address, 8)), "address"),
        ("statement that ends too early", lambda file: file.update(to=7), "a change after it"),
        ("payment to oneself left out", payments(0, lambda rows: rows.pop(0)), "the nonce changed by more"),
    ]
    yield from _lies(chain, whole, lies)
    quiet = chain.statement(ALICE.address, 2, 3, 8)
    lies = [
        ("quiet statement from too early", lambda file: file.update({"from": 1}), "a change within"),
        ("quiet statement to too late", lambda file: file.update(to=4), "a change within"),
        (
            "quiet statement by a later change",
            lambda file: file.update(next=chain.change(ALICE.address, 7, 8)),
            "changes within",
        ),
    ]
    yield from _lies(chain, quiet, lies)
    still = chain.statement(CAROL.address, 7, 8, 8)
    lies = [("quiet statement by the state from too early", lambda file: file.update({"from": 6}), "a change within")]
    yield from _lies(chain, still, lies)
    genesis = chain.statement(BOB.address, 0, 1, 8)
    lies = [
        ("genesis left out of a statement from genesis", lambda file: file["changes"].pop(0), "the next one names it")
    ]
    yield from _lies(chain, genesis, lies)
    toy = dev()
    lies = [
        ("set balance hidden", lambda file: file["changes"].pop(1), "the next one names it"),
        ("set balance as a payment", payments(1, lambda rows: rows.append(toy.payment(2, 0))), "not in this block"),
        ("last set balance hidden", lambda file: file["changes"].pop(), "the state names it"),
    ]
    yield from _lies(toy, toy.statement(ALICE.address, 0, 3, 3), lies)


def _set_after(change: Json) -> None:
    leaf = change["leaf"]
    change["leaf"] = leaf[:138] + wide(10**24, 32).hex() + leaf[202:]


class WrongBooks(ProofChain):
    """Whoever signs this chain gives and takes as they like."""

    def give(self, address: bytes, amount: int, payments: list[bytes], proposer: bytes, *, nonces: int = 0) -> None:
        self.add(payments, proposer)
        block, before = self.blocks.pop(), self.newest.held
        touched = {leaf[:20]: block.held[leaf[:20]] for leaf in block.changes}
        was = touched.get(address, before.get(address, Held()))
        touched[address] = Held(was.balance + amount, was.nonce + nonces)
        restored = {each: held._replace(touched=before.get(each, Held()).touched) for each, held in touched.items()}
        self.order = [each for each in self.order if each in before]
        self.time -= 7
        self._seal(block.paid, restored, proposer)


def _wrong_books() -> Iterator[Vector]:
    def books(amount: int, proposer: bytes, *, nonces: int = 0, is_empty: bool = False) -> tuple[ProofChain, Json]:
        chain = WrongBooks("wrong books", balances=FUNDS)
        paid = [] if is_empty else [chain.pay(BOB, CAROL.address, COIN, 0)]
        chain.give(ALICE.address, amount, paid, proposer, nonces=nonces)
        chain.add()
        return chain, chain.statement(ALICE.address, 1, 2, 2)

    fee = 21_000 * 10**9
    other = NOBODY.address
    rows: list[tuple[str, tuple[ProofChain, Json], bool, str]] = [
        ("gift to one who is not the proposer", books(5, other), False, "a rest of 5"),
        ("loss of one who is not the proposer", books(-5, other), False, "a rest of -5"),
        ("loss of the proposer", books(-fee - 5, ALICE.address), False, "a rest below 0"),
        ("fees of the proposer", books(0, ALICE.address), True, "the rest is the fees"),
        ("touch that changes nothing", books(0, other), True, "a rest of 0"),
        ("nonce raised without a payment", books(0, other, nonces=1), False, "nothing was sent"),
        (
            "nonce of the proposer raised without a payment",
            books(0, ALICE.address, nonces=1),
            False,
            "nothing was sent",
        ),
        ("balance set in a block without payments", books(5, other, is_empty=True), False, "no dev chain"),
        ("balance lowered in a block without payments", books(-5, other, is_empty=True), False, "no dev chain"),
        (
            "nonce raised in a block without payments",
            books(0, other, nonces=1, is_empty=True),
            False,
            "nothing was sent",
        ),
    ]
    for name, (chain, file), is_valid, why in rows:
        yield Vector(name, chain.genesis, encode(file), is_valid, why)
    chain = ProofChain("jumping nonces", balances=FUNDS)
    chain.add([chain.pay(ALICE, BOB.address, 1, 0), chain.pay(ALICE, BOB.address, 1, 1)])
    file = chain.statement(ALICE.address, 1, 1, 1)
    swapped: Edit = lambda copy: copy["changes"][0]["payments"].reverse()  # noqa: E731
    yield Vector("nonces out of order", chain.genesis, encode_altered(file, swapped), False, "indexes ascend")
    once: Edit = lambda copy: copy["changes"][0]["payments"].pop(0)  # noqa: E731
    yield Vector(
        "first of two equal payments left out", chain.genesis, encode_altered(file, once), False, "nonce 0 first"
    )
    twice: Edit = lambda copy: copy["changes"][0]["payments"].__setitem__(0, copy["changes"][0]["payments"][1])  # noqa: E731
    yield Vector("one of two equal payments twice", chain.genesis, encode_altered(file, twice), False, "indexes ascend")


def _histories() -> Iterator[Vector]:
    chain, fork = lone(), forked()
    good = chain.history(3, 6, 8)
    path = good["consistency"]

    def consistency(edit: Edit) -> Edit:
        return lambda file: edit(file["consistency"])

    lies: Lies = [
        ("first of a fork", lambda file: file.update(first=hexed(fork.blocks[3].header)), "not in the history"),
        ("first is another ancestor", lambda file: file.update(first=hexed(chain.blocks[4].header)), "other root"),
        ("first is the second", lambda file: file.update(first=file["second"]["header"]), "it must be before"),
        (
            "first is after the second",
            lambda file: file.update(first=hexed(chain.blocks[7].header)),
            "it must be before",
        ),
        ("second of a fork", lambda file: file.update(second=fork.ancestor(6, 8)), "not in the history"),
        (
            "second with the path of another",
            lambda file: file["second"].update(history=chain.ancestor(5, 8)["history"]),
            "other root",
        ),
        ("inclusion of another", lambda file: file.update(inclusion=chain.history(2, 6, 8)["inclusion"]), "other root"),
        ("inclusion with a sibling missing", lambda file: file["inclusion"].pop(), "too short"),
        ("inclusion with a sibling more", lambda file: file["inclusion"].append(hexed(bytes(32))), "too long"),
        ("consistency with a node missing", consistency(lambda rows: rows.pop()), "too short"),
        ("consistency with its first node missing", consistency(lambda rows: rows.pop(0)), "too short"),
        ("consistency with a node more", consistency(lambda rows: rows.append(path[0])), "too long"),
        ("consistency out of order", consistency(lambda rows: rows.reverse()), "other root"),
        ("consistency left empty", consistency(lambda rows: rows.clear()), "too short"),
        (
            "consistency of another block",
            lambda file: file.update(consistency=chain.history(5, 6, 8)["consistency"]),
            "other root",
        ),
        ("consistency left out", lambda file: file.pop("consistency"), "missing"),
        ("history under another head", lambda file: file.update(certificate=chain.certificate(7)), "other root"),
    ]
    yield from _lies(chain, good, lies)
    lies = [
        ("history from genesis with a node", consistency(lambda rows: rows.append(path[0])), "it is empty"),
        ("history from genesis of a fork", lambda file: file.update(first=hexed(fork.blocks[1].header)), "other root"),
    ]
    yield from _lies(chain, chain.history(0, 5, 8), lies)
    whole: Edit = consistency(lambda rows: rows.insert(0, hexed(root_of_history(chain, 4))))
    yield from _lies(chain, chain.history(4, 7, 8), [("consistency that repeats a whole tree", whole, "too long")])
    rewritten = forked_in_history(chain)
    yield Vector("rewritten history", rewritten[0].genesis, encode(rewritten[1]), False, "not only appended to")


def root_of_history(chain: ProofChain, height: int) -> bytes:
    return root(chain.blocks[height].history)


def forked_in_history(chain: ProofChain) -> tuple[ProofChain, Json]:
    """A later block holds the first one in its history, but another one below it."""
    liar = lone()
    block = liar.blocks[2]
    block.hash = bytes(32)
    liar.add()
    honest = lone()
    file: Any = liar.history(5, 9, 9)
    return honest, file
