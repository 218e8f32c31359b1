"""Short forms for the description: JSON schemas, parameters and endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

# A JSON schema, as it is written.
Schema: TypeAlias = dict[str, object]

TEXT: Final[Schema] = {"type": "string"}
WHOLE: Final[Schema] = {"type": "integer"}
NUMBER: Final[Schema] = {"type": "number"}
FLAG: Final[Schema] = {"type": "boolean"}
ANY: Final[Schema] = {}
BINARY: Final[Schema] = {**TEXT, "contentEncoding": "binary"}
MS: Final[Schema] = {"type": "integer", "description": "milliseconds since 1970"}
# Where in a text something is.
PLACE: Final = {"line": WHOLE, "column": WHOLE, "length": WHOLE}


def or_null(schema: Schema) -> Schema:
    """Returns the schema of a value that may be null."""
    if isinstance(schema.get("type"), str) and "enum" not in schema:
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def one_of(*values: str) -> Schema:
    """Returns the schema of one of some texts."""
    return {"type": "string", "enum": list(values)}


def listed(schema: Schema) -> Schema:
    """Returns the schema of a list."""
    return {"type": "array", "items": schema}


def by_name(schema: Schema) -> Schema:
    """Returns the schema of an object with any names."""
    return {"type": "object", "additionalProperties": schema}


def ref(name: str) -> Schema:
    """Returns a reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def record(
    fields: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None, doc: str = ""
) -> Schema:
    """Returns the schema of an object with these fields; `optional` ones may be missing."""
    schema: Schema = {
        "type": "object",
        "properties": {**fields, **(optional or {})},
        "required": list(fields),
    }
    return schema | ({"description": doc} if doc else {})


def paged(name: str, item: Schema) -> Schema:
    """Returns the schema of a page of a list: `next` is the `after` of the page behind it."""
    return record({name: listed(item), "next": or_null(TEXT)})


@dataclass(frozen=True)
class Query:
    """A parameter behind the question mark."""

    name: str
    doc: str
    schema: Schema


@dataclass(frozen=True)
class Endpoint:
    """A route with its answers. `body`: content type -> schema of the request; `answer`: the schema
    of the answers with a status in `statuses`, or a content type that is no JSON; `refusals`: other
    statuses, with a problem; `also`: content types of answers and refusals, for who asks in
    them; `errors`: what refusals are that are no problems. `headers`: of the request; `tagged`: the
    answer has an ETag; `cached`: who has it already gets 304; `keyed`: it takes an
    Idempotency-Key."""

    method: str
    path: str
    doc: str
    answer: Schema | str
    query: tuple[Query, ...] = ()
    body: Mapping[str, Schema] | None = None
    statuses: tuple[int, ...] = (200,)
    refusals: tuple[int, ...] = ()
    also: tuple[str, ...] = ()
    errors: Schema | None = None
    headers: tuple[Query, ...] = ()
    tagged: bool = False
    cached: bool = False
    keyed: bool = False


# Content types, and what more than one group of routes takes.
PLAIN: Final = "text/plain"
ARROW: Final = "application/vnd.apache.arrow.stream"
JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
SQL: Final[Mapping[str, Schema]] = {PLAIN: TEXT}
SAVEPOINT: Final = Query("savepoint", "the path of the savepoint to start from", TEXT)
FOLDER: Final = Query("folder", "where savepoints are, else DATA/savepoints", TEXT)
LIMIT: Final = Query("limit", "at most so many", {"type": "integer", "minimum": 1})
AFTER: Final = Query("after", "only those behind this one: the `next` of the page before", TEXT)
PAGES: Final = (AFTER, LIMIT)
DRY_RUN: Final = Query("dry-run", "say what would happen, and do nothing", FLAG)
IF_MATCH: Final = Query("If-Match", "only if it has this ETag, '*' for any; else 412", TEXT)
IF_NONE_MATCH: Final = Query("If-None-Match", "'*': only if there is no such one; else 412", TEXT)
