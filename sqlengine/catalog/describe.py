"""Results of SHOW and DESCRIBE, with the columns of Flink."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from parser.errors import PlanError, Position, UnknownObject, UnsupportedError
from parser.statements import Describe, Kind, Name, Show, ShowCreate
from parser.types import BOOLEAN, STRING, Column, Schema
from planner.binder.derived import definition_of
from planner.catalog import PARTITION, SYSTEM, Catalog, Container, Function, Table, View
from sqlengine.batch import Batch, from_pydict
from sqlengine.catalog.changes import database_of, has_catalog, unknown_database
from sqlengine.catalog.create_text import catalog_text, create_text
from sqlengine.catalog.name_patterns import fits
from sqlengine.connectors.plain_secrets import masked_option
from udf.reference import Entry, entry_named, function_names

_DESCRIBE = Schema(
    (
        Column("name", STRING),
        Column("type", STRING),
        Column("null", BOOLEAN),
        Column("key", STRING),
        Column("extras", STRING),
        Column("watermark", STRING),
    )
)


def one_column(name: str, values: Sequence[str]) -> Batch:
    """A result of one STRING column."""
    return from_pydict(Schema((Column(name, STRING),)), {name: list(values)})


def show(catalog: Catalog, statement: Show, modules: Sequence[str]) -> Batch:
    """SHOW …; what it cannot show is refused by name."""
    what = statement.what
    if what == "COLUMNS":
        return _filtered(
            describe_table(catalog, statement.name or (), statement.subject), statement
        )
    if what == "FULL_MODULES":
        schema = Schema((Column("module name", STRING), Column("used", BOOLEAN)))
        return from_pydict(schema, {"module name": list(modules), "used": [True] * len(modules)})
    place = _database(catalog, statement) if what in ("TABLES", "VIEWS") else None
    lists: dict[str, tuple[str, Callable[[], Sequence[str]]]] = {
        "TABLES": (
            "table name",
            lambda: sorted(catalog.names(Table, place) + catalog.names(View, place)),
        ),
        "VIEWS": ("view name", lambda: catalog.names(View, place)),
        "FUNCTIONS": (
            "function name",
            lambda: sorted({*map(str.lower, function_names()), *catalog.names(Function)}),
        ),
        "USER_FUNCTIONS": ("function name", lambda: catalog.names(Function)),
        "CATALOGS": ("catalog name", lambda: sorted({c for c, _ in catalog.databases})),
        "DATABASES": ("database name", lambda: _databases(catalog, statement)),
        "CURRENT_CATALOG": ("current catalog name", lambda: [catalog.catalog]),
        "CURRENT_DATABASE": ("current database name", lambda: [catalog.database]),
        "MODULES": ("module name", lambda: modules),
        "JARS": ("jars", list),
        "MODELS": ("model name", list),  # CREATE MODEL is refused
    }
    if what not in lists:
        shown = what.replace("_", " ")
        hint = _HINTS.get(what)
        raise UnsupportedError(
            f"SHOW {shown} is not supported here", hint=hint, position=statement.position
        )
    name, values = lists[what]
    return one_column(name, [v for v in values() if _matches(v, statement)])


def _database(catalog: Catalog, statement: Show) -> tuple[str, str] | None:
    """The database of SHOW … FROM, which must be there."""
    if statement.name is None:
        return None
    database = database_of(catalog, statement.name)
    if database not in catalog.databases:
        raise unknown_database(database, statement.position)
    return database


def _databases(catalog: Catalog, statement: Show) -> list[str]:
    wanted = statement.name[0] if statement.name else catalog.catalog
    if not has_catalog(catalog, (wanted,)):
        raise UnknownObject(f"catalog '{wanted}' does not exist", position=statement.position)
    return sorted(d for c, d in catalog.databases if c == wanted)


def _filtered(rows: Batch, statement: Show) -> Batch:
    """The columns whose names match."""
    names = rows.column("name").to_pylist()
    return rows.take(
        np.array([i for i, n in enumerate(names) if _matches(n, statement)], dtype=np.int64)
    )


_HINTS = {
    "PROCEDURES": "use SHOW FUNCTIONS",
    "CONNECTIONS": "use SHOW CREATE TABLE",
    "MATERIALIZED_TABLES": "use SHOW TABLES",
    "JOBS": 'ask the server: sql query "SHOW JOBS", or `sql jobs`',
}


def _matches(value: str, statement: Show) -> bool:
    """True if [NOT] LIKE or ILIKE accepts the name."""
    if statement.like is None:
        return True
    pattern = statement.like
    if statement.ignore_case:
        value, pattern = value.lower(), pattern.lower()
    return fits(value, pattern) is not statement.negated


def show_create(catalog: Catalog, statement: ShowCreate) -> Batch:
    """SHOW CREATE of a table, a view or a catalog."""
    if statement.kind is Kind.CATALOG:
        return one_column(
            "result", [catalog_text(_catalog(catalog, statement.name, statement.subject))]
        )
    relation = held_object(catalog, statement.name, statement.subject)
    if isinstance(relation, View) is not (statement.kind is Kind.VIEW):
        other = "VIEW" if isinstance(relation, View) else "TABLE"
        hint = f"write SHOW CREATE {other}"
        raise PlanError(
            f"'{relation.name[2]}' is a {other.lower()}", hint=hint, position=statement.subject
        )
    return one_column("result", [create_text(relation)])


def _catalog(catalog: Catalog, name: Name, position: Position | None) -> Container:
    """A catalog that a statement made; Flink, too, knows nothing of the one that was there
    before."""
    container = catalog.objects.get((name[0], "", ""))
    if not isinstance(container, Container):
        raise UnknownObject(f"nothing is known of catalog '{name[0]}'", position=position)
    return container


def describe(catalog: Catalog, statement: Describe) -> Batch:
    """Returns the rows of DESCRIBE for a table, a view, a function or a catalog."""
    if statement.function:
        return _describe_function(catalog, statement)
    if statement.kind is Kind.CATALOG:
        return _describe_catalog(
            _catalog(catalog, statement.name, statement.subject), statement.extended
        )
    return describe_table(catalog, statement.name, statement.subject)


def _describe_catalog(container: Container, extended: bool) -> Batch:
    facts: dict[str, str | None] = {
        "name": container.name[0],
        "type": container.options["type"],
        "comment": container.comment,
    }
    if extended:
        options = container.options
        facts |= {
            f"option:{k}": masked_option(k, v, options)
            for k, v in sorted(options.items())
            if k != "type"
        }
    schema = Schema((Column("info name", STRING), Column("info value", STRING)))
    return from_pydict(schema, {"info name": list(facts), "info value": list(facts.values())})


def describe_table(catalog: Catalog, name: Name, position: Position | None = None) -> Batch:
    """The columns of a table or view. `position` is where its name stands. A last column of
    comments is there where one of the columns has a comment."""
    relation = held_object(catalog, name, position)
    schema = relation.schema if isinstance(relation, Table) else relation.plan.schema
    extras, key, watermark = ({}, (), None) if isinstance(relation, View) else _about(relation)
    comments = (
        {c.name: c.comment for c in definition_of(relation).columns}
        if isinstance(relation, Table)
        else {}
    )
    data: dict[str, list[object]] = {
        "name": list(schema.names),
        "type": [str(c.type.with_nullable(True)) for c in schema],
        "null": [c.type.nullable for c in schema],
        "key": [f"PRI({', '.join(key)})" if c.name in key else None for c in schema],
        "extras": [extras.get(c.name) for c in schema],
        "watermark": [
            watermark[1] if watermark and watermark[0] == c.name else None for c in schema
        ],
    }
    if not any(comments.values()):
        return from_pydict(_DESCRIBE, data)
    commented = Schema((*_DESCRIBE, Column("comment", STRING)))
    return from_pydict(commented, {**data, "comment": [comments.get(n) for n in schema.names]})


def _describe_function(catalog: Catalog, statement: Describe) -> Batch:
    """Returns the rows that Flink gives for a function, and the content of a user's."""
    built_in = entry_named(statement.name[-1])
    function = catalog.function(statement.name, built_in=built_in is not None)
    if function is not None:
        facts = _about_user(function, statement.extended)
    elif built_in is not None and len(statement.name) == 1:
        facts = {"is system function": "true", "is temporary": "false"}
        if statement.extended:
            facts |= _about_built_in(built_in)
    else:
        raise UnknownObject(
            f"function '{'.'.join(statement.name)}' does not exist", hint="SHOW FUNCTIONS lists all"
        ).at(statement.subject)
    schema = Schema((Column("info name", STRING), Column("info value", STRING)))
    return from_pydict(schema, {"info name": list(facts), "info value": list(facts.values())})


def _about_built_in(entry: Entry) -> dict[str, str]:
    return {
        "kind": "AGGREGATE" if entry.topic == "aggregates" else "SCALAR",
        "is deterministic": str(entry.deterministic).lower(),
        "usage": entry.usage,
        "documentation": entry.text,
        **{
            f"example {i}": f"{e.expression} is {e.result}" for i, e in enumerate(entry.examples, 1)
        },
    }


def _about_user(function: Function, extended: bool) -> dict[str, str]:
    user = function.user
    facts = {
        "is system function": str(function.name[:2] == SYSTEM).lower(),
        "is temporary": str(function.temporary).lower(),
        "class name": function.class_name,
        "function language": function.language,
    }
    if extended:
        facts |= {
            "kind": user.kind.upper(),
            "is deterministic": str(user.deterministic).lower(),
            "signature": user.signature,
            "content": user.content,
            "documentation": user.doc,
        }
    return facts


def held_object(catalog: Catalog, name: Name, position: Position | None) -> Table | View:
    """The table or view of that name; UnknownObject where there is none."""
    relation = catalog.get(name)
    if not isinstance(relation, Table | View):
        message = f"table or view '{'.'.join(name)}' does not exist"
        raise UnknownObject(message, hint="SHOW TABLES lists all", position=position)
    return relation


def _about(table: Table) -> tuple[dict[str, str], tuple[str, ...], tuple[str, str] | None]:
    extras = {n: f"AS {table.texts[n]}" for n, _ in table.computed}
    for m in (m for m in table.metadata if not m.key.startswith(PARTITION)):
        key = "" if m.key == m.column.name else f" FROM '{m.key}'"
        extras[m.column.name] = "METADATA" + key + (" VIRTUAL" if m.virtual else "")
    watermark = (table.watermark.column, table.watermark.text) if table.watermark else None
    return extras, table.primary_key, watermark
