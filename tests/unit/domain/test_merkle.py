"""The transactions root: published values, proofs of every leaf, and proofs that must not hold."""

import pytest

from cairn.domain.crypto import keccak256
from cairn.domain.merkle import EMPTY_ROOT, inclusion_proof, tree_nodes, tx_root, verify_inclusion

# The leaves and roots of Certificate Transparency's reference tests.
LEAVES = [
    bytes.fromhex(leaf)
    for leaf in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def test_the_empty_tree_has_the_hash_of_nothing() -> None:
    assert tx_root([]) == EMPTY_ROOT
    assert EMPTY_ROOT.hex() == "56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421"


@pytest.mark.parametrize("size", range(1, 9))
def test_the_roots_that_certificate_transparency_publishes(size: int) -> None:
    assert tx_root(LEAVES[:size]).hex() == ROOTS[size - 1]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13, 64, 65])
def test_every_leaf_is_proved_in_a_few_hashes(size: int) -> None:
    leaves = [keccak256(bytes([index])) for index in range(size)]
    root = tx_root(leaves)
    for index, leaf in enumerate(leaves):
        proof = inclusion_proof(tree_nodes(leaves), len(leaves), index)
        assert len(proof) <= (size - 1).bit_length()
        assert verify_inclusion(leaf, index, size, proof, root)


@pytest.mark.parametrize("size", range(1, 9))
def test_the_nodes_begin_with_the_leaves_and_end_with_the_root(size: int) -> None:
    nodes = tree_nodes(LEAVES[:size])
    assert nodes[:32] == tx_root(LEAVES[:1])
    assert nodes[-32:] == tx_root(LEAVES[:size])


def test_a_proof_holds_for_nothing_else() -> None:
    leaves = [keccak256(bytes([index])) for index in range(7)]
    root, proof = tx_root(leaves), inclusion_proof(tree_nodes(leaves), len(leaves), 4)
    assert verify_inclusion(leaves[4], 4, 7, proof, root)
    assert not verify_inclusion(leaves[3], 4, 7, proof, root)
    assert not verify_inclusion(leaves[4], 5, 7, proof, root)
    assert not verify_inclusion(leaves[4], 4, 7, proof[:-1], root)
    assert not verify_inclusion(leaves[4], 4, 7, [*proof, proof[0]], root)
    assert not verify_inclusion(leaves[4], 4, 7, proof[::-1], root)
    assert not verify_inclusion(leaves[4], 4, 7, proof, tx_root(leaves[:6]))
    assert not verify_inclusion(leaves[4], 4, 4, proof, root)
    assert not verify_inclusion(leaves[4], -1, 7, proof, root)
    assert not verify_inclusion(b"", 0, 0, [], EMPTY_ROOT)
    assert verify_inclusion(leaves[0], 0, 1, [], tx_root(leaves[:1]))
    assert not verify_inclusion(leaves[0], 1, 1, [], tx_root(leaves[:1]))


def test_a_node_cannot_pass_for_a_leaf() -> None:
    leaves = [keccak256(bytes([index])) for index in range(4)]
    left, right = (
        inclusion_proof(tree_nodes(leaves), len(leaves), 2)[1],
        inclusion_proof(tree_nodes(leaves), len(leaves), 0)[1],
    )
    assert tx_root([left, right]) != tx_root(leaves)
    assert not verify_inclusion(left, 0, 2, [right], tx_root(leaves))


@pytest.mark.parametrize("index", [-1, 3])
def test_there_is_no_proof_of_a_missing_leaf(index: int) -> None:
    with pytest.raises(IndexError, match=f"no leaf {index} in a tree of 3"):
        inclusion_proof(tree_nodes(LEAVES[:3]), len(LEAVES[:3]), index)
