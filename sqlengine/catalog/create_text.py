"""Texts of SHOW CREATE: the statement that creates an object again, in Flink's words. Passwords are
masked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from parser.statements import ColumnDefinition, ColumnKind, Constraint, CreateTable
from parser.types import MAX_LENGTH, DataType, Root, type_name
from parser.writer.names import backticked, quoted
from parser.writer.shown import write_shown
from parser.writer.statements import write_tree
from planner.binder.alterations import name_of_key
from planner.binder.derived import definition_of
from planner.catalog import CatalogObject, Container, Function, View
from sqlengine.catalog.changes import view_of
from sqlengine.connectors.plain_secrets import masked, masked_option


def create_text(item: CatalogObject) -> str:
    """The CREATE statement that makes the object again."""
    if isinstance(item, View):
        return _view(item)
    if isinstance(item, Container):
        return catalog_text(item)
    if isinstance(item, Function):
        name = _path((*item.name[:2], item.display))
        return (
            f"{_create(item.temporary)} FUNCTION {name} AS '{item.class_name}' LANGUAGE"
            f" {item.language}"
        )
    return _table(definition_of(item), item.temporary)


def catalog_text(item: Container) -> str:
    """CREATE CATALOG, or CREATE DATABASE, of what a statement made."""
    kind = "DATABASE" if item.name[1] else "CATALOG"
    lines = [
        f"CREATE {kind} {_path(p for p in item.name if p)}",
        *_comment(item.comment),
        *_with(item.options),
    ]
    return "\n".join(lines) + "\n"


def _create(temporary: bool) -> str:
    return "CREATE TEMPORARY" if temporary else "CREATE"


def _path(parts: Iterable[str]) -> str:
    return ".".join(map(backticked, parts))


def _view(view: View) -> str:
    """Returns CREATE VIEW with its columns in parentheses, and the query as it was written."""
    statement = view_of(view)
    columns = ",\n".join(f"  {backticked(n)}" for n in view.plan.schema.names)
    head = f"{_create(view.temporary)} VIEW {_path(view.name)} (\n{columns}\n)"
    return (
        "\n".join([head, *_comment(statement.comment), f"AS {masked(write_tree(statement.query))}"])
        + "\n"
    )


def _table(table: CreateTable, temporary: bool) -> str:
    lines = [_column(c) for c in table.columns]
    if table.watermark is not None:
        mark = table.watermark
        lines.append(f"  WATERMARK FOR {_path(mark.column)} AS {write_shown(mark.expression)}")
    lines += map(_key, table.constraints)
    parts = [
        f"{_create(temporary)} TABLE {_path(table.name)} (",
        ",\n".join(lines),
        ")",
        *_comment(table.comment),
    ]
    if table.partition_keys:
        parts.append(f"PARTITIONED BY ({', '.join(map(backticked, table.partition_keys))})")
    return "\n".join([*parts, *_with(table.options)]) + "\n"


def _column(column: ColumnDefinition) -> str:
    if column.expression is not None:
        text = f"AS {write_shown(column.expression)}"
    else:
        assert column.type is not None
        text = _type(column.type)
    if column.kind is ColumnKind.METADATA:
        key = column.metadata_key
        text += " METADATA" + (f" FROM {quoted(key)}" if key and key != column.name else "")
        text += " VIRTUAL" if column.virtual else ""
    return "  " + " ".join([backticked(column.name), text, *_comment(column.comment)])


def _key(constraint: Constraint) -> str:
    columns = ", ".join(map(backticked, constraint.columns))
    return (
        f"  CONSTRAINT {backticked(name_of_key(constraint))} PRIMARY KEY ({columns}) NOT ENFORCED"
    )


def _comment(text: str | None) -> list[str]:
    return [] if text is None else [f"COMMENT {quoted(text)}"]


def _with(options: Mapping[str, str]) -> list[str]:
    shown = {k: masked_option(k, v, options) for k, v in options.items()}
    items = ",\n".join(f"  {quoted(k)} = {quoted(v)}" for k, v in sorted(shown.items()))
    return [f"WITH (\n{items}\n)"] if options else []


def _type(kind: DataType) -> str:
    """Returns a type as Flink writes it to be read again: without short names."""
    return _plain_type(kind) + ("" if kind.nullable else " NOT NULL")


def _plain_type(kind: DataType) -> str:
    match kind.root:
        case Root.VARCHAR | Root.VARBINARY if kind.length == MAX_LENGTH:
            return f"{kind.root.value}({MAX_LENGTH})"
        case Root.TIMESTAMP_LTZ:
            return f"TIMESTAMP({kind.precision}) WITH LOCAL TIME ZONE"
        case Root.ARRAY | Root.MULTISET | Root.MAP:
            return f"{kind.root.value}<{', '.join(map(_type, kind.children))}>"
        case Root.ROW:
            fields = zip(kind.names, kind.children, strict=True)
            return f"ROW<{', '.join(f'{backticked(n)} {_type(t)}' for n, t in fields)}>"
    return type_name(kind)
