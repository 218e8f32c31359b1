"""ALTER and DROP."""

from __future__ import annotations

from collections.abc import Callable

from parser.alterations import (
    Action,
    AddPartitions,
    Alter,
    ChangeDistribution,
    ChangeSchema,
    ColumnChange,
    Drop,
    DropColumns,
    DropConstraint,
    DropDistribution,
    DropPartitions,
    DropWatermark,
    NewPartition,
    Partition,
    Refresh,
    Rename,
    RenameColumn,
    ResetOptions,
    Resume,
    SetComment,
    SetFreshness,
    SetFunction,
    SetOptions,
    SetQuery,
    SetRefreshMode,
    Suspend,
)
from parser.definitions import Kind, Name
from parser.errors import Position
from parser.grammar.ddl import freshness
from parser.grammar.properties import (
    distribution,
    if_exists,
    if_not_exists,
    option_keys,
    options_of,
    partition,
    with_options,
)
from parser.grammar.queries import QueryParser
from parser.grammar.tables import Elements, element


def drop(cursor: QueryParser) -> Drop:
    """DROP [TEMPORARY [SYSTEM]] kind [IF EXISTS] name."""
    first = cursor.advance()
    temporary = cursor.take("TEMPORARY")
    system = cursor.take("SYSTEM")
    kind = _kind(cursor)
    if (system and kind not in (Kind.FUNCTION, Kind.CONNECTION)) or (
        temporary and kind in _NEVER_TEMPORARY
    ):
        raise cursor.unexpected(f"no {kind.words} is temporary in this way")
    missing_ok = if_exists(cursor)
    named = cursor.token
    name = cursor.path(f"the name of a {kind.words.lower()}")
    subject = cursor.span(named)
    cascade = kind is Kind.DATABASE and cursor.take_any("CASCADE", "RESTRICT") == "CASCADE"
    return Drop(
        kind, name, temporary, missing_ok, system, cascade, position=first.position, subject=subject
    )


_NEVER_TEMPORARY = (Kind.MATERIALIZED_TABLE, Kind.CATALOG, Kind.DATABASE)
_KINDS = (
    *(Kind.TABLE, Kind.VIEW, Kind.FUNCTION, Kind.CATALOG),
    *(Kind.DATABASE, Kind.MODEL, Kind.CONNECTION, Kind.MATERIALIZED_TABLE),
)


def _kind(cursor: QueryParser) -> Kind:
    if cursor.take("MATERIALIZED"):
        cursor.expect("TABLE")
        return Kind.MATERIALIZED_TABLE
    for kind in _KINDS:
        if cursor.take(kind.value):
            return kind
    raise cursor.unexpected("expected " + ", ".join(k.words for k in _KINDS))


def alter(cursor: QueryParser) -> Alter:
    """ALTER [TEMPORARY [SYSTEM]] kind [IF EXISTS] name action."""
    first = cursor.advance()
    temporary = cursor.take("TEMPORARY")
    system = temporary and cursor.take("SYSTEM")
    kind = _kind(cursor)
    if temporary and kind is not Kind.FUNCTION:
        raise cursor.unexpected("expected FUNCTION")
    missing_ok = kind in _IF_EXISTS and if_exists(cursor)
    name = cursor.path(f"the name of a {kind.words.lower()}")
    action = _ACTIONS[kind].get(cursor.token.word)
    if action is None:
        raise cursor.unexpected("expected " + ", ".join(_ACTIONS[kind]))
    cursor.advance()
    return Alter(kind, name, action(cursor), missing_ok, temporary, system, position=first.position)


_IF_EXISTS = (Kind.TABLE, Kind.FUNCTION, Kind.MODEL, Kind.CONNECTION)


def _rename(cursor: QueryParser) -> Action:
    if cursor.take("TO"):
        return Rename(cursor.path("a name"))
    raise cursor.unexpected("expected TO")


def _rename_in_table(cursor: QueryParser) -> Action:
    if cursor.at("TO"):
        return _rename(cursor)
    column = cursor.field_path("TO, or a column")
    cursor.expect("TO")
    return RenameColumn(column, cursor.field_path("a name"))


def _set(cursor: QueryParser) -> Action:
    places: dict[str, Position] = {}
    return SetOptions(options_of(cursor, places), places)


def _set_in_materialized_table(cursor: QueryParser) -> Action:
    if cursor.take("FRESHNESS", "="):
        return SetFreshness(freshness(cursor))
    if cursor.take("REFRESH_MODE", "="):
        return SetRefreshMode(cursor.one_of("FULL", "CONTINUOUS"))
    return _set(cursor)


def _reset(cursor: QueryParser) -> Action:
    return ResetOptions(option_keys(cursor))


def _comment(cursor: QueryParser) -> Action:
    return SetComment(cursor.string("a comment"))


def _query(cursor: QueryParser) -> Action:
    return SetQuery(cursor.query())


def _as_function(cursor: QueryParser) -> Action:
    class_name = cursor.string("the function's place")
    language = cursor.one_of("PYTHON", "JAVA", "SCALA", "SQL") if cursor.take("LANGUAGE") else None
    return SetFunction(class_name, language)


def _add(cursor: QueryParser) -> Action:
    if cursor.at("PARTITION") or cursor.at("IF", "NOT", "EXISTS"):
        return _add_partitions(cursor)
    if cursor.take("DISTRIBUTION"):
        return ChangeDistribution(distribution(cursor))
    return _schema(cursor, modify=False)


def _modify(cursor: QueryParser) -> Action:
    if cursor.take("DISTRIBUTION"):
        return ChangeDistribution(distribution(cursor), modify=True)
    return _schema(cursor, modify=True)


def _schema(cursor: QueryParser, modify: bool) -> Action:
    """Parses one element, or several in parentheses."""
    elements = Elements()
    changes: list[ColumnChange] = []

    def change() -> None:
        column = element(cursor, elements)
        if column is not None:
            after, first = _place(cursor)
            changes.append(ColumnChange(column, after, first))

    if cursor.at("("):
        cursor.wrapped(change)
    else:
        change()
    return ChangeSchema(tuple(changes), tuple(elements.constraints), elements.watermark, modify)


def _place(cursor: QueryParser) -> tuple[Name | None, bool]:
    """[FIRST | AFTER column]."""
    if cursor.take("AFTER"):
        return cursor.field_path("a column"), False
    return None, cursor.take("FIRST")


def _add_partitions(cursor: QueryParser) -> Action:
    if_missing = if_not_exists(cursor)
    partitions: list[NewPartition] = []
    while not partitions or cursor.at("PARTITION"):
        cursor.expect("PARTITION")
        values = partition(cursor)
        partitions.append(NewPartition(values, with_options(cursor)))
    return AddPartitions(tuple(partitions), if_missing)


def _drop(cursor: QueryParser) -> Action:
    if cursor.at("PARTITION") or cursor.at("IF", "EXISTS"):
        missing_ok = if_exists(cursor)
        return DropPartitions(tuple(cursor.list_of(lambda: _dropped_partition(cursor))), missing_ok)
    if cursor.take("PRIMARY"):
        cursor.expect("KEY")
        return DropConstraint()
    if cursor.take("CONSTRAINT"):
        return DropConstraint(cursor.name("the name of a constraint").text)
    if cursor.take("DISTRIBUTION"):
        return DropDistribution()
    if cursor.take("WATERMARK"):
        return DropWatermark()
    if cursor.at("("):
        return DropColumns(tuple(cursor.wrapped(lambda: cursor.field_path("a column"))))
    return DropColumns(
        (cursor.field_path("a column, PRIMARY KEY, CONSTRAINT, WATERMARK or PARTITION"),)
    )


def _dropped_partition(cursor: QueryParser) -> Partition:
    cursor.expect("PARTITION")
    return partition(cursor)


def _refresh(cursor: QueryParser) -> Action:
    return Refresh(partition(cursor) if cursor.take("PARTITION") else ())


_SCHEMA: dict[str, Callable[[QueryParser], Action]] = {
    "ADD": _add,
    "MODIFY": _modify,
    "DROP": _drop,
    "RESET": _reset,
}
_OPTIONS: dict[str, Callable[[QueryParser], Action]] = {
    "RENAME": _rename,
    "SET": _set,
    "RESET": _reset,
}
_ACTIONS: dict[Kind, dict[str, Callable[[QueryParser], Action]]] = {
    Kind.TABLE: {"RENAME": _rename_in_table, "SET": _set, **_SCHEMA},
    Kind.MATERIALIZED_TABLE: {
        "SET": _set_in_materialized_table,
        "SUSPEND": lambda cursor: Suspend(),
        "RESUME": lambda cursor: Resume(with_options(cursor)),
        "REFRESH": _refresh,
        "AS": _query,
        **_SCHEMA,
    },
    Kind.VIEW: {"RENAME": _rename, "AS": _query},
    Kind.FUNCTION: {"AS": _as_function},
    Kind.CATALOG: {"SET": _set, "RESET": _reset, "COMMENT": _comment},
    Kind.DATABASE: {"SET": _set},
    Kind.MODEL: _OPTIONS,
    Kind.CONNECTION: _OPTIONS,
}
