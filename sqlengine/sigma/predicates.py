"""A value of a rule as a condition over a column.

Sigma compares texts without case, `cased` ones with it; both sides of the first are lowercase, so
that all rules share one lowercase column."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from parser.errors import SqlError
from parser.types import Root
from parser.writer.names import quoted
from sqlengine.sigma.reading import Reading, Replacement, SqlTest, Unconvertible
from sqlengine.sigma.rules import (
    AnyOf,
    Comparison,
    Exists,
    FieldReference,
    Match,
    Network,
    Null,
    Number,
    Placeholder,
    Regex,
    Text,
    Truth,
    Value,
    Wildcard,
)
from sqlengine.sigma.tables import Column
from udf.java.regex import translate

_INTEGERS = {Root.TINYINT: 7, Root.SMALLINT: 15, Root.INT: 31, Root.BIGINT: 63}
_NUMBERS = frozenset({*_INTEGERS, Root.FLOAT, Root.DOUBLE, Root.DECIMAL})
_TIMES = frozenset({Root.TIMESTAMP, Root.TIMESTAMP_LTZ, Root.DATE})


def any_of(tests: list[str]) -> str:
    return tests[0] if len(tests) == 1 else "(" + " OR ".join(tests) + ")"


def test(match: Match, reading: Reading) -> str:
    """Returns a match as SQL that needs no parentheses beside AND and OR."""
    if match.field is None:
        found = [k for v in _keywords(match.value, reading) for k in _searches(v, reading)]
        return any_of(found)
    return any_of(list(_tests(match.value, reading.column(match.field), reading)))


# ---- keywords --------------------------------------------------------------------------------


def _keywords(value: Value, reading: Reading) -> Iterator[Text | Regex]:
    match value:
        case AnyOf(values):
            for each in values:
                yield from _keywords(each, reading)
        case Text():
            yield value
        case Regex():
            yield value
        case Number(number):
            yield Text((str(number),))
        case _:
            raise Unconvertible(f"a {type(value).__name__.lower()} cannot be a keyword")


def _searches(value: Text | Regex, reading: Reading) -> Iterator[str]:
    anywhere, digits = value, False
    if isinstance(value, Text):
        anywhere = Text((Wildcard.MANY, *value.parts, Wildcard.MANY), value.cased)
        digits = "".join(p for p in value.parts if isinstance(p, str)).isdecimal()
    for column in reading.searched(digits):
        yield from _tests(anywhere, column, reading)


# ---- values of a field -------------------------------------------------------------------------


def _tests(value: Value, column: Column, reading: Reading) -> Iterator[str]:
    """Yields conditions any of which is meant."""
    match value:
        case AnyOf(values):
            for each in values:
                yield from _tests(each, column, reading)
        case Text():
            yield from _texts(value, column, reading)
        case Regex():
            yield from _patterns(value, column, reading)
        case Number(number):
            yield _number(number, column)
        case Truth(truth):
            yield _truth(truth, column)
        case Null():
            yield f"{column.sql} IS NULL"
        case Exists(wanted):
            yield f"{column.sql} IS {'NOT ' if wanted else ''}NULL"
        case Network(cidr):
            yield f"CIDR_MATCH({column.text}, {quoted(cidr)})"
        case Comparison():
            yield _comparison(value, column)
        case FieldReference():
            yield _reference(value, column, reading.column(value.field))


def _texts(value: Text, column: Column, reading: Reading) -> Iterator[str]:
    names = [p.name for p in value.parts if isinstance(p, Placeholder)]
    choices = [_values_of(name, reading) for name in names]
    for chosen in product(*choices):
        tests = [c for c in chosen if isinstance(c, SqlTest)]
        if tests and len(value.parts) > 1:
            raise Unconvertible(
                f"placeholder %{names[0]}% stands for a condition, and cannot be a part of a text"
            )
        if tests:
            yield f"({tests[0].text.replace('{field}', column.sql)})"
            continue
        given = iter(chosen)
        parts = [next(given) if isinstance(p, Placeholder) else (p,) for p in value.parts]
        plain = [p for some in parts if not isinstance(some, SqlTest) for p in some]
        yield _text([p for p in plain if not isinstance(p, Placeholder)], value.cased, column)


def _values_of(name: str, reading: Reading) -> tuple[Replacement, ...]:
    found = reading.placeholders.get(name)
    if not found:
        raise Unconvertible(
            f"placeholder %{name}% has no values",
            hint=f"give it some in the mapping: 'placeholders: {{{name}: [...]}}'",
        )
    return found


def _text(parts: list[str | Wildcard], cased: bool, column: Column) -> str:
    """Returns the test of a text whose wildcards are `parts`."""
    plain = "".join(p for p in parts if isinstance(p, str))
    if not any(isinstance(p, Wildcard) for p in parts):
        return _equal(plain, cased, column)
    if all(p is Wildcard.MANY for p in parts):
        return f"{column.sql} IS NOT NULL"
    pattern = "".join(_in_like(p) for p in _merged(parts))
    special = any(c in plain for c in "\\%_")
    subject = column.text if cased else f"LOWER({column.text})"
    text = quoted(pattern if cased else pattern.lower())
    return f"{subject} LIKE {text}" + (" ESCAPE '\\'" if special else "")


def _merged(parts: list[str | Wildcard]) -> Iterator[str | Wildcard]:
    """Yields parts without a second of two wildcards for any text."""
    before: str | Wildcard = ""
    for part in parts:
        if part is not Wildcard.MANY or before is not Wildcard.MANY:
            yield part
        before = part


def _in_like(part: str | Wildcard) -> str:
    if isinstance(part, Wildcard):
        return "%" if part is Wildcard.MANY else "_"
    return part.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _equal(text: str, cased: bool, column: Column) -> str:
    root = column.type.root
    if root in _INTEGERS and text.removeprefix("-").isdecimal() and text.isascii():
        return _number(int(text), column)
    if root is Root.BOOLEAN and text.lower() in ("true", "false"):
        return _truth(text.lower() == "true", column)
    if cased:
        return f"{column.text} = {quoted(text)}"
    return f"LOWER({column.text}) = {quoted(text.lower())}"


def _number(number: float, column: Column) -> str:
    root = column.type.root
    if root in _INTEGERS and isinstance(number, int) and abs(number) >> _INTEGERS[root]:
        return f"CAST({column.sql} AS STRING) = '{number}'"
    if root in _NUMBERS:
        return f"{column.sql} = {number}"
    return f"LOWER({column.text}) = {quoted(str(number).lower())}"


def _truth(truth: bool, column: Column) -> str:
    root = column.type.root
    if root is Root.BOOLEAN:
        return f"{column.sql} = {str(truth).upper()}"
    if root in _NUMBERS:
        return f"{column.sql} = {int(truth)}"
    return f"LOWER({column.text}) = '{str(truth).lower()}'"


def _patterns(value: Regex, column: Column, reading: Reading) -> Iterator[str]:
    names = [p.name for p in value.parts if isinstance(p, Placeholder)]
    for chosen in product(*(_values_of(name, reading) for name in names)):
        given = iter(chosen)
        parts = [_in_pattern(next(given)) if isinstance(p, Placeholder) else p for p in value.parts]
        flags = f"(?{value.flags})" if value.flags else ""
        pattern = flags + "".join(parts)
        try:
            translate(pattern)
        except SqlError as error:
            raise Unconvertible(
                f"REGEXP cannot be asked for '{pattern}'", detail=error.reason
            ) from None
        yield f"REGEXP({column.text}, {quoted(pattern)})"


def _in_pattern(value: Replacement) -> str:
    if isinstance(value, SqlTest):
        raise Unconvertible("a placeholder in a regular expression cannot stand for a condition")
    plain = [p for p in value if not isinstance(p, Placeholder)]
    return "".join(p if isinstance(p, str) else p.value for p in plain)


def _comparison(value: Comparison, column: Column) -> str:
    root = column.type.root
    if value.part is not None:
        return f"EXTRACT({value.part} FROM {_time(column)}) {value.operator} {value.value}"
    if root in _NUMBERS:
        return f"{column.sql} {value.operator} {value.value}"
    if column.is_text:
        return f"TRY_CAST({column.sql} AS DOUBLE) {value.operator} {value.value}"
    raise Unconvertible(f"{column.sql} is {column.type}, and has no order beside a number")


def _time(column: Column) -> str:
    """Returns a time; of a text its first 19 characters, with a space or a T before the hour."""
    if column.type.root in _TIMES:
        return column.sql
    if column.is_text:
        return f"TRY_CAST(REPLACE(SUBSTRING({column.sql} FROM 1 FOR 19), 'T', ' ') AS TIMESTAMP(0))"
    raise Unconvertible(f"{column.sql} is {column.type}, and no time")


def _reference(value: FieldReference, column: Column, other: Column) -> str:
    if not (value.starts or value.ends) and column.type.same_as(other.type) and not column.is_text:
        return f"{column.sql} = {other.sql}"
    own, its = f"LOWER({column.text})", f"LOWER({other.text})"
    if value.starts and value.ends:
        return f"POSITION({its} IN {own}) > 0"
    if value.starts or value.ends:
        return f"{'STARTSWITH' if value.starts else 'ENDSWITH'}({own}, {its})"
    return f"{own} = {its}"
