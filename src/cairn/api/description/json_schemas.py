"""JSON Schemas of the public types, as the generators of clients take them."""

from typing import Any

import msgspec

from cairn.api.rpc.calls import MAX_BATCH
from cairn.domain.json_fields import ref

Json = dict[str, Any]
INTERFACE_VERSION = "1.0.0"
PUBLIC_NAMES = {
    "AccountState": "Account",
    "Checks": "ReadinessChecks",
    "Head": "ChainHead",
    "MempoolSize": "MempoolLevel",
    "Revert": "LastRevert",
    "SignedFields": "SignedTransaction",
    "SubmissionJson": "Submission",
    "ValidatorUpdateJson": "ValidatorUpdate",
}
"""Of the schemas, where the type's own name is another."""


class Schemas:
    """The schema of each type that is asked for, and the components that they point to: all made at once at the end."""

    def __init__(self) -> None:
        self._asked: list[tuple[Any, Json]] = []
        self._components: Json = {}

    def of(self, described: Any) -> Json:
        """Empty until `make_components` is called."""
        schema: Json = {}
        self._asked.append((described, schema))
        return schema

    def make_components(self) -> Json:
        types = [described for described, _ in self._asked]
        made, structs = msgspec.json.schema_components(types, ref_template=ref("{name}")["$ref"])
        for (_, empty), schema in zip(self._asked, made, strict=True):
            empty.update(self._tidy(schema))
        for name, struct in structs.items():
            self._components[_public(name)] = self._tidy(struct | {"title": None})
        return self._components

    def _tidy(self, schema: Json) -> Json:
        """The schema as generators of clients accept it; one with a title becomes a component of that name."""
        title = schema.pop("title", None)
        if "$ref" in schema:
            # Beside it stands what the plain type is, which the component says better.
            return {"$ref": _public(schema["$ref"])} | {key: schema[key] for key in ("description",) if key in schema}
        if "properties" in schema:
            self._tidy_object(schema)
        if "items" in schema:
            schema["items"] = self._tidy(schema["items"])
        if "enum" in schema:
            schema["type"] = "string"
        # None is for the types alone: in JSON such a field is left out.
        choices = [self._tidy(choice) for choice in schema.pop("anyOf", ()) if choice != {"type": "null"}]
        if len(choices) == 1:
            schema.update(choices[0])
        # The field's own description of its types is better, if it has one.
        elif choices and not schema.keys() & {"type", "oneOf"}:
            schema["oneOf"] = choices
        if title is None:
            return schema
        self._components[title] = schema
        return ref(title)

    def _tidy_object(self, schema: Json) -> None:
        schema["properties"] = {name: self._tidy(field) for name, field in schema["properties"].items()}
        schema["additionalProperties"] = False
        for name, field in schema["properties"].items():
            # A default that is text is always written; any other default is left out.
            if isinstance(field.pop("default", None), str):
                schema["required"].append(name)


def _public(name: str) -> str:
    start, _, own = name.rpartition("/")
    public = PUBLIC_NAMES.get(own, own)
    return f"{start}/{public}" if start else public


VERSION: Json = {"type": "string", "enum": ["2.0"], "description": "The version of JSON-RPC."}


def rpc_schemas() -> Json:
    request_id: Json = {"type": ["string", "number", "null"], "description": "Given back in the answer."}
    return {
        "RpcRequest": {
            "type": "object",
            "description": "A call. Without an id it is a notification and gets no answer.",
            "properties": {
                "jsonrpc": VERSION,
                "id": request_id,
                "method": {"type": "string", "minLength": 1, "description": "The method, such as eth_blockNumber."},
                "params": {"type": ["array", "null"], "items": {}, "description": "The arguments, by position."},
            },
            "required": ["jsonrpc", "method"],
            "examples": [{"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber", "params": []}],
        },
        # A name of its own: generators fail when a schema is both a choice of `oneOf` and the item of another choice.
        "RpcBatchRequest": {"allOf": [ref("RpcRequest")], "description": "A call in a batch."},
        "RpcBatch": {"type": "array", "items": ref("RpcBatchRequest"), "minItems": 1, "maxItems": MAX_BATCH},
        "RpcMessage": {"oneOf": [ref("RpcRequest"), ref("RpcBatch")]},
        "RpcError": {
            "type": "object",
            "description": "Codes and wording are geth's.",
            "properties": {
                "code": {"type": "integer", "description": "-32700 to -32600 by JSON-RPC, -32099 to -32000 by geth."},
                "message": {"type": "string"},
                "data": {"description": "`code` in it is the error code of the same refusal on REST."},
            },
            "required": ["code", "message"],
            "additionalProperties": False,
        },
        "RpcAnswer": {
            "type": "object",
            "description": "Either a result or an error.",
            "properties": {
                "jsonrpc": VERSION,
                "id": request_id,
                "result": {"description": "What the method returns."},
                "error": ref("RpcError"),
            },
            "required": ["jsonrpc", "id"],
            "additionalProperties": False,
            "minProperties": 3,
            "maxProperties": 3,
        },
        "RpcBatchAnswer": {"allOf": [ref("RpcAnswer")], "description": "An answer in a batch."},
        "RpcAnswers": {"oneOf": [ref("RpcAnswer"), {"type": "array", "items": ref("RpcBatchAnswer")}]},
    }
