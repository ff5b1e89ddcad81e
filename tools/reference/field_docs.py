"""An extension of griffe: shows what each field of an answer means, as the OpenAPI document has it."""

from typing import Any, get_args, get_type_hints

import griffe
from msgspec import Meta

from cairn.domain import answers


class FieldDocs(griffe.Extension):
    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        if cls.path.rpartition(".")[0] != answers.__name__:
            return
        for name, hint in get_type_hints(getattr(answers, cls.name), include_extras=True).items():
            described = [meta.description for meta in get_args(hint) if isinstance(meta, Meta) and meta.description]
            field = cls.members.get(name)
            if not isinstance(field, griffe.Attribute):
                continue
            if described:
                field.docstring = griffe.Docstring(described[0], parent=field)
            match field.annotation:
                case griffe.ExprSubscript(slice=griffe.ExprTuple(elements=[plain, *_])) as annotation if (
                    annotation.canonical_name == "Annotated"
                ):
                    field.annotation = plain
