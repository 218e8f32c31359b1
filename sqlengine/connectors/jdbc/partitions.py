"""Partitions of a table in a database: ranges of one of its columns, which are read apart.

    'scan.partition.column' = 'id', 'scan.partition.num' = '4',
    'scan.partition.lower-bound' = '1', 'scan.partition.upper-bound' = '1000'

As in Flink the bounds are included, and rows outside of them, or with NULL, are not read. Unlike
Flink's BETWEEN, ranges meet: no value, such as 10.5, falls between two of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

from parser.errors import OptionError
from parser.types import Column, Root
from planner.catalog import Table
from sqlengine.connectors.jdbc.dialect import MARK, Dialect
from sqlengine.connectors.jdbc.driver import Value

PARTITION: Final = "scan.partition."
_COLUMN, _NUMBER = PARTITION + "column", PARTITION + "num"
_LOWER, _UPPER = PARTITION + "lower-bound", PARTITION + "upper-bound"
_NAMES: Final = (_COLUMN, _NUMBER, _LOWER, _UPPER)
_BEGINNING: Final = datetime(1970, 1, 1)
_MICRO: Final = timedelta(microseconds=1)


@dataclass(frozen=True)
class Partition:
    """The rows whose `column` is from `start` on, up to `stop`, which is `included` in the last
    partition alone."""

    column: str
    start: Value
    stop: Value
    included: bool = False

    def condition(self, dialect: Dialect) -> str:
        """The condition in SQL; its values are `start` and `stop`."""
        name = dialect.quoted(self.column)
        return f"{name} >= {MARK} AND {name} {'<=' if self.included else '<'} {MARK}"


@dataclass(frozen=True)
class _Axis:
    """Converts bounds of a column to whole numbers, and these to values for the database."""

    what: str
    number: Callable[[str], int]
    value: Callable[[int], Value]


_NUMBERS: Final = _Axis("a whole number", int, lambda n: n)
_AXES: Final[Mapping[Root, _Axis]] = {
    **dict.fromkeys((Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT), _NUMBERS),
    **dict.fromkeys((Root.FLOAT, Root.DOUBLE, Root.DECIMAL), _NUMBERS),
    Root.DATE: _Axis(
        "a date (2024-05-01)",
        lambda text: date.fromisoformat(text).toordinal(),
        lambda n: date.fromordinal(n).isoformat(),
    ),
    Root.TIMESTAMP: _Axis(
        "a time (2024-05-01 12:00:00)",
        lambda text: (datetime.fromisoformat(text).replace(tzinfo=None) - _BEGINNING) // _MICRO,
        lambda n: (_BEGINNING + n * _MICRO).isoformat(" "),
    ),
}


def partitions_of(table: Table, options: Mapping[str, object]) -> list[Partition]:
    """The partitions of a table, by its options; none where these name none. OptionError for one
    that is missing or wrong."""
    given = [name for name in _NAMES if options[name] is not None]
    if not given:
        return []
    for name in _NAMES:
        if name not in given:
            raise OptionError(
                f"table '{table.display}' has no option '{name}', which '{given[0]}' needs",
                hint="give all of " + ", ".join(_NAMES),
                subject=given[0],
            )
    column = _column(table, str(options[_COLUMN]))
    axis = _AXES[column.type.root]
    lower, upper = (_bound(axis, column, name, str(options[name])) for name in (_LOWER, _UPPER))
    if lower > upper:
        raise OptionError(f"option '{_LOWER}' is above '{_UPPER}'", subject=_LOWER)
    wanted = options[_NUMBER]
    assert isinstance(wanted, int)
    span = upper - lower + 1
    number = min(wanted, span)
    starts = [axis.value(lower + span * n // number) for n in range(number)]
    stops = [*starts[1:], axis.value(upper)]
    return [
        Partition(column.name, start, stop, included=n == number - 1)
        for n, (start, stop) in enumerate(zip(starts, stops, strict=True))
    ]


def _column(table: Table, name: str) -> Column:
    for column in table.physical:
        if column.name == name:
            if column.type.root not in _AXES:
                raise OptionError(
                    f"option '{_COLUMN}' names column '{name}', which is {column.type.plain}",
                    hint="name one of numbers, a DATE or a TIMESTAMP",
                    subject=_COLUMN,
                )
            return column
    raise OptionError(
        f"option '{_COLUMN}' names '{name}', which is no column of table '{table.display}'",
        hint="columns: " + ", ".join(table.physical.names),
        subject=_COLUMN,
    )


def _bound(axis: _Axis, column: Column, name: str, text: str) -> int:
    try:
        return axis.number(text.strip())
    except (ValueError, OverflowError):
        raise OptionError(
            f"invalid value '{text}' of option '{name}'",
            hint=f"column '{column.name}' is {column.type.plain}: write {axis.what}",
            subject=name,
        ) from None
