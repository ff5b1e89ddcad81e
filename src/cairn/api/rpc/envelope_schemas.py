"""JSON Schemas of JSON-RPC's envelope, for the OpenAPI document; what each method takes is in docs/json-rpc.md."""

from cairn.api.rpc.dispatch import MAX_BATCH
from cairn.api.rpc.objects import Json
from cairn.domain.json_fields import ref

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
