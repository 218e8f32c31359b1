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


def action(change: a.Action) -> str:
    match change:
        case a.Rename():
            return f"RENAME TO {path(change.name)}"
        case a.RenameColumn():
            return f"RENAME {path(change.column)} TO {path(change.name)}"
        case a.SetOptions():
            return f"SET {options(change.options)}"
        case a.ResetOptions():
            return f"RESET ({', '.join(map(quoted, change.keys))})"
        case a.SetComment():
            return f"COMMENT {quoted(change.comment)}"
        case a.ChangeSchema():
            return _schema(change)
        case a.ChangeDistribution():
            return (
                f"{'MODIFY' if change.modify else 'ADD'} DISTRIBUTION"
                f" {distribution(change.distribution)}"
            )
        case a.SetQuery():
            return f"AS {query(change.query)}"
        case a.SetFunction():
            return words(
                "AS",
                quoted(change.class_name),
                f"LANGUAGE {change.language}" if change.language else None,
            )
    return _other(change)


def _other(change: a.Action) -> str:
    match change:
        case a.AddPartitions():
            items = (
                words("PARTITION", partition(p.partition), with_options(p.options))
                for p in change.partitions
            )
            return words("ADD", when(change.if_not_exists, "IF NOT EXISTS"), *items)
        case a.DropPartitions():
            listed = ", ".join(f"PARTITION {partition(p)}" for p in change.partitions)
            return words("DROP", when(change.if_exists, "IF EXISTS"), listed)
        case a.DropColumns():
            return f"DROP ({', '.join(map(path, change.columns))})"
        case a.DropConstraint():
            return f"DROP CONSTRAINT {name(change.name)}" if change.name else "DROP PRIMARY KEY"
        case a.Resume():
            return words("RESUME", with_options(change.options))
        case a.Refresh():
            return words(
                "REFRESH", f"PARTITION {partition(change.partition)}" if change.partition else None
            )
        case a.SetFreshness():
            return f"SET FRESHNESS = {expression(change.freshness)}"
        case a.SetRefreshMode():
            return f"SET REFRESH_MODE = {change.mode}"
    return _FIXED[type(change)]


_FIXED: dict[type[object], str] = {
    a.DropWatermark: "DROP WATERMARK",
    a.DropDistribution: "DROP DISTRIBUTION",
    a.Suspend: "SUSPEND",
}


def _schema(change: a.ChangeSchema) -> str:
    items = [_change(c) for c in change.columns]
    items += map(constraint, change.constraints)
    if change.watermark is not None:
        items.append(watermark(change.watermark))
    return f"{'MODIFY' if change.modify else 'ADD'} ({', '.join(items)})"


def _change(change: a.ColumnChange) -> str:
    after = f"AFTER {path(change.after)}" if change.after is not None else None
    return words(column(change.column), after, when(change.first, "FIRST"))
