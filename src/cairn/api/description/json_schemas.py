"""JSON Schemas of the public types, as the generators of clients take them."""

from typing import Any

import msgspec

from cairn.api.schemas import ref

Json = dict[str, Any]


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
        """As generators like it; what has a title becomes a component of that name."""
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
        choices = schema.pop("anyOf", None)
        # Where the field has a word on this of its own, it knows better.
        if choices and not schema.keys() & {"type", "oneOf"}:
            schema["oneOf"] = [self._tidy(choice) for choice in choices]
        if title is None:
            return schema
        self._components[title] = schema
        return ref(title)

    def _tidy_object(self, schema: Json) -> None:
        schema["properties"] = {name: self._tidy(field) for name, field in schema["properties"].items()}
        schema["additionalProperties"] = False
        for name, field in schema["properties"].items():
            # What has a value of its own is always written; what may be left out has none.
            if field.pop("default", None) is not None:
                schema["required"].append(name)


def _public(name: str) -> str:
    return name.removesuffix("Json")
