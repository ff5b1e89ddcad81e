"""JSON Schemas of everything that goes in or out, for the OpenAPI document."""

from collections.abc import Sequence
from typing import Any, get_args

from cairn.api.errors import PROBLEM_TYPE
from cairn.api.rest.submission import MAX_AMOUNT_DIGITS, MAX_BATCH, MAX_EXACT_DOUBLE
from cairn.core.gateway import FAUCET_DEFAULT, FAUCET_MOST
from cairn.domain.governance import MAX_POWER
from cairn.domain.types import MAX_UINT256, TRANSFER_GAS, Address, DropReason
from cairn.domain.update_text import MAX_SIGNATURES, NAME_PATTERN, PUBLIC_KEY_PATTERN, SIGNATURE_PATTERN

Json = dict[str, Any]

SENDER = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
RECIPIENT = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"
CHECKSUMMED = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
MAX_INT64 = 2**63 - 1
"""What a generated client's integers hold. The node's own go to 2^64-1, but nothing that is counted comes near it."""


def ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def record(description: str, optional: Sequence[str] = (), **properties: Json) -> Json:
    """An object with exactly these members; `from_` stands for `from`."""
    named = {name.rstrip("_"): schema for name, schema in properties.items()}
    return {
        "type": "object",
        "description": description,
        "properties": named,
        "required": [name for name in named if name not in optional],
        "additionalProperties": False,
    }


def integer(description: str, maximum: int = MAX_INT64, minimum: int = 0) -> Json:
    return {"type": "integer", "format": "int64", "minimum": minimum, "maximum": maximum, "description": description}


def text(description: str, *values: str) -> Json:
    return {"type": "string", "description": description} | ({"enum": list(values)} if values else {})


def hex_bytes(size: int, description: str) -> Json:
    return {"type": "string", "pattern": f"^0x[0-9a-f]{{{2 * size}}}$", "description": description}


def amount(description: str) -> Json:
    """A field in wei; a client that reads it as a number needs one that holds 256 bits."""
    return ref("Amount") | {"description": description}


def amount_within(description: str, least: int, most: int, **digits: str) -> Json:
    """An integer, or a string of its decimal digits."""
    return {
        "description": description,
        "oneOf": [{"type": "integer", "minimum": least, "maximum": most}, {"type": "string", **digits}],
    }


AMOUNT_FORMAT = "uint256"
ADDRESS_FORMAT = "ethereum-address"
ADDRESS_IN = {
    "type": "string",
    # A pattern cannot say what a right checksum is.
    "format": ADDRESS_FORMAT,
    "pattern": "^0x[0-9a-fA-F]{40}$",
    "description": "0x and 40 hexadecimal digits. In mixed case they must carry a right EIP-55 checksum.",
    "examples": [CHECKSUMMED],
}
ADDRESS = hex_bytes(20, "0x and 40 lower-case hexadecimal digits.")
HASH = hex_bytes(32, "0x and 64 lower-case hexadecimal digits.")
HEIGHT = integer("Height of the block; 0 is the genesis block.")
TIME = integer("Unix time in whole seconds.")

TRANSACTION_FIELDS: Json = {
    "from_": ADDRESS,
    "to": ADDRESS,
    "value": amount("Wei transferred."),
    "nonce": integer("Number of the sender's transaction, from 0."),
    "gas": integer(f"Gas limit; a transfer takes {TRANSFER_GAS}."),
    "gasPrice": amount("Wei paid per gas."),
}
TYPE = integer("Type of the transaction: 2 with maxFeePerGas (EIP-1559), 1 (EIP-2930), 0 or left out of any other.", 2)
TYPED_FIELDS: Json = {
    "type": TYPE,
    "maxFeePerGas": amount("Of type 2: the most that it would pay per gas, in wei."),
    "maxPriorityFeePerGas": amount("Of type 2: what of that may be above the base fee, in wei."),
}
HEADER_FIELDS: Json = {
    "transactionsRoot": hex_bytes(
        32,
        "RFC 6962 Merkle root (SHA-256) over the transaction hashes; Ethereum's empty root without any.",
    ),
    "stateRoot": hex_bytes(32, "Commits to every account after this block."),
    "gasUsed": integer(f"{TRANSFER_GAS} for each transaction."),
    "proposer": ADDRESS,
    "chainId": integer("Chain id (EIP-155)."),
    "gasLimit": integer("Gas that the block has: the chain's blockGasLimit."),
    "baseFeePerGas": amount("Wei that a unit of gas costs at least: the chain's gasPrice."),
}
BLOCK_FIELDS: Json = {
    "blockHeight": HEIGHT,
    "hash": hex_bytes(
        32,
        "keccak-256 of the header in RLP, with the fields of Ethereum's headers since London (docs/formats.md).",
    ),
    "previousHash": hex_bytes(32, "Hash of the block before; 32 zero bytes for the genesis block."),
    "timestamp": TIME,
}


def submission_schemas(signs_for: Sequence[Address]) -> Json:
    """What POST /tx takes; without a signature only from accounts whose keys the node holds."""
    signature = {
        "type": "string",
        "pattern": "^0x[0-9a-fA-F]{130}$",
        "description": (
            "r (32 bytes), s (32 bytes, in the lower half: EIP-2), v (0, 1, 27 or 28) over the transaction with empty "
            "data: legacy (EIP-155), or of its type with an empty access list."
        ),
    }
    optional = ["nonce", "gasPrice", *TYPED_FIELDS]
    examples: list[Json] = [
        {"from": SENDER, "to": RECIPIENT, "value": 10, "nonce": 0, "gas": TRANSFER_GAS, "signature": "0x" + "11" * 65}
    ]
    if signs_for:
        optional.append("signature")
        signature["description"] += " May be left out for the accounts of this dev chain, whose keys the node holds."
        examples.append({"from": "0x" + signs_for[0].hex(), "to": CHECKSUMMED, "value": "10", "gas": TRANSFER_GAS})
    submission = record(
        "A transaction to be submitted.",
        optional,
        from_=ADDRESS_IN,
        to=ADDRESS_IN,
        value=amount("Wei to transfer."),
        nonce=integer("Number of the sender's transaction. Left out, it means the sender's next one."),
        gas=integer(f"Gas limit; a transfer takes {TRANSFER_GAS}, and no more is charged."),
        gasPrice=amount("Wei per gas. Left out, it means the chain's own."),
        type=TYPE,
        maxFeePerGas=amount(
            "Instead of gasPrice, in a transaction of type 2: the most wei that it pays per gas. Left out, it means "
            "the chain's gasPrice and the tip."
        ),
        maxPriorityFeePerGas=amount(
            "Instead of gasPrice, in a transaction of type 2: the tip, in wei per gas. Left out, it means none."
        ),
        signature=signature,
    )
    held = ["0x" + address.hex() for address in signs_for]
    return {"Submission": submission | {"examples": examples, "x-signs-for": held}}


def faucet_schemas() -> Json:
    asked = record(
        "Who is to get coins.",
        ("amount",),
        address=ADDRESS_IN,
        amount=ref("FaucetAmount") | {"description": "Wei to give. Left out, it means 100 coins."},
    )
    asked["examples"] = [{"address": CHECKSUMMED}]
    given = amount_within("Wei, from 1 to 1,000 coins.", 1, FAUCET_MOST, pattern="^([1-9][0-9]{0,20}|10{21})$")
    # No `default`: clients that are generated with one of this size do not compile.
    return {"FaucetRequest": asked, "FaucetAmount": given | {"x-usual": FAUCET_DEFAULT}}


def amount_schemas() -> Json:
    described = (
        "In wei, exact at any size up to 2^256-1: an integer, or a string of its decimal digits. Both are taken. "
        "Answers have integers, or strings with `?amounts=string`. An integer that is written with a fraction or an "
        f"exponent is taken up to 2^53 = {MAX_EXACT_DOUBLE}."
    )
    # Of 78 digits a pattern cannot say which are too many.
    digits = {"format": AMOUNT_FORMAT, "pattern": f"^[0-9]{{1,{MAX_AMOUNT_DIGITS}}}$"}
    return {"Amount": amount_within(described, 0, MAX_UINT256, **digits) | {"examples": ["10000000000000000000001"]}}


def validator_schemas() -> Json:
    fields: Json = {
        "publicKey": {"type": "string", "pattern": PUBLIC_KEY_PATTERN, "description": "Ed25519, in base64."},
        "power": integer("How much its vote counts.", MAX_POWER),
        "feeRecipient": ADDRESS,
        "name": {"type": "string", "pattern": NAME_PATTERN, "description": "For people."},
    }
    sequence = integer("How many updates have been applied: the number that the next one must carry.")
    address = {"type": "string", "pattern": "^[0-9A-F]{40}$", "description": "What CometBFT calls the validator."}
    signature = {"type": "string", "pattern": SIGNATURE_PATTERN}
    update = record(
        "A change of one validator.",
        chainId=integer("The chain that it is for.", minimum=1),
        sequence=sequence,
        validator=record("What it becomes; power 0 removes it.", **(fields | {"feeRecipient": ADDRESS_IN})),
        signatures={
            "type": "array",
            "items": signature,
            "maxItems": MAX_SIGNATURES,
            "description": "Those of administrators, as many as the threshold; r, s, v (0 or 1).",
        },
    )
    return {
        "ValidatorUpdate": update,
        "UpdateSubmitted": record(
            "The update is on its way.", status=text("In one word.", "submitted"), sequence=sequence
        ),
        "Validators": record(
            "The validators of the network.",
            chainId=integer("Chain id (EIP-155)."),
            blockHeight=HEIGHT,
            sequence=sequence,
            threshold=integer("How many administrators must sign an update; 0 when nobody can."),
            admins={"type": "array", "items": ADDRESS, "description": "Whose signatures count."},
            validators={"type": "array", "items": ref("Validator")},
        ),
        "Validator": record("One of those who make the blocks.", address=address, **fields),
    }


def schemas(signs_for: Sequence[Address], codes: Sequence[str]) -> Json:
    confirmed: Json = {
        "txHash": HASH,
        "status": text("It is in a block, for ever.", "confirmed"),
        "blockHeight": HEIGHT,
        **TRANSACTION_FIELDS,
        **TYPED_FIELDS,
        "blockHash": HASH,
        "transactionIndex": integer("Its place in the block, from 0.", 2**32 - 1),
        "fee": amount("What the sender paid to the block's proposer, in wei."),
    }
    pending: Json = {
        "txHash": HASH,
        "status": text("It is on disk and waits for a block.", "pending"),
        **TRANSACTION_FIELDS,
        **TYPED_FIELDS,
    }
    return {
        **amount_schemas(),
        **submission_schemas(signs_for),
        "SubmissionBatch": {
            "type": "array",
            "description": "Whatever is no submission is answered by a problem in its place; the others stand.",
            "items": ref("Submission"),
            "maxItems": MAX_BATCH,
        },
        "Submitted": record(
            "The transaction is valid, admitted and on disk.",
            status=text("`confirmed` when the very same transaction was confirmed before.", "pending", "confirmed"),
            txHash=HASH,
        ),
        "BatchAnswer": {"oneOf": [ref("Submitted"), ref("Problem")]},
        "BatchResult": {"type": "array", "items": ref("BatchAnswer"), "maxItems": MAX_BATCH},
        "PendingTransaction": record("A transaction in the mempool.", tuple(TYPED_FIELDS), **pending),
        "ConfirmedTransaction": record("A transaction in a block.", tuple(TYPED_FIELDS), **confirmed),
        "Transaction": {
            "oneOf": [ref("PendingTransaction"), ref("ConfirmedTransaction")],
            "discriminator": {
                "propertyName": "status",
                "mapping": {
                    "pending": "#/components/schemas/PendingTransaction",
                    "confirmed": "#/components/schemas/ConfirmedTransaction",
                },
            },
        },
        "TransactionHistory": {"type": "array", "items": ref("ConfirmedTransaction")},
        "MempoolItem": record(
            "A pending transaction.",
            tuple(TYPED_FIELDS),
            txHash=HASH,
            **TRANSACTION_FIELDS,
            **TYPED_FIELDS,
            receivedAt=TIME,
        ),
        "Mempool": {"type": "array", "items": ref("MempoolItem")},
        "Block": record(
            "A block and the hashes of its transactions, in their order.",
            **BLOCK_FIELDS,
            transactions={"type": "array", "items": HASH},
            **HEADER_FIELDS,
        ),
        "Header": record("Everything that the block's hash covers.", **BLOCK_FIELDS, **HEADER_FIELDS),
        "BlockSummary": record(
            "A block without its transactions.",
            **BLOCK_FIELDS,
            **HEADER_FIELDS,
            transactionCount=integer("How many transactions it holds."),
        ),
        "Blocks": {"type": "array", "items": ref("BlockSummary")},
        "Proof": record(
            "The way from a transaction up to the transactions root of its block.",
            txHash=HASH,
            transaction=ref("SignedTransaction"),
            transactionIndex=integer("Its place in the block, from 0.", 2**32 - 1),
            transactionCount=integer("How many transactions the block holds.", minimum=1),
            proof={"type": "array", "items": HASH, "description": "Siblings, lowest first (RFC 6962)."},
            header=ref("Header"),
        ),
        "SignedTransaction": record(
            "What the sender signed, as `POST /tx` takes it; the transaction's hash covers all of it.",
            ("gasPrice", *TYPED_FIELDS),
            **TRANSACTION_FIELDS,
            **TYPED_FIELDS,
            signature=hex_bytes(65, "r, s and v (0 or 1)."),
        ),
        "Account": record(
            "An account; one that was never used is empty.",
            address=ADDRESS,
            balance=amount("Wei that the account holds."),
            nonce=integer("The nonce of the next transaction to be confirmed."),
            pendingNonce=integer("The nonce after the confirmed and the pending transactions."),
        ),
        "Chain": record(
            "The chain's parameters and where it stands.",
            chainId=integer("Chain id (EIP-155)."),
            gasPrice=amount("The least gas price that is taken, in wei."),
            blockGasLimit=integer("Gas that one block has."),
            engine=text("What orders the transactions."),
            version=text("Version of the node."),
            head=ref("ChainHead"),
            mempool=ref("MempoolLevel"),
            lastRevert=ref("LastRevert"),
            optional=("lastRevert",),
        ),
        "ChainHead": record("The newest block.", blockHeight=HEIGHT, hash=HASH, timestamp=TIME),
        "LastRevert": record(
            "How often a dev chain was reverted, and how far the last time. Left out where it never was.",
            number=integer("1 for the first time, and so on.", minimum=1),
            blockHeight=integer("The newest block right after it: what was above is void."),
        ),
        "MempoolLevel": record(
            "How full the mempool is.",
            pending=integer("Transactions that the next blocks can take."),
            queued=integer("Transactions that wait for a missing nonce."),
            limit=integer("Transactions that it holds at most."),
        ),
        **validator_schemas(),
        **faucet_schemas(),
        "Probe": record("What the probe found.", status=text("In one word.")),
        "Readiness": record(
            "What the probe found, part by part.",
            status=text("In one word.", "ready", "starting", "unavailable", "draining"),
            checks=ref("ReadinessChecks"),
        ),
        "ReadinessChecks": record(
            "`ok`, or what is wrong with the part.", store=text("The chain's store."), mempool=text("The mempool.")
        ),
        "Problem": record(
            "What every failure looks like (RFC 9457).",
            ("field", "reason"),
            type={"type": "string", "pattern": f"^{PROBLEM_TYPE}[A-Z_]+$", "description": "Names the code as a URI."},
            title=text("The kind of failure, for people."),
            status=integer("The HTTP status.", 599, 400),
            detail=text("What is wrong with this very request, for people."),
            code=ref("ProblemCode"),
            field=text("The field that INVALID_FIELD is about."),
            reason=text("Why TX_DROPPED.", *get_args(DropReason)),
        ),
        "ProblemCode": text("What went wrong, for programs: a code never changes its meaning.", *codes),
    }
