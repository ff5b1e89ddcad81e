"""Every byte and every part of each kind of file, altered: nothing that is not true passes."""

import json
from collections.abc import Iterator
from copy import deepcopy

import pytest

from tests.proofs.fuzz import fuzz
from tests.proofs.mutations import places
from tests.proofs.truth import is_true
from tests.proofs.vectors import Case, read_vectors
from tests.proofs.verifiers import ask_javascript, ask_node, ask_python, find_report, remember_signatures, report_of
from tests.support.proof_chain import Json, encode
from tests.support.sweeps import swept
from tests.vectors.proofs.chains import ALICE, BOB, lone

CHAIN = lone()
FILES: dict[str, Json] = {
    "finality": CHAIN.finality(2, 4),
    "receipt": CHAIN.receipt(1, 1, 4),
    "balance by the state": CHAIN.account(ALICE.address, 4, 4),
    "balance by the next change": CHAIN.account(ALICE.address, 2, 4),
    "statement": CHAIN.statement(BOB.address, 2, 3, 4),
    "history": CHAIN.history(1, 3, 4),
}
OTHERS = [
    *FILES.values(),
    CHAIN.receipt(4, 0, 5),
    CHAIN.account(BOB.address, 8, 8),
    CHAIN.statement(ALICE.address, 1, 5, 8),
    CHAIN.history(3, 6, 8),
]


@pytest.fixture(autouse=True, scope="module")
def _faster() -> None:
    remember_signatures()


def believed(contents: Iterator[bytes]) -> tuple[int, list[bytes]]:
    """How many were looked at, and those that prove what is not true."""
    case = Case("", CHAIN.genesis, b"", True, "", None, None)
    count, wrong = 0, []
    for content in contents:
        count += 1
        report = find_report(case._replace(file=content))
        if report is not None and not is_true(CHAIN, report):
            wrong.append(content)
    return count, wrong


@pytest.mark.parametrize("kind", FILES)
def test_each_byte_altered_dropped_or_taken_from_another_file_proves_nothing_untrue(kind: str) -> None:
    content = encode(FILES[kind])
    donor = encode(next(other for other in OTHERS if other != FILES[kind]))
    altered_at = swept(range(len(content)), kind)

    def altered() -> Iterator[bytes]:
        for at in altered_at:
            byte = content[at]
            before, after = content[:at], content[at + 1 :]
            yield before + after
            yield before + (b"7" if byte != ord("7") else b"8") + after
            yield before + bytes([byte ^ 1]) + after
            yield before + donor[at : at + 1] + after
            yield before + content[at + 1 : at + 2] + content[at : at + 1] + content[at + 2 :]

    count, wrong = believed(altered())
    assert (count, wrong) == (5 * len(altered_at), [])


@pytest.mark.parametrize("kind", FILES)
def test_each_part_dropped_or_taken_from_another_file_proves_nothing_untrue(kind: str) -> None:
    file = FILES[kind]
    donors = [(key, part[key]) for other in OTHERS for part, key in places(other)]

    def altered() -> Iterator[bytes]:
        for number in swept(range(sum(1 for _ in places(file))), kind):
            copy = deepcopy(file)
            holder, key = list(places(copy))[number]
            was = holder[key]
            for name, part in donors:
                if name == key and part != was:
                    holder[key] = part
                    yield encode(copy)
            del holder[key]
            yield encode(copy)

    count, wrong = believed(altered())
    assert count > 0
    assert wrong == []


def test_what_the_files_prove_is_true_and_truth_can_tell() -> None:
    case = Case("", CHAIN.genesis, b"", True, "", None, None)
    for file in OTHERS:
        report = report_of(case._replace(file=encode(file)))
        assert is_true(CHAIN, report)
        assert json.loads(json.dumps(report))["signed"]["power"] == 1
    lie = report_of(case._replace(file=encode(FILES["receipt"])))
    assert not is_true(CHAIN, lie | {"value": lie["value"] + 1})
    assert not is_true(CHAIN, lie | {"signed": lie["signed"] | {"power": 2}})
    books = report_of(case._replace(file=encode(CHAIN.statement(ALICE.address, 1, 5, 8))))
    assert not is_true(CHAIN, books | {"entries": books["entries"][1:]})
    assert not is_true(CHAIN, books | {"closing": {"balance": 0, "nonce": 0}})


def test_verifiers_agree_on_altered_files(js_packages: object) -> None:
    decided = [is_valid for _, is_valid in fuzz(seed=26, count=400)]
    assert 0 < sum(decided) < 200


def test_verifiers_agree_on_all_vectors(js_packages: object) -> None:
    cases = read_vectors()
    meant = [case.valid for case in cases]
    assert [ask(cases) == meant for ask in (ask_python, ask_node, ask_javascript)] == [True, True, True]
