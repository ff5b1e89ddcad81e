"""JSON Schemas in words: what a person reads in a table's cell."""

import json
import re
from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]

POWERS = {2**bits - 1: f"2^{bits}-1" for bits in (32, 53, 64, 256)}
MOST_ENUMERATED = 12
"""A longer list of values is told apart from the table, or not at all."""


def schema_link(pointer: str) -> str:
    name = pointer.rpartition("/")[2]
    return f"[{name}](docs/rest/schemas.md#{anchor(name)})"


def anchor(heading: str) -> str:
    """The name that a heading gets by itself, on the site and on a forge."""
    return re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-")


def type_of(schema: Json) -> str:
    """The type of a field or parameter, with what bounds it."""
    if "$ref" in schema:
        return schema_link(schema["$ref"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        shown = [f"`{json.dumps(value)}`" for value in schema["enum"][:MOST_ENUMERATED]]
        return ", ".join(shown) + (", …" if len(schema["enum"]) > len(shown) else "")
    for choice in ("oneOf", "anyOf"):
        if choice in schema:
            return " or ".join(type_of(option) for option in schema[choice])
    kind = schema.get("type", "anything")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array":
        most = f", at most {schema['maxItems']:,}" if "maxItems" in schema else ""
        return f"array of {type_of(schema['items'])}{most}"
    return f"{kind}{bounds(schema)}"


def bounds(schema: Json) -> str:
    if "maximum" in schema:
        return f", {schema.get('minimum', 0)} to {number(schema['maximum'])}"
    return ""


def number(value: int) -> str:
    return POWERS.get(value, f"{value:,}")


def cell(text: str) -> str:
    """Text that stays within its cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell(text) for text in line) + " |" for line in lines)


def fields_table(schema: Json) -> str:
    """The members of an object."""
    required = schema.get("required", [])
    rows = [
        (f"`{name}`", type_of(field), field.get("description", "") + ("" if name in required else " *Optional.*"))
        for name, field in schema["properties"].items()
    ]
    return table(("field", "type", "meaning"), rows)


def example(value: object) -> str:
    return f"```json\n{json.dumps(value, indent=2)}\n```"
