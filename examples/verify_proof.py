"""Believe no node: check with hashes alone that a block holds a transaction."""

import msgspec

from cairn.client import Account, Client
from cairn.client.errors import InvalidProof

with Client("http://127.0.0.1:8645") as node:
    payments = [(Account.dev(6).address, value) for value in range(10)]
    sent = node.wallet(Account.dev(5)).send_all(payments)[7]
    block_hash = node.wait(str(sent)).block_hash  # ask another node than the one that you doubt

    proof = node.proof(str(sent))
    proof.verify(str(sent), block_hash)
    print("proven, by", len(proof.proof), "hashes for", proof.header.transaction_count, "transactions")

    header = msgspec.structs.replace(proof.header, transaction_count=9)
    forged = msgspec.structs.replace(proof, header=header)
    try:
        forged.verify(str(sent), block_hash)
    except InvalidProof:
        print("a forged proof is noticed")
