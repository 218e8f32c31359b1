"""Arguments of Python programs, which may be anything, checked where they come in."""

from __future__ import annotations

from collections.abc import Mapping

from parser.errors import ServiceError


def text(value: object, what: str) -> str:
    """Returns a text; ServiceError for anything else. `what`: which argument it is.

    >>> text("SELECT 1", "a statement")
    'SELECT 1'
    """
    if not isinstance(value, str):
        raise ServiceError(f"{what} is a text, not {value!r:.60}")
    return value


def column_types(schema: object) -> Mapping[str, str]:
    """Returns SQL types by column. ServiceError for what is no mapping of texts to texts."""
    hint = "schema={'id': 'BIGINT', 'name': 'STRING'}"
    if not isinstance(schema, Mapping):
        raise ServiceError(
            f"a schema is a mapping of columns to types of SQL, not {schema!r:.60}", hint=hint
        )
    for name, kind in schema.items():
        if not isinstance(name, str) or not isinstance(kind, str):
            shown = getattr(kind, "__name__", None) or repr(kind)
            raise ServiceError(
                f"column {name!r} of a schema has the type {shown}, which is no text", hint=hint
            )
    return schema
