"""Altered genesis files: verify.py and verify.mjs take the same ones, with a trusted block, where no digest tells."""

import json
import random
from typing import Any

from tests.proofs.mutations import BYTE_EDITS, STRANGE, places
from tests.proofs.vectors import Case
from tests.proofs.verifiers import ask_javascript, ask_python
from tests.support.proof_chain import encode, hexed
from tests.vectors.proofs.chains import lone, network

COUNT = 400
OTHERS: tuple[Any, ...] = (*STRANGE, None, True, 1.5, -1, 1, "1", 2**53, 2**63, 2**256)


def altered_genesis(rng: random.Random, genesis: bytes) -> bytes:
    """Its bytes, or one of its values or keys."""
    if rng.random() < 0.5:
        return rng.choice(BYTE_EDITS)(rng, genesis, genesis)
    fields = json.loads(genesis)
    holder, key = rng.choice(list(places(fields)))
    if rng.random() < 0.3 and isinstance(holder, dict):
        holder[rng.choice((key.lower(), f"{key}0", "signer", "validators"))] = holder.pop(key)
    else:
        holder[key] = rng.choice(OTHERS)
    return json.dumps(fields, ensure_ascii=rng.random() < 0.5).encode()


def test_verifiers_take_the_same_genesis_files(js_packages: object) -> None:
    rng, cases = random.Random(39), []
    for chain in (lone(), network()):
        block = chain.newest
        case = Case("", chain.genesis, encode(chain.finality(8, 8)), True, "", f"8:{hexed(block.hash)}", None)
        cases += [case._replace(genesis=altered_genesis(rng, chain.genesis)) for _ in range(COUNT // 2)]
    python, javascript = ask_python(cases), ask_javascript(cases)
    differ = [case.genesis for case, one, other in zip(cases, python, javascript, strict=True) if one != other]
    assert differ == []
    assert 0 < sum(python) < COUNT
