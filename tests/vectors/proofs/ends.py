"""Vectors about the blocks at the ends of a statement, which show of which days it is."""

from collections.abc import Iterator

from tests.support.proof_chain import Json, encode, hexed, root
from tests.vectors.proofs.chains import ALICE, NOBODY, Edit, Vector, encode_altered, forked, inside, lone, sign_header

HIGHEST = 2**64 - 1
HEAD = 8


def vectors() -> Iterator[Vector]:
    yield from _good()
    yield from _bad()
    yield _at_the_highest()


def _blocks(*heights: int) -> list[Json]:
    return [lone().ancestor(height, HEAD) for height in heights]


def _good() -> Iterator[Vector]:
    chain = lone()
    for first, last, heights in (
        (4, 6, []),
        (4, 6, [3, 4, 6, 7]),
        (4, 6, [4]),
        (4, 6, [3, 7]),
        (4, 6, [4, 6]),
        (5, 5, [4, 5, 6]),
        (5, 6, [4, 5, 6, 7]),
        (0, 6, [0, 6, 7]),
        (4, 8, [3, 4, 8]),
        (0, 8, [0, 8]),
    ):
        named = ", ".join(map(str, heights)) or "none"
        file = chain.statement(ALICE.address, first, last, HEAD) | {"ends": _blocks(*heights)}
        yield Vector(f"ends of {first} to {last}: {named}", chain.genesis, encode(file), True, "all holds")
    named_block = f"{HEAD}:{hexed(chain.newest.hash)}"
    file = chain.statement(ALICE.address, 4, 6, HEAD) | {"ends": _blocks(3, 4, 6, 7)}
    yield Vector("ends under a trusted block", chain.genesis, encode(file), True, "all holds", at=named_block)


def _bad() -> Iterator[Vector]:
    chain = lone()
    good = chain.statement(ALICE.address, 4, 6, HEAD) | {"ends": _blocks(3, 4, 6, 7)}
    other = forked().ancestor(4, HEAD)

    def second(edit: Edit) -> Edit:
        return inside(edit, "ends", 1)

    lies: dict[str, tuple[Edit, str]] = {
        "below the block before": (lambda file: file.update(ends=_blocks(2)), "it is at neither end"),
        "above the block after": (lambda file: file.update(ends=_blocks(8)), "it is at neither end"),
        "in the middle": (lambda file: file.update(ends=_blocks(5)), "it is at neither end"),
        "all four, and one in the middle": (
            lambda file: file.update(ends=_blocks(3, 4, 5, 6, 7)),
            "one is at neither end",
        ),
        "descending": (lambda file: file["ends"].reverse(), "heights ascend"),
        "two swapped": (lambda file: file.update(ends=_blocks(4, 3, 6, 7)), "heights ascend"),
        "doubled": (lambda file: file.update(ends=_blocks(4, 4)), "heights ascend"),
        "all doubled": (lambda file: file["ends"].extend(_blocks(3, 4, 6, 7)), "heights ascend"),
        "of a fork": (lambda file: file["ends"].__setitem__(1, other), "not in the history"),
        "of a fork with the right path": (
            second(lambda block: block.update(header=other["header"])),
            "not in the history",
        ),
        "with the path of another": (second(lambda block: block.update(history=_blocks(6)[0]["history"])), "path"),
        "with an altered path": (
            second(lambda block: block["history"].__setitem__(0, hexed(bytes(32)))),
            "it gives another root",
        ),
        "with a sibling missing": (second(lambda block: block["history"].pop()), "too short"),
        "with a sibling more": (second(lambda block: block["history"].append(hexed(bytes(32)))), "too long"),
        "without a path": (second(lambda block: block.pop("history")), "missing"),
        "as hashes": (lambda file: file.update(ends=[block["header"] for block in file["ends"]]), "not blocks"),
        "as one block": (lambda file: file.update(ends=file["ends"][0]), "not a list"),
        "with an empty list among them": (lambda file: file["ends"].append([]), "not a block"),
    }
    for name, (edit, why) in lies.items():
        yield Vector(f"ends {name}", chain.genesis, encode_altered(good, edit), False, why)
    same = chain.statement(ALICE.address, 5, 5, HEAD) | {"ends": _blocks(5, 5)}
    yield Vector("ends of one block, doubled", chain.genesis, encode(same), False, "heights ascend")
    start = chain.statement(ALICE.address, 0, 3, HEAD) | {"ends": _blocks(HEAD)}
    yield Vector("ends from block 0, with the head", chain.genesis, encode(start), False, "it is at neither end")
    account = chain.account(ALICE.address, HEAD, HEAD) | {"ends": "nobody reads it"}
    yield Vector("ends of a balance, mistyped", chain.genesis, encode(account), True, "unknown keys are ignored")


def _at_the_highest() -> Vector:
    """A signed block of the highest number there is, which is 0 less one in 64 bits."""
    chain = lone()
    file = chain.statement(NOBODY.address, 0, 3, HEAD)
    header = chain.encode_header(
        height=HIGHEST,
        proposer=bytes(20),
        state=root(chain.newest.state),
        transactions=root([]),
        changes=root([]),
        history=bytes(32),
        count=0,
        gas_used=0,
        parent=bytes(32),
    )
    file |= {"certificate": sign_header(chain, header), "ends": [{"header": hexed(header), "history": []}]}
    return Vector("ends from block 0, with block 2^64-1", chain.genesis, encode(file), False, "it is at neither end")
