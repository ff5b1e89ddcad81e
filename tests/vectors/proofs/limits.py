"""Vectors about sizes, each as large as it may be and one more; and about genesis files as nobody writes them."""

import json
from collections.abc import Iterator

from tests.support.proof_chain import COIN, Json, ProofChain, Validator, encode, hexed, in_order, seeded, vote_bytes
from tests.support.proof_chain import root as root_of
from tests.vectors.proofs.chains import ALICE, BOB, FUNDS, TEN, Vector, altered, lone, network

MOST_BYTES = 1_024
MOST_HASHES = 64
MOST_VALIDATORS = 1_000
MOST_DESCENDANTS = 64
MOST_WITNESSES = 16


def vectors() -> Iterator[Vector]:
    yield from _bytes()
    yield from _paths()
    yield from _validators()
    yield from _witnesses()
    yield from _genesis_files()


def _bytes() -> Iterator[Vector]:
    chain = lone()
    good = chain.finality(8, 8)
    for size in (MOST_BYTES, MOST_BYTES + 1):
        is_valid, why = size <= MOST_BYTES, f"bytes are at most {MOST_BYTES}"
        leaves = chain.engine_leaves(9, chain.newest.hash, chain.newest.time)
        leaves[6] = bytes(size)
        signed = chain.sign(leaves, 9, chain.newest.time, chain.validators_at(9))
        file = good | {"certificate": good["certificate"] | {"signed": signed}}
        yield Vector(f"leaf of {size} bytes in a signed header", chain.genesis, encode(file), is_valid, why)
        yield Vector(f"hash of parts of {size} bytes", chain.genesis, encode(_parts(chain, size)), is_valid, why)
    file = altered(good, lambda file: file["certificate"].update(header=hexed(bytes(10_000))))
    yield Vector("header of 10,000 bytes", chain.genesis, encode(file), False, f"bytes are at most {MOST_BYTES}")
    paid = ProofChain("long transaction", balances=FUNDS)
    paid.add_raw([paid.pay(ALICE, BOB.address, COIN, 0, data=bytes(1_000))])
    content = encode(paid.receipt(1, 0, 1))
    yield Vector("transaction of more than 1,024 bytes", paid.genesis, content, False, "data is at most 256")


def _parts(chain: ProofChain, size: int) -> Json:
    file = chain.finality(8, 8)
    signed = file["certificate"]["signed"]
    leaves = chain.engine_leaves(9, chain.newest.hash, chain.newest.time)
    row, parts = signed["signatures"][0], (1, bytes(size))
    message = vote_bytes(chain.engine_id, 9, 0, root_of(leaves), parts, (row["seconds"], 0))
    row["signature"] = hexed(chain.signer.sign(message))
    signed["parts"] = {"total": 1, "hash": hexed(parts[1])}
    return file


def _paths() -> Iterator[Vector]:
    chain = lone()
    for count in (MOST_HASHES, MOST_HASHES + 1):
        file = chain.finality(2, 8)
        file["block"]["history"] = [hexed(bytes(32))] * count
        yield Vector(f"path of {count} hashes", chain.genesis, encode(file), False, "longer than any tree is high")


def _validators() -> Iterator[Vector]:
    """One has nearly all the power, and signs."""
    for count in (MOST_VALIDATORS, MOST_VALIDATORS + 1):
        chain = ProofChain("many validators", {"ada": 10}, balances=FUNDS)
        chain.add()
        chain.add()
        many = [Validator(seeded(f"one of many {number}"), 1) for number in range(count - 1)]
        chain.sets[2] = in_order([Validator(seeded("mighty"), 10_000_000), *many])
        file: Json = chain.finality(2, 2)
        file["certificate"] = chain.certificate(2, signers=[0])
        why = f"a set has at most {MOST_VALIDATORS} validators"
        yield Vector(f"step to {count} validators", chain.genesis, encode(file), count <= MOST_VALIDATORS, why)


def _witnesses() -> Iterator[Vector]:
    chain = ProofChain("watched by many", balances=FUNDS)
    chain.add()
    file = chain.finality(1, 1)
    bare = {"header": hexed(chain.newest.header), "history": [], "witnesses": []}
    for count in (MOST_DESCENDANTS, MOST_DESCENDANTS + 1):
        content, why = encode(file | {"descendants": [bare] * count}), f"at most {MOST_DESCENDANTS} descendants"
        yield Vector(f"{count} descendants", chain.genesis, content, count <= MOST_DESCENDANTS, why)
    witness = Validator(seeded("one of many witnesses"), 1)
    wrong = {"publicKey": hexed(witness.key), "signature": hexed(bytes(64))}
    right = chain.descendant(1, 1, [witness])["witnesses"]
    for count in (MOST_WITNESSES, MOST_WITNESSES + 1):
        rows = [bare | {"witnesses": [wrong] * (count - 1) + right}]
        content, why = encode(file | {"descendants": rows}), f"at most {MOST_WITNESSES} witnesses of a block"
        is_valid, key = count <= MOST_WITNESSES, hexed(witness.key)
        yield Vector(f"{count} witnesses of a block", chain.genesis, content, is_valid, why, witness=key)


def _genesis_files() -> Iterator[Vector]:
    """Files with the same content in other bytes have another digest, which nobody has signed."""
    alone, joint = lone(), network(TEN, seed="few")
    for chain in (alone, joint):
        who = "one node" if chain is alone else "a network"
        content = encode(chain.finality(8, 8))
        fields = json.loads(chain.genesis)
        key = fields["signer"] if chain is alone else fields["validators"][0]["publicKey"]
        quoted = f'"{key}"'.encode()
        for name, genesis in {
            "with CRLF": chain.genesis.replace(b"\n", b"\r\n"),
            "compacted": json.dumps(fields, separators=(",", ":")).encode(),
            "without the last line feed": chain.genesis[:-1],
            "with a byte order mark": b"\xef\xbb\xbf" + chain.genesis,
            "with a key that is null": chain.genesis.replace(b"{", b'{\n  "note": null,', 1),
            "with chainId twice": chain.genesis.replace(b'"chainId"', b'"chainId": 7, "chainId"', 1),
            "in lower case": chain.genesis.lower(),
            "with a public key in base64url": chain.genesis.replace(quoted, quoted.translate(_URL)),
            "with a public key without padding": chain.genesis.replace(quoted, quoted.replace(b"=", b"")),
            "with a public key and a line feed": chain.genesis.replace(quoted, quoted[:-1] + b'\\n"'),
            "with null as the public key": chain.genesis.replace(quoted, b"null"),
            "with a chain id as text": chain.genesis.replace(b'"chainId": ', b'"chainId": "1", "x": ', 1),
            "without alloc": chain.genesis.replace(b'"alloc"', b'"allot"'),
            "with a fraction as a balance": chain.genesis.replace(b"0000000,", b"000000.5,", 1),
        }.items():
            if genesis == chain.genesis:
                continue
            why = "the digest is of the bytes as `cairn init` writes them"
            yield Vector(f"genesis {name}, of {who}", genesis, content, False, why)
    at = f"8:{hexed(alone.newest.hash)}"
    content = encode(alone.finality(8, 8))
    signer = json.loads(alone.genesis)["signer"].encode()
    broken = {
        "with null as its signer": alone.genesis.replace(b'"' + signer + b'"', b"null"),
        "with null as its validators, beside a signer": alone.genesis.replace(b"{", b'{\n  "validators": null,', 1),
        "whose signer is not padded": alone.genesis.replace(signer, signer[:-1]),
        "whose signer has a space": alone.genesis.replace(signer, b" " + signer),
        "whose signer is padded twice": alone.genesis.replace(signer, signer + b"="),
        "without alloc": alone.genesis.replace(b'"alloc"', b'"allot"'),
        "whose alloc is a list": b'{"chainId": 1337, "signer": "' + signer + b'", "alloc": []}',
        "whose alloc has a balance of 2^256": alone.genesis.replace(b": 50000000000000000000", b": %d" % 2**256),
        "whose alloc has a balance below 0": alone.genesis.replace(b": 50000000000000000000", b": -5"),
        "whose alloc has a fraction": alone.genesis.replace(b": 50000000000000000000", b": 5.0"),
        "whose alloc has an address of 19 bytes": alone.genesis.replace(b'"0x', b'"0x00', 1),
        "whose alloc names an account twice, in two cases": _twice(alone.genesis),
    }
    for name, genesis in broken.items():
        assert genesis != alone.genesis, name
        why = "genesis.json is looked at whatever block one trusts"
        yield Vector(f"trusted block, genesis {name}", genesis, content, False, why, at=at)


_URL = bytes.maketrans(b"+/", b"-_")


def _twice(genesis: bytes) -> bytes:
    """An account's address once more, in lower case."""
    fields = json.loads(genesis)
    first = next(iter(fields["alloc"]))
    fields["alloc"][first.lower()] = 1
    return json.dumps(fields, indent=2).encode() + b"\n"
