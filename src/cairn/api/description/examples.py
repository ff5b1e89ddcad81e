"""Examples of what is sent and answered, by schema: two payments of a dev chain, and what the node says of them.

They are the same on every chain. The page at /docs fills in what exists on its own.
"""

from pathlib import Path
from typing import Any

import msgspec

from cairn.domain.answers import PROBLEM_TYPE
from cairn.domain.json_fields import CHECKSUMMED, REFERENCE
from cairn.domain.types import MAX_DATA_BYTES, TRANSFER_GAS, intrinsic_gas

PROOFS_FILE = Path(__file__).with_name("proof_examples.json")
"""What a node answers about the block of the first payment; a test compares it with a node's answers."""
OF_BLOCK: dict[str, Any] = msgspec.json.decode(PROOFS_FILE.read_bytes())
SENDER = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
RECIPIENT = CHECKSUMMED.lower()
TX_HASH = "0x45e2cb1e340bb5dc894a888489a3f47ff9d71a411dc7bc5c8ef3dbb847c86469"
SIGNATURE = (
    "0xef7deed60390f01d737ad4c7e8369d7c96b846b1bf0c4b89bdec15be563d7680"
    "487cc370b7b154f77298792c665d7c7c53d5cd5b3d861ed2b94b64f7143a3ff201"
)
BLOCK_HASH: str = OF_BLOCK["Header"]["hash"]
CHAIN_ID = 1337
GAS_PRICE = 10**9
TIME = 1_794_834_124
TRANSFER = {
    "from": SENDER,
    "to": RECIPIENT,
    "value": 10,
    "nonce": 0,
    "gas": TRANSFER_GAS,
    "gasPrice": GAS_PRICE,
}
SIGNED_TRANSFER = TRANSFER | {"signature": SIGNATURE}
PENDING = {"txHash": TX_HASH, "status": "pending"} | TRANSFER
CONFIRMED = PENDING | {
    "status": "confirmed",
    "blockHeight": 1,
    "blockHash": BLOCK_HASH,
    "transactionIndex": 0,
    "fee": TRANSFER_GAS * GAS_PRICE,
}
REFERENCE_GAS = intrinsic_gas(REFERENCE.encode())
WITH_REFERENCE = TRANSFER | {"nonce": 1, "gas": REFERENCE_GAS}
SIGNED_WITH_REFERENCE = WITH_REFERENCE | {
    "reference": REFERENCE,
    "signature": (
        "0x7be2e81ef50d01e16fadc8811d10b54703ff9dfcce19ac4864bbe75810dd1cd8"
        "5886b80150635e8f306d908dc8577b709b8a0bc171e611b8116964dc75fe13dc01"
    ),
}
CONFIRMED_WITH_REFERENCE = CONFIRMED | {
    **WITH_REFERENCE,
    "txHash": "0xfd03c88bcea7c86386925bdb00ada9856e5e6d72e0fab49c29bce9d5b5d85b78",
    "data": "0x" + REFERENCE.encode().hex(),
    "reference": REFERENCE,
    "transactionIndex": 1,
    "fee": REFERENCE_GAS * GAS_PRICE,
}
HEADER: dict[str, Any] = OF_BLOCK["Header"]
PROBLEM = {
    "type": PROBLEM_TYPE + "TX_NOT_FOUND",
    "title": "No such transaction",
    "status": 404,
    "detail": f"{TX_HASH} is neither in a block nor in the mempool",
    "code": "TX_NOT_FOUND",
}
SUBMITTED = {"status": "pending", "txHash": TX_HASH}
GENESIS = "0x" + "ab" * 32
PUBLIC_KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
VALIDATOR = {"publicKey": PUBLIC_KEY, "power": 10, "feeRecipient": RECIPIENT, "name": "first"}
BLOCK = HEADER | {"transactions": [TX_HASH]}

EXAMPLES: dict[str, Any] = {
    "Problem": PROBLEM,
    "FaucetRequest": {"address": CHECKSUMMED},
    "Submitted": SUBMITTED,
    "BatchResult": [SUBMITTED],
    "Transaction": CONFIRMED,
    "PendingTransaction": PENDING,
    "ConfirmedTransaction": CONFIRMED,
    "TransactionHistory": [CONFIRMED_WITH_REFERENCE, CONFIRMED],
    "SignedTransaction": SIGNED_TRANSFER,
    "Mempool": [{"txHash": TX_HASH} | TRANSFER | {"receivedAt": TIME}],
    "AnyBlock": BLOCK,
    "Block": BLOCK,
    "FullBlock": HEADER | {"transactions": [CONFIRMED]},
    "Blocks": [HEADER],
    "Proof": {
        "txHash": TX_HASH,
        "transaction": SIGNED_TRANSFER,
        "transactionIndex": 0,
        "proof": [],
        "header": HEADER,
    },
    "Account": {"address": SENDER, "balance": 9_999_999_978_999_999_999_990, "nonce": 1, "pendingNonce": 1},
    "AccountsRequest": {"addresses": [SENDER, RECIPIENT], "height": 1},
    "AccountList": {
        "blockHeight": 1,
        "accounts": [
            {"address": SENDER, "balance": 9_999_999_978_999_999_999_990, "nonce": 1},
            {"address": RECIPIENT, "balance": 10_000_000_000_000_000_000_010, "nonce": 0},
        ],
    },
    "Chain": {
        "chainId": CHAIN_ID,
        "gasPrice": GAS_PRICE,
        "blockGasLimit": 210_000_000,
        "blockTime": 1.0,
        "maxDataBytes": MAX_DATA_BYTES,
        "engine": "embedded",
        "version": "1.0.0rc1",
        "head": {"blockHeight": 1, "hash": BLOCK_HASH, "timestamp": TIME},
        "mempool": {"pending": 0, "queued": 0, "limit": 100_000},
        "supply": 100_000_000_000_000_000_000_000,
        "commit": "d9ebc6304d3a4f4d7a1a9d1a1d9d0c4b6a7e2f51",
    },
    **{name: example for name, example in OF_BLOCK.items() if name != "Header"},
    "Validators": {
        "chainId": CHAIN_ID,
        "genesis": GENESIS,
        "blockHeight": 1,
        "sequence": 0,
        "threshold": 1,
        "admins": [SENDER],
        "validators": [{"address": "A1" * 20} | VALIDATOR | {"missedBlocks": 2, "evidence": 1}],
        "votedBlocks": 100,
        "evidenceCount": 1,
        "evidence": [
            {
                "address": "A1" * 20,
                "name": VALIDATOR["name"],
                "kind": "duplicateVote",
                "blockHeight": 1,
                "timestamp": TIME,
            }
        ],
    },
    "ValidatorUpdate": {
        "chainId": CHAIN_ID,
        "genesis": GENESIS,
        "sequence": 0,
        "validator": VALIDATOR,
        "before": {"power": 0, "totalPower": 40, "validators": 4, "namesakes": 0},
        "signatures": ["0x" + "11" * 65],
    },
    "UpdateSubmitted": {"status": "submitted", "sequence": 0},
    "Probe": {"status": "alive"},
    "Readiness": {
        "status": "ready",
        "checks": {"store": "ok", "mempool": "ok", "disk": "ok", "core": "ok", "engine": "ok", "peers": "ok"},
    },
    "RpcAnswer": {"jsonrpc": "2.0", "id": 1, "result": "0x1"},
}
FURTHER_EXAMPLES: dict[str, Any] = {
    "Transaction": CONFIRMED_WITH_REFERENCE,
    "ConfirmedTransaction": CONFIRMED_WITH_REFERENCE,
}
