"""The OpenAPI document: exactly what is served."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from cairn.api.bodies import JSON_MEDIA_TYPE, NDJSON_MEDIA_TYPE, PROBLEM_MEDIA_TYPE
from cairn.api.description.examples import (
    EXAMPLES,
    FURTHER_EXAMPLES,
    REFERENCE_GAS,
    SIGNED_TRANSFER,
    SIGNED_WITH_REFERENCE,
)
from cairn.api.description.json_schemas import INTERFACE_VERSION, Json, Schemas, rpc_schemas
from cairn.api.description.pages import Explorer, Pages
from cairn.api.parameters import Parameter
from cairn.api.rest.accounts import Accounts
from cairn.api.rest.lookups import Lookups
from cairn.api.rest.probes import Probes
from cairn.api.rest.proofs import Proofs
from cairn.api.rest.submissions import Faucet, Submissions
from cairn.api.rest.validators import ValidatorRoutes
from cairn.api.routing import Answer, Operation, PageRoute, operations_of
from cairn.api.rpc.endpoints import RpcEndpoint
from cairn.core.gateway import FAUCET_DEFAULT, FAUCET_MOST
from cairn.domain.answers import Block, FullBlock, Problem, Submitted
from cairn.domain.errors import ANSWERED, BY_CODE
from cairn.domain.json_fields import CHECKSUMMED, MAX_AMOUNT_DIGITS, MAX_EXACT_DOUBLE, REFERENCE, about, ref
from cairn.domain.types import ACCESS_LIST, DYNAMIC_FEE, LEGACY, MAX_UINT256, TRANSFER_GAS, Address

AMOUNT_FORMAT = "uint256"

DESCRIPTION = """The REST API of a Cairn node. Every error is `application/problem+json` with a stable `code`.
Amounts and heights are JSON integers, exact at any size. If your language reads numbers as doubles, send amounts as
strings of digits and get them as strings with `?amounts=string`; generated clients for Go and TypeScript need it.
Every path that has GET has HEAD, too. The events of the WebSocket `/events` are described in `/asyncapi.json`."""

HANDLERS = (Probes, Submissions, Lookups, Accounts, Proofs, ValidatorRoutes, Faucet, RpcEndpoint, Pages, Explorer)

NOT_OF_AN_OPERATION = (405, 426)
"""Answers to a request that is not an operation: a wrong method, or plain HTTP on /events."""

COMMON_STATUSES = (400, 403, 408, 429, 431, 500, 503)
"""Errors that any request can get, whatever its path: bad HTTP, another host, a rate or connection limit."""
STATUSES_OF_A_BODY = (413, 415)

TAGS = {
    "transactions": ("Transactions", "Submit and look up transactions, list the mempool, get proofs."),
    "blocks": ("Blocks", "Blocks and the chain."),
    "accounts": ("Accounts", "Balances, nonces and history."),
    "proofs": ("Proofs", "Files that anybody checks offline, with genesis.json alone."),
    "validators": ("Validators", "The validators of a network, and changes of them."),
    "dev": ("Dev chain", "For dev chains only."),
    "json-rpc": ("JSON-RPC", "For Ethereum's wallets and libraries."),
    "probes": ("Probes", "Whether the node is alive, started and ready."),
    "description": ("Documents", "This document, and the AsyncAPI document."),
}
"""By name, each with a title and a description."""
HEADERS = {
    "X-Chain-Id": ("The chain id (EIP-155).", {"type": "integer", "minimum": 1}),
    "X-Total-Count": (
        "Number of items on all pages, where the node knows it without counting.",
        {"type": "integer", "minimum": 0},
    ),
    "X-Block-Height": (
        "The node's latest block when it made the list. A client behind a load balancer compares it: another node may "
        "have fewer blocks.",
        {"type": "integer", "minimum": 0},
    ),
    "X-Oldest-Block": (
        "There if the node does not keep all blocks: the oldest one that it has. What older ones had is not in the "
        "list.",
        {"type": "integer", "minimum": 1},
    ),
    "Link": (
        'The next page (RFC 8288), `rel="next"`, absent on the last one; and where a list can be read in both '
        'directions, the page before, `rel="prev"`.',
        {"type": "string"},
    ),
    "ETag": ("Identifies this content, for If-None-Match.", {"type": "string"}),
    "Cache-Control": ("How long the answer may be cached.", {"type": "string"}),
    "Retry-After": ("Seconds after which to try again.", {"type": "integer", "minimum": 1}),
    "Allow": ("The methods that the path accepts.", {"type": "string"}),
}
OPTIONAL_HEADERS = ("Link", "X-Oldest-Block", "X-Total-Count")
HEADERS_OF_ALL = ("X-Chain-Id", "Cache-Control")
HEADERS_OF_PROBLEMS = {405: ("Allow",), 429: ("Retry-After",), 503: ("Retry-After",)}
IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "ETags that the client has. If the current one is among them, the answer is 304.",
    "schema": {"type": "string"},
}
LINES = Annotated[str, about("Transactions, each as a JSON object (`ConfirmedTransaction`) on a line of its own.")]
LINK_TO_TRANSACTION = {
    "transaction": {"operationId": "getTransaction", "parameters": {"hash": "$response.body#/txHash"}}
}


def codes_of(status: int) -> list[str]:
    return sorted({error.code for error in ANSWERED if error.status == status})


def camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


class Description:
    """Describes the operations, and collects the schemas that they use."""

    def __init__(self) -> None:
        self.schemas = Schemas()

    def paths(self) -> Json:
        found: Json = {}
        for cls in HANDLERS:
            for operation in operations_of(cls):
                if not isinstance(operation, PageRoute):
                    found.setdefault(operation.path, {})[operation.method.lower()] = self._operation(operation)
        return found

    def _operation(self, operation: Operation) -> Json:
        parameters = [self._parameter(operation, parameter) for parameter in operation.parameters]
        answers = list(operation.answers)
        if "ETag" in answers[0].headers:
            parameters.append(IF_NONE_MATCH)
            answers.append(Answer("The client already has this content.", headers=("ETag",), status=304))
        problems = (*COMMON_STATUSES, *operation.problems, *(STATUSES_OF_A_BODY if operation.body else ()))
        responses: Json = {str(status): {"$ref": f"#/components/responses/{status}"} for status in problems}
        responses |= {str(answer.status): self._answer(answer) for answer in answers}
        described: Json = {
            "operationId": camel_case(operation.name),
            "summary": operation.summary,
            "description": " ".join(operation.description.split()),
            "tags": [operation.tag],
            "responses": dict(sorted(responses.items())),
        }
        if parameters:
            described["parameters"] = parameters
        if operation.body:
            described["requestBody"] = {"required": True} | self._content(operation.body, JSON_MEDIA_TYPE)
        return described

    def _answer(self, answer: Answer) -> Json:
        described: Json = {
            "description": answer.description,
            "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in (*HEADERS_OF_ALL, *answer.headers)},
        }
        if answer.body is not None:
            described |= self._content(answer.body, *answer.media_types)
        if answer.has_lines:
            described["content"] |= self._content(LINES, NDJSON_MEDIA_TYPE)["content"]
        if answer.status in COMMON_STATUSES:
            described["content"] |= self._content(Problem, PROBLEM_MEDIA_TYPE)["content"]
        if answer.body is Submitted:
            described["links"] = LINK_TO_TRANSACTION
        return described

    def problem(self, status: int) -> Json:
        titles = sorted({error.title for error in ANSWERED if error.status == status})
        description = ". ".join(titles) + ". Codes: " + ", ".join(codes_of(status)) + "."
        extra = HEADERS_OF_PROBLEMS.get(status, ())
        return self._answer(Answer(description, Problem, extra, (PROBLEM_MEDIA_TYPE,), status))

    def _content(self, body: Any, *media_types: str) -> Json:
        return {"content": {media_type: {"schema": self.schemas.of(body)} for media_type in media_types}}

    def _parameter(self, operation: Operation, parameter: Parameter) -> Json:
        in_path = operation.has_in_path(parameter)
        described = {
            "name": parameter.name,
            "in": "path" if in_path else "header" if parameter.is_header else "query",
            "required": in_path,
            "description": parameter.description,
            "schema": self.schemas.of(parameter.type),
        }
        return described | ({"example": parameter.example} if parameter.example else {})


def amount_within(description: str, least: int, most: int, **digits: str) -> Json:
    """An integer, or a string of its decimal digits."""
    return {
        "description": description,
        "oneOf": [{"type": "integer", "minimum": least, "maximum": most}, {"type": "string", **digits}],
    }


def described_schemas() -> Json:
    """Schemas that are not made from a type."""
    amount = amount_within(
        "An amount in wei, exact at any size up to 2^256-1: an integer, or a string of decimal digits. Requests may "
        "use either. Answers have integers, or strings with `?amounts=string`. An integer that is written with a "
        f"fraction or an exponent is accepted up to 2^53 = {MAX_EXACT_DOUBLE}.",
        0,
        MAX_UINT256,
        format=AMOUNT_FORMAT,
        # A pattern cannot express the largest number of 78 digits.
        pattern=f"^[0-9]{{1,{MAX_AMOUNT_DIGITS}}}$",
    )
    given = amount_within("Wei, from 1 to 1,000 coins.", 1, FAUCET_MOST, pattern="^([1-9][0-9]{0,20}|10{21})$")
    return {
        # Not `oneOf`: a block without transactions is both.
        "AnyBlock": {"anyOf": [ref("Block"), ref("FullBlock")], "description": "With hashes, or with transactions."},
        "Amount": amount | {"examples": ["10000000000000000000001"]},
        # No `default`: generated clients do not compile with one of this size.
        "FaucetAmount": given | {"x-usual": FAUCET_DEFAULT},
        "ProblemCode": {
            "type": "string",
            "description": "The kind of error, for programs. A code never changes its meaning.",
            "enum": sorted(BY_CODE),
        },
    } | rpc_schemas()


def add_exclusions(submission: Json) -> None:
    """Refuse fields that exclude each other. Without `if` and `anyOf`: generators of clients make another type then."""
    capped: Json = {"properties": {"type": {"const": DYNAMIC_FEE}}, "not": {"required": ["gasPrice"]}}
    submission["dependentSchemas"] = {
        "gasPrice": {"properties": {"type": {"enum": [LEGACY, ACCESS_LIST]}}},
        "maxFeePerGas": capped,
        "maxPriorityFeePerGas": capped,
        "data": {"not": {"required": ["reference"]}},
    }


def add_examples(schemas: Json, signs_for: Sequence[Address]) -> None:
    for name, example in EXAMPLES.items():
        schemas[name]["examples"] = [example]
    for name, example in FURTHER_EXAMPLES.items():
        schemas[name]["examples"].append(example)
    submission = schemas["Submission"]
    submission["examples"] = [SIGNED_TRANSFER, SIGNED_WITH_REFERENCE]
    submission["x-signs-for"] = ["0x" + address.hex() for address in signs_for]
    if signs_for:
        submission["properties"]["signature"]["description"] += (
            " Accounts of this dev chain may leave it out: the node holds their keys."
        )
        # First, because it works at any time: the nonce of the other one is used by the first payment.
        unsigned = {"from": submission["x-signs-for"][0], "to": CHECKSUMMED, "value": "10", "gas": TRANSFER_GAS}
        submission["examples"].insert(0, unsigned)
        submission["examples"].insert(1, unsigned | {"gas": REFERENCE_GAS, "reference": REFERENCE})
    else:
        submission["required"].append("signature")
    schemas["SubmissionBatch"]["examples"] = [submission["examples"][:1]]


def openapi_document(signs_for: Sequence[Address]) -> Json:
    """`signs_for` are the accounts that need no signature: the dev accounts on a dev chain, elsewhere none."""
    description = Description()
    paths = description.paths()
    for block in (Block, FullBlock):
        description.schemas.of(block)
    responses = {str(status): description.problem(status) for status in sorted({error.status for error in ANSWERED})}
    schemas = description.schemas.make_components() | described_schemas()
    add_exclusions(schemas["Submission"])
    add_examples(schemas, signs_for)
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
        # Said explicitly, for linters: signatures authorise, and nothing else does.
        "security": [],
        "tags": [{"name": name, "x-displayName": title, "description": about} for name, (title, about) in TAGS.items()],
        "paths": paths,
        "x-other-requests": {
            str(status): {"$ref": f"#/components/responses/{status}"} for status in NOT_OF_AN_OPERATION
        },
        "components": {
            "schemas": schemas,
            "responses": responses,
            "headers": {
                name: {"description": about, "required": name not in OPTIONAL_HEADERS, "schema": schema}
                for name, (about, schema) in HEADERS.items()
            },
        },
    }


def encode_openapi(signs_for: Sequence[Address]) -> bytes:
    return msgspec.json.encode(openapi_document(signs_for))
