"""The small parts that many statements have: options, partitions, distributions, IF [NOT]
EXISTS."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot.tokenizer_core import TokenType

from parser.alterations import Partition, PartitionValue
from parser.definitions import Distribution
from parser.errors import ParseError, Position
from parser.grammar.cursor import Cursor
from parser.grammar.recursion import RecursiveCursor


def if_not_exists(cursor: Cursor) -> bool:
    return cursor.take("IF", "NOT", "EXISTS")


def if_exists(cursor: Cursor) -> bool:
    return cursor.take("IF", "EXISTS")


def comment(cursor: Cursor) -> str | None:
    return cursor.string("a comment") if cursor.take("COMMENT") else None


def with_options(cursor: Cursor, places: dict[str, Position] | None = None) -> Mapping[str, str]:
    """WITH (…), empty where there is none."""
    return options_of(cursor, places) if cursor.take("WITH") else {}


def options_of(cursor: Cursor, places: dict[str, Position] | None = None) -> Mapping[str, str]:
    """('key' = 'value', …), in the order of the text. RSQLDB's keys stand without quotes: type, or
    a.b. Where each key stands is put into `places`, if they are given."""
    options: dict[str, str] = {}

    def option() -> None:
        token = cursor.token
        key = _key(cursor)
        if key in options:
            raise ParseError(f"option '{key}' is given twice", position=token.position)
        if places is not None:
            places[key] = token.position
        cursor.expect("=")
        options[key] = cursor.string(f"the value of option '{key}'")

    cursor.expect("(")
    if not cursor.take(")"):
        cursor.list_of(option)
        cursor.expect(")")
    return options


def option_keys(cursor: Cursor) -> tuple[str, ...]:
    """('key', …)."""
    if cursor.take("(", ")"):
        return ()
    return tuple(cursor.wrapped(lambda: _key(cursor)))


def _key(cursor: Cursor) -> str:
    if not cursor.token.is_name:
        return cursor.string("the name of an option")
    parts = [cursor.advance().text]
    while cursor.take("."):
        if not cursor.token.is_name:
            raise cursor.unexpected("expected the name of an option")
        parts.append(cursor.advance().text)
    return ".".join(parts)


def names(cursor: Cursor, what: str) -> tuple[str, ...]:
    """(name, …)."""
    return tuple(cursor.wrapped(lambda: cursor.name(what).text))


def partition(cursor: RecursiveCursor, values: bool = True) -> Partition:
    """(name = literal, …); where `values` is False, a name alone is enough."""
    return tuple(cursor.wrapped(lambda: _partition_value(cursor, values)))


def _partition_value(cursor: RecursiveCursor, needed: bool) -> PartitionValue:
    name = cursor.name("a column").text
    if not needed and not cursor.at("="):
        return PartitionValue(name)
    cursor.expect("=")
    return PartitionValue(name, cursor.expression())


def distribution(cursor: Cursor) -> Distribution:
    """BY [HASH | RANGE] (columns) [INTO n BUCKETS], or INTO n BUCKETS."""
    first = cursor.token
    method: str | None = None
    columns: tuple[str, ...] = ()
    if cursor.take("BY"):
        method = cursor.take_any("HASH", "RANGE")
        columns = names(cursor, "a column")
    elif not cursor.at("INTO"):
        raise cursor.unexpected("expected BY or INTO")
    return Distribution(columns, method, _buckets(cursor), first.position)


def _buckets(cursor: Cursor) -> int | None:
    if not cursor.take("INTO"):
        return None
    if cursor.token.token_type is not TokenType.NUMBER:
        raise cursor.unexpected("expected the number of buckets")
    buckets = cursor.integer("the number of buckets")
    cursor.expect("BUCKETS")
    return buckets
