"""Writes the vectors beside this file: `python -m tests.vectors.proofs.generate`.

`index.json` lists them: a name that says what the file is or what is wrong with it, the genesis and the file, whether a
verifier must accept it and why, what it is asked for (`at`: --at, `witness`: --witness), and if it must say so, that
everybody has the key. Files are named by their
content, so that equal ones are kept once.
"""

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from tests.support.proof_chain import COIN, Json, ProofChain, encode
from tests.vectors.proofs import (
    certificate_lies,
    content_lies,
    edge_cases,
    ends,
    limits,
    origins,
    reading_lies,
    small_order,
)
from tests.vectors.proofs.chains import (
    ALICE,
    BOB,
    CAROL,
    NOBODY,
    TEN,
    Vector,
    dev,
    lone,
    network,
)


def valid_files(chain: ProofChain, head: int) -> Iterator[tuple[str, Json]]:
    """Each kind of file, in each of its forms."""
    miner = chain.proposer_named("ada")
    yield "finality of the signed block", chain.finality(head, head)
    yield "finality of an ancestor", chain.finality(2, head)
    yield "finality of the genesis block", chain.finality(0, head)
    yield "receipt of a legacy payment", chain.receipt(1, 0, head)
    yield "receipt of a type 1 payment with data", chain.receipt(1, 1, head)
    yield "receipt of a type 2 payment", chain.receipt(2, 0, head)
    yield "receipt of a payment to oneself", chain.receipt(4, 0, head)
    yield "receipt of a payment of nothing", chain.receipt(4, 1, head)
    yield "receipt of the last of three payments", chain.receipt(4, 2, head)
    yield "balance at the signed block", chain.account(ALICE.address, head, head)
    yield "balance since its last change", chain.account(CAROL.address, head - 1, head)
    yield "balance before a later change", chain.account(ALICE.address, 2, head)
    yield "balance at genesis", chain.account(BOB.address, 0, head)
    yield "balance before the first touch", chain.account(CAROL.address, 0, head)
    yield "balance of no account", chain.account(NOBODY.address, head, head)
    yield "balance of no account below the lowest", chain.account(bytes(20), 1, head)
    yield "balance of no account above the highest", chain.account(b"\xff" * 20, 1, head)
    yield "statement of everything", chain.statement(ALICE.address, 0, head, head)
    yield "statement that ends before a later change", chain.statement(BOB.address, 1, 5, head)
    yield "statement without changes before a later one", chain.statement(ALICE.address, 2, 3, head)
    yield "statement without changes after the last", chain.statement(miner, head, head, head)
    yield "statement of no account", chain.statement(NOBODY.address, 1, head, head)
    yield "statement from before the first touch", chain.statement(CAROL.address, 0, 4, head)
    yield "statement of the proposer with fees and payments", chain.statement(miner, 1, head, head)
    yield "history from genesis", chain.history(0, head, head)
    yield "history between two ancestors", chain.history(3, 6, head)
    yield "history of a whole tree", chain.history(4, 7, head)
    yield "history of neighbours", chain.history(5, 6, head)


def valid_vectors() -> Iterator[Vector]:
    alone, joint, toy = lone(), network(), dev()
    for name, file in valid_files(alone, 8):
        yield Vector(f"{name}, signed by one node", alone.genesis, encode(file), True, "all holds")
    chosen = ("finality of an", "receipt of a type 1", "balance before a", "balance of no account below")
    for name, file in valid_files(joint, 8):
        if name.startswith((*chosen, "statement that ends", "history between")):
            yield Vector(f"{name}, after three changes of validators", joint.genesis, encode(file), True, "all holds")
    for name, file in {
        "dev chain, receipt": toy.receipt(2, 0, 3),
        "dev chain, statement with balances that were set": toy.statement(ALICE.address, 0, 3, 3),
        "dev chain, statement of a balance that was set and spent": toy.statement(CAROL.address, 1, 3, 3),
    }.items():
        yield Vector(name, toy.genesis, encode(file), True, "all holds; everybody has the key", is_public=True)
    single = ProofChain("single", balances={ALICE.address: COIN})
    single.add()
    for name, address in {"own": ALICE, "another": BOB}.items():
        file = single.account(address.address, 1, 1)
        yield Vector(
            f"one account in all, {name} balance", single.genesis, encode(file), True, "it names itself as next"
        )
    full = ProofChain("full", balances={ALICE.address: COIN})
    full.add([full.pay(ALICE, BOB.address, 1, 0, kind=2, prices=(0, 10**9), data=b"\xff\0" * 128, gas=50_000)])
    yield Vector("256 bytes of data", full.genesis, encode(full.receipt(1, 0, 1)), True, "as many as may be")
    early = network().finality(4, 4)
    yield Vector("network after one change of validators", network().genesis, encode(early), True, "all holds")
    few = network(TEN, seed="few")
    three = few.finality(8, 8)
    three["certificate"] = few.certificate(8, signers=[0, 1, 3])
    yield Vector("three of four validators signed", few.genesis, encode(three), True, "more than two thirds")


def write(vectors: list[Vector], place: Path) -> None:
    files = place / "files"
    files.mkdir(exist_ok=True)
    for old in files.iterdir():
        old.unlink()

    def kept(content: bytes, what: str) -> str:
        name = f"{what}-{sha256(content).hexdigest()[:12]}.json"
        (files / name).write_bytes(content)
        return f"files/{name}"

    index = []
    for vector in vectors:
        row: Json = {
            "name": vector.name,
            "genesis": kept(vector.genesis, "genesis"),
            "file": kept(vector.file, "proof"),
            "valid": vector.valid,
            "why": vector.why,
        }
        row |= {key: text for key in ("at", "witness") if (text := getattr(vector, key)) is not None}
        index.append(row | ({"everybodyHasTheKey": True} if vector.is_public else {}))
    names = [vector.name for vector in vectors]
    assert len(set(names)) == len(names), "each vector has a name of its own"
    (place / "index.json").write_text(json.dumps(index, indent=1) + "\n")


def all_vectors() -> list[Vector]:
    parts = (
        valid_vectors(),
        certificate_lies.vectors(),
        content_lies.vectors(),
        reading_lies.vectors(),
        edge_cases.vectors(),
        small_order.vectors(),
        origins.vectors(),
        ends.vectors(),
        limits.vectors(),
    )
    return [vector for part in parts for vector in part]


if __name__ == "__main__":
    write(all_vectors(), Path(__file__).parent)
