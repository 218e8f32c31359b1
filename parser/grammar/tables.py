"""Columns, watermarks and constraints, and CREATE TABLE around them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from parser.definitions import (
    ColumnDefinition,
    ColumnKind,
    Constraint,
    CreateTable,
    Distribution,
    LikeOption,
    Name,
    TableLike,
    WatermarkDefinition,
)
from parser.errors import ParseError, Position
from parser.grammar.datatypes import begins_type, data_type
from parser.grammar.lexer import Token
from parser.grammar.properties import comment, distribution, if_not_exists, names, with_options
from parser.grammar.queries import QueryParser

_FEATURES = "ALL CONSTRAINTS DISTRIBUTION GENERATED METADATA OPTIONS PARTITIONS WATERMARKS".split()


@dataclass
class Elements:
    """The elements in the parentheses of CREATE TABLE, ADD or MODIFY."""

    columns: list[ColumnDefinition] = field(default_factory=list)
    constraints: list[Constraint] = field(default_factory=list)
    watermark: WatermarkDefinition | None = None
    column_order: tuple[Name, ...] = ()
    system_time: bool = False
    _names: set[Name] = field(default_factory=set)

    def name(self, name: Name, token: Token) -> None:
        """Notes the name of one more column. ParseError where there is one of that name."""
        if name in self._names:
            raise ParseError(f"column '{token.text}' is declared twice", position=token.position)
        self._names.add(name)

    def add_constraint(self, constraint: Constraint) -> None:
        if not constraint.unique and any(not c.unique for c in self.constraints):
            raise ParseError("the table has its primary key already", position=constraint.position)
        self.constraints.append(constraint)


def create_table(
    cursor: QueryParser, first: Token, temporary: bool, replaced: bool, created: bool = True
) -> CreateTable:
    """TABLE …, the rest of CREATE TABLE, CREATE OR REPLACE TABLE and REPLACE TABLE."""
    cursor.expect("TABLE")
    if_missing = if_not_exists(cursor)
    named = cursor.token
    name = cursor.path("the name of a table")
    subject = cursor.span(named)
    elements = table_elements(cursor)
    text = comment(cursor)
    divided, keys = storage(cursor)
    places: dict[str, Position] = {}
    options = with_options(cursor, places)
    columns, constraints, position = (
        tuple(elements.columns),
        tuple(elements.constraints),
        first.position,
    )
    statement = CreateTable(
        name, columns, elements.watermark, constraints, options, position=position
    )
    statement = replace(statement, temporary=temporary, if_not_exists=if_missing, comment=text)
    statement = replace(
        statement, distribution=divided, partition_keys=keys, replace=replaced, create=created
    )
    order, period = elements.column_order, elements.system_time
    statement = replace(statement, column_order=order, system_time=period, subject=subject)
    return _derived(cursor, replace(statement, option_places=places))


def _derived(cursor: QueryParser, statement: CreateTable) -> CreateTable:
    """Parses LIKE or AS, if one of them follows."""
    if cursor.at("LIKE") and statement.create:
        return replace(statement, like=_like(cursor))
    if cursor.take("AS"):
        return replace(statement, query=cursor.query())
    if statement.replace or statement.column_order:
        raise cursor.unexpected("expected AS")
    if not statement.columns and not statement.options:
        raise cursor.unexpected("expected the columns in parentheses")
    return statement


def table_elements(cursor: QueryParser) -> Elements:
    """(column | watermark | constraint, …), or () where there is no parenthesis."""
    elements = Elements()
    if cursor.at("(") and _only_names(cursor):
        elements.column_order = tuple(cursor.wrapped(lambda: cursor.field_path("a column")))
    elif cursor.at("("):
        cursor.wrapped(lambda: element(cursor, elements))
    return elements


def _only_names(cursor: QueryParser) -> bool:
    """True if the parenthesis begins with a name that has no type."""
    ahead = 2
    while cursor.peek(ahead).word == ".":
        ahead += 2
    return cursor.peek(1).is_name and cursor.peek(ahead).word in (",", ")")


def storage(cursor: QueryParser) -> tuple[Distribution | None, tuple[str, ...]]:
    """[DISTRIBUTED …] [PARTITIONED BY (…)]."""
    divided = distribution(cursor) if cursor.take("DISTRIBUTED") else None
    keys: tuple[str, ...] = ()
    if cursor.take("PARTITIONED"):
        cursor.expect("BY")
        keys = names(cursor, "a column")
    return divided, keys


def _like(cursor: QueryParser) -> TableLike:
    first = cursor.advance()
    table = cursor.path("the name of a table")
    options: list[LikeOption] = []
    if cursor.take("("):
        while not options or not cursor.at(")"):
            strategy = cursor.one_of("INCLUDING", "EXCLUDING", "OVERWRITING")
            options.append(LikeOption(strategy, cursor.one_of(*_FEATURES)))
        cursor.expect(")")
    return TableLike(table, tuple(options), first.position)


def element(cursor: QueryParser, elements: Elements) -> ColumnDefinition | None:
    """A column (which is given back), a watermark or a constraint of the table."""
    word = cursor.token.word
    if word == "WATERMARK":
        if elements.watermark is not None:
            raise ParseError("the table has its watermark already", position=cursor.token.position)
        elements.watermark = _watermark(cursor)
    elif word in ("CONSTRAINT", "PRIMARY", "UNIQUE"):
        elements.add_constraint(_constraint(cursor))
    elif cursor.take("PERIOD", "FOR", "SYSTEM_TIME"):
        elements.system_time = True
    else:
        return _column(cursor, elements)
    return None


def _watermark(cursor: QueryParser) -> WatermarkDefinition:
    first = cursor.advance()
    name = cursor.name("FOR").text if not cursor.at("FOR") else None
    cursor.expect("FOR")
    column = cursor.field_path("a column")
    cursor.expect("AS")
    return WatermarkDefinition(column, cursor.expression(), name, first.position)


def _constraint(cursor: QueryParser, column: str | None = None) -> Constraint:
    """[CONSTRAINT name] PRIMARY KEY | UNIQUE [(columns)] [[NOT] ENFORCED]; behind a column that
    column is meant."""
    first = cursor.token
    name = cursor.name("the name of a constraint").text if cursor.take("CONSTRAINT") else None
    unique = cursor.take("UNIQUE")
    if not unique:
        cursor.expect("PRIMARY", "KEY")
    columns = (column,) if column is not None else names(cursor, "a column")
    enforced = None
    if cursor.take("NOT", "ENFORCED"):
        enforced = False
    elif cursor.take("ENFORCED"):
        enforced = True
    return Constraint(columns, unique, name, enforced, first.position)


def _column(cursor: QueryParser, elements: Elements) -> ColumnDefinition:
    token = cursor.token
    *path, name = cursor.field_path("a column, WATERMARK or PRIMARY KEY")
    elements.name((*path, name), token)
    if cursor.take("AS"):
        kind, expression = ColumnKind.COMPUTED, cursor.expression()
        column = ColumnDefinition(
            name, kind, expression=expression, path=tuple(path), position=token.position
        )
    else:
        column = _typed_column(cursor, elements, name, tuple(path), token)
    column = replace(column, comment=comment(cursor))
    elements.columns.append(column)
    return column


def _typed_column(
    cursor: QueryParser, elements: Elements, name: str, path: Name, token: Token
) -> ColumnDefinition:
    if not cursor.token.is_name or not begins_type(cursor.token.word):
        raise cursor.unexpected("expected a type")
    first = cursor.token
    column_type = data_type(cursor)
    place = cursor.span(first)
    kind, key, virtual = ColumnKind.PHYSICAL, None, False
    if cursor.take("METADATA"):
        kind = ColumnKind.METADATA
        key = cursor.string("the key of the metadata") if cursor.take("FROM") else name
        virtual = cursor.take("VIRTUAL")
    elif cursor.take("HEADER"):
        kind = ColumnKind.HEADER
    elif cursor.token.word in ("CONSTRAINT", "PRIMARY", "UNIQUE"):
        elements.add_constraint(_constraint(cursor, name))
    if cursor.at("DEFAULT"):
        raise cursor.unsupported("DEFAULT", "use COALESCE in the INSERT")
    column = ColumnDefinition(
        name, kind, column_type, None, key, virtual, path=path, position=token.position
    )
    return replace(column, type_position=place)
