"""CREATE and ALTER statements as SQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from parser import alterations as a
from parser.definitions import (
    ColumnDefinition,
    ColumnKind,
    Constraint,
    CreateCatalog,
    CreateConnection,
    CreateDatabase,
    CreateFunction,
    CreateMaterializedTable,
    CreateModel,
    CreateTable,
    CreateView,
    Distribution,
    StartMode,
    TableLike,
    WatermarkDefinition,
)
from parser.writer.dispatch import expression, query
from parser.writer.names import data_type, name, names, options, path, quoted


def words(*items: str | None) -> str:
    """Joins the items that are not empty by spaces."""
    return " ".join(i for i in items if i)


def when(condition: bool, text: str) -> str | None:
    return text if condition else None


def comment(text: str | None) -> str | None:
    return None if text is None else f"COMMENT {quoted(text)}"


def with_options(items: Mapping[str, str]) -> str | None:
    return f"WITH {options(items)}" if items else None


def create_table(s: CreateTable) -> str:
    head = words(
        "CREATE" if s.create else None, when(s.replace, "OR REPLACE" if s.create else "REPLACE")
    )
    return words(
        head,
        when(s.temporary, "TEMPORARY"),
        "TABLE",
        when(s.if_not_exists, "IF NOT EXISTS"),
        *_table(s),
        _like(s.like) if s.like else None,
        f"AS {query(s.query)}" if s.query is not None else None,
    )


def create_materialized_table(s: CreateMaterializedTable) -> str:
    return words(
        "CREATE OR ALTER" if s.or_alter else "CREATE",
        "MATERIALIZED TABLE",
        *_table(s),
        _start_mode(s.start_mode) if s.start_mode else None,
        f"FRESHNESS = {expression(s.freshness)}" if s.freshness is not None else None,
        f"REFRESH_MODE = {s.refresh_mode}" if s.refresh_mode else None,
        f"AS {query(s.query)}",
    )


def _table(s: CreateTable | CreateMaterializedTable) -> Iterator[str | None]:
    yield path(s.name)
    yield _elements(s)
    yield comment(s.comment)
    yield _distributed(s.distribution)
    yield f"PARTITIONED BY {names(s.partition_keys)}" if s.partition_keys else None
    yield with_options(s.options)


def _start_mode(mode: StartMode) -> str:
    value = f"({expression(mode.value)})" if mode.value is not None else ""
    return f"START_MODE = {mode.mode}{value}"


def _elements(s: CreateTable | CreateMaterializedTable) -> str | None:
    items = [path(c) for c in s.column_order] or [*map(column, s.columns)]
    if s.watermark is not None:
        items.append(watermark(s.watermark))
    items += map(constraint, s.constraints)
    if isinstance(s, CreateTable) and s.system_time:
        items.append("PERIOD FOR SYSTEM_TIME")
    return f"({', '.join(items)})" if items else None


def column(c: ColumnDefinition) -> str:
    head = path((*c.path, c.name))
    if c.kind is ColumnKind.COMPUTED:
        assert c.expression is not None
        return words(head, "AS", expression(c.expression), comment(c.comment))
    assert c.type is not None
    extra = None
    if c.kind is ColumnKind.METADATA:
        key = (
            f"FROM {quoted(c.metadata_key)}"
            if c.metadata_key and c.metadata_key != c.name
            else None
        )
        extra = words("METADATA", key, when(c.virtual, "VIRTUAL"))
    elif c.kind is ColumnKind.HEADER:
        extra = "HEADER"
    return words(head, data_type(c.type), extra, comment(c.comment))


def watermark(w: WatermarkDefinition) -> str:
    return words(
        "WATERMARK",
        name(w.name) if w.name else None,
        "FOR",
        path(w.column),
        "AS",
        expression(w.expression),
    )


def constraint(c: Constraint) -> str:
    return words(
        f"CONSTRAINT {name(c.name)}" if c.name else None,
        "UNIQUE" if c.unique else "PRIMARY KEY",
        names(c.columns),
        None if c.enforced is None else "ENFORCED" if c.enforced else "NOT ENFORCED",
    )


def _distributed(d: Distribution | None) -> str | None:
    return None if d is None else f"DISTRIBUTED {distribution(d)}"


def distribution(d: Distribution) -> str:
    by = words("BY", d.method, names(d.columns)) if d.columns else None
    return words(by, f"INTO {d.buckets} BUCKETS" if d.buckets is not None else None)


def _like(like: TableLike) -> str:
    inner = " ".join(f"{o.strategy} {o.feature}" for o in like.options)
    return words("LIKE", path(like.table), f"({inner})" if inner else None)


def create_view(s: CreateView) -> str:
    return words(
        "CREATE",
        when(s.replace, "OR REPLACE"),
        when(s.temporary, "TEMPORARY"),
        "VIEW",
        when(s.if_not_exists, "IF NOT EXISTS"),
        path(s.name),
        names(s.columns) if s.columns else None,
        comment(s.comment),
        f"AS {query(s.query)}",
    )


def create_function(s: CreateFunction) -> str:
    resources = ", ".join(f"{r.kind} {quoted(r.path)}" for r in s.resources)
    using = f"FILE {quoted(s.file)}" if s.file is not None else resources
    return words(
        "CREATE",
        when(s.temporary, "TEMPORARY"),
        when(s.system, "SYSTEM"),
        "FUNCTION",
        when(s.if_not_exists, "IF NOT EXISTS"),
        path(s.name),
        f"AS {quoted(s.class_name)} LANGUAGE {s.language}",
        f"USING {using}" if using else None,
        with_options(s.options),
    )


def create_model(s: CreateModel) -> str:
    return words(
        "CREATE",
        when(s.temporary, "TEMPORARY"),
        "MODEL",
        when(s.if_not_exists, "IF NOT EXISTS"),
        path(s.name),
        *_model_columns("INPUT", s.inputs),
        *_model_columns("OUTPUT", s.outputs),
        comment(s.comment),
        with_options(s.options),
        f"AS {query(s.query)}" if s.query is not None else None,
    )


def _model_columns(word: str, columns: Iterable[ColumnDefinition]) -> Iterator[str]:
    inner = ", ".join(map(column, columns))
    if inner:
        yield f"{word} ({inner})"


def create_connection(s: CreateConnection) -> str:
    return words(
        "CREATE",
        when(s.temporary, "TEMPORARY"),
        when(s.system, "SYSTEM"),
        _named("CONNECTION", s),
    )


def create_catalog(s: CreateCatalog) -> str:
    return words("CREATE", _named("CATALOG", s))


def create_database(s: CreateDatabase) -> str:
    return words("CREATE", _named("DATABASE", s))


def _named(word: str, s: CreateConnection | CreateCatalog | CreateDatabase) -> str:
    return words(
        word,
        when(s.if_not_exists, "IF NOT EXISTS"),
        path(s.name),
        comment(s.comment),
        with_options(s.options),
    )


def partition(values: a.Partition) -> str:
    """(a = 1, b)"""
    return "(" + ", ".join(map(_partition_value, values)) + ")"


def _partition_value(v: a.PartitionValue) -> str:
    return name(v.name) + (f" = {expression(v.value)}" if v.value is not None else "")
