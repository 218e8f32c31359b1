"""ALTER TABLE: from a table's definition to another one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from parser.alterations import (
    Action,
    ChangeSchema,
    ColumnChange,
    DropColumns,
    DropConstraint,
    DropWatermark,
    RenameColumn,
    ResetOptions,
    SetOptions,
)
from parser.errors import PlanError, UnsupportedError
from parser.statements import ColumnDefinition, Constraint, CreateTable
from planner.binder.scope import did_you_mean


def altered(table: CreateTable, action: Action) -> CreateTable:
    """The definition after the action. PlanError where Flink refuses it, without a position."""
    match action:
        case SetOptions():
            return replace(table, options={**table.options, **action.options})
        case ResetOptions():
            return replace(table, options=_reset(table.options, action.keys))
        case RenameColumn():
            return _renamed(table, action)
        case ChangeSchema():
            return _changed(table, action)
        case DropColumns():
            return _without(table, [".".join(c) for c in action.columns])
        case DropConstraint():
            return replace(table, constraints=_without_key(table, action.name))
        case DropWatermark():
            if table.watermark is None:
                raise PlanError(f"table '{table.name[-1]}' has no watermark")
            return replace(table, watermark=None)
    words = "PARTITION" if "Partition" in type(action).__name__ else "DISTRIBUTION"
    raise UnsupportedError(
        f"ALTER TABLE … {words} is not supported", hint="tables have no partitions here"
    )


def _reset(options: Mapping[str, str], keys: Sequence[str]) -> Mapping[str, str]:
    if not keys:
        raise PlanError("RESET names no option")
    if "connector" in keys:
        raise PlanError("'connector' cannot be reset", hint="write SET ('connector' = …)")
    return {k: v for k, v in options.items() if k not in keys}


def _renamed(table: CreateTable, action: RenameColumn) -> CreateTable:
    old, new = ".".join(action.column), ".".join(action.name)
    column = _column(table, old)
    if any(c.name == new for c in table.columns):
        raise _there_already(new)
    _check_unused(table, old, table.columns)
    constraints = (
        replace(c, columns=tuple(new if n == old else n for n in c.columns))
        for c in table.constraints
    )
    columns = (replace(c, name=new) if c is column else c for c in table.columns)
    return replace(table, columns=tuple(columns), constraints=tuple(constraints))


def _column(table: CreateTable, name: str) -> ColumnDefinition:
    column = next((c for c in table.columns if c.name == name), None)
    if column is None:
        hint = did_you_mean(name, [c.name for c in table.columns], "column")
        raise PlanError(f"table '{table.name[-1]}' has no column '{name}'", hint=hint)
    return column


def _there_already(name: str) -> PlanError:
    return PlanError(
        f"the table has a column '{name}' already", hint="write MODIFY, or give it another name"
    )


def _check_unused(table: CreateTable, name: str, columns: Iterable[ColumnDefinition]) -> None:
    """Refuses to take a column's name away while these columns, the watermark or the partitions
    name it."""
    user = next(
        (c.name for c in columns if c.expression is not None and name in _names(c.expression)), None
    )
    if user is not None:
        raise PlanError(
            f"computed column '{user}' uses column '{name}'", hint=f"drop '{user}' first"
        )
    mark = table.watermark
    if mark is not None and (name == ".".join(mark.column) or name in _names(mark.expression)):
        raise PlanError(f"the watermark uses column '{name}'", hint="drop the watermark first")
    if name in table.partition_keys:
        raise PlanError(f"column '{name}' is a key of the partitions")


def _names(expression: exp.Expression) -> set[str]:
    """The columns that an expression names; of a.b the row may be meant."""
    return {part.name for c in expression.find_all(exp.Column) for part in c.parts}


def _changed(table: CreateTable, action: ChangeSchema) -> CreateTable:
    """After ADD or MODIFY."""
    twice = next(
        (c for i, c in enumerate(action.columns) if _name(c) in map(_name, action.columns[:i])),
        None,
    )
    if twice is not None:
        raise PlanError(f"column '{_name(twice)}' is named twice")
    columns = list(table.columns)
    for change in action.columns:
        columns = _modified(table, columns, change) if action.modify else _added(columns, change)
    return replace(
        table,
        columns=tuple(columns),
        constraints=_key(table, action),
        watermark=_watermark(table, action).watermark,
    )


def _name(change: ColumnChange) -> str:
    return change.column.name


def _added(columns: list[ColumnDefinition], change: ColumnChange) -> list[ColumnDefinition]:
    if any(c.name == _name(change) for c in columns):
        raise _there_already(_name(change))
    return _placed(columns, change.column, change, len(columns))


def _modified(
    table: CreateTable, columns: list[ColumnDefinition], change: ColumnChange
) -> list[ColumnDefinition]:
    """A column that gets no other place stays in its own, and keeps its comment."""
    old_column = _column(table, _name(change))
    place = next(i for i, c in enumerate(columns) if c.name == old_column.name)
    column = replace(
        change.column,
        comment=old_column.comment if change.column.comment is None else change.column.comment,
    )
    return _placed(columns[:place] + columns[place + 1 :], column, change, place)


def _placed(
    columns: list[ColumnDefinition], column: ColumnDefinition, change: ColumnChange, place: int
) -> list[ColumnDefinition]:
    if change.first:
        place = 0
    elif change.after is not None:
        after = ".".join(change.after)
        place = next((i + 1 for i, c in enumerate(columns) if c.name == after), -1)
        if place < 0:
            hint = did_you_mean(after, [c.name for c in columns], "column")
            raise PlanError(f"column '{after}' of AFTER is not in the table", hint=hint)
    return [*columns[:place], column, *columns[place:]]


def _key(table: CreateTable, action: ChangeSchema) -> tuple[Constraint, ...]:
    if not action.constraints:
        return table.constraints
    if action.modify and not table.constraints:
        raise PlanError(f"table '{table.name[-1]}' has no primary key", hint="write ADD")
    if table.constraints and not action.modify:
        raise PlanError(
            f"table '{table.name[-1]}' has a primary key already",
            hint="write MODIFY, or drop it first",
        )
    return action.constraints


def _watermark(table: CreateTable, action: ChangeSchema) -> CreateTable:
    if action.watermark is None:
        return table
    if action.modify and table.watermark is None:
        raise PlanError(f"table '{table.name[-1]}' has no watermark", hint="write ADD")
    if table.watermark is not None and not action.modify:
        raise PlanError(
            f"table '{table.name[-1]}' has a watermark already",
            hint="write MODIFY, or drop it first",
        )
    return replace(table, watermark=action.watermark)


def _without(table: CreateTable, names: Sequence[str]) -> CreateTable:
    for index, name in enumerate(names):
        _column(table, name)
        if name in names[:index]:
            raise PlanError(f"column '{name}' is named twice")
    kept = tuple(c for c in table.columns if c.name not in names)
    for name in names:
        _check_unused(table, name, kept)
        if name in table.primary_key:
            raise PlanError(
                f"column '{name}' belongs to the primary key", hint="drop the primary key first"
            )
    if not kept:
        raise PlanError("a table keeps one column at least", hint="drop the table")
    return replace(table, columns=kept)


def _without_key(table: CreateTable, name: str | None) -> tuple[Constraint, ...]:
    if not table.constraints:
        raise PlanError(f"table '{table.name[-1]}' has no primary key")
    own = name_of_key(table.constraints[0])
    if name is not None and name != own:
        raise PlanError(f"the primary key is not called '{name}'", hint=f"its name is '{own}'")
    return ()


def name_of_key(constraint: Constraint) -> str:
    """The name of a primary key, which Flink makes from its columns where the text gives none."""
    return constraint.name or f"PK_{'_'.join(constraint.columns)}"
