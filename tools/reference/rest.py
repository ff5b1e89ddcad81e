"""The REST reference: the OpenAPI document of a dev chain as pages."""

from collections.abc import Iterator

from cairn.api.description.openapi import COMMON_STATUSES, codes_of, openapi_document
from cairn.domain.errors import ANSWERED
from cairn.domain.genesis import DEV_KEYS
from tools.reference.wording import Json, anchor, example, fields_table, table, type_of

DOCUMENT = openapi_document([address for address, _ in DEV_KEYS])
PAGES = {
    "transactions": "docs/rest/transactions.md",
    "blocks": "docs/rest/blocks.md",
    "accounts": "docs/rest/accounts.md",
    "proofs": "docs/rest/proofs.md",
    "validators": "docs/rest/validators.md",
    "dev": "docs/rest/dev.md",
    "json-rpc": "docs/rest/node.md",
    "probes": "docs/rest/node.md",
    "description": "docs/rest/node.md",
}
"""Where the operations of each tag are described."""


def operations(tag: str) -> list[tuple[str, Json]]:
    """Those of a tag: method and path, and the description."""
    return [
        (f"{method.upper()} {path}", operation)
        for path, item in DOCUMENT["paths"].items()
        for method, operation in item.items()
        if tag in operation["tags"]
    ]


def list_of_endpoints() -> str:
    """Every operation, by tag, each with the page that describes it."""
    rows = [
        (f"[`{signature}`]({PAGES[tag['name']]}#{anchor(signature)})", operation["summary"], tag["x-displayName"])
        for tag in DOCUMENT["tags"]
        for signature, operation in operations(tag["name"])
    ]
    return table(("endpoint", "what it does", "topic"), rows)


def endpoints(tag: str) -> str:
    return "\n\n".join(
        part for signature, operation in operations(tag) for part in operation_parts(signature, operation)
    )


def operation_parts(signature: str, operation: Json) -> Iterator[str]:
    yield f"### `{signature}`"
    yield operation["summary"]
    if "description" in operation:
        yield operation["description"]
    if "parameters" in operation:
        yield table(("parameter", "in", "type", "meaning"), [parameter_row(each) for each in operation["parameters"]])
    if "requestBody" in operation:
        yield f"Body: {body_of(operation['requestBody'])}"
    yield table(("status", "body", "meaning"), answer_rows(operation["responses"]))


def parameter_row(parameter: Json) -> tuple[str, str, str, str]:
    schema = parameter["schema"]
    default = f" Default {schema['default']}." if "default" in schema else ""
    return f"`{parameter['name']}`", parameter["in"], type_of(schema), parameter["description"] + default


def body_of(described: Json) -> str:
    """The schema of each form of a body; JSON goes without saying."""
    return ", ".join(
        type_of(content["schema"]) + ("" if media_type.endswith("json") else f" (`{media_type}`)")
        for media_type, content in described.get("content", {}).items()
    )


def answer_rows(responses: Json) -> Iterator[tuple[str, str, str]]:
    """What the operation answers; the problems that any request can meet are told once for all."""
    for status, response in responses.items():
        if "$ref" not in response:
            yield status, body_of(response), response["description"]
        elif int(status) not in COMMON_STATUSES:
            yield status, type_of({"$ref": "Problem"}), codes(int(status))


def codes(status: int) -> str:
    return ", ".join(f"[`{code}`](docs/errors.md#{code.lower()})" for code in codes_of(status))


def common_problems() -> str:
    return table(("status", "codes"), [(str(status), codes(status)) for status in COMMON_STATUSES])


def schemas() -> str:
    return "\n\n".join(
        part
        for name, schema in sorted(DOCUMENT["components"]["schemas"].items())
        for part in schema_parts(name, schema)
    )


def schema_parts(name: str, schema: Json) -> Iterator[str]:
    yield f"## {name}"
    if "description" in schema:
        yield schema["description"]
    if "properties" in schema:
        yield fields_table(schema)
    else:
        yield f"Is: {type_of(schema)}."
    for value in schema.get("examples", []):
        yield example(value)


def errors() -> str:
    """Every code that a node can answer with."""
    rows = [
        (
            f'<a id="{error.code.lower()}"></a>`{error.code}`',
            str(error.status),
            error.title + ".",
            wait(error.retry_after_s),
        )
        for error in ANSWERED
    ]
    return table(("code", "status", "meaning", "`Retry-After`"), sorted(rows, key=lambda row: (row[1], *row)))


def wait(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:g} s"
