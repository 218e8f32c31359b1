"""ALTER and DROP statements as SQL."""

from __future__ import annotations

from parser import alterations as a
from parser.writer.definitions import (
    column,
    constraint,
    distribution,
    partition,
    watermark,
    when,
    with_options,
    words,
)
from parser.writer.dispatch import expression, query
from parser.writer.names import name, options, path, quoted


def drop(s: a.Drop) -> str:
    return words(
        "DROP",
        when(s.temporary, "TEMPORARY"),
        when(s.system, "SYSTEM"),
        s.kind.words,
        when(s.if_exists, "IF EXISTS"),
        path(s.name),
        when(s.cascade, "CASCADE"),
    )


def alter(s: a.Alter) -> str:
    return words(
        "ALTER",
        when(s.temporary, "TEMPORARY"),
        when(s.system, "SYSTEM"),
        s.kind.words,
        when(s.if_exists, "IF EXISTS"),
        path(s.name),
        action(s.action),
    )


def action(found: a.Action) -> str:
    match found:
        case a.Rename():
            return f"RENAME TO {path(found.name)}"
        case a.RenameColumn():
            return f"RENAME {path(found.column)} TO {path(found.name)}"
        case a.SetOptions():
            return f"SET {options(found.options)}"
        case a.ResetOptions():
            return f"RESET ({', '.join(map(quoted, found.keys))})"
        case a.SetComment():
            return f"COMMENT {quoted(found.comment)}"
        case a.ChangeSchema():
            return _schema(found)
        case a.ChangeDistribution():
            return (
                f"{'MODIFY' if found.modify else 'ADD'} DISTRIBUTION"
                f" {distribution(found.distribution)}"
            )
        case a.SetQuery():
            return f"AS {query(found.query)}"
        case a.SetFunction():
            return words(
                "AS",
                quoted(found.class_name),
                f"LANGUAGE {found.language}" if found.language else None,
            )
    return _other(found)


def _other(found: a.Action) -> str:
    match found:
        case a.AddPartitions():
            items = (
                words("PARTITION", partition(p.partition), with_options(p.options))
                for p in found.partitions
            )
            return words("ADD", when(found.if_not_exists, "IF NOT EXISTS"), *items)
        case a.DropPartitions():
            listed = ", ".join(f"PARTITION {partition(p)}" for p in found.partitions)
            return words("DROP", when(found.if_exists, "IF EXISTS"), listed)
        case a.DropColumns():
            return f"DROP ({', '.join(map(path, found.columns))})"
        case a.DropConstraint():
            return f"DROP CONSTRAINT {name(found.name)}" if found.name else "DROP PRIMARY KEY"
        case a.Resume():
            return words("RESUME", with_options(found.options))
        case a.Refresh():
            return words(
                "REFRESH", f"PARTITION {partition(found.partition)}" if found.partition else None
            )
        case a.SetFreshness():
            return f"SET FRESHNESS = {expression(found.freshness)}"
        case a.SetRefreshMode():
            return f"SET REFRESH_MODE = {found.mode}"
    return _FIXED[type(found)]


_FIXED: dict[type[object], str] = {
    a.DropWatermark: "DROP WATERMARK",
    a.DropDistribution: "DROP DISTRIBUTION",
    a.Suspend: "SUSPEND",
}


def _schema(found: a.ChangeSchema) -> str:
    items = [_change(c) for c in found.columns]
    items += map(constraint, found.constraints)
    if found.watermark is not None:
        items.append(watermark(found.watermark))
    return f"{'MODIFY' if found.modify else 'ADD'} ({', '.join(items)})"


def _change(change: a.ColumnChange) -> str:
    after = f"AFTER {path(change.after)}" if change.after is not None else None
    return words(column(change.column), after, when(change.first, "FIRST"))
