"""The OpenAPI document: what is served, no more and no less."""

from collections.abc import Iterable, Sequence
from typing import Any

from cairn.api.amount_forms import FORMS
from cairn.api.description.openapi_schemas import ADDRESS_IN, RECIPIENT, ref, schemas
from cairn.api.errors import ANSWERS, PROBLEM_MEDIA_TYPE
from cairn.api.rest.parameters import DEFAULT_LIMIT, MAX_LIMIT, MAX_WAIT_S
from cairn.api.rpc.envelope_schemas import rpc_schemas
from cairn.domain.types import Address

Json = dict[str, Any]

INTERFACE_VERSION = "1.0.0"
JSON = "application/json"

DESCRIPTION = """The public interface of a Cairn node. Every failure is `application/problem+json` with a stable `code`.
Amounts and heights are JSON integers, exact at any size. Where numbers are doubles, send amounts as strings of digits
and ask for them with `?amounts=string`; generated clients for Go and TypeScript need it.
Every GET is answered to HEAD too. Events are on the WebSocket `/events`, described by `/asyncapi.json`."""

NOT_OF_AN_OPERATION = (405, 426)
"""What is answered to a request that is none of the operations: another method, a plain request to /events."""

COMMON_STATUSES = (400, 403, 408, 429, 431, 500, 503)
"""What any request can meet before its own path matters: bad HTTP, another host, a rate or a connection limit."""


def codes_of(status: int) -> list[str]:
    return sorted({error.code for error, answer in ANSWERS.items() if answer.status == status})


def header(name: str) -> Json:
    return {"$ref": f"#/components/headers/{name}"}


def answer(description: str, schema: str, *headers: str, media_type: str = JSON) -> Json:
    """A response; each header is named as sent."""
    return {
        "description": description,
        "headers": {name: header(name) for name in ("X-Chain-Id", "Cache-Control", *headers)},
        "content": {media_type: {"schema": ref(schema)}},
    }


def problem_response(status: int) -> Json:
    titles = sorted({answer.title for answer in ANSWERS.values() if answer.status == status})
    extra = {405: ["Allow"], 429: ["Retry-After"], 503: ["Retry-After"]}.get(status, [])
    described = answer(". ".join(titles) + ".", "Problem", *extra, media_type=PROBLEM_MEDIA_TYPE)
    described["description"] += " Codes: " + ", ".join(codes_of(status)) + "."
    return described


def operation(
    operation_id: str,
    summary: str,
    description: str,
    tag: str,
    responses: dict[int, Json],
    problems: Iterable[int] = (),
    **more: Any,
) -> Json:
    """`problems` come on top of the common ones."""
    every = {str(status): {"$ref": f"#/components/responses/{status}"} for status in (*COMMON_STATUSES, *problems)}
    every |= {str(status): response for status, response in responses.items()}
    return {
        "operationId": operation_id,
        "summary": summary,
        "description": description,
        "tags": [tag],
        **more,
        "responses": dict(sorted(every.items())),
    }


def probe(operation_id: str, summary: str, description: str, good: str, bad: str | None, schema: str = "Probe") -> Json:
    responses = {200: answer(good, schema)}
    if bad is not None:
        failing = answer(bad, schema)
        failing["content"][PROBLEM_MEDIA_TYPE] = {"schema": ref("Problem")}
        responses[503] = failing
    return operation(operation_id, summary, description, "probes", responses)


def path_parameter(name: str, description: str, schema: Json, example: str) -> Json:
    return {
        "name": name, "in": "path", "required": True, "description": description, "schema": schema, "example": example
    }  # fmt: skip


def query_parameter(name: str, about: str, **schema: Any) -> Json:
    return {"name": name, "in": "query", "required": False, "description": about, "schema": schema}


def body_of(schema: str) -> Json:
    return {"required": True, "content": {JSON: {"schema": ref(schema)}}}


HASH_IN = {"type": "string", "pattern": "^0x[0-9a-fA-F]{64}$"}
TX_HASH = path_parameter("hash", "Hash of the transaction.", HASH_IN, "0x" + "5c" * 32)
BLOCK_NAME = path_parameter(
    "hash",
    "Hash of the block, or its height, or `latest`.",
    {"type": "string", "pattern": "^(0x[0-9a-fA-F]{64}|0|[1-9][0-9]*|latest)$"},
    "latest",
)
PROOF_CHECK = (
    "To check it: start from SHA-256(0x00, txHash); with each sibling, lowest first, go on to SHA-256(0x01, left, "
    "right), where the sibling is left when the index on that level is odd; the last node of an odd level moves up as "
    "it is. The result is the header's transactionsRoot, and the header's hash is the block's. docs/formats.md has "
    "every step and an example."
)
ACCOUNT = path_parameter("address", "Address of the account.", ADDRESS_IN, RECIPIENT)
IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "ETags that the client holds; 304 when the block's is among them.",
    "schema": {"type": "string"},
}
AMOUNTS = query_parameter(
    "amounts",
    "`string` gives amounts as strings of decimal digits, for clients whose numbers are doubles.",
    type="string",
    enum=list(FORMS),
    default="number",
)
LIMIT = query_parameter(
    "limit", "Items on a page.", type="integer", minimum=1, maximum=MAX_LIMIT, default=DEFAULT_LIMIT
)


def cursor(pattern: str, example: str) -> Json:
    return query_parameter(
        "after", "Where the page before ended; taken from its Link header.", type="string", pattern=pattern,
        examples=[example],
    )  # fmt: skip


def paths() -> Json:
    return {
        **probe_paths(),
        **transaction_paths(),
        **block_paths(),
        **account_paths(),
        **validator_paths(),
        **faucet_paths(),
        **rpc_paths(),
        **description_paths(),
        **explorer_paths(),
    }


def probe_paths() -> Json:
    return {
        "/health": {
            "get": probe(
                "getHealth", "Is the service alive?", "Touches nothing: it tells that the process answers.", "It is.",
                None,
            )
        },
        "/startup": {
            "get": probe(
                "getStartup", "Has the service finished initialising?",
                "The server listens before the store is open; until then this probe fails.", "It has.",
                "The store is not open and checked yet, or the mempool is not back.",
            )
        },
        "/ready": {
            "get": probe(
                "getReady", "Can the node accept requests?",
                "Writes to the store and reads it back, and asks the mempool. The answer names the part that fails.",
                "A write and read of every part succeeded.",
                "The node starts or stops, or the named part fails.", "Readiness",
            )
        },
    }  # fmt: skip


def transaction_paths() -> Json:
    accepted = answer("It is valid, admitted and on disk.", "Submitted")
    # Where its hash leads.
    accepted["links"] = {
        "transaction": {"operationId": "getTransaction", "parameters": {"hash": "$response.body#/txHash"}}
    }
    return {
        "/tx": {
            "post": operation(
                "submitTransaction",
                "Submit a transaction.",
                "200 means valid, admitted and on disk. Sent again, it is the same transaction with the same hash.",
                "transactions",
                {200: accepted},
                [409, 413, 415, 422],
                requestBody=body_of("Submission"),
            )
        },
        "/txs": {
            "post": operation(
                "submitTransactions",
                "Submit up to 100 transactions at once.",
                "Each is taken or refused by itself, and they are looked at in their order.",
                "transactions",
                {200: answer("One result or problem for each, in order.", "BatchResult")},
                [413, 415],
                requestBody=body_of("SubmissionBatch"),
            )
        },
        "/tx/{hash}": {
            "get": operation(
                "getTransaction",
                "Look up a transaction and its status.",
                "A transaction that left the mempool without a block is 404 TX_DROPPED, with the reason.",
                "transactions",
                {200: answer("The transaction.", "Transaction")},
                [404],
                parameters=[
                    TX_HASH,
                    query_parameter(
                        "wait",
                        "Answer as soon as it is confirmed, at the latest after these seconds; an unknown may come.",
                        type="number",
                        minimum=0,
                        maximum=MAX_WAIT_S,
                        examples=[1],
                    ),
                    AMOUNTS,
                ],
            )
        },
        "/tx/{hash}/proof": {
            "get": operation(
                "getProof",
                "Prove that a block holds a transaction.",
                PROOF_CHECK,
                "transactions",
                {200: answer("The Merkle path and the header that it leads to.", "Proof")},
                [404],
                parameters=[TX_HASH, AMOUNTS],
            )
        },
        "/mempool": {
            "get": operation(
                "listMempool",
                "List the pending transactions in the order in which they will be mined.",
                "Those that wait for a missing nonce come last.",
                "transactions",
                {200: answer("A page of them.", "Mempool", "Link", "X-Total-Count")},
                parameters=[
                    LIMIT,
                    cursor("^[rws][0-9a-f]{1,80}-[0-9a-f]{1,16}$", "w1-1"),
                    query_parameter("from", "Only those of this sender, by nonce.", **ADDRESS_IN),
                    AMOUNTS,
                ],
            )
        },
    }


def block_paths() -> Json:
    found = answer("The block.", "Block", "ETag")
    unchanged = {
        "description": "The client has it.",
        "headers": {name: header(name) for name in ("X-Chain-Id", "ETag", "Cache-Control")},
    }
    return {
        "/block/{hash}": {
            "get": operation(
                "getBlock",
                "Look up a block.",
                "By its hash it never changes and may be kept for ever, except on a dev chain, which can be reverted.",
                "blocks",
                {200: found, 304: unchanged},
                [404],
                parameters=[BLOCK_NAME, AMOUNTS, IF_NONE_MATCH],
            )
        },
        "/blocks": {
            "get": operation(
                "listBlocks",
                "List the blocks, newest first.",
                "Down to the oldest that this node keeps, page by page.",
                "blocks",
                {200: answer("A page of them.", "Blocks", "Link", "X-Total-Count")},
                parameters=[LIMIT, cursor("^(0|[1-9][0-9]{0,18})$", "1"), AMOUNTS],
            )
        },
        "/chain": {
            "get": operation(
                "getChain",
                "The chain's parameters and where it stands.",
                "The chain id and gas price to sign with, the newest block, and how full the mempool is.",
                "blocks",
                {200: answer("The chain's rules, newest block and mempool.", "Chain")},
                parameters=[AMOUNTS],
            )
        },
    }


def account_paths() -> Json:
    return {
        "/account/{address}": {
            "get": operation(
                "getAccount",
                "Look up an account.",
                "Any address is one; an account that was never used has nothing.",
                "accounts",
                {200: answer("The account as the newest block left it.", "Account")},
                parameters=[ACCOUNT, AMOUNTS],
            )
        },
        "/account/{address}/txs": {
            "get": operation(
                "listAccountTransactions",
                "List the confirmed transactions that an account sent or received, newest first.",
                "Of the blocks that this node keeps, page by page.",
                "accounts",
                {200: answer("A page of them.", "TransactionHistory", "Link")},
                parameters=[ACCOUNT, LIMIT, cursor("^(0|[1-9][0-9]{0,18})-(0|[1-9][0-9]{0,8})$", "1-0"), AMOUNTS],
            )
        },
    }


def validator_paths() -> Json:
    return {
        "/validators": {
            "get": operation(
                "listValidators",
                "Who makes the blocks, and who may change that.",
                "On networks only; a chain without validators has 404.",
                "validators",
                {200: answer("The validators as of the newest block.", "Validators")},
                [404],
                parameters=[AMOUNTS],
            ),
            "post": operation(
                "updateValidators",
                "Submit a signed change of the validators.",
                "It has happened once the listed sequence is above it.",
                "validators",
                {202: answer("This node has checked it and handed it on.", "UpdateSubmitted")},
                [404, 413, 415, 422],
                requestBody=body_of("ValidatorUpdate"),
            ),
        }
    }


def rpc_paths() -> Json:
    nothing = {
        "description": "All were notifications.",
        "headers": {name: header(name) for name in ("X-Chain-Id", "Cache-Control")},
    }
    return {
        "/rpc": {
            "post": operation(
                "callRpc",
                "Ethereum's JSON-RPC, for wallets and libraries.",
                "A call, or a batch of them. WebSocket is spoken here too; docs/json-rpc.md has the methods.",
                "json-rpc",
                {
                    200: answer("The answer, or the answers in any order. Also failures: see `error`.", "RpcAnswers"),
                    204: nothing,
                },
                [413, 415],
                requestBody=body_of("RpcMessage"),
            )
        }
    }


TEXT: Json = {"type": "string"}


def kept(description: str, *media_types: str, schema: Json = TEXT) -> Json:
    """A document that a client keeps, and asks each time whether it is still the same."""
    return {
        "description": description,
        "headers": {name: header(name) for name in ("X-Chain-Id", "ETag", "Cache-Control")},
        "content": {media_type: {"schema": schema} for media_type in media_types},
    }


def page(
    operation_id: str, summary: str, description: str, ok: Json, *problems: int, asset: Json | None = None
) -> Json:
    """`asset` is the parameter that names a part of the page."""
    unchanged = {name: value for name, value in kept("The client has it.").items() if name != "content"}
    parameters = [IF_NONE_MATCH] if asset is None else [asset, IF_NONE_MATCH]
    return {
        "get": operation(
            operation_id,
            summary,
            description,
            "description",
            {200: ok, 304: unchanged},
            problems,
            parameters=parameters,
        )
    }


def faucet_paths() -> Json:
    given = answer("The transfer is admitted and on disk.", "Submitted")
    given["links"] = {
        "transaction": {"operationId": "getTransaction", "parameters": {"hash": "$response.body#/txHash"}}
    }
    return {
        "/faucet": {
            "post": operation(
                "askFaucet",
                "Ask for coins, on a dev chain.",
                "Any other chain has 404 NOT_A_DEV_CHAIN.",
                "dev",
                {200: given},
                [404, 413, 415, 422],
                requestBody=body_of("FaucetRequest"),
            )
        }
    }


def description_paths() -> Json:
    asset = path_parameter(
        "asset", "Name of the asset.", {"type": "string", "enum": ["swagger-ui.css", "swagger-ui.js", "start.js"]},
        "start.js",
    )  # fmt: skip
    assets = kept("The asset.", "text/css", "text/javascript")
    document: Json = {"type": "object", "additionalProperties": True}
    return {
        "/openapi.json": page(
            "getOpenApi", "This document.", "What this node serves, for people and for generators of clients.",
            kept("OpenAPI 3.1.", JSON, schema=document),
        ),
        "/asyncapi.json": page(
            "getAsyncApi", "The events' document.", "Every message of the WebSocket `/events`.",
            kept("AsyncAPI 3.0.", JSON, schema=document),
        ),
        "/docs": page(
            "getDocs", "A page to browse this document.", "For people; it needs nothing from elsewhere.",
            kept("HTML.", "text/html"),
        ),
        "/docs/{asset}": page(
            "getDocsAsset", "What the page needs.", "Scripts and styles of `/docs`.", assets, 404, asset=asset
        ),
    }  # fmt: skip


def explorer_paths() -> Json:
    def named(pattern: str, example: str) -> Json:
        return path_parameter("asset", "Name of the file.", {"type": "string", "pattern": pattern}, example)

    files = kept("The file.", "text/javascript", "text/css", "text/html", "image/svg+xml")
    return {
        "/": page(
            "getExplorer", "The explorer, a page that shows the chain.", "404 where it is switched off.",
            kept("HTML.", "text/html"), 404,
        ),
        "/explorer/{asset}": page(
            "getExplorerAsset", "What the explorer needs.", "404 where it is switched off.", files, 404,
            asset=named(r"^[a-z0-9]+\.(js|css|html|svg)$", "api.js"),
        ),
        "/explorer/views/{asset}": page(
            "getExplorerView", "A view of the explorer.", "404 where it is switched off.",
            kept("The file.", "text/javascript"), 404, asset=named(r"^[a-z]+\.js$", "block.js"),
        ),
    }  # fmt: skip


def components(signs_for: Sequence[Address]) -> Json:
    every_status = sorted({answer.status for answer in ANSWERS.values()})
    return {
        "schemas": schemas(signs_for, sorted({error.code for error in ANSWERS})) | rpc_schemas(),
        "responses": {str(status): problem_response(status) for status in every_status},
        "headers": {
            "X-Chain-Id": {
                "description": "The chain that this node is of (EIP-155).",
                "required": True,
                "schema": {"type": "integer", "minimum": 1},
            },
            "X-Total-Count": {
                "description": "How many items there are on all pages together.",
                "required": True,
                "schema": {"type": "integer", "minimum": 0},
            },
            "Link": {
                "description": 'The next page (RFC 8288), `rel="next"`; absent on the last one.',
                "required": False,
                "schema": {"type": "string"},
            },
            "ETag": {"description": "Names this very content.", "required": True, "schema": {"type": "string"}},
            "Cache-Control": {
                "description": "How long it may be kept.", "required": True, "schema": {"type": "string"}
            },
            "Retry-After": {
                "description": "Seconds after which to try again.",
                "required": True,
                "schema": {"type": "integer", "minimum": 1},
            },
            "Allow": {
                "description": "The methods that the path takes.", "required": True, "schema": {"type": "string"}
            },
        },
    }  # fmt: skip


def openapi_document(signs_for: Sequence[Address]) -> Json:
    """`signs_for` are the accounts that need no signature: those of a dev chain, none elsewhere."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Cairn node",
            "version": INTERFACE_VERSION,
            "description": DESCRIPTION,
            "contact": {"name": "The operator of this node"},
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [
            {"name": "transactions", "description": "Submit, look up, list, prove."},
            {"name": "blocks", "description": "Blocks and the chain."},
            {"name": "accounts", "description": "Balances, nonces, history."},
            {"name": "validators", "description": "Of a network: an extension of the interface."},
            {"name": "dev", "description": "Of a dev chain: an extension of the interface."},
            {"name": "json-rpc", "description": "What Ethereum's wallets and libraries speak."},
            {"name": "probes", "description": "Alive, started, ready."},
            {"name": "description", "description": "The interface's own description."},
        ],
        "paths": paths(),
        "x-other-requests": {
            str(status): {"$ref": f"#/components/responses/{status}"} for status in NOT_OF_AN_OPERATION
        },
        "components": components(signs_for),
    }
