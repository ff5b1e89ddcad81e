"""Answers held against the OpenAPI document: status, headers, media type and body."""

import json
import re
from typing import Any

import httpx
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from cairn.api.description.openapi import openapi_document
from cairn.domain.genesis import DEV_KEYS

DOCUMENT = openapi_document([address for address, _ in DEV_KEYS])
_REGISTRY: Registry[Any] = Registry().with_resource("doc:", Resource.from_contents(DOCUMENT, DRAFT202012))


def resolve(node: dict[str, Any]) -> dict[str, Any]:
    """The thing itself, if `node` only points to it."""
    while "$ref" in node:
        target: Any = DOCUMENT
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node


def validator(pointer: str) -> Draft202012Validator:
    """Checks values against the schema at `pointer` in the document."""
    return Draft202012Validator({"$ref": f"doc:#{pointer}"}, registry=_REGISTRY)


def find_operation(request: httpx.Request) -> dict[str, Any] | None:
    method = request.method.lower().replace("head", "get")
    for template, item in DOCUMENT["paths"].items():
        pattern = re.sub(r"\{[a-z]+\}", "[^/]+", re.escape(template).replace(r"\{", "{").replace(r"\}", "}"))
        if re.fullmatch(pattern, request.url.path) and method in item:
            found: dict[str, Any] = item[method]
            return found
    return None


def assert_described(answer: httpx.Response) -> None:
    """Whatever was answered is what the document says of this very operation."""
    operation = find_operation(answer.request)
    assert operation is not None, f"{answer.request.method} {answer.request.url} is not described"
    assert str(answer.status_code) in operation["responses"], f"{answer.request.url}: {answer.status_code} is not there"
    described = resolve(operation["responses"][str(answer.status_code)])
    for name, header in described["headers"].items():
        assert name in answer.headers or not resolve(header)["required"], f"{name} is missing"
    if "content" not in described:
        assert answer.content == b""
        return
    media_type = answer.headers["content-type"].partition(";")[0]
    assert media_type in described["content"], f"{answer.request.url}: {media_type} is not described"
    if media_type.endswith(("/json", "+json")) and answer.request.method != "HEAD":
        schema = described["content"][media_type]["schema"]
        pointer = schema["$ref"].removeprefix("#") if "$ref" in schema else None
        checked = validator(pointer) if pointer else Draft202012Validator(schema)
        checked.validate(json.loads(answer.content))
