"""The reference of the event channel: the AsyncAPI document as a page."""

from collections.abc import Iterator

from cairn.api.description.asyncapi import asyncapi_document
from tools.reference.wording import Json, example, fields_table

DOCUMENT = asyncapi_document()


def messages() -> str:
    """Every message of the socket, by who sends it."""
    ask, tell = DOCUMENT["operations"]["ask"], DOCUMENT["operations"]["tell"]
    groups = [
        ("From the client", ask["messages"]),
        ("Answers", ask["reply"]["messages"]),
        ("Events", tell["messages"]),
    ]
    return "\n\n".join(part for title, references in groups for part in group_parts(title, references))


def group_parts(title: str, references: list[Json]) -> Iterator[str]:
    yield f"### {title}"
    for reference in references:
        name = reference["$ref"].rpartition("/")[2]
        yield from message_parts(name, DOCUMENT["components"]["messages"][name])


def message_parts(name: str, message: Json) -> Iterator[str]:
    yield f"#### `{name}`"
    yield message["summary"]
    payload = message["payload"]
    yield "\n\nor\n\n".join(fields_table(option) for option in payload.get("oneOf", [payload]))
    for shown in message["examples"]:
        yield example(shown["payload"])
