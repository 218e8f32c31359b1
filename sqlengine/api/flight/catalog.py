"""Commands about the catalog: catalogs, schemas (which are databases), tables and keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

import pyarrow as pa

from planner.catalog import DEFAULT_CATALOG, DEFAULT_DATABASE, Catalog, Container, Table, View
from sqlengine.api.flight.information import INFO_SCHEMA, TYPES_SCHEMA, sql_info, types
from sqlengine.api.flight.wire import Message
from sqlengine.catalog.name_patterns import fits
from sqlengine.queries.arrow_pages import arrow_schema

Answer: TypeAlias = Callable[[Catalog, Message], pa.Table]
_TEXT: Final = pa.string()
_CATALOGS: Final = pa.schema([pa.field("catalog_name", _TEXT, False)])
_SCHEMAS: Final = pa.schema(
    [pa.field("catalog_name", _TEXT), pa.field("db_schema_name", _TEXT, False)]
)
_TABLES: Final = pa.schema(
    [
        pa.field("catalog_name", _TEXT),
        pa.field("db_schema_name", _TEXT),
        pa.field("table_name", _TEXT, False),
        pa.field("table_type", _TEXT, False),
    ]
)
_TABLE_TYPES: Final = pa.schema([pa.field("table_type", _TEXT, False)])
_KEYS: Final = pa.schema(
    [
        pa.field("catalog_name", _TEXT),
        pa.field("db_schema_name", _TEXT),
        pa.field("table_name", _TEXT, False),
        pa.field("column_name", _TEXT, False),
        pa.field("key_name", _TEXT),
        pa.field("key_sequence", pa.int32(), False),
    ]
)
_RELATED: Final = pa.schema(
    [
        *(
            pa.field(f"{side}_{part}", _TEXT, part in ("catalog_name", "db_schema_name"))
            for side in ("pk", "fk")
            for part in ("catalog_name", "db_schema_name", "table_name", "column_name")
        ),
        pa.field("key_sequence", pa.int32(), False),
        pa.field("fk_key_name", _TEXT),
        pa.field("pk_key_name", _TEXT),
        pa.field("update_rule", pa.uint8(), False),
        pa.field("delete_rule", pa.uint8(), False),
    ]
)


def schema_of(name: str, message: Message) -> pa.Schema | None:
    """Returns the columns of the answer to a command; None for one that is none of these."""
    schema = _SHAPES.get(name)
    if name == "CommandGetTables" and message.number(5):
        return _TABLES.append(pa.field("table_schema", pa.binary(), False))
    return schema


def answer(name: str, message: Message, catalog: Catalog) -> pa.Table:
    """Returns the answer to a command."""
    return _ANSWERS[name](catalog, message)


def _catalogs(catalog: Catalog, message: Message) -> pa.Table:
    names = sorted({c for c, _ in _databases(catalog)})
    return pa.Table.from_pylist([{"catalog_name": n} for n in names], schema=_CATALOGS)


def _schemas(catalog: Catalog, message: Message) -> pa.Table:
    wanted, matches = message.text(1), _like(message.text(2))
    found = [(c, d) for c, d in sorted(_databases(catalog)) if wanted in (None, "", c)]
    rows = [{"catalog_name": c, "db_schema_name": d} for c, d in found if matches(d)]
    return pa.Table.from_pylist(rows, schema=_SCHEMAS)


def _databases(catalog: Catalog) -> set[tuple[str, str]]:
    made = {o.name[:2] for o in catalog.objects.values() if isinstance(o, Container) and o.name[1]}
    return {(DEFAULT_CATALOG, DEFAULT_DATABASE), *made, *((n[0], n[1]) for n, _ in _all(catalog))}


def _all(catalog: Catalog) -> Iterator[tuple[tuple[str, str, str], Table | View]]:
    """Yields the tables and views that all see, and those of the session."""
    for name, item in sorted({**catalog.objects, **catalog.temporary}.items()):
        if isinstance(item, Table | View):
            yield name, item


def _tables(catalog: Catalog, message: Message) -> pa.Table:
    wanted, kinds = message.text(1), message.texts(4)
    in_database, in_name = _like(message.text(2)), _like(message.text(3))
    rows: list[dict[str, object]] = []
    for (place, database, name), item in _all(catalog):
        kind = "TABLE" if isinstance(item, Table) else "VIEW"
        fits = wanted in (None, "", place) and in_database(database) and in_name(name)
        if not fits or (kinds and kind not in kinds):
            continue
        row: dict[str, object] = {
            "catalog_name": place,
            "db_schema_name": database,
            "table_name": name,
            "table_type": kind,
        }
        if message.number(5):
            columns = item.schema if isinstance(item, Table) else item.plan.schema
            row["table_schema"] = arrow_schema(columns, changes=False).serialize().to_pybytes()
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=schema_of("CommandGetTables", message))


def _table_types(catalog: Catalog, message: Message) -> pa.Table:
    return pa.Table.from_pylist([{"table_type": t} for t in ("TABLE", "VIEW")], schema=_TABLE_TYPES)


def _keys(catalog: Catalog, message: Message) -> pa.Table:
    name = tuple(part for n in (1, 2, 3) if (part := message.text(n)))
    item = catalog.get(name) if name else None
    rows = []
    if isinstance(item, Table):
        place, database, table = item.name
        rows = [
            {
                "catalog_name": place,
                "db_schema_name": database,
                "table_name": table,
                "column_name": column,
                "key_sequence": number,
            }
            for number, column in enumerate(item.primary_key, 1)
        ]
    return pa.Table.from_pylist(rows, schema=_KEYS)


def _none(catalog: Catalog, message: Message) -> pa.Table:
    """Tables refer to no others."""
    return _RELATED.empty_table()


def _information(catalog: Catalog, message: Message) -> pa.Table:
    return sql_info(message.numbers(1))


def _types(catalog: Catalog, message: Message) -> pa.Table:
    number = message.number(1)
    signed = number - (1 << 64) if number >= 1 << 63 else number
    return types(signed if message.has(1) else None)


def _like(pattern: str | None) -> Callable[[str], bool]:
    """Returns what tells whether a name fits a pattern with % and _; None fits all."""
    if not pattern:
        return lambda name: True
    return lambda name: fits(name, pattern)


_SHAPES: Final[Mapping[str, pa.Schema]] = {
    "CommandGetCatalogs": _CATALOGS,
    "CommandGetDbSchemas": _SCHEMAS,
    "CommandGetTables": _TABLES,
    "CommandGetTableTypes": _TABLE_TYPES,
    "CommandGetPrimaryKeys": _KEYS,
    "CommandGetExportedKeys": _RELATED,
    "CommandGetImportedKeys": _RELATED,
    "CommandGetCrossReference": _RELATED,
    "CommandGetSqlInfo": INFO_SCHEMA,
    "CommandGetXdbcTypeInfo": TYPES_SCHEMA,
}
_ANSWERS: Final[Mapping[str, Answer]] = {
    "CommandGetCatalogs": _catalogs,
    "CommandGetDbSchemas": _schemas,
    "CommandGetTables": _tables,
    "CommandGetTableTypes": _table_types,
    "CommandGetPrimaryKeys": _keys,
    "CommandGetExportedKeys": _none,
    "CommandGetImportedKeys": _none,
    "CommandGetCrossReference": _none,
    "CommandGetSqlInfo": _information,
    "CommandGetXdbcTypeInfo": _types,
}
