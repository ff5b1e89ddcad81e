"""Vectors about who signed: certificates, steps from genesis, witnesses, and blocks that one trusts already."""

from collections.abc import Iterator
from typing import Any

from tests.support.proof_chain import (
    Json,
    ProofChain,
    Validator,
    encode,
    hexed,
    in_order,
    root,
    seeded,
    set_hash,
    vote_bytes,
    wide,
)
from tests.vectors.proofs.chains import (
    ALICE,
    TEN,
    Edit,
    Vector,
    altered,
    bad_headers,
    encode_altered,
    forked,
    inside,
    lone,
    network,
    setting,
    sign_header,
)

SIGNED = ("certificate", "signed")
ED_ORDER = 2**252 + 27742317777372353535851937790883648493
WITNESS = Validator(seeded("witness"), 1)
OTHER_WITNESS = Validator(seeded("another witness"), 1)


def vectors() -> Iterator[Vector]:
    yield from _power()
    yield from _signatures()
    yield from _signed_headers()
    yield from _steps()
    yield from _public_keys()
    yield from _headers()
    yield from _trusted_blocks()
    yield from _witnesses()


def _signed(file: Json) -> Any:
    return file["certificate"]["signed"]


def _power() -> Iterator[Vector]:
    chain = network(TEN, seed="few")
    thirds = network(dict.fromkeys(("ada", "ben", "cy"), 7), seed="thirds")
    uneven = network({"ada": 34, "ben": 33, "cy": 33}, seed="uneven")
    rows: list[tuple[str, ProofChain, list[int], bool, str]] = [
        ("nobody signed", chain, [], False, "no power signed"),
        ("two of four validators signed", chain, [0, 2], False, "half of the power signed"),
        ("exactly two thirds signed", thirds, [0, 2], False, "it must be more than two thirds"),
        ("66 of 100 signed", uneven, [1, 2], False, "it must be more than two thirds"),
        ("67 of 100 signed", uneven, [0, 2], True, "more than two thirds"),
        ("all of three signed", thirds, [0, 1, 2], True, "more than two thirds"),
    ]
    for name, of, signers, is_valid, why in rows:
        file = of.account(ALICE.address, 8, 8) | {"certificate": of.certificate(8, signers=signers)}
        yield Vector(name, of.genesis, encode(file), is_valid, why)


def _signatures() -> Iterator[Vector]:
    chain = network(TEN, seed="few")
    good = chain.account(ALICE.address, 8, 8)
    validators, time = chain.validators_at(9), chain.newest.time
    leaves = chain.engine_leaves(9, chain.newest.hash, time)
    parts = (1, seeded("few parts 9"))

    def vote(number: int, by: int | None = None, **other: Any) -> str:
        """The signature of a validator on something else."""
        fields: Json = {
            "engine_id": chain.engine_id,
            "height": 9,
            "at_round": 0,
            "block_hash": root(leaves),
            "parts": parts,
            "time": (time, 1_000 * number),
        }
        signer = validators[number if by is None else by]
        return hexed(signer.sign(vote_bytes(**(fields | other))))

    assert _signed(good)["signatures"][1]["signature"] == vote(1)
    prevote = bytearray(vote_bytes(chain.engine_id, 9, 0, root(leaves), parts, (time, 1_000)))
    prevote[2] = 1
    right = bytes.fromhex(vote(1)[2:])
    raised = right[:32] + (int.from_bytes(right[32:], "little") + ED_ORDER).to_bytes(32, "little")
    other = network(TEN, seed="other")
    for name, signature, why in [
        ("signature of another validator", vote(1, by=0), "validator 0 signed it, not 1"),
        ("signature on nil", vote(1, block_hash=b"", parts=(0, b"")), "a vote for no block"),
        ("signature on another height", vote(1, height=10), "it signs height 10"),
        ("signature on another round", vote(1, at_round=1), "it signs round 1"),
        ("signature on another block", vote(1, block_hash=seeded("another")), "it signs another header"),
        ("signature on other parts", vote(1, parts=(2, parts[1])), "it signs other parts"),
        ("signature at another time", vote(1, time=(time + 1, 1_000)), "it signs another time"),
        ("signature for another chain", vote(1, engine_id=other.engine_id), "it signs for another genesis"),
        ("signature on a prevote", hexed(validators[1].sign(bytes(prevote))), "a prevote decides nothing"),
        ("signature with S above the order", hexed(raised), "S must be below L"),
        ("signature of zeros", hexed(bytes(64)), "wrong signature"),
        ("signature of an absent validator", "0x", "there is no signature"),
        ("signature of 63 bytes", hexed(right[:-1]), "a signature has 64 bytes"),
        ("signature of 65 bytes", hexed(right + b"\0"), "a signature has 64 bytes"),
    ]:
        edit = inside(setting(signature=signature), *SIGNED, "signatures", 1)
        yield Vector(name, chain.genesis, encode_altered(good, edit), False, why)
    for name, edit, why in [
        ("same signature twice", lambda rows: rows.insert(1, dict(rows[0])), "validator 0 counts once"),
        ("validator counted under another number", lambda rows: rows[1].update(rows[0], validator=1), "not its key"),
        ("signatures out of order", lambda rows: rows.reverse(), "numbers must ascend"),
        ("validator that does not exist", lambda rows: rows[3].update(validator=4), "there are four"),
        ("time of a vote altered", lambda rows: rows[0].update(seconds=rows[0]["seconds"] + 1), "the vote has a time"),
        ("nanoseconds of a vote altered", lambda rows: rows[0].update(nanos=1), "the vote has a time"),
        (
            "two validators swapped",
            lambda rows: rows[0].update(validator=1) or rows[1].update(validator=0),
            "not theirs",
        ),
    ]:
        yield Vector(name, chain.genesis, encode_altered(good, inside(edit, *SIGNED, "signatures")), False, why)


def _signed_headers() -> Iterator[Vector]:
    chain = network(TEN, seed="few")
    good = chain.account(ALICE.address, 8, 8)
    for name, edit, why in [
        ("round altered", lambda signed: signed.update(round=1), "votes name the round"),
        ("total of parts altered", lambda signed: signed["parts"].update(total=2), "votes name the parts"),
        ("hash of parts altered", lambda signed: signed["parts"].update(hash=hexed(bytes(32))), "votes name the parts"),
        ("hash of parts left out", lambda signed: signed["parts"].update(hash="0x"), "votes name the parts"),
        ("a field of the signed header altered", lambda signed: signed["header"].__setitem__(6, "0x"), "other hash"),
        ("thirteen fields in the signed header", lambda signed: signed["header"].pop(), "there are fourteen"),
        ("fifteen fields in the signed header", lambda signed: signed["header"].append("0x"), "there are fourteen"),
    ]:
        yield Vector(name, chain.genesis, encode_altered(good, inside(edit, *SIGNED)), False, why)
    validators, newest = chain.validators_at(9), chain.newest
    forgers = in_order(Validator(seeded(f"forger {name}"), 10) for name in TEN)
    other = network(TEN, seed="other")
    rows: list[tuple[str, int, bytes, str]] = [
        ("signed header of another chain id", 1, b"\x0a\x0acairn-4711", "another engine chain id"),
        ("signed header of another genesis", 1, b"\x0a" + bytes([len(other.engine_id)]) + other.engine_id.encode(), ""),
        ("signed height with a byte more than needed", 2, b"\x08\x89\x00", "a varint is as short as it can be"),
        ("signed height of zero", 2, b"", "there is no height 0"),
        ("signed height zero written out", 2, b"\x08\x00", "there is no height 0"),
        ("signed height with a field more", 2, b"\x08\x09\x10\x01", "the leaf is not that of a height"),
        ("signed height under another tag", 2, b"\x10\x09", "the leaf is not that of a height"),
        ("signed header of other validators", 7, b"\x0a\x20" + set_hash(forgers), "not genesis' validators"),
        ("signed header without validators", 7, b"", "not genesis' validators"),
        ("app hash of another block", 10, b"\x0a\x20" + chain.blocks[7].hash, "another block was signed"),
        ("app hash empty", 10, b"", "no block was signed"),
        ("app hash of 31 bytes", 10, b"\x0a\x1f" + newest.hash[:31], "another block was signed"),
    ]
    for name, leaf, content, why in rows:
        leaves = chain.engine_leaves(9, newest.hash, newest.time)
        leaves[leaf] = content
        signed = chain.sign(leaves, 9, newest.time, validators)
        file = altered(good, inside(setting(signed=signed), "certificate"))
        yield Vector(name, chain.genesis, encode(file), False, why or "another engine chain id")
    leaves = chain.engine_leaves(9, newest.hash, newest.time)
    forged = chain.sign(leaves, 9, newest.time, forgers)
    file = altered(good, lambda file: file["certificate"].update(signed=forged))
    yield Vector("signed by forged validators", chain.genesis, encode(file), False, "not genesis' validators signed")
    leaves[7] = b"\x0a\x20" + set_hash(forgers)
    forged = chain.sign(leaves, 9, newest.time, forgers)
    file = altered(good, lambda file: file["certificate"].update(signed=forged))
    yield Vector(
        "forged validators named by their header", chain.genesis, encode(file), False, "not genesis' validators"
    )
    yield Vector("genesis of another network", other.genesis, encode(good), False, "signatures are for one genesis")


def _steps() -> Iterator[Vector]:
    chain = network()
    good = chain.account(ALICE.address, 8, 8)
    two = chain.account(ALICE.address, 6, 6)

    def lie(name: str, edit: Edit, why: str, file: Json = two) -> Vector:
        return Vector(name, chain.genesis, encode_altered(file, inside(edit, "certificate", "steps")), False, why)

    yield lie("first step left out", lambda steps: steps.pop(0), "genesis' validators did not sign the second")
    yield lie(
        "second step left out", lambda steps: steps.pop(1), "the first new validators did not sign the third", good
    )
    yield lie("last step left out", lambda steps: steps.pop(), "the last validators are unknown")
    yield lie("all steps left out", lambda steps: steps.clear(), "genesis' validators did not sign the block")
    yield lie("steps swapped", lambda steps: steps.reverse(), "steps ascend")
    yield lie("step twice", lambda steps: steps.insert(1, steps[0]), "heights of steps strictly ascend")
    yield lie("step with more power for one", lambda steps: steps[1]["validators"][0].update(power=21), "other hash")
    yield lie("step with a validator left out", lambda steps: steps[1]["validators"].pop(), "other hash")
    yield lie("step without validators", lambda steps: steps[1]["validators"].clear(), "nobody could sign after it")
    yield lie("step with validators out of order", lambda steps: steps[0]["validators"].reverse(), "CometBFT's order")
    yield lie(
        "step with another key",
        lambda steps: steps[1]["validators"][2].update(publicKey=hexed(bytes(32))),
        "other hash",
    )
    short = hexed(bytes(31))
    yield lie(
        "step with a key of 31 bytes", lambda steps: steps[1]["validators"][2].update(publicKey=short), "32 bytes"
    )

    yield from _steps_to_strangers()


def _steps_to_strangers() -> Iterator[Vector]:
    chain = network(TEN, seed="few")
    forgers = in_order(Validator(seeded(f"forger {name}"), 10) for name in TEN)

    def step(
        validators: list[Validator], by: list[Validator], height: int = 2, of: list[Validator] | None = None
    ) -> Json:
        """A step to any validators, signed by any, in the name of `of`, or else of genesis' validators."""
        leaves = chain.engine_leaves(height, chain.blocks[height - 1].hash, chain.blocks[height - 1].time)
        leaves[7] = b"\x0a\x20" + set_hash(of or first)
        leaves[8] = b"\x0a\x20" + set_hash(validators)
        rows = [{"publicKey": hexed(each.key), "power": each.power} for each in validators]
        return {"signed": chain.sign(leaves, height, chain.blocks[height - 1].time, by), "validators": rows}

    def head(by: list[Validator], height: int = 4) -> Json:
        """The newest block's certificate by any validators, who name themselves."""
        block = chain.blocks[height - 1]
        leaves = chain.engine_leaves(height, block.hash, block.time)
        leaves[7] = b"\x0a\x20" + set_hash(by)
        return {"signed": chain.sign(leaves, height, block.time, by), "header": hexed(block.header)}

    def ending(name: str, steps: list[Json], by: list[Validator], why: str, *, is_valid: bool = False) -> Vector:
        file = chain.account(ALICE.address, 3, 3) | {"certificate": {"steps": steps, **head(by)}}
        return Vector(name, chain.genesis, encode(file), is_valid, why)

    first, largest = chain.validators_at(1), [Validator(seeded("largest"), 2**53 - 1)]
    yield ending("step to the largest power", [step(largest, first)], largest, "all holds", is_valid=True)
    again = [step(largest, first, 2), step(first, largest, 2, largest)]
    yield ending("two steps at one height", again, first, "heights of steps strictly ascend")
    back = [step(largest, first, 3), step(first, largest, 2, largest)]
    yield ending("steps in descending order", back, first, "heights of steps strictly ascend")
    onward = [step(largest, first, 2), step(first, largest, 3, largest)]
    yield ending("steps away and back", onward, first, "each changes the validators", is_valid=True)
    same = "a step changes the validators"
    yield ending("step that changes nothing", [step(first, first)], first, same)
    idly = [step(largest, first, 2), step(largest, largest, 3, largest)]
    yield ending("step that changes nothing after one that does", idly, largest, same)
    mighty = [Validator(seeded("mighty"), 2**53)]
    yield ending("step to a power of 2^53", [step(mighty, first)], mighty, "a power is at most 2^53-1")
    idle = [*largest, Validator(seeded("idle"), 0)]
    yield ending("step to a validator without power", [step(idle, first)], idle, "a power is at least 1")
    twice = in_order([Validator(seeded("twice"), 10), Validator(seeded("twice"), 9), Validator(seeded("twice"), 8)])
    yield ending("step to one key three times", [step(twice, first)], twice, "a key counts once")
    yield ending("step to one key twice with equal power", [step([largest[0]] * 2, first)], [largest[0]] * 2, "once")
    yield ending("step signed by the new validators", [step(forgers, forgers)], forgers, "the old ones sign a step")
    half = step(forgers, first)
    half["signed"]["signatures"] = half["signed"]["signatures"][:2]
    yield ending("step signed by half", [half], forgers, "more than two thirds sign a step")
    yield ending("step at the height of the signed header", [step(largest, first, 4)], largest, "it must be above")
    yield ending("step above the signed header", [step(largest, first, 5)], largest, "it must be above")
    unsorted = list(reversed(in_order(Validator(seeded(f"forger {name}"), n) for n, name in enumerate(TEN, 1))))
    yield ending("step to validators in another order", [step(unsorted, first)], unsorted, "power descending")
    equal = list(reversed(forgers))
    yield ending("step to equal validators in another order", [step(equal, first)], equal, "then address ascending")


def _public_keys() -> Iterator[Vector]:
    """A dev chain's key among those who sign, from genesis or from a step on, alone or not, and with any power."""
    handed_over = ProofChain("handed over", is_dev=True)
    handed_over.change_validators({"anybody": 1}, 2)
    among = ProofChain("among", TEN | {"everybody": 1}, chain_id=4711)
    passing = ProofChain("passing", TEN, chain_id=4711)
    passing.change_validators(TEN | {"everybody": 1}, 2)
    passing.change_validators(TEN, 3)
    powerful = ProofChain("powerful", {"ada": 1}, chain_id=4711)
    powerful.change_validators({"everybody": 7}, 2)
    for name, chain in {
        "dev chain's key handed over to another": handed_over,
        "dev chain's key among genesis' validators": among,
        "dev chain's key among the validators between two steps": passing,
        "dev chain's key alone after a step, with another power": powerful,
    }.items():
        for _ in range(3):
            chain.add()
        why = "all holds; everybody has the key"
        yield Vector(name, chain.genesis, encode(chain.finality(3, 3)), True, why, is_public=True)


def _headers() -> Iterator[Vector]:
    chain, fork = lone(), forked()
    for name, header in bad_headers(chain).items():
        file = chain.account(ALICE.address, 8, 8) | {"certificate": sign_header(chain, header)}
        yield Vector(f"signed block with {name}", chain.genesis, encode(file), False, name)
    good = chain.finality(2, 8)
    for name, edit, why in [
        ("path in the history with a sibling missing", lambda block: block["history"].pop(), "too short"),
        (
            "path in the history with a sibling more",
            lambda block: block["history"].append(hexed(bytes(32))),
            "too long",
        ),
        ("path in the history out of order", lambda block: block["history"].reverse(), "other root"),
        (
            "path in the history of another block",
            lambda block: block.update(chain.ancestor(3, 8) | {"header": block["header"]}),
            "other root",
        ),
        ("block of a fork", lambda block: block.update(fork.ancestor(2, 8)), "not in this history"),
        ("header of a fork", lambda block: block.update(header=hexed(fork.blocks[2].header)), "not in this history"),
        (
            "block above the signed one",
            lambda block: block.update(header=hexed(chain.blocks[8].header)),
            "path not empty",
        ),
        (
            "sibling of 31 bytes",
            lambda block: block["history"].__setitem__(0, hexed(bytes(31))),
            "hashes have 32 bytes",
        ),
    ]:
        yield Vector(name, chain.genesis, encode_altered(good, inside(edit, "block")), False, why)
    itself = altered(chain.finality(8, 8), lambda file: file["block"].update(history=[hexed(bytes(32))]))
    yield Vector(
        "path of the signed block in its own history", chain.genesis, encode(itself), False, "it must be empty"
    )
    later = altered(
        chain.finality(5, 5), lambda file: file.update(block={"header": hexed(chain.blocks[6].header), "history": []})
    )
    yield Vector("block later than the signed one", chain.genesis, encode(later), False, "only ancestors are proven")
    swapped = altered(good, lambda file: file["certificate"].update(header=hexed(chain.blocks[7].header)))
    yield Vector("header that was not signed", chain.genesis, encode(swapped), False, "app hash of another block")
    forged = altered(chain.finality(2, 8), lambda file: file.update(certificate=fork.certificate(8)))
    yield Vector("signed head of a fork, block of ours", chain.genesis, encode(forged), False, "not in that history")
    yield Vector(
        "fork signed by the operator",
        chain.genesis,
        encode(fork.finality(2, 8)),
        True,
        "the signer signed two histories: only a witness or a trusted block tells",
    )


def _trusted_blocks() -> Iterator[Vector]:
    chain, fork = lone(), forked()
    file = chain.receipt(1, 1, 6)
    later = file | {"descendants": [chain.descendant(8, 6), chain.descendant(6, 6), chain.descendant(7, 6)]}
    at = {height: f"{height}:{hexed(chain.blocks[height].hash)}" for height in range(9)}

    def unsigned(copy: Json) -> None:
        copy["certificate"].update(signed=7, steps="none")

    def bare(copy: Json) -> None:
        del copy["certificate"]["signed"], copy["certificate"]["steps"]

    forged = altered(file, lambda copy: _signed(copy)["signatures"].clear())
    amount = altered(file, lambda copy: copy["payment"].update(chain.payment(1, 0) | {"index": 1}))
    rows: list[tuple[str, Json, str, bool, str]] = [
        ("trusted block is the signed one", file, at[6], True, "all holds"),
        ("trusted block is a descendant", later, at[8], True, "the signed block is in its history"),
        ("trusted block is the signed one as descendant", later, at[6], True, "all holds"),
        ("trusted block is not in the file", file, at[8], False, "no block of the file has this hash"),
        ("trusted block is an ancestor only", file, at[1], False, "neither the signed block nor a descendant"),
        ("trusted hash at another height", file, "7:" + hexed(chain.blocks[6].hash), False, "the block has height 6"),
        ("trusted height with another hash", file, "6:" + hexed(fork.blocks[6].hash), False, "another block there"),
        ("trusted block, signatures missing", forged, at[6], True, "signatures are not looked at"),
        ("trusted block, certificate unreadable", altered(file, unsigned), at[6], True, "it may be anything"),
        ("trusted block, certificate left out", altered(file, bare), at[6], True, "it is not looked at"),
        ("trusted block, payment forged", amount, at[6], False, "everything else is looked at"),
        ("trusted descendant, signatures missing", later | {"certificate": forged["certificate"]}, at[8], True, "so"),
    ]
    for name, content, trusted, is_valid, why in rows:
        yield Vector(name, chain.genesis, encode(content), is_valid, why, at=trusted)
    other = network(TEN, seed="other")
    yield Vector("trusted block, genesis of another chain", other.genesis, encode(file), False, "chain id", at=at[6])


def _witnesses() -> Iterator[Vector]:
    chain, fork = lone(), forked()
    file, other = chain.account(ALICE.address, 6, 6), lone("another lone")
    key = hexed(WITNESS.key)
    signed = chain.descendant(8, 6, [OTHER_WITNESS, WITNESS])
    message = b"cairn witness 1\0" + chain.digest + wide(8, 8) + chain.blocks[8].hash

    def signs(content: bytes) -> Json:
        return signed | {"witnesses": [{"publicKey": key, "signature": hexed(WITNESS.sign(content))}]}

    moved = signed | {"witnesses": chain.descendant(7, 6, [WITNESS])["witnesses"]}
    renamed = signed | {"witnesses": [{"publicKey": key, "signature": signed["witnesses"][0]["signature"]}]}
    either = signed | {"witnesses": [*renamed["witnesses"], *signed["witnesses"]]}
    elsewhere = signs(b"cairn witness 1\0" + other.digest + message[48:])
    rows: list[tuple[str, list[Json], bool, str]] = [
        ("witness signed a descendant", [signed], True, "all holds"),
        ("witness signed the signed block", [chain.descendant(6, 6, [WITNESS])], True, "all holds"),
        ("witness signed the second descendant", [chain.descendant(7, 6), signed], True, "all holds"),
        ("witness signed wrongly and rightly", [either], True, "one valid signature is enough"),
        ("no witness signed", [chain.descendant(8, 6)], False, "there is no signature of the witness"),
        ("no descendants", [], False, "there is no signature of the witness"),
        ("another witness signed", [chain.descendant(8, 6, [OTHER_WITNESS])], False, "not the one asked for"),
        ("another witness signed in its name", [renamed], False, "wrong signature"),
        ("witness signed another block", [moved], False, "wrong signature"),
        ("witness signed for another genesis", [elsewhere], False, "wrong signature"),
        ("witness signed another height", [signs(message.replace(wide(8, 8), wide(7, 8)))], False, "wrong signature"),
        ("witness signed without the word", [signs(message[16:])], False, "wrong signature"),
    ]
    for name, descendants, is_valid, why in rows:
        content = encode(file | {"descendants": descendants})
        yield Vector(name, chain.genesis, content, is_valid, why, witness=key)
    yield Vector("witness asked for, no descendants at all", chain.genesis, encode(file), False, "none", witness=key)
    yield Vector("witnesses that nobody asks for", chain.genesis, encode(file | {"descendants": [renamed]}), True, "so")
    wrong: list[tuple[str, Json, str]] = [
        ("descendant of a fork", fork.descendant(8, 6), "the signed block is not in its history"),
        (
            "descendant below the signed block",
            chain.descendant(8, 6) | {"header": hexed(chain.blocks[4].header)},
            "below",
        ),
        (
            "descendant with another path",
            chain.descendant(8, 6) | {"history": chain.descendant(8, 5)["history"]},
            "path",
        ),
        ("descendant that is the signed block with a path", chain.descendant(6, 6) | {"history": [key]}, "not empty"),
        ("descendant without witnesses", {"header": signed["header"], "history": signed["history"]}, "missing"),
        (
            "descendant with a witness key of 31 bytes",
            signed | {"witnesses": [{"publicKey": key[:-2], "signature": signed["witnesses"][0]["signature"]}]},
            "32 bytes",
        ),
        (
            "descendant with a witness signature of 63 bytes",
            signed | {"witnesses": [{"publicKey": key, "signature": signed["witnesses"][0]["signature"][:-2]}]},
            "64 bytes",
        ),
    ]
    for name, descendant, why in wrong:
        yield Vector(name, chain.genesis, encode(file | {"descendants": [descendant]}), False, why)
    history = path_from_next(6)
    for name, header in list(bad_headers(chain).items())[:3]:
        descendant = {"header": hexed(header), "history": history, "witnesses": []}
        content = encode(file | {"descendants": [descendant]})
        yield Vector(f"descendant with {name}", chain.genesis, content, False, name)


def path_from_next(height: int) -> list[str]:
    """Where a block of the lone chain is in the history of the one that would come after the newest."""
    chain = lone()
    chain.add()
    return list(chain.descendant(chain.height, height)["history"])
