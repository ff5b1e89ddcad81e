"""The OpenAPI document: what is served, no more and no less."""

from collections.abc import Sequence
from typing import Any

import msgspec

from cairn.api.description.explorer_files import Explorer
from cairn.api.description.json_schemas import Json, Schemas
from cairn.api.description.pages import Pages
from cairn.api.errors import ANSWERS, PROBLEM_MEDIA_TYPE
from cairn.api.rest.faucet import Faucet
from cairn.api.rest.lookups import Lookups
from cairn.api.rest.operation import JSON, Answer, Operation, operations_of
from cairn.api.rest.parameters import Parameter
from cairn.api.rest.probes import Probes
from cairn.api.rest.submission import MAX_AMOUNT_DIGITS, MAX_EXACT_DOUBLE
from cairn.api.rest.submit import Submissions
from cairn.api.rest.validators import ValidatorRoutes
from cairn.api.rpc.endpoint import RpcEndpoint
from cairn.api.rpc.envelope_schemas import rpc_schemas
from cairn.api.schemas import CHECKSUMMED, INTERFACE_VERSION, Problem, Submitted
from cairn.core.gateway import FAUCET_DEFAULT, FAUCET_MOST
from cairn.domain.types import MAX_UINT256, TRANSFER_GAS, Address

AMOUNT_FORMAT = "uint256"

DESCRIPTION = """The public interface of a Cairn node. Every failure is `application/problem+json` with a stable `code`.
Amounts and heights are JSON integers, exact at any size. Where numbers are doubles, send amounts as strings of digits
and ask for them with `?amounts=string`; generated clients for Go and TypeScript need it.
Every GET is answered to HEAD too. Events are on the WebSocket `/events`, described by `/asyncapi.json`."""

HANDLERS = (Probes, Submissions, Lookups, ValidatorRoutes, Faucet, RpcEndpoint, Pages, Explorer)

NOT_OF_AN_OPERATION = (405, 426)
"""What is answered to a request that is none of the operations: another method, a plain request to /events."""

COMMON_STATUSES = (400, 403, 408, 429, 431, 500, 503)
"""What any request can meet before its own path matters: bad HTTP, another host, a rate or a connection limit."""
STATUSES_OF_A_BODY = (413, 415)

TAGS = {
    "transactions": "Submit, look up, list, prove.",
    "blocks": "Blocks and the chain.",
    "accounts": "Balances, nonces, history.",
    "validators": "Of a network: an extension of the interface.",
    "dev": "Of a dev chain: an extension of the interface.",
    "json-rpc": "What Ethereum's wallets and libraries speak.",
    "probes": "Alive, started, ready.",
    "description": "The interface's own description.",
}
HEADERS = {
    "X-Chain-Id": ("The chain that this node is of (EIP-155).", {"type": "integer", "minimum": 1}),
    "X-Total-Count": ("How many items there are on all pages together.", {"type": "integer", "minimum": 0}),
    "Link": ('The next page (RFC 8288), `rel="next"`; absent on the last one.', {"type": "string"}),
    "ETag": ("Names this very content.", {"type": "string"}),
    "Cache-Control": ("How long it may be kept.", {"type": "string"}),
    "Retry-After": ("Seconds after which to try again.", {"type": "integer", "minimum": 1}),
    "Allow": ("The methods that the path takes.", {"type": "string"}),
}
HEADERS_OF_ALL = ("X-Chain-Id", "Cache-Control")
HEADERS_OF_PROBLEMS = {405: ("Allow",), 429: ("Retry-After",), 503: ("Retry-After",)}
IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "ETags that the client holds; 304 when the block's is among them.",
    "schema": {"type": "string"},
}
LINK_TO_TRANSACTION = {
    "transaction": {"operationId": "getTransaction", "parameters": {"hash": "$response.body#/txHash"}}
}
SENDER = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"


def codes_of(status: int) -> list[str]:
    return sorted({error.code for error, answer in ANSWERS.items() if answer.status == status})


def camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


class Description:
    """Of the operations, with the schemas that they need."""

    def __init__(self) -> None:
        self.schemas = Schemas()

    def paths(self) -> Json:
        found: Json = {}
        for cls in HANDLERS:
            for operation in operations_of(cls):
                found.setdefault(operation.path, {})[operation.method.lower()] = self._operation(operation)
        return found

    def _operation(self, operation: Operation) -> Json:
        parameters = [self._parameter(operation, parameter) for parameter in operation.parameters]
        answers = list(operation.answers)
        if "ETag" in answers[0].headers:
            parameters.append(IF_NONE_MATCH)
            answers.append(Answer("The client has it.", headers=("ETag",), status=304))
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
            described["requestBody"] = {"required": True} | self._content(operation.body, JSON)
        return described

    def _answer(self, answer: Answer) -> Json:
        described: Json = {
            "description": answer.description,
            "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in (*HEADERS_OF_ALL, *answer.headers)},
        }
        if answer.body is not None:
            described |= self._content(answer.body, *answer.media_types)
        if answer.status in COMMON_STATUSES:
            described["content"] |= self._content(Problem, PROBLEM_MEDIA_TYPE)["content"]
        if answer.body is Submitted:
            described["links"] = LINK_TO_TRANSACTION
        return described

    def problem(self, status: int) -> Json:
        titles = sorted({answer.title for answer in ANSWERS.values() if answer.status == status})
        description = ". ".join(titles) + ". Codes: " + ", ".join(codes_of(status)) + "."
        extra = HEADERS_OF_PROBLEMS.get(status, ())
        return self._answer(Answer(description, Problem, extra, (PROBLEM_MEDIA_TYPE,), status))

    def _content(self, body: Any, *media_types: str) -> Json:
        return {"content": {media_type: {"schema": self.schemas.of(body)} for media_type in media_types}}

    def _parameter(self, operation: Operation, parameter: Parameter) -> Json:
        in_path = operation.has_in_path(parameter)
        described = {
            "name": parameter.name,
            "in": "path" if in_path else "query",
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
    """Those that no type of ours has."""
    amount = amount_within(
        "In wei, exact at any size up to 2^256-1: an integer, or a string of its decimal digits. Both are taken. "
        "Answers have integers, or strings with `?amounts=string`. An integer that is written with a fraction or an "
        f"exponent is taken up to 2^53 = {MAX_EXACT_DOUBLE}.",
        0,
        MAX_UINT256,
        format=AMOUNT_FORMAT,
        # Of 78 digits a pattern cannot say which are too many.
        pattern=f"^[0-9]{{1,{MAX_AMOUNT_DIGITS}}}$",
    )
    given = amount_within("Wei, from 1 to 1,000 coins.", 1, FAUCET_MOST, pattern="^([1-9][0-9]{0,20}|10{21})$")
    return {
        "Amount": amount | {"examples": ["10000000000000000000001"]},
        # No `default`: clients that are generated with one of this size do not compile.
        "FaucetAmount": given | {"x-usual": FAUCET_DEFAULT},
        "ProblemCode": {
            "type": "string",
            "description": "What went wrong, for programs: a code never changes its meaning.",
            "enum": sorted({error.code for error in ANSWERS}),
        },
    } | rpc_schemas()


def add_examples(schemas: Json, signs_for: Sequence[Address]) -> None:
    """What the examples send is taken; without a signature only from accounts whose keys the node holds."""
    schemas["FaucetRequest"]["examples"] = [{"address": CHECKSUMMED}]
    submission = schemas["Submission"]
    example = {"from": SENDER, "to": CHECKSUMMED.lower(), "value": 10, "nonce": 0, "gas": TRANSFER_GAS}
    submission["examples"] = [example | {"signature": "0x" + "11" * 65}]
    submission["x-signs-for"] = ["0x" + address.hex() for address in signs_for]
    if not signs_for:
        submission["required"].append("signature")
        return
    submission["properties"]["signature"]["description"] += (
        " May be left out for the accounts of this dev chain, whose keys the node holds."
    )
    submission["examples"].append(
        {"from": submission["x-signs-for"][0], "to": CHECKSUMMED, "value": "10", "gas": TRANSFER_GAS}
    )


def openapi_document(signs_for: Sequence[Address]) -> Json:
    """`signs_for` are the accounts that need no signature: those of a dev chain, none elsewhere."""
    description = Description()
    paths = description.paths()
    responses = {
        str(status): description.problem(status) for status in sorted({each.status for each in ANSWERS.values()})
    }
    schemas = description.schemas.make_components() | described_schemas()
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
        "tags": [{"name": name, "description": about} for name, about in TAGS.items()],
        "paths": paths,
        "x-other-requests": {
            str(status): {"$ref": f"#/components/responses/{status}"} for status in NOT_OF_AN_OPERATION
        },
        "components": {
            "schemas": schemas,
            "responses": responses,
            "headers": {
                name: {"description": about, "required": name != "Link", "schema": schema}
                for name, (about, schema) in HEADERS.items()
            },
        },
    }


def encode_openapi(signs_for: Sequence[Address]) -> bytes:
    return msgspec.json.encode(openapi_document(signs_for))
