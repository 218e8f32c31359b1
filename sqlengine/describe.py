"""What SHOW and DESCRIBE say, in the columns that Flink gives them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from parser.errors import Position, UnknownObject, UnsupportedError
from parser.statements import Describe, Name, Show, ShowCreate
from parser.types import BOOLEAN, STRING, Column, Schema
from planner.catalog import SYSTEM, Catalog, CatalogObject, Function, Table, View
from sqlengine.batch import Batch, from_pydict
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


def show(catalog: Catalog, statement: Show) -> Batch:
    """SHOW …; what it cannot show is refused by name."""
    what = statement.what
    if what == "COLUMNS":
        return describe(catalog, statement.name or (), statement.subject)
    lists: dict[str, tuple[str, Callable[[], Sequence[str]]]] = {
        "TABLES": ("table name", lambda: sorted(catalog.names(Table) + catalog.names(View))),
        "VIEWS": ("view name", lambda: catalog.names(View)),
        "FUNCTIONS": ("function name", lambda: sorted({*map(str.lower, function_names()), *catalog.names(Function)})),
        "USER_FUNCTIONS": ("function name", lambda: catalog.names(Function)),
        "CATALOGS": ("catalog name", lambda: sorted({c for c, _ in catalog.databases})),
        "DATABASES": ("database name", lambda: sorted(d for c, d in catalog.databases if c == catalog.catalog)),
        "CURRENT_CATALOG": ("current catalog name", lambda: [catalog.catalog]),
        "CURRENT_DATABASE": ("current database name", lambda: [catalog.database]),
    }
    if what not in lists:
        shown = what.replace("_", " ")
        hint = _HINTS.get(what)
        raise UnsupportedError(f"SHOW {shown} is not supported here", hint=hint, position=statement.position)
    name, values = lists[what]
    return one_column(name, [v for v in values() if _matches(v, statement)])


_HINTS = {
    "MODULES": "use SHOW FUNCTIONS",
    "FULL_MODULES": "use SHOW FUNCTIONS",
    "PROCEDURES": "use SHOW FUNCTIONS",
    "MODELS": "use SHOW FUNCTIONS",
    "PARTITIONS": "tables have no partitions here",
    "JARS": "there is no JVM here: write functions in Python",
    "CONNECTIONS": "use SHOW CREATE TABLE",
    "MATERIALIZED_TABLES": "use SHOW TABLES",
}


def _matches(value: str, statement: Show) -> bool:
    """Whether [NOT] LIKE or ILIKE lets the name through."""
    if statement.like is None:
        return True
    pattern = statement.like.replace("%", "*").replace("_", "?")
    if statement.ignore_case:
        value, pattern = value.lower(), pattern.lower()
    return fnmatchcase(value, pattern) is not statement.negated


def show_create(catalog: Catalog, statement: ShowCreate) -> Batch:
    """SHOW CREATE TABLE or VIEW."""
    return one_column("result", [create_text(_held(catalog, statement.name, statement.subject))])


def describe(catalog: Catalog, name: Name, position: Position | None = None) -> Batch:
    """The columns of a table or view. `position` is where its name stands."""
    held = _held(catalog, name, position)
    schema = held.schema if isinstance(held, Table) else held.plan.schema
    extras, key, watermark = ({}, (), None) if isinstance(held, View) else _about(held)
    data: dict[str, list[object]] = {
        "name": list(schema.names),
        "type": [str(c.type.with_nullable(True)) for c in schema],
        "null": [c.type.nullable for c in schema],
        "key": [f"PRI({', '.join(key)})" if c.name in key else None for c in schema],
        "extras": [extras.get(c.name) for c in schema],
        "watermark": [watermark[1] if watermark and watermark[0] == c.name else None for c in schema],
    }
    return from_pydict(_DESCRIBE, data)


def describe_function(catalog: Catalog, statement: Describe) -> Batch:
    """What Flink says of a function, and of a user's also its content."""
    built_in = entry_named(statement.name[-1])
    held = catalog.function(statement.name, built_in=built_in is not None)
    if held is not None:
        facts = _about_user(held, statement.extended)
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
        **{f"example {i}": f"{e.expression} is {e.result}" for i, e in enumerate(entry.examples, 1)},
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


def _held(catalog: Catalog, name: Name, position: Position | None) -> Table | View:
    held = catalog.get(name)
    if not isinstance(held, Table | View):
        message = f"table or view '{'.'.join(name)}' does not exist"
        raise UnknownObject(message, hint="SHOW TABLES lists all", position=position)
    return held


def _about(table: Table) -> tuple[dict[str, str], tuple[str, ...], tuple[str, str] | None]:
    extras = {n: f"AS {table.texts[n]}" for n, _ in table.computed}
    for m in table.metadata:
        extras[m.column.name] = f"METADATA FROM '{m.key}'" + (" VIRTUAL" if m.virtual else "")
    watermark = (table.watermark.column, table.watermark.text) if table.watermark else None
    return extras, table.primary_key, watermark


def create_text(item: CatalogObject) -> str:
    """The CREATE statement that makes the object again."""
    name = ".".join(f"`{part}`" for part in item.name)
    if isinstance(item, View):
        return item.sql
    if isinstance(item, Function):
        temporary = "TEMPORARY " if item.temporary else ""
        name = ".".join(f"`{part}`" for part in (*item.name[:2], item.display))
        return f"CREATE {temporary}FUNCTION {name} AS '{item.class_name}' LANGUAGE {item.language}"
    extras, key, watermark = _about(item)
    lines = []
    for column in item.schema:
        extra = extras.get(column.name, "")
        kind = "" if extra.startswith("AS ") else f" {column.type.with_nullable(True).plain}"
        null = "" if column.type.nullable or extra.startswith("AS ") else " NOT NULL"
        lines.append(f"  `{column.name}`{kind}{null} {extra}".rstrip())
    if watermark:
        lines.append(f"  WATERMARK FOR `{watermark[0]}` AS {watermark[1]}")
    if key:
        lines.append(f"  PRIMARY KEY ({', '.join(f'`{k}`' for k in key)}) NOT ENFORCED")
    options = ",\n".join(f"  '{k}' = '{v}'" for k, v in sorted(item.options.items()))
    temporary = "TEMPORARY " if item.temporary else ""
    return f"CREATE {temporary}TABLE {name} (\n" + ",\n".join(lines) + f"\n)\nWITH (\n{options}\n)\n"
