"""Tables that are made from others: LIKE a table, and AS a query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from parser import parse
from parser.dialect import position_of
from parser.errors import PlanError, Position, UnknownObject
from parser.statements import ColumnDefinition, ColumnKind, CreateTable, Insert, WatermarkDefinition
from parser.types import DataType, TimeAttribute
from planner.binder.scope import did_you_mean
from planner.catalog import Catalog, Table
from udf.casts.coercion import can_assign

_FEATURES = (
    "CONSTRAINTS",
    "DISTRIBUTION",
    "GENERATED",
    "METADATA",
    "OPTIONS",
    "PARTITIONS",
    "WATERMARKS",
)
# Of what there can be one only, nothing can be overwritten.
_NEVER_OVERWRITTEN = ("ALL", "CONSTRAINTS", "DISTRIBUTION", "PARTITIONS")


def definition_of(table: Table) -> CreateTable:
    """The statement that makes the table, as it can be repeated anywhere. Nothing in it has a place
    in a script."""
    (statement,) = parse(table.definition)
    assert isinstance(statement, CreateTable)
    columns = (replace(c, position=None, type_position=None) for c in statement.columns)
    mark = statement.watermark
    return replace(
        statement,
        columns=tuple(columns),
        watermark=replace(mark, position=None) if mark is not None else None,
        constraints=tuple(replace(c, position=None) for c in statement.constraints),
    )


def expanded(statement: CreateTable, catalog: Catalog) -> CreateTable:
    """The statement without LIKE: with what the base table gives. PlanError where both say
    something of the same."""
    like = statement.like
    if like is None:
        return statement
    base = catalog.get(like.table)
    if not isinstance(base, Table):
        message = f"table '{'.'.join(like.table)}' of LIKE does not exist"
        raise UnknownObject(message, hint="SHOW TABLES lists all", position=like.position)
    return _merged(definition_of(base), statement, _strategies(statement))


def _strategies(statement: CreateTable) -> Mapping[str, str]:
    """INCLUDING, EXCLUDING or OVERWRITING for each feature."""
    assert statement.like is not None
    given: dict[str, str] = {}
    for option in statement.like.options:
        if option.feature in given:
            raise PlanError(
                f"{option.feature} is named twice in LIKE", position=statement.like.position
            )
        if option.strategy == "OVERWRITING" and option.feature in _NEVER_OVERWRITTEN:
            hint = f"write EXCLUDING {option.feature}"
            message = f"{option.feature} cannot be overwritten in LIKE"
            raise PlanError(message, hint=hint, position=statement.like.position)
        given[option.feature] = option.strategy
    strategies = dict.fromkeys(_FEATURES, "INCLUDING") | {"OPTIONS": "OVERWRITING"}
    if "ALL" in given:
        strategies = dict.fromkeys(_FEATURES, given["ALL"])
    return strategies | given


def _merged(base: CreateTable, own: CreateTable, strategies: Mapping[str, str]) -> CreateTable:
    """Merges what the new table declares with what it takes from the base.

    As in Flink the partition keys of the base stay also where they are excluded and the new table
    has none."""
    place = own.like.position if own.like is not None else None
    if base.partition_keys and own.partition_keys and strategies["PARTITIONS"] != "EXCLUDING":
        raise _clash("the base table has partitions", "EXCLUDING PARTITIONS", place)
    constraints = () if strategies["CONSTRAINTS"] == "EXCLUDING" else base.constraints
    if constraints and own.constraints:
        raise _clash("the base table has a primary key", "EXCLUDING CONSTRAINTS", own.key_position)
    given = {c.name: c.type for c in base.columns if c.type is not None}
    _check_keys(own, given, "the base table", "write {0} … NOT NULL in the base table")
    return replace(
        own,
        columns=_columns(base.columns, own.columns, strategies),
        watermark=_watermark(base.watermark, own.watermark, strategies["WATERMARKS"]),
        constraints=own.constraints or constraints,
        options=_options(base.options, own, strategies["OPTIONS"]),
        partition_keys=own.partition_keys or base.partition_keys,
        system_time=own.system_time or base.system_time,
        like=None,
    )


def _clash(message: str, remedy: str, position: Position | None) -> PlanError:
    return PlanError(f"{message} already", hint=f"write LIKE … ({remedy})", position=position)


_KINDS = {
    ColumnKind.COMPUTED: ("computed column", "GENERATED"),
    ColumnKind.METADATA: ("metadata column", "METADATA"),
}


def _columns(
    base: Iterable[ColumnDefinition], own: Iterable[ColumnDefinition], strategies: Mapping[str, str]
) -> tuple[ColumnDefinition, ...]:
    """Physical columns always come along; those that are overwritten keep their place."""
    kept = [c for c in base if c.kind not in _KINDS or strategies[_KINDS[c.kind][1]] != "EXCLUDING"]
    columns = {c.name: c for c in kept}
    for column in own:
        inherited = columns.get(column.name)
        if inherited is not None:
            what, feature = _KINDS.get(column.kind, ("column", ""))
            if inherited.kind is not column.kind or not feature:
                message = f"the base table has a column '{column.name}' already"
                raise PlanError(
                    message, hint="give the column another name", position=column.position
                )
            if strategies[feature] != "OVERWRITING":
                message = f"the base table has a {what} '{column.name}'"
                raise _clash(message, f"OVERWRITING {feature}", column.position)
        columns[column.name] = column
    return tuple(columns.values())


def _watermark(
    base: WatermarkDefinition | None, own: WatermarkDefinition | None, strategy: str
) -> WatermarkDefinition | None:
    kept = None if strategy == "EXCLUDING" else base
    if own is None or kept is None:
        return own or kept
    if strategy == "OVERWRITING" and own.column == kept.column:
        return own
    remedy = "EXCLUDING WATERMARKS" if own.column != kept.column else "OVERWRITING WATERMARKS"
    raise _clash(
        f"the base table has a watermark for '{'.'.join(kept.column)}'", remedy, own.position
    )


def _options(base: Mapping[str, str], own: CreateTable, strategy: str) -> Mapping[str, str]:
    if strategy == "EXCLUDING":
        return own.options
    twice = next((k for k in own.options if k in base), None)
    if strategy == "INCLUDING" and twice is not None:
        raise _clash(
            f"the base table has the option '{twice}'",
            "OVERWRITING OPTIONS",
            own.option_places.get(twice),
        )
    return {**base, **own.options}


# ---- AS a query ----------------------------------------------------------------------------------


def table_of_query(
    statement: CreateTable, columns: Mapping[str, DataType]
) -> tuple[CreateTable, Insert]:
    """CREATE TABLE … AS as the table without its query, and the INSERT that fills it. `columns` are
    those of the query. Columns that only the statement names come first; they get NULL. One that
    both name has the statement's type."""
    query = statement.query
    assert query is not None
    if statement.temporary:
        hint = "create the table first, then write INSERT INTO"
        raise PlanError(
            "CREATE TEMPORARY TABLE … AS does not exist", hint=hint, position=statement.position
        )
    _check_keys(statement, columns, "the query", "write COALESCE({0}, …) AS {0}")
    declared = {c.name: c for c in statement.columns}
    given = {n: _column(n, t, declared.get(n)) for n, t in columns.items()}
    own = [c for c in statement.columns if c.name not in given]
    ordered = _ordered(statement, given)
    insert = Insert(
        statement.name,
        tuple((n,) for n in columns) if own or ordered != tuple(given.values()) else (),
        query,
        places=(position_of(query) or statement.position,) * len(columns),
        position=statement.position,
        subject=statement.subject,
    )
    return (
        replace(statement, columns=(*own, *ordered), query=None, column_order=(), replace=False),
        insert,
    )


def _column(name: str, kind: DataType, declared: ColumnDefinition | None) -> ColumnDefinition:
    plain = kind.as_attribute(TimeAttribute.NONE)
    if declared is None:
        return ColumnDefinition(name, ColumnKind.PHYSICAL, plain)
    if declared.type is None:
        message = f"computed column '{name}' has the name of a column of the query"
        raise PlanError(message, hint="give it another name", position=declared.position)
    if not can_assign(plain, declared.type):
        raise PlanError(
            f"column '{name}' is declared as {declared.type.plain}, but the query gives"
            f" {plain.plain}",
            hint=f"write CAST({name} AS {declared.type.plain}) AS {name} in the query",
            position=declared.type_position or declared.position,
        )
    return declared


def _ordered(
    statement: CreateTable, given: Mapping[str, ColumnDefinition]
) -> tuple[ColumnDefinition, ...]:
    """Returns the columns in the order of the names before AS, which must be all of them."""
    names = [".".join(n) for n in statement.column_order]
    for name in names:
        if name not in given:
            hint = did_you_mean(name, list(given), "column")
            raise PlanError(
                f"the query has no column '{name}'", hint=hint, position=statement.position
            )
    if not names:
        return tuple(given.values())
    if sorted(names) != sorted(given):
        message = f"{len(names)} columns are named, but the query has {len(given)}"
        raise PlanError(message, detail=f"query: {', '.join(given)}", position=statement.position)
    return tuple(given[n] for n in names)


def _check_keys(
    statement: CreateTable, columns: Mapping[str, DataType], source: str, remedy: str
) -> None:
    """A primary key over columns that `source` gives may not be NULL; `remedy` with the name of the
    column."""
    for name in statement.primary_key:
        if name in columns and columns[name].nullable:
            raise PlanError(
                f"primary key column '{name}' may be NULL in {source}",
                hint=remedy.format(name),
                position=statement.key_position,
            )
